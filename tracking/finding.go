package tracking

import (
	"cmp"
	"fmt"
	"slices"

	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/textutil"
	"extraction-experiment/langfuse"
)

// Kind is the way in which Langfuse differs from the run file.
type Kind string

// The kinds of findings.
const (
	// MissingTrace: no span of the item's trace exists.
	MissingTrace Kind = "missing_trace"
	// MissingSpan: some spans of the item's trace do not exist.
	MissingSpan Kind = "missing_span"
	// WrongLevel: the item failed, and its root span does not have the level ERROR.
	WrongLevel Kind = "wrong_level"
	// PromptNotLinked: a generation does not name the run's prompt and version.
	PromptNotLinked Kind = "prompt_not_linked"
	// MissingRunItem: the list of runs (v3 and v4-dual) does not have the item.
	MissingRunItem Kind = "missing_run_item"
	// WrongRunItem: the list of runs links the item to a trace that is not that of the
	// newest attempt.
	WrongRunItem Kind = "wrong_run_item"
	// NotInExperiment: the list of experiments (v4 and v4-dual) does not have the item.
	NotInExperiment Kind = "not_in_experiment"
	// RunReplaced: the run was deleted and created again in Langfuse, and has another id.
	// Langfuse does not show anything that refers to the old id.
	RunReplaced Kind = "run_replaced"
	// DoubledItem: the run has a second trace of an item, which this run did not create, or
	// it has an item that the run file does not have. Repair leaves it: its author must
	// decide which one counts.
	DoubledItem Kind = "doubled_item"
	// MissingScore: a score of an item, or of the run itself if Item is empty, does not
	// exist.
	MissingScore Kind = "missing_score"
	// ChangedScore: a score of an item or of the run has another value or name.
	ChangedScore Kind = "changed_score"
	// DoubledScore: a score of an item or of the run exists twice. The second has either an
	// id that this run derives for another attempt of the item, or the id of another program
	// but the same place and environment. Repair deletes the second, except one of another
	// program with another value: its author must decide which one counts. Scores of the run that
	// another run of its name has sent, with all counts of items, stay too.
	DoubledScore Kind = "doubled_score"
	// StaleScore: a score of a replaced attempt still exists.
	StaleScore Kind = "stale_score"
)

// Kinds returns all kinds, in the order in which findings are listed.
func Kinds() []Kind {
	return []Kind{
		RunReplaced, MissingTrace, MissingSpan, MissingRunItem, WrongRunItem, NotInExperiment, DoubledItem,
		WrongLevel, PromptNotLinked, DoubledScore, ChangedScore, MissingScore, StaleScore,
	}
}

// Finding is one difference between the run file and Langfuse.
type Finding struct {
	Kind  Kind   `json:"kind"`
	Trial int    `json:"trial"`
	Item  string `json:"item,omitempty"` // empty: the run itself
	Trace string `json:"trace_id,omitempty"`
	Score string `json:"score,omitempty"` // the name of the score
	// ScoreID is the id of a changed or doubled score.
	ScoreID string `json:"score_id,omitempty"`
	// NeedsDecision is true if Repair leaves the difference, because a person has to decide.
	NeedsDecision bool `json:"left,omitempty"`
	// Detail describes the expected and the actual state.
	Detail string `json:"detail"`
}

// Checked counts the parts of a run that Langfuse has as expected.
type Checked struct {
	Items     int `json:"items"` // newest attempts without any finding
	Spans     int `json:"spans"`
	Prompts   int `json:"prompts"` // generations that name the run's prompt and version
	Scores    int `json:"scores"`
	RunScores int `json:"run_scores"`
	// Shown counts the items that each view shows.
	Shown map[langfuse.View]int `json:"shown"`
}

// Verification is the result of Verify.
type Verification struct {
	Run         string        `json:"run"`
	Experiments []string      `json:"experiments"` // ids, one per trial
	Mode        langfuse.Mode `json:"mode"`
	Outcomes    int           `json:"outcomes"` // newest attempts in the run file
	Checked     Checked       `json:"checked"`
	// Appeared is how many spans, scores and list entries appeared in Langfuse while Verify
	// waited. Deleted scores count too.
	Appeared int `json:"came"`
	// Pending is true if Langfuse was still working when the time was over: missing parts
	// may yet appear.
	Pending  bool         `json:"on_its_way"`
	Counts   map[Kind]int `json:"counts"`   // findings by kind
	Findings []Finding    `json:"findings"` // the first ones; Counts has all
	// NeedsDecisionCount is the number of findings that Repair leaves.
	NeedsDecisionCount int `json:"left_count"`
	// RepairRefused says why Repair would refuse this run; empty if it would not.
	RepairRefused string `json:"-"`
	// Others lists the first scores of other programs; OthersCount counts all. They are not
	// differences, and Repair never deletes them.
	Others      []OtherScore      `json:"others"`
	OthersCount int               `json:"others_count"`
	Superseded  []SupersededEntry `json:"superseded"`
	// SupersededCount counts all of Superseded, which lists the first ones.
	SupersededCount int `json:"superseded_count"`
}

// OtherScore is a score of another program on a trace of the run or on the run. It has the
// name of one of the run's scores, but an id that the run does not derive, and it is in
// another environment, on another part of the trace, or at a place where the run's score is
// missing. Pages of Langfuse show the mean of both scores. Scores by people and by evaluators
// that Langfuse runs are shown separately, and are not listed.
type OtherScore struct {
	Trial       int    `json:"trial"`
	Item        string `json:"item,omitempty"` // empty: on the run itself
	Trace       string `json:"trace_id,omitempty"`
	Score       string `json:"score"` // the name of the score
	ID          string `json:"id"`
	Value       string `json:"value"`
	Environment string `json:"environment"`
}

// SupersededEntry is an attempt that a newer one replaced. It is not a difference, but v4
// includes its trace in the cost and error count of the run.
type SupersededEntry struct {
	Trial   int    `json:"trial"`
	Item    string `json:"item"`
	Attempt int    `json:"attempt"`
	Trace   string `json:"trace_id"`
	Class   string `json:"class"`
}

// maxListed bounds each of the lists of a Verification: findings, superseded attempts and scores
// of other programs.
const maxListed = 1000

// sort sorts the lists of a verification, so that their order does not depend on the order in
// which the items were read.
func (v *Verification) sort() {
	kinds := Kinds()
	slices.SortStableFunc(v.Findings, func(a, b Finding) int {
		byKind := cmp.Compare(slices.Index(kinds, a.Kind), slices.Index(kinds, b.Kind))
		return cmp.Or(byKind, cmp.Compare(a.Trial, b.Trial), cmp.Compare(a.Item, b.Item), cmp.Compare(a.Score, b.Score))
	})
	slices.SortStableFunc(v.Others, func(a, b OtherScore) int {
		return cmp.Or(cmp.Compare(a.Trial, b.Trial), cmp.Compare(a.Item, b.Item), cmp.Compare(a.Score, b.Score), cmp.Compare(a.ID, b.ID))
	})
	slices.SortStableFunc(v.Superseded, func(a, b SupersededEntry) int {
		return cmp.Or(cmp.Compare(a.Trial, b.Trial), cmp.Compare(a.Item, b.Item), cmp.Compare(a.Attempt, b.Attempt))
	})
}

// OK reports whether there are no findings.
func (v Verification) OK() bool { return v.Total() == 0 }

// Total returns the number of findings, including those that are not listed.
func (v Verification) Total() int {
	n := 0
	for _, count := range v.Counts {
		n += count
	}
	return n
}

// Repairable returns the number of findings that Repair acts on.
func (v Verification) Repairable() int { return v.Total() - v.NeedsDecisionCount }

// correct returns a count of the correct parts, which grows as long as Langfuse makes
// progress.
func (v Verification) correct() int {
	c := v.Checked
	return c.Spans + c.Scores + c.RunScores + c.Shown[langfuse.ViewRuns] + c.Shown[langfuse.ViewExperiments] -
		v.Counts[StaleScore] - v.Counts[DoubledScore]
}

// mayResolve reports whether all findings may disappear once Langfuse has finished its work.
// If sent is true, everything that was missing or different has just been sent again.
func (v Verification) mayResolve(sent bool) bool {
	n := 0
	for _, kind := range []Kind{MissingTrace, MissingSpan, MissingRunItem, WrongRunItem, NotInExperiment, MissingScore, StaleScore} {
		n += v.Counts[kind]
	}
	return n == v.Total() || sent && v.NeedsDecisionCount == 0
}

// Err returns a *DifferentError if there are findings, or nil.
func (v Verification) Err() error {
	if v.OK() {
		return nil
	}
	return &DifferentError{v}
}

// DifferentError reports that Langfuse differs from the run file, or that it was still
// working and does not show everything yet.
type DifferentError struct{ Verification Verification }

// Error states the number of findings, and how much appeared during the verification.
func (e *DifferentError) Error() string {
	differs := "Langfuse differs from the run file in " + textutil.Counted(e.Verification.Total(), "point")
	if !e.Verification.Pending {
		return differs
	}
	return fmt.Sprintf("still on its way: %d more arrived, and %s so far; verify again later",
		e.Verification.Appeared, differs)
}

// ExitCode returns 1, a failed check, or 69 if the server was still working.
func (e *DifferentError) ExitCode() int {
	if e.Verification.Pending {
		return cli.ExitUnavailable
	}
	return cli.ExitGate
}

// addCorrect adds what a comparison found that is no difference: the counts of correct parts,
// except Shown, and the scores of other programs.
func (v *Verification) addCorrect(c comparison) {
	v.Checked.Items += c.checked.Items
	v.Checked.Spans += c.checked.Spans
	v.Checked.Prompts += c.checked.Prompts
	v.Checked.Scores += c.checked.Scores
	v.Checked.RunScores += c.checked.RunScores
	v.OthersCount += len(c.others)
	v.Others = appendBounded(v.Others, c.others...)
}
