package langfuse

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/url"
	"time"
)

// RunItem is one item of a run, as one view of the server shows it.
type RunItem struct {
	ItemID        string // of the dataset
	TraceID       string
	ObservationID string // of the root span; may be empty where a link names none
	// Time is when the link was made (ViewRuns) or the root span started.
	Time time.Time
	// Level is that of the root span, ERROR where the item failed; empty in
	// ViewRuns.
	Level string
}

// ListRunItems yields the items of a run as a view shows them: in ViewRuns one
// per item, that of the newest link; in ViewExperiments one per root span, so
// that an item that was run again is there once per attempt. A span that the
// server shows twice for a while comes once, and so does a link that moves to
// another page while it is read. A run that is not there yields nothing.
// Retried; the first error ends the iteration: ErrEndpointGone where the server
// lacks the view, *APIError, *ConnectionError.
//
// API: GET /api/public/dataset-run-items, or GET /api/public/experiment-items
func (c *Client) ListRunItems(ctx context.Context, server Server, view View, ref RunRef) iter.Seq2[RunItem, error] {
	if view == ViewRuns {
		return onceEach(c.listLinks(ctx, ref))
	}
	return onceEach(c.listRoots(ctx, server, ref))
}

func (c *Client) listLinks(ctx context.Context, ref RunRef) iter.Seq2[RunItem, error] {
	if ref.DatasetID == "" || ref.Name == "" {
		return failing[RunItem](errors.New("langfuse: listing the items of a run needs the dataset's id and the run's name"))
	}
	query := url.Values{"datasetId": {ref.DatasetID}, "runName": {ref.Name}}
	return func(yield func(RunItem, error) bool) {
		for link, err := range listPages[DatasetRunItem](ctx, c, "dataset-run-items", query, maxPageLimit) {
			if errors.Is(err, ErrNotFound) {
				return
			}
			if err != nil {
				err = fmt.Errorf("items of run %q: %w", ref.Name, err)
			}
			if !yield(RunItem{ItemID: link.DatasetItemID, TraceID: link.TraceID, ObservationID: link.ObservationID, Time: link.CreatedAt}, err) {
				return
			}
		}
	}
}

func (c *Client) listRoots(ctx context.Context, server Server, ref RunRef) iter.Seq2[RunItem, error] {
	return func(yield func(RunItem, error) bool) {
		id, err := c.RunID(ctx, server, ref)
		if err != nil {
			yield(RunItem{}, err)
			return
		}
		query := url.Values{"fields": {"core,dataset"}, "experimentId": {id}}
		setTime(query, "fromStartTime", orDefault(ref.Since, time.Unix(0, 0)))
		for root, err := range listCursor[ExperimentItem](ctx, c, "experiment-items", query, maxPageLimit, maxPageLimit) {
			if err != nil {
				err = fmt.Errorf("items of run %q: %w", orDefault(ref.Name, id), err)
			}
			if !yield(RunItem{ItemID: root.ItemID, TraceID: root.TraceID, ObservationID: root.ID, Time: root.StartTime, Level: root.Level}, err) {
				return
			}
		}
	}
}

// onceEach leaves out what is there again: same item, trace and span.
func onceEach(items iter.Seq2[RunItem, error]) iter.Seq2[RunItem, error] {
	type key struct{ item, trace, span string }
	return func(yield func(RunItem, error) bool) {
		seen := map[key]bool{}
		for item, err := range items {
			k := key{item.ItemID, item.TraceID, item.ObservationID}
			if err == nil && seen[k] {
				continue
			}
			seen[k] = true
			if !yield(item, err) {
				return
			}
		}
	}
}
