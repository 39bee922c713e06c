package connect

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"extraction-experiment/configs"
	"extraction-experiment/dataset"
	"extraction-experiment/langfuse"
	"extraction-experiment/seed"
	"extraction-experiment/tracking"
)

// seedBuiltIn puts the built-in prompt and dataset into a store that does not
// have them.
func seedBuiltIn(ctx context.Context, client *langfuse.Client) error {
	if err := tracking.CreateDefaultPrompt(ctx, client); err != nil {
		return fmt.Errorf("writing the built-in prompt: %w", err)
	}
	_, err := client.GetDataset(ctx, configs.SampleName)
	if !errors.Is(err, langfuse.ErrNotFound) {
		return err
	}
	_, err = seed.File(ctx, client, builtIn(), seed.Config{Dataset: configs.SampleName, Description: configs.SampleDescription})
	if err != nil {
		return fmt.Errorf("writing the built-in dataset: %w", err)
	}
	return nil
}

// builtIn gives the items anew each time it is ranged over.
func builtIn() iter.Seq2[dataset.Located, error] {
	return func(yield func(dataset.Located, error) bool) {
		dataset.Read(configs.OpenSample(), dataset.JSONL, configs.SampleFile)(yield)
	}
}
