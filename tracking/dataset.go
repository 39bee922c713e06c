package tracking

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"sync/atomic"
	"time"

	"extraction-experiment/dataset"
	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/stats"
	"extraction-experiment/langfuse"
)

// pageSize is the number of dataset items in one request.
const pageSize = 100

// Dataset is a Langfuse dataset, pinned to one version of its items. It is safe for concurrent use.
type Dataset struct {
	client  *langfuse.Client
	name    string
	id      string
	version langfuse.DatasetVersion
	// prefetched is the list of items whose first pages Begin requested, or nil.
	prefetched atomic.Pointer[langfuse.DatasetItems]
}

// OpenDataset finds a dataset and pins it to its current items. The error for an unknown
// dataset matches langfuse.ErrNotFound.
func OpenDataset(ctx context.Context, client *langfuse.Client, name string) (*Dataset, error) {
	d := &Dataset{client: client, name: name}
	var datasetErr, versionErr error
	var requests sync.WaitGroup
	requests.Go(func() {
		var found langfuse.Dataset
		found, datasetErr = client.GetDataset(ctx, name)
		d.id = found.ID
	})
	requests.Go(func() {
		if d.version, versionErr = client.CurrentDatasetVersion(ctx, name); versionErr != nil {
			versionErr = fmt.Errorf("finding the current version of dataset %q: %w", name, versionErr)
		}
	})
	requests.Wait()
	return d, cmp.Or(datasetErr, versionErr)
}

// ReopenDataset returns the dataset at the version that a run began with.
func ReopenDataset(client *langfuse.Client, id, name, version string) (*Dataset, error) {
	t, err := time.Parse(time.RFC3339Nano, version)
	if err != nil {
		return nil, fmt.Errorf("the run's dataset version %q is not a time: %w", version, err)
	}
	return &Dataset{client: client, name: name, id: id, version: langfuse.DatasetVersion{At: t}}, nil
}

// ID returns the dataset's id in Langfuse.
func (d *Dataset) ID() string { return d.id }

// Version returns the pinned version as the run file and Langfuse store it.
func (d *Dataset) Version() string { return langfuse.FormatTime(d.version.At) }

// Begin requests the first pages in advance for the next call of Pages. It requests no more
// pages than limit items need; 0 means all items. Calling Begin is optional, and if it fails
// Pages requests the items itself.
func (d *Dataset) Begin(ctx context.Context, limit int) {
	wanted := d.version
	if limit > 0 {
		wanted.Items = min(wanted.Items, limit)
	}
	if list, err := d.list(ctx, wanted); err == nil {
		d.prefetched.Store(list)
	}
}

func (d *Dataset) list(ctx context.Context, v langfuse.DatasetVersion) (*langfuse.DatasetItems, error) {
	return d.client.BeginDatasetItems(ctx, langfuse.DatasetItemsQuery{DatasetName: d.name, Version: v, Limit: pageSize})
}

// Pages yields the items of the pinned version in the order of the server. Another call
// yields the same items.
func (d *Dataset) Pages(ctx context.Context) iter.Seq2[[]dataset.Item, error] {
	return func(yield func([]dataset.Item, error) bool) {
		list := d.prefetched.Swap(nil) // frees its pages, which may be large
		if list == nil {
			var err error
			if list, err = d.list(ctx, langfuse.DatasetVersion{At: d.version.At}); err != nil {
				yield(nil, err)
				return
			}
		}
		stats.Map(list.Pages(ctx), func(page []langfuse.DatasetItem) []dataset.Item {
			return cli.Each(page, func(item langfuse.DatasetItem) dataset.Item {
				return dataset.Item{
					ID: item.ID, Input: item.Input, Expected: item.ExpectedOutput, Metadata: item.Metadata,
					SourceTraceID: item.SourceTraceID, SourceObservationID: item.SourceObservationID,
				}
			})
		})(yield)
	}
}

// RunExists reports whether any view of the server has a run of that name over the dataset.
// It looks the name up by query or by the computed id, so that it finds any name. It returns
// false for an empty datasetID, because only the run file knows a run without a dataset.
func RunExists(ctx context.Context, site Site, datasetID, name string) (bool, error) {
	if datasetID == "" {
		return false, nil
	}
	_, _, err := site.find(ctx, langfuse.RunRef{DatasetID: datasetID, Name: name})
	if errors.Is(err, langfuse.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}
