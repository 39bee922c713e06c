package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	urfave "github.com/urfave/cli/v2"

	"extraction-experiment/cmd/internal/connect"
	"extraction-experiment/dataset"
	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/printable"
	"extraction-experiment/langfuse"
	"extraction-experiment/report"
	"extraction-experiment/seed"
)

// fileAction creates and updates the items of a file.
func fileAction(c *urfave.Context, env cli.Env) (err error) {
	path := c.String("file")
	schemas, err := readSchemas(c.Context, c.String("schema"))
	if err != nil {
		return err
	}
	if err := readable(path); err != nil {
		return err
	}
	redaction, err := readNamed(c.Context, c.String("redact"), "the patterns", seed.ParseRedaction)
	if err != nil {
		return err
	}
	items, err := itemsOf(c.Context, path)
	if err != nil {
		return err
	}
	var redacted map[string]int
	if redaction != nil {
		redacted = redaction.Counts()
		items = redaction.Items(items, redacted)
	}
	lf, err := open(c, env)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lf.Close()) }()
	bar := newBar(env, c.Bool("quiet"))
	result, err := seed.File(c.Context, lf.Client, items, seed.Config{
		Dataset: c.String("dataset"), Description: c.String("description"), Schemas: schemas,
		IDPrefix: c.String("id-prefix"), Vocabulary: vocabulary(), Foreign: question,
		KeepGoing: c.Bool("keep-going"), DryRun: c.Bool("dry-run"), Progress: bar.progress,
	})
	bar.close()
	warn(env, c.Bool("quiet"), result.Report.Warnings, "seed --check FILE --json")
	if err != nil {
		if result.Created+result.Updated+result.Unchanged+result.Refused == 0 { // it did not come to that
			return err
		}
		return errors.Join(printFile(c, env, fileResult{result, redacted}), result.Err(), err)
	}
	if !c.Bool("quiet") {
		warnUnused(env, redacted)
	}
	return errors.Join(printFile(c, env, fileResult{result, redacted}), result.Err())
}

// fileResult is what became of a file.
type fileResult struct {
	seed.Result
	Redacted map[string]int `json:"redacted,omitempty"`
}

func printFile(c *urfave.Context, env cli.Env, r fileResult) error {
	if c.Bool("json") {
		return cli.Written(report.JSON(env.Stdout, r, false))
	}
	var b strings.Builder
	verb := "seeded"
	if c.Bool("dry-run") {
		verb = "would seed"
	}
	fmt.Fprintf(&b, "%s dataset %s: %d created, %d updated, %d unchanged, %d refused\n",
		verb, c.String("dataset"), r.Created, r.Updated, r.Unchanged, r.Refused)
	counts(&b, "redacted", r.Redacted)
	_, err := io.WriteString(env.Stdout, b.String())
	return cli.Written(err)
}

// checkAction checks a file of anyone's and sends nothing.
func checkAction(c *urfave.Context, env cli.Env) error {
	schemas, err := readSchemas(c.Context, c.String("schema"))
	if err != nil {
		return err
	}
	path := c.String("check")
	if err := readable(path); err != nil {
		return err
	}
	items, err := itemsOf(c.Context, path)
	if err != nil {
		return err
	}
	found, err := seed.Check(items, seed.CheckConfig{
		Dataset: c.String("dataset"), IDPrefix: c.String("id-prefix"), Schemas: schemas, Vocabulary: vocabulary(), Foreign: question,
	})
	if err != nil {
		return err
	}
	if c.Bool("json") {
		return errors.Join(cli.Written(report.JSON(env.Stdout, found, false)), found.Err())
	}
	warn(env, c.Bool("quiet"), found.Warnings, "seed --check FILE --json")
	_, err = fmt.Fprintf(env.Stdout, "%s: %d items, %d problems, %d warnings\n", path, found.Items, found.Problems.Total, found.Warnings.Total)
	return errors.Join(cli.Written(err), found.Err())
}

// exportAction writes the items of a dataset.
func exportAction(c *urfave.Context, env cli.Env) (err error) {
	path, format := c.String("export"), dataset.JSONL
	if path != "-" {
		if format, err = dataset.FormatOf(path); err != nil {
			return err
		}
	}
	lf, err := open(c, env)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lf.Close()) }()
	n := 0
	export := func(f io.Writer) error {
		w, err := dataset.NewWriter(f, format)
		if err != nil {
			return err
		}
		n, err = seed.Export(c.Context, lf.Client, c.String("dataset"), time.Time{}, w)
		return errors.Join(err, w.Close())
	}
	if path == "-" {
		return cli.Written(export(env.Stdout))
	}
	if err := cli.WriteFile(path, export); err != nil {
		return err
	}
	_, err = fmt.Fprintf(env.Stdout, "%d items of %s in %s\n", n, c.String("dataset"), path)
	return cli.Written(err)
}

// archiveAction takes items out of a dataset's listing.
func archiveAction(c *urfave.Context, env cli.Env) (err error) {
	lf, err := open(c, env)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lf.Close()) }()
	changes, err := seed.Archive(c.Context, lf.Client, c.String("dataset"), c.StringSlice("archive"))
	if c.Bool("json") {
		return errors.Join(err, cli.Written(report.JSON(env.Stdout, changes, false)))
	}
	for _, change := range changes {
		_, printed := fmt.Fprintf(env.Stdout, "%s: %s\n", change.Item, change.Action)
		err = errors.Join(err, cli.Written(printed))
	}
	return err
}

// listAction lists the datasets.
func listAction(c *urfave.Context, env cli.Env) (err error) {
	lf, err := open(c, env)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lf.Close()) }()
	if c.Bool("json") {
		return listJSON(c, env, lf)
	}
	table := tabwriter.NewWriter(env.Stdout, 0, 0, 2, ' ', 0)
	for d, err := range lf.Client.ListDatasets(c.Context) {
		if err != nil {
			return err
		}
		fmt.Fprintf(table, "%s\t%s\n", printable.Line(d.Name), printable.Line(d.Description))
	}
	return cli.Written(table.Flush()) // Flush returns the error of every write
}

func listJSON(c *urfave.Context, env cli.Env, lf *connect.Langfuse) error {
	list := []langfuse.Dataset{}
	for d, err := range lf.Client.ListDatasets(c.Context) {
		if err != nil {
			return err
		}
		list = append(list, d)
	}
	return cli.Written(report.JSON(env.Stdout, list, false))
}
