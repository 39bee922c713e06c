package main

import (
	"context"
	"errors"
	"io"
	"slices"
	"time"

	urfave "github.com/urfave/cli/v2"

	"extraction-experiment/cmd/internal/connect"
	"extraction-experiment/cmd/internal/runs"
	"extraction-experiment/cmd/internal/settings"
	"extraction-experiment/cmd/internal/system"
	"extraction-experiment/internal/cli"
	"extraction-experiment/langfuse"
)

func promptsCommand(env cli.Env) *urfave.Command {
	// in connects to Langfuse, and prints what is done there: a text, or a value as JSON.
	in := func(c *urfave.Context, do func(context.Context, *langfuse.Client) (string, any, error)) (err error) {
		lf, err := connect.Open(c.Context, env.Getenv)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, lf.Close()) }()
		text, value, err := do(c.Context, lf.Client)
		if err != nil {
			return err
		}
		if c.Bool("json") {
			return runs.PrintJSON(env, value)
		}
		_, err = io.WriteString(env.Stdout, text)
		return cli.Written(err)
	}
	actions := []settings.Action{
		{Name: "list", Usage: "experiment prompts list [--json]", Flags: []string{"json"},
			Run: func(c *urfave.Context, _ []string) error {
				return in(c, func(ctx context.Context, client *langfuse.Client) (string, any, error) {
					list, err := system.ListPrompts(ctx, client)
					return system.PromptTable(list, time.Local), list, err
				})
			}},
		{Name: "show", Usage: "experiment prompts show NAME [--prompt-label L | --prompt-version N] [--json]", Least: 1, Most: 1,
			Flags: []string{"json", "prompt-label", "prompt-version"},
			Run: func(c *urfave.Context, words []string) error {
				ref, err := shownPrompt(c, words[0])
				if err != nil {
					return err
				}
				return in(c, func(ctx context.Context, client *langfuse.Client) (string, any, error) {
					found, err := system.GetPrompt(ctx, client, ref)
					return system.PromptPage(found), found, err
				})
			}},
		{Name: "label", Usage: "experiment prompts label NAME VERSION LABEL...", Least: 3, Most: -1,
			Run: func(c *urfave.Context, words []string) error {
				return in(c, func(ctx context.Context, client *langfuse.Client) (string, any, error) {
					said, err := system.LabelPrompt(ctx, client, words[0], words[1], words[2:])
					return said, nil, err
				})
			}},
		{Name: "diff", Usage: "experiment prompts diff NAME A B (versions or labels)", Least: 3, Most: 3,
			Run: func(c *urfave.Context, words []string) error {
				if slices.Contains(words, "") {
					return cli.Usage("prompts diff takes the name of a prompt and two of its versions or labels, and one of them is empty")
				}
				return in(c, func(ctx context.Context, client *langfuse.Client) (string, any, error) {
					said, err := system.ComparePrompts(ctx, client, words[0], words[1], words[2])
					return said, nil, err
				})
			}},
	}
	return &urfave.Command{
		Name:      "prompts",
		Usage:     "list, show, label and compare the prompts in Langfuse",
		UsageText: settings.Usages(actions),
		ArgsUsage: "[list | show | label | diff]",
		Flags: []urfave.Flag{
			&urfave.StringFlag{Name: "prompt-label", Usage: "show the version of `LABEL` (default: production)"},
			&urfave.IntFlag{Name: "prompt-version", Usage: "show version `N`", DefaultText: "that of the label"},
			settings.JSONFlag(),
		},
		Action: func(c *urfave.Context) error { return settings.Act(c, actions, "list") },
	}
}

// shownPrompt reads which version of a prompt is to be shown.
func shownPrompt(c *urfave.Context, name string) (langfuse.PromptRef, error) {
	ref := langfuse.PromptRef{Name: name, Label: c.String("prompt-label"), Version: c.Int("prompt-version")}
	label, version := c.IsSet("prompt-label"), c.IsSet("prompt-version")
	switch {
	case label && version:
		return ref, cli.Usage("--prompt-label and --prompt-version cannot both be given: each names a version")
	case label && ref.Label == "":
		return ref, cli.Usage("--prompt-label is empty: name a label, or leave it out for production")
	case version && ref.Version < 1:
		return ref, cli.Usage("--prompt-version is %d: versions are numbers from 1", ref.Version)
	}
	return ref, nil
}
