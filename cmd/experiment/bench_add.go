package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	urfave "github.com/urfave/cli/v2"

	benches "extraction-experiment/harness/bench"
	"extraction-experiment/internal/cli"
)

// defaultRegression is the dataset that packs are added to.
const defaultRegression = "bench/datasets/regression.jsonl"

// benchAdd validates the records of a pack and appends them to the dataset.
func benchAdd(c *urfave.Context, env cli.Env, words []string) error {
	target := defaultRegression
	if named := c.StringSlice("dataset"); len(named) == 1 {
		target = named[0]
	} else if len(named) > 1 {
		return cli.Usage("bench add appends to one dataset")
	}
	if cli.SameFile(words[0], target) {
		return cli.Usage("%s is the dataset itself", target)
	}
	if err := cli.CanWrite(target); err != nil {
		return err
	}
	lines, n, err := benches.Additions(benches.Options{Strict: c.Bool("strict")}, words[0], target)
	if err != nil {
		return err
	}
	before, err := os.ReadFile(target)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return cli.Usage("reading %s: %w", target, err)
	}
	if len(before) > 0 && !bytes.HasSuffix(before, []byte("\n")) {
		before = append(before, '\n')
	}
	err = cli.WriteFile(target, func(w io.Writer) error {
		_, err := w.Write(append(before, lines...))
		return err
	})
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(env.Stdout, "added %d records to %s\n", n, target)
	return cli.Written(err)
}
