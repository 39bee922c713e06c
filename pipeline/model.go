package pipeline

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"extraction-experiment/outcome"
)

// Model is a language model behind some provider.
//
// Generate sends one request and returns the whole answer. It makes exactly one
// attempt: retries, limits, caching, budgets and recording are decorators of
// Model. It stops soon after ctx is done and then returns an error that wraps
// ctx.Err(). Any other error has a *ModelError in its chain. Implementations
// are safe for concurrent use and change nothing of the request: what a model
// cannot do is refused with the reason.
type Model interface {
	Generate(ctx context.Context, req Request) (Response, error)
}

// Request is what is asked of a model.
type Request struct {
	Messages   []Message  `json:"messages"`
	Parameters Parameters `json:"parameters"`
	// Schema, if set, is the JSON Schema that the answer must satisfy; the
	// provider enforces it where it can.
	Schema *Schema `json:"schema,omitempty"`
}

// Message is one turn of a conversation.
type Message struct {
	Role    string `json:"role"` // "system", "user" or "assistant"
	Content string `json:"content"`
}

// Parameters steer sampling; nil leaves a value to the provider's default, and
// is not sent. A temperature of 0 is sent.
type Parameters struct {
	Temperature *float64 `json:"temperature,omitempty"`
	TopP        *float64 `json:"top_p,omitempty"`
	MaxTokens   *int     `json:"max_tokens,omitempty"`
	Seed        *int64   `json:"seed,omitempty"`
}

// Schema is a named JSON Schema.
type Schema struct {
	Name string          `json:"name"`
	JSON json.RawMessage `json:"json"`
}

// Finish says why a model stopped.
type Finish string

// The reasons to stop that matter here; providers' words are translated.
const (
	FinishStop    Finish = "stop"    // the answer is complete
	FinishLength  Finish = "length"  // cut by the limit of tokens
	FinishRefused Finish = "refused" // the model or a filter declined
	FinishOther   Finish = "other"
)

// Response is the answer of a model.
type Response struct {
	Text   string `json:"text"`
	Finish Finish `json:"finish"`
	// Model is the name that the provider answered with, often more exact than
	// the one asked for; empty if it did not say.
	Model string        `json:"model,omitempty"`
	Usage outcome.Usage `json:"usage,omitzero"`
	// Odd says what the provider reported and cannot be, see OddTokens; "" if nothing.
	Odd string `json:"-"`
	// Assumed is what requests are estimated to have used that reported nothing
	// though the provider may have worked on them; it is no part of Usage.
	Assumed outcome.Usage `json:"-"`
	// CostUSD is nil where it is not known.
	CostUSD *float64 `json:"cost_usd,omitempty"`
	// Attempts is how many requests were sent, retries included; at least 1,
	// and 0 for an answer that was Cached.
	Attempts int `json:"attempts"`
	// Cached says that the answer comes from a cache: nothing was sent or paid.
	Cached bool `json:"-"`
	// Waited is the part of the time of Generate that is not that of the last
	// request: waiting for limits, pauses, requests that failed before it.
	Waited time.Duration `json:"-"`
}

// mostTokens is more than any request uses.
const mostTokens = 1 << 30

// OddTokens says what is wrong with counts of tokens of which one is negative or more
// than any request uses; "" if none is. Such a usage counts as not reported: neither a
// cost nor a budget may rest on it.
func OddTokens[N int | int32](counts ...N) string {
	for _, n := range counts {
		if n < 0 || int64(n) > mostTokens {
			return fmt.Sprintf("the provider reports %d tokens, which cannot be: the usage counts as not reported", n)
		}
	}
	return ""
}

// ModelError says why a model gave no answer. It holds an *outcome.Failure, so
// that outcome.FailureOf finds its class.
type ModelError struct {
	Failure outcome.Failure
	Status  int // of HTTP; 0 if there was no answer
	// RetryAfter is what the provider asked to wait; 0 if it did not say.
	RetryAfter time.Duration
	// Retry says that the same request may succeed later.
	Retry bool
	// Unreached says that there was no connection to the provider: it was refused,
	// or the host is not known.
	Unreached bool
}

// Error returns the message of the failure with its class.
func (e *ModelError) Error() string { return e.Failure.Error() }

// Unwrap returns the failure.
func (e *ModelError) Unwrap() error { return &e.Failure }
