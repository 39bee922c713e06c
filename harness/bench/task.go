package bench

import (
	"context"
	"encoding/json"

	"extraction-experiment/experiment"
	"extraction-experiment/outcome"
)

// task answers a case: from what is stored with it, or by an Answerer.
type task struct{ answerer Answerer }

// Do returns an Answer. An answer that cannot be used is a failure inside of it;
// an error of the Answerer is returned as it is.
func (t task) Do(ctx context.Context, item experiment.Item) (experiment.TaskResult, error) {
	var in input
	if err := json.Unmarshal(item.Input, &in); err != nil {
		return experiment.TaskResult{}, &outcome.Failure{Class: outcome.Item, Message: err.Error()}
	}
	schema, err := compileSchema(in.TargetSchema)
	if err != nil {
		return experiment.TaskResult{}, &outcome.Failure{Class: outcome.Item, Message: "targetSchema: " + err.Error()}
	}
	r := reader{schema, newChecker(in.DocumentText)}
	a, result := Answer{}, experiment.TaskResult{}
	if t.answerer == nil {
		a = r.stored(in.ProviderResponseText)
	} else {
		text, calls, err := t.answerer.Answer(ctx, in.question())
		result.Calls = calls
		for _, call := range calls {
			result.Warnings = append(result.Warnings, call.Warnings...)
		}
		if err != nil {
			return result, err
		}
		a = r.plain(text, 1)
	}
	result.Output, err = json.Marshal(a)
	return result, err
}
