package experiment

import (
	"context"
	"errors"
)

// Estimated is what a run would take, as far as that follows from the items.
type Estimated struct {
	Items int
	// Unusable items fail before a model is asked.
	Unusable int
	// ExpectedBytes is the size of all expected outputs.
	ExpectedBytes int64
}

// Estimate takes every item through the task, which should be one that asks no model and
// counts what it would ask. Once the system is open, ask is called with it; if it returns
// false, the items are only counted. Nothing is written.
func Estimate(ctx context.Context, cfg Config, ask func(System) bool) (e Estimated, err error) {
	if cfg, err = cfg.complete(); err != nil {
		return e, err
	}
	run := &execution{cfg: cfg}
	if err := run.openSource(ctx); err != nil {
		return e, err
	}
	if err := run.openSystem(ctx, func() error { return nil }); err != nil {
		return e, err
	}
	defer func() { err = errors.Join(err, run.system.close()) }()
	asks := ask(run.system)
	for page, err := range (Selected{Source: run.source, Filter: cfg.Filter}).Pages(ctx) {
		if err != nil {
			return e, err
		}
		for _, item := range page {
			e.Items++
			e.ExpectedBytes += int64(len(item.Expected))
			if !asks {
				continue
			}
			_, err := run.system.Task.Do(ctx, Item{ID: item.ID, Input: item.Input, Metadata: item.Metadata})
			if ctx.Err() != nil {
				return e, ctx.Err()
			}
			if err != nil {
				e.Unusable++
			}
		}
	}
	if e.Items == 0 {
		return e, ErrNoItems
	}
	return e, nil
}
