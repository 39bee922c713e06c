package tracking

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"extraction-experiment/internal/stats"
	"extraction-experiment/langfuse"
	"extraction-experiment/outcome"
	"extraction-experiment/runstore"
)

// visibility is the set of views that show an outcome.
type visibility uint8

const (
	inRuns          visibility = 1 << iota
	inExperiments              // with the trace of this attempt
	inRunsElsewhere            // the list of runs links to another trace
)

// compareTrial compares the views of a trial and the scores on its run.
func (v *verifier) compareTrial(ctx context.Context, trial int) error {
	e, opened, err := v.cfg.Run.Experiment(ctx, trial)
	if err != nil || !opened {
		return err // without an id nothing was sent, and each outcome gets a finding
	}
	v.verdict.Experiments = append(v.verdict.Experiments, e.ID)
	ref := langfuse.RunRef{ID: e.ID, Name: RunName(v.header, trial), DatasetID: v.header.Dataset.ID}
	if !v.header.Started.IsZero() { // a lower bound of the start of the spans
		ref.Since = v.header.Started.Add(-24 * time.Hour)
	}
	if err := v.checkRunID(ctx, trial, e.ID, ref); err != nil {
		return err
	}
	for _, view := range v.views() {
		items := v.cfg.Client.ListRunItems(ctx, v.cfg.Server, view, ref)
		find := func(item langfuse.RunItem) (viewItem, error) {
			attempts, err := v.cfg.Run.Attempts(ctx, item.ItemID, trial)
			return viewItem{item, attempts}, err
		}
		for item, err := range stats.Parallel(0, items, find) {
			if err != nil {
				return err
			}
			v.compareViewItem(view, trial, item)
		}
	}
	return v.compareRunScores(ctx, trial, ref)
}

// viewItem is an item of a view with its attempts in the run file.
type viewItem struct {
	langfuse.RunItem
	attempts []runstore.Pending
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
func (v *verifier) compareViewItem(view langfuse.View, trial int, item viewItem) {
	f := Finding{Kind: DoubledItem, Trial: trial, Item: item.ItemID, Trace: item.TraceID, NeedsDecision: true}
	if len(item.attempts) == 0 {
		f.Detail = "the view of " + string(view) + " has an item that the run file has no result of"
		v.addFinding(f)
		return
	}
	var newest runstore.Pending
	byRun := false // the trace belongs to an attempt of this run
	for _, o := range item.attempts {
		id := identify(v.header, o.Outcome)
		own := id.trace() == item.TraceID && (item.ObservationID == "" || item.ObservationID == id.span(0))
		byRun = byRun || own
		if o.Published.Has(runstore.Superseded) {
			continue
		}
		newest = o
		if own {
			v.shown[o.OID] |= map[langfuse.View]visibility{langfuse.ViewRuns: inRuns, langfuse.ViewExperiments: inExperiments}[view]
			v.verdict.Checked.Shown[view]++
			return
		}
	}
	switch {
	case view == langfuse.ViewRuns:
		v.shown[newest.OID] |= inRunsElsewhere
		f.Kind, f.NeedsDecision, f.Detail = WrongRunItem, false, fmt.Sprintf("the run shows trace %s, and the newest attempt is %s", item.TraceID, TraceID(v.header, newest.Outcome))
		v.repairs.resend(newest.OID, runstore.Link)
	case byRun:
		return // the trace of a superseded attempt
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
	derived := func(string) bool { return false }
	c := compareScores(want, derived, stored)
	v.verdict.Checked.RunScores += c.matched
	v.addComparison(c, trial, "", "")
	if c.wrong {
		return v.resetRunScores(ctx, trial, c.correctionTime(v.cfg.Server))
	}
	return nil
}

// probedTraces is the number of acknowledged traces to look for on a server with another
// address than the one that acknowledged them.
const probedTraces = 3

// hasExperiment reports whether a server returned an id for a trial. It is always false for
// a run without a dataset, whose ids the publisher derives before it sends anything.
func hasExperiment(ctx context.Context, run *runstore.Reader, h outcome.Header) (bool, error) {
	for trial := 1; h.Dataset.ID != "" && trial <= max(1, h.Trials); trial++ {
		if _, ok, err := run.Experiment(ctx, trial); err != nil || ok {
			return ok, err
		}
	}
	return false, nil
}

// find looks for a run by its name in the views of the server, and returns the first view
// that has it.
func (s Site) find(ctx context.Context, ref langfuse.RunRef) (run langfuse.Run, in langfuse.View, err error) {
	for _, in = range s.Server.Views() {
		run, err = s.Client.GetRun(ctx, s.Server, in, ref)
		if !errors.Is(err, langfuse.ErrNotFound) {
			break
		}
	}
	return run, in, err
}

// readScores reads the scores of traces, by trace id.
func (s Site) readScores(ctx context.Context, traces []string) (map[string][]langfuse.Score, error) {
	found := map[string][]langfuse.Score{}
	if len(traces) == 0 { // an empty query would read all scores of the project
		return found, nil
	}
	query := langfuse.ScoresQuery{TraceIDs: traces, Limit: 100}
	for score, err := range s.Client.ReadScores(ctx, s.Server.Capabilities, query) {
		if err != nil {
			return nil, err
		}
		found[score.TraceID()] = append(found[score.TraceID()], score)
	}
	return found, nil
}

// outcomePages yields all outcomes of the run file in pages.
func (v *verifier) outcomePages(ctx context.Context) iter.Seq2[[]runstore.Pending, error] {
	return func(yield func([]runstore.Pending, error) bool) {
		for after := int64(0); ; {
			page, err := v.cfg.Run.Committed(ctx, after, 100)
			if err == nil && len(page) == 0 || !yield(page, err) || err != nil {
				return
			}
			after = page[len(page)-1].OID
		}
	}
}

// comparedPage is a page of outcomes with their traces and scores in Langfuse, by trace id.
type comparedPage struct {
	outcomes []runstore.Pending
	traces   map[string]langfuse.Trace
	scores   map[string][]langfuse.Score
}

// readPage reads the traces and scores of a page of outcomes, except of those in known.
func (v *verifier) readPage(ctx context.Context, known map[int64]bool, page []runstore.Pending) (comparedPage, error) {
	r := comparedPage{outcomes: page}
	var newestIDs, allIDs []string
	for _, o := range page {
		if known[o.OID] {
			continue
		}
		id := TraceID(v.header, o.Outcome)
		allIDs = append(allIDs, id)
		if !o.Published.Has(runstore.Superseded) {
			newestIDs = append(newestIDs, id)
		}
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() (err error) {
		r.traces, err = v.cfg.readTraces(ctx, newestIDs, langfuse.TraceParts{})
		return err
	})
	group.Go(func() (err error) {
		r.scores, err = v.cfg.readScores(ctx, allIDs)
		return err
	})
	err := group.Wait()
	return r, err
}

// readTraces reads traces. The result is by trace id, without those that do not exist.
func (s Site) readTraces(ctx context.Context, ids []string, want langfuse.TraceParts) (map[string]langfuse.Trace, error) {
	found := map[string]langfuse.Trace{}
	for trace, err := range s.Client.ReadTraces(ctx, s.Server.Capabilities, ids, want) {
		if err != nil {
			return nil, err
		}
		found[trace.ID] = trace
	}
	return found, nil
}
