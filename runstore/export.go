package runstore

import (
	"bufio"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"extraction-experiment/dataset"
	"extraction-experiment/outcome"
)

// Kinds of the lines of an export, in the order in which they stand.
const (
	kindHeader     = "header"
	kindExperiment = "experiment"
	kindItem       = "item"
	kindOutcome    = "outcome"
	kindFooter     = "footer"
)

type headerLine struct {
	Kind string `json:"kind"`
	outcome.Header
}

type experimentLine struct {
	Kind string `json:"kind"`
	Experiment
}

type itemLine struct {
	Kind              string          `json:"kind"`
	ID                string          `json:"id"`
	Seq               int64           `json:"seq"`
	Hash              string          `json:"hash"`
	Input             json.RawMessage `json:"input"`
	Expected          json.RawMessage `json:"expectedOutput,omitempty"`
	Metadata          json.RawMessage `json:"metadata,omitempty"`
	SourceTrace       string          `json:"sourceTraceId,omitempty"`
	SourceObservation string          `json:"sourceObservationId,omitempty"`
}

type outcomeLine struct {
	Kind string `json:"kind"`
	outcome.Outcome
}

// footerLine ends every export, also of a run that has no footer yet: without
// the line, an export was cut off.
type footerLine struct {
	Kind     string `json:"kind"`
	Items    int64  `json:"items"`
	Outcomes int64  `json:"outcomes"`
	*outcome.Footer
}

// Export writes the run as JSON lines, each an object with a "kind": the
// header; what Langfuse knows it by, if it was published; the items by id; all
// outcomes by item, trial and attempt; the footer. What Langfuse acknowledged is
// left out: of an imported run everything can be published again, which changes
// nothing there.
//
// It is one look at the run as it is at the start: the same run gives the same
// bytes. Memory is that of a page. Errors: those of w; ErrDamaged after what
// could be read, and then without footer.
func (r *Reader) Export(ctx context.Context, w io.Writer) error {
	tx, err := r.db.BeginTx(ctx, nil)
	if err != nil {
		return faultOf(r.path, ErrRead, err)
	}
	buffered := bufio.NewWriterSize(w, 64<<10)
	enc := json.NewEncoder(buffered)
	enc.SetEscapeHTML(false)
	e := exporter{path: r.path, tx: tx, enc: enc}
	err = errors.Join(e.all(ctx), buffered.Flush())
	if end := tx.Rollback(); end != nil && !errors.Is(end, sql.ErrTxDone) {
		err = errors.Join(err, faultOf(r.path, ErrRead, end))
	}
	if err != nil {
		return fmt.Errorf("exporting %s: %w", r.path, err)
	}
	return nil
}

type exporter struct {
	path string
	tx   *sql.Tx
	enc  *json.Encoder

	items, outcomes int64
}

func (e *exporter) all(ctx context.Context) error {
	for _, part := range []func(context.Context) error{e.header, e.experiments, e.allItems, e.allOutcomes, e.footer} {
		if err := part(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (e *exporter) header(ctx context.Context) error {
	h, err := readHeader(ctx, e.path, e.tx)
	if err != nil {
		return err
	}
	return e.enc.Encode(headerLine{kindHeader, h})
}

func (e *exporter) experiments(ctx context.Context) (err error) {
	rows, err := e.tx.QueryContext(ctx, "SELECT trial, langfuse_id, url FROM experiment ORDER BY trial")
	if err != nil {
		return faultOf(e.path, ErrRead, err)
	}
	defer func() { err = errors.Join(err, faultOf(e.path, ErrRead, rows.Close())) }()
	for rows.Next() {
		line := experimentLine{Kind: kindExperiment}
		if err := rows.Scan(&line.Trial, &line.ID, &line.URL); err != nil {
			return faultOf(e.path, ErrRead, err)
		}
		if err := e.enc.Encode(line); err != nil {
			return err
		}
	}
	return faultOf(e.path, ErrRead, rows.Err())
}

func (e *exporter) allItems(ctx context.Context) error {
	items := itemPages(func(last Item) ([]Item, error) {
		return itemPage(ctx, e.path, e.tx, "WHERE id > ? ORDER BY id LIMIT ?", last.ID, maxPageRows)
	})
	for item, err := range items {
		if err != nil {
			return err
		}
		err := e.enc.Encode(itemLine{
			Kind: kindItem, ID: item.ID, Seq: item.Seq, Hash: item.Hash,
			Input: item.Input, Expected: item.Expected, Metadata: item.Metadata,
			SourceTrace: item.SourceTraceID, SourceObservation: item.SourceObservationID,
		})
		if err != nil {
			return err
		}
		e.items++
	}
	return nil
}

func (e *exporter) allOutcomes(ctx context.Context) error {
	for o, err := range outcomes(ctx, e.path, e.tx, Query{Detail: true}) {
		if err != nil {
			return err
		}
		if err := e.enc.Encode(outcomeLine{kindOutcome, o}); err != nil {
			return err
		}
		e.outcomes++
	}
	return nil
}

func (e *exporter) footer(ctx context.Context) error {
	line := footerLine{Kind: kindFooter, Items: e.items, Outcomes: e.outcomes}
	f, ok, err := readFooter(ctx, e.path, e.tx)
	if err != nil {
		return err
	}
	if ok {
		line.Footer = &f
	}
	return e.enc.Encode(line)
}

func (l itemLine) item() Item {
	return Item{Seq: l.Seq, Hash: l.Hash, Item: dataset.Item{
		ID: l.ID, Input: l.Input, Expected: l.Expected, Metadata: l.Metadata,
		SourceTraceID: l.SourceTrace, SourceObservationID: l.SourceObservation,
	}}
}
