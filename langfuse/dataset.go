package langfuse

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"sync"
	"time"

	"extraction-experiment/internal/textutil"
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

// GetDataset returns the dataset of that name. A name that cannot be used safely
// in a path (slash, backslash, percent sign) is looked for in the list of
// datasets instead: one request per 64 datasets. Retried; errors: ErrNotFound,
// ErrUnauthorized, *APIError, *ConnectionError.
//
// API: GET /api/public/v2/datasets/{name}, GET /api/public/v2/datasets
func (c *Client) GetDataset(ctx context.Context, name string) (Dataset, error) {
	if !pathSafe(name) {
		return c.findDataset(ctx, name)
	}
	return call[Dataset](ctx, c, get("v2/datasets/"+url.PathEscape(name), nil), nil, "dataset %q", name)
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
	r := request{method: http.MethodPost, path: "v2/datasets"}
	return call[Dataset](ctx, c, r, dataset, "dataset %q", dataset.Name)
}

// ItemStatus says whether a dataset item is listed.
type ItemStatus string

// The states of a dataset item.
const (
	ItemActive   ItemStatus = "ACTIVE"
	ItemArchived ItemStatus = "ARCHIVED"
)

// DatasetItem is one case of a dataset, as it is read and as it is written. Read, the raw
// fields hold JSON as the server keeps it, null included. Written, empty fields and JSON
// null keep what the server has: nothing can be cleared through the API.
// Langfuse parses a string at the top of Input or ExpectedOutput as JSON where
// it can ("4" becomes 4) and removes control characters: wrap text in an object.
type DatasetItem struct {
	DatasetName string `json:"datasetName"`
	// ID is required: with it the call may be repeated. It is unique in the
	// project, not only in the dataset.
	ID                  string          `json:"id"`
	Input               json.RawMessage `json:"input,omitempty"`
	ExpectedOutput      json.RawMessage `json:"expectedOutput,omitempty"`
	Metadata            json.RawMessage `json:"metadata,omitempty"`
	SourceTraceID       string          `json:"sourceTraceId,omitempty"`
	SourceObservationID string          `json:"sourceObservationId,omitempty"`
	Status              ItemStatus      `json:"status,omitempty"`
	CreatedAt           time.Time       `json:"createdAt,omitzero"` // is the server's
}

// DatasetItemsQuery selects the items that ListDatasetItems yields.
type DatasetItemsQuery struct {
	DatasetName string
	// Version pins all pages to the dataset as it was at one instant of the server's clock
	// (see CurrentDatasetVersion), to the millisecond. It is required: pages that are not pinned lose and repeat items while someone
	// writes. Servers before 3.150.1 do not know it (Capabilities.DatasetVersions).
	Version DatasetVersion
	// Limit is the number of items of a page, at most 100; 0 is 64. Pages whose
	// answer is larger than the client's cap are asked for again in halves.
	Limit int
}

// ListDatasetItems yields the active items of a dataset as of one version, the
// newest first. Pages are fetched ahead, which the pin makes safe: at most 32 of
// them, or about 8 MiB, are in memory. An unknown dataset is
// ErrNotFound, a version from before the data is an empty list. Retried; the
// first error ends the iteration.
//
// API: GET /api/public/dataset-items
func (c *Client) ListDatasetItems(ctx context.Context, q DatasetItemsQuery) iter.Seq2[DatasetItem, error] {
	return func(yield func(DatasetItem, error) bool) {
		begun, err := c.BeginDatasetItems(ctx, q)
		if err != nil {
			yield(DatasetItem{}, err)
			return
		}
		elements(begun.Pages(ctx))(yield)
	}
}

// DatasetItems is a list of items whose first pages are here already. It may be read
// more than once, and holds those pages as long as it lives.
type DatasetItems struct {
	dataset string
	list    *listing[DatasetItem]
}

// BeginDatasetItems is ListDatasetItems for those who can do something else while
// the first pages are on their way. Retried; errors: those of ListDatasetItems.
//
// API: GET /api/public/dataset-items
func (c *Client) BeginDatasetItems(ctx context.Context, q DatasetItemsQuery) (*DatasetItems, error) {
	if q.DatasetName == "" || q.Version.At.IsZero() {
		return nil, errors.New("langfuse: listing dataset items needs the dataset's name and a version")
	}
	query := url.Values{"datasetName": {q.DatasetName}}
	setTime(query, "version", q.Version.At)
	list := &listing[DatasetItem]{size: DatasetItem.size, list: list[DatasetItem]{
		client: c, path: "dataset-items", query: query, limit: q.Limit, most: maxPageLimit,
	}}
	if err := list.begin(ctx, q.Version.Items, q.Version.ItemSize); err != nil {
		return nil, fmt.Errorf("items of dataset %q: %w", q.DatasetName, err)
	}
	return &DatasetItems{q.DatasetName, list}, nil
}

// size is about how many bytes the item takes.
func (item DatasetItem) size() int {
	return len(item.Input) + len(item.ExpectedOutput) + len(item.Metadata) + 500
}

// Pages yields the items, as ListDatasetItems does, page by page.
func (l *DatasetItems) Pages(ctx context.Context) iter.Seq2[[]DatasetItem, error] {
	return convert(l.list.pages(ctx), every[[]DatasetItem], "items of dataset %q", l.dataset)
}

// GetDatasetItem returns an item of any status by its id. Retried; errors:
// ErrNotFound (also once deleted), *APIError, *ConnectionError.
//
// API: GET /api/public/dataset-items/{id}
func (c *Client) GetDatasetItem(ctx context.Context, id string) (DatasetItem, error) {
	return call[DatasetItem](ctx, c, get("dataset-items/"+url.PathEscape(id), nil), nil, "dataset item %q", id)
}

// maxItemBytes is the largest body that servers take for a dataset item.
const maxItemBytes = 4.5 * 1024 * 1024

// UpsertDatasetItem creates the item, or merges into the one of the same id,
// and returns what is stored. Every call writes a new version of the item, even
// an unchanged one: compare first. Retried, a conflict with another writer
// included; safe to repeat. Errors: ErrNotFound (unknown dataset), ErrConflict
// (the id belongs to another dataset), ErrTooLarge (over maxItemBytes; nothing
// is sent), *APIError.
//
// API: POST /api/public/dataset-items
func (c *Client) UpsertDatasetItem(ctx context.Context, item DatasetItem) (DatasetItem, error) {
	if item.ID == "" || item.DatasetName == "" {
		return DatasetItem{}, errors.New("langfuse: writing a dataset item needs its id and the dataset's name")
	}
	item.CreatedAt = time.Time{}
	body, err := textutil.MarshalJSON(item)
	if err != nil {
		return DatasetItem{}, fmt.Errorf("dataset item %q of %q: %w", item.ID, item.DatasetName, err)
	}
	if len(body) > maxItemBytes {
		const mb = 1 << 20
		return DatasetItem{}, &UsageError{fmt.Errorf("langfuse: item %q of dataset %q is %w: %.1f MB, and Langfuse takes %.1f MB at most: "+
			"shorten its document or leave it out", textutil.Cut(item.ID, 80), textutil.Cut(item.DatasetName, 80),
			ErrTooLarge, float64(len(body))/mb, maxItemBytes/mb)}
	}
	r := request{method: http.MethodPost, path: "dataset-items", body: body}
	return call[DatasetItem](ctx, c, r, nil, "dataset item %q of %q", item.ID, item.DatasetName)
}

// SetDatasetItemStatus archives an item or makes it active again; its content
// stays as it is. As UpsertDatasetItem in everything else; an id that the
// dataset does not have is created empty, so check with GetDatasetItem first.
//
// API: POST /api/public/dataset-items
func (c *Client) SetDatasetItemStatus(ctx context.Context, datasetName, id string, status ItemStatus) (DatasetItem, error) {
	return c.UpsertDatasetItem(ctx, DatasetItem{DatasetName: datasetName, ID: id, Status: status})
}

// DatasetVersion is a dataset as it was at an instant.
type DatasetVersion struct {
	At time.Time
	// Items is how many items of it will be read, probably, of ItemSize bytes each: as many of
	// their pages as may be in memory are asked for at once. 0 waits for the first, which tells.
	Items, ItemSize int
}

// CurrentDatasetVersion returns the version to pin listings of a dataset to that
// holds what is in it now, with the number of its items and the size of the newest:
// an instant of the server's clock, or the time of the newest item where that clock
// is behind it (a proxy may set an old Date). It may wait a second, for a second of the server to end. Retried; errors: those
// of GetHealth and ListDatasetItems, ErrNotFound among them.
//
// API: GET /api/public/health, GET /api/public/dataset-items
func (c *Client) CurrentDatasetVersion(ctx context.Context, name string) (DatasetVersion, error) {
	var newest page[DatasetItem]
	var unlisted error
	var asked sync.WaitGroup
	asked.Go(func() {
		// A version in the future gives the items as they are, the newest first.
		query := url.Values{"datasetName": {name}, "limit": {"1"}, "page": {"1"}}
		setTime(query, "version", time.Now().AddDate(1, 0, 0))
		newest, unlisted = call[page[DatasetItem]](ctx, c, get("dataset-items", query), nil, "items of dataset %q", name)
	})
	before := time.Now()
	health, err := c.GetHealth(ctx)
	after := time.Now()
	asked.Wait()
	if err := cmp.Or(err, unlisted); err != nil {
		return DatasetVersion{}, err
	}
	now, wait := serverNow(health.Time, before, after)
	if err := sleep(ctx, wait); err != nil {
		return DatasetVersion{}, err
	}
	found := DatasetVersion{At: now.UTC(), Items: int(newest.Meta.TotalItems)}
	for _, item := range newest.Data {
		if found.ItemSize = item.size(); item.CreatedAt.After(now) {
			found.At = item.CreatedAt.UTC()
		}
	}
	return found, nil
}

// serverNow returns the server's time from its clock, which tells seconds only,
// and how long to wait until that time has come. Where our clock agrees with
// it, ours is taken, which is finer; else the end of the server's second: a
// version in the middle of it could leave out, or bring back, what was written
// or archived just before.
func serverNow(server, before, after time.Time) (now time.Time, wait time.Duration) {
	agrees := !server.Before(before.Truncate(time.Second)) && !server.After(after)
	if server.IsZero() || agrees {
		return after.UTC(), 0
	}
	return server.Add(time.Second).UTC(), time.Second
}
