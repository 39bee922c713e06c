package main

import (
	"fmt"

	urfave "github.com/urfave/cli/v2"

	"extraction-experiment/internal/cli"
)

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
		ArgsUsage:   "bash|zsh|fish",
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
