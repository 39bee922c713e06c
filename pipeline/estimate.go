package pipeline

import (
	"context"
	"sync"

	"extraction-experiment/outcome"
)

// unknownOutput is taken for the tokens of an answer before there was one and
// where no limit of tokens is set.
const unknownOutput = 1024

// estimate is about how many tokens a request takes, given the largest output
// of late; 0 says that there was none. See inputTokens.
func estimate(req Request, largest int64) outcome.Usage {
	return outcome.Usage{Input: inputTokens(req), Output: outputTokens(req, largest)}
}

// inputTokens is rather too much than too little: one token for every three
// bytes of the messages and the schema, and eight for each message. English has
// four bytes and more for one token.
func inputTokens(req Request) int64 {
	bytes := 0
	for _, m := range req.Messages {
		bytes += len(m.Content)
	}
	if req.Schema != nil {
		bytes += len(req.Schema.JSON)
	}
	return int64(bytes/3 + 8*len(req.Messages))
}

// outputTokens is the largest output of late, or else what the request limits
// it to, or else 1,024; never more than the request's limit.
func outputTokens(req Request, largest int64) int64 {
	limit := int64(-1)
	if req.Parameters.MaxTokens != nil {
		limit = int64(*req.Parameters.MaxTokens)
	}
	switch {
	case largest <= 0 && limit >= 0:
		return limit
	case largest <= 0:
		return unknownOutput
	case limit >= 0:
		return min(largest, limit)
	}
	return largest
}

// recent remembers the last numbers that were added to it; the zero value is
// ready. Safe for concurrent use.
type recent struct {
	mu     sync.Mutex
	values [32]int64
	next   int
}

func (r *recent) add(value int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.values[r.next] = value
	r.next = (r.next + 1) % len(r.values)
}

// largest returns the largest of them, 0 if there is none.
func (r *recent) largest() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	var most int64
	for _, value := range r.values {
		most = max(most, value)
	}
	return most
}

// Estimator is a Model that asks nobody: it adds up what the requests would
// take, and answers each with an empty extraction. Under a Pipeline it tells
// what a dataset would cost, prompts, schemas and parts of long documents as
// they would be sent. What comes later, such as the second stage of two, repairs
// and retries, it does not meet. Safe for concurrent use; the zero value is
// ready.
type Estimator struct {
	mu       sync.Mutex
	requests int64
	input    int64
}

// Generate counts the request.
func (e *Estimator) Generate(_ context.Context, req Request) (Response, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.requests++
	e.input += inputTokens(req)
	return Response{Text: `{"entities":[],"relationships":[]}`, Finish: FinishStop, Attempts: 1}, nil
}

// Sum returns how many requests were counted, and their input in tokens: one for
// every three bytes of messages and schema and eight for each message, which is
// rather too much than too little.
func (e *Estimator) Sum() (requests, inputTokens int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.requests, e.input
}
