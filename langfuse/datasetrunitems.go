package langfuse

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"
)

// DatasetRunItemCreate links a trace to a dataset item under the name of a run.
type DatasetRunItemCreate struct {
	RunName string
	// RunDescription and Metadata count in the first call of a run only: send
	// the same ones every time.
	RunDescription string
	Metadata       map[string]string
	DatasetItemID  string
	// TraceID is required; the trace need not exist yet.
	TraceID       string
	ObservationID string
	// DatasetVersion is the version the items were listed at: with it an item
	// that was archived meanwhile can still be linked. Leave it zero unless
	// Capabilities.DatasetVersions, as older servers refuse the key.
	DatasetVersion time.Time
}

// DatasetRunItem is a link as the server answered it.
type DatasetRunItem struct {
	ID string `json:"id"`
	// DatasetRunID is the id of the run: made up by v3 and dual servers, equal
	// to ExperimentID on v4.
	DatasetRunID   string    `json:"datasetRunId"`
	DatasetRunName string    `json:"datasetRunName"`
	DatasetItemID  string    `json:"datasetItemId"`
	TraceID        string    `json:"traceId"`
	ObservationID  string    `json:"observationId"`
	CreatedAt      time.Time `json:"createdAt"`
}

// CreateDatasetRunItem sends the link. Sent again it makes another row of which
// reads keep the newest, so it is safe to repeat; retried. On v4 in its default
// mode nothing is stored and the answer holds the computed run id. Errors:
// ErrNotFound (item or dataset unknown, or archived and no version given),
// ErrEndpointGone (v4.0, where ExperimentID computes the id), *APIError,
// *ConnectionError.
//
// API: POST /api/public/dataset-run-items
func (c *Client) CreateDatasetRunItem(ctx context.Context, link DatasetRunItemCreate) (DatasetRunItem, error) {
	if link.RunName == "" || link.DatasetItemID == "" || link.TraceID == "" {
		return DatasetRunItem{}, errors.New("langfuse: a dataset run item needs a run name, a dataset item id and a trace id")
	}
	body := struct {
		RunName        string            `json:"runName"`
		RunDescription string            `json:"runDescription,omitempty"`
		Metadata       map[string]string `json:"metadata,omitempty"`
		DatasetItemID  string            `json:"datasetItemId"`
		TraceID        string            `json:"traceId"`
		ObservationID  string            `json:"observationId,omitempty"`
		DatasetVersion string            `json:"datasetVersion,omitempty"`
	}{
		RunName: link.RunName, RunDescription: link.RunDescription, Metadata: link.Metadata,
		DatasetItemID: link.DatasetItemID, TraceID: link.TraceID, ObservationID: link.ObservationID,
	}
	if !link.DatasetVersion.IsZero() {
		body.DatasetVersion = FormatTime(link.DatasetVersion)
	}
	var stored DatasetRunItem
	if err := c.sendJSON(ctx, http.MethodPost, "dataset-run-items", body, &stored); err != nil {
		return DatasetRunItem{}, fmt.Errorf("linking item %q to run %q: %w", link.DatasetItemID, link.RunName, err)
	}
	if stored.DatasetRunID == "" {
		return DatasetRunItem{}, fmt.Errorf("linking item %q to run %q: %w", link.DatasetItemID, link.RunName,
			&APIError{Method: http.MethodPost, Path: apiPrefix + "dataset-run-items", Status: http.StatusOK,
				base: c.base, Message: "the answer holds no datasetRunId"})
	}
	return stored, nil
}
