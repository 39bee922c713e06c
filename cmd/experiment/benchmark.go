package main

import (
	urfave "github.com/urfave/cli/v2"

	"extraction-experiment/internal/cli"
)

func answersBenchmarkTable() []setting { return answersSystemTable() }

func benchmarkAction(c *urfave.Context, env cli.Env, values settings) error { return nil }
