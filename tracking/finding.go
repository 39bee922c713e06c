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
	// program with another value: its author must decide which one counts.
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

// Verdict is the result of Verify.
type Verdict struct {
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

// maxListed bounds each of the lists of a Verdict: findings, superseded attempts and scores
// of other programs.
const maxListed = 1000

// sort sorts the lists of a verdict, so that their order does not depend on the order in
// which the items were read.
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

// OK reports whether there are no findings.
func (v Verdict) OK() bool { return v.Total() == 0 }

// Total returns the number of findings, including those that are not listed.
func (v Verdict) Total() int {
	n := 0
	for _, count := range v.Counts {
		n += count
	}
	return n
}

// repairable returns the number of findings that Repair acts on.
func (v Verdict) repairable() int { return v.Total() - v.NeedsDecisionCount }

// correct returns a count of the correct parts, which grows as long as Langfuse makes
// progress.
func (v Verdict) correct() int {
	c := v.Checked
	return c.Spans + c.Scores + c.RunScores + c.Shown[langfuse.ViewRuns] + c.Shown[langfuse.ViewExperiments] -
		v.Counts[StaleScore] - v.Counts[DoubledScore]
}

// mayResolve reports whether all findings may disappear once Langfuse has finished its work.
// If sent is true, everything that was missing or different has just been sent again.
func (v Verdict) mayResolve(sent bool) bool {
	n := 0
	for _, kind := range []Kind{MissingTrace, MissingSpan, MissingRunItem, WrongRunItem, NotInExperiment, MissingScore, StaleScore} {
		n += v.Counts[kind]
	}
	return n == v.Total() || sent && v.NeedsDecisionCount == 0
}

// stillChanged returns the findings of changed scores that were in the verdict before they
// were sent again, too.
func (v *Verdict) stillChanged(before Verdict) []*Finding {
	var findings []*Finding
	for i := range v.Findings {
		f := &v.Findings[i]
		same := func(b Finding) bool { return b.Kind == ChangedScore && b.ScoreID == f.ScoreID }
		if f.Kind == ChangedScore && slices.ContainsFunc(before.Findings, same) {
			findings = append(findings, f)
		}
	}
	return findings
}

// explainUnchanged adds an explanation to the findings of stillChanged.
func (v *Verdict) explainUnchanged(before Verdict) {
	for _, f := range v.stillChanged(before) {
		f.Detail += "; sent again, and Langfuse keeps it: it was stored with a later time, by a clock that is ahead; " +
			"its deletion shows no effect yet: repair again later, and if that changes nothing delete score " + f.ScoreID + " there"
	}
}

// Err returns a *DifferentError if there are findings, or nil.
func (v Verdict) Err() error {
	if v.OK() {
		return nil
	}
	return &DifferentError{v}
}

// DifferentError reports that Langfuse differs from the run file, or that it was still
// working and does not show everything yet.
type DifferentError struct{ Verdict Verdict }

// Error states the number of findings, and how much appeared during the verification.
func (e *DifferentError) Error() string {
	differs := "Langfuse differs from the run file in " + textutil.Counted(e.Verdict.Total(), "point")
	if !e.Verdict.Pending {
		return differs
	}
	return fmt.Sprintf("still on its way: %d more arrived, and %s so far; verify again later", e.Verdict.Appeared, differs)
}

// ExitCode returns 1, a failed check, or 69 if the server was still working.
func (e *DifferentError) ExitCode() int {
	if e.Verdict.Pending {
		return 69
	}
	return 1
}

// repairs collects the changes that would repair the differences of a page.
type repairs struct {
	resets  []runstore.Reset
	deletes []string // ids of scores
}

// resend schedules parts of an outcome to be sent again, unchanged.
func (r *repairs) resend(oid int64, part runstore.Published) {
	r.resets = append(r.resets, runstore.Reset{OID: oid, Bits: part})
}

// apply writes the repairs into the run file, where the publisher finds them, deletes
// doubled scores, and empties r. If v.publish is nil it only empties r.
func (r *repairs) apply(ctx context.Context, v *verifier) error {
	pending := *r
	*r = repairs{}
	if v.publish == nil {
		return nil
	}
	if err := v.publish.Run.Reset(ctx, pending.resets...); err != nil {
		return err
	}
	// Langfuse showed each of these scores, so it has stored them and will not lose the
	// deletion. The next verification shows whether they are gone.
	if err := v.cfg.deleteScores(ctx, pending.deletes); err != nil {
		return fmt.Errorf("deleting doubled scores: %w", err)
	}
	return nil
}

// deleteUnchanged deletes the scores that were sent again without effect, and reports whether
// they are gone. The caller must not send them again before that, because the deletion would
// remove the new score too.
func (v *verifier) deleteUnchanged(ctx context.Context, before, after Verdict, try int) (gone bool, err error) {
	ids := cli.Each(after.stillChanged(before), func(f *Finding) string { return f.ScoreID })
	if try == 0 || len(ids) == 0 {
		return true, nil
	}
	// Langfuse showed each of these scores, so no deletion can come before its score.
	if err := v.cfg.deleteScores(ctx, ids); err != nil {
		return false, fmt.Errorf("deleting scores that Langfuse keeps: %w", err)
	}
	err = v.cfg.Wait.Until(ctx, func(ctx context.Context) (bool, error) {
		left, err := v.cfg.readableScores(ctx, ids)
		gone = len(left) == 0
		return gone, err
	})
	if _, late := errors.AsType[*langfuse.NotYetError](err); late {
		err = nil
	}
	return gone, err
}

// deleteScores deletes scores. It ignores those that do not exist.
func (s Site) deleteScores(ctx context.Context, ids []string) error {
	for _, id := range ids {
		if err := s.Client.DeleteScore(ctx, id); err != nil && !errors.Is(err, langfuse.ErrNotFound) {
			return err
		}
	}
	return nil
}

// resetRunScores schedules the run scores of a trial to be sent again, with a timestamp of at
// least at, or with their old timestamp if at is zero. If v.publish is nil it does nothing.
func (v *verifier) resetRunScores(ctx context.Context, trial int, at time.Time) error {
	if v.publish == nil {
		return nil
	}
	scores, known, err := v.publish.Run.RunScores(ctx, trial)
	if err != nil || !known {
		return err // without stored scores the publisher sends them anyway
	}
	scores.Acknowledged = false
	if !at.IsZero() {
		scores.At = latest(at, scores.At.Add(time.Millisecond))
	}
	return v.publish.Run.SetRunScores(ctx, scores)
}

// fromAPI reports whether a program wrote the score through the API. Other scores come from
// people and from evaluators that Langfuse runs.
func fromAPI(s langfuse.Score) bool {
	return s.AuthorUserID == "" && (s.Source == "" || s.Source == "API")
}

// comparison is the result of comparing the expected scores of a trace or of a run with the
// stored ones.
type comparison struct {
	findings []Finding
	matched  int
	wrong    bool     // an expected score is missing or changed
	changed  bool     // an expected score is changed
	doubles  []string // ids of doubled scores to delete
	others   []OtherScore
	newest   time.Time // the latest timestamp of the changed scores
}

// compareScores compares expected scores with the stored ones by id. It ignores scores with
// other names, and scores of people and of evaluators that Langfuse runs. A score that a
// program wrote under an expected name is a double if derived reports that the run derives
// its id, or if it has the same subject and environment as the expected score and that one
// exists. Otherwise it is listed as a score of another program. A double is to be deleted if
// its id is derived or if it has the expected value. compareScores sorts stored.
func compareScores(want []langfuse.ScoreCreate, derived func(id string) bool, stored []langfuse.Score) comparison {
	byID := map[string]langfuse.Score{}
	for _, s := range stored {
		byID[s.ID] = s
	}
	var c comparison
	ownIDs, names := map[string]bool{}, map[string]bool{}
	present := map[string]langfuse.ScoreCreate{} // expected scores that are stored, by name
	for _, w := range want {
		ownIDs[w.ID], names[w.Name] = true, true
		s, found := byID[w.ID]
		if found {
			present[w.Name] = w
		}
		c.addOwn(w, s, found)
	}
	slices.SortFunc(stored, func(a, b langfuse.Score) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.ID, b.ID))
	})
	for _, s := range stored {
		if !ownIDs[s.ID] && names[s.Name] && fromAPI(s) {
			c.addForeign(s, present[s.Name], derived(s.ID))
		}
	}
	return c
}

// addOwn compares an expected score with the stored score of the same id.
func (c *comparison) addOwn(w langfuse.ScoreCreate, s langfuse.Score, found bool) {
	f := Finding{Kind: ChangedScore, Score: w.Name, ScoreID: w.ID}
	switch {
	case !found:
		f = Finding{Kind: MissingScore, Score: w.Name, Detail: w.Value.String() + " is not there"}
	case s.Name != w.Name:
		f.Detail = fmt.Sprintf("it is called %q there", textutil.Cut(s.Name, maxQuote))
	case s.Value != w.Value:
		f.Detail = fmt.Sprintf("%s instead of %s", quoteValue(s.Value), w.Value)
	default:
		c.matched++
		return
	}
	if found {
		c.changed, c.newest = true, latest(c.newest, s.Timestamp)
	}
	c.wrong, c.findings = true, append(c.findings, f)
}

// addForeign adds a stored score that has an expected name but another id. w is the expected
// score of that name if it is stored, otherwise zero. derived says that the run derives the
// id of s.
func (c *comparison) addForeign(s langfuse.Score, w langfuse.ScoreCreate, derived bool) {
	sameSubject := w.ID != "" && s.Subject.ID == cmp.Or(w.ObservationID, w.DatasetRunID) &&
		s.Environment == cmp.Or(w.Environment, "default")
	f := Finding{
		Kind: DoubledScore, Score: s.Name, ScoreID: s.ID,
		Detail: fmt.Sprintf("also there as %s, with the value %s", s.ID, quoteValue(s.Value)),
	}
	switch {
	case derived, sameSubject && s.Value == w.Value:
		c.doubles = append(c.doubles, s.ID)
	case sameSubject:
		f.NeedsDecision = true
		f.Detail += fmt.Sprintf(" beside %s, by another program: its author must decide which counts; "+
			"delete score %s in Langfuse, or give it another name", w.Value, s.ID)
	default:
		c.others = append(c.others, OtherScore{Score: s.Name, ID: s.ID, Value: s.Value.String(), Environment: s.Environment})
		return
	}
	c.findings = append(c.findings, f)
}

// maxQuote bounds a text from the server in a finding, in bytes.
const maxQuote = 80

// quoteValue returns a value for a finding, cut to maxQuote, because values can be long
// texts.
func quoteValue(v langfuse.ScoreValue) string { return textutil.Cut(v.String(), maxQuote) }

// correctionTime returns a timestamp for corrected scores that is later than all that the
// server has stored, so that they replace the changed ones. If nothing was changed it returns
// the zero time, because missing scores are sent unchanged.
func (c comparison) correctionTime(server langfuse.Server) time.Time {
	if !c.changed {
		return time.Time{}
	}
	return latest(time.Now().Add(max(0, server.Skew)), c.newest.Add(time.Millisecond)).UTC()
}
