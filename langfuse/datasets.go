package langfuse

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"time"
)

// Dataset is a named set of items. The raw fields may be JSON null or, where a
// server is older, absent (nil).
type Dataset struct {
	ID                   string          `json:"id"`
	ProjectID            string          `json:"projectId"`
	Name                 string          `json:"name"`
	Description          string          `json:"description"`
	Metadata             json.RawMessage `json:"metadata"`
	InputSchema          json.RawMessage `json:"inputSchema"`
	ExpectedOutputSchema json.RawMessage `json:"expectedOutputSchema"`
	CreatedAt            time.Time       `json:"createdAt"`
	UpdatedAt            time.Time       `json:"updatedAt"`
}

// DatasetUpsert is a dataset as it is written. Empty fields keep what the
// server has; a schema of JSON null removes it.
type DatasetUpsert struct {
	Name                 string          `json:"name"`
	Description          string          `json:"description,omitempty"`
	Metadata             json.RawMessage `json:"metadata,omitempty"`
	InputSchema          json.RawMessage `json:"inputSchema,omitempty"`
	ExpectedOutputSchema json.RawMessage `json:"expectedOutputSchema,omitempty"`
}

// GetDataset returns the dataset of that name. A name that cannot stand safely
// in a path (slash, backslash, percent sign) is looked for in the list of
// datasets instead: one request per 64 datasets. Retried; errors: ErrNotFound,
// ErrUnauthorized, *APIError, *ConnectionError.
//
// API: GET /api/public/v2/datasets/{name}, GET /api/public/v2/datasets
func (c *Client) GetDataset(ctx context.Context, name string) (Dataset, error) {
	if !pathSafe(name) {
		return c.findDataset(ctx, name)
	}
	var found Dataset
	if err := c.getJSON(ctx, "v2/datasets/"+url.PathEscape(name), nil, &found); err != nil {
		return Dataset{}, fmt.Errorf("dataset %q: %w", name, err)
	}
	return found, nil
}

// findDataset looks for an exact name in the list.
func (c *Client) findDataset(ctx context.Context, name string) (Dataset, error) {
	seen := 0
	for candidate, err := range c.ListDatasets(ctx) {
		if err != nil {
			return Dataset{}, fmt.Errorf("looking for dataset %q: %w", name, err)
		}
		if candidate.Name == name {
			return candidate, nil
		}
		seen++
	}
	return Dataset{}, fmt.Errorf("dataset %q: %w among the %d datasets of the project", name, ErrNotFound, seen)
}

// ListDatasets yields all datasets of the project, the newest first. Pages have
// no snapshot: a dataset created meanwhile may make another appear twice.
// Retried; the first error ends the iteration.
//
// API: GET /api/public/v2/datasets
func (c *Client) ListDatasets(ctx context.Context) iter.Seq2[Dataset, error] {
	return listPages[Dataset](ctx, c, "v2/datasets", url.Values{}, 0)
}

// UpsertDataset creates the dataset, or updates the one of the same name, and
// returns it. Safe to repeat; retried. Setting a schema validates all existing
// items. Errors: *APIError (400 for a name or a schema the server refuses).
//
// API: POST /api/public/v2/datasets
func (c *Client) UpsertDataset(ctx context.Context, dataset DatasetUpsert) (Dataset, error) {
	var stored Dataset
	if err := c.sendJSON(ctx, http.MethodPost, "v2/datasets", dataset, &stored); err != nil {
		return Dataset{}, fmt.Errorf("dataset %q: %w", dataset.Name, err)
	}
	return stored, nil
}
