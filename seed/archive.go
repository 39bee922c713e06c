package seed

import (
	"context"
	"errors"
	"fmt"

	"extraction-experiment/langfuse"
)

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
	change := Change{Item: id, Action: NotDone}
	if id == "" {
		change.Reason = "the id is empty"
		return change, nil
	}
	found, err := client.GetDatasetItem(ctx, id)
	switch {
	case errors.Is(err, langfuse.ErrNotFound):
		change.Reason = "there is no such item"
		return change, nil
	case err != nil:
		return change, err
	case found.DatasetName != dataset:
		change.Reason = fmt.Sprintf("it belongs to the dataset %q", found.DatasetName)
		return change, nil
	case found.Status == langfuse.ItemArchived:
		change.Action = Unchanged
		return change, nil
	}
	if _, err := client.SetDatasetItemStatus(ctx, dataset, id, langfuse.ItemArchived); err != nil {
		return change, err
	}
	change.Action = Archived
	return change, nil
}
