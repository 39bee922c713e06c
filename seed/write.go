package seed

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"extraction-experiment/dataset"
	"extraction-experiment/langfuse"
)

// seeProblems is the reason of an item that the check found bad.
const seeProblems = "see its problems"

// seeder writes the items of one file.
type seeder struct {
	client  *langfuse.Client
	cfg     Config
	checker *checker
	bad     map[int]bool // numbers of items that must not be written
	there   map[[16]byte]shape
	similar *similarDocuments // nil: not looked for

	mu     sync.Mutex // guards result and the callbacks
	result *Result
	done   int
	silent silence
}

// write reads the items again and hands them to the workers. An item whose write
// is not answered is named, and the others go on, up to maxSilent in a row. The
// first other error that is not about one item stops it; writes under way are finished, so that
// the counts are right.
func (s *seeder) write(ctx context.Context, items iter.Seq2[dataset.Located, error]) error {
	group, working := errgroup.WithContext(ctx)
	group.SetLimit(s.cfg.workers())
	number := 0
	for located, err := range items {
		if working.Err() != nil {
			break
		}
		if err == nil {
			number++
		}
		var syntax *dataset.SyntaxError
		switch {
		case errors.As(err, &syntax): // reported when it was checked
			continue
		case err != nil:
			group.Go(func() error { return err })
			continue
		case s.bad[number]:
			s.count(Change{Item: s.cfg.IDPrefix + located.ID, Line: located.Line, Action: NotDone, Reason: seeProblems})
			continue
		}
		s.likeness(located)
		group.Go(func() error { return s.one(ctx, located) })
	}
	if err := group.Wait(); err != nil {
		return fmt.Errorf("seeding: %w", err)
	}
	if ctx.Err() != nil { // stopped between two items
		return fmt.Errorf("seeding: %w", context.Cause(ctx))
	}
	if s.silent.all > 0 {
		return fmt.Errorf("seeding: Langfuse did not answer for %d items; the same command again goes on with them: %w", s.silent.all, s.silent.last)
	}
	return nil
}

// likeness names an item whose document is almost that of another.
func (s *seeder) likeness(located dataset.Located) {
	if s.similar == nil {
		return
	}
	id, sketch := s.cfg.IDPrefix+located.ID, documentSketch(located.Item)
	if other, similarity := s.similar.nearest(id, sketch); other != "" {
		s.mu.Lock()
		s.result.Report.Warnings.add(s.checker.keep, Finding{
			Kind: Similar, File: located.File, Line: located.Line, Item: located.ID, Path: "input.document_text",
			Message: fmt.Sprintf("is %.0f%% similar to the document of the item %s", 100*similarity, other),
		})
		s.mu.Unlock()
	}
	s.similar.add(id, sketch)
}

// one writes one item if it has to be written.
func (s *seeder) one(ctx context.Context, located dataset.Located) error {
	item := s.checker.upsert(located.Item)
	change := Change{Item: item.ID, Line: located.Line, Action: Created}
	stored, known := s.there[key(item.ID)]
	archived := false
	if !known && (s.cfg.DryRun || !s.result.DatasetCreated) {
		found, err := s.find(ctx, item.ID)
		if err != nil {
			return s.failed(ctx, located, change, err)
		}
		if owner := s.otherOwner(found); owner != "" {
			s.refuse(located, change, owner)
			return nil
		}
		known, archived = found != nil, found != nil && found.Status == langfuse.ItemArchived
		if known {
			stored = shapeOfStored(*found)
		}
	}
	if archived && s.cfg.KeepArchived {
		change.Action = Unchanged
		s.warnArchived(located)
	} else if known {
		change.Action = Updated
		next := shapeOf(item.Input, item.ExpectedOutput, item.Metadata, item.SourceTraceID, item.SourceObservationID)
		if !archived && !next.changes(stored) {
			change.Action = Unchanged
		}
		s.warnKept(located, next.kept(stored))
	}
	if change.Action != Unchanged && !s.cfg.DryRun {
		if _, err := s.client.UpsertDatasetItem(ctx, item); err != nil {
			return s.failed(ctx, located, change, err)
		}
	}
	s.count(change)
	return nil
}

// find returns the item of that id, of whatever dataset and status, or nil. An
// id that cannot stand safely in a path (proxies refuse an escaped slash) is
// not looked for: the listing and the server's answer to the write must do.
func (s *seeder) find(ctx context.Context, id string) (*langfuse.DatasetItem, error) {
	if strings.ContainsAny(id, `/\%`) || id == "." || id == ".." {
		return nil, nil
	}
	found, err := s.client.GetDatasetItem(ctx, id)
	if errors.Is(err, langfuse.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return &found, nil
}

func (s *seeder) warnArchived(located dataset.Located) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.result.Report.Warnings.add(s.checker.keep, Finding{
		Kind: LeftArchived, File: located.File, Line: located.Line, Item: located.ID, Message: "was archived in Langfuse and stays so",
	})
}

func (s *seeder) warnKept(located dataset.Located, fields []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, field := range fields {
		s.result.Report.Warnings.add(s.checker.keep, Finding{
			Kind: Kept, File: located.File, Line: located.Line, Item: located.ID, Path: field,
			Message: "is absent here, and stays in Langfuse as it is: nothing can be cleared through its API",
		})
	}
}

// count adds a change to the result and tells whoever listens.
func (s *seeder) count(change Change) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch change.Action {
	case Created:
		s.silent.inRow = 0
		s.result.Created++
	case Updated:
		s.silent.inRow = 0
		s.result.Updated++
	case Unchanged:
		s.result.Unchanged++
	case NotDone:
		s.result.Refused++
	}
	s.done++
	if s.cfg.Each != nil {
		s.cfg.Each(change)
	}
	s.cfg.progress(Progress{Phase: Writing, Done: s.done, Total: s.result.Report.Items})
}
