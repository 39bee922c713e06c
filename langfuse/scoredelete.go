package langfuse

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// ScoreRemoval is what became of scores that were to be deleted; the lists are
// sorted.
type ScoreRemoval struct {
	// Gone were read, deleted, and are no longer there.
	Gone []string
	// Unseen never showed in the time given: not stored, or not yet. Nothing was
	// sent for them, as a deletion that comes before the score is lost.
	Unseen []string
	// Left were deleted and still show: the deletion is queued, or was lost.
	Left []string
}

// DeleteScores deletes scores and makes sure of it: it waits until each can be
// read, because a deletion handled before the score was stored is lost, asks for
// it to be deleted, and reads until it is gone. Calling it again is safe, and the
// way to go on after Unseen or Left. The time of wait counts once for appearing
// and once for going; looking reads 50 scores with one request.
//
// An error is one of reading or deleting; that scores are Unseen or Left is none.
//
// API: DELETE /api/public/scores/{id}, and as ReadScores
func (c *Client) DeleteScores(ctx context.Context, server Capabilities, ids []string, wait Wait) (ScoreRemoval, error) {
	waiting := slices.Compact(slices.Sorted(slices.Values(ids)))
	removal := ScoreRemoval{Unseen: waiting}
	var asked []string
	err := wait.Until(ctx, func(ctx context.Context) (bool, error) {
		seen, err := c.readableScores(ctx, server, removal.Unseen)
		if err != nil {
			return false, err
		}
		for _, id := range seen {
			if err := c.DeleteScore(ctx, id); err != nil && !errors.Is(err, ErrNotFound) {
				return false, err
			}
			asked = append(asked, id)
			removal.Unseen = slices.DeleteFunc(slices.Clone(removal.Unseen), func(other string) bool { return other == id })
		}
		return len(removal.Unseen) == 0, nil
	})
	slices.Sort(asked)
	removal.Left = asked
	if err = onlyLate(err); err != nil || len(asked) == 0 {
		return removal, err
	}
	err = wait.Until(ctx, func(ctx context.Context) (bool, error) {
		seen, err := c.readableScores(ctx, server, removal.Left)
		if err != nil {
			return false, err
		}
		for _, id := range removal.Left {
			if !slices.Contains(seen, id) {
				removal.Gone = append(removal.Gone, id)
			}
		}
		slices.Sort(removal.Gone)
		slices.Sort(seen)
		removal.Left = seen
		return len(seen) == 0, nil
	})
	return removal, onlyLate(err)
}

// onlyLate takes away the error that says no more than that time was up.
func onlyLate(err error) error {
	var late *NotYetError
	if errors.As(err, &late) {
		return nil
	}
	return err
}

// readableScores returns those of the ids that a read shows.
func (c *Client) readableScores(ctx context.Context, server Capabilities, ids []string) ([]string, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	var seen []string
	for score, err := range c.ReadScores(ctx, server, ScoresQuery{IDs: ids, Limit: maxPageLimit}) {
		if err != nil {
			return nil, fmt.Errorf("looking for scores to delete: %w", err)
		}
		seen = append(seen, score.ID)
	}
	return seen, nil
}
