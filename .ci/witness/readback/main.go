// Command readback reads, with our client, the run that the official SDK made,
// in every view that the server has of it, and compares it with what the SDK's
// script wrote down. It prints one line for each comparison and ends with 1
// where one does not hold.
//
//	LANGFUSE_BASE_URL=… LANGFUSE_PUBLIC_KEY=… LANGFUSE_SECRET_KEY=… readback theirs.json
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"extraction-experiment/langfuse"
)

// theirs is the run as the SDK's script knows it; the item that failed is not
// among the items.
type theirs struct {
	Project, Dataset, DatasetName, Run, Experiment string
	Description, Failing                           string
	Started                                        time.Time
	Metadata                                       map[string]any
	RunScores                                      map[string]any
	Items                                          map[string]theirItem
}

type theirItem struct {
	Trace  string
	Output any
	Scores map[string]any
}

func main() {
	if err := run(context.Background(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "readback:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, arguments []string) error {
	if len(arguments) != 1 {
		return errors.New("usage: readback theirs.json")
	}
	text, err := os.ReadFile(arguments[0])
	if err != nil {
		return err
	}
	var want theirs
	if err := json.Unmarshal(text, &want); err != nil {
		return fmt.Errorf("reading %s: %w", arguments[0], err)
	}
	config, _, err := langfuse.ConfigFromEnv(os.LookupEnv)
	if err != nil {
		return err
	}
	client, err := langfuse.New(config)
	if err != nil {
		return err
	}
	defer client.CloseIdleConnections()
	server, err := client.Probe(ctx)
	if err != nil {
		return err
	}
	r := reader{client: client, server: server, want: want}
	r.equal("the project", server.Project.ID, want.Project)
	for _, view := range server.Views() {
		if err := r.view(ctx, view); err != nil {
			return err
		}
	}
	if err := r.traces(ctx); err != nil {
		return err
	}
	if err := r.scores(ctx); err != nil {
		return err
	}
	return r.finish()
}
