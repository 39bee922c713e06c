package langfuse

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/url"
	"sync"
	"time"

	"extraction-experiment/internal/textutil"
)

// Dataset is a named set of items. The raw fields may be JSON null, or nil if an older server
// does not have them.
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

// DatasetUpsert is a dataset to be written. Empty fields leave the stored value unchanged. JSON
// null removes a schema.
type DatasetUpsert struct {
	Name                 string          `json:"name"`
	Description          string          `json:"description,omitempty"`
	Metadata             json.RawMessage `json:"metadata,omitempty"`
	InputSchema          json.RawMessage `json:"inputSchema,omitempty"`
	ExpectedOutputSchema json.RawMessage `json:"expectedOutputSchema,omitempty"`
}

// GetDataset returns a dataset by its name. If the name is not safe in a path ("." or "..", or
// with a slash, backslash or percent sign), GetDataset searches the list of datasets, with one
// request per 64 datasets. Retried; errors: ErrNotFound, ErrUnauthorized, *APIError,
// *ConnectionError.
//
// API: GET /api/public/v2/datasets/{name}, GET /api/public/v2/datasets
func (c *Client) GetDataset(ctx context.Context, name string) (Dataset, error) {
	if pathSafe(name) || name == "" {
		return call[Dataset](ctx, c, get("v2/datasets/"+url.PathEscape(name), nil), nil, "dataset %q", name)
	}
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

// ListDatasets yields all datasets of the project, the newest first. If a dataset is created
// during the iteration, another may appear twice. Retried; the first error ends the iteration.
//
// API: GET /api/public/v2/datasets
func (c *Client) ListDatasets(ctx context.Context) iter.Seq2[Dataset, error] {
	return listPages[Dataset](ctx, c, "v2/datasets", url.Values{}, 0)
}

// UpsertDataset creates the dataset, or updates the dataset with the same name, and returns it.
// If a schema is set, the server validates all existing items. Safe to repeat; retried. Errors:
// *APIError (400: the server rejects the name or a schema), *ConnectionError.
//
// API: POST /api/public/v2/datasets
func (c *Client) UpsertDataset(ctx context.Context, dataset DatasetUpsert) (Dataset, error) {
	return call[Dataset](ctx, c, post("v2/datasets"), dataset, "dataset %q", dataset.Name)
}

// ItemStatus determines whether a dataset item is listed.
type ItemStatus string

// The statuses of a dataset item.
const (
	ItemActive   ItemStatus = "ACTIVE"
	ItemArchived ItemStatus = "ARCHIVED"
)

// DatasetItem is one item of a dataset, for reading and writing. When reading, the raw fields
// contain the stored JSON, including null. When writing, empty fields and JSON null leave the
// stored value unchanged; the API cannot remove a value. If Input or ExpectedOutput is a JSON
// string, Langfuse replaces it by the JSON value in the string if it contains one ("4" becomes
// 4), and removes control characters: put texts into an object.
type DatasetItem struct {
	DatasetName string `json:"datasetName"`
	// ID is required, and makes writing safe to repeat. It is unique in the project, not only
	// in the dataset.
	ID                  string          `json:"id"`
	Input               json.RawMessage `json:"input,omitempty"`
	ExpectedOutput      json.RawMessage `json:"expectedOutput,omitempty"`
	Metadata            json.RawMessage `json:"metadata,omitempty"`
	SourceTraceID       string          `json:"sourceTraceId,omitempty"`
	SourceObservationID string          `json:"sourceObservationId,omitempty"`
	Status              ItemStatus      `json:"status,omitempty"`
	CreatedAt           time.Time       `json:"createdAt,omitzero"` // set by the server
}

// DatasetItemsQuery selects the items that ListDatasetItems yields.
type DatasetItemsQuery struct {
	DatasetName string
	// Version makes all pages show the dataset as it was at one time of the server's clock, to
	// the millisecond (see CurrentDatasetVersion). It is required, because concurrent writes
	// would otherwise lose and repeat items. Servers before 3.150.1 do not support it (see
	// Capabilities.DatasetVersions).
	Version DatasetVersion
	// Limit is the number of items per page, at most 100; 0 means 64. A page that is too large
	// for the server or for Config.MaxResponseBytes is requested again in smaller pages.
	Limit int
}

// ListDatasetItems yields the active items of a version of a dataset, the newest first. It
// fetches pages ahead; at most 64 pages, or about 16 MiB, are in memory. Retried; the first
// error ends the iteration: ErrNotFound (unknown dataset), *APIError, *ConnectionError. A
// version before the first item has no items.
//
// API: GET /api/public/dataset-items
func (c *Client) ListDatasetItems(ctx context.Context, q DatasetItemsQuery) iter.Seq2[DatasetItem, error] {
	return func(yield func(DatasetItem, error) bool) {
		items, err := c.BeginDatasetItems(ctx, q)
		if err != nil {
			yield(DatasetItem{}, err)
			return
		}
		elements(items.Pages(ctx))(yield)
	}
}

// DatasetItems is a list of items whose first pages have been read. It keeps these pages in
// memory and can be read more than once.
type DatasetItems struct {
	dataset string
	list    list[DatasetItem]
	first   []page[DatasetItem] // empty if the first page is too large
}

// BeginDatasetItems reads the first pages of ListDatasetItems, so that a caller can read them
// concurrently with other work. Retried; errors: those of ListDatasetItems.
//
// API: GET /api/public/dataset-items
func (c *Client) BeginDatasetItems(ctx context.Context, q DatasetItemsQuery) (*DatasetItems, error) {
	if q.DatasetName == "" || q.Version.At.IsZero() {
		return nil, usageError("listing dataset items needs the dataset's name and a version")
	}
	query := url.Values{"datasetName": {q.DatasetName}}
	setTime(query, "version", q.Version.At)
	l := &DatasetItems{dataset: q.DatasetName, list: list[DatasetItem]{
		client: c, path: "dataset-items", query: query, limit: q.Limit, maxLimit: maxPageLimit,
	}}
	if err := l.readFirst(ctx, q.Version); err != nil {
		return nil, fmt.Errorf("items of dataset %q: %w", q.DatasetName, err)
	}
	return l, nil
}

// readFirst reads the first page. If version.Items is not 0, it also reads the following pages
// that fit into memory.
func (l *DatasetItems) readFirst(ctx context.Context, version DatasetVersion) error {
	if err := l.list.checkLimit(); err != nil {
		return err
	}
	limit := l.list.limit
	n := max(1, min((version.Items+limit-1)/limit, pagesAhead(version.ItemSize*limit)))
	for page, err := range inOrder(ctx, n, n, n, l.page) {
		if errors.Is(err, ErrTooLarge) {
			return nil
		}
		if err != nil {
			return err
		}
		if l.first = append(l.first, page); len(page.Data) == 0 {
			break // the list is shorter than expected
		}
	}
	return nil
}

// page requests the page with an index from 0.
func (l *DatasetItems) page(ctx context.Context, index int) (page[DatasetItem], error) {
	return l.list.get(ctx, position{offset: index * l.list.limit})
}

// size returns the approximate size of the item in bytes.
func (item DatasetItem) size() int {
	return len(item.Input) + len(item.ExpectedOutput) + len(item.Metadata) + 500
}

// The limits for fetching pages ahead of the one that is yielded.
const (
	maxPagesAhead = 32
	maxBytesAhead = 8 << 20 // estimated from the first page, or from the newest item
)

// pagesAhead returns how many pages of the given size may be in memory.
func pagesAhead(bytes int) int { return min(max(maxBytesAhead/max(bytes, 1), 1), maxPagesAhead) }

// Pages yields the items like ListDatasetItems, but in pages. The first page it yields contains
// all items that BeginDatasetItems has read.
func (l *DatasetItems) Pages(ctx context.Context) iter.Seq2[[]DatasetItem, error] {
	pages := func(yield func([]DatasetItem, error) bool) {
		if len(l.first) == 0 {
			l.list.pages(ctx, position{})(yield)
			return
		}
		var items []DatasetItem
		for _, page := range l.first {
			items = append(items, page.Data...)
		}
		if yield(items, nil) && len(l.first[len(l.first)-1].Data) > 0 {
			l.readRest(ctx, yield)
		}
	}
	return convert(pages, keepAll[[]DatasetItem], "items of dataset %q", l.dataset)
}

// readRest yields the pages after those of readFirst in order. It fetches several concurrently.
// If a page is too large, it reads the rest sequentially in smaller pages.
func (l *DatasetItems) readRest(ctx context.Context, yield func([]DatasetItem, error) bool) {
	bytes := 0
	for _, item := range l.first[0].Data {
		bytes += item.size()
	}
	read, total, n := len(l.first), int(l.first[0].Meta.TotalPages), pagesAhead(bytes)
	get := func(ctx context.Context, i int) (page[DatasetItem], error) { return l.page(ctx, len(l.first)+i) }
	for page, err := range inOrder(ctx, total-read, n, n, get) {
		if errors.Is(err, ErrTooLarge) {
			break
		}
		if !yield(page.Data, err) || err != nil || len(page.Data) == 0 {
			return
		}
		read++
	}
	if read < total {
		l.list.pages(ctx, position{offset: read * l.list.limit})(yield)
	}
}

// GetDatasetItem returns an item of any status by its id. Retried; errors: ErrNotFound (also
// for a deleted item), *APIError, *ConnectionError.
//
// API: GET /api/public/dataset-items/{id}
func (c *Client) GetDatasetItem(ctx context.Context, id string) (DatasetItem, error) {
	return call[DatasetItem](ctx, c, get("dataset-items/"+url.PathEscape(id), nil), nil, "dataset item %q", id)
}

// MaxItemBytes is the largest request body that servers accept for a dataset item: the item as
// JSON with the name of its dataset.
const MaxItemBytes = 4_718_592

// UpsertDatasetItem creates the item, or merges it into the item with the same id, and returns
// the stored item. With a Status alone, it archives an item or makes it active again; if there is no
// such item, the server creates an empty one: check with GetDatasetItem first. Every call writes a
// new version of the item, even if it is unchanged: compare first. Safe to repeat; retried, also after a conflict with another writer. Errors:
// ErrNotFound (unknown dataset), ErrConflict (the id belongs to another dataset), *UsageError
// that wraps ErrTooLarge (the request has more than 4.5 MiB; nothing is sent), *APIError,
// *ConnectionError.
//
// API: POST /api/public/dataset-items
func (c *Client) UpsertDatasetItem(ctx context.Context, item DatasetItem) (DatasetItem, error) {
	if item.ID == "" || item.DatasetName == "" {
		return DatasetItem{}, usageError("writing a dataset item needs its id and the dataset's name")
	}
	item.CreatedAt = time.Time{}
	body, err := textutil.MarshalJSON(item)
	if err != nil {
		return DatasetItem{}, usageError("dataset item %q of %q cannot be written as JSON: %w", item.ID, item.DatasetName, err)
	}
	if len(body) > MaxItemBytes {
		const mb = float64(1 << 20)
		return DatasetItem{}, usageError("item %q of dataset %q is %w: %.1f MB, and Langfuse takes %.1f MB at most: "+
			"shorten its document or leave it out", textutil.Cut(item.ID, 80), textutil.Cut(item.DatasetName, 80),
			ErrTooLarge, float64(len(body))/mb, MaxItemBytes/mb)
	}
	r := post("dataset-items")
	r.body = body
	return call[DatasetItem](ctx, c, r, nil, "dataset item %q of %q", item.ID, item.DatasetName)
}

// DatasetVersion identifies the state of a dataset at a time.
type DatasetVersion struct {
	At time.Time
	// Items and ItemSize are the expected number of items and their size in bytes. With them,
	// the first pages are fetched concurrently, as many as may be in memory. If Items is 0, the
	// first page is fetched alone.
	Items, ItemSize int
}

// CurrentDatasetVersion returns a version that contains everything that is in the dataset now,
// with the number of its items and the size of the newest item. At is a time of the server's
// clock, or the time of the newest item if that is later (a proxy may set an old Date). The
// call may wait a second until a second of the server's clock has ended. Retried; errors: those
// of GetHealth and ListDatasetItems, including ErrNotFound.
//
// API: GET /api/public/health, GET /api/public/dataset-items
func (c *Client) CurrentDatasetVersion(ctx context.Context, name string) (DatasetVersion, error) {
	var newest page[DatasetItem]
	var listErr error
	var listed sync.WaitGroup
	listed.Go(func() {
		// A version in the future contains the current items, the newest first. A local clock that was lost,
		// as without a battery, begins in 1970 or 2000.
		query := url.Values{"datasetName": {name}, "limit": {"1"}, "page": {"1"}}
		setTime(query, "version", time.Now().AddDate(100, 0, 0))
		newest, listErr = call[page[DatasetItem]](ctx, c, get("dataset-items", query), nil, "items of dataset %q", name)
	})
	before := time.Now()
	health, err := c.GetHealth(ctx)
	after := time.Now()
	listed.Wait()
	if err := cmp.Or(err, listErr); err != nil {
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

// serverNow returns the time of the server and how long to wait until it is reached. The
// server's clock only has seconds. If the local clock agrees with it, serverNow uses the local
// clock, which is more precise. Otherwise it uses the end of the server's second, because a
// version within this second could omit or include items that were written or archived just
// before.
func serverNow(server, before, after time.Time) (now time.Time, wait time.Duration) {
	agrees := !server.Before(before.Truncate(time.Second)) && !server.After(after)
	if server.IsZero() || agrees {
		return after.UTC(), 0
	}
	return server.Add(time.Second).UTC(), time.Second
}
