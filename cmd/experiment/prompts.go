package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	urfave "github.com/urfave/cli/v2"

	"extraction-experiment/cmd/internal/connect"
	"extraction-experiment/cmd/internal/settings"
	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/nearest"
	"extraction-experiment/internal/printable"
	"extraction-experiment/langfuse"
)

// promptAction is what "experiment prompts" can be told to do. The action is
// the first argument, since the command library knows no flags behind the
// arguments of commands within commands.
type promptAction struct {
	name, usage string
	least, most int      // arguments; most is -1 for any number
	flags       []string // flags that mean something here
	run         func(call promptCall) error
}

// promptCall is one action under way.
type promptCall struct {
	ctx    context.Context
	c      *urfave.Context
	env    cli.Env
	client *langfuse.Client
	words  []string // arguments behind the action
}

func promptActions() []promptAction {
	return []promptAction{
		{"list", "prompts list [--json]", 0, 0, []string{"json"}, listPrompts},
		{"show", "prompts show NAME [--prompt-label L | --prompt-version N] [--json]", 1, 1, []string{"json", "prompt-label", "prompt-version"}, showPrompt},
		{"label", "prompts label NAME VERSION LABEL...", 3, -1, nil, labelPrompt},
		{"diff", "prompts diff NAME A B (versions or labels)", 3, 3, nil, diffPrompts},
	}
}

func promptsCommand(env cli.Env) *urfave.Command {
	var forms []string
	for _, a := range promptActions() {
		forms = append(forms, "experiment "+a.usage)
	}
	return &urfave.Command{
		Name:      "prompts",
		Usage:     "list, show, label and compare the prompts in Langfuse",
		UsageText: strings.Join(forms, "\n"),
		ArgsUsage: "[list | show | label | diff]",
		Flags: []urfave.Flag{
			&urfave.StringFlag{Name: "prompt-label", Usage: "show the version of `LABEL` (default: production)"},
			&urfave.IntFlag{Name: "prompt-version", Usage: "show version `N`", DefaultText: "that of the label"},
			settings.JSONFlag(),
		},
		Action: func(c *urfave.Context) error { return promptsAction(c, env) },
	}
}

// promptsAction checks the words before it connects.
func promptsAction(c *urfave.Context, env cli.Env) (err error) {
	words := c.Args().Slice()
	if len(words) == 0 {
		words = []string{"list"}
	}
	action, err := findPromptAction(words[0])
	if err != nil {
		return err
	}
	words = words[1:]
	if len(words) < action.least || action.most >= 0 && len(words) > action.most {
		return cli.Usage("prompts %s does not take %d arguments: experiment %s", action.name, len(words), action.usage)
	}
	for _, flag := range c.Command.Flags {
		if name := flag.Names()[0]; c.IsSet(name) && !slices.Contains(action.flags, name) {
			return cli.Usage("prompts %s has no --%s: experiment %s", action.name, name, action.usage)
		}
	}
	lf, err := connect.Open(c.Context, env.Getenv)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lf.Close()) }()
	return action.run(promptCall{ctx: c.Context, c: c, env: env, client: lf.Client, words: words})
}

func findPromptAction(word string) (promptAction, error) {
	var names []string
	for _, a := range promptActions() {
		if a.name == word {
			return a, nil
		}
		names = append(names, a.name)
	}
	if hint := nearest.Hint(word, names); hint != "" {
		return promptAction{}, cli.Usage("there is no action %q of prompts%s", word, hint)
	}
	return promptAction{}, cli.Usage("there is no action %q of prompts; there are: %s", word, strings.Join(names, ", "))
}

// findPromptName returns the prompt of that name with all its versions and
// labels; where there is none the error says which there are.
func (call promptCall) findPromptName(name string) (langfuse.PromptSummary, error) {
	for summary, err := range call.client.ListPrompts(call.ctx, langfuse.PromptsQuery{Name: name}) {
		if err != nil {
			return langfuse.PromptSummary{}, err
		}
		if summary.Name == name {
			return summary, nil
		}
	}
	return langfuse.PromptSummary{}, call.noSuchPrompt(name)
}

// shownNames is how many names an error lists; findable is how many it looks at
// to propose one.
const shownNames, findable = 10, 1000

func (call promptCall) noSuchPrompt(name string) error {
	var names []string
	for summary, err := range call.client.ListPrompts(call.ctx, langfuse.PromptsQuery{}) {
		if err != nil {
			return err
		}
		if names = append(names, summary.Name); len(names) == findable {
			break
		}
	}
	if len(names) == 0 {
		return cli.Usage("there is no prompt %q, and no other", name)
	}
	slices.Sort(names)
	more := ""
	if len(names) > shownNames {
		more = " and others, which experiment prompts lists"
	}
	return cli.Usage("there is no prompt %q%s (there are: %s%s)", name,
		nearest.Hint(name, names), printable.Line(strings.Join(names[:min(len(names), shownNames)], ", ")), more)
}

// fetch returns one version; where there is none the error says which there are.
func (call promptCall) fetch(summary langfuse.PromptSummary, ref langfuse.PromptRef) (langfuse.Prompt, error) {
	found, err := call.client.GetPrompt(call.ctx, ref)
	if !errors.Is(err, langfuse.ErrNotFound) {
		return found, err
	}
	return found, lacks(summary, ref)
}

// lacks says that a prompt has no such version or label, and which it has.
func lacks(summary langfuse.PromptSummary, ref langfuse.PromptRef) error {
	if ref.Label == "" && ref.Version > 0 {
		return cli.Usage("the prompt %q has no version %d; %s", summary.Name, ref.Version, choices(summary))
	}
	label := cmp.Or(ref.Label, "production")
	return cli.Usage("the prompt %q has no label %q; %s; experiment prompts label %s VERSION %s sets it", summary.Name, label, choices(summary), cli.Quote(summary.Name), label)
}

// choices says which versions and labels a prompt has.
func choices(summary langfuse.PromptSummary) string {
	return fmt.Sprintf("its versions: %s; its labels: %s", ranges(summary.Versions), labelWords(summary.Labels))
}
