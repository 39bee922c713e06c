package tracking

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/stats"
	"extraction-experiment/langfuse"
	"extraction-experiment/outcome"
	"extraction-experiment/runstore"
)

// sighting says which views show an outcome.
type sighting uint8

const (
	inRuns        sighting = 1 << iota
	inExperiments          // by the trace of this attempt
	astray                 // the list of runs leads to another trace
)

// trial compares what concerns a trial as a whole: the views, and the scores on
// the run.
func (v *verifier) trial(ctx context.Context, trial int) error {
	e, opened, err := v.cfg.Run.Experiment(ctx, trial)
	if err != nil || !opened {
		return err // then nothing was sent, and every outcome will say so
	}
	v.verdict.Experiments = append(v.verdict.Experiments, e.ID)
	ref := langfuse.RunRef{ID: e.ID, Name: RunName(v.header, trial), DatasetID: v.header.Dataset.ID}
	if !v.header.Started.IsZero() { // it bounds the start of the spans
		ref.Since = v.header.Started.Add(-24 * time.Hour)
	}
	if err := v.replaced(ctx, trial, e.ID, ref); err != nil {
		return err
	}
	for _, view := range v.views() {
		items := v.cfg.Client.ListRunItems(ctx, v.cfg.Server, view, ref)
		find := func(item langfuse.RunItem) (shownItem, error) {
			attempts, err := v.cfg.Run.Attempts(ctx, item.ItemID, trial)
			return shownItem{item, attempts}, err
		}
		for item, err := range stats.Parallel(0, items, find) {
			if err != nil {
				return err
			}
			v.item(view, trial, item)
		}
	}
	return v.totals(ctx, trial, ref)
}

// shownItem is an item of a view, with the attempts of it in the run file.
type shownItem struct {
	langfuse.RunItem
	attempts []runstore.Pending
}

// replaced finds out whether the run has another id in the list of runs than in
// the run file. Where it is not there at all, its items will say so.
func (v *verifier) replaced(ctx context.Context, trial int, id string, ref langfuse.RunRef) error {
	if !slices.Contains(v.views(), langfuse.ViewRuns) {
		return nil
	}
	there, err := v.cfg.Client.GetRun(ctx, v.cfg.Server, langfuse.ViewRuns, langfuse.RunRef{DatasetID: ref.DatasetID, Name: ref.Name})
	if errors.Is(err, langfuse.ErrNotFound) || err == nil && there.ID == id {
		return nil
	}
	if err != nil {
		return err
	}
	v.found(Finding{Kind: RunReplaced, Trial: trial, Detail: fmt.Sprintf("its id is %s there, and was %s: it was deleted and made again", there.ID, id)})
	v.moved[trial] = v.cfg.Server.NewReads // there, the spans carry the id
	if v.mend == nil {
		return nil
	}
	e := runstore.Experiment{Trial: trial, ID: there.ID, URL: v.mend.page(v.header, there.ID)}
	if err := v.mend.Run.ReplaceExperiment(ctx, e); err != nil {
		return err
	}
	return v.resetTotals(ctx, trial, time.Now())
}

// views returns the views that the run must be in: a run over a file has no place
// in the runs of a dataset.
func (v *verifier) views() []langfuse.View {
	return slices.DeleteFunc(v.cfg.Server.Views(), func(view langfuse.View) bool {
		return view == langfuse.ViewRuns && v.header.Dataset.ID == ""
	})
}

// item files one item that a view shows under the attempt that it belongs to.
func (v *verifier) item(view langfuse.View, trial int, item shownItem) {
	f := Finding{Kind: DoubledItem, Trial: trial, Item: item.ItemID, Trace: item.TraceID, Left: true}
	if len(item.attempts) == 0 {
		f.Detail = "the view of " + string(view) + " has an item that the run file has no result of"
		v.found(f)
		return
	}
	var newest runstore.Pending
	made := false // by this run
	for _, o := range item.attempts {
		id := identify(v.header, o.Outcome)
		ours := id.trace() == item.TraceID && (item.ObservationID == "" || item.ObservationID == id.span(0))
		made = made || ours
		if o.Published.Has(runstore.Superseded) {
			continue
		}
		newest = o
		if ours {
			v.shown[o.OID] |= map[langfuse.View]sighting{langfuse.ViewRuns: inRuns, langfuse.ViewExperiments: inExperiments}[view]
			v.verdict.Checked.Shown[view]++
			return
		}
	}
	switch {
	case view == langfuse.ViewRuns:
		v.shown[newest.OID] |= astray
		f.Kind, f.Left, f.Detail = WrongRunItem, false, fmt.Sprintf("the run shows trace %s, and the newest attempt is %s", item.TraceID, TraceID(v.header, newest.Outcome))
		v.repairs.again(newest.OID, runstore.Link)
	case made:
		return // a superseded attempt
	default:
		f.Detail = "the experiment has a trace of the item that this run did not make"
	}
	v.found(f)
}

// totals compares the scores on the run itself with what the run file comes to.
func (v *verifier) totals(ctx context.Context, trial int, ref langfuse.RunRef) error {
	_, ended, err := v.cfg.Run.Footer(ctx)
	if err != nil || !ended {
		return err
	}
	values, err := totalsOf(ctx, v.cfg.Run, v.header, trial)
	if err != nil {
		return err
	}
	want := totalScores(v.header, ref.ID, runstore.Totals{Trial: trial, Values: values})
	var there []langfuse.Score
	for s, err := range v.cfg.Client.ListRunScores(ctx, v.cfg.Server, ref) {
		if err != nil {
			return err
		}
		there = append(there, s)
	}
	// A score of the run has one id, whatever the attempts of its items.
	derived := func(string) bool { return false }
	c := compareScores(want, derived, there)
	v.verdict.Checked.RunScores += c.right
	v.compared(c, trial, "", "")
	if c.wrong {
		return v.resetTotals(ctx, trial, c.later(v.cfg.Server))
	}
	return nil
}

// shownTraces is how many acknowledged traces are looked for on a server that
// has another address than the one that acknowledged them.
const shownTraces = 3

// opened reports whether a server said the id of a trial. That of a run without a
// dataset is made here, before anything is sent.
func opened(ctx context.Context, run *runstore.Reader, h outcome.Header) (bool, error) {
	for trial := 1; h.Dataset.ID != "" && trial <= max(1, h.Trials); trial++ {
		if _, ok, err := run.Experiment(ctx, trial); err != nil || ok {
			return ok, err
		}
	}
	return false, nil
}

// shows reports whether the server has any of the traces.
func (s Site) shows(ctx context.Context, h outcome.Header, sent []runstore.Pending) (bool, error) {
	ids := cli.Each(sent, func(o runstore.Pending) string { return TraceID(h, o.Outcome) })
	traces, err := s.readTraces(ctx, ids, langfuse.TraceParts{})
	return len(traces) > 0, err
}

// find looks for a run by its name in the views that the server has.
func (s Site) find(ctx context.Context, ref langfuse.RunRef) (run langfuse.Run, in langfuse.View, err error) {
	for _, in = range s.Server.Views() {
		run, err = s.Client.GetRun(ctx, s.Server, in, ref)
		if !errors.Is(err, langfuse.ErrNotFound) {
			break
		}
	}
	return run, in, err
}

// scores reads the scores of traces.
func (s Site) scores(ctx context.Context, traces []string) (map[string][]langfuse.Score, error) {
	found := map[string][]langfuse.Score{}
	if len(traces) == 0 { // no list would be all scores of the project
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

// committed yields all outcomes, in pages.
func (v *verifier) committed(ctx context.Context) iter.Seq2[[]runstore.Pending, error] {
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

// pageRead is a page of outcomes with what Langfuse has of them, by trace.
type pageRead struct {
	outcomes []runstore.Pending
	traces   map[string]langfuse.Trace
	scores   map[string][]langfuse.Score
}

// read reads the traces and scores of some outcomes back, but of those that are known to be
// in order.
func (v *verifier) read(ctx context.Context, known map[int64]bool, page []runstore.Pending) (pageRead, error) {
	r := pageRead{outcomes: page}
	var newest, all []string
	for _, o := range page {
		if known[o.OID] {
			continue
		}
		id := TraceID(v.header, o.Outcome)
		all = append(all, id)
		if !o.Published.Has(runstore.Superseded) {
			newest = append(newest, id)
		}
	}
	both, ctx := errgroup.WithContext(ctx)
	both.Go(func() (err error) {
		r.traces, err = v.cfg.readTraces(ctx, newest, langfuse.TraceParts{})
		return err
	})
	both.Go(func() (err error) {
		r.scores, err = v.cfg.scores(ctx, all)
		return err
	})
	err := both.Wait()
	return r, err
}

// readTraces reads traces by their ids.
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
