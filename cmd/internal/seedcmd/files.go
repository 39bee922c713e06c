package seedcmd

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"text/tabwriter"

	urfave "github.com/urfave/cli/v2"

	"extraction-experiment/cmd/internal/connect"
	"extraction-experiment/dataset"
	"extraction-experiment/harness/answers"
	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/textutil"
	"extraction-experiment/langfuse"
	"extraction-experiment/report"
	"extraction-experiment/seed"
)

// config reads what the flags say about every way of seeding.
func config(c *urfave.Context) (seed.Config, error) {
	schemas, errSchemas := readNamed(c, "schema", "the schemas", seed.ParseSchemas)
	redaction, errRedaction := readNamed(c, "redact", "the patterns", seed.ParseRedaction)
	return seed.Config{
		Dataset: c.String("dataset"), Description: c.String("description"), Schemas: schemas, IDPrefix: c.String("id-prefix"),
		Redaction: redaction, Foreign: question, KeepGoing: c.Bool("keep-going"), DryRun: c.Bool("dry-run"),
	}, errors.Join(errSchemas, errRedaction)
}

// fileAction creates and updates the items of a file.
func fileAction(c *urfave.Context, env cli.Env) error {
	cfg, errConfig := config(c)
	items, errItems := itemsOf(c, c.String("file"))
	if err := errors.Join(errConfig, errItems); err != nil {
		return err
	}
	return connected(c, env, func(lf *connect.Langfuse) error {
		end := progress(env, &cfg)
		result, err := seed.File(c.Context, lf.Client, items, cfg)
		end()
		warn(env, result.Report.Warnings, "seed --check FILE --json")
		if err != nil && result.Done() == 0 { // it did not come to that
			return err
		}
		if err == nil {
			warnUnused(env, result.Redacted)
		}
		if c.Bool("json") {
			return errors.Join(cli.Written(report.JSON(env.Stdout, result, false)), result.Err(), err)
		}
		_, printed := io.WriteString(env.Stdout, summary(c, "", result)+counted("redacted", result.Redacted))
		return errors.Join(cli.Written(printed), result.Err(), err)
	})
}

// checkAction checks a file of anyone's and sends nothing.
func checkAction(c *urfave.Context, env cli.Env) error {
	path := c.String("check")
	cfg, errConfig := config(c)
	items, errItems := itemsOf(c, path)
	if err := errors.Join(errConfig, errItems); err != nil {
		return err
	}
	found, err := seed.Check(items, cfg)
	if err != nil {
		return err
	}
	if c.Bool("json") {
		return errors.Join(cli.Written(report.JSON(env.Stdout, found, false)), found.Err())
	}
	warn(env, found.Warnings, "seed --check FILE --json")
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
	return connected(c, env, func(lf *connect.Langfuse) error {
		n := 0
		export := func(f io.Writer) error {
			w, err := dataset.NewWriter(f, format)
			if err != nil {
				return err
			}
			n, err = seed.Export(c.Context, lf.Client, c.String("dataset"), w)
			return errors.Join(err, w.Close())
		}
		if path == "-" {
			return cli.Written(export(env.Stdout))
		}
		if err := cli.WriteFile(path, export); err != nil {
			return err
		}
		_, err := fmt.Fprintf(env.Stdout, "%d items of %s in %s\n", n, c.String("dataset"), path)
		return cli.Written(err)
	})
}

// archiveAction takes items out of a dataset's listing.
func archiveAction(c *urfave.Context, env cli.Env) error {
	return connected(c, env, func(lf *connect.Langfuse) error {
		changes, err := seed.Archive(c.Context, lf.Client, c.String("dataset"), c.StringSlice("archive"))
		if c.Bool("json") {
			return errors.Join(err, cli.Written(report.JSON(env.Stdout, changes, false)))
		}
		for _, change := range changes {
			_, printed := fmt.Fprintf(env.Stdout, "%s: %s\n", change.Item, change.Action)
			err = errors.Join(err, cli.Written(printed))
		}
		return err
	})
}

// listAction lists the datasets.
func listAction(c *urfave.Context, env cli.Env) error {
	return connected(c, env, func(lf *connect.Langfuse) error {
		list := []langfuse.Dataset{}
		table := tabwriter.NewWriter(env.Stdout, 0, 0, 2, ' ', 0)
		for d, err := range lf.Client.ListDatasets(c.Context) {
			if err != nil {
				return err
			}
			list = append(list, d)
			fmt.Fprintf(table, "%s\t%s\n", textutil.Line(d.Name), textutil.Line(d.Description))
		}
		if c.Bool("json") {
			return cli.Written(report.JSON(env.Stdout, list, false))
		}
		return cli.Written(table.Flush()) // Flush returns the error of every write
	})
}

// itemsOf gives the items of a file. A JSONL file of questions, as answers run
// takes it, is read as that: its first line is an item that has no input, and the
// question among the keys that belong to no item.
func itemsOf(c *urfave.Context, path string) (iter.Seq2[dataset.Located, error], error) {
	format, err := dataset.FormatOf(path)
	if err != nil {
		return nil, err
	}
	items := dataset.ReadFile(c.Context, path)
	for first, err := range items {
		var syntax *dataset.SyntaxError
		if err != nil && !errors.As(err, &syntax) {
			return nil, cli.WithCode(cli.ExitUsage, err)
		}
		if err != nil || format != dataset.JSONL || first.Input != nil || !hasQuestion(first.Metadata) {
			break
		}
		questions, err := answers.ReadFile(c.Context, path)
		return func(yield func(dataset.Located, error) bool) {
			for _, item := range questions.Items {
				if !yield(dataset.Located{Item: item, File: path}, nil) {
					return
				}
			}
		}, err
	}
	return items, nil
}

// hasQuestion reports whether an object has a question, and none of the keys
// that stand for something else.
func hasQuestion(raw []byte, others ...string) bool {
	var values map[string]json.RawMessage
	if json.Unmarshal(raw, &values) != nil {
		return false
	}
	for _, key := range others {
		if _, there := values[key]; there {
			return false
		}
	}
	_, asks := values["question"]
	return asks
}

// question says of an item whether it is a question, and what is odd or wrong
// with it then.
func question(item dataset.Item) (is bool, odd []string, err error) {
	if !hasQuestion(item.Input, "document_text", "text") {
		return false, nil, nil
	}
	asked, err := answers.ReadItem(item)
	return true, asked.Odd(), err
}
