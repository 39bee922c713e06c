package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	urfave "github.com/urfave/cli/v2"

	"extraction-experiment/cmd/internal/runs"
	"extraction-experiment/cmd/internal/settings"
	benches "extraction-experiment/harness/bench"
	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/textutil"
	"extraction-experiment/report"
	"extraction-experiment/runstore"
)

// gateFlags are the gates of bench score.
func gateFlags() (list []urfave.Flag) {
	for _, g := range benches.Gates() {
		list = append(list, &urfave.StringFlag{Name: g.Name, Value: fmt.Sprintf("%g", g.Limit), Usage: "`X` is a gate: " + g.About})
	}
	return list
}

// readGates reads the flags of the gates, and returns every problem at once.
func readGates(c *urfave.Context) ([]benches.Gate, error) {
	gates, p := benches.Gates(), &settings.Problems{}
	for i, g := range gates {
		if text := c.String(g.Name); g.Count {
			gates[i].Limit = float64(p.Count(g.Name, text, 0, int(g.Highest)))
		} else if limit := p.Number(g.Name, text, 0, g.Highest); limit != nil {
			gates[i].Limit = *limit
		}
	}
	return gates, withCode(p.Err())
}

// scoredBench is what --json prints.
type scoredBench struct {
	benches.Report
	Gates      map[string]float64  `json:"gates"`
	Violations []benches.Violation `json:"violations"`
}

// benchScore judges a run by the gates; without a word the newest one.
func benchScore(c *urfave.Context, env cli.Env, words []string) (err error) {
	gates, err := readGates(c)
	if err != nil {
		return err
	}
	named := ""
	if len(words) > 0 {
		named = words[0]
	} else if named, err = newestBench(c.Context); err != nil {
		return err
	}
	run, err := runs.Open(c.Context, named, "")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, run.Close()) }()
	result, err := benches.Measure(c.Context, run)
	if err != nil {
		return err
	}
	scored := scoredBench{result, map[string]float64{}, benches.Check(result, gates)}
	for _, g := range gates {
		scored.Gates[g.Name] = g.Limit
	}
	line, verdict := benches.Verdict(len(gates), scored.Violations)
	if c.Bool("json") {
		return errors.Join(runs.PrintJSON(env, scored), verdict)
	}
	err = report.Bench(env.Stdout, result)
	_, said := fmt.Fprintf(env.Stdout, "\n%s\n", line)
	return errors.Join(cli.Written(errors.Join(err, said)), verdict)
}

// newestBench finds the run of the bench that was begun last.
func newestBench(ctx context.Context) (string, error) {
	entries, err := runs.List(ctx)
	if err != nil {
		return "", err
	}
	var newest runstore.Entry
	for _, e := range entries {
		if e.Err == nil && e.Header.Harness == benches.Name && e.Header.Started.After(newest.Header.Started) {
			newest = e
		}
	}
	if newest.Path == "" {
		return "", cli.Usage("there is no run of the bench here: experiment bench run makes one")
	}
	return newest.Path, nil
}

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
	_, err = fmt.Fprintf(env.Stdout, "added %s to %s\n", textutil.Counted(n, "record"), target)
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
