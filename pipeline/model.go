package pipeline

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/textutil"
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

// ModelFunc is a Model that is a function.
type ModelFunc func(ctx context.Context, req Request) (Response, error)

// Generate calls the function.
func (f ModelFunc) Generate(ctx context.Context, req Request) (Response, error) { return f(ctx, req) }

// Request is what is asked of a model.
type Request struct {
	Messages   []Message  `json:"messages"`
	Parameters Parameters `json:"parameters"`
	// Schema, if set, is the JSON Schema that the answer must satisfy; the
	// provider enforces it where it can.
	Schema *Schema `json:"schema,omitempty"`
	// Sent, unless nil, is set by a model whose request has the messages exactly as
	// AppendMessages writes them: to these bytes.
	Sent *json.RawMessage `json:"-"`
}

// Message is one turn of a conversation.
type Message struct {
	Role    string `json:"role"` // "system", "user" or "assistant"
	Content string `json:"content"`
}

// MessagesSize estimates the bytes that AppendMessages appends, rather too many.
func MessagesSize(messages []Message) int {
	size := 2
	for _, m := range messages {
		size += len(m.Content)*9/8 + 40 // quotation marks and line breaks take two bytes
	}
	return size
}

// AppendMessages appends a list of messages as encoding/json writes it; nil is an empty list.
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
	// though the provider may have worked on them; it is not part of Usage.
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
func OddTokens(counts ...int) string {
	for _, n := range counts {
		if n < 0 || n > mostTokens {
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
	// Err is what caused it, where its type or its exit code may matter.
	Err error
}

// Error returns the message of the failure with its class.
func (e *ModelError) Error() string { return e.Failure.Error() }

// refused reports whether the provider did not work on the request.
func (e *ModelError) refused() bool {
	return e.Failure.Class != outcome.Timeout && (e.Status >= 400 || e.Unreached)
}

// Unwrap returns the failure and the cause.
func (e *ModelError) Unwrap() []error { return []error{&e.Failure, e.Err} }

// Capabilities says what a model cannot do, as data: nothing is guessed from a
// model's name. The zero value is a model that can do everything.
type Capabilities struct {
	// NoTemperature, NoTopP and NoSeed: the parameter is not accepted.
	NoTemperature bool `json:"no_temperature,omitempty" yaml:"no_temperature,omitempty"`
	NoTopP        bool `json:"no_top_p,omitempty" yaml:"no_top_p,omitempty"`
	NoSeed        bool `json:"no_seed,omitempty" yaml:"no_seed,omitempty"`
	// MaxCompletionTokens: the limit of tokens is sent as max_completion_tokens
	// and not as max_tokens. Only the OpenAI protocol knows the difference.
	MaxCompletionTokens bool `json:"max_completion_tokens,omitempty" yaml:"max_completion_tokens,omitempty"`
	// NoSchema: answers cannot be held to a JSON Schema; a request with one is
	// refused.
	NoSchema bool `json:"no_schema,omitempty" yaml:"no_schema,omitempty"`
	// InstructionOnly: like NoSchema, but a request with a schema is accepted
	// and the schema not sent, because the prompt states it. Whoever sets it
	// answers for the prompt.
	InstructionOnly bool `json:"instruction_only,omitempty" yaml:"instruction_only,omitempty"`
}

// SendsSchema reports whether a request's schema goes to the provider.
func (c Capabilities) SendsSchema() bool { return !c.NoSchema && !c.InstructionOnly }

// schemaName is what providers accept as the name of a schema.
var schemaName = textutil.Pattern(`^[A-Za-z0-9_-]{1,64}$`)

// Check refuses a request that the model cannot carry out, or that no model
// can: it returns nil or an error of exit code 64 with every problem: a matter of
// configuration, not of the item. It changes and sends nothing. Upper limits that
// differ between servers (a temperature above 2, a context too long) are left to the
// server.
func (c Capabilities) Check(req Request) error {
	var problems []string
	add := func(wrong bool, format string, args ...any) {
		if wrong {
			problems = append(problems, fmt.Sprintf(format, args...))
		}
	}
	p := req.Parameters
	if t := p.Temperature; t != nil {
		add(c.NoTemperature, "the model takes no temperature: leave it out (it is %v)", *t)
		add(!(*t >= 0) || math.IsInf(*t, 0), "the temperature is %v: it must be 0 or more", *t)
	}
	if v := p.TopP; v != nil {
		add(c.NoTopP, "the model takes no top_p: leave it out (it is %v)", *v)
		add(!(*v >= 0 && *v <= 1), "top_p is %v: it must be between 0 and 1", *v)
	}
	if p.Seed != nil {
		add(c.NoSeed, "the model takes no seed: leave it out (it is %d)", *p.Seed)
	}
	if p.MaxTokens != nil {
		add(*p.MaxTokens < 1, "the limit of tokens is %d: it must be 1 or more", *p.MaxTokens)
	}
	add(len(req.Messages) == 0, "there is no message")
	for i, m := range req.Messages {
		if !isRole(m.Role) {
			add(true, "message %d has the role %.40q: it must be system, user or assistant", i+1, m.Role)
		}
	}
	if s := req.Schema; s != nil {
		add(c.NoSchema && !c.InstructionOnly, "the model cannot be held to a JSON Schema: ask for the form in the prompt and send no schema")
		if !schemaName().MatchString(s.Name) {
			add(true, "the schema's name %.80q must be 1 to 64 letters of A-Z a-z 0-9 _ -", s.Name)
		}
		add(!textutil.ValidJSON(s.JSON) || !bytes.HasPrefix(bytes.TrimSpace(s.JSON), []byte("{")), "the schema is not a JSON object")
	}
	if len(problems) == 0 {
		return nil
	}
	return cli.Usage("the request cannot be sent as it stands: %s", strings.Join(problems, "; "))
}

// Priced returns a model that fills Response.CostUSD from the usage, by
// Price.Cost. The price is that of the name that the provider answered with,
// which is often more exact, or else that of name, which was asked for.
//
// The cost stays nil where no price is known or no usage was reported; one
// that the response already states is kept. An answer that comes with an error
// is priced too, because it was paid for; a request without usage that the provider
// answered with an error status other than that of a timeout, or that did not reach it,
// costs 0. Nothing else is changed and nothing sent. It is safe for concurrent use if
// model and prices are.
func Priced(model Model, name string, prices Prices) Model { return &priced{model, name, prices} }

// priced is no ModelFunc: another call between would have each call in flight need twice
// the stack.
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
	if known && failed && response.Usage == (outcome.Usage{}) && fault.refused() {
		response.CostUSD = new(0.0)
	}
	return response, err
}

// Price is what a model costs, in USD per million tokens. A zero is a price
// too: the model is free.
type Price struct {
	Input float64
	// CachedInput is the price of input tokens that were read from a cache;
	// the same as Input where there is no discount.
	CachedInput float64
	Output      float64
	// MaxInput is the number of input tokens up to which a request has this
	// price; for a longer one the cost is unknown. 0: there is no such border.
	MaxInput int64
}

// Prices looks up what a model costs by its name; false means not known.
type Prices func(model string) (Price, bool)

// Cost returns what a call cost in USD, or nil where that cannot be known:
//
//	((input − cached) × Input + cached × CachedInput + output × Output) / 1,000,000
//
// Cached tokens are part of the input and reasoning tokens part of the output,
// so neither is added again. Nil, never 0, is the cost of a usage without
// input tokens (none was reported: no call goes without input), of one that
// contradicts itself (a negative count, more cached than input), and of a
// request above MaxInput.
func (p Price) Cost(u outcome.Usage) *float64 {
	if u.Input <= 0 || u.Output < 0 || u.Cached < 0 || u.Cached > u.Input {
		return nil
	}
	if p.MaxInput > 0 && u.Input > p.MaxInput {
		return nil
	}
	const million = 1e6
	cost := (float64(u.Input-u.Cached)*p.Input + float64(u.Cached)*p.CachedInput + float64(u.Output)*p.Output) / million
	return &cost
}
