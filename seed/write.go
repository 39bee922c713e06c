package seed

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
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

// maxSilent is how many writes in a row without an answer end the work: the
// server is gone then, and each would wait through all its attempts.
const maxSilent = 5

// silence counts what was not answered.
type silence struct {
	all, inRow int
	last       error
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

// otherOwner says why an item that is there cannot be written, or nothing.
func (s *seeder) otherOwner(found *langfuse.DatasetItem) string {
	if found == nil || found.DatasetName == s.cfg.Dataset {
		return ""
	}
	return fmt.Sprintf("the id %q belongs to the dataset %q: %s", found.ID, found.DatasetName, s.proposal())
}

func (s *seeder) proposal() string {
	return fmt.Sprintf("ids are unique in a project; give this dataset's ids a prefix, such as --id-prefix %q", s.cfg.Dataset+"-"+s.cfg.IDPrefix)
}

// failed decides whether an error is about this item alone.
func (s *seeder) failed(ctx context.Context, located dataset.Located, change Change, err error) error {
	if errors.Is(err, langfuse.ErrConflict) || errors.Is(err, langfuse.ErrNotFound) {
		found, findErr := s.find(ctx, change.Item)
		if findErr != nil {
			return errors.Join(err, findErr)
		}
		if owner := s.otherOwner(found); owner != "" {
			s.refuse(located, change, owner)
			return nil
		}
	}
	var api *langfuse.APIError
	itemOnly := errors.Is(err, langfuse.ErrConflict) || errors.Is(err, langfuse.ErrTooLarge) || errors.Is(err, langfuse.ErrRateLimited) ||
		errors.As(err, &api) && api.Status == http.StatusBadRequest
	if isSilence(ctx, err) {
		return s.unanswered(located, change, err)
	}
	if !itemOnly {
		return err
	}
	reason := err.Error()
	if errors.Is(err, langfuse.ErrConflict) {
		reason += ": " + s.proposal()
	}
	s.refuse(located, change, reason)
	return nil
}

// isSilence reports whether the server did not answer, or only that it cannot
// now.
func isSilence(ctx context.Context, err error) bool {
	var lost *langfuse.ConnectionError
	var api *langfuse.APIError
	return ctx.Err() == nil && (errors.As(err, &lost) || errors.As(err, &api) && api.Status >= http.StatusInternalServerError)
}

// unanswered names an item that may be there or not. The error says that this
// was one too many.
func (s *seeder) unanswered(located dataset.Located, change Change, err error) error {
	s.refuse(located, change, fmt.Sprintf("was not answered, it may be in the dataset or not: %v; the same command again goes on with it", err))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.silent.all++
	s.silent.inRow++
	s.silent.last = err
	if s.silent.inRow >= maxSilent {
		return fmt.Errorf("%d writes in a row were not answered, the same command again goes on: %w", s.silent.inRow, err)
	}
	return nil
}

func (s *seeder) refuse(located dataset.Located, change Change, reason string) {
	s.mu.Lock()
	s.result.Report.Problems.add(s.checker.keep, Finding{Kind: Refused, File: located.File, Line: located.Line, Item: located.ID, Message: reason})
	s.mu.Unlock()
	change.Action, change.Reason = NotDone, reason
	s.count(change)
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
