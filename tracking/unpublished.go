package tracking

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"extraction-experiment/internal/printable"
)

// UnpublishedError says what the run file holds and Langfuse does not, or the
// other way round.
type UnpublishedError struct {
	Left int64 // outcomes that are not published, or not all of them
	// Totals: the scores of the run as a whole are not published.
	Totals bool
	// Withdrawn counts attempts that newer ones replaced, and whose scores
	// Langfuse still shows, or may yet show.
	Withdrawn int
	// Refused says that all of this was refused for good: to publish again will
	// change nothing.
	Refused bool
	Err     error
}

// Error tells how much, why, and what to do.
func (e *UnpublishedError) Error() string {
	var parts []string
	if e.Left > 0 {
		parts = append(parts, fmt.Sprintf("%s scored and not published", isOrAre(e.Left, "result")))
	}
	if e.Totals {
		parts = append(parts, "the scores of the run as a whole are not published")
	}
	if e.Withdrawn > 0 {
		parts = append(parts, fmt.Sprintf("the scores of %s are not deleted yet", printable.Counted(e.Withdrawn, "replaced attempt")))
	}
	text := fmt.Sprintf("%s: %v", strings.Join(parts, ", "), e.Err)
	if e.Refused {
		text += "; sending it again changes nothing before the cause is gone; everything is in the run file"
	}
	return text
}

func isOrAre(n int64, noun string) string {
	if n == 1 {
		return "1 " + noun + " is"
	}
	return fmt.Sprintf("%d %ss are", n, noun)
}

// Unwrap returns the reason.
func (e *UnpublishedError) Unwrap() error { return e.Err }

// ExitCode returns 69: nothing is lost, and unless it was refused, it can be
// published later.
func (e *UnpublishedError) ExitCode() int { return 69 }

// unpublished says what is left; nil where that is nothing.
func (p *Publisher) unpublished(cause error) error {
	ctx := context.Background()
	counts, err := p.cfg.Run.Counts(ctx)
	if err != nil {
		return errors.Join(cause, err)
	}
	refused := p.refusals()
	left := &UnpublishedError{Left: counts.Done - counts.Published, Err: errors.Join(refused, cause)}
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
	case left.Err == nil && left.Left == 0 && !left.Totals:
		left.Err = errors.New("Langfuse has not shown all of them yet, or takes its time with deletions")
	case left.Err == nil:
		left.Err = errors.New("publishing stopped early")
	}
	left.Refused = cause == nil && refused != nil && left.Withdrawn == 0 &&
		left.Left == int64(len(p.refused.all())) && left.Totals == (len(p.refusedTotals) > 0)
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
