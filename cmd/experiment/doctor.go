package main

import (
	urfave "github.com/urfave/cli/v2"

	"extraction-experiment/cmd/internal/connect"
	"extraction-experiment/cmd/internal/settings"
	"extraction-experiment/cmd/internal/system"
	"extraction-experiment/internal/cli"
)

func doctorCommand(env cli.Env) *urfave.Command {
	return &urfave.Command{
		Name:      "doctor",
		Usage:     "look at keys, Langfuse, model and folder, and say what to do about what is wrong",
		UsageText: "experiment doctor [--model MODEL] [--score-configs] [--json]",
		Flags: []urfave.Flag{
			&urfave.StringFlag{Name: "model", Aliases: []string{"m"}, Usage: "send one short request to `MODEL`, which may cost a little"},
			&urfave.BoolFlag{Name: "score-configs", Usage: "make the score configurations that people who annotate choose from, where Langfuse has none of that name", DisableDefaultText: true},
			connect.ModeFlag(),
			settings.JSONFlag(),
		},
		Action: func(c *urfave.Context) error {
			if err := settings.NoWords(c); err != nil {
				return err
			}
			getenv, err := connect.FlagMode(c, env.Getenv)
			if err != nil {
				return err
			}
			env.Getenv = getenv
			return system.Doctor(c.Context, env, system.DoctorConfig{Model: c.String("model"), ScoreConfigs: c.Bool("score-configs"), JSON: c.Bool("json")})
		},
	}
}
