package tracking

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"extraction-experiment/internal/textutil"
	"extraction-experiment/langfuse"
	"extraction-experiment/outcome"
	"extraction-experiment/runstore"
)

// compareTrial compares the views of a trial and the scores on its run.
func (v *verifier) compareTrial(ctx context.Context, trial int) error {
	e, opened, err := v.cfg.Run.Experiment(ctx, trial)
	if err != nil || !opened {
		return err // without an id nothing was sent, and each outcome gets a finding
	}
	v.verification.Experiments = append(v.verification.Experiments, e.ID)
	ref := langfuse.RunRef{ID: e.ID, Name: RunName(v.header, trial), DatasetID: v.header.Dataset.ID}
	if ref.Since, err = v.firstStart(ctx, trial); err != nil {
		return err
	}
	if err := v.checkRunID(ctx, trial, e.ID, ref); err != nil {
		return err
	}
	for _, view := range v.views() {
		for item, err := range v.cfg.Client.ListRunItems(ctx, v.cfg.Server, view, ref) {
			if err != nil {
				return err
			}
			attempts, err := v.cfg.Run.Attempts(ctx, item.ItemID, trial)
			if err != nil {
				return err
			}
			v.compareViewItem(view, trial, item, attempts)
		}
	}
	return v.compareRunScores(ctx, trial, ref)
}

// firstStart returns a lower bound of the start of a trial's spans, or the zero time. The outcomes of
// a copy by rescore began before the copy, and those of a run whose clock was set back before the run.
func (v *verifier) firstStart(ctx context.Context, trial int) (first time.Time, err error) {
	for o, err := range v.cfg.Run.Outcomes(ctx, runstore.Query{Trial: trial}) {
		if err != nil {
			return first, err
		}
		if first.IsZero() || o.Started.Before(first) {
			first = o.Started
		}
	}
	if !first.IsZero() {
		first = first.Add(-24 * time.Hour)
	}
	return first, nil
}

// checkRunID adds a finding if the run has another id in the list of runs than in the run
// file, and then stores the new id in the run file if v.publish is set. It ignores a run that
// the list does not have, because each of its items gets a finding.
func (v *verifier) checkRunID(ctx context.Context, trial int, id string, ref langfuse.RunRef) error {
	if !slices.Contains(v.views(), langfuse.ViewRuns) {
		return nil
	}
	current, err := v.cfg.Client.GetRun(ctx, v.cfg.Server, langfuse.ViewRuns, langfuse.RunRef{DatasetID: ref.DatasetID, Name: ref.Name})
	if errors.Is(err, langfuse.ErrNotFound) || err == nil && current.ID == id {
		return nil
	}
	if err != nil {
		return err
	}
	v.addFinding(Finding{Kind: RunReplaced, Trial: trial, Detail: fmt.Sprintf("its id is %s there, and was %s: it was deleted and made again", current.ID, id)})
	v.movedTrials[trial] = v.cfg.Server.NewReads // in the new tables the spans carry the id
	if v.publish == nil {
		return nil
	}
	e := runstore.Experiment{Trial: trial, ID: current.ID, URL: v.publish.runURL(v.header, current.ID)}
	if err := v.publish.Run.ReplaceExperiment(ctx, e); err != nil {
		return err
	}
	return v.resetRunScores(ctx, trial, time.Now())
}

// views returns the views that must show the run. A run over a file is not in the list of
// runs, which belongs to a dataset.
func (v *verifier) views() []langfuse.View {
	return slices.DeleteFunc(v.cfg.Server.Views(), func(view langfuse.View) bool {
		return view == langfuse.ViewRuns && v.header.Dataset.ID == ""
	})
}

// compareViewItem records which attempt an item of a view shows, and adds a finding if it is
// not the newest.
func (v *verifier) compareViewItem(view langfuse.View, trial int, item langfuse.RunItem, attempts []runstore.Pending) {
	own := func(o runstore.Pending) bool {
		id := identify(v.header, o.Outcome)
		return id.trace() == item.TraceID && (item.ObservationID == "" || item.ObservationID == id.span(0))
	}
	isNewest := func(o runstore.Pending) bool { return !o.Published.Has(runstore.Superseded) }
	f := Finding{Kind: DoubledItem, Trial: trial, Item: item.ItemID, Trace: item.TraceID, NeedsDecision: true}
	newest := slices.IndexFunc(attempts, isNewest)
	switch {
	case newest < 0:
		f.Detail = "the view of " + string(view) + " has an item that the run file has no result of"
	case own(attempts[newest]):
		v.shown[place{view, attempts[newest].OID}] = true
		v.verification.Checked.Shown[view]++
		return
	case view == langfuse.ViewRuns:
		o := attempts[newest]
		v.shown[place{view, o.OID}] = true
		v.repairs.resend(o.OID, runstore.Link)
		f.Kind, f.NeedsDecision = WrongRunItem, false
		f.Detail = fmt.Sprintf("the run shows trace %s, and the newest attempt is %s", item.TraceID, TraceID(v.header, o.Outcome))
	case slices.ContainsFunc(attempts, own): // of a superseded attempt
		return
	default:
		f.Detail = "the experiment has a trace of the item that this run did not make"
	}
	v.addFinding(f)
}

// compareRunScores compares the scores on the run itself with those computed from the run
// file.
func (v *verifier) compareRunScores(ctx context.Context, trial int, ref langfuse.RunRef) error {
	_, ended, err := v.cfg.Run.Footer(ctx)
	if err != nil || !ended {
		return err
	}
	values, err := sumTrial(ctx, v.cfg.Run, v.header, trial)
	if err != nil {
		return err
	}
	want := runScoreRequests(v.header, ref.ID, runstore.RunScores{Trial: trial, Values: values})
	var stored []langfuse.Score
	for s, err := range v.cfg.Client.ListRunScores(ctx, v.cfg.Server, ref) {
		if err != nil {
			return err
		}
		stored = append(stored, s)
	}
	// The id of a run score does not depend on attempts, so there are no derived doubles.
	c := compareScores(want, func(string) bool { return false }, stored)
	c.leaveOtherRun()
	c.checked = Checked{RunScores: c.checked.Scores}
	v.addComparison(c, trial, "", "")
	if c.resend != 0 {
		return v.resetRunScores(ctx, trial, c.correctionTime(v.cfg.Server))
	}
	return nil
}

// comparePage compares a page of outcomes with their traces and scores.
func (v *verifier) comparePage(r comparedPage) {
	for _, o := range r.outcomes {
		id := TraceID(v.header, o.Outcome)
		if o.Published.Has(runstore.Superseded) {
			v.addSuperseded(o, id, r.scores[id])
			continue
		}
		if v.movedTrials[o.Trial] {
			v.repairs.resend(o.OID, runstore.Spans)
		}
		v.compareOutcome(o, id, r.traces[id], r.scores[id])
	}
}

// compareOutcome compares one newest attempt. If nothing differs the outcome is verified.
func (v *verifier) compareOutcome(o runstore.Pending, id string, trace langfuse.Trace, scores []langfuse.Score) {
	v.verification.Outcomes++
	if v.verified[o.OID] {
		return
	}
	c := compareScores(scoreRequests(v.header, o), isOwnScore(v.header, o.Outcome), scores)
	v.compareTrace(&c, o, trace)
	if c.resend != 0 { // changed scores are sent with a later timestamp
		reset := runstore.Reset{OID: o.OID, Bits: c.resend, Corrected: c.correctionTime(v.cfg.Server)}
		v.repairs.resets = append(v.repairs.resets, reset)
	}
	if len(c.findings) == 0 {
		c.checked.Items++
		v.verified[o.OID] = true
	}
	v.addComparison(c, o.Trial, o.Item, id)
}

// compareTrace compares the spans of an outcome, and its entries in the views. A missing root
// span explains why the list of experiments does not have the item, and needs no further finding.
func (v *verifier) compareTrace(c *comparison, o runstore.Pending, trace langfuse.Trace) {
	stored := map[string]langfuse.Observation{}
	for _, span := range trace.Observations {
		stored[span.ID] = span
	}
	id := identify(v.header, o.Outcome)
	_, hasRoot := stored[id.span(0)]
	for _, view := range v.views() {
		switch {
		case v.shown[place{view, o.OID}]:
		case view == langfuse.ViewRuns:
			c.add(MissingRunItem, runstore.Link, "the list of runs does not have the item")
		case hasRoot:
			c.add(NotInExperiment, runstore.Spans, "the list of experiments does not have the item")
		}
	}
	want, missing := 1+len(o.Calls), 0
	for position := range want {
		if span, ok := stored[id.span(position)]; ok {
			c.checked.Spans++
			v.compareSpan(c, o.Outcome, position, span)
		} else {
			missing++
		}
	}
	switch {
	case missing == want:
		c.add(MissingTrace, runstore.Spans, "none of its %d spans is there", want)
	case missing > 0:
		c.add(MissingSpan, runstore.Spans, "%d of its %d spans are not there", missing, want)
	}
}

// compareSpan checks the level of the root span, or the prompt of a generation.
func (v *verifier) compareSpan(c *comparison, o outcome.Outcome, position int, span langfuse.Observation) {
	p := v.header.System.Prompt
	switch {
	case position == 0:
		if o.Failed() && span.Level != "ERROR" {
			c.add(WrongLevel, runstore.Spans, "the item failed (%s), and its trace has the level %q", o.Class, span.Level)
		}
	case p.Name == "" || o.Calls[position-1].Kind != "generation":
	case span.PromptName != p.Name || int(span.PromptVersion) != p.Version:
		c.add(PromptNotLinked, runstore.Spans, "a generation has the prompt %q, version %d, instead of %q, version %d",
			span.PromptName, int(span.PromptVersion), p.Name, p.Version)
	default:
		c.checked.Prompts++
	}
}

// addSuperseded lists an attempt that a newer one replaced, and adds a finding for each of
// its scores that still exists. Its trace may exist.
func (v *verifier) addSuperseded(o runstore.Pending, id string, scores []langfuse.Score) {
	v.verification.SupersededCount++
	v.verification.Superseded = appendBounded(v.verification.Superseded,
		SupersededEntry{Trial: o.Trial, Item: o.Item, Attempt: o.Attempt, Trace: id, Class: string(o.Class)})
	ids, stale := scoreIDs(v.header, o), false
	for _, s := range scores {
		if !slices.Contains(ids, s.ID) {
			continue
		}
		stale = true
		v.addFinding(Finding{
			Kind: StaleScore, Trial: o.Trial, Item: o.Item, Trace: id, Score: s.Name,
			Detail: fmt.Sprintf("attempt %d was replaced, and its score is still there", o.Attempt),
		})
	}
	if stale && o.Published.Has(runstore.Withdrawn) {
		v.repairs.resend(o.OID, runstore.Withdrawn)
	}
}

// comparison is the result of comparing an outcome, or the scores of a run, with Langfuse.
type comparison struct {
	findings []Finding
	checked  Checked
	resend   runstore.Published // parts to be sent again
	changed  bool               // an expected score is changed
	newest   time.Time          // the latest timestamp of the changed scores
	doubles  []string           // ids of doubled scores to delete
	others   []OtherScore
}

// add adds a finding, which sending a part again mends.
func (c *comparison) add(kind Kind, part runstore.Published, format string, args ...any) {
	c.findings = append(c.findings, Finding{Kind: kind, Detail: fmt.Sprintf(format, args...)})
	c.resend |= part
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
		c.checked.Scores++
		return
	}
	if found {
		c.changed, c.newest = true, latest(c.newest, s.Timestamp)
	}
	c.resend, c.findings = c.resend|runstore.Scores, append(c.findings, f)
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

// leaveOtherRun leaves doubled scores of the run to a person if they are those of another run of its name,
// begun at once: that has all counts of items, too.
func (c *comparison) leaveOtherRun() {
	doubled := map[string]bool{}
	for _, f := range c.findings {
		doubled[f.Score] = doubled[f.Score] || f.Kind == DoubledScore
	}
	if !doubled[itemsPlanned] || !doubled[itemsScored] || !doubled[itemsFailed] {
		return
	}
	c.doubles = nil
	for i := range c.findings {
		if f := &c.findings[i]; f.Kind == DoubledScore && !f.NeedsDecision {
			f.NeedsDecision = true
			f.Detail += ", perhaps of another run of this name, which has all counts, too: left alone"
		}
	}
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

// fromAPI reports whether a program wrote the score through the API. Other scores come from
// people and from evaluators that Langfuse runs.
func fromAPI(s langfuse.Score) bool {
	return s.AuthorUserID == "" && (s.Source == "" || s.Source == "API")
}
