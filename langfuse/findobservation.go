package langfuse

import (
	"context"
	"errors"
	"fmt"
	"net/url"
)

// FindObservation returns an observation of which only the id is known, as that
// of an item of an annotation queue: with its trace's id, without input and
// output. Span ids are unique in a trace only; of several the newest counts.
// Retried; errors: ErrNotFound, *APIError, *ConnectionError.
//
// API: GET /api/public/v2/observations, or GET /api/public/observations/{id}
func (c *Client) FindObservation(ctx context.Context, server Capabilities, id string) (Observation, error) {
	if id == "" {
		return Observation{}, errors.New("langfuse: finding an observation needs its id")
	}
	if !server.NewReads {
		var found legacyObservation
		if err := c.getJSON(ctx, "observations/"+url.PathEscape(id), nil, &found); err != nil {
			return Observation{}, fmt.Errorf("observation %q: %w", id, err)
		}
		return found.observation(), nil
	}
	filter, err := encode([]any{map[string]any{"type": "string", "column": "id", "operator": "=", "value": id}})
	if err != nil {
		return Observation{}, err
	}
	query := url.Values{"filter": {string(filter)}, "fields": {"core,basic"}}
	for found, err := range listCursor[Observation](ctx, c, "v2/observations", query, 1, maxObservations) {
		if err != nil {
			return Observation{}, fmt.Errorf("observation %q: %w", id, err)
		}
		return found, nil
	}
	return Observation{}, fmt.Errorf("observation %q: %w", id, ErrNotFound)
}
