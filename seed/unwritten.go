package seed

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"extraction-experiment/dataset"
	"extraction-experiment/langfuse"
)

// maxSilent is how many writes in a row without an answer end the work: the
// server is gone then, and each would wait through all its attempts.
const maxSilent = 5

// silence counts what was not answered.
type silence struct {
	all, inRow int
	last       error
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
