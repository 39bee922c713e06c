package gold

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/rogpeppe/go-internal/diff"
	urfave "github.com/urfave/cli/v2"

	"extraction-experiment/cmd/internal/runs"
	"extraction-experiment/cmd/internal/settings"
	"extraction-experiment/dataset"
	"extraction-experiment/extraction"
	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/files"
	"extraction-experiment/internal/textutil"
	"extraction-experiment/report"
	"extraction-experiment/seed"
)

// traceAction makes items from production traces, or corrects items by traces of experiments.
func traceAction(c *urfave.Context, env cli.Env) error {
	selection, errSelection := readSelection(c, env)
	cfg, errConfig := traceConfig(c)
	if err := errors.Join(errSelection, errConfig); err != nil {
		return err
	}
	return withLangfuse(c, env, func(lf *settings.Langfuse) error {
		path := c.String("out")
		if path == "" {
			return seedTraces(c, env, lf, selection, cfg)
		}
		var refused error
		err := writeItems(path, func(w *dataset.Writer) error {
			cfg.Out = w
			err := seedTraces(c, env, lf, selection, cfg)
			if cli.ExitCode(err) == cli.ExitFailures { // the file has the other items
				refused, err = err, nil
			}
			return err
		})
		return errors.Join(err, refused)
	})
}

// readSelection reads the flags and ids that select traces. The error joins all problems.
func readSelection(c *urfave.Context, env cli.Env) (seed.Selection, error) {
	s := seed.Selection{
		Tags: c.StringSlice("tag"), Name: c.String("name"), Environment: c.String("environment"), Queue: cmp.Or(c.String("queue"), c.String("corrections")),
		Limit: c.Int("limit"), Sample: c.Int("sample"), Seed: c.Uint64("seed"), Stratify: c.String("stratify"),
	}
	var problems textutil.Problems
	for _, arg := range append(c.Args().Slice(), c.StringSlice("trace-id")...) {
		if _, err := dataset.FormatOf(arg); err == nil {
			problems.Join(cli.Usage("%s is the name of a file: items come from --file %[1]s, ids of traces "+
				"from --from-file", arg))
		}
		for id := range strings.SplitSeq(arg, ",") {
			s.IDs = append(s.IDs, strings.TrimSpace(id))
		}
	}
	if path := c.String("from-file"); path != "" {
		ids, err := readIDs(c, env, path)
		problems.Join(err)
		s.IDs = append(s.IDs, ids...)
	}
	for _, text := range c.StringSlice("score") {
		rule, err := seed.ParseScoreRule(text)
		problems.Join(err)
		s.Scores = append(s.Scores, rule)
	}
	var errSince, errUntil error
	now := time.Now().UTC()
	s.Since, errSince = readTime("since", c.String("since"), now)
	s.Until, errUntil = readTime("until", c.String("until"), now)
	problems.Join(errSince, errUntil)
	return s, errors.Join(problems...)
}

// readIDs reads one id per line. It ignores empty lines and lines that begin with #.
func readIDs(c *urfave.Context, env cli.Env, path string) (ids []string, err error) {
	var raw []byte
	if path == "-" {
		raw, err = io.ReadAll(io.LimitReader(files.ContextReader(c.Context, env.Stdin), files.MaxText+1))
	} else {
		raw, err = files.Read(c.Context, path, files.MaxText)
	}
	if len(raw) > files.MaxText {
		err = fmt.Errorf("more than %d MB are not a list of ids", files.MaxText>>20)
	}
	if err != nil {
		return nil, cli.Usage("reading trace ids: %w", err)
	}
	for _, line := range dataset.Lines(raw) {
		if line[0] != '#' {
			ids = append(ids, string(line))
		}
	}
	if len(ids) == 0 {
		return nil, cli.Usage("%s names no trace", path)
	}
	return ids, nil
}

// readTime parses a time, a date (the beginning of the day in UTC), or an age; "" gives the zero
// time. The error names the flag and has exit code 64.
func readTime(flag, text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	for _, layout := range []string{time.RFC3339Nano, time.DateOnly} {
		if t, err := time.Parse(layout, text); err == nil {
			return t.UTC(), nil
		}
	}
	if age, err := runs.ParseAge(flag, text); err == nil {
		return now.Add(-age), nil
	}
	return time.Time{}, cli.Usage("--%s: %q is neither a time (2026-11-21, 2026-11-21T10:00:00Z) nor how long ago (7d, 12h)",
		flag, text)
}

// traceConfig reads the flags that configure seeding from traces.
func traceConfig(c *urfave.Context) (seed.TraceConfig, error) {
	base, err := seedConfig(c)
	mapping, errMapping := settings.ReadFile(c.Context, c.String("mapping"), "the mapping", seed.ParseMapping)
	problems := textutil.Problems{err, errMapping}
	for _, text := range c.StringSlice("accept-score") {
		rule, err := seed.ParseScoreRule(text)
		problems.Join(err)
		mapping.Evidence.Scores = append(mapping.Evidence.Scores, rule)
	}
	mapping.Evidence.Tags = append(mapping.Evidence.Tags, c.StringSlice("accept-tag")...)
	problems.Add(c.Bool("diff") && !c.Bool("dry-run"), "--diff is a form of --dry-run: give both")
	if path := c.String("out"); path != "" {
		problems.Join(runs.CanWrite(path, c.String("from-file"), c.String("mapping"), c.String("redact"), c.String("schema")))
		problems.Add(c.Bool("dry-run"), "--out writes no item to Langfuse anyway: leave --dry-run away")
	}
	base.Foreign = nil
	return seed.TraceConfig{
		Config: base, Mapping: mapping, Corrections: c.IsSet("corrections"), AcceptUnvalidated: c.Bool("accept-unvalidated"), Before: c.Bool("diff"),
	}, cli.WithCode(cli.ExitUsage, errors.Join(problems...))
}

// seedTraces seeds from traces and prints the result.
func seedTraces(c *urfave.Context, env cli.Env, lf *settings.Langfuse, selection seed.Selection, cfg seed.TraceConfig) error {
	if cfg.AcceptUnvalidated {
		fmt.Fprintln(env.Stderr, "warning: --accept-unvalidated: items become gold that nobody is known to have checked; their metadata says so")
	}
	out := bufio.NewWriter(env.Stdout) // keeps the first error
	p := &preview{c: c, out: out, items: []seed.Seeded{}, table: tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)}
	if c.Bool("dry-run") {
		cfg.Show = p.show
	}
	status := runs.NewStatus(env)
	cfg.Progress = status.Say
	result, err := seed.FromTraces(c.Context, lf.Client, lf.Server.Capabilities, selection, cfg)
	status.End()
	warn(env, result.Report.Warnings, "--json")
	if err != nil && result.Done() == 0 {
		return err // nothing was seeded
	}
	if result.Selected > result.Refused-result.RefusedQueueItems {
		warnUnused(env, result.Redacted)
	}
	if result.Selected == 0 && result.Refused == 0 {
		fmt.Fprintln(env.Stderr, "warning: no trace matches the selection")
	}
	return errors.Join(p.close(env, result), result.Err(), err)
}

// preview prints each trace of a dry run, and at the end the result.
type preview struct {
	c     *urfave.Context
	out   *bufio.Writer
	table *tabwriter.Writer
	items []seed.Seeded // for --json
	shown int
}

// show adds one trace.
func (p *preview) show(s seed.Seeded) {
	switch {
	case p.c.Bool("json"):
		p.items = append(p.items, s)
	case p.c.Bool("diff"):
		p.diff(s)
	default:
		p.row(s)
	}
	p.shown++
}

// close prints the summary, or with --json the result.
func (p *preview) close(env cli.Env, r seed.TraceResult) error {
	c := p.c
	var value any = r
	if c.Bool("dry-run") {
		value = struct {
			Items  []seed.Seeded    `json:"items"`
			Result seed.TraceResult `json:"result"`
		}{p.items, r}
	}
	from := " from " + textutil.Counted(r.Selected, "trace")
	if n := r.Selected + r.RefusedQueueItems - r.Done(); n > 0 { // an error ended the work
		from += fmt.Sprintf(" (%d not looked at)", n)
	}
	text := summary(c, from, r.Result)
	if path := c.String("out"); path != "" {
		text = textutil.Countf("%s of %s in %s, %d refused\n",
			textutil.Counted(r.Written, "item"), textutil.Counted(r.Selected, "trace"), path, r.Refused)
	}
	text += countLine("evidence", r.Evidence) + countLine("redacted", r.Redacted)
	_ = p.table.Flush() // the writer keeps the error
	return errors.Join(cli.WriteError(p.out.Flush()), runs.PrintText(env, c.Bool("json"), value, text))
}

// row prints a line of the table.
func (p *preview) row(s seed.Seeded) {
	if p.shown == 0 {
		fmt.Fprintln(p.table, "ACTION\tTRACE\tEVIDENCE\tENTITIES\tRELATIONSHIPS\tDOCUMENT")
	}
	evidence := cmp.Or(string(s.Evidence.Kind), "-")
	if s.Evidence.Author != "" {
		evidence += " by " + s.Evidence.Author
	}
	entities, relationships, document := "-", "-", s.Reason
	if s.Content != nil {
		if gold, _, err := extraction.DecodeExtraction(s.Content.Expected); err == nil {
			entities, relationships = length(gold.Entities), length(gold.Relationships)
		}
		if d, _, err := extraction.DecodeDocument(s.Content.Input); err == nil && s.Reason == "" {
			document = textutil.Brief(textutil.Cut(d.Text, 2000), 60)
		}
	}
	cells := []string{string(s.Action), s.Trace, evidence, entities, relationships, document}
	fmt.Fprintln(p.table, strings.Join(cli.Each(cells, textutil.Line), "\t"))
}

func length[T any](list []T) string {
	if list == nil {
		return "-" // not annotated
	}
	return strconv.Itoa(len(list))
}

// diff prints how an item changes. It does not mention unchanged items.
func (p *preview) diff(s seed.Seeded) {
	switch {
	case s.Action == seed.Unchanged:
	case s.Content == nil || s.Reason != "":
		fmt.Fprintf(p.out, "# trace %s: %s: %s\n", textutil.Line(s.Trace), s.Action, textutil.Line(s.Reason))
	default:
		fmt.Fprintf(p.out, "# trace %s: %s\n", textutil.Line(s.Trace), s.Action)
		changes := diff.Diff("there/"+s.Item, lines(s.Before), "new/"+s.Item, lines(s.Content))
		_, changes, _ = bytes.Cut(changes, []byte("\n")) // a line that repeats both names
		p.out.WriteString(textutil.Block(string(changes)))
	}
}

// lines returns the fields of an item as JSON, with one value on each line, or nil without an item.
func lines(item *dataset.Item) []byte {
	if item == nil {
		return nil
	}
	raw, _ := textutil.MarshalJSON(item) // the values were decoded from JSON
	raw, _ = dataset.Canonical(raw)
	return []byte(report.Indented(raw) + "\n")
}
