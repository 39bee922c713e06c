package seed

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"extraction-experiment/dataset"
	"extraction-experiment/langfuse"
)

// Result is what File did, or in a dry run would do.
type Result struct {
	// Dataset is the dataset as Langfuse has it; in a dry run without id where
	// it does not exist yet.
	Dataset        langfuse.Dataset `json:"dataset"`
	DatasetCreated bool             `json:"dataset_created"`

	Created   int `json:"created"`
	Updated   int `json:"updated"`
	Unchanged int `json:"unchanged"`
	// Refused counts items that were not written; why stands in the problems
	// of the report.
	Refused int `json:"refused"`

	Report Report `json:"report"`
}

// Err returns nil when every item went in, else an error with exit code 4 that
// lists the items that were refused.
func (r Result) Err() error {
	if r.Refused == 0 && r.Report.Problems.Total == 0 {
		return nil
	}
	return &exitError{fmt.Errorf("%d items are in the dataset, not all of the file:\n%w",
		r.Created+r.Updated+r.Unchanged, r.Report.Err()), 4}
}

// File seeds a dataset with the items of a file. The items are read twice, once
// to check them and once to write them, so the sequence must give the same
// again (that of dataset.ReadFile does).
//
// Items that Langfuse has in the same form already are not written: each write
// makes a new version. An archived item of the file is made active again.
// Items of the dataset that the file does not have stay as they are, and so do
// fields that are absent in the file. Seeding the same file again changes
// nothing, so after any error the same call can be repeated.
//
// The error is for what ends the work: a bad configuration, a file with bad
// items (without KeepGoing; nothing is written, exit code 64), Langfuse out of
// reach (69; a single write without an answer lets the others go on, and is the
// error at the end), ctx. The result then tells what was done before. Items that were
// refused one by one are in Result.Err.
//
// API: GET /api/public/health, GET and POST /api/public/v2/datasets, GET and
// POST /api/public/dataset-items
func File(ctx context.Context, client *langfuse.Client, items iter.Seq2[dataset.Located, error], cfg Config) (Result, error) {
	if err := cfg.validate(); err != nil {
		return Result{}, err
	}
	c, err := newChecker(cfg.check())
	if err != nil {
		return Result{}, err
	}
	var result Result
	var bad map[int]bool
	result.Report, bad, err = c.run(items, cfg.progress)
	if err != nil {
		return result, err
	}
	if err := result.Report.Err(); err != nil && !cfg.KeepGoing {
		return result, err
	}
	if result.Report.Items == 0 {
		return result, malformed("there are no items to seed %q with", cfg.Dataset)
	}
	s := &seeder{client: client, cfg: cfg, checker: c, result: &result, bad: bad}
	if err := s.open(ctx); err != nil {
		return result, err
	}
	if err := s.learn(ctx); err != nil {
		return result, err
	}
	return result, s.write(ctx, items)
}

// open finds or creates the dataset, and updates it where something is new.
func (s *seeder) open(ctx context.Context) error {
	want := langfuse.DatasetUpsert{
		Name: s.cfg.Dataset, Description: s.cfg.Description,
		InputSchema: s.cfg.Schemas.Input, ExpectedOutputSchema: s.cfg.Schemas.Expected,
	}
	found, err := s.client.GetDataset(ctx, s.cfg.Dataset)
	switch {
	case errors.Is(err, langfuse.ErrNotFound):
		s.result.DatasetCreated = true
		found = langfuse.Dataset{Name: s.cfg.Dataset, Description: s.cfg.Description}
	case err != nil:
		return fmt.Errorf("seeding: %w", err)
	case !differs(want, found):
		s.result.Dataset = found
		return nil
	}
	if !s.cfg.DryRun {
		if found, err = s.client.UpsertDataset(ctx, want); err != nil {
			return fmt.Errorf("seeding: %w", err)
		}
	}
	s.result.Dataset = found
	return nil
}

func differs(want langfuse.DatasetUpsert, found langfuse.Dataset) bool {
	schema := func(want, found []byte) bool {
		return want != nil && short(storedForm(want)) != short(storedForm(found))
	}
	return want.Description != "" && want.Description != found.Description ||
		schema(want.InputSchema, found.InputSchema) || schema(want.ExpectedOutputSchema, found.ExpectedOutputSchema)
}
