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
	Lost     *lost  `json:"lost,omitempty"` // of a damaged run only
	*outcome.Footer
}

// lost counts what could not be read of a damaged run.
type lost struct {
	Items    int64 `json:"items"`
	Outcomes int64 `json:"outcomes"`
}

// Export writes the run as JSON lines, each an object with a "kind": the
// header; what Langfuse knows it by, if it was published; the items by id; all
// outcomes by item, trial and attempt; the footer. What Langfuse acknowledged is
// left out: of an imported run everything can be published again, which changes
// nothing there.
//
// It is one look at the run as it is at the start: the same run gives the same
// bytes. Memory is that of a page.
//
// Of a damaged run every row that can be read is written, and the last line
// counts the others under "lost" in place of what the footer says; then the
// error is a *Loss that names them, and memory is that of the keys of all rows.
// Other errors: those of w.
func (r *Reader) Export(ctx context.Context, w io.Writer) error {
	tx, err := r.db.BeginTx(ctx, nil)
	if err != nil {
		return faultOf(r.path, ErrRead, err)
	}
	buffered := bufio.NewWriterSize(w, 64<<10)
	enc := json.NewEncoder(buffered)
	enc.SetEscapeHTML(false)
	e := exporter{path: r.path, tx: tx, enc: enc}
	if r.unlogged {
		e.loss.part("the log with what was committed last")
	}
	err = e.all(ctx)
	if flushed := buffered.Flush(); flushed != nil {
		err = errors.Join(err, flushed)
	}
	if end := tx.Rollback(); end != nil && !errors.Is(end, sql.ErrTxDone) {
		err = errors.Join(err, faultOf(r.path, ErrRead, end))
	}
	var loss *Loss
	if err == nil || errors.As(err, &loss) && err == error(loss) {
		return err
	}
	return fmt.Errorf("exporting %s: %w", r.path, err)
}

type exporter struct {
	path string
	tx   *sql.Tx
	enc  *json.Encoder

	items, outcomes int64
	loss            Loss
}

func (e *exporter) all(ctx context.Context) error {
	for _, part := range []func(context.Context) error{e.header, e.experiments, e.allItems, e.allOutcomes, e.footer} {
		if err := part(ctx); err != nil {
			return err
		}
	}
	if !e.loss.any() {
		return nil
	}
	e.loss.Path, e.loss.WrittenItems, e.loss.WrittenOutcomes = e.path, e.items, e.outcomes
	return &e.loss
}

func (e *exporter) header(ctx context.Context) error {
	h, err := readHeader(ctx, e.path, e.tx)
	if errors.Is(err, ErrDamaged) {
		e.loss.part("the header")
		return nil
	}
	if err != nil {
		return err
	}
	return e.enc.Encode(headerLine{kindHeader, h})
}

func (e *exporter) experiments(ctx context.Context) error {
	err := e.allExperiments(ctx)
	if errors.Is(err, ErrDamaged) {
		e.loss.part("the ids in Langfuse")
		return nil
	}
	return err
}

func (e *exporter) allExperiments(ctx context.Context) (err error) {
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

func (e *exporter) footer(ctx context.Context) error {
	line := footerLine{Kind: kindFooter, Items: e.items, Outcomes: e.outcomes}
	f, ok, err := readFooter(ctx, e.path, e.tx)
	if errors.Is(err, ErrDamaged) {
		e.loss.part("the footer")
		err = nil
	}
	if err != nil {
		return err
	}
	if e.loss.any() { // what the footer says of the run is not so any more
		line.Lost = &lost{e.loss.Items, e.loss.Outcomes}
	} else if ok {
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
