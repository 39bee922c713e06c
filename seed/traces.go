package seed

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"extraction-experiment/dataset"
	"extraction-experiment/langfuse"
)

// atOnce is how many traces are in memory at a time.
const atOnce = 16

// FromTraces makes dataset items of production traces that people validated,
// and seeds a dataset with them as File does: the same checks, the same
// comparison before writing, so that seeding again changes nothing.
//
// The steps: select; read the completed items of the annotation queues; read 16
// traces at a time with their scores, demand evidence, map, redact, and keep the
// item in a temporary file; then check and write all. A trace of which no item
// can be made is refused by name in the result's problems, and the others go on;
// so is one that the server is too busy for. An item's id is ItemID.
//
// The error is for what ends the work: a bad configuration, an unknown queue,
// Langfuse out of reach. Safe to repeat. Memory: 16 traces, and about a hundred
// bytes for each trace selected.
//
// API: GET /api/public/v2/observations or /traces and /observations, /v3/scores,
// /annotation-queues, and those of File
func FromTraces(ctx context.Context, client *langfuse.Client, server langfuse.Capabilities, selection Selection, cfg TraceConfig) (result TraceResult, err error) {
	if err := errors.Join(cfg.validate(), selection.validate()); err != nil {
		return result, err
	}
	s, err := newSpool()
	if err != nil {
		return result, fmt.Errorf("seeding from traces: %w", err)
	}
	defer func() { err = errors.Join(err, s.remove()) }()
	t := &traceSeeder{
		reader: reader{client: client, server: server, parts: cfg.Mapping.parts(), workers: cfg.workers(), tagged: len(cfg.Mapping.Evidence.Tags) > 0},
		cfg:    cfg, spool: s, result: &result, keep: cfg.MaxFindings,
	}
	if t.keep <= 0 {
		t.keep = DefaultMaxFindings
	}
	result.Evidence, result.Redacted = map[EvidenceKind]int{}, map[string]int{}
	if cfg.Redaction != nil {
		result.Redacted = cfg.Redaction.Counts()
	}
	if err := t.collect(ctx, selection); err != nil {
		return result, err
	}
	return result, t.seed(ctx)
}

// traceSeeder is one call of FromTraces.
type traceSeeder struct {
	reader
	cfg    TraceConfig
	spool  *spool
	made   []origin // by place in the spool
	result *TraceResult
	keep   int
}

// origin is where an item of the spool comes from.
type origin struct {
	trace    string
	evidence Evidence
}

// collect makes the items and puts them into the spool.
func (t *traceSeeder) collect(ctx context.Context, selection Selection) error {
	list, findings, err := t.candidates(ctx, selection)
	if err != nil {
		return err
	}
	for _, f := range findings {
		if f.Kind == Repeated {
			t.result.Report.Warnings.add(t.keep, f)
			continue
		}
		t.result.Report.Problems.add(t.keep, f)
		t.result.Refused++
		t.result.RefusedQueueItems++
	}
	if selection.Sample > 0 {
		if selection.Stratify != "" {
			path, err := selection.stratum()
			if err != nil {
				return err
			}
			found, err := t.stratify(ctx, list, path)
			if err != nil {
				return err
			}
			if !found {
				t.result.Report.Warnings.add(t.keep, Finding{Kind: NoStratum, File: "the sample", Message: fmt.Sprintf("no trace has a value of metadata.%s: the sample is spread over nothing", path)})
			}
		}
		list = draw(list, selection.Sample, selection.Seed)
	}
	t.result.Selected = len(list)
	m := &mapper{dataset: t.cfg.Dataset, mapping: t.cfg.Mapping, accept: t.cfg.AcceptUnvalidated, redact: t.cfg.Redaction, replaced: t.result.Redacted}
	if len(list) > 0 {
		if m.queues, err = t.completedItems(ctx); err != nil {
			return err
		}
	}
	done := 0
	for part := range slices.Chunk(list, atOnce) {
		if err := t.part(ctx, m, part); err != nil {
			return err
		}
		done += len(part)
		t.cfg.progress(Progress{Phase: Selecting, Done: done, Total: len(list)})
	}
	return nil
}

// part makes the items of a few traces.
func (t *traceSeeder) part(ctx context.Context, m *mapper, list []candidate) error {
	var ids []string
	for _, c := range list {
		if c.bad != nil {
			t.refuse(c.id, c.bad)
			continue
		}
		ids = append(ids, c.id)
	}
	if len(ids) == 0 {
		return nil
	}
	found, err := t.read(ctx, ids)
	if err != nil {
		return err
	}
	for i, f := range found {
		out, err := made{}, f.err
		if err == nil {
			out, err = m.item(f.trace, f.scores)
		}
		if err != nil {
			t.refuse(ids[i], t.withdrawn(ctx, err))
			continue
		}
		for _, warning := range out.warnings {
			warning.File, warning.Item = traceLabel(ids[i]), t.cfg.IDPrefix+out.item.ID
			t.result.Report.Warnings.add(t.keep, warning)
		}
		t.result.Evidence[out.evidence.Kind]++
		t.made = append(t.made, origin{ids[i], t.cfg.Redaction.evidence(out.evidence)})
		if err := t.spool.add(out.item); err != nil {
			return fmt.Errorf("seeding from traces: %w", err)
		}
	}
	return nil
}

// withdrawn adds to a person's no that the item which was made before is in the
// dataset still: seeding takes nothing out.
func (t *traceSeeder) withdrawn(ctx context.Context, err error) error {
	var why *refusal
	if !errors.As(err, &why) || why.item == "" {
		return err
	}
	id := t.cfg.IDPrefix + why.item
	switch item, err := t.client.GetDatasetItem(ctx, id); {
	case errors.Is(err, langfuse.ErrNotFound):
	case err != nil:
		why.reason += fmt.Sprintf("; whether its item %s is in the dataset could not be found out: %v", id, err)
	case item.DatasetName == t.cfg.Dataset && item.Status != langfuse.ItemArchived:
		why.reason += fmt.Sprintf("; its item is in the dataset still: seed --dataset %s --archive %s takes it out", t.cfg.Dataset, id)
	}
	return why
}

// refuse names a trace of which no item is made.
func (t *traceSeeder) refuse(id string, err error) {
	for _, one := range all(err) {
		f := Finding{Kind: Refused, File: traceLabel(id), Message: one.Error()}
		var why *refusal
		if errors.As(one, &why) {
			f.Kind, f.Path = why.kind, why.path
		}
		t.result.Report.Problems.add(t.keep, f)
	}
	t.result.Refused++
	if t.cfg.Show != nil {
		t.cfg.Show(Seeded{Trace: id, Change: Change{Action: NotDone, Reason: err.Error()}})
	}
}

// items reads the spool in its order; the line of an item is its number.
func (t *traceSeeder) items() iter.Seq2[dataset.Located, error] {
	return func(yield func(dataset.Located, error) bool) {
		for i := range t.made {
			item, err := t.spool.at(i)
			if !yield(dataset.Located{Item: item, File: traceLabel(t.made[i].trace), Line: i + 1}, err) || err != nil {
				return
			}
		}
	}
}
