package tracking

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// UnpublishedError says what the run file holds and Langfuse does not, or the
// other way round.
type UnpublishedError struct {
	Left int64 // outcomes that are not published, or not all of them
	// Totals: the scores of the run as a whole are not published.
	Totals bool
	// Withdrawn counts attempts that newer ones replaced, and whose scores
	// Langfuse still shows.
	Withdrawn int
	Err       error
}

// Error tells how much, why, and what to do.
func (e *UnpublishedError) Error() string {
	var parts []string
	if e.Left > 0 {
		parts = append(parts, fmt.Sprintf("%d results are scored and not published", e.Left))
	}
	if e.Totals {
		parts = append(parts, "the scores of the run as a whole are not published")
	}
	if e.Withdrawn > 0 {
		parts = append(parts, fmt.Sprintf("the scores of %d replaced attempts are not deleted yet", e.Withdrawn))
	}
	return fmt.Sprintf("%s: %v", strings.Join(parts, ", "), e.Err)
}

// Unwrap returns the reason.
func (e *UnpublishedError) Unwrap() error { return e.Err }

// ExitCode returns 69: nothing is lost, publish again later.
func (e *UnpublishedError) ExitCode() int { return 69 }

// unpublished says what is left; nil where that is nothing.
func (p *Publisher) unpublished(cause error) error {
	ctx := context.Background()
	counts, err := p.cfg.Run.Counts(ctx)
	if err != nil {
		return errors.Join(cause, err)
	}
	left := &UnpublishedError{Left: counts.Done - counts.Published, Err: cause}
	if !p.totalled && counts.Done > 0 {
		_, left.Totals, err = p.cfg.Run.Footer(ctx)
	}
	if err == nil {
		left.Withdrawn, err = p.retracted(ctx)
	}
	switch {
	case err != nil:
		return errors.Join(cause, err)
	case left.Left == 0 && !left.Totals && left.Withdrawn == 0:
		return nil
	case cause == nil && left.Left == 0:
		left.Err = errors.New("Langfuse takes its time with deletions; publish again later")
	case cause == nil:
		left.Err = errors.New("publishing stopped early")
	}
	return left
}

// retracted counts the attempts whose scores are to be deleted.
func (p *Publisher) retracted(ctx context.Context) (n int, err error) {
	for after := int64(0); ; {
		page, err := p.cfg.Run.Retracted(ctx, after, roundSize)
		if err != nil || len(page) == 0 {
			return n, err
		}
		n, after = n+len(page), page[len(page)-1].OID
	}
}
