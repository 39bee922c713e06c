package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	urfave "github.com/urfave/cli/v2"

	benches "extraction-experiment/harness/bench"
	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/printable"
)

// defaultRegression is the dataset that packs are added to; bench run reads the
// whole folder where it is there.
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
	if err := cli.CanWrite(target); err != nil && target == defaultRegression {
		return cli.Usage("there is no folder %s here to add to: name the dataset with --dataset", filepath.Dir(target))
	} else if err != nil {
		return err
	}
	lines, n, err := benches.Additions(c.Context, benches.Options{Strict: c.Bool("strict")}, words[0], target)
	if err != nil {
		return err
	}
	if err := appendLines(target, lines); err != nil {
		return err
	}
	_, err = fmt.Fprintf(env.Stdout, "added %s to %s\n", printable.Counted(n, "record"), target)
	return cli.Written(err)
}

// appendLines adds whole lines to the end of a file, which stays the file that it
// is: its mode, and where a link leads. What cannot be written as a whole is taken
// away again.
func appendLines(path string, lines []byte) (err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o666) // less what umask takes
	if err != nil {
		return cli.Errorf(cli.ExitIO, "writing %s: %w", path, err)
	}
	end, err := f.Seek(0, io.SeekEnd)
	if err == nil && end > 0 {
		last := make([]byte, 1)
		if _, err = f.ReadAt(last, end-1); err == nil && last[0] != '\n' {
			lines = append([]byte{'\n'}, lines...)
		}
	}
	if err == nil {
		if _, err = f.Write(lines); err != nil {
			err = errors.Join(err, f.Truncate(end))
		}
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return cli.Errorf(cli.ExitIO, "writing %s: %w", path, err)
	}
	return nil
}
