package gemini

import (
	"context"
	"fmt"

	"google.golang.org/genai"

	"extraction-experiment/internal/exchange"
	"extraction-experiment/pipeline"
)

// Model is a model of the Gemini API. Safe for concurrent use.
type Model struct {
	client  *genai.Client
	name    string
	can     pipeline.Capabilities
	service exchange.Service
}

var _ pipeline.Model = (*Model)(nil)

// Generate sends one POST …:generateContent and reads the whole answer, at most
// 64 MiB. Nothing is retried or continued and no redirect followed; to repeat a
// call is safe but costs again.
//
// The Response holds what is known with an error too: the requests made, and
// the usage of an answer without text. A blocked prompt or answer is a Response
// with FinishRefused; where there is no text, its Text is the reason that the
// API gave. Errors are: a *pipeline.UnsupportedError for what cannot be asked
// (nothing is sent); one that wraps ctx.Err(); and a *pipeline.ModelError, of
// class invalid_output where the answer holds no text, rate_limited for 429,
// timeout if the HTTP client gave up, else provider.
//
// API: https://ai.google.dev/api/generate-content
func (m *Model) Generate(ctx context.Context, req pipeline.Request) (pipeline.Response, error) {
	if err := m.can.Check(req); err != nil {
		return pipeline.Response{}, err
	}
	system, contents, err := conversation(req.Messages)
	if err != nil {
		return pipeline.Response{}, err
	}
	x := exchange.Exchange{Edit: func(body []byte) ([]byte, error) { return m.edit(body, req) }}
	answer, err := m.call(exchange.With(ctx, &x), contents, &genai.GenerateContentConfig{
		SystemInstruction: system,
		// Left to itself the library sends further requests until the model
		// says that it is done, which need not ever happen.
		AutomaticContinuation: new(false),
	})
	if err == nil && answer != nil && !errorInstead(answer, &x) {
		return m.response(answer, &x)
	}
	if stop := m.service.Stopped(ctx, &x); stop != nil {
		return pipeline.Response{Attempts: x.Requests}, stop
	}
	return pipeline.Response{Attempts: x.Requests}, pipeline.FaultError(m.service.Fault(&x, err))
}

// call asks the library. It reads answers through type assertions and panics
// on JSON of another form: that is the server's fault, not this program's.
func (m *Model) call(ctx context.Context, contents []*genai.Content, config *genai.GenerateContentConfig) (answer *genai.GenerateContentResponse, err error) {
	defer func() {
		if panicked := recover(); panicked != nil {
			answer, err = nil, fmt.Errorf("a value has an unexpected type: %v", panicked)
		}
	}()
	return m.client.Models.GenerateContent(ctx, m.name, contents, config)
}

// conversation splits messages into the system instruction and the turns.
func conversation(messages []pipeline.Message) (*genai.Content, []*genai.Content, error) {
	var system *genai.Content
	var contents []*genai.Content
	for i, message := range messages {
		part := &genai.Part{Text: message.Content}
		switch {
		case message.Role == "system" && len(contents) > 0:
			return nil, nil, unsupported(fmt.Sprintf("message %d is a system message after others: Gemini takes them only at the beginning", i+1))
		case message.Role == "system" && system != nil:
			system.Parts = append(system.Parts, part)
		case message.Role == "system":
			system = &genai.Content{Role: genai.RoleUser, Parts: []*genai.Part{part}}
		case message.Role == "assistant":
			contents = append(contents, &genai.Content{Role: genai.RoleModel, Parts: []*genai.Part{part}})
		default:
			contents = append(contents, &genai.Content{Role: genai.RoleUser, Parts: []*genai.Part{part}})
		}
	}
	if len(contents) == 0 {
		return nil, nil, unsupported("there are only system messages: Gemini needs one of the user")
	}
	return system, contents, nil
}

func unsupported(problem string) error {
	return &pipeline.UnsupportedError{Problems: []string{problem}}
}

// edit writes the parameters into the body that the library made. The library
// rounds numbers to 32 bits and sorts the keys of a schema.
func (m *Model) edit(body []byte, req pipeline.Request) ([]byte, error) {
	config := map[string]any{}
	p := req.Parameters
	if p.Temperature != nil {
		config["temperature"] = *p.Temperature
	}
	if p.TopP != nil {
		config["topP"] = *p.TopP
	}
	if p.Seed != nil {
		config["seed"] = *p.Seed
	}
	if p.MaxTokens != nil {
		config["maxOutputTokens"] = *p.MaxTokens
	}
	if req.Schema != nil && m.can.SendsSchema() {
		config["responseMimeType"] = "application/json"
		config["responseJsonSchema"] = req.Schema.JSON
	}
	return exchange.Set(body, map[string]any{"generationConfig": config})
}

// errorInstead reports whether a good status hides an error of a gateway.
func errorInstead(answer *genai.GenerateContentResponse, x *exchange.Exchange) bool {
	return len(answer.Candidates) == 0 && (len(x.Body) == 0 ||
		exchange.ReadReason(x.Header.Get("Content-Type"), x.Body).Stated)
}
