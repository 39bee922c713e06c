package main

import (
	"context"

	urfave "github.com/urfave/cli/v2"

	"extraction-experiment/harness/answers"
	"extraction-experiment/internal/cli"
)

func runAnswersAction(c *urfave.Context, env cli.Env, values settings) error {
	cfg, err := values.answersConfig()
	if err != nil {
		return cli.Usage("%w", err)
	}
	log, err := newLog(env.Stderr, values.text("log-level"), values.text("log-format"))
	if err != nil {
		return err
	}
	return atWorkbench(c.Context, env, cfg.runConfig, log, nil, func(ctx context.Context, b workbench) error {
		_, err := b.runAnswers(ctx, cfg)
		return err
	})
}

// runAnswers carries one run of answers from its beginning to the summary, and
// returns where its file is, "" if there is none.
func (b workbench) runAnswers(ctx context.Context, cfg answersConfig) (path string, err error) {
	j, err := openAnswers(ctx, b.lf, cfg, b.env.Getenv)
	if err != nil {
		return "", b.signals.interrupted(err)
	}
	return j.path, b.complete(ctx, j, answers.Primary)
}
