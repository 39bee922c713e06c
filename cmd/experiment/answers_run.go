package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	urfave "github.com/urfave/cli/v2"

	"extraction-experiment/cmd/internal/connect"
	"extraction-experiment/harness/answers"
	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/printable"
)

func runAnswersAction(c *urfave.Context, env cli.Env, values settings) error {
	cfg, err := values.answersConfig()
	if err != nil {
		return cli.Errorf(cli.ExitUsage, "%w", err)
	}
	log, err := newLog(env.Stderr, values.text("log-level"), values.text("log-format"))
	if err != nil {
		return err
	}
	_, err = runAnswers(c.Context, env, cfg, log)
	return err
}

// runAnswers carries a run of answers from the connection to the summary, and
// returns where its file is, "" if there is none.
func runAnswers(ctx context.Context, env cli.Env, cfg answersConfig, log *slog.Logger) (path string, err error) {
	ctx, signals := watchSignals(ctx, env.Stderr)
	defer signals.stop()
	lf, err := connect.Open(ctx, cfg.getenv(env.Getenv))
	if err != nil {
		return "", signals.interrupted(err)
	}
	defer func() { err = errors.Join(err, lf.Close()) }()
	if !cfg.quiet {
		fmt.Fprintln(env.Stderr, lf.Describe())
	}
	j, err := openAnswers(ctx, lf, cfg, env.Getenv)
	if err != nil {
		return "", signals.interrupted(err)
	}
	for _, note := range j.system.notes {
		fmt.Fprintln(env.Stderr, "note: "+printable.Line(note))
	}
	view := newProgress(env, cfg.quiet, answers.Primary, log)
	ran, published := j.carryOut(ctx, signals, view, log)
	view.close()
	verified := j.verify(ctx, env, ran, published)
	return j.path, errors.Join(j.finish(env, ran, published), verified)
}
