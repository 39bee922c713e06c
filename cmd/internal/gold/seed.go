package gold

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"maps"
	"os"
	"os/signal"
	"slices"
	"strings"
	"text/tabwriter"

	urfave "github.com/urfave/cli/v2"

	"extraction-experiment/cmd/internal/runs"
	"extraction-experiment/cmd/internal/settings"
	"extraction-experiment/dataset"
	"extraction-experiment/harness/answers"
	harness "extraction-experiment/harness/extraction"
	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/stats"
	"extraction-experiment/internal/textutil"
	"extraction-experiment/langfuse"
	"extraction-experiment/seed"
)

// Seed runs one command line of the program seed and returns the exit code.
func Seed(ctx context.Context, env cli.Env) int {
	command := SeedCommand(env)
	return settings.Run(ctx, env, &urfave.App{
		Name: command.Name, Usage: command.Usage, UsageText: seedUsage, Flags: command.Flags, Action: command.Action,
	})
}

// SeedCommand returns the command "experiment seed".
func SeedCommand(env cli.Env) *urfave.Command {
	return &urfave.Command{
		Name:      "seed",
		Usage:     "fill Langfuse datasets from files and from production traces",
		UsageText: strings.ReplaceAll(seedUsage, "seed --", "experiment seed --"),
		Flags:     append(fileFlags(), traceFlags()...),
		Action: func(c *urfave.Context) error {
			ctx, stop := signal.NotifyContext(c.Context, cli.EndSignals()...)
			defer stop()
			context.AfterFunc(ctx, stop) // the second signal ends the process
			c.Context = ctx
			err := seedAction(c, env)
			if ctx.Err() != nil && errors.Is(err, context.Canceled) {
				return cli.Errorf(cli.ExitInterrupted, "stopped; the same command continues: items that are already there are not written again")
			}
			return err
		},
	}
}

const seedUsage = `seed --dataset NAME --file items.jsonl|json|csv
seed --dataset NAME TRACE_ID…
seed --dataset NAME --queue QUEUE --since 7d
seed --dataset NAME --corrections QUEUE
seed --check items.jsonl
seed --dataset NAME --export items.jsonl
seed --dataset NAME --archive ID --archive ID
seed --list`

func fileFlags() []urfave.Flag {
	return []urfave.Flag{
		&urfave.StringFlag{Name: "dataset", Aliases: []string{"d"}, Usage: "`NAME` of the dataset"},
		&urfave.StringFlag{Name: "file", Aliases: []string{"f"}, Usage: "create and update the items in `FILE` (JSONL, JSON or CSV); they may be questions (docs/answers.md)"},
		&urfave.StringFlag{Name: "check", Usage: "check the items in `FILE`, and send nothing"},
		&urfave.StringFlag{Name: "export", Usage: "write the dataset's items to `FILE`, in the format of its extension; - is JSONL on standard output"},
		&urfave.StringSliceFlag{Name: "archive", Usage: "archive the item `ID`; may be repeated"},
		&urfave.BoolFlag{Name: "list", Aliases: []string{"l"}, Usage: "list the datasets"},
		&urfave.StringFlag{Name: "schema", Usage: "JSON Schemas of the dataset from `FILE`: {\"input\": …, \"expectedOutput\": …}"},
		&urfave.StringFlag{Name: "description", Usage: "describe the dataset with `TEXT`"},
		&urfave.StringFlag{Name: "id-prefix", Usage: "put `P` before every id"},
		&urfave.BoolFlag{Name: "keep-going", Usage: "seed the good items of a file that also has bad ones"},
		&urfave.BoolFlag{Name: "dry-run", Usage: "show what would be written, and write nothing"},
		settings.JSONFlag(),
		&urfave.BoolFlag{Name: "quiet", Aliases: []string{"q"}, Usage: "print no progress and no warnings"},
	}
}

// traceFlags returns the flags for seeding from traces.
func traceFlags() []urfave.Flag {
	return []urfave.Flag{
		&urfave.StringSliceFlag{Category: "Traces", Name: "trace-id", Usage: "seed from the trace `ID`; may be repeated, or several ids separated by commas"},
		&urfave.StringFlag{Category: "Traces", Name: "from-file", Usage: "seed from the trace ids in `FILE`, one a line; - is standard input"},
		&urfave.StringSliceFlag{Category: "Traces", Name: "tag", Usage: "seed from traces with the tag `T`; if repeated, with all of them"},
		&urfave.StringFlag{Category: "Traces", Name: "name", Usage: "seed from traces named `NAME`"},
		&urfave.StringFlag{Category: "Traces", Name: "environment", Usage: "seed from traces of the environment `E`"},
		&urfave.StringFlag{Category: "Traces", Name: "since", Usage: "seed from traces that began at `TIME` or later: 2026-11-21, 2026-11-21T10:00:00Z, or 7d or 12h ago"},
		&urfave.StringFlag{Category: "Traces", Name: "until", Usage: "seed from traces that began before `TIME`"},
		&urfave.StringFlag{Category: "Traces", Name: "queue", Usage: "seed from the completed items of the annotation queue `NAME`"},
		&urfave.StringFlag{Category: "Traces", Name: "corrections", Usage: "take corrections and confirmations of gold from the completed items of the annotation queue `NAME`, which are traces of experiments"},
		&urfave.StringSliceFlag{Category: "Traces", Name: "score", Usage: "seed from traces with a score such as `'NAME>=V'`; if repeated, with all of them"},
		&urfave.IntFlag{Category: "Traces", Name: "limit", DefaultText: "all",
			Usage: "take the first `N` traces: the newest, but in the server's order with only --queue or --score"},
		&urfave.IntFlag{Category: "Traces", Name: "sample", DefaultText: "all", Usage: "draw `N` of the traces at random"},
		&urfave.Uint64Flag{Category: "Traces", Name: "seed", Usage: "seed `S` of the draw", DefaultText: "0"},
		&urfave.StringFlag{Category: "Traces", Name: "stratify", Usage: "spread the sample over the values of `metadata.KEY`"},
		&urfave.StringFlag{Category: "Traces", Name: "mapping", Usage: "read from `FILE` where a trace has its document and gold (docs/seeding.md)"},
		&urfave.StringFlag{Category: "Traces", Name: "redact", Usage: "replace the patterns and fields in `FILE` before anything is sent (docs/seeding.md)"},
		&urfave.StringSliceFlag{Category: "Traces", Name: "accept-tag", Usage: "count a trace with the tag `T` as validated"},
		&urfave.StringSliceFlag{Category: "Traces", Name: "accept-score", Usage: "count a trace with a score such as `'NAME>=V'` as validated"},
		&urfave.BoolFlag{Category: "Traces", Name: "accept-unvalidated", Usage: "also seed from traces that nobody validated, and mark their items"},
		&urfave.StringFlag{Category: "Traces", Name: "out", Usage: "write the items of the traces to `FILE` instead of Langfuse"},
		&urfave.BoolFlag{Category: "Traces", Name: "diff", Usage: "with --dry-run: show how items differ from those in the dataset"},
	}
}

// job is one of the actions of the command.
type job struct {
	flag   string // the flag that selects the job
	action func(*urfave.Context, cli.Env) error
	flags  string // other flags that the job uses
}

// flagJobs are the jobs that a flag selects. Exactly one must be given.
var flagJobs = []job{
	{"file", fileAction, "schema description id-prefix keep-going dry-run redact"},
	{"check", checkAction, "schema id-prefix"},
	{"export", exportAction, ""},
	{"archive", archiveAction, ""},
	{"list", listAction, ""},
	{"corrections", traceAction, "mapping limit out dry-run diff"},
}

// selectionFlags are the flags that select traces.
var selectionFlags = []string{"trace-id", "from-file", "tag", "name", "environment", "since", "until", "queue", "score"}

func seedAction(c *urfave.Context, env cli.Env) error {
	var names []string
	var selected job
	for _, j := range flagJobs {
		if c.IsSet(j.flag) {
			names, selected = append(names, "--"+j.flag), j
		}
	}
	if c.Args().Present() || slices.ContainsFunc(selectionFlags, c.IsSet) {
		selected = job{"trace ids and what selects traces", traceAction, "schema description id-prefix dry-run"}
		for _, flag := range traceFlags() {
			selected.flags += " " + flag.Names()[0]
		}
		names = append(names, selected.flag)
	}
	switch {
	case len(names) > 1:
		return cli.Usage("%s cannot be used together", strings.Join(names, " and "))
	case len(names) == 0:
		return cli.Usage("nothing to do: give trace ids, a flag that selects traces (--%s), or one of --file, "+
			"--check, --export, --archive, --list, --corrections; --limit, --sample, --stratify and --mapping select "+
			"none (%s --help explains)", strings.Join(selectionFlags, ", --"), c.Command.HelpName)
	case c.String("dataset") == "" && selected.flag != "check" && selected.flag != "list":
		return cli.Usage("%s: --dataset NAME is needed", names[0])
	}
	if err := selected.checkFlags(c, names[0]); err != nil {
		return err
	}
	if c.Bool("quiet") {
		env.Stderr = io.Discard
	}
	return selected.action(c, env)
}

// checkFlags returns an error for flags that the job does not use, because a user may rely on an
// ignored flag. It also returns an error for flags with an empty value, for example from an unset
// variable in a script: without the value the command would select or send more than intended.
func (j job) checkFlags(c *urfave.Context, name string) error {
	known := append(strings.Fields(j.flags), j.flag, "dataset", "json", "quiet", "help", "version")
	var problems textutil.Problems
	for _, flag := range c.Command.Flags {
		if flag := flag.Names()[0]; c.IsSet(flag) {
			problems.Add(!slices.Contains(known, flag), "--%s means nothing with %s: leave it out", flag, name)
			mayBeEmpty := flag == "description" || flag == "id-prefix"
			words := append(c.StringSlice(flag), c.String(flag)) // String is never empty for other types
			isEmpty := slices.ContainsFunc(words, func(word string) bool { return strings.TrimSpace(word) == "" })
			problems.Add(isEmpty && !mayBeEmpty, "--%s has no value: leave it out, or say what is meant", flag)
			problems.Add(c.Value(flag) == 0, "--%s: 0 is not a number from 1 on", flag)
		}
	}
	return cli.WithCode(cli.ExitUsage, errors.Join(problems...))
}

// withLangfuse calls do with the Langfuse of the environment, and prints which Langfuse that is.
func withLangfuse(c *urfave.Context, env cli.Env, do func(*settings.Langfuse) error) error {
	lf, err := settings.Connect(c.Context, env)
	if err != nil {
		return err
	}
	fmt.Fprintln(env.Stderr, lf.Describe())
	return errors.Join(do(lf), lf.Close())
}

// warn prints the first warnings; list is the command or flag that lists a hundred.
func warn(env cli.Env, warnings seed.Findings, list string) {
	const shown = 10
	for _, w := range warnings.First[:min(shown, len(warnings.First))] {
		fmt.Fprintln(env.Stderr, "warning: "+w.String())
	}
	if warnings.Total > shown {
		fmt.Fprintf(env.Stderr, "warning: and %d more (%s lists the first hundred)\n", warnings.Total-shown, list)
	}
}

// warnUnused prints the patterns and fields that matched nothing.
func warnUnused(env cli.Env, redacted map[string]int) {
	for _, name := range slices.Sorted(maps.Keys(redacted)) {
		if redacted[name] == 0 {
			fmt.Fprintf(env.Stderr, "warning: --redact: %s took nothing out of any item: is it written as the items have it?\n", name)
		}
	}
}

// summary returns a line with the counts of the result.
func summary(c *urfave.Context, from string, r seed.Result) string {
	verb := "seeded"
	if c.Bool("dry-run") {
		verb = "would seed"
	}
	unanswered := ""
	if r.Unanswered > 0 {
		unanswered = fmt.Sprintf(", %d not answered", r.Unanswered)
	}
	return fmt.Sprintf("%s dataset %s%s: %d created, %d updated, %d unchanged, %d refused%s\n",
		verb, c.String("dataset"), from, r.Created, r.Updated, r.Unchanged, r.Refused, unanswered)
}

// replacedLines names the items of which a file replaces what people decided, or returns "".
func replacedLines(r seed.Result) (text string) {
	line := func(format string, ids []string) {
		if len(ids) > 0 {
			text += fmt.Sprintf(format, textutil.Counted(len(ids), "item"), textutil.First(cli.Each(ids, textutil.Line), 10))
		}
	}
	line("replaced: in %s what people reviewed, since the file lacks a review: %s\n  to keep reviews, begin with the file of "+
		"--export; to bring them back, seed --corrections QUEUE or the file of audit --corrected again\n", r.LostReviews)
	line("active again: %s, which somebody had archived: %s\n", r.Reactivated)
	return text
}

// countLine returns a line with the count of each key, or "".
func countLine[K ~string](title string, n map[K]int) string {
	if len(n) == 0 {
		return ""
	}
	parts := cli.Each(slices.Sorted(maps.Keys(n)), func(key K) string { return fmt.Sprintf("%d %s", n[key], key) })
	return fmt.Sprintf("%s: %s\n", title, strings.Join(parts, ", "))
}

// seedConfig reads the flags that all ways of seeding share.
func seedConfig(c *urfave.Context) (seed.Config, error) {
	schemas, errSchemas := settings.ReadFile(c.Context, c.String("schema"), "the schemas", seed.ParseSchemas)
	redaction, errRedaction := settings.ReadFile(c.Context, c.String("redact"), "the patterns", seed.ParseRedaction)
	return seed.Config{
		Dataset: c.String("dataset"), Description: c.String("description"), Schemas: schemas, IDPrefix: c.String("id-prefix"),
		Redaction: redaction, Foreign: foreignQuestion, KeepGoing: c.Bool("keep-going"), DryRun: c.Bool("dry-run"),
	}, errors.Join(errSchemas, errRedaction)
}

// fileAction creates and updates the items of a file.
func fileAction(c *urfave.Context, env cli.Env) error {
	cfg, errConfig := seedConfig(c)
	items, errItems := readItems(c, c.String("file"))
	if err := errors.Join(errConfig, errItems); err != nil {
		return err
	}
	return withLangfuse(c, env, func(lf *settings.Langfuse) error {
		status := runs.NewStatus(env)
		cfg.Progress = status.Say
		result, err := seed.File(c.Context, lf.Client, items, cfg)
		status.End()
		warn(env, result.Report.Warnings, "experiment seed --check FILE --json")
		if err != nil && result.Done() == 0 { // nothing was seeded
			return err
		}
		if err == nil {
			warnUnused(env, result.Redacted)
		}
		printed := runs.PrintText(env, c.Bool("json"), result,
			summary(c, "", result)+replacedLines(result)+countLine("redacted", result.Redacted))
		return errors.Join(printed, result.Err(), err)
	})
}

// checkAction checks a file of items and sends nothing.
func checkAction(c *urfave.Context, env cli.Env) error {
	path := c.String("check")
	cfg, errConfig := seedConfig(c)
	items, errItems := readItems(c, path)
	if err := errors.Join(errConfig, errItems); err != nil {
		return err
	}
	found, err := seed.Check(items, cfg)
	if err != nil {
		return err
	}
	if !c.Bool("json") {
		warn(env, found.Warnings, "experiment seed --check FILE --json")
	}
	text := fmt.Sprintf("%s: %s, %s, %s\n", path, textutil.Counted(found.Items, "item"),
		textutil.Counted(found.Problems.Total, "problem"), textutil.Counted(found.Warnings.Total, "warning"))
	return errors.Join(runs.PrintText(env, c.Bool("json"), found, text), found.Err())
}

// exportAction writes the items of a dataset to a file or standard output.
func exportAction(c *urfave.Context, env cli.Env) error {
	path := c.String("export")
	return withLangfuse(c, env, func(lf *settings.Langfuse) error {
		n := 0
		export := func(w *dataset.Writer) (err error) {
			n, err = seed.Export(c.Context, lf.Client, c.String("dataset"), w)
			return err
		}
		if path == "-" {
			return cli.WriteError(fill(env.Stdout, dataset.JSONL, export))
		}
		if err := writeItems(path, export); err != nil {
			return err
		}
		_, err := fmt.Fprintf(env.Stdout, "%d items of %s in %s\n", n, c.String("dataset"), path)
		return cli.WriteError(err)
	})
}

// writeItems calls write to fill a file of items, in the format of its extension. It replaces an
// existing file only after write succeeded.
func writeItems(path string, write func(*dataset.Writer) error) error {
	format, err := dataset.FormatOf(path)
	if err := errors.Join(err, runs.CanWrite(path)); err != nil {
		return err
	}
	return cli.WriteFile(path, func(f io.Writer) error { return fill(f, format, write) })
}

func fill(to io.Writer, format dataset.Format, write func(*dataset.Writer) error) error {
	w, err := dataset.NewWriter(to, format)
	if err != nil {
		return err
	}
	return errors.Join(write(w), w.Close())
}

// archiveAction archives items of a dataset.
func archiveAction(c *urfave.Context, env cli.Env) error {
	return withLangfuse(c, env, func(lf *settings.Langfuse) error {
		changes, err := seed.Archive(c.Context, lf.Client, c.String("dataset"), c.StringSlice("archive"))
		lines := cli.Each(changes, func(one seed.Change) string { return fmt.Sprintf("%s: %s\n", one.Item, one.Action) })
		return errors.Join(err, runs.PrintText(env, c.Bool("json"), changes, strings.Join(lines, "")))
	})
}

// listAction lists the datasets.
func listAction(c *urfave.Context, env cli.Env) error {
	return withLangfuse(c, env, func(lf *settings.Langfuse) error {
		list := []langfuse.Dataset{}
		var text strings.Builder
		table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
		for d, err := range lf.Client.ListDatasets(c.Context) {
			if err != nil {
				return err
			}
			list = append(list, d)
			fmt.Fprintf(table, "%s\t%s\n", textutil.Line(d.Name), textutil.Line(d.Description))
		}
		return errors.Join(table.Flush(), runs.PrintText(env, c.Bool("json"), list, text.String()))
	})
}

// readItems returns the items of a file. A JSONL file of questions, as answers run takes it, is
// read as questions: its first line is an item without input whose metadata are a question.
func readItems(c *urfave.Context, path string) (iter.Seq2[dataset.Located, error], error) {
	format, err := dataset.FormatOf(path)
	if err != nil {
		return nil, err
	}
	if info, err := os.Stat(path); err == nil && info.Mode().Type() == fs.ModeNamedPipe {
		return nil, cli.Usage("%s is a pipe, and its items are read more than once: write them to a file first", path)
	}
	items := dataset.ReadFile(c.Context, path)
	for first, err := range items {
		_, isSyntax := errors.AsType[*dataset.SyntaxError](err)
		if err != nil && !isSyntax {
			return nil, cli.WithCode(cli.ExitUsage, err)
		}
		if err != nil || format != dataset.JSONL || first.Input != nil || !harness.IsQuestion(first.Metadata) {
			break
		}
		questions, err := answers.ReadFile(c.Context, path)
		return stats.Map(stats.Values(questions.Items), func(item dataset.Item) dataset.Located {
			return dataset.Located{Item: item, File: path}
		}), err
	}
	return items, nil
}

// foreignQuestion reports whether an item is a question, and if so its oddities and errors.
func foreignQuestion(item dataset.Item) (foreign bool, warnings []string, err error) {
	if !harness.IsQuestion(item.Input) {
		return false, nil, nil
	}
	parsed, err := answers.ReadItem(item)
	return true, parsed.Warnings(), err
}
