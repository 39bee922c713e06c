package outcome

import (
	"encoding/json"
	"time"
)

// Outcome is what happened to one item in one trial and attempt.
type Outcome struct {
	Item    string `json:"item"` // the dataset item's id
	Seq     int64  `json:"seq"`  // order of arrival of the item, from 1
	Trial   int    `json:"trial"`
	Attempt int    `json:"attempt"`

	Class   Class         `json:"class,omitempty"`
	Started time.Time     `json:"started"`
	Ended   time.Time     `json:"ended"`
	Latency time.Duration `json:"latency_ns"` // time spent on the task, waiting for limits excluded
	Usage   Usage         `json:"usage,omitzero"`
	CostUSD *float64      `json:"cost_usd,omitempty"` // nil is unknown, never 0

	Scores []Score `json:"scores"`

	Detail
}

// Detail is the large part of an Outcome; a run file keeps it apart so that
// sums over many items need not read it.
type Detail struct {
	Output   json.RawMessage `json:"output,omitempty"`
	Calls    []Call          `json:"calls,omitempty"`
	Failure  *Failure        `json:"failure,omitempty"` // set exactly when Class is not OK
	Warnings []string        `json:"warnings,omitempty"`

	// NothingExpected says that the expected output is annotated and empty: there was
	// nothing to find, whatever was found.
	NothingExpected bool `json:"nothing_expected,omitempty"`

	// Assumed and FromCache are the sums of the calls' Assumed and Cached, in a
	// rescored run those of the calls as they were once made.
	Assumed   Usage `json:"assumed_usage,omitzero"`
	FromCache int   `json:"from_cache,omitempty"`

	// Judging is what the calls of judging models took; nil without any.
	Judging *Judging `json:"judging,omitempty"`

	// Causes count what is wrong with the item, by kind.
	Causes []Cause `json:"causes,omitempty"`
	// Groups is the part that the item plays in breakdowns by type.
	Groups []Group `json:"groups,omitempty"`
	// Explanation is how the scorer came to its scores (matches, misses), in
	// the form of the harness.
	Explanation json.RawMessage `json:"explanation,omitempty"`
	// Duplicates and the like: integer counts that no score carries.
	Counts map[string]int64 `json:"counts,omitempty"`
}

// Failed reports whether the item failed.
func (o Outcome) Failed() bool { return o.Class != OK }

// Usage counts the tokens of model calls; the zero value means none reported.
type Usage struct {
	Input     int64 `json:"input,omitempty"`
	Output    int64 `json:"output,omitempty"`
	Cached    int64 `json:"cached,omitempty"`    // part of Input that was read from a cache
	Reasoning int64 `json:"reasoning,omitempty"` // part of Output that was not shown
}

// Add returns the sum of two usages.
func (u Usage) Add(v Usage) Usage {
	return Usage{u.Input + v.Input, u.Output + v.Output, u.Cached + v.Cached, u.Reasoning + v.Reasoning}
}

// bounded cuts counts at 0 and at a number that no call uses and of which millions
// can be summed.
func (u Usage) bounded() Usage {
	const most = 1 << 40
	bound := func(n int64) int64 { return min(max(n, 0), most) }
	return Usage{bound(u.Input), bound(u.Output), bound(u.Cached), bound(u.Reasoning)}
}

// Total returns input and output tokens together.
func (u Usage) Total() int64 { return u.Input + u.Output }

// Call is one step that the task took outside or inside: a model call, or a
// stage of the pipeline; or that of a model which judged the outcome. Each becomes a span under the item's root span.
type Call struct {
	Name string `json:"name"`
	// Kind is "generation" for a model call of the task, JudgingKind for that of
	// a judging model, "span" for anything else.
	Kind       string          `json:"kind"`
	Provider   string          `json:"provider,omitempty"`
	Model      string          `json:"model,omitempty"`
	Parameters json.RawMessage `json:"parameters,omitempty"` // an object
	Input      json.RawMessage `json:"input,omitempty"`      // messages, or what the stage was given
	Output     json.RawMessage `json:"output,omitempty"`
	Usage      Usage           `json:"usage,omitzero"`
	// Assumed is the estimate for requests whose usage was not reported: no part
	// of Usage, but held against a budget.
	Assumed  Usage    `json:"assumed_usage,omitzero"`
	CostUSD  *float64 `json:"cost_usd,omitempty"`
	Finish   string   `json:"finish_reason,omitempty"`
	Attempts int      `json:"attempts,omitempty"` // requests made, retries included
	// Cached says that nobody was asked: the answer is that of an earlier call,
	// and CostUSD is 0.
	Cached bool `json:"cached,omitempty"`
	// Started is when the request was sent that gave the answer: what was waited
	// before it, for limits and after requests that failed, is Waited.
	Started time.Time     `json:"started"`
	Ended   time.Time     `json:"ended"`
	Waited  time.Duration `json:"waited_ns,omitempty"`
	Error   string        `json:"error,omitempty"`
	// Warnings say what was odd about a call that did not fail.
	Warnings []string `json:"warnings,omitempty"`
}

// Group counts one class: how many entities of a type were expected, extracted
// and matched, in one item or in several together.
type Group struct {
	Kind      string `json:"kind"` // "entity_type", "relationship_type"
	Name      string `json:"name"`
	Expected  int64  `json:"expected"`
	Extracted int64  `json:"extracted"`
	Matched   int64  `json:"matched"`
}
