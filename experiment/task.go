package experiment

import (
	"context"
	"encoding/json"
	"iter"

	"extraction-experiment/dataset"
	"extraction-experiment/internal/cli"
	"extraction-experiment/outcome"
)

// Source lists the items of a dataset in pages, each item once, in any order. A run reads it
// once, from the start, even if it is resumed after an interruption while listing. It reads the next
// page while it writes one, so that what was yielded, bytes included, must not be changed any more.
type Source interface {
	Pages(ctx context.Context) iter.Seq2[[]dataset.Item, error]
}

// Item is the part of a dataset item that a task receives: everything except the expected
// output, so that it cannot leak. Scorer and publisher share its values: the task must not change them.
type Item struct {
	ID       string          `json:"id"`
	Input    json.RawMessage `json:"input"`
	Metadata json.RawMessage `json:"metadata,omitempty"`
	// Trial and Attempt count from 1. Trial is the trial of the run, Attempt the number of
	// times that the item was tried in it, including this one.
	Trial   int `json:"trial"`
	Attempt int `json:"attempt"`
	// Decoded is what the scorer decoded from Input, so that a task that knows its type need
	// not parse Input again; nil if the scorer decodes nothing.
	Decoded any `json:"-"`
}

// TaskResult is the result of a task for one item, which must not be changed after Do has returned.
type TaskResult struct {
	// Output is JSON. Nil is no output, which the scorer judges as such: it is no failure.
	Output json.RawMessage `json:"output,omitempty"`
	// Brief is Output without what traces do not show, see outcome.Publication.Mentions; nil
	// means that they show all of it. It is only kept in memory until the outcome is published.
	Brief    json.RawMessage `json:"-"`
	Warnings []string        `json:"warnings,omitempty"`
	// Decoded is the content of Output, so that a ContextItemScorer that knows its type need not
	// parse Output again; it may be nil.
	Decoded any `json:"-"`
	// Calls are the steps that the task took, even if it failed.
	Calls []outcome.Call `json:"calls,omitempty"`
}

// Task processes an item. An error fails the item, not the run; an *outcome.Failure in its
// chain gives the class, which otherwise is provider. So does an output that is not JSON, with
// class invalid_output. An error with a method StopsRun() in its chain ends the run instead, and
// the item is run again when the run is resumed. Do must return soon after ctx is done, and must
// be safe for concurrent use. ctx has no Deadline, since waiting for a model's limits does not
// count.
//
// A Task may also have the method Accepts(first []Item) error. It is called with the first page
// of items, before anything is paid for; an error ends the run.
type Task interface {
	Do(ctx context.Context, item Item) (TaskResult, error)
}

// checkAccepts asks the task whether it can process the items of a page.
func checkAccepts(task Task, page []dataset.Item) error {
	checker, ok := task.(interface{ Accepts(first []Item) error })
	if !ok {
		return nil
	}
	return checker.Accepts(cli.Each(page, func(item dataset.Item) Item {
		return Item{ID: item.ID, Input: item.Input, Metadata: item.Metadata}
	}))
}

// Scorer judges outputs against expected outputs. It must be safe for concurrent use.
type Scorer interface {
	// ForItem reads the expected output of an item. An error fails the item with class "item"
	// before the task is called.
	ForItem(item dataset.Item) (ItemScorer, error)
}

// GoldWarning begins the warnings of a scorer about an expected output. They are not kept when the
// outcome is scored again.
const GoldWarning = "expected output: "

// ItemScorer knows the expected output of one item.
type ItemScorer interface {
	// Score judges the output of the task, which is JSON without white space between tokens, as in
	// the run file, or nil. If the output is not valid, the error is an *outcome.Failure of class
	// "invalid_output"; other errors have the class internal, and so have scores without a name of
	// their own, that are not finite numbers, or not from 0 to 1 although they have a Ratio.
	Score(output json.RawMessage) (Scored, error)
	// Undelivered returns the scores that the expected output defines, without values, for an
	// item that failed. Scores that Score could not return, or a panic, are a warning of the item.
	//
	// An ItemScorer may also have the methods NothingExpected() bool, see outcome.Detail, and
	// Decoded() any, see Item.Decoded. Decoded must not reveal the expected output.
	Undelivered() []outcome.Score
}

// itemScorer is an ItemScorer with the results of its optional methods.
type itemScorer struct {
	ItemScorer
	decoded         any
	nothingExpected bool
}

// itemScorerOf returns the ItemScorer of an item. A panic is an error.
func itemScorerOf(s Scorer, item dataset.Item) (itemScorer, error) {
	return recoverPanic(func() (itemScorer, error) {
		j, err := s.ForItem(item)
		if err == nil && j == nil {
			err = &outcome.Failure{Class: outcome.Internal, Message: "the scorer returned no ItemScorer"}
		}
		if err != nil {
			return itemScorer{}, err
		}
		return itemScorer{j, decoded(j), nothingExpected(j)}, nil
	})
}

// nothingExpected reports whether an ItemScorer says that its expected output is annotated and empty.
// An ItemScorer without such a method expects something.
func nothingExpected(j ItemScorer) bool {
	expecter, ok := j.(interface{ NothingExpected() bool })
	return ok && expecter.NothingExpected()
}

// decoded returns what an ItemScorer decoded from the input of its item, or nil.
func decoded(j ItemScorer) any {
	if decoder, ok := j.(interface{ Decoded() any }); ok {
		return decoder.Decoded()
	}
	return nil
}

// ContextItemScorer is an ItemScorer that may take long, since it asks a model or program, or that can use
// what the task has decoded. The runner calls ScoreContext instead of Score.
type ContextItemScorer interface {
	ItemScorer
	// ScoreContext is like Score, but returns soon after ctx is done; its result is not
	// recorded then. An error with a method StopsRun() in its chain stops the run, as that of a
	// Task does. decoded is TaskResult.Decoded and has the content of output; it may be nil.
	ScoreContext(ctx context.Context, output json.RawMessage, decoded any) (Scored, error)
}

// score calls ScoreContext if the ItemScorer has it, or else Score.
func score(ctx context.Context, j ItemScorer, output json.RawMessage, decoded any) (Scored, error) {
	if contextScorer, ok := j.(ContextItemScorer); ok {
		return contextScorer.ScoreContext(ctx, output, decoded)
	}
	return j.Score(output)
}

// Scored is the judgement of one output, with its reasons.
type Scored struct {
	Scores      []outcome.Score
	Groups      []outcome.Group
	Causes      []outcome.Cause
	Counts      map[string]int64
	Explanation json.RawMessage
	Warnings    []string
	// Calls are the calls of judging models. They do not count as usage of the task.
	Calls []outcome.Call
}
