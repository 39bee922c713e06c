package tracking

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"extraction-experiment/internal/printable"
	"extraction-experiment/langfuse"
	"extraction-experiment/outcome"
)

// Remote is a run as Langfuse has it, for when there is no run file. Of each outcome
// it has what the run file has but its calls, warnings, the comments of its scores and
// how they came about; Unchecked tells what else is not known.
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
// trials. Outcomes are those that their root spans record. Where a span records
// none, being of an older version or of another program, they are made of the scores
// of its trace: those that people gave are left out, of several of one name the
// newest counts. There an item failed whose error score is 1, or whose root has level
// ERROR; Langfuse has no scores of it, so that every score of the run counts as 0,
// wherever the run that it is compared with defines it.
//
// v4 is asked for 50 items at once, v3 for one, eight requests being under way.
//
// Errors: langfuse.ErrNotFound for an unknown dataset or run; those of the
// client. Nothing is written.
func ReadRun(ctx context.Context, client *langfuse.Client, server langfuse.Server, dataset, name string) (Remote, error) {
	found, err := client.GetDataset(ctx, dataset)
	if err != nil {
		return Remote{}, err
	}
	r := remoteReader{site: site{client, server, ""}, ref: langfuse.RunRef{DatasetID: found.ID, DatasetName: dataset, Name: name}}
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
	out.Unchecked = r.unchecked(out.Header)
	return out, nil
}

// remoteReader gathers the outcomes of a run.
type remoteReader struct {
	site
	ref      langfuse.RunRef
	view     langfuse.View
	outcomes []outcome.Outcome
	// unrecorded are those of them that are made of scores, by place.
	unrecorded []int
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
	var traces, others []string
	for _, item := range items {
		traces = append(traces, item.TraceID)
	}
	slices.Sort(traces)
	parts := langfuse.TraceParts{IO: true, Metadata: true, ExpandMetadata: []string{recordKey}, Roots: true}
	there, err := readTraces(ctx, r.site, remoteRequests, traces, parts)
	if err != nil {
		return err
	}
	for _, id := range slices.Sorted(maps.Keys(items)) {
		root, _ := there[items[id].TraceID].Root()
		o, ok := recorded(root, id, trial)
		if !ok {
			o.Item, o.Output = id, root.Output
			others, r.unrecorded = append(others, items[id].TraceID), append(r.unrecorded, len(r.outcomes))
		}
		r.outcomes = append(r.outcomes, o)
	}
	scores, err := r.scores(ctx, others)
	if err != nil {
		return err
	}
	for i, trace := range others {
		o := &r.outcomes[r.unrecorded[len(r.unrecorded)-len(others)+i]]
		*o = outcomeFrom(items[o.Item], trial, scores[trace], o.Output)
	}
	return r.complete(ctx, ref, trial, len(items))
}

// remoteRequests is how many requests for traces are under way at once.
const remoteRequests = 8

// unchecked says what is not known of the run.
func (r *remoteReader) unchecked(h outcome.Header) []string {
	list := []string{
		"it was read from Langfuse: that its items have the same content, only the fingerprint in its metadata says",
		"what was matched is not recorded there",
	}
	if h.Harness == "" {
		list = append(list, "selection, harness and evaluators are not recorded there")
	}
	if n := len(r.unrecorded); n > 0 {
		list = append(list, fmt.Sprintf("of %d of %s Langfuse has scores alone: complete counts, counts by type, cost and latency are not known",
			n, printable.Counted(len(r.outcomes), "result")))
	}
	return list
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
