package tracking

import (
	"context"
	"fmt"
	"iter"
	"sync"
	"time"

	"extraction-experiment/dataset"
	"extraction-experiment/langfuse"
)

// pageSize is how many items of a dataset are asked for at once.
const pageSize = 100

// Dataset is a Langfuse dataset, pinned to one version of its items.
type Dataset struct {
	client  *langfuse.Client
	name    string
	id      string
	version langfuse.DatasetVersion
	// begun is the list of items with its first pages; nil without.
	begun *langfuse.DatasetItems
}

// OpenDataset finds a dataset and pins it to what it holds now. An unknown one
// is an error that langfuse.ErrNotFound matches.
func OpenDataset(ctx context.Context, client *langfuse.Client, name string) (*Dataset, error) {
	d := &Dataset{client: client, name: name}
	var unknown, unpinned error
	var asked sync.WaitGroup
	asked.Go(func() {
		var found langfuse.Dataset
		found, unknown = client.GetDataset(ctx, name)
		d.id = found.ID
	})
	asked.Go(func() { d.version, unpinned = client.CurrentDatasetVersion(ctx, name) })
	asked.Wait()
	switch {
	case unknown != nil:
		return nil, unknown
	case unpinned != nil:
		return nil, fmt.Errorf("finding the current version of dataset %q: %w", name, unpinned)
	}
	return d, nil
}

// ReopenDataset returns the dataset at the version that a run began with.
func ReopenDataset(client *langfuse.Client, id, name, version string) (*Dataset, error) {
	t, err := time.Parse(time.RFC3339Nano, version)
	if err != nil {
		return nil, fmt.Errorf("the run's dataset version %q is not a time: %w", version, err)
	}
	return &Dataset{client: client, name: name, id: id, version: langfuse.DatasetVersion{Time: t}}, nil
}

// ID returns the dataset's id in Langfuse.
func (d *Dataset) ID() string { return d.id }

// Version returns the pin in the form that the run file and Langfuse keep.
func (d *Dataset) Version() string { return langfuse.FormatTime(d.version.Time) }

// Begin reads the first pages of items, which Pages then has at once. It is not
// needed; Pages asks again where it failed. Where no more than so many items will be
// read, most says so; 0 is all. Not for concurrent use with Pages.
func (d *Dataset) Begin(ctx context.Context, most int) {
	version := d.version
	if most > 0 {
		version.Items = min(version.Items, most)
	}
	if begun, err := d.list(ctx, version); err == nil {
		d.begun = begun
	}
}

func (d *Dataset) list(ctx context.Context, version langfuse.DatasetVersion) (*langfuse.DatasetItems, error) {
	return d.client.BeginDatasetItems(ctx, langfuse.DatasetItemsQuery{DatasetName: d.name, Version: version, Limit: pageSize})
}

// Pages yields the items of the pinned version. The order is that of the
// server; reading again gives the same items.
func (d *Dataset) Pages(ctx context.Context) iter.Seq2[[]dataset.Item, error] {
	return func(yield func([]dataset.Item, error) bool) {
		begun := d.begun
		d.begun = nil // its pages may be large
		if begun == nil {
			var err error
			// Nobody said how many will be read: one page tells how many there are.
			if begun, err = d.list(ctx, langfuse.DatasetVersion{Time: d.version.Time}); err != nil {
				yield(nil, err)
				return
			}
		}
		var page []dataset.Item
		for item, err := range begun.All(ctx) {
			if err != nil {
				yield(nil, err)
				return
			}
			page = append(page, toItem(item))
			if len(page) < pageSize {
				continue
			}
			if !yield(page, nil) {
				return
			}
			page = nil
		}
		if len(page) > 0 {
			yield(page, nil)
		}
	}
}

func toItem(item langfuse.DatasetItem) dataset.Item {
	return dataset.Item{
		ID: item.ID, Input: item.Input, Expected: item.ExpectedOutput, Metadata: item.Metadata,
		SourceTraceID: item.SourceTraceID, SourceObservationID: item.SourceObservationID,
	}
}
