package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	urfave "github.com/urfave/cli/v2"

	"extraction-experiment/dataset"
	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/wholefile"
	"extraction-experiment/seed"
)

// selecting are the flags that say which traces are meant.
var selecting = []string{"trace-id", "from-file", "tag", "name", "environment", "since", "until", "queue", "score"}

// traceFlags are the flags of seeding from traces.
func traceFlags() []urfave.Flag {
	return []urfave.Flag{
		&urfave.StringSliceFlag{Name: "trace-id", Usage: "seed from the trace `ID`; may be repeated, and several ids separated by commas"},
		&urfave.StringFlag{Name: "from-file", Usage: "seed from the trace ids in `FILE`, one a line; - is standard input"},
		&urfave.StringSliceFlag{Name: "tag", Usage: "seed from traces with the tag `T`; repeated: with all of them"},
		&urfave.StringFlag{Name: "name", Usage: "seed from traces of that `NAME`"},
		&urfave.StringFlag{Name: "environment", Usage: "seed from traces of the environment `E`"},
		&urfave.StringFlag{Name: "since", Usage: "seed from traces that began at `TIME` or later: 2026-11-21, 2026-11-21T10:00:00Z, or 7d, 12h ago"},
		&urfave.StringFlag{Name: "until", Usage: "seed from traces that began before `TIME`"},
		&urfave.StringFlag{Name: "queue", Usage: "seed from the completed items of the annotation queue `NAME`"},
		&urfave.StringSliceFlag{Name: "score", Usage: "seed from traces with a score such as `'NAME>=V'`; repeated: with all of them"},
		&urfave.IntFlag{Name: "limit", DefaultText: "all", Usage: "take the first `N` traces, the newest ones"},
		&urfave.IntFlag{Name: "sample", DefaultText: "all", Usage: "draw `N` of the traces at random"},
		&urfave.Uint64Flag{Name: "seed", Usage: "`S` decides which traces are drawn", DefaultText: "0"},
		&urfave.StringFlag{Name: "stratify", Usage: "spread the sample over the values of `metadata.KEY`"},
		&urfave.StringFlag{Name: "mapping", Usage: "`FILE` that says where in a trace document and gold are (docs/seeding.md)"},
		&urfave.StringFlag{Name: "redact", Usage: "`FILE` of patterns and fields that are replaced before anything leaves (docs/seeding.md)"},
		&urfave.StringSliceFlag{Name: "accept-tag", Usage: "a trace with the tag `T` counts as validated"},
		&urfave.StringSliceFlag{Name: "accept-score", Usage: "a trace with a score such as `'NAME>=V'` counts as validated"},
		&urfave.BoolFlag{Name: "accept-unvalidated", DisableDefaultText: true, Usage: "seed from traces that nobody validated, and mark the items"},
		&urfave.StringFlag{Name: "out", Usage: "write the items of the traces to `FILE` instead of Langfuse"},
		&urfave.BoolFlag{Name: "diff", DisableDefaultText: true, Usage: "with --dry-run: show how items differ from what is there"},
	}
}

// namesTraces reports whether the command line means traces.
func namesTraces(c *urfave.Context) bool {
	for _, flag := range selecting {
		if c.IsSet(flag) {
			return true
		}
	}
	return c.Args().Present()
}

// readSelection reads the flags and ids. All problems are returned together.
func readSelection(c *urfave.Context, env cli.Env) (seed.Selection, error) {
	s := seed.Selection{
		Tags: c.StringSlice("tag"), Name: c.String("name"), Environment: c.String("environment"), Queue: c.String("queue"),
		Limit: c.Int("limit"), Sample: c.Int("sample"), Seed: c.Uint64("seed"), Stratify: c.String("stratify"),
	}
	var problems []error
	for _, arg := range c.Args().Slice() {
		if _, err := dataset.FormatOf(arg); err == nil {
			problems = append(problems, cli.Usage("%s is the name of a file: items come from --file %s, ids of traces from --from-file", arg, arg))
		}
	}
	for _, arg := range append(c.Args().Slice(), c.StringSlice("trace-id")...) {
		for id := range strings.SplitSeq(arg, ",") {
			s.IDs = append(s.IDs, strings.TrimSpace(id))
		}
	}
	if path := c.String("from-file"); path != "" {
		ids, err := readIDs(c.Context, path, env)
		if err == nil && len(ids) == 0 {
			err = cli.Usage("%s names no trace", path)
		}
		problems = append(problems, err)
		s.IDs = append(s.IDs, ids...)
	}
	for _, text := range c.StringSlice("score") {
		rule, err := seed.ParseScoreRule(text)
		problems = append(problems, err)
		s.Scores = append(s.Scores, rule)
	}
	now := time.Now().UTC()
	for _, bound := range []struct {
		flag string
		into *time.Time
	}{{"since", &s.Since}, {"until", &s.Until}} {
		if text := c.String(bound.flag); text != "" {
			var err error
			*bound.into, err = readTime(text, now)
			if err != nil {
				problems = append(problems, cli.Usage("--%s: %w", bound.flag, err))
			}
		}
	}
	return s, errors.Join(problems...)
}

// mostIDs bounds a list of ids, in bytes.
const mostIDs = 256 << 20

// readIDs reads one id a line; empty lines and those that begin with # do not
// count.
func readIDs(ctx context.Context, path string, env cli.Env) (ids []string, err error) {
	in := env.Stdin
	if path != "-" {
		file, opening := wholefile.Open(ctx, path)
		if opening != nil {
			return nil, cli.Usage("reading trace ids: %w", opening)
		}
		defer func() { err = errors.Join(err, file.Close()) }()
		in = file
	}
	bounded := &io.LimitedReader{R: in, N: mostIDs}
	lines := bufio.NewScanner(bounded)
	for lines.Scan() {
		if id := strings.TrimSpace(lines.Text()); id != "" && id[0] != '#' {
			ids = append(ids, id)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, cli.Usage("reading trace ids from %s: %w", path, err)
	}
	if bounded.N == 0 {
		return nil, cli.Usage("reading trace ids from %s: more than %d MB are no list of ids", path, mostIDs>>20)
	}
	return ids, nil
}

// readTime reads an instant, a day (its beginning, UTC), or how long ago.
func readTime(text string, now time.Time) (time.Time, error) {
	for _, layout := range []string{time.RFC3339Nano, time.DateOnly} {
		if t, err := time.Parse(layout, text); err == nil {
			return t.UTC(), nil
		}
	}
	if days, ok := strings.CutSuffix(text, "d"); ok {
		if n, err := strconv.Atoi(days); err == nil && n > 0 && n < 100_000 {
			return now.AddDate(0, 0, -n), nil
		}
	}
	if ago, err := time.ParseDuration(text); err == nil && ago > 0 {
		return now.Add(-ago), nil
	}
	return time.Time{}, fmt.Errorf("%q is neither a time (2026-11-21, 2026-11-21T10:00:00Z) nor how long ago (7d, 12h)", text)
}
