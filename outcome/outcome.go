// Package outcome holds the types that every harness shares: what a run is (Header,
// Footer), what happened to one item (Outcome, with its Calls and Scores), and the Summary
// of a run. It is data and arithmetic only: nothing is read, written or sent here.
//
// An item that failed is an Outcome like any other, with a Class and a
// Failure. An undefined score has a nil Value and a Reason; it is never NaN
// and never a silent 0.
package outcome

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"extraction-experiment/internal/stats"
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

// Detail is the large part of an Outcome. A run file stores it separately, so that sums
// over many items need not read it.
type Detail struct {
	Output   json.RawMessage `json:"output,omitempty"`
	Calls    []Call          `json:"calls,omitempty"`
	Failure  *Failure        `json:"failure,omitempty"` // set exactly when Class is not OK
	Warnings []string        `json:"warnings,omitempty"`

	// Worker is the name of the worker that did the task; empty where the run itself did.
	Worker string `json:"worker,omitempty"`

	// NothingExpected says that the expected output is annotated and empty: there was
	// nothing to find.
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
	Counts Counts `json:"counts,omitempty"`
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

// Call is one step of the task, such as a call of a model or a stage of the pipeline, or
// the call of a model that judged the outcome. Each becomes a span under the item's root
// span.
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
	// Cached says that the answer is that of an earlier call: no request was made, and
	// CostUSD is 0.
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

// Class says why an item failed. The empty class is success.
type Class string

// The classes of failure.
const (
	// OK is the class of an item that did not fail.
	OK Class = ""
	// Timeout: the task did not finish within the time given to an item.
	Timeout Class = "timeout"
	// RateLimited: the provider kept refusing because of its limits.
	RateLimited Class = "rate_limited"
	// Provider: the model or its server failed otherwise.
	Provider Class = "provider"
	// InvalidOutput: the extractor answered with something that is not an extraction.
	InvalidOutput Class = "invalid_output"
	// Item: the dataset item itself cannot be used.
	Item Class = "item"
	// Internal: a bug in this program.
	Internal Class = "internal"
)

// Classes lists every class of failure, in the order in which they are shown.
func Classes() []Class {
	return []Class{Timeout, RateLimited, Provider, InvalidOutput, Item, Internal}
}

// ErrorScore is the name of the score that says whether an item failed: 1 with
// class and message as comment, 0 otherwise, so that its mean is the failure
// rate. Every outcome has it.
const ErrorScore = "error"

// Score is a named value of one outcome.
//
// Of a failed item the scores that its expected output would define stand
// there without a value: they are the ones that count as zero in
// Stat.FailuresAsZero.
type Score struct {
	Name  string   `json:"name"`
	Value *float64 `json:"value"` // nil is undefined
	// Ratio holds the integers that Value is the quotient of, where there are
	// such; pooled values are made of them.
	Ratio *Ratio `json:"ratio,omitempty"`
	// Boolean says that Value is 0 or 1 and means no or yes.
	Boolean bool `json:"boolean,omitempty"`
	// Vacuous says that the value is 1 only because nothing was expected and
	// nothing was extracted.
	Vacuous bool `json:"vacuous,omitempty"`
	// Weight is how much the item counts in the weighted mean of this score,
	// at least 0; nil where there are no weights. A failed item has it too.
	Weight *float64 `json:"weight,omitempty"`
	// Reason says why Value is nil.
	Reason string `json:"reason,omitempty"`
	// Comment explains the value to a person: "7/9 extracted entities matched".
	Comment string `json:"comment,omitempty"`
	// Counts are the named integers behind the value.
	Counts Counts `json:"counts,omitempty"`
}

// Counts are integers by name, sorted by name, each name once; in JSON an object such as
// {"matched":3}. Every outcome has many of them, and a map would take four times the
// memory.
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
		c = append(c, Count{name, n})
	}
	slices.SortFunc(c, func(a, b Count) int { return strings.Compare(a.Name, b.Name) })
	return c
}

// Get returns the count of that name, 0 without one.
func (c Counts) Get(name string) int64 {
	if at, there := c.find(name); there {
		return c[at].N
	}
	return 0
}

// Set adds a count, in place of one of that name.
func (c *Counts) Set(name string, n int64) {
	at, there := c.find(name)
	if !there {
		*c = slices.Insert(*c, at, Count{Name: name})
	}
	(*c)[at].N = n
}

func (c Counts) find(name string) (int, bool) {
	return slices.BinarySearchFunc(c, name, func(one Count, name string) int { return strings.Compare(one.Name, name) })
}

// Ratio is an integer numerator and denominator.
type Ratio struct {
	Num int64 `json:"num"`
	Den int64 `json:"den"`
}

// Usable reports whether the ratio is there and its numbers are neither negative
// nor absurd, so that sums of them cannot overflow.
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

// Waits are the times during which an item only waited, for limits and before a request was
// sent again, in their order.
type Waits []wait

type wait struct{ from, to time.Time }

// WaitsOf returns those of the calls of a task. While one of them waits, a model
// call that is under way at the same time is not waiting. Time O(n log n) for n
// calls.
func WaitsOf(calls []Call) Waits {
	type edge struct {
		at            time.Time
		waiting, busy int
	}
	var edges []edge
	for _, c := range calls {
		if c.Kind == JudgingKind {
			continue
		}
		if c.Waited > 0 {
			edges = append(edges, edge{c.Started.Add(-c.Waited), 1, 0}, edge{c.Started, -1, 0})
		}
		if c.Kind == "generation" && c.Ended.After(c.Started) {
			edges = append(edges, edge{c.Started, 0, 1}, edge{c.Ended, 0, -1})
		}
	}
	slices.SortStableFunc(edges, func(a, b edge) int { return a.at.Compare(b.at) })
	var waits Waits
	waiting, busy := 0, 0
	for i, e := range edges {
		if waiting > 0 && busy == 0 && e.at.After(edges[i-1].at) {
			waits = append(waits, wait{edges[i-1].at, e.at})
		}
		waiting, busy = waiting+e.waiting, busy+e.busy
	}
	return waits
}

// Sum returns how long was waited in all.
func (w Waits) Sum() time.Duration {
	var sum time.Duration
	for _, one := range w {
		sum += one.to.Sub(one.from)
	}
	return sum
}

// Before returns how much of it was before an instant.
func (w Waits) Before(t time.Time) time.Duration {
	var sum time.Duration
	for _, one := range w {
		if one.to.After(t) {
			return sum + max(0, t.Sub(one.from))
		}
		sum += one.to.Sub(one.from)
	}
	return sum
}

// Cause counts one kind of fault of one item, in the words of the harness:
// three entities missed.
type Cause struct {
	What  string `json:"what"` // "entity", "relationship"
	Name  string `json:"name"` // "missed", "boundary", …
	Count int64  `json:"count"`
}

// CauseCount is one kind of fault over the scored items of a run.
type CauseCount struct {
	What  string `json:"what"`
	Name  string `json:"name"`
	Count int64  `json:"count"`
	Items int    `json:"items"` // how many have it
	// Worst are the items that have it most often.
	Worst []CauseItem `json:"worst"`
}

// CauseItem is an item with the number of its faults of one kind, in all of its
// trials together; Trial is the one with most of them, 0 in a run of one trial.
type CauseItem struct {
	ID    string `json:"id"`
	Trial int    `json:"trial,omitempty"`
	Count int64  `json:"count"`
}

type causeTally struct {
	count int64
	items int
	worst *stats.Shortlist[CauseItem]
	// trials has the items of a run of several trials, nil for others: their
	// faults are added up before they are put in order.
	trials map[string]*causeTrials
}

// causeTrials is an item of several trials; most is how often the fault is in the
// one that has most of it.
type causeTrials struct {
	CauseItem
	most int64
}

func (s *Summariser) addCauses(o Outcome) {
	for _, c := range o.Causes {
		if c.Count == 0 || !countable(c.Count) {
			continue
		}
		entry(s.causes, groupKey{c.What, c.Name}, s.newCauseTally).add(o, c.Count)
	}
}

func (s *Summariser) newCauseTally() *causeTally {
	t := &causeTally{worst: stats.NewShortlist(s.config.Worst, compareCauseItems)}
	if s.header.Trials > 1 {
		t.trials = map[string]*causeTrials{}
	}
	return t
}

func (t *causeTally) add(o Outcome, count int64) {
	t.count += count
	item := CauseItem{ID: o.Item, Count: count}
	if t.trials == nil {
		t.items++
	} else {
		sum := entry(t.trials, o.Item, func() *causeTrials { return &causeTrials{CauseItem: CauseItem{ID: o.Item}} })
		sum.Count += count
		if count > sum.most || count == sum.most && o.Trial < sum.Trial {
			sum.most, sum.Trial = count, o.Trial
		}
		item, t.items = sum.CauseItem, len(t.trials)
	}
	t.worst.Replace(item, func(other CauseItem) bool { return other.ID == item.ID })
}

// causeCounts puts the most frequent first.
func (s *Summariser) causeCounts() []CauseCount {
	list := make([]CauseCount, 0, len(s.causes))
	for key, t := range s.causes {
		list = append(list, CauseCount{What: key.kind, Name: key.name, Count: t.count, Items: t.items, Worst: t.worst.Values()})
	}
	slices.SortFunc(list, func(a, b CauseCount) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.What, b.What), cmp.Compare(a.Name, b.Name))
	})
	return list
}

func compareCauseItems(a, b CauseItem) int {
	return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.ID, b.ID), cmp.Compare(a.Trial, b.Trial))
}
