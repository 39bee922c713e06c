package tracking

import (
	"cmp"
	"fmt"
	"slices"

	"extraction-experiment/internal/printable"
	"extraction-experiment/langfuse"
)

// Kind says in which way Langfuse differs from the run file.
type Kind string

// The kinds of findings.
const (
	// MissingTrace: nothing of an item's trace is there.
	MissingTrace Kind = "missing_trace"
	// MissingSpan: some spans of it are not.
	MissingSpan Kind = "missing_span"
	// WrongLevel: an item failed, and its trace does not say so.
	WrongLevel Kind = "wrong_level"
	// PromptNotLinked: a generation does not name the run's prompt and version.
	PromptNotLinked Kind = "prompt_not_linked"
	// MissingRunItem: the list of runs (v3 and dual) does not have the item.
	MissingRunItem Kind = "missing_run_item"
	// WrongRunItem: there the item leads to another trace than the newest attempt's.
	WrongRunItem Kind = "wrong_run_item"
	// NotInExperiment: the list of experiments (v4 and dual) does not have the item.
	NotInExperiment Kind = "not_in_experiment"
	// RunReplaced: the run was deleted there and made anew, and has another id
	// now: what hangs on the old one is not to be seen.
	RunReplaced Kind = "run_replaced"
	// DoubledItem: an item is in the run a second time, by a trace that this run
	// did not make, or an item is in it that the run file does not know. Repair
	// leaves it: who made it must say which counts.
	DoubledItem Kind = "doubled_item"
	// MissingScore, ChangedScore and DoubledScore: a score of an item, or with an
	// empty item of the run itself, is not there, says something else, or is
	// there a second time: under an id that this run derives for another attempt
	// of the item, or, beside the run's own and in its environment, under an id of
	// another program's. That one Repair deletes if it says the same; if not, it
	// leaves it: who wrote it must say which counts.
	MissingScore Kind = "missing_score"
	ChangedScore Kind = "changed_score"
	DoubledScore Kind = "doubled_score"
	// StaleScore: a score of an attempt that a newer one replaced is still there.
	StaleScore Kind = "stale_score"
)

// Kinds returns all kinds, in the order in which findings are listed.
func Kinds() []Kind {
	return []Kind{
		RunReplaced, MissingTrace, MissingSpan, MissingRunItem, WrongRunItem, NotInExperiment, DoubledItem,
		WrongLevel, PromptNotLinked, DoubledScore, ChangedScore, MissingScore, StaleScore,
	}
}

// Finding is one difference.
type Finding struct {
	Kind  Kind   `json:"kind"`
	Trial int    `json:"trial"`
	Item  string `json:"item,omitempty"` // empty: the run itself
	Trace string `json:"trace_id,omitempty"`
	Score string `json:"score,omitempty"` // its name
	// ScoreID is the id of a score that says something else, or is a double.
	ScoreID string `json:"score_id,omitempty"`
	// Left says that Repair leaves it as it is: somebody has to decide.
	Left bool `json:"left,omitempty"`
	// Detail is what was expected and what is there.
	Detail string `json:"detail"`
}

// Checked counts what was compared and found as it should be.
type Checked struct {
	Items     int `json:"items"` // newest attempts, with all that belongs to them
	Spans     int `json:"spans"`
	Prompts   int `json:"prompts"` // generations that name prompt and version
	Scores    int `json:"scores"`
	RunScores int `json:"run_scores"`
	// Shown counts items by the view that shows them.
	Shown map[langfuse.View]int `json:"shown"`
}

// Verdict is what Verify found.
type Verdict struct {
	Run         string        `json:"run"`
	Experiments []string      `json:"experiments"` // ids, one per trial
	Mode        langfuse.Mode `json:"mode"`
	Outcomes    int           `json:"outcomes"` // newest attempts in the run file
	Checked     Checked       `json:"checked"`
	// Came counts what came while it was looked for: spans, scores, places in lists,
	// and scores that went.
	Came int `json:"came"`
	// OnItsWay says that Langfuse was still at work at the end of the time: what is
	// missing may come.
	OnItsWay bool         `json:"on_its_way"`
	Counts   map[Kind]int `json:"counts"`   // of findings, by kind
	Findings []Finding    `json:"findings"` // the first ones; see Counts
	// LeftCount is how many findings Repair leaves as they are.
	LeftCount int `json:"left_count"`
	// Others are scores of the same names that other programs wrote elsewhere than
	// this run puts its own: no fault, and never deleted. The first ones;
	// OthersCount counts all.
	Others      []OtherScore      `json:"others"`
	OthersCount int               `json:"others_count"`
	Superseded  []SupersededEntry `json:"superseded"`
	// SupersededCount counts all of Superseded, which lists the first ones.
	SupersededCount int `json:"superseded_count"`
}

// OtherScore is a score on a trace of the run, or on the run, that has the name
// of one of its scores and an id that is not of its making: another program set
// it, in another environment, on another part of the trace, or where the run has
// none of that name. Pages of Langfuse show the mean of both. Scores of people and
// of evaluators that Langfuse runs are told apart there, and not listed.
type OtherScore struct {
	Trial       int    `json:"trial"`
	Item        string `json:"item,omitempty"` // empty: on the run itself
	Trace       string `json:"trace_id,omitempty"`
	Score       string `json:"score"` // its name
	ID          string `json:"id"`
	Value       string `json:"value"`
	Environment string `json:"environment"`
}

// SupersededEntry is an attempt that a newer one replaced: no fault, but v4 keeps
// its trace in the run's cost and error count.
type SupersededEntry struct {
	Trial   int    `json:"trial"`
	Item    string `json:"item"`
	Attempt int    `json:"attempt"`
	Trace   string `json:"trace_id"`
	Class   string `json:"class"`
}

// maxListed is how many findings, superseded attempts and scores of others a
// Verdict lists.
const maxListed = 1000

// sort brings findings into an order that does not depend on that of the run.
func (v *Verdict) sort() {
	rank := map[Kind]int{}
	for i, kind := range Kinds() {
		rank[kind] = i
	}
	slices.SortStableFunc(v.Findings, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(rank[a.Kind], rank[b.Kind]), cmp.Compare(a.Trial, b.Trial), cmp.Compare(a.Item, b.Item), cmp.Compare(a.Score, b.Score))
	})
	slices.SortStableFunc(v.Others, func(a, b OtherScore) int {
		return cmp.Or(cmp.Compare(a.Trial, b.Trial), cmp.Compare(a.Item, b.Item), cmp.Compare(a.Score, b.Score), cmp.Compare(a.ID, b.ID))
	})
	slices.SortStableFunc(v.Superseded, func(a, b SupersededEntry) int {
		return cmp.Or(cmp.Compare(a.Trial, b.Trial), cmp.Compare(a.Item, b.Item), cmp.Compare(a.Attempt, b.Attempt))
	})
}

// OK reports whether nothing was found.
func (v Verdict) OK() bool { return v.Total() == 0 }

// Total returns how many findings there are, those that are not listed included.
func (v Verdict) Total() int {
	n := 0
	for _, count := range v.Counts {
		n += count
	}
	return n
}

// mendable counts the findings that Repair does something about.
func (v Verdict) mendable() int { return v.Total() - v.LeftCount }

// there counts what is as it should be, so that it grows as long as Langfuse works.
func (v Verdict) there() int {
	n := v.Checked.Spans + v.Checked.Scores + v.Checked.RunScores - v.Counts[StaleScore] - v.Counts[DoubledScore]
	for _, items := range v.Checked.Shown {
		n += items
	}
	return n
}

// mayCome reports whether all that was found may be gone when Langfuse has done its
// work; sent says that all of it was just sent again.
func (v Verdict) mayCome(sent bool) bool {
	n := 0
	for _, kind := range []Kind{MissingTrace, MissingSpan, MissingRunItem, WrongRunItem, NotInExperiment, MissingScore, StaleScore} {
		n += v.Counts[kind]
	}
	return n == v.Total() || sent && v.LeftCount == 0
}

// OnItsWayError says that Langfuse does not show yet all that the run file holds,
// and was still at work.
type OnItsWayError struct{ Verdict Verdict }

// Error counts what came, and what did not.
func (e *OnItsWayError) Error() string {
	return fmt.Sprintf("still on its way: %d more came while looking, and Langfuse differs from the run file in %s yet; verify again later",
		e.Verdict.Came, printable.Counted(e.Verdict.Total(), "point"))
}

// ExitCode returns 69: the server did not do in time what it accepted.
func (*OnItsWayError) ExitCode() int { return 69 }

// Err returns what a verdict comes to: nil, an *OnItsWayError or a *DifferentError.
func (v Verdict) Err() error {
	switch {
	case v.OK():
		return nil
	case v.OnItsWay:
		return &OnItsWayError{v}
	}
	return &DifferentError{v}
}

// DifferentError says that Langfuse does not hold what the run file does.
type DifferentError struct{ Verdict Verdict }

// Error counts the findings.
func (e *DifferentError) Error() string {
	return fmt.Sprintf("Langfuse differs from the run file in %s", printable.Counted(e.Verdict.Total(), "point"))
}

// ExitCode returns 1: a check failed.
func (*DifferentError) ExitCode() int { return 1 }
