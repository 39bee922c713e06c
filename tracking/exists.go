package tracking

import (
	"context"
	"time"

	"extraction-experiment/langfuse"
)

// RunExists reports whether Langfuse has a run of that name over the dataset.
// It asks by the computed id, because names with commas or leading spaces
// cannot be looked up. Where the server has only the reads of v3, and for runs
// without a dataset, it says no: the run file is what guards the name there.
func RunExists(ctx context.Context, client *langfuse.Client, server langfuse.Server, datasetID, name string) (bool, error) {
	if datasetID == "" || !server.NewReads {
		return false, nil
	}
	query := langfuse.ExperimentsQuery{
		From:  time.Unix(0, 0).UTC(),
		IDs:   []string{langfuse.ExperimentID(server.Project.ID, datasetID, name)},
		Limit: 1,
	}
	for _, err := range client.ListExperiments(ctx, query) {
		return err == nil, err
	}
	return false, nil
}
