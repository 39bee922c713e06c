package settings

import (
	"slices"
	"strings"

	urfave "github.com/urfave/cli/v2"

	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/textutil"
)

// Action is what a command can be told to do by its first argument: the command
// library knows no flags behind the arguments of commands within commands.
type Action struct {
	Name, Usage string   // Usage is a whole command line
	Least, Most int      // arguments behind the name; Most is -1 for any number
	Flags       []string // those that mean something here
	Run         func(c *urfave.Context, words []string) error
}

// Usages are those of all actions, one a line.
func Usages(list []Action) string {
	var lines []string
	for _, a := range list {
		lines = append(lines, a.Usage)
	}
	return strings.Join(lines, "\n")
}

// Act carries out the action that the words of a command line name. Without words it
// is the usual one; "" is none. A flag that the action does not have is refused.
func Act(c *urfave.Context, list []Action, usual string) error {
	words := c.Args().Slice()
	if len(words) == 0 && usual != "" {
		words = []string{usual}
	}
	var names []string
	for _, a := range list {
		names = append(names, a.Name)
	}
	if len(words) == 0 {
		form := "experiment " + c.Command.Name + " "
		return cli.Usage("%s needs an action: %s", c.Command.Name, form+strings.Join(names, ", or "+form))
	}
	at := slices.Index(names, words[0])
	if at < 0 {
		return cli.Usage("there is no action %q of %s%s (there are: %s)", words[0], c.Command.Name, textutil.Hint(words[0], names), strings.Join(names, ", "))
	}
	a, words := list[at], words[1:]
	switch n := len(words); {
	case n < a.Least:
		return cli.Usage("%s %s needs an argument more: %s", c.Command.Name, a.Name, a.Usage)
	case a.Most == 0 && n > 0:
		return cli.Usage("%s %s takes no argument, got %s: %s", c.Command.Name, a.Name, cli.Quote(words[0]), a.Usage)
	case a.Most > 0 && n > a.Most:
		return cli.Usage("%s %s takes no argument more, got %s: %s", c.Command.Name, a.Name, cli.Quote(words[a.Most]), a.Usage)
	}
	p := Problems{}
	for _, flag := range c.Command.Flags {
		if name := flag.Names()[0]; name != "help" && c.IsSet(name) && !slices.Contains(a.Flags, name) {
			p.Join(cli.Usage("%s %s has no --%s: %s", c.Command.Name, a.Name, name, a.Usage))
		}
	}
	if err := p.Err(); err != nil {
		return err
	}
	return a.Run(c, words)
}
