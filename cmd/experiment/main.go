// Command experiment runs knowledge extraction experiments and records them in
// Langfuse.
package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"slices"
	"time"

	urfave "github.com/urfave/cli/v2"

	"extraction-experiment/cmd/internal/gold"
	"extraction-experiment/cmd/internal/runs"
	"extraction-experiment/cmd/internal/settings"
	"extraction-experiment/cmd/internal/system"
	"extraction-experiment/cmd/internal/trigger"
	"extraction-experiment/internal/cli"
	"extraction-experiment/langfuse"
	"extraction-experiment/langfuse/embedded"
	"extraction-experiment/report/html"
)

func main() { os.Exit(cli.Profiled(Main)) }

// Main runs the command line of this process and returns its exit code.
func Main() int {
	if os.Getenv("GOGC") == "" && os.Getenv("GOMEMLIMIT") == "" {
		debug.SetGCPercent(120) // a little rarer than by default, which costs a few MB
		limitMemory(96 << 20)
	}
	return Run(context.Background(), cli.Process())
}

// limitMemory sets the soft memory limit of the Go runtime to a number of bytes, or to twice
// the heap that the last garbage collection left if that is more: a limit near what is in use
// would make it collect all the time. It ends when something else sets a limit.
func limitMemory(least int64) {
	live, limit := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}, debug.SetMemoryLimit(-1)
	var afterCollection func(int)
	afterCollection = func(int) {
		if debug.SetMemoryLimit(-1) != limit {
			return
		}
		metrics.Read(live)
		limit = max(least, 2*int64(live[0].Value.Uint64()))
		debug.SetMemoryLimit(limit)
		runtime.AddCleanup(&struct{ self *int }{}, afterCollection, 0) // runs when the next collection frees it
	}
	afterCollection(0)
}

// commands returns the commands in the order of the help.
func commands(env cli.Env) []*urfave.Command {
	return []*urfave.Command{
		runCommand(env),
		runsCommand(env),
		interruptible(showCommand(env)),
		interruptible(compareCommand(env)),
		interruptible(baselineCommand(env)),
		interruptible(runs.CheckCommand(env, runTable(), Run)),
		interruptible(reportCommand(env)),
		publishCommand(env),
		verifyCommand(env),
		interruptible(exportCommand(env)),
		interruptible(scoreCommand(env)),
		interruptible(gold.RescoreCommand(env)),
		interruptible(gold.AgreementCommand(env)),
		interruptible(gold.AuditCommand(env)),
		benchCommand(env),
		interruptible(conformanceCommand(env)),
		answersCommand(env),
		promptsCommand(env),
		gold.SeedCommand(env),
		system.WorkerCommand(env, func(ctx context.Context) (context.Context, <-chan struct{}, func()) {
			ctx, signals := watchSignals(ctx, env.Stderr, "the items in hand are finished, the others left to other workers")
			signals.working.Store(true)
			return ctx, signals.first.Done(), signals.stop
		}),
		system.WorkersCommand(env),
		interruptible(serveCommand(env)),
		doctorCommand(env),
		completionCommand(env),
	}
}

// Run runs one command line and returns the exit code.
func Run(ctx context.Context, env cli.Env) int {
	screened := env // settings.Run prints past the progress bar, even if the bar has not ended
	screened.Stderr = runs.NewScreen(env.Stderr)
	run := runCommand(screened)
	return settings.Run(ctx, env, &urfave.App{
		Name:      "experiment",
		Usage:     "run knowledge extraction experiments and record them in Langfuse",
		UsageText: "experiment --dataset extraction-eval --name baseline-v1\nexperiment COMMAND [flags] [arguments]",
		Flags:     run.Flags,
		Action:    run.Action,
		Commands:  commands(screened),
	})
}

// completions holds, by shell, the scripts that make it ask the program for completions.
var completions = map[string]string{
	"bash": `_experiment() {
  local words=("${COMP_WORDS[@]:0:COMP_CWORD}") current="${COMP_WORDS[COMP_CWORD]}"
  if [[ "$current" == -* ]]; then words+=("$current"); fi
  COMPREPLY=($(compgen -W "$("${words[@]}" --generate-bash-completion 2>/dev/null)" -- "$current"))
}
complete -o default -F _experiment experiment
`,
	"zsh": `#compdef experiment
_experiment() {
  local -a options
  local current=${words[CURRENT]}
  if [[ "$current" == -* ]]; then
    options=("${(@f)$(${words[1,CURRENT]} --generate-bash-completion 2>/dev/null)}")
  else
    options=("${(@f)$(${words[1,CURRENT-1]} --generate-bash-completion 2>/dev/null)}")
  fi
  if [[ -n "${options[1]}" ]]; then _describe 'values' options; else _files; fi
}
compdef _experiment experiment
`,
	"fish": `function __experiment_complete
  set -l words (commandline -opc)
  set -l current (commandline -ct)
  if string match -q -- '-*' $current
    set words $words $current
  end
  $words --generate-bash-completion 2>/dev/null
end
complete -c experiment -a '(__experiment_complete)'
`,
}

func completionCommand(env cli.Env) *urfave.Command {
	return &urfave.Command{
		Name:        "completion",
		Usage:       "print a script that completes commands and flags in a shell",
		UsageText:   "experiment completion bash|zsh|fish",
		Description: `For bash: source <(experiment completion bash)`,
		Action: settings.Words(1, 1, func(c *urfave.Context) error {
			script, ok := completions[c.Args().First()]
			if !ok {
				return cli.Usage("completion takes one of bash, zsh, fish")
			}
			return runs.PrintText(env, false, nil, script)
		}),
	}
}

func serveCommand(env cli.Env) *urfave.Command {
	return &urfave.Command{
		Name:      "serve",
		Usage:     "serve the runs of this folder as web pages, and its embedded Langfuse to other programs",
		UsageText: "experiment serve [--port N] [--mode v4|v4-dual|v3] [--trigger FILE]",
		Description: "The pages list the runs of this folder, show and compare them, and show the traces in the embedded Langfuse.\n" +
			"They are read-only and need no key. The server behaves as Langfuse 4 unless --mode says otherwise. To test how a program\n" +
			"copes with a bad server, delay its answers or let requests fail; a failed request may still have been carried out.\n\n" +
			"With --trigger it also receives the request that the Run button of a dataset in Langfuse sends (POST /trigger), and starts\n" +
			"what FILE allows (docs/langfuse.md). " + trigger.EnvSecret + " holds the signing secret. Langfuse sends to ports 80 and 443\n" +
			"only: put a reverse proxy or a tunnel in front.",
		Flags: []urfave.Flag{
			&urfave.IntFlag{Name: "port", Aliases: []string{"p"}, Value: settings.DefaultPort, Usage: "listen on port `N` of the loopback address; 0 takes a free port"},
			&urfave.StringFlag{Name: "mode", Value: string(embedded.ModeV4), Usage: "behave as Langfuse in `MODE`: v4, v4-dual or v3"},
			&urfave.DurationFlag{Name: "latency", Usage: "delay each answer by `TIME`, such as 100ms"},
			&urfave.Float64Flag{Name: "fail", Usage: "let this `SHARE` of all requests fail, from 0 to 1"},
			&urfave.IntFlag{Name: "rate-limit",
				Usage: "answer 429 beyond `N` requests a minute for each kind of route that Langfuse Cloud limits"},
			&urfave.StringFlag{Name: "trigger", Usage: "start the runs that the Run button in Langfuse asks for and the YAML file `FILE` allows"},
			&urfave.StringFlag{Name: "trigger-listen", Value: trigger.DefaultListen, Usage: "receive these requests at `ADDR`, a host and port behind a proxy on port 80 or 443"},
		},
		Action: settings.NoWords(func(c *urfave.Context) error {
			config := embedded.Config{Mode: embedded.Mode(c.String("mode")), Faults: embedded.Faults{
				Latency: c.Duration("latency"), FailShare: c.Float64("fail"), RateLimit: c.Int("rate-limit")}}
			if err := config.Validate(); err != nil {
				return cli.Usage("%w", err)
			}
			serve := func(ctx context.Context, requests func() []html.RequestedRun, started func(string)) error {
				handler := func(l *settings.Langfuse) http.Handler { return runs.Pages(l, requests) }
				return settings.Serve(ctx, c.Int("port"), config, handler, func(url string) {
					printAddresses(env, url)
					started(url)
				})
			}
			switch {
			case c.IsSet("trigger"):
				cfg := trigger.Config{File: c.String("trigger"), Listen: c.String("trigger-listen"), Env: env, Run: Run}
				return trigger.Serve(c.Context, cfg, serve)
			case c.IsSet("trigger-listen"):
				return cli.Usage("--trigger-listen needs --trigger FILE, which says what may be run")
			}
			return serve(c.Context, nil, func(string) {})
		}),
	}
}

// printAddresses prints the addresses and keys of the server, ready to be pasted into a shell.
func printAddresses(env cli.Env, url string) {
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
		Usage:     "check keys, Langfuse, model and folder, and say how to fix what is wrong",
		UsageText: "experiment doctor [--model MODEL] [--score-configs] [--json]",
		Flags: []urfave.Flag{
			&urfave.StringFlag{Name: "model", Aliases: []string{"m"}, Usage: "also send one short request to `MODEL`, which may cost a little"},
			&urfave.BoolFlag{Name: "score-configs", Usage: "create the score configurations that annotators choose from, unless Langfuse has one of that name"},
			settings.ModeFlag(),
			settings.JSONFlag(),
		},
		Action: settings.NoWords(func(c *urfave.Context) error {
			return system.Doctor(c.Context, env, system.DoctorConfig{Mode: c.String("langfuse-mode"), Model: c.String("model"),
				ScoreConfigs: c.Bool("score-configs"), JSON: c.Bool("json")})
		}),
	}
}

func promptsCommand(env cli.Env) *urfave.Command {
	// in completes an action that uses Langfuse. The action prints what do returns: the text, or
	// with --json the value.
	in := func(a settings.Action, do func(*urfave.Context, *langfuse.Client, []string) (string, any, error)) settings.Action {
		a.Run = func(c *urfave.Context, env cli.Env, words []string) error {
			lf, err := settings.Connect(c.Context, env)
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
		&urfave.StringFlag{Name: "prompt-label", Usage: "show the version that has `LABEL` (default: production)"},
		&urfave.IntFlag{Name: "prompt-version", Usage: "show version `N`", DefaultText: "that of the label"},
		settings.JSONFlag(),
	}
	command := &urfave.Command{Name: "prompts", Usage: "list, show, label and compare the prompts in Langfuse", Flags: flags}
	return settings.SetActions(env, command, []settings.Action{
		in(settings.Action{Name: "list", Usage: "experiment prompts list [--json]", Flags: flags[2:]},
			func(c *urfave.Context, client *langfuse.Client, _ []string) (string, any, error) {
				list, err := system.ListPrompts(c.Context, client)
				if err == nil && !c.Bool("json") {
					list, err = system.WithLabelVersions(c.Context, client, list)
				}
				return system.PromptTable(list, time.Local), list, err
			}),
		in(settings.Action{Name: "show", Usage: "experiment prompts show NAME [--prompt-label L | --prompt-version N] [--json]",
			MinArgs: 1, MaxArgs: 1, Flags: flags}, showPrompt),
		in(settings.Action{Name: "label", Usage: "experiment prompts label NAME VERSION LABEL...", MinArgs: 3, MaxArgs: -1},
			func(c *urfave.Context, client *langfuse.Client, words []string) (string, any, error) {
				text, err := system.LabelPrompt(c.Context, client, words[0], words[1], words[2:])
				return text, nil, err
			}),
		in(settings.Action{Name: "diff", Usage: "experiment prompts diff NAME A B (versions or labels)", MinArgs: 3, MaxArgs: 3},
			func(c *urfave.Context, client *langfuse.Client, words []string) (string, any, error) {
				if slices.Contains(words, "") {
					return "", nil, cli.Usage("prompts diff takes the name of a prompt and two of its versions or labels, and one of them is empty")
				}
				text, err := system.ComparePrompts(c.Context, client, words[0], words[1], words[2])
				return text, nil, err
			}),
	}, "list")
}

// showPrompt returns the version of a prompt that the flags select.
func showPrompt(c *urfave.Context, client *langfuse.Client, words []string) (string, any, error) {
	ref := langfuse.PromptRef{Name: words[0], Label: c.String("prompt-label"), Version: c.Int("prompt-version")}
	label, version := c.IsSet("prompt-label"), c.IsSet("prompt-version")
	if label && (version || ref.Label == "") || version && ref.Version < 1 {
		return "", nil, cli.Usage("give --prompt-label LABEL, or --prompt-version N from 1, or neither for production")
	}
	found, err := system.GetPrompt(c.Context, client, ref)
	return system.PromptPage(found), found, err
}
