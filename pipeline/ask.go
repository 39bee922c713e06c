package pipeline

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"extraction-experiment/outcome"
)

// Ask is Record for whom an answer that is of no use, whatever it says, is an
// error: refused, cut by the limit of tokens, or empty. That is an
// *outcome.Failure of class invalid_output.
func Ask(ctx context.Context, model Model, req Request, call outcome.Call, now func() time.Time) (Response, outcome.Call, error) {
	res, call, err := Record(ctx, model, req, call, now)
	if err != nil {
		return res, call, err
	}
	if err = unusable(res); err != nil {
		call.Error = outcome.FailureOf(err, outcome.Provider).Message
	}
	return res, call, err
}

// Record sends one request to a model and writes down what came of it: call
// holds the name, the provider and the model's name under which that is done, now
// reads the clock. The call returned says what was asked, answered, used and paid,
// also where an error comes with it; it begins when the last request of the model
// was sent, not while it waited. The error is that of the model.
func Record(ctx context.Context, model Model, req Request, call outcome.Call, now func() time.Time) (Response, outcome.Call, error) {
	call.Kind = "generation"
	call.Parameters, call.Input, call.Started = encoded(req.Parameters), encoded(req.Messages), now().UTC()
	res, err := model.Generate(ctx, req)
	call.Ended = now().UTC()
	call.Started = call.Started.Add(res.Waited)
	call.Waited, call.Cached, call.Attempts = res.Waited, res.Cached, res.Attempts
	if !res.Cached {
		call.Attempts = max(1, res.Attempts)
	}
	// An answer that comes with an error was paid for all the same.
	if res.Model != "" {
		call.Model = res.Model
	}
	call.Usage, call.Assumed, call.CostUSD, call.Finish = res.Usage, res.Assumed, res.CostUSD, string(res.Finish)
	if res.Text != "" {
		call.Output = encoded(res.Text)
	}
	if res.Odd != "" {
		call.Warnings = append(call.Warnings, call.Name+": "+res.Odd)
	}
	if err != nil {
		call.Error = outcome.FailureOf(err, outcome.Provider).Message
	}
	return res, call, err
}

// unusable says why an answer cannot be used whatever it says.
func unusable(res Response) error {
	fail := func(format string, args ...any) error {
		return &outcome.Failure{Class: outcome.InvalidOutput, Message: fmt.Sprintf(format, args...)}
	}
	switch {
	case res.Finish == FinishRefused:
		if res.Text == "" {
			return fail("the model or its content filter declined to answer, without a reason")
		}
		return fail("the model declined to answer: %.300s", res.Text)
	case res.Finish == FinishLength:
		return fail("the answer was cut by the limit of tokens after %d: raise --max-tokens", res.Usage.Output)
	case strings.TrimSpace(res.Text) == "":
		return fail("the answer is empty")
	}
	return nil
}

// encoded marshals what always can be marshalled.
func encoded(v any) json.RawMessage {
	raw, err := json.Marshal(v)
	if err != nil {
		return nil
	}
	return raw
}
