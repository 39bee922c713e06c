package tracking

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"extraction-experiment/langfuse"
	"extraction-experiment/outcome"
)

// Remote is a run as Langfuse has it, for when there is no run file: what is
// needed to compare scores, and no more. Documents, matches, counts by type,
// costs and latencies are left out.
type Remote struct {
	Where  string         // for a person
	Header outcome.Header // as far as the run's metadata says
	Footer outcome.Footer // Complete only if the run's own scores say so
	// Outcomes are the newest attempt of every item and trial, in order of the
	// item's id, then of the trial.
	Outcomes []outcome.Outcome
	// Unchecked says what cannot be checked of such a run.
	Unchecked []string
}

// maxTrials bounds how many trials of a run are looked for.
const maxTrials = 100

// ReadRun reads a run by the names of its dataset and its own, with its further
// trials. Scores that people gave are left out; of several of one name on an item
// the newest counts.
//
// An item whose error score is 1, or whose root has level ERROR, failed. Langfuse
// has no scores of it, so that every score of the run counts as 0 there, wherever
// the run that it is compared with defines it.
//
// Errors: langfuse.ErrNotFound for an unknown dataset or run; those of the
// client. Nothing is written.
func ReadRun(ctx context.Context, client *langfuse.Client, server langfuse.Server, dataset, name string) (Remote, error) {
	found, err := client.GetDataset(ctx, dataset)
	if err != nil {
		return Remote{}, err
	}
	r := remoteReader{client: client, server: server, ref: langfuse.RunRef{DatasetID: found.ID, DatasetName: dataset, Name: name}}
	run, err := r.find(ctx, name)
	if err != nil {
		return Remote{}, err
	}
	out := Remote{Where: fmt.Sprintf("read from Langfuse %s, run %s", client.BaseURL(), run.ID)}
	out.Header = headerFrom(run, outcome.Dataset{ID: found.ID, Name: dataset})
	for trial := 1; err == nil && trial <= maxTrials; trial++ {
		if trial > 1 {
			if run, err = r.find(ctx, RunName(out.Header, trial)); err != nil {
				break
			}
		}
		out.Header.Trials = trial
		err = r.read(ctx, run, trial)
	}
	if err != nil && !errors.Is(err, langfuse.ErrNotFound) {
		return Remote{}, err
	}
	out.Outcomes, out.Footer = r.finished(), r.footer()
	out.Unchecked = []string{
		"it was read from Langfuse: that its items have the same content, only the fingerprint in its metadata says",
		"selection, harness and complete counts are not recorded there; matches, counts by type, cost and latency were not read",
	}
	return out, nil
}

// remoteReader gathers the outcomes of a run.
type remoteReader struct {
	client   *langfuse.Client
	server   langfuse.Server
	ref      langfuse.RunRef
	view     langfuse.View
	outcomes []outcome.Outcome
	// missing says why the run is not known to be complete; ended is its last
	// score's time.
	missing string
	planned int
	ended   time.Time
}

// find looks for a run in the views that the server has, and keeps the view.
func (r *remoteReader) find(ctx context.Context, name string) (langfuse.Run, error) {
	ref := r.ref
	ref.Name = name
	var problem error
	for _, view := range r.server.Views() {
		run, err := r.client.GetRun(ctx, r.server, view, ref)
		if err == nil {
			r.view = view
			return run, nil
		}
		problem = err
		if !errors.Is(err, langfuse.ErrNotFound) {
			break
		}
	}
	return langfuse.Run{}, problem
}

// read reads one trial.
func (r *remoteReader) read(ctx context.Context, run langfuse.Run, trial int) error {
	ref := r.ref
	ref.Name, ref.ID = run.Name, run.ID
	items := map[string]langfuse.RunItem{}
	for item, err := range r.client.ListRunItems(ctx, r.server, r.view, ref) {
		if err != nil {
			return err
		}
		if known, there := items[item.ItemID]; !there || item.Time.After(known.Time) {
			items[item.ItemID] = item // the newest attempt
		}
	}
	var traces []string
	for _, item := range items {
		traces = append(traces, item.TraceID)
	}
	slices.Sort(traces)
	scores, err := r.scores(ctx, traces)
	if err != nil {
		return err
	}
	for _, id := range slices.Sorted(maps.Keys(items)) {
		r.outcomes = append(r.outcomes, outcomeFrom(items[id], trial, scores[items[id].TraceID]))
	}
	return r.complete(ctx, ref, trial, len(items))
}

// scores reads the scores of traces, the newest of each name.
func (r *remoteReader) scores(ctx context.Context, traces []string) (map[string]map[string]langfuse.Score, error) {
	byTrace := map[string]map[string]langfuse.Score{}
	if len(traces) == 0 {
		return byTrace, nil
	}
	for s, err := range r.client.ReadScores(ctx, r.server.Capabilities, langfuse.ScoresQuery{TraceIDs: traces, Limit: 100}) {
		if err != nil {
			return nil, err
		}
		if !byProgram(s) {
			continue
		}
		trace := s.TraceID()
		if byTrace[trace] == nil {
			byTrace[trace] = map[string]langfuse.Score{}
		}
		if known, there := byTrace[trace][s.Name]; !there || cmp.Or(s.Timestamp.Compare(known.Timestamp), cmp.Compare(s.ID, known.ID)) > 0 {
			byTrace[trace][s.Name] = s
		}
	}
	return byTrace, nil
}

// complete notes whether the scores on the run say that all its items are there.
func (r *remoteReader) complete(ctx context.Context, ref langfuse.RunRef, trial, items int) error {
	said := map[string]float64{}
	for s, err := range r.client.ListRunScores(ctx, r.server, ref) {
		if err != nil {
			return err
		}
		if n, ok := s.Value.Number(); ok {
			said[s.Name] = n
		}
		r.ended = latest(r.ended, s.Timestamp)
	}
	planned, ok := said[itemsPlanned]
	r.planned += max(items, int(min(planned, 1<<31)))
	switch {
	case r.missing != "":
	case !ok:
		r.missing = fmt.Sprintf("not known: trial %d has no score %s", trial, itemsPlanned)
	case int(planned) != items || int(said[itemsScored]+said[itemsFailed]) != items:
		r.missing = fmt.Sprintf("%d of %d items are in Langfuse", items, int(planned))
	}
	return nil
}

func (r *remoteReader) footer() outcome.Footer {
	f := outcome.Footer{Status: outcome.Complete, Planned: r.planned, Ended: r.ended}
	if r.missing != "" {
		f.Status = outcome.Status(r.missing)
	}
	return f
}
