package answers

import (
	"context"
	"encoding/json"

	"extraction-experiment/experiment"
	"extraction-experiment/outcome"
)

// MaxAnswer bounds an answer, in bytes: more is no answer to a question.
const MaxAnswer = 1 << 20

// Answerer is the system under test: it answers questions about a document
// that it knows. An *outcome.Failure in the chain of an error says its class.
// It is called by many goroutines at once.
type Answerer interface {
	Answer(ctx context.Context, question string) (Answer, []outcome.Call, error)
}

// Answer is what a system says.
type Answer struct {
	Text string
	// Pages are those that the answer was made of, where the system says so.
	Pages []int
}

// Output is an Answer as a run file keeps it.
type Output struct {
	Answer string `json:"answer"`
	Pages  []int  `json:"pages,omitempty"`
}

// Task asks the question of an item. It is safe for concurrent use if the
// Answerer is.
type Task struct {
	Answerer Answerer
}

// Do asks. An input that is no question fails with class item, an answer of
// more than MaxAnswer bytes with class invalid_output.
func (t Task) Do(ctx context.Context, item experiment.Item) (experiment.TaskResult, error) {
	question, err := DecodeInput(item.Input)
	if err != nil {
		return experiment.TaskResult{}, &outcome.Failure{Class: outcome.Item, Message: err.Error()}
	}
	answer, calls, err := t.Answerer.Answer(ctx, question)
	result := experiment.TaskResult{Calls: calls}
	for _, call := range calls {
		result.Warnings = append(result.Warnings, call.Warnings...)
	}
	if err != nil {
		return result, err
	}
	if len(answer.Text) > MaxAnswer {
		return result, &outcome.Failure{Class: outcome.InvalidOutput, Message: "the answer is longer than 1 MiB"}
	}
	result.Output, err = json.Marshal(Output{answer.Text, answer.Pages})
	if err != nil {
		return result, &outcome.Failure{Class: outcome.InvalidOutput, Message: err.Error()}
	}
	return result, nil
}
