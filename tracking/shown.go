package tracking

import (
	"context"
	"errors"

	"extraction-experiment/langfuse"
	"extraction-experiment/outcome"
	"extraction-experiment/runstore"
)

// shownTraces is how many acknowledged traces are looked for on a server that
// has another address than the one that acknowledged them.
const shownTraces = 3

// acknowledged returns the first traces that a server acknowledged.
func acknowledged(ctx context.Context, run *runstore.Reader, h outcome.Header) ([]string, error) {
	var traces []string
	for after := int64(0); ; {
		page, err := run.Committed(ctx, after, roundSize)
		if err != nil || len(page) == 0 {
			return traces, err
		}
		after = page[len(page)-1].OID
		for _, o := range page {
			if !o.Published.Has(runstore.Spans) {
				continue
			}
			if traces = append(traces, TraceID(h, o.Outcome)); len(traces) == shownTraces {
				return traces, nil
			}
		}
	}
}

// openedRuns returns the trials of which a server said the id. That of a run
// without a dataset is made here, before anything is sent.
func openedRuns(ctx context.Context, run *runstore.Reader, h outcome.Header) ([]langfuse.RunRef, error) {
	if h.Dataset.ID == "" {
		return nil, nil
	}
	var opened []langfuse.RunRef
	for trial := 1; trial <= max(1, h.Trials); trial++ {
		e, ok, err := run.Experiment(ctx, trial)
		if err != nil {
			return nil, err
		}
		if ok {
			opened = append(opened, langfuse.RunRef{ID: e.ID, DatasetID: h.Dataset.ID, Name: RunName(h, trial)})
		}
	}
	return opened, nil
}

// showsTrace reports whether the server has any of the traces.
func (s site) showsTrace(ctx context.Context, traces []string) (bool, error) {
	for trace, err := range s.client.ReadTraces(ctx, s.server.Capabilities, traces, langfuse.TraceParts{}) {
		if err != nil || len(trace.Observations) > 0 {
			return err == nil, err
		}
	}
	return false, nil
}

// showsRun reports whether the server has any of the runs, under its id.
func (s site) showsRun(ctx context.Context, runs []langfuse.RunRef) (bool, error) {
	for _, ref := range runs {
		for _, view := range s.server.Views() {
			found, err := s.client.GetRun(ctx, s.server, view, ref)
			switch {
			case err == nil && found.ID == ref.ID:
				return true, nil
			case err != nil && !errors.Is(err, langfuse.ErrNotFound):
				return false, err
			}
		}
	}
	return false, nil
}
