package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	urfave "github.com/urfave/cli/v2"

	"extraction-experiment/cmd/internal/connect"
	"extraction-experiment/dataset"
	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/wholefile"
	"extraction-experiment/report"
	"extraction-experiment/seed"
)

// traceAction makes items of production traces.
func traceAction(c *urfave.Context, env cli.Env) (err error) {
	selection, err := readSelection(c, env)
	if err != nil {
		return err
	}
	config, err := traceConfig(c)
	if err != nil {
		return err
	}
	lf, err := open(c, env)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lf.Close()) }()
	if path := c.String("out"); path != "" {
		return tracesToFile(c, env, lf, selection, config, path)
	}
	return seedTraces(c, env, lf, selection, config)
}

// traceConfig reads what the flags name.
func traceConfig(c *urfave.Context) (seed.TraceConfig, error) {
	schemas, errSchemas := readSchemas(c.Context, c.String("schema"))
	mapping, errMapping := readNamed(c.Context, c.String("mapping"), "the mapping", seed.ParseMapping)
	redaction, errRedaction := readNamed(c.Context, c.String("redact"), "the patterns", seed.ParseRedaction)
	for _, text := range c.StringSlice("accept-score") {
		rule, err := seed.ParseScoreRule(text)
		errMapping = errors.Join(errMapping, err)
		mapping.Evidence.Scores = append(mapping.Evidence.Scores, rule)
	}
	mapping.Evidence.Tags = append(mapping.Evidence.Tags, c.StringSlice("accept-tag")...)
	config := seed.TraceConfig{
		Config: seed.Config{
			Dataset: c.String("dataset"), Description: c.String("description"), Schemas: schemas,
			IDPrefix: c.String("id-prefix"), Vocabulary: vocabulary(), DryRun: c.Bool("dry-run"), Similar: seed.DefaultSimilar,
		},
		Mapping: mapping, Redaction: redaction, AcceptUnvalidated: c.Bool("accept-unvalidated"), Before: c.Bool("diff"),
	}
	var errDiff error
	if c.Bool("diff") && !c.Bool("dry-run") {
		errDiff = cli.Usage("--diff is a form of --dry-run: give both")
	}
	return config, errors.Join(errDiff, errSchemas, errMapping, errRedaction)
}

// readNamed reads the file of a flag; none is the zero value.
func readNamed[T any](ctx context.Context, path, what string, parse func([]byte) (T, error)) (T, error) {
	var none T
	if path == "" {
		return none, nil
	}
	raw, err := wholefile.Read(ctx, path, wholefile.MaxText)
	if err != nil {
		return none, cli.Usage("reading %s: %w", what, err)
	}
	value, err := parse(raw)
	if err != nil {
		return none, fmt.Errorf("%s: %w", path, err)
	}
	return value, nil
}

// tracesToFile writes the items to a file instead of Langfuse. A file is put in
// its place once it is whole; what was there stays if anything goes wrong.
func tracesToFile(c *urfave.Context, env cli.Env, lf *connect.Langfuse, selection seed.Selection, config seed.TraceConfig, path string) error {
	if c.Bool("dry-run") {
		return cli.Usage("--out writes no item to Langfuse anyway: leave --dry-run away")
	}
	format, err := dataset.FormatOf(path)
	if err := errors.Join(err, cli.CanWrite(path)); err != nil {
		return err
	}
	var refused error
	err = cli.WriteFile(path, func(f io.Writer) error {
		w, err := dataset.NewWriter(f, format)
		if err != nil {
			return err
		}
		config.Out = w
		err = seedTraces(c, env, lf, selection, config)
		if cli.ExitCode(err) == cli.ExitFailures { // the others are in the file
			refused, err = err, nil
		}
		return errors.Join(err, w.Close())
	})
	return errors.Join(err, refused)
}

// seedTraces seeds and tells about it.
func seedTraces(c *urfave.Context, env cli.Env, lf *connect.Langfuse, selection seed.Selection, config seed.TraceConfig) error {
	if config.AcceptUnvalidated && !c.Bool("quiet") {
		fmt.Fprintln(env.Stderr, "warning: --accept-unvalidated: items become gold that nobody is known to have checked; their metadata says so")
	}
	preview := newPreview(c, env)
	if preview != nil {
		config.Show = preview.Show
	}
	bar := newBar(env, c.Bool("quiet"))
	config.Progress = bar.progress
	result, err := seed.FromTraces(c.Context, lf.Client, lf.Server.Capabilities, selection, config)
	bar.close()
	warn(env, c.Bool("quiet"), result.Report.Warnings, "--json")
	if err != nil && result.Created+result.Updated+result.Unchanged+result.Refused == 0 {
		return err // it did not come to anything
	}
	if !c.Bool("quiet") && result.Selected > result.Refused-result.RefusedQueueItems {
		warnUnused(env, result.Redacted)
	}
	if result.Selected == 0 && result.Refused == 0 && !c.Bool("quiet") {
		fmt.Fprintln(env.Stderr, "warning: no trace matches the selection")
	}
	if preview != nil {
		if closing := preview.Close(result); closing != nil {
			return errors.Join(cli.Written(closing), result.Err(), err)
		}
	}
	return errors.Join(printTraces(c, env, result), result.Err(), err)
}

// newPreview returns the preview of a dry run.
func newPreview(c *urfave.Context, env cli.Env) *seed.Preview {
	switch {
	case !c.Bool("dry-run"):
		return nil
	case c.Bool("json"):
		return seed.NewPreview(env.Stdout, seed.PreviewJSON)
	case c.Bool("diff"):
		return seed.NewPreview(env.Stdout, seed.PreviewDiff)
	}
	return seed.NewPreview(env.Stdout, seed.PreviewTable)
}

// printTraces prints the summary; with --json the result, unless the preview
// had it.
func printTraces(c *urfave.Context, env cli.Env, r seed.TraceResult) error {
	if c.Bool("json") {
		if c.Bool("dry-run") {
			return nil
		}
		return cli.Written(report.JSON(env.Stdout, r, false))
	}
	var b strings.Builder
	switch {
	case c.String("out") != "":
		fmt.Fprintf(&b, "%d items of %d traces in %s, %d refused\n", r.Written, r.Selected, c.String("out"), r.Refused)
	default:
		verb := "seeded"
		if c.Bool("dry-run") {
			verb = "would seed"
		}
		fmt.Fprintf(&b, "%s dataset %s from %d traces: %d created, %d updated, %d unchanged, %d refused\n",
			verb, c.String("dataset"), r.Selected, r.Created, r.Updated, r.Unchanged, r.Refused)
	}
	counts(&b, "evidence", r.Evidence)
	counts(&b, "redacted", r.Redacted)
	_, err := io.WriteString(env.Stdout, b.String())
	return cli.Written(err)
}

// warnUnused names the patterns and fields that took nothing out.
func warnUnused(env cli.Env, redacted map[string]int) {
	for _, name := range slices.Sorted(maps.Keys(redacted)) {
		if redacted[name] == 0 {
			fmt.Fprintf(env.Stderr, "warning: --redact: %s took nothing out of any item: is it written as the items have it?\n", name)
		}
	}
}

func counts[K ~string](b *strings.Builder, title string, n map[K]int) {
	if len(n) == 0 {
		return
	}
	var parts []string
	for _, key := range slices.Sorted(maps.Keys(n)) {
		parts = append(parts, fmt.Sprintf("%d %s", n[key], key))
	}
	fmt.Fprintf(b, "%s: %s\n", title, strings.Join(parts, ", "))
}
