package seed

import (
	"context"
	"errors"
	"fmt"

	"extraction-experiment/langfuse"
)

// seed checks and writes what is in the spool.
func (t *traceSeeder) seed(ctx context.Context) error {
	if len(t.made) == 0 {
		return nil
	}
	if err := t.spool.out.Flush(); err != nil {
		return fmt.Errorf("seeding from traces: %w", err)
	}
	if err := t.learnSchemas(ctx); err != nil {
		return err
	}
	if t.cfg.Out != nil {
		return t.writeOut(ctx)
	}
	cfg := t.cfg.Config
	cfg.KeepGoing, cfg.KeepArchived = true, true // an archived item is a person's decision
	if t.cfg.Show != nil {
		if cfg.DryRun {
			cfg.Workers = 1 // in the order of the traces
		}
		cfg.Each = func(change Change) {
			if t.cfg.Each != nil {
				t.cfg.Each(change)
			}
			t.show(ctx, change)
		}
	}
	before := t.result.Result
	after, err := File(ctx, t.client, t.items(), cfg)
	t.merge(before, after)
	return err
}

// learnSchemas has the dataset's own schemas checked: Langfuse would name the
// first break of them, and no path.
func (t *traceSeeder) learnSchemas(ctx context.Context) error {
	found, err := t.client.GetDataset(ctx, t.cfg.Dataset)
	if errors.Is(err, langfuse.ErrNotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("seeding from traces: %w", err)
	}
	if t.cfg.Schemas.Input == nil && !isNothing(found.InputSchema) {
		t.cfg.Schemas.Input = found.InputSchema
	}
	if t.cfg.Schemas.Expected == nil && !isNothing(found.ExpectedOutputSchema) {
		t.cfg.Schemas.Expected = found.ExpectedOutputSchema
	}
	return nil
}

// writeOut gives the good items to the writer instead of to Langfuse.
func (t *traceSeeder) writeOut(ctx context.Context) error {
	c, err := newChecker(t.cfg.check())
	if err != nil {
		return err
	}
	before := t.result.Result
	var after Result
	var bad map[int]bool
	if after.Report, bad, err = c.run(t.items(), t.cfg.progress); err != nil {
		return err
	}
	defer func() { t.merge(before, after) }()
	for located, err := range t.items() {
		if err != nil || ctx.Err() != nil {
			return fmt.Errorf("seeding from traces: %w", errors.Join(err, ctx.Err()))
		}
		change := Change{Item: t.cfg.IDPrefix + located.ID, Line: located.Line, Action: Created}
		if bad[located.Line] { // here the line is the number
			change.Action, change.Reason = NotDone, seeProblems
			after.Refused++
		} else {
			located.ID = change.Item
			if err := t.cfg.Out.Write(located.Item); err != nil {
				return fmt.Errorf("seeding from traces: %w", err)
			}
			t.result.Written++
		}
		if t.cfg.Show != nil {
			t.show(ctx, change)
		}
	}
	return nil
}

// show completes a change with what it is about.
func (t *traceSeeder) show(ctx context.Context, change Change) {
	from := t.made[change.Line-1]
	item, err := t.spool.at(change.Line - 1)
	shown := Seeded{Change: change, Trace: from.trace, Evidence: from.evidence}
	if err == nil { // else File cannot read it either, and says so
		item.ID = change.Item
		shown.Content = &item
	}
	shown.Line = 0 // there is no file
	if t.cfg.Before && change.Action == Updated {
		if stored, err := t.client.GetDatasetItem(ctx, change.Item); err == nil { // else: shown without
			was := itemOf(stored)
			shown.Before = &was
		}
	}
	t.cfg.Show(shown)
}

// merge adds what the writing found to what the reading found. The lines of the
// spool mean nothing to anyone else.
func (t *traceSeeder) merge(before, after Result) {
	refused, report := before.Refused, before.Report
	t.result.Result = after
	t.result.Refused += refused
	for _, list := range []struct{ into, from *Findings }{
		{&report.Problems, &after.Report.Problems}, {&report.Warnings, &after.Report.Warnings},
	} {
		for i := range list.from.First {
			list.from.First[i].Line = 0
		}
		list.into.merge(t.keep, *list.from)
	}
	after.Report.Problems, after.Report.Warnings = report.Problems, report.Warnings
	t.result.Report = after.Report
}
