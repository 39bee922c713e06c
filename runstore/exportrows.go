package runstore

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"extraction-experiment/outcome"
)

// allItems writes the items by id, page by page; once one cannot be read, the
// rest one by one.
func (e *exporter) allItems(ctx context.Context) error {
	last := ""
	items := itemPages(func(last Item) ([]Item, error) {
		return itemPage(ctx, e.path, e.tx, "WHERE id > ? ORDER BY id LIMIT ?", last.ID, maxPageRows)
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
	e.items++
	return e.enc.Encode(itemLine{
		Kind: kindItem, ID: item.ID, Seq: item.Seq, Hash: item.Hash,
		Input: item.Input, Expected: item.Expected, Metadata: item.Metadata,
		SourceTrace: item.SourceTraceID, SourceObservation: item.SourceObservationID,
	})
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
	type key struct {
		seq int64
		id  string
	}
	var keys []key
	for seq, id := range e.ids(ctx) {
		if id > last {
			keys = append(keys, key{seq, id})
		}
	}
	slices.SortFunc(keys, func(a, b key) int { return cmp.Compare(a.id, b.id) })
	for _, k := range keys {
		page, err := itemPage(ctx, e.path, e.tx, "NOT INDEXED WHERE seq = ?", k.seq)
		if err == nil && (len(page) == 0 || page[0].ID != k.id) {
			err = fault(e.path, ErrDamaged, errors.New("its row is not there"))
		}
		if err == nil {
			err = e.item(page[0])
		}
		if errors.Is(err, ErrDamaged) {
			e.loss.Items++
			e.loss.name(fmt.Sprintf("item %q", k.id), err)
			continue
		}
		if err != nil {
			return err
		}
	}
	return ctx.Err()
}

// ids finds the items of a damaged file.
func (e *exporter) ids(ctx context.Context) map[int64]string {
	return salvager{ctx, e.tx}.items()
}

// allOutcomes writes the outcomes as allItems does the items.
func (e *exporter) allOutcomes(ctx context.Context) error {
	var last outcome.Outcome
	for o, err := range outcomes(ctx, e.path, e.tx, Query{Detail: true}) {
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
	e.outcomes++
	return e.enc.Encode(outcomeLine{kindOutcome, o})
}

// restOfOutcomes writes what can be read of the outcomes behind the last one,
// also of items that cannot be read themselves.
func (e *exporter) restOfOutcomes(ctx context.Context, last outcome.Outcome) error {
	done := outcomeKey{id: last.Item, trial: last.Trial, attempt: last.Attempt}
	for _, k := range (salvager{ctx, e.tx}).outcomes(e.ids(ctx)) {
		place := k
		place.oid = 0
		if k.id != "" && place.compare(done) <= 0 {
			continue
		}
		o, err := e.outcomeAt(ctx, k)
		if err == nil {
			err = e.outcome(o)
		}
		if errors.Is(err, ErrDamaged) {
			e.loss.Outcomes++
			e.loss.name(fmt.Sprintf("outcome of item %q, trial %d, attempt %d", k.id, k.trial, k.attempt), err)
			continue
		}
		if err != nil {
			return err
		}
	}
	return ctx.Err()
}

func (e *exporter) outcomeAt(ctx context.Context, k outcomeKey) (outcome.Outcome, error) {
	if k.id == "" {
		return outcome.Outcome{}, fault(e.path, ErrDamaged, fmt.Errorf("it belongs to item number %d, which cannot be found", k.seq))
	}
	page, err := outcomePage(ctx, e.path, e.tx, full, "(SELECT ? AS id) i CROSS JOIN outcome o NOT INDEXED", "WHERE o.oid = ?", 1, k.id, k.oid)
	switch {
	case err != nil:
		return outcome.Outcome{}, err
	case len(page) == 0:
		return outcome.Outcome{}, fault(e.path, ErrDamaged, errors.New("its row is not there"))
	}
	return page[0].Outcome, nil
}
