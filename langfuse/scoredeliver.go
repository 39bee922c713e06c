package langfuse

import (
	"context"
	"errors"
)

// deliver sends events in one request; in halves where that is too large, and one
// by one where the server no longer takes batches.
func (c *Client) deliver(ctx context.Context, scores []ScoreCreate, events []scoreEvent, results []ScoreResult) error {
	err := c.sendScores(ctx, events, results)
	switch {
	case errors.Is(err, ErrTooLarge) && len(events) > 1:
		half := len(events) / 2
		if err := c.deliver(ctx, scores, events[:half], results); err != nil {
			return err
		}
		return c.deliver(ctx, scores, events[half:], results)
	case errors.Is(err, ErrTooLarge):
		refuse(&results[events[0].index], err)
		return nil
	case errors.Is(err, ErrEndpointGone):
		return c.sendSingly(ctx, scores, events, results)
	}
	return err
}

// sendSingly sends each score on its own. One that the server refuses for what
// it is does not stop the others.
func (c *Client) sendSingly(ctx context.Context, scores []ScoreCreate, events []scoreEvent, results []ScoreResult) error {
	for _, event := range events {
		err := c.CreateScore(ctx, scores[event.index])
		var answer *APIError
		switch {
		case err == nil:
			results[event.index] = ScoreResult{ID: results[event.index].ID, State: ScoreAccepted}
		case errors.As(err, &answer) && answer.ExitCode() == 64:
			refuse(&results[event.index], err)
		default:
			return err
		}
	}
	return nil
}

func refuse(result *ScoreResult, err error) { result.State, result.Err = ScoreRefused, err }
