package evaluator

import (
	"encoding/json"
	"time"

	"extraction-experiment/outcome"
	"extraction-experiment/pipeline"
)

// callOf describes what a judging model was asked and answered; Name is left to
// who knows what the verdict is for.
func callOf(cfg Config, req pipeline.Request, resp pipeline.Response, began time.Time, err error) *outcome.Call {
	call := &outcome.Call{
		Kind: outcome.JudgingKind, Model: cfg.ModelName, Parameters: encoded(req.Parameters), Input: encoded(req.Messages),
		Usage: resp.Usage, Assumed: resp.Assumed, CostUSD: resp.CostUSD, Finish: string(resp.Finish),
		Attempts: max(1, resp.Attempts), Started: began.Add(resp.Waited), Ended: time.Now().UTC(), Waited: resp.Waited,
	}
	if resp.Text != "" {
		call.Output = encoded(resp.Text)
	}
	if err != nil {
		call.Error = err.Error()
	}
	return call
}

// encoded is the JSON of what always has one.
func encoded(v any) json.RawMessage {
	raw, err := json.Marshal(v)
	if err != nil {
		return nil
	}
	return raw
}
