package langfuse

import (
	"context"
	"fmt"
	"iter"
	"net/http"
	"net/url"
)

// ScoreConfig says what scores of a name look like: people who annotate choose
// among configurations.
type ScoreConfig struct {
	ID   string    `json:"id,omitempty"`
	Name string    `json:"name"` // of 1 to 35 characters
	Type ScoreType `json:"dataType"`
	// Min and Max bound the values; nil: no bound, and of ScoreBoolean always.
	Min         *float64 `json:"minValue,omitempty"`
	Max         *float64 `json:"maxValue,omitempty"`
	Description string   `json:"description,omitempty"`
	Archived    bool     `json:"isArchived,omitempty"`
}

// ListScoreConfigs yields the score configurations of the project, archived ones
// included, the newest first. Names are not unique. Works on all servers. Retried;
// the first error ends the iteration.
//
// API: GET /api/public/score-configs
func (c *Client) ListScoreConfigs(ctx context.Context) iter.Seq2[ScoreConfig, error] {
	return listPages[ScoreConfig](ctx, c, "score-configs", url.Values{}, maxPageLimit)
}

// CreateScoreConfig makes a score configuration; ID and Archived are the server's.
// Not safe to repeat: it would be there twice. Errors: *APIError, *ConnectionError.
//
// API: POST /api/public/score-configs
func (c *Client) CreateScoreConfig(ctx context.Context, config ScoreConfig) (ScoreConfig, error) {
	config.ID, config.Archived = "", false
	body, err := encode(config)
	if err != nil {
		return ScoreConfig{}, err
	}
	var made ScoreConfig
	if err := c.doJSON(ctx, request{method: http.MethodPost, path: "score-configs", body: body, once: true}, &made); err != nil {
		return ScoreConfig{}, fmt.Errorf("score configuration %q: %w", config.Name, err)
	}
	return made, nil
}
