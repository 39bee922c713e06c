package main

import (
	"context"
	"fmt"
	"os"

	urfave "github.com/urfave/cli/v2"

	"extraction-experiment/cmd/internal/connect"
	"extraction-experiment/dataset"
	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/wholefile"
	"extraction-experiment/scoring"
	"extraction-experiment/seed"
)

// open connects to Langfuse and says which one it is.
func open(c *urfave.Context, env cli.Env) (*connect.Langfuse, error) {
	lf, err := connect.Open(c.Context, env.Getenv)
	if err == nil && !c.Bool("quiet") {
		fmt.Fprintln(env.Stderr, lf.Describe())
	}
	return lf, err
}

// readable checks that the file is there and of a known form, before anything
// else is done.
func readable(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return cli.Usage("reading items: %w", err)
	}
	if info.IsDir() {
		return cli.Usage("reading items: %s is a folder", path)
	}
	_, err = dataset.FormatOf(path)
	return err
}

// readSchemas reads the file of --schema; none is no schemas.
func readSchemas(ctx context.Context, path string) (seed.Schemas, error) {
	if path == "" {
		return seed.Schemas{}, nil
	}
	raw, err := wholefile.Read(ctx, path, wholefile.MaxText)
	if err != nil {
		return seed.Schemas{}, cli.Usage("reading the schemas: %w", err)
	}
	schemas, err := seed.ParseSchemas(raw)
	if err != nil {
		return schemas, fmt.Errorf("reading %s: %w", path, err)
	}
	return schemas, nil
}

// vocabulary is that of the scorer: it says which gold repeats itself.
func vocabulary() seed.Vocabulary {
	options := scoring.DefaultOptions()
	return seed.Vocabulary{Inverse: options.Inverse, Symmetric: options.Symmetric}
}

// warn prints what a person should look at; all is what lists the rest.
func warn(env cli.Env, quiet bool, warnings seed.Findings, all string) {
	if quiet {
		return
	}
	const shown = 10
	for i, w := range warnings.First {
		if i == shown {
			break
		}
		fmt.Fprintln(env.Stderr, "warning: "+w.String())
	}
	if warnings.Total > shown {
		fmt.Fprintf(env.Stderr, "warning: and %d more (%s lists them)\n", warnings.Total-shown, all)
	}
}
