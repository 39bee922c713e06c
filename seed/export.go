package seed

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"extraction-experiment/dataset"
	"extraction-experiment/langfuse"
)

// Export writes the active items of a dataset, sorted by id so that two exports
// of the same items are equal byte for byte. It returns how many items there
// were; the caller closes the writer. All items are in memory meanwhile.
//
// Errors: langfuse.ErrNotFound for an unknown dataset, those of Langfuse, and
// of the writer.
//
// API: GET /api/public/health, GET /api/public/dataset-items
func Export(ctx context.Context, client *langfuse.Client, name string, w *dataset.Writer) (int, error) {
	pin, err := client.CurrentDatasetVersion(ctx, name)
	if err != nil {
		return 0, fmt.Errorf("exporting: %w", err)
	}
	var items []dataset.Item
	for item, err := range client.ListDatasetItems(ctx, langfuse.DatasetItemsQuery{DatasetName: name, Version: pin}) {
		if err != nil {
			return 0, fmt.Errorf("exporting: %w", err)
		}
		items = append(items, itemOf(item))
	}
	// Of an id that came twice, because somebody wrote while the list was read, the
	// first is taken: the newest.
	slices.SortStableFunc(items, func(a, b dataset.Item) int { return cmp.Compare(a.ID, b.ID) })
	items = slices.CompactFunc(items, func(a, b dataset.Item) bool { return a.ID == b.ID })
	for _, item := range items {
		if err := w.Write(item); err != nil {
			return 0, fmt.Errorf("exporting: %w", err)
		}
	}
	return len(items), nil
}

// Archive takes items out of a dataset's listing; runs that were made with them
// keep them, and seeding them again brings them back. An item that is archived
// already is left alone.
//
// It goes through all ids, and returns what was done with each; the error then
// names those that could not be archived (unknown, or of another dataset), with
// exit code 64. Any other error ends it. Safe to repeat.
//
// API: GET and POST /api/public/dataset-items
func Archive(ctx context.Context, client *langfuse.Client, dataset string, ids []string) ([]Change, error) {
	var changes []Change
	var refused []error
	for _, id := range ids {
		change, err := archive(ctx, client, dataset, id)
		if err != nil {
			return changes, fmt.Errorf("archiving: %w", err)
		}
		if change.Action == NotDone {
			refused = append(refused, fmt.Errorf("item %q: %s", id, change.Reason))
		}
		changes = append(changes, change)
	}
	if err := errors.Join(refused...); err != nil {
		return changes, &exitError{fmt.Errorf("archiving %d of %d items: %w", len(ids)-len(refused), len(ids), err), 64}
	}
	return changes, nil
}

func archive(ctx context.Context, client *langfuse.Client, dataset, id string) (Change, error) {
	if id == "" {
		return Change{Action: NotDone, Reason: "the id is empty"}, nil
	}
	found, err := client.GetDatasetItem(ctx, id)
	switch {
	case errors.Is(err, langfuse.ErrNotFound):
		return Change{Item: id, Action: NotDone, Reason: "there is no such item"}, nil
	case err != nil:
		return Change{}, err
	case found.DatasetName != dataset:
		return Change{Item: id, Action: NotDone, Reason: fmt.Sprintf("it belongs to the dataset %q", found.DatasetName)}, nil
	case found.Status == langfuse.ItemArchived:
		return Change{Item: id, Action: Unchanged}, nil
	}
	_, err = client.SetDatasetItemStatus(ctx, dataset, id, langfuse.ItemArchived)
	return Change{Item: id, Action: Archived}, err
}
