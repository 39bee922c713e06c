package tracking

import (
	"context"
	"errors"

	"extraction-experiment/langfuse"
)

// RunExists reports whether Langfuse has a run of that name over the dataset, in
// any view that the server has. Names are looked up by query or by the computed
// id, so that any name is found. A run without a dataset is known to its run file
// only.
func RunExists(ctx context.Context, client *langfuse.Client, server langfuse.Server, datasetID, name string) (bool, error) {
	if datasetID == "" {
		return false, nil
	}
	for _, view := range server.Views() {
		_, err := client.GetRun(ctx, server, view, langfuse.RunRef{DatasetID: datasetID, Name: name})
		if err == nil {
			return true, nil
		}
		if !errors.Is(err, langfuse.ErrNotFound) {
			return false, err
		}
	}
	return false, nil
}
