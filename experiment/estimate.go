package experiment

import (
	"context"
	"errors"

	"extraction-experiment/dataset"
)

// Estimated is what a run would take, as far as that can be computed from the items.
type Estimated struct {
	Items int
	// Unusable is the number of items that fail before a model is asked. If the system has no
	// scorer, those whose expected output cannot be read are not among them.
	Unusable int
	// ExpectedBytes is the total size of the expected outputs.
	ExpectedBytes int64
}

// Estimate passes every item once to the task, which should ask no model but count what it would
// ask: a run of several trials asks as often for each. Once the system is open, Estimate calls ask
// with it, if not nil; if ask returns false, it only counts the items. It writes nothing. Without
// items, the error is ErrNoItems.
func Estimate(ctx context.Context, cfg Config, ask func(System) bool) (e Estimated, err error) {
	if cfg, err = cfg.withDefaults(); err != nil {
		return e, err
	}
	run := &execution{cfg: cfg}
	if err := run.openSource(ctx); err != nil {
		return e, err
	}
	if err := run.openSystem(ctx); err != nil {
		return e, err
	}
	defer func() { err = errors.Join(err, run.system.close()) }()
	if run.system.Task == nil {
		return e, errNotOpened
	}
	asksModel := ask == nil || ask(run.system)
	for page, err := range (Selected{Source: run.source, Filter: cfg.Filter}).Pages(ctx) {
		if err != nil {
			return e, err
		}
		for _, item := range page {
			e.Items++
			e.ExpectedBytes += int64(len(item.Expected))
			if !asksModel {
				continue
			}
			err := estimateItem(ctx, run.system, item)
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

// estimateItem passes an item to the task as a run does. An error means that a run would not ask a model
// about it.
func estimateItem(ctx context.Context, system System, item dataset.Item) error {
	var scorer itemScorer
	if system.Scorer != nil {
		var err error
		if scorer, err = itemScorerOf(system.Scorer, item); err != nil {
			return err
		}
	}
	_, err := recoverPanic(func() (TaskResult, error) {
		return system.Task.Do(ctx, Item{
			ID: item.ID, Input: item.Input, Metadata: item.Metadata, Trial: 1, Attempt: 1, Decoded: scorer.decoded,
		})
	})
	return err
}
