package experiment

import (
	"context"
	"encoding/json"
	"iter"

	"extraction-experiment/dataset"
	"extraction-experiment/outcome"
)

// Source lists the items of a dataset, a page at a time, each item once, in any order. It
// is read once, from the start, also when a run is resumed that was interrupted while
// listing.
type Source interface {
	Pages(ctx context.Context) iter.Seq2[[]dataset.Item, error]
}

// Item is what a task gets of a dataset item: everything except the expected output, so
// that it cannot leak.
type Item struct {
	ID       string
	Input    json.RawMessage
	Metadata json.RawMessage
	// Trial and Attempt count from 1: the trial of the run, and how often the
	// item was tried in it, this time included.
	Trial, Attempt int
	// Decoded is what the scorer decoded from Input, for a task that knows its type, so
	// that nothing is parsed twice; nil if the scorer decodes nothing.
	Decoded any
}

// TaskResult is the result of a task for one item.
type TaskResult struct {
	Output json.RawMessage
	// Brief is Output without what traces do not show, see outcome.Publication.Mentions;
	// nil is all of it. Only what waits to be published is kept so.
	Brief    json.RawMessage
	Warnings []string
	// Decoded is what Output says, for a ContextJudge that knows its type, so that
	// nothing is parsed twice; nil is fine.
	Decoded any
	// Calls are the steps taken, also those of a task that failed.
	Calls []outcome.Call
}

// Task is what is done to an item. An error fails the item, not the run; an
// *outcome.Failure in its chain says the class. It must return soon after ctx
// is done, and is called by many goroutines at once.
//
// A Task may also have Accepts(first []Item) error, which is asked about the first
// page of items, before anything is paid for: an error ends the run.
type Task interface {
	Do(ctx context.Context, item Item) (TaskResult, error)
}

// accepts asks the task whether items are what it works on.
func accepts(task Task, page []dataset.Item) error {
	of, asked := task.(interface{ Accepts(first []Item) error })
	if !asked {
		return nil
	}
	items := make([]Item, len(page))
	for i, item := range page {
		items[i] = Item{ID: item.ID, Input: item.Input, Metadata: item.Metadata}
	}
	return of.Accepts(items)
}

// Scorer judges outputs against expected output. It is called by many
// goroutines at once.
type Scorer interface {
	// Judge reads what is expected of an item. An error fails the item with
	// class "item" before the task is paid for.
	Judge(item dataset.Item) (Judge, error)
}

// Judge knows the expected output of one item.
type Judge interface {
	// Score judges the output of the task. If the output is not valid, the error is an
	// *outcome.Failure of class "invalid_output".
	Score(output json.RawMessage) (Scored, error)
	// Undelivered returns the scores that the expected output defines, without
	// values, for an item that failed.
	//
	// A Judge may also have NothingExpected() bool, see outcome.Detail, and Decoded() any,
	// see Item.Decoded; the latter must not reveal what is expected.
	Undelivered() []outcome.Score
}

// nothingExpected reports whether a Judge says that there is nothing to find: its
// expected output is annotated and empty. One that has no such method expects
// something.
func nothingExpected(j Judge) bool {
	of, says := j.(interface{ NothingExpected() bool })
	return says && of.NothingExpected()
}

// decoded is what a Judge made of the input of its item; nil if it has not said.
func decoded(j Judge) any {
	if of, says := j.(interface{ Decoded() any }); says {
		return of.Decoded()
	}
	return nil
}

// ContextJudge is a Judge that may take long, because it asks a model or program, or one
// that can use what the task has decoded. The runner calls ScoreContext in place of Score.
type ContextJudge interface {
	Judge
	// ScoreContext is like Score, and returns soon after ctx is done; what it then returns
	// is not recorded. An error for which limit.StopsRun holds stops the run, and the item
	// is run again when the run is resumed. Decoded is that of the TaskResult, or nil; it
	// has the same content as the output.
	ScoreContext(ctx context.Context, output json.RawMessage, decoded any) (Scored, error)
}

// score judges by the richer method that a Judge has.
func score(ctx context.Context, j Judge, output json.RawMessage, decoded any) (Scored, error) {
	if of, can := j.(ContextJudge); can {
		return of.ScoreContext(ctx, output, decoded)
	}
	return j.Score(output)
}

// Scored is a judgement with its reasons.
type Scored struct {
	Scores      []outcome.Score
	Groups      []outcome.Group
	Causes      []outcome.Cause
	Counts      map[string]int64
	Explanation json.RawMessage
	Warnings    []string
	// Calls are those of judging models; they are not part of what the task took.
	Calls []outcome.Call
}
