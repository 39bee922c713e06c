package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	urfave "github.com/urfave/cli/v2"

	"extraction-experiment/cmd/internal/ci"
	"extraction-experiment/cmd/internal/runs"
	"extraction-experiment/cmd/internal/settings"
	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/textutil"
)

func baselineCommand(env cli.Env) *urfave.Command {
	return &urfave.Command{
		Name:      "baseline",
		Usage:     "say which run others are compared with: set RUN, show, clear",
		UsageText: "experiment baseline set RUN\nexperiment baseline show\nexperiment baseline clear --dataset NAME",
		ArgsUsage: "set RUN | show | clear",
		Description: "Writes " + ci.BaselineFile + " of this folder, which a repository keeps: a run for each dataset, as compare\n" +
			"@baseline CANDIDATE and check find it. RUN is a name, a file, langfuse:NAME, or a rule: 'latest branch=main'.",
		Flags:  []urfave.Flag{settings.DatasetFlag()},
		Action: func(c *urfave.Context) error { return baselineAction(c, env) },
	}
}

func baselineAction(c *urfave.Context, env cli.Env) (err error) {
	ctx := c.Context
	known, err := ci.ReadBaselines(ctx)
	if err != nil {
		return err
	}
	dataset := c.String("dataset")
	switch words := c.Args().Slice(); {
	case len(words) == 2 && words[0] == "set":
		return setBaseline(ctx, env, known, dataset, words[1])
	case len(words) == 1 && words[0] == "show":
		return showBaselines(ctx, env, known, dataset)
	case len(words) == 1 && words[0] == "clear":
		if _, ok := known[dataset]; !ok {
			return cli.Usage("there is no baseline of dataset %q; --dataset is one of: %s", dataset, slices.Sorted(maps.Keys(known)))
		}
		delete(known, dataset)
		return ci.WriteBaselines(known)
	}
	return cli.Usage("baseline takes: set RUN, show, or clear --dataset NAME")
}

// setBaseline writes down a run that is there.
func setBaseline(ctx context.Context, env cli.Env, known map[string]string, dataset, word string) error {
	if dataset == "" {
		run, err := runs.Open(ctx, word, "")
		if err != nil || ci.IsRule(word) {
			return errors.Join(err, cli.Usage("add --dataset: of which dataset %q is the base is not known", word))
		}
		header, err := run.Header(ctx)
		if err = errors.Join(err, run.Close()); err != nil {
			return err
		}
		dataset = header.Dataset.Name
	}
	if word == ci.Baseline {
		return cli.Usage("%s is no run", word)
	}
	base, err := ci.Finder{Getenv: env.Getenv, Dataset: dataset}.Find(ctx, word)
	if err != nil {
		return err
	}
	known[dataset] = word
	if err := ci.WriteBaselines(known); err != nil {
		return err
	}
	_, err = fmt.Fprintf(env.Stdout, "%s: %s (%s)\n", textutil.Line(dataset), textutil.Line(word), textutil.Line(base.Age(time.Now())))
	return cli.Written(err)
}

// showBaselines lists the baselines with the run that each is now.
func showBaselines(ctx context.Context, env cli.Env, known map[string]string, only string) error {
	var problems []error
	if len(known) == 0 {
		fmt.Fprintf(env.Stderr, "no baseline is set: experiment baseline set RUN\n")
	}
	for _, dataset := range slices.Sorted(maps.Keys(known)) {
		if only != "" && only != dataset {
			continue
		}
		base, err := ci.Finder{Getenv: env.Getenv, Dataset: dataset}.Find(ctx, known[dataset])
		if err != nil {
			problems = append(problems, fmt.Errorf("%s: %w", dataset, err))
			continue
		}
		_, err = fmt.Fprintf(env.Stdout, "%s: %s → %s (%s)\n", textutil.Line(dataset), textutil.Line(known[dataset]),
			textutil.Line(base.Header.Name), textutil.Line(base.Age(time.Now())))
		problems = append(problems, cli.Written(err))
	}
	return errors.Join(problems...)
}
