package pipeline

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"extraction-experiment/internal/textutil"
	"extraction-experiment/outcome"
)

// Model is a language model of some provider.
//
// Generate sends one request and returns the whole answer. It makes exactly one attempt:
// retries, limits, caching, budgets and recording are decorators of Model. It stops soon after
// ctx is done and then returns an error that wraps ctx.Err(). Any other error has a *ModelError
// in its chain. Implementations are safe for concurrent use and do not change the request. They
// refuse, with the reason, a request that the model cannot carry out.
type Model interface {
	Generate(ctx context.Context, req Request) (Response, error)
}

// ModelFunc is a function that is a Model.
type ModelFunc func(ctx context.Context, req Request) (Response, error)

// Generate calls the function.
func (f ModelFunc) Generate(ctx context.Context, req Request) (Response, error) { return f(ctx, req) }

// Request is a request to a model.
type Request struct {
	Messages   []Message  `json:"messages"`
	Parameters Parameters `json:"parameters"`
	// Schema, if not nil, is the JSON Schema that the answer must satisfy; the provider
	// enforces it if it can.
	Schema *Schema `json:"schema,omitempty"`
	// Sent, if not nil, receives the messages as they were sent, from a model that sends them
	// exactly as AppendMessages writes them. Other models leave it unchanged.
	Sent *json.RawMessage `json:"-"`
}

// Message is one turn of a conversation.
type Message struct {
	Role    string `json:"role"` // "system", "user" or "assistant"
	Content string `json:"content"`
}

// MessagesSize estimates how many bytes AppendMessages appends; it tends to be too high.
func MessagesSize(messages []Message) int {
	size := 2
	for _, m := range messages {
		size += len(m.Content)*9/8 + 40 // quotation marks and line breaks are escaped
	}
	return size
}

// AppendMessages appends a list of messages in the way encoding/json writes it; nil is an empty
// list.
func AppendMessages(b []byte, messages []Message) []byte {
	w := textutil.JSONWriter{B: append(slices.Grow(b, MessagesSize(messages)), '[')}
	for i, m := range messages {
		if i > 0 {
			w.B = append(w.B, ',')
		}
		w.B = append(w.B, '{')
		w.Text("role", m.Role)
		w.Text("content", m.Content)
		w.Close()
	}
	return append(w.B, ']')
}

// Parameters control sampling.
type Parameters = outcome.Parameters

// Schema is a named JSON Schema.
type Schema struct {
	Name string          `json:"name"`
	JSON json.RawMessage `json:"json"`
}

// Finish tells why a model stopped.
type Finish string

// The reasons to stop, into which the words of providers are translated.
const (
	FinishStop    Finish = "stop"    // the answer is complete
	FinishLength  Finish = "length"  // the limit of tokens cut the answer
	FinishRefused Finish = "refused" // the model or a filter declined
	FinishOther   Finish = "other"
)

// Response is the answer of a model.
type Response struct {
	Text   string `json:"text"`
	Finish Finish `json:"finish"`
	// Model is the name in the answer of the provider, often more exact than the requested
	// name; empty if there is none.
	Model string        `json:"model,omitempty"`
	Usage outcome.Usage `json:"usage,omitzero"`
	// UsageProblem describes a report of the provider that cannot be; "" if there is none. The usage
	// then counts as not reported, because neither a cost nor a budget may rest on it.
	UsageProblem string `json:"usage_problem,omitempty"`
	// Assumed is the estimated usage of requests that reported none although the provider may
	// have worked on them. It is not part of Usage.
	Assumed outcome.Usage `json:"assumed_usage,omitzero"`
	// CostUSD is nil if the cost is unknown.
	CostUSD *float64 `json:"cost_usd,omitempty"`
	// Attempts is how many requests were sent, retries included: at least 1, or 0 for a Cached
	// answer.
	Attempts int `json:"attempts"`
	// Cached means that the answer comes from a cache: nothing was sent or paid.
	Cached bool `json:"cached,omitempty"`
	// Waited is the time of Generate without the last request: waiting for limits, pauses,
	// failed requests.
	Waited time.Duration `json:"-"`
}

// ModelError describes why a model gave no answer. It holds an *outcome.Failure, so that
// outcome.FailureOf finds its class.
type ModelError struct {
	Failure outcome.Failure
	Status  int // HTTP status; 0 if there was no answer
	// ErrorBody means that the body is an error of the provider, although the status is good.
	ErrorBody bool
	// RetryAfter is how long the provider asked to wait, or 0.
	RetryAfter time.Duration
	// Retry means that the same request may succeed later.
	Retry bool
	// Unauthorised means that the provider does not accept the key, or that its account is used
	// up, whatever the status.
	Unauthorised bool
	// Unreached means that there was no connection to the provider: it was refused, or the host
	// is unknown or has no trusted TLS.
	Unreached bool
	// Err is the cause, if its type or exit code may matter.
	Err error
}

// Error returns the message of the failure with its class.
func (e *ModelError) Error() string { return e.Failure.Error() }

// Unwrap returns the failure and the cause.
func (e *ModelError) Unwrap() []error { return []error{&e.Failure, e.Err} }

// Capabilities says what a model cannot do. It is data: nothing is guessed from the name of a
// model. The zero value is a model that can do everything.
type Capabilities struct {
	// NoTemperature, NoTopP and NoSeed mean that the model does not accept the parameter.
	NoTemperature bool
	NoTopP        bool
	NoSeed        bool
	// MaxCompletionTokens means that the limit of tokens is sent as max_completion_tokens and
	// not as max_tokens. Only the OpenAI protocol has this difference.
	MaxCompletionTokens bool
	// NoSchema means that the model cannot be held to a JSON Schema: that of a request is not
	// sent, and the prompt must state it.
	NoSchema bool
}

// schemaName matches the schema names that providers accept.
var schemaName = textutil.Pattern(`^[A-Za-z0-9_-]{1,64}$`)

// Check refuses a request that this model, or any model, cannot carry out: it returns nil or an
// error of exit code 64 with every problem. The cause is the configuration, not the item. It
// changes and sends nothing. It does not check limits that differ between servers, for example
// of the context, or the temperatures within the range of Parameters; the server does.
func (c Capabilities) Check(req Request) error {
	var found textutil.Problems
	add := found.Add
	refused := map[string]bool{"temperature": c.NoTemperature, "top_p": c.NoTopP, "seed": c.NoSeed}
	for _, p := range req.Parameters.List() {
		if text := p.Text(); text != "" {
			add(refused[p.Name], "the model takes no %s: leave it out (it is %s)", p.Name, text)
			add(!p.Set(text), "%s is %s: it must be %s", p.Name, text, p.Range())
		}
	}
	add(len(req.Messages) == 0, "there is no message")
	for i, m := range req.Messages {
		if !isRole(m.Role) { // the arguments would be new memory for each message
			add(true, "message %d has the role %.40q: it must be system, user or assistant", i+1, m.Role)
		}
	}
	if s := req.Schema; s != nil {
		if !schemaName().MatchString(s.Name) {
			add(true, "the schema's name %.80q must be 1 to 64 letters of A-Z a-z 0-9 _ -", s.Name)
		}
		add(!textutil.ValidJSON(s.JSON) || !bytes.HasPrefix(bytes.TrimSpace(s.JSON), []byte("{")), "the schema is not a JSON object")
	}
	return usageError("the request cannot be sent as it stands", found)
}

// Priced returns a model that sets Response.CostUSD from the usage by Price.Cost. The price is
// that of the name in the provider's answer, which is often more exact, or else that of the
// requested name.
//
// The cost stays nil if no price is known or no usage was reported. A cost that the response
// already has is kept. An answer with an error is priced too, because it was paid for. A
// request without usage costs 0 if the provider was not reached, or answered with an error
// status other than a timeout. Nothing else is changed. Safe for concurrent use if model and
// prices are.
func Priced(model Model, name string, prices Prices) Model { return &priced{model, name, prices} }

// priced is not a ModelFunc, because another function between doubles the stack of each call in
// flight.
type priced struct {
	model  Model
	name   string
	prices Prices
}

func (p *priced) Generate(ctx context.Context, req Request) (response Response, err error) {
	if response, err = p.model.Generate(ctx, req); response.CostUSD != nil {
		return response, err
	}
	price, known := p.prices(response.Model)
	if response.Model == "" || !known {
		price, known = p.prices(p.name)
	}
	if known {
		response.CostUSD = price.Cost(response.Usage)
	}
	fault, failed := errors.AsType[*ModelError](err)
	notWorked := failed && fault.Failure.Class != outcome.Timeout && (fault.Status >= 400 || fault.Unreached || fault.ErrorBody)
	if known && notWorked && response.Usage == (outcome.Usage{}) {
		response.CostUSD = new(0.0)
	}
	return response, err
}

// Price is what a model costs, in USD per million tokens. A price of 0 means that the model is
// free.
type Price struct {
	Input float64
	// CachedInput is the price of input tokens that the provider read from its cache; equal to
	// Input if there is no discount.
	CachedInput float64
	Output      float64
	// MaxInput is the most input tokens of a request at this price; the cost of a longer
	// request is unknown. 0 means no such bound.
	MaxInput int64
}

// Prices looks up the price of a model by its name; false means that it is unknown.
type Prices func(model string) (Price, bool)

// Cost returns what a call cost in USD, or nil if that is unknown:
//
//	((input − cached) × Input + cached × CachedInput + output × Output) / 1,000,000
//
// Cached tokens are part of the input and reasoning tokens part of the output, so neither is
// added again. The cost is nil, never 0, for a usage without input tokens (none was reported,
// because every call has input), for a usage that contradicts itself (a negative count, more
// cached than input), and for a request above MaxInput.
func (p Price) Cost(u outcome.Usage) *float64 {
	if u.Input <= 0 || u.Output < 0 || u.Cached < 0 || u.Cached > u.Input || p.MaxInput > 0 && u.Input > p.MaxInput {
		return nil
	}
	return new(p.sum(u))
}

// sum returns the cost without regard to what is known.
func (p Price) sum(u outcome.Usage) float64 {
	return (float64(u.Input-u.Cached)*p.Input + float64(u.Cached)*p.CachedInput + float64(u.Output)*p.Output) / 1e6
}
