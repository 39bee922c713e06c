package pipeline

import (
	"context"
	"sync"
)

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
