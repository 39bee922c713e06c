package runstore

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"

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
// bytes. Memory is that of a page.
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
	h, err := e.view.header(ctx)
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
	last := ""
	items := pages(func(last Item) ([]Item, error) {
		return e.items(ctx, "WHERE id > ? ORDER BY id LIMIT ?", last.ID, maxPageRows)
	})
	for item, err := range items {
		if err == nil {
			err = e.item(item)
		}
		if errors.Is(err, ErrDamaged) {
			return e.restOfItems(ctx, last)
		}
		if err != nil {
			return err
		}
		last = item.ID
	}
	return nil
}

func (e *exporter) item(item Item) error {
	if err := wholeItem(e.path, item); err != nil {
		return err
	}
	e.end.Items++
	return e.enc.Encode(itemLine{kindItem, item.ID, item.Seq, item.Hash, item.Item})
}

// wholeItem refuses an item that no export could hold.
func wholeItem(path string, item Item) error {
	for _, raw := range []json.RawMessage{item.Input, item.Expected, item.Metadata} {
		if raw != nil && !json.Valid(raw) {
			return fault(path, ErrDamaged, badItem(item.ID, errors.New("its input, expected output or metadata is not JSON")))
		}
	}
	return nil
}

// restOfItems writes what can be read of the items behind the last one.
func (e *exporter) restOfItems(ctx context.Context, last string) error {
	for _, k := range e.rows.items() {
		if k.id <= last {
			continue
		}
		page, err := e.items(ctx, "NOT INDEXED WHERE seq = ?", k.seq)
		if err == nil && (len(page) == 0 || page[0].ID != k.id) {
			err = fault(e.path, ErrDamaged, errors.New("its row is not there"))
		}
		if err == nil {
			err = e.item(page[0])
		}
		if err := e.lost(err, &e.loss.Items, fmt.Sprintf("item %q", k.id)); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// lost counts a row that is damaged; any other error is returned.
func (e *exporter) lost(err error, count *int64, row string) error {
	if !errors.Is(err, ErrDamaged) {
		return err
	}
	*count++
	e.loss.name(row, err)
	return nil
}

// allOutcomes writes the outcomes as allItems does the items.
func (e *exporter) allOutcomes(ctx context.Context) error {
	var last outcome.Outcome
	all := pages(func(last stored) ([]stored, error) { return e.page(ctx, Query{Detail: true}, last.Outcome) })
	for o, err := range outcomes(all) {
		if errors.Is(err, ErrDamaged) {
			return e.restOfOutcomes(ctx, last)
		}
		if err != nil {
			return err
		}
		if err := e.outcome(o); err != nil {
			return err
		}
		last = o
	}
	if e.loss.Items > 0 { // those of lost items are met only one by one
		return e.restOfOutcomes(ctx, last)
	}
	return nil
}

func (e *exporter) outcome(o outcome.Outcome) error {
	e.end.Outcomes++
	return e.enc.Encode(outcomeLine{kindOutcome, o})
}

// restOfOutcomes writes what can be read of the outcomes behind the last one,
// also of items that cannot be read themselves.
func (e *exporter) restOfOutcomes(ctx context.Context, last outcome.Outcome) error {
	done := rowKey{id: last.Item, trial: last.Trial, attempt: last.Attempt, row: math.MaxInt64}
	for _, k := range e.rows.outcomes() {
		if k.id != "" && k.compare(done) <= 0 {
			continue
		}
		o, err := e.outcomeAt(ctx, k)
		if err == nil {
			err = e.outcome(o)
		}
		row := fmt.Sprintf("outcome of item %q, trial %d, attempt %d", k.id, k.trial, k.attempt)
		if err := e.lost(err, &e.loss.Outcomes, row); err != nil {
			return err
		}
	}
	return ctx.Err()
}

func (e *exporter) outcomeAt(ctx context.Context, k rowKey) (outcome.Outcome, error) {
	if k.id == "" {
		return outcome.Outcome{}, fault(e.path, ErrDamaged, fmt.Errorf("it belongs to item number %d, which cannot be found", k.seq))
	}
	page, err := e.outcomes(ctx, full, "(SELECT ? AS id) i CROSS JOIN outcome o NOT INDEXED", "o.oid = ?", 1, k.id, k.row)
	if err == nil && len(page) == 0 {
		err = fault(e.path, ErrDamaged, errors.New("its row is not there"))
	}
	if err != nil {
		return outcome.Outcome{}, err
	}
	return page[0].Outcome, nil
}
