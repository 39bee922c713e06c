package tracking

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/textutil"
	"extraction-experiment/langfuse"
	"extraction-experiment/runstore"
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
	// RunReplaced: the run was deleted there and made again, and has another id
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
	c := v.Checked
	return c.Spans + c.Scores + c.RunScores + c.Shown[langfuse.ViewRuns] + c.Shown[langfuse.ViewExperiments] -
		v.Counts[StaleScore] - v.Counts[DoubledScore]
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

// unchanged returns the scores that were changed before they were sent again, and
// still are.
func (v *Verdict) unchanged(before Verdict) []*Finding {
	var still []*Finding
	for i := range v.Findings {
		f := &v.Findings[i]
		same := func(b Finding) bool { return b.Kind == ChangedScore && b.ScoreID == f.ScoreID }
		if f.Kind == ChangedScore && slices.ContainsFunc(before.Findings, same) {
			still = append(still, f)
		}
	}
	return still
}

// explainUnchanged explains such scores.
func (v *Verdict) explainUnchanged(before Verdict) {
	for _, f := range v.unchanged(before) {
		f.Detail += "; sent again, and Langfuse keeps it: it was stored with a later time, by a clock that is ahead; " +
			"its deletion shows no effect yet: repair again later, and if that changes nothing delete score " + f.ScoreID + " there"
	}
}

// Err returns what a verdict comes to: nil or a *DifferentError.
func (v Verdict) Err() error {
	if v.OK() {
		return nil
	}
	return &DifferentError{v}
}

// DifferentError says that Langfuse does not hold what the run file does, or was
// still at work and does not show it yet.
type DifferentError struct{ Verdict Verdict }

// Error counts the findings, and what came of them while looking.
func (e *DifferentError) Error() string {
	differs := "Langfuse differs from the run file in " + textutil.Counted(e.Verdict.Total(), "point")
	if !e.Verdict.OnItsWay {
		return differs
	}
	return fmt.Sprintf("still on its way: %d more arrived, and %s so far; verify again later", e.Verdict.Came, differs)
}

// ExitCode returns 1: a check failed; 69 where the server did not do in time what it
// accepted.
func (e *DifferentError) ExitCode() int {
	if e.Verdict.OnItsWay {
		return 69
	}
	return 1
}

// repairs gathers what would mend the differences of a page.
type repairs struct {
	resets  []runstore.Reset
	deletes []string // ids of scores
}

// again has a part of an outcome sent again, unchanged.
func (r *repairs) again(oid int64, part runstore.Published) {
	r.resets = append(r.resets, runstore.Reset{OID: oid, Bits: part})
}

// apply writes the repairs into the run file, for the publisher to carry out,
// and deletes doubled scores. Without v.mend it only forgets them.
func (r *repairs) apply(ctx context.Context, v *verifier) error {
	todo := *r
	*r = repairs{}
	if v.mend == nil {
		return nil
	}
	if err := v.mend.Run.Reset(ctx, todo.resets...); err != nil {
		return err
	}
	// Each of them could be read; whether it goes, the verification that follows sees.
	if err := v.cfg.deleteScores(ctx, todo.deletes); err != nil {
		return fmt.Errorf("deleting doubled scores: %w", err)
	}
	return nil
}

// deleteUnchanged deletes the scores that were sent again, and that Langfuse keeps as
// they were, and reports whether they are gone: what is sent before that would go
// with them.
func (v *verifier) deleteUnchanged(ctx context.Context, before, after Verdict, try int) (gone bool, err error) {
	ids := cli.Each(after.unchanged(before), func(f *Finding) string { return f.ScoreID })
	if try == 0 || len(ids) == 0 {
		return true, nil
	}
	// Each of them was read, so that no deletion comes before its score.
	if err := v.cfg.deleteScores(ctx, ids); err != nil {
		return false, fmt.Errorf("deleting scores that Langfuse keeps: %w", err)
	}
	err = v.cfg.Wait.Until(ctx, func(ctx context.Context) (bool, error) {
		left, err := v.cfg.readable(ctx, ids)
		gone = len(left) == 0
		return gone, err
	})
	if _, late := errors.AsType[*langfuse.NotYetError](err); late {
		err = nil
	}
	return gone, err
}

// deleteScores deletes scores, of which some may be gone.
func (s Site) deleteScores(ctx context.Context, ids []string) error {
	for _, id := range ids {
		if err := s.Client.DeleteScore(ctx, id); err != nil && !errors.Is(err, langfuse.ErrNotFound) {
			return err
		}
	}
	return nil
}

// resetTotals has the scores on the run of a trial sent again; a zero time is the one
// that they had. Without v.mend it does nothing.
func (v *verifier) resetTotals(ctx context.Context, trial int, later time.Time) error {
	if v.mend == nil {
		return nil
	}
	said, before, err := v.mend.Run.Totals(ctx, trial)
	if err != nil || !before {
		return err // never said: the publisher will
	}
	said.Acknowledged = false
	if !later.IsZero() {
		said.At = latest(later, said.At.Add(time.Millisecond))
	}
	return v.mend.Run.SetTotals(ctx, said)
}

// byProgram reports whether a score came through the API; others are those of
// people and of evaluators that Langfuse runs.
func byProgram(s langfuse.Score) bool {
	return s.AuthorUserID == "" && (s.Source == "" || s.Source == "API")
}

// comparison is the difference between the scores that should be on a trace, or
// on a run, and those that are.
type comparison struct {
	findings []Finding
	right    int
	wrong    bool     // a wanted score is missing or changed
	changed  bool     // one is changed
	doubled  []string // ids of scores that should not be there and are to be deleted
	others   []OtherScore
	newest   time.Time // of the changed ones
}

// compareScores compares by id. Scores under other names are other people's, and
// so are those that people and evaluators of Langfuse set. One that a program set
// under a wanted name is a double if its id is of our making, which derived knows,
// or if it is on the same subject beside the score that is wanted; otherwise it
// is somebody else's, and told of. A double of our making is to be deleted, and so
// is one of another id that has the wanted value: a copy.
func compareScores(want []langfuse.ScoreCreate, derived func(id string) bool, there []langfuse.Score) comparison {
	byID := map[string]langfuse.Score{}
	for _, s := range there {
		byID[s.ID] = s
	}
	var c comparison
	ours, names := map[string]bool{}, map[string]bool{}
	beside := map[string]langfuse.ScoreCreate{} // wanted scores that are there, by name
	for _, w := range want {
		ours[w.ID], names[w.Name] = true, true
		s, found := byID[w.ID]
		if found {
			beside[w.Name] = w
		}
		c.own(w, s, found)
	}
	slices.SortFunc(there, func(a, b langfuse.Score) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.ID, b.ID))
	})
	for _, s := range there {
		if !ours[s.ID] && names[s.Name] && byProgram(s) {
			c.foreign(s, beside[s.Name], derived(s.ID))
		}
	}
	return c
}

// own compares a score with what is there under its id.
func (c *comparison) own(w langfuse.ScoreCreate, s langfuse.Score, found bool) {
	f := Finding{Kind: ChangedScore, Score: w.Name, ScoreID: w.ID}
	switch {
	case !found:
		f = Finding{Kind: MissingScore, Score: w.Name, Detail: w.Value.String() + " is not there"}
	case s.Name != w.Name:
		f.Detail = fmt.Sprintf("it is called %q there", textutil.Cut(s.Name, maxBrief))
	case s.Value != w.Value:
		f.Detail = fmt.Sprintf("%s instead of %s", brief(s.Value), w.Value)
	default:
		c.right++
		return
	}
	if found {
		c.changed, c.newest = true, latest(c.newest, s.Timestamp)
	}
	c.wrong, c.findings = true, append(c.findings, f)
}

// foreign files a score of a wanted name under another id, which may be derived by this
// run, or are beside the wanted one, in its place and environment.
func (c *comparison) foreign(s langfuse.Score, w langfuse.ScoreCreate, derived bool) {
	beside := w.ID != "" && s.Subject.ID == cmp.Or(w.ObservationID, w.DatasetRunID) &&
		s.Environment == cmp.Or(w.Environment, "default")
	f := Finding{
		Kind: DoubledScore, Score: s.Name, ScoreID: s.ID,
		Detail: fmt.Sprintf("also there as %s, with the value %s", s.ID, brief(s.Value)),
	}
	switch {
	case derived, beside && s.Value == w.Value:
		c.doubled = append(c.doubled, s.ID)
	case beside:
		f.Left = true
		f.Detail += fmt.Sprintf(" beside %s, by another program: who wrote it must say which counts; "+
			"delete score %s in Langfuse, or give it another name", w.Value, s.ID)
	default:
		c.others = append(c.others, OtherScore{Score: s.Name, ID: s.ID, Value: s.Value.String(), Environment: s.Environment})
		return
	}
	c.findings = append(c.findings, f)
}

// maxBrief bounds what a finding quotes of a server, in bytes.
const maxBrief = 80

// brief returns a value for a finding; texts can be of any length.
func brief(v langfuse.ScoreValue) string { return textutil.Cut(v.String(), maxBrief) }

// later returns the time from which corrected scores count: after everything
// that the server has seen. It is zero where nothing was changed: what is only
// missing is sent unchanged.
func (c comparison) later(server langfuse.Server) time.Time {
	if !c.changed {
		return time.Time{}
	}
	return latest(time.Now().Add(max(0, server.Skew)), c.newest.Add(time.Millisecond)).UTC()
}
