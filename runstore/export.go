package runstore

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"slices"

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
	Kind string `json:"kind"`
	ID   string `json:"id"` // in place of that of Item, which would come later
	Seq  int64  `json:"seq"`
	Hash string `json:"hash"`
	dataset.Item
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
// bytes. Memory is that of two pages.
//
// Of a damaged run every row that can be read is written, and the last line
// counts the others under "lost" in place of what the footer says; then the
// error is a *Loss that names them, and memory is that of the keys of all rows.
// Other errors: those of w.
func (r *Reader) Export(ctx context.Context, w io.Writer) error {
	tx, err := r.pool.BeginTx(ctx, nil)
	if err != nil {
		return faultOf(r.path, ErrRead, err)
	}
	defer tx.Rollback() // it only read: nothing can be lost
	buffered := bufio.NewWriterSize(w, 64<<10)
	enc := json.NewEncoder(buffered)
	enc.SetEscapeHTML(false)
	e := exporter{view: view{r.path, tx, r.packs}, rows: salvager{ctx, tx}, enc: enc}
	if r.unlogged {
		e.loss.Parts = append(e.loss.Parts, "the log with what was committed last")
	}
	if err := errors.Join(e.all(ctx), buffered.Flush()); err != nil {
		return fmt.Errorf("exporting %s: %w", r.path, err)
	}
	if e.loss.any() {
		e.loss.Path, e.loss.WrittenItems, e.loss.WrittenOutcomes = r.path, e.end.Items, e.end.Outcomes
		return &e.loss
	}
	return nil
}

type exporter struct {
	view
	rows salvager
	enc  *json.Encoder
	end  footerLine
	loss Loss
}

func (e *exporter) all(ctx context.Context) error {
	for _, part := range []struct {
		name  string
		write func(context.Context) error
	}{
		{"the header", e.header}, {"the ids in Langfuse", e.experiments},
		{"items", e.allItems}, {"outcomes", e.allOutcomes}, {"the footer", e.footer},
	} {
		err := part.write(ctx)
		if errors.Is(err, ErrDamaged) {
			e.loss.Parts = append(e.loss.Parts, part.name)
		} else if err != nil {
			return err
		}
	}
	e.end.Kind = kindFooter
	if e.loss.any() { // what the footer says of the run is not so any more
		e.end.Lost, e.end.Footer = &lost{e.loss.Items, e.loss.Outcomes}, nil
	}
	return e.enc.Encode(e.end)
}

func (e *exporter) header(ctx context.Context) error {
	h, err := e.Header(ctx)
	if err != nil {
		return err
	}
	return e.enc.Encode(headerLine{kindHeader, h})
}

func (e *exporter) experiments(ctx context.Context) error {
	known, err := e.view.experiments(ctx, "ORDER BY trial")
	for _, one := range known {
		err = errors.Join(err, e.enc.Encode(experimentLine{kindExperiment, one}))
	}
	return err
}

func (e *exporter) footer(ctx context.Context) error {
	f, ok, err := optionalMeta[outcome.Footer](ctx, e.view, keyFooter)
	if ok {
		e.end.Footer = &f
	}
	return err
}

// allItems writes the items by id, page by page; once one cannot be read, the
// rest one by one.
func (e *exporter) allItems(ctx context.Context) error {
	items := Ahead(func(last Item) ([]Item, error) {
		return e.items(ctx, "WHERE id > ? ORDER BY id LIMIT ?", last.ID, maxPageRows)
	})
	last, err := each(items, e.item)
	if errors.Is(err, ErrDamaged) {
		keys := slices.DeleteFunc(e.rows.items(), func(k rowKey) bool { return k.id <= last.ID })
		return e.rest(ctx, keys, &e.loss.Items, e.itemAt)
	}
	return err
}

// allOutcomes writes the outcomes as allItems does the items; those of items that cannot
// be read are met only one by one.
func (e *exporter) allOutcomes(ctx context.Context) error {
	outcomes := Ahead(func(last Pending) ([]Pending, error) { return e.page(ctx, Query{Detail: true}, last.Outcome) })
	last, err := each(outcomes, e.outcome)
	if errors.Is(err, ErrDamaged) || err == nil && e.loss.Items > 0 {
		done := rowKey{id: last.Item, trial: last.Trial, attempt: last.Attempt, row: math.MaxInt64}
		keys := slices.DeleteFunc(e.rows.outcomes(), func(k rowKey) bool { return k.id != "" && k.compare(done) <= 0 })
		return e.rest(ctx, keys, &e.loss.Outcomes, e.outcomeAt)
	}
	return err
}

// each writes rows up to an error, and returns the last that was written.
func each[T any](rows iter.Seq2[T, error], write func(T) error) (last T, err error) {
	for row, err := range rows {
		if err == nil {
			err = write(row)
		}
		if err != nil {
			return last, err
		}
		last = row
	}
	return last, nil
}

// rest writes the rows of the keys, and counts and names those that are damaged.
func (e *exporter) rest(ctx context.Context, keys []rowKey, lost *int64, write func(context.Context, rowKey) error) error {
	for _, k := range keys {
		err := write(ctx, k)
		if errors.Is(err, ErrDamaged) {
			*lost++
			e.loss.name(k.String(), err)
		} else if err != nil {
			return err
		}
	}
	return ctx.Err()
}

func (e *exporter) item(item Item) error {
	err := e.enc.Encode(itemLine{kindItem, item.ID, item.Seq, item.Hash, item.Item})
	if _, isNoJSON := errors.AsType[*json.MarshalerError](err); isNoJSON {
		return fault(e.path, ErrDamaged, badItem(item.ID, err))
	}
	e.end.Items++
	return err
}

func (e *exporter) itemAt(ctx context.Context, k rowKey) error {
	page, err := e.items(ctx, "NOT INDEXED WHERE seq = ?", k.seq)
	switch {
	case err != nil:
		return err
	case len(page) == 0 || page[0].ID != k.id:
		return e.gone()
	}
	return e.item(page[0])
}

// gone says of a row that an index knows it, and the table does not.
func (e *exporter) gone() error { return fault(e.path, ErrDamaged, errors.New("its row is not there")) }

func (e *exporter) outcome(o Pending) error {
	e.end.Outcomes++
	return e.enc.Encode(outcomeLine{kindOutcome, o.Outcome})
}

func (e *exporter) outcomeAt(ctx context.Context, k rowKey) error {
	if k.id == "" {
		return fault(e.path, ErrDamaged, fmt.Errorf("it belongs to item number %d, which cannot be found", k.seq))
	}
	page, err := e.outcomes(ctx, full, "(SELECT ? AS id) i CROSS JOIN outcome o NOT INDEXED", "o.oid = ?", 1, k.id, k.row)
	switch {
	case err != nil:
		return err
	case len(page) == 0:
		return e.gone()
	}
	return e.outcome(page[0])
}
