package runstore

import (
	"bufio"
	"cmp"
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

// The kinds of lines of an export, in order.
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
	ID   string `json:"id"` // replaces the id of Item, to stand before seq and hash
	Seq  int64  `json:"seq"`
	Hash string `json:"hash"`
	dataset.Item
}

type outcomeLine struct {
	Kind string `json:"kind"`
	outcome.Outcome
}

// footerLine is the last line of every export, even if the run has no footer. An export
// without it was truncated.
type footerLine struct {
	Kind     string `json:"kind"`
	Items    int64  `json:"items"`
	Outcomes int64  `json:"outcomes"`
	Lost     *lost  `json:"lost,omitempty"` // only of a damaged run
	*outcome.Footer
}

// lost holds the numbers of rows of a damaged run that could not be read.
type lost struct {
	Items    int64 `json:"items"`
	Outcomes int64 `json:"outcomes"`
}

// Export writes the run as JSON lines. Each line is an object with a "kind": the header; the
// experiments, if the run was published; the items by id; all outcomes by item, trial and
// attempt; the footer. Acknowledgements are not exported: an imported run can be published
// again, which changes nothing in Langfuse.
//
// Export reads a snapshot, so that the same run gives the same bytes. It needs the memory of
// two pages.
//
// From a damaged run Export writes every row that it can read. The last line then has the
// numbers of the other rows under "lost", and no footer. The error is a *Loss that names the
// rows, and Export needs memory for the keys of all rows. Other errors are those of w.
func (r *Reader) Export(ctx context.Context, w io.Writer) error {
	tx, err := r.pool.BeginTx(ctx, nil)
	if err != nil {
		return faultOf(r.path, ErrRead, err)
	}
	defer tx.Rollback() // a transaction that only read
	buffered := bufio.NewWriterSize(w, 64<<10)
	enc := json.NewEncoder(buffered)
	enc.SetEscapeHTML(false)
	e := exporter{view: view{r.path, tx, r.codec}, rows: salvager{ctx, tx}, enc: enc}
	if r.logMissing {
		e.loss.Parts = append(e.loss.Parts, "the log with what was committed last")
	}
	if err := cmp.Or(e.writeAll(ctx), buffered.Flush()); err != nil {
		return fmt.Errorf("exporting %s: %w", r.path, err)
	}
	if e.loss.hasLoss() {
		e.loss.Path, e.loss.WrittenItems, e.loss.WrittenOutcomes = r.path, e.last.Items, e.last.Outcomes
		return &e.loss
	}
	return nil
}

type exporter struct {
	view
	rows salvager
	enc  *json.Encoder
	last footerLine
	loss Loss
}

func (e *exporter) writeAll(ctx context.Context) error {
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
	e.last.Kind = kindFooter
	if e.loss.hasLoss() { // the footer describes the complete run
		e.last.Lost, e.last.Footer = &lost{e.loss.Items, e.loss.Outcomes}, nil
	}
	return e.enc.Encode(e.last)
}

func (e *exporter) header(ctx context.Context) error {
	h, err := e.Header(ctx)
	if err != nil {
		return err
	}
	h.System.Prompt.Template = nil // only a run file is resumed
	return e.enc.Encode(headerLine{kindHeader, h})
}

func (e *exporter) experiments(ctx context.Context) error {
	list, err := e.Experiments(ctx)
	for _, experiment := range list {
		err = errors.Join(err, e.enc.Encode(experimentLine{kindExperiment, experiment}))
	}
	return err
}

func (e *exporter) footer(ctx context.Context) error {
	f, ok, err := readMeta[outcome.Footer](ctx, e.view, keyFooter)
	if ok {
		e.last.Footer = &f
	}
	return err
}

// allItems writes the items by id in pages, and after a damaged one the rest one by one.
func (e *exporter) allItems(ctx context.Context) error {
	items := Paged(func(last Item) ([]Item, error) {
		return e.items(ctx, "WHERE id > ? ORDER BY id LIMIT ?", last.ID, maxPageRows)
	})
	last, err := writeRows(items, e.item)
	if errors.Is(err, ErrDamaged) {
		keys := slices.DeleteFunc(e.rows.items(), func(k rowKey) bool { return k.id <= last.ID })
		return writeByKey(ctx, e, keys, &e.loss.Items, e.item, func(k rowKey) ([]Item, error) {
			return e.items(ctx, "NOT INDEXED WHERE seq = ? AND id = ?", k.seq, k.id)
		})
	}
	return err
}

// allOutcomes writes the outcomes like allItems. If items are lost it also looks for their
// outcomes one by one, because pages do not have those.
func (e *exporter) allOutcomes(ctx context.Context) error {
	outcomes := Paged(func(last Pending) ([]Pending, error) { return e.page(ctx, Query{Depth: Full}, last.Outcome) })
	last, err := writeRows(outcomes, e.outcome)
	if errors.Is(err, ErrDamaged) || err == nil && e.loss.Items > 0 {
		done := rowKey{id: last.Item, trial: last.Trial, attempt: last.Attempt, row: math.MaxInt64}
		keys := slices.DeleteFunc(e.rows.outcomes(), func(k rowKey) bool { return k.id != "" && k.compare(done) <= 0 })
		return writeByKey(ctx, e, keys, &e.loss.Outcomes, e.outcome, func(k rowKey) ([]Pending, error) {
			if k.id == "" {
				return nil, fault(e.path, ErrDamaged, fmt.Errorf("it belongs to item number %d, which cannot be found", k.seq))
			}
			const from = "(SELECT ? AS id) i CROSS JOIN outcome o NOT INDEXED"
			return e.outcomes(ctx, Full, "NULL", from, "o.oid = ?", 1, k.id, k.row)
		})
	}
	return err
}

// writeRows writes rows up to the first error, and returns the last row written.
func writeRows[T any](rows iter.Seq2[T, error], write func(T) error) (last T, err error) {
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

// writeByKey writes the rows of the keys. read returns the row of a key, or none if only an index
// has it. writeByKey counts the rows that cannot be read in lost, and names them.
func writeByKey[T any](
	ctx context.Context, e *exporter, keys []rowKey, lost *int64, write func(T) error, read func(rowKey) ([]T, error),
) error {
	for _, k := range keys {
		rows, err := read(k)
		switch {
		case err != nil:
		case len(rows) == 0:
			err = fault(e.path, ErrDamaged, errors.New("its row is not there"))
		default:
			err = write(rows[0])
		}
		if errors.Is(err, ErrDamaged) {
			*lost++
			e.loss.addNamed(k.String(), err)
		} else if err != nil {
			return err
		}
	}
	return ctx.Err()
}

func (e *exporter) item(item Item) error {
	err := e.enc.Encode(itemLine{kindItem, item.ID, item.Seq, item.Hash, item.Item})
	if _, notJSON := errors.AsType[*json.MarshalerError](err); notJSON {
		return fault(e.path, ErrDamaged, badItem(item.ID, err))
	}
	e.last.Items++
	return err
}

func (e *exporter) outcome(o Pending) error {
	e.last.Outcomes++
	return e.enc.Encode(outcomeLine{kindOutcome, o.Outcome})
}
