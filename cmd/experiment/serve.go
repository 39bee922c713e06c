package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os/signal"
	"slices"
	"time"

	urfave "github.com/urfave/cli/v2"

	"extraction-experiment/cmd/internal/runs"
	"extraction-experiment/cmd/internal/settings"
	"extraction-experiment/cmd/internal/system"
	"extraction-experiment/cmd/internal/trigger"
	"extraction-experiment/internal/cli"
	"extraction-experiment/langfuse"
	"extraction-experiment/langfuse/embedded"
	"extraction-experiment/report/html"
)

func serveCommand(env cli.Env) *urfave.Command {
	return &urfave.Command{
		Name:      "serve",
		Usage:     "show the runs of this folder in a browser, and keep its Langfuse running for other programs",
		UsageText: "experiment serve [--port N] [--mode v4|v4-dual|v3] [--trigger FILE]",
		Description: "The pages list the runs of this folder, show and compare them, and show the traces of the embedded\n" +
			"Langfuse; they only read, and ask for no key. The server behaves as Langfuse 4 unless --mode says else. To see how a program copes with a\n" +
			"bad server, slow it down or let requests fail: a failed request may have been carried out.\n\n" +
			"With --trigger it also receives the request that the Run button of a dataset in Langfuse sends (POST /trigger), and carries\n" +
			"out what FILE allows (docs/langfuse.md). " + trigger.EnvSecret + " holds the signing secret. Langfuse sends to ports 80 and 443\n" +
			"only: put a reverse proxy or a tunnel in front.",
		Flags: []urfave.Flag{
			&urfave.IntFlag{Name: "port", Aliases: []string{"p"}, Value: settings.DefaultPort, Usage: "`N` is the port on the loopback address; 0 takes a free one"},
			&urfave.StringFlag{Name: "mode", Value: string(embedded.ModeV4), Usage: "`MODE` is the Langfuse to behave as: v4, v4-dual or v3"},
			&urfave.DurationFlag{Name: "latency", Usage: "each answer takes this `TIME` longer, such as 100ms"},
			&urfave.Float64Flag{Name: "fail", Usage: "this `SHARE` of all requests fails, from 0 to 1"},
			&urfave.IntFlag{Name: "rate-limit", Usage: "`N` is how many requests a minute each kind of route takes before it answers 429"},
			&urfave.StringFlag{Name: "trigger", Usage: "carry out what the Run button of Langfuse asks for and the YAML `FILE` allows"},
			&urfave.StringFlag{Name: "trigger-listen", Value: trigger.DefaultListen, Usage: "`ADDR` is the host and port that receives it, behind a proxy with port 80 or 443"},
		},
		Action: settings.NoWords(func(c *urfave.Context) error {
			play := embedded.Config{Mode: embedded.Mode(c.String("mode")), Faults: embedded.Faults{
				Latency: c.Duration("latency"), Fail: c.Float64("fail"), RateLimit: c.Int("rate-limit")}}
			if err := play.Validate(); err != nil {
				return cli.Usage("%w", err)
			}
			ctx, stop := signal.NotifyContext(c.Context, cli.EndSignals()...)
			defer stop()
			pages := func(ctx context.Context, asked func() []html.AskedRun, started func(string)) error {
				handler := func(l *settings.Langfuse) http.Handler { return runs.Pages(l, asked) }
				return settings.Serve(ctx, c.Int("port"), !c.IsSet("port"), play, handler, func(url string) {
					greet(env, url)
					started(url)
				})
			}
			switch {
			case c.IsSet("trigger"):
				return trigger.Serve(ctx, trigger.Config{File: c.String("trigger"), Listen: c.String("trigger-listen"), Env: env, Run: Run}, pages)
			case c.IsSet("trigger-listen"):
				return cli.Usage("--trigger-listen needs --trigger FILE, which says what may be run")
			}
			return pages(ctx, nil, func(string) {})
		}),
	}
}

// greet says how to reach the server, in lines that can be pasted.
func greet(env cli.Env, url string) {
	fmt.Fprintf(env.Stdout, `The runs of this folder: %s/
Its Langfuse API is at the same address. Interrupt to stop.

export LANGFUSE_BASE_URL=%s
export LANGFUSE_PUBLIC_KEY=%s
export LANGFUSE_SECRET_KEY=%s
`, url, url, embedded.DefaultPublicKey, embedded.DefaultSecretKey)
}

func doctorCommand(env cli.Env) *urfave.Command {
	return &urfave.Command{
		Name:      "doctor",
		Usage:     "look at keys, Langfuse, model and folder, and say what to do about what is wrong",
		UsageText: "experiment doctor [--model MODEL] [--score-configs] [--json]",
		Flags: []urfave.Flag{
			&urfave.StringFlag{Name: "model", Aliases: []string{"m"}, Usage: "send one short request to `MODEL`, which may cost a little"},
			&urfave.BoolFlag{Name: "score-configs", Usage: "make the score configurations that people who annotate choose from, where Langfuse has none of that name", DisableDefaultText: true},
			settings.ModeFlag(),
			settings.JSONFlag(),
		},
		Action: settings.NoWords(func(c *urfave.Context) error {
			env.Getenv = settings.InMode(c.String("langfuse-mode"), env.Getenv)
			return system.Doctor(c.Context, env, system.DoctorConfig{Model: c.String("model"), ScoreConfigs: c.Bool("score-configs"), JSON: c.Bool("json")})
		}),
	}
}

func promptsCommand(env cli.Env) *urfave.Command {
	// in has an action done in Langfuse, and prints what it returns: a text, or a value as JSON.
	in := func(a settings.Action, do func(*urfave.Context, *langfuse.Client, []string) (string, any, error)) settings.Action {
		a.Run = func(c *urfave.Context, words []string) error {
			lf, err := settings.Connect(c.Context, env.Getenv)
			if err != nil {
				return err
			}
			text, value, err := do(c, lf.Client, words)
			if err == nil {
				err = runs.PrintText(env, c.Bool("json"), value, text)
			}
			return errors.Join(err, lf.Close())
		}
		return a
	}
	flags := []urfave.Flag{
		&urfave.StringFlag{Name: "prompt-label", Usage: "show the version of `LABEL` (default: production)"},
		&urfave.IntFlag{Name: "prompt-version", Usage: "show version `N`", DefaultText: "that of the label"},
		settings.JSONFlag(),
	}
	command := &urfave.Command{Name: "prompts", Usage: "list, show, label and compare the prompts in Langfuse", Flags: flags}
	return settings.SetActions(command, []settings.Action{
		in(settings.Action{Name: "list", Usage: "experiment prompts list [--json]", Flags: flags[2:]},
			func(c *urfave.Context, client *langfuse.Client, _ []string) (string, any, error) {
				list, err := system.ListPrompts(c.Context, client)
				return system.PromptTable(list, time.Local), list, err
			}),
		in(settings.Action{Name: "show", Usage: "experiment prompts show NAME [--prompt-label L | --prompt-version N] [--json]",
			Least: 1, Most: 1, Flags: flags}, showPrompt),
		in(settings.Action{Name: "label", Usage: "experiment prompts label NAME VERSION LABEL...", Least: 3, Most: -1},
			func(c *urfave.Context, client *langfuse.Client, words []string) (string, any, error) {
				said, err := system.LabelPrompt(c.Context, client, words[0], words[1], words[2:])
				return said, nil, err
			}),
		in(settings.Action{Name: "diff", Usage: "experiment prompts diff NAME A B (versions or labels)", Least: 3, Most: 3},
			func(c *urfave.Context, client *langfuse.Client, words []string) (string, any, error) {
				if slices.Contains(words, "") {
					return "", nil, cli.Usage("prompts diff takes the name of a prompt and two of its versions or labels, and one of them is empty")
				}
				said, err := system.ComparePrompts(c.Context, client, words[0], words[1], words[2])
				return said, nil, err
			}),
	}, "list")
}

// showPrompt shows the version of a prompt that the flags name.
func showPrompt(c *urfave.Context, client *langfuse.Client, words []string) (string, any, error) {
	ref := langfuse.PromptRef{Name: words[0], Label: c.String("prompt-label"), Version: c.Int("prompt-version")}
	label, version := c.IsSet("prompt-label"), c.IsSet("prompt-version")
	switch {
	case label && version:
		return "", nil, cli.Usage("--prompt-label and --prompt-version cannot both be given: each names a version")
	case label && ref.Label == "":
		return "", nil, cli.Usage("--prompt-label is empty: name a label, or leave it out for production")
	case version && ref.Version < 1:
		return "", nil, cli.Usage("--prompt-version is %d: versions are numbers from 1", ref.Version)
	}
	found, err := system.GetPrompt(c.Context, client, ref)
	return system.PromptPage(found), found, err
}
