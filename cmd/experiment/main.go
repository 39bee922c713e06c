// Command experiment runs knowledge extraction experiments and records them in
// Langfuse.
package main

import (
	"context"
	"fmt"
	"os"
	"runtime/debug"

	urfave "github.com/urfave/cli/v2"

	"extraction-experiment/cmd/internal/gold"
	"extraction-experiment/cmd/internal/runs"
	"extraction-experiment/cmd/internal/settings"
	"extraction-experiment/cmd/internal/system"
	"extraction-experiment/internal/cli"
)

func main() { os.Exit(cli.Profiled(Main)) }

// Main runs the command line of this process and returns its exit code. Garbage is
// collected a little later than by default, unless GOGC says when: a twentieth of a fast run's
// time for 13 MB.
func Main() int {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(130)
	}
	return Run(context.Background(), cli.Process())
}

// commands is the table of commands, in the order in which help shows them.
func commands(env cli.Env) []*urfave.Command {
	return []*urfave.Command{
		runCommand(env),
		runsCommand(env),
		showCommand(env),
		interruptible(compareCommand(env)),
		interruptible(baselineCommand(env)),
		runs.CheckCommand(env, runTable(), Run),
		reportCommand(env),
		publishCommand(env),
		verifyCommand(env),
		exportCommand(env),
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
		serveCommand(env),
		doctorCommand(env),
		completionCommand(env),
	}
}

// Run carries out one command line and returns the exit code.
func Run(ctx context.Context, env cli.Env) int {
	run := runCommand(env)
	return settings.Run(ctx, env, &urfave.App{
		Name:      "experiment",
		Usage:     "run knowledge extraction experiments and record them in Langfuse",
		UsageText: "experiment --dataset extraction-eval --name baseline-v1\nexperiment COMMAND [flags] [arguments]",
		Flags:     run.Flags,
		Action:    run.Action,
		Commands:  commands(env),
	})
}

// withCode gives a refused configuration exit code 64 where it has none.
func withCode(err error) error { return cli.WithCode(cli.ExitUsage, err) }

// oneRun returns the only argument of a command: the name or file of a run.
func oneRun(c *urfave.Context) (string, error) {
	if c.NArg() != 1 {
		return "", cli.Usage("%s takes the name or file of one run; experiment runs lists them", c.Command.Name)
	}
	return c.Args().First(), nil
}

// completions are the scripts that make a shell ask the program itself.
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
		Action: func(c *urfave.Context) error {
			script, ok := completions[c.Args().First()]
			if !ok || c.NArg() != 1 {
				return cli.Usage("completion takes one of bash, zsh, fish")
			}
			_, err := fmt.Fprint(env.Stdout, script)
			return cli.Written(err)
		},
	}
}
