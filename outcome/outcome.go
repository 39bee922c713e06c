// Package outcome has the types that all harnesses share: the description of a run (Header,
// Footer), the result of one item (Outcome, with its Calls and Scores), and the Summary of a
// run. It is data and arithmetic only, without input and output.
//
// A failed item is an Outcome like any other, with a Class and a Failure. An undefined score
// has a nil Value and a Reason; it is never NaN and never 0.
package outcome

import (
	"encoding/json"
	"slices"
	"strings"
	"time"
)

// Outcome is the result of one attempt of an item in a trial.
type Outcome struct {
	Item    string `json:"item"` // the dataset item's id
	Seq     int64  `json:"seq"`  // order of arrival of the item, from 1
	Trial   int    `json:"trial"`
	Attempt int    `json:"attempt"`

	Class   Class         `json:"class,omitempty"`
	Started time.Time     `json:"started"`
	Ended   time.Time     `json:"ended"`
	Latency time.Duration `json:"latency_ns"` // duration of the task without waiting for limits
	Usage   Usage         `json:"usage,omitzero"`
	CostUSD *float64      `json:"cost_usd,omitempty"` // nil if unknown

	Scores []Score `json:"scores"`

	Detail
}

// Detail is the large part of an Outcome. A run file stores it separately, so that sums over
// many items need not read it.
type Detail struct {
	Output   json.RawMessage `json:"output,omitempty"`
	Calls    []Call          `json:"calls,omitempty"`
	Failure  *Failure        `json:"failure,omitempty"` // set exactly when Class is not OK
	Warnings []string        `json:"warnings,omitempty"`

	// Worker is the name of the worker that carried out the task; empty if it was the process
	// of the run.
	Worker string `json:"worker,omitempty"`

	// NothingExpected means that the expected output is annotated and empty: there was nothing
	// to find.
	NothingExpected bool `json:"nothing_expected,omitempty"`

	// Assumed is the sum of Call.Assumed, FromCache the number of cached calls. A rescored run
	// has those of the original calls.
	Assumed   Usage `json:"assumed_usage,omitzero"`
	FromCache int   `json:"from_cache,omitempty"`

	// Judging is the usage of judging models; nil if there were no such calls.
	Judging *Judging `json:"judging,omitempty"`

	// Causes count the faults of the item, by kind.
	Causes []Cause `json:"causes,omitempty"`
	// Groups are the counts of the item for breakdowns by type.
	Groups []Group `json:"groups,omitempty"`
	// Explanation is how the scorer computed the scores (matches, misses), in the form of the
	// harness.
	Explanation json.RawMessage `json:"explanation,omitempty"`
	// Counts are integers that are not part of a score, for example duplicates.
	Counts Counts `json:"counts,omitempty"`
}

// Failed reports whether the item failed.
func (o Outcome) Failed() bool { return o.Class != OK }

// Usage counts the tokens of model calls. The zero value means that none were reported.
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

// Bounded limits counts to 0 and to a number that no call reaches and whose sums over millions
// of calls do not overflow.
func (u Usage) Bounded() Usage {
	const limit = 1 << 40
	bound := func(n int64) int64 { return min(max(n, 0), limit) }
	return Usage{bound(u.Input), bound(u.Output), bound(u.Cached), bound(u.Reasoning)}
}

// Total returns the sum of input and output tokens.
func (u Usage) Total() int64 { return u.Input + u.Output }

// Call is one step of the task, for example a call of a model or a stage of a pipeline, or the
// call of a judging model. Each becomes a span under the item's root span.
type Call struct {
	Name string `json:"name"` // of the span; empty means that of Kind
	// Kind is "generation" for a model call of the task, JudgingKind for a call of a judging
	// model, and "span" for anything else.
	Kind       string          `json:"kind"`
	Provider   string          `json:"provider,omitempty"`
	Model      string          `json:"model,omitempty"`
	Parameters json.RawMessage `json:"parameters,omitempty"` // an object
	Input      json.RawMessage `json:"input,omitempty"`      // messages, or what the stage was given
	Output     json.RawMessage `json:"output,omitempty"`
	Usage      Usage           `json:"usage,omitzero"`
	// Assumed is the estimate for requests whose usage was not reported. It is not part of
	// Usage, but counts in a budget.
	Assumed  Usage    `json:"assumed_usage,omitzero"`
	CostUSD  *float64 `json:"cost_usd,omitempty"`
	Finish   string   `json:"finish_reason,omitempty"`
	Attempts int      `json:"attempts,omitempty"` // requests made, retries included; 0 if Cached or not recorded
	// Cached means that the answer of an earlier call was used: no request was made, and
	// CostUSD is 0.
	Cached bool `json:"cached,omitempty"`
	// Started is when the request was sent that succeeded. Waited is the time spent waiting
	// before, for limits and after failed requests.
	Started time.Time     `json:"started"`
	Ended   time.Time     `json:"ended"`
	Waited  time.Duration `json:"waited_ns,omitempty"`
	Error   string        `json:"error,omitempty"`
	// Warnings describe oddities of a call that did not fail.
	Warnings []string `json:"warnings,omitempty"`
}

// Group has the counts of one group, for example an entity type: how many were expected,
// extracted and matched, in one item or in several.
type Group struct {
	Kind      string `json:"kind"` // "entity_type", "relationship_type"
	Name      string `json:"name"`
	Expected  int64  `json:"expected"`
	Extracted int64  `json:"extracted"`
	Matched   int64  `json:"matched"`
}

// Class is the kind of a failure. The empty class is success.
type Class string

// The classes of failure.
const (
	// OK is the class of an item that did not fail.
	OK Class = ""
	// Timeout: the task did not finish within the time limit of an item.
	Timeout Class = "timeout"
	// RateLimited: the provider kept refusing because of its limits.
	RateLimited Class = "rate_limited"
	// Provider: the model or its server failed otherwise.
	Provider Class = "provider"
	// InvalidOutput: the answer is not an extraction.
	InvalidOutput Class = "invalid_output"
	// Item: the dataset item cannot be used.
	Item Class = "item"
	// Internal: a bug in this program.
	Internal Class = "internal"
)

// Classes returns the classes of failure, in the order in which they are shown.
func Classes() []Class {
	return []Class{Timeout, RateLimited, Provider, InvalidOutput, Item, Internal}
}

// ErrorScore is the name of a score that every outcome has: 1 for a failed item, with class and
// message as comment, 0 otherwise. Its mean is the failure rate.
const ErrorScore = "error"

// Score is a named value of one outcome.
//
// A failed item has the scores that its expected output would define, without a value. They
// count as zero in Stat.FailuresAsZero.
type Score struct {
	Name string `json:"name"`
	// Value is nil if undefined. In statistics, a value beyond ±1e150 counts as undefined.
	Value *float64 `json:"value"`
	// Ratio has the integers whose quotient is Value, or is nil. Pooled values are computed
	// from it.
	Ratio *Ratio `json:"ratio,omitempty"`
	// Boolean means that Value is 0 or 1 and means no or yes.
	Boolean bool `json:"boolean,omitempty"`
	// Vacuous means that the value is 1 only because nothing was expected and nothing was
	// extracted.
	Vacuous bool `json:"vacuous,omitempty"`
	// Weight is the weight of the item in the weighted mean of this score, at least 0; nil if
	// there are no weights. A weight above 1e12 is ignored. A failed item has it too.
	Weight *float64 `json:"weight,omitempty"`
	// Reason is the reason why Value is nil.
	Reason string `json:"reason,omitempty"`
	// Comment explains the value to a person: "7/9 extracted entities matched".
	Comment string `json:"comment,omitempty"`
	// Counts are the integers from which the value was computed.
	Counts Counts `json:"counts,omitempty"`
}

// Counts are integers by name, sorted by name, without repeated names. In JSON they are an
// object, for example {"matched":3}. Every outcome has many of them, and a map would take four
// times the memory.
type Counts []Count

// Count is an integer with its name.
type Count struct {
	Name string
	N    int64
}

// CountsOf returns the counts of a map.
func CountsOf(m map[string]int64) Counts {
	if m == nil {
		return nil
	}
	c := make(Counts, 0, len(m))
	for name, n := range m {
		c.Set(name, n)
	}
	return c
}

// Get returns the count of that name, or 0.
func (c Counts) Get(name string) int64 {
	if i, found := c.find(name); found {
		return c[i].N
	}
	return 0
}

// Set sets the count of that name.
func (c *Counts) Set(name string, n int64) {
	i, found := c.find(name)
	if !found {
		*c = slices.Insert(*c, i, Count{Name: name})
	}
	(*c)[i].N = n
}

func (c Counts) find(name string) (int, bool) {
	return slices.BinarySearchFunc(c, name, func(a Count, name string) int { return strings.Compare(a.Name, name) })
}

// Ratio is an integer numerator and denominator.
type Ratio struct {
	Num int64 `json:"num"`
	Den int64 `json:"den"`
}

// Usable reports whether r is not nil, and its numbers are not negative and so small that sums
// of them cannot overflow.
func (r *Ratio) Usable() bool { return r != nil && countable(r.Num) && countable(r.Den) }

// Lookup returns the score of that name.
func Lookup(scores []Score, name string) (Score, bool) {
	for _, s := range scores {
		if s.Name == name {
			return s, true
		}
	}
	return Score{}, false
}

// Waits are the periods in which an item only waited, for limits and before retries, in order
// of time.
type Waits []wait

type wait struct{ from, to time.Time }

// WaitsOf returns the waits of the calls of a task, without those of judging models. A period
// in which one call waits while a model call is under way is not a wait. Time: O(n log n) for n
// calls.
func WaitsOf(calls []Call) Waits {
	type event struct {
		at            time.Time
		waiting, busy int
	}
	var events []event
	for _, c := range calls {
		if c.Kind == JudgingKind {
			continue
		}
		if c.Waited > 0 {
			events = append(events, event{c.Started.Add(-c.Waited), 1, 0}, event{c.Started, -1, 0})
		}
		if c.Kind == "generation" && c.Ended.After(c.Started) {
			events = append(events, event{c.Started, 0, 1}, event{c.Ended, 0, -1})
		}
	}
	slices.SortStableFunc(events, func(a, b event) int { return a.at.Compare(b.at) })
	var waits Waits
	waiting, busy := 0, 0
	for i, e := range events {
		if waiting > 0 && busy == 0 && e.at.After(events[i-1].at) {
			waits = append(waits, wait{events[i-1].at, e.at})
		}
		waiting, busy = waiting+e.waiting, busy+e.busy
	}
	return waits
}

// Sum returns the total time.
func (w Waits) Sum() time.Duration {
	var sum time.Duration
	for _, one := range w {
		sum += one.to.Sub(one.from)
	}
	return sum
}

// Before returns the time of the waits before t.
func (w Waits) Before(t time.Time) (sum time.Duration) {
	for _, one := range w {
		if one.to.After(t) {
			one.to = t
		}
		sum += max(0, one.to.Sub(one.from))
	}
	return sum
}
