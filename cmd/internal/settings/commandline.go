package settings

import (
	"cmp"
	"context"
	"errors"
	"io"
	"maps"
	"slices"
	"strings"
	"syscall"
	"unicode/utf8"

	urfave "github.com/urfave/cli/v2"

	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/files"
	"extraction-experiment/internal/textutil"
	"extraction-experiment/outcome"
	"extraction-experiment/report"
)

// Run runs one command line of a program with or without commands, and returns the exit code. It
// prints errors to env.Stderr and turns a panic into exit code 70.
func Run(ctx context.Context, env cli.Env, app *urfave.App) (code int) {
	defer cli.Recover(env.Stderr, &code)
	var help strings.Builder // the library writes only help to it
	app.Version, app.Writer, app.ErrWriter = cli.Version(), &help, env.Stderr
	app.EnableBashCompletion, app.HideHelpCommand, app.DisableSliceFlagSeparator = true, true, true
	app.OnUsageError = usageError
	app.ExitErrHandler = func(*urfave.Context, error) {} // Run reports the error below
	for _, c := range app.Commands {
		c.OnUsageError, c.HideHelpCommand = usageError, true // a run may be called help
		setDefaultTexts(c.Flags)
	}
	setDefaultTexts(app.Flags)
	args, err := arrange(app, env.Args)
	if err == nil {
		err = app.RunContext(ctx, append([]string{app.Name}, args...))
	}
	if help.Len() > 0 {
		_, writeErr := io.WriteString(env.Stdout, foldHelp(help.String(), env.Columns()))
		err = cmp.Or(err, cli.WriteError(writeErr))
	}
	err = explainOpenFiles(err)
	switch {
	case err == nil:
	case env.Failed != nil:
		env.Failed(err)
	default:
		cli.Report(env.Stderr, app.Name, err)
	}
	return cli.ExitCode(err)
}

// explainOpenFiles adds to an error of opening a file that this process may not open so many. SQLite does
// not say why it cannot open one.
func explainOpenFiles(err error) error {
	const fewFiles = 64
	most := files.MaxOpen()
	bySQLite := err != nil && most < fewFiles && strings.Contains(err.Error(), "unable to open database file")
	if bySQLite || errors.Is(err, syscall.EMFILE) {
		return errors.Join(err, cli.Errorf(cli.ExitIO,
			"this process may open %d files at once: allow more, such as with ulimit -n 1024", most))
	}
	return err
}

// setDefaultTexts makes the help show default values unquoted, and none for switches.
func setDefaultTexts(flags []urfave.Flag) {
	for _, flag := range flags {
		switch f := flag.(type) {
		case *urfave.BoolFlag:
			f.DisableDefaultText = true
		case *urfave.StringFlag:
			f.DefaultText = cmp.Or(f.DefaultText, f.Value)
		}
	}
}

// foldHelp breaks the lines of the help at a width; 0 leaves them. The usage of a flag stays to
// the right of its name, or moves below it if the name takes more than half of the width.
func foldHelp(text string, width int) string {
	if width <= 0 {
		return text
	}
	width = max(40, width)
	var folded strings.Builder
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if utf8.RuneCountInString(line) > width {
			name := flagColumn().FindString(line)
			usage, indent := line[len(name):], utf8.RuneCountInString(name)
			if indent > width/2 {
				margin := name[:len(name)-len(strings.TrimLeft(name, " "))]
				lines := report.Wrap(strings.TrimSpace(name), width-len(margin))
				name, indent = margin+strings.Join(lines, "\n"+margin)+"\n"+strings.Repeat(" ", 10), 10
			}
			line = name + strings.Join(report.Wrap(usage, width-indent), "\n"+strings.Repeat(" ", indent))
		}
		folded.WriteString(line + "\n")
	}
	return folded.String()
}

// flagColumn matches the margin of a line of the help, and the name of a flag with the space behind it.
var flagColumn = textutil.Pattern(`^ *(\S.*?  +)?`)

// arrange sorts a command line into the order that the library needs: the command, its flags,
// its arguments. An unknown command is an error that names the nearest one, because the library
// would run the default action of the program.
func arrange(app *urfave.App, args []string) ([]string, error) {
	if len(args) > 0 && args[len(args)-1] == "--generate-bash-completion" {
		args = slices.Clone(args)
		for i, arg := range args {
			if arg == "--" { // after it, the library would take the request for an argument, and run the command
				args[i] = "-"
			}
		}
		return args, nil
	}
	if len(args) > 0 && len(app.Commands) > 0 && args[0] == "help" { // as in other tools
		args = append(slices.Clone(args[1:]), "--help")
	}
	if len(args) == 0 || isFlag(args[0]) || len(app.Commands) == 0 {
		ordered, err := flagsFirst(app, app.Name, append([]urfave.Flag{urfave.HelpFlag, urfave.VersionFlag}, app.Flags...), args)
		if at := slices.Index(ordered, "--"); at >= 0 && len(app.Commands) > 0 {
			return nil, unknownCommand(app, ordered[at+1])
		}
		return ordered, err
	}
	command := app.Command(args[0])
	if command == nil {
		return nil, unknownCommand(app, args[0])
	}
	if wantsHelp(args) {
		return []string{command.Name, "--help"}, nil
	}
	ordered, err := flagsFirst(app, app.Name+" "+command.Name,
		append([]urfave.Flag{urfave.HelpFlag}, command.Flags...), args[1:])
	return append([]string{command.Name}, ordered...), err
}

// flagsFirst moves flags before arguments, because the library stops reading flags at the first
// argument and would silently ignore the rest. "--" ends the flags; a lone "-" is an argument.
//
// It returns a usage error for an unknown flag and for a missing value. A word that begins with
// a dash is not a value, except "-" and negative numbers, with or without a unit; after "="
// every word is one. If the program has commands, an empty value for a flag that names a file is
// an error too: a shell variable that is not set leads to it, and the command would work without
// writing the file.
func flagsFirst(app *urfave.App, command string, list []urfave.Flag, args []string) ([]string, error) {
	known := byName(list)
	var flags, positional []string
	for i := 0; i < len(args); i++ {
		arg := args[i]
		if arg == "--" {
			positional = append(positional, args[i+1:]...)
			break
		}
		if !isFlag(arg) {
			positional = append(positional, arg)
			continue
		}
		flags = append(flags, arg)
		flag, value, inline := strings.Cut(arg, "=")
		name := strings.TrimLeft(flag, "-")
		_, isSwitch := known[name].(*urfave.BoolFlag)
		_, isBare := known[name].(*urfave.GenericFlag) // Setting.Bare
		switch {
		case known[name] == nil:
			return nil, unknownFlag(known, command, flag)
		case isSwitch, isBare:
			continue
		case inline:
		case i+1 == len(args) || !isValue(args[i+1]):
			return nil, cli.Usage("%s needs a value; one that looks like a flag is written %s=VALUE", arg, arg)
		default:
			i++
			value = args[i]
			flags = append(flags, value)
		}
		if value == "" && len(app.Commands) > 0 && takesFile(known[name]) {
			return nil, cli.Usage("%s needs a value, and it is empty: give one, or leave the flag out", flag)
		}
	}
	if len(positional) > 0 {
		flags = append(flags, "--")
	}
	return append(flags, positional...), nil
}

func byName(list []urfave.Flag) map[string]urfave.Flag {
	known := map[string]urfave.Flag{}
	for _, f := range list {
		for _, name := range f.Names() {
			known[name] = f
		}
	}
	return known
}

func isFlag(word string) bool { return strings.HasPrefix(word, "-") && word != "-" }

// isValue reports whether a word can be the value of a flag; names of flags do not begin with a
// digit.
func isValue(word string) bool {
	rest, dashed := strings.CutPrefix(word, "-")
	return !dashed || rest == "" || strings.ContainsRune(".0123456789", rune(rest[0]))
}

// takesFile reports whether the value of a flag may be a file: the placeholder in its usage, in
// backquotes, contains FILE.
func takesFile(f urfave.Flag) bool {
	_, rest, _ := strings.Cut(f.(urfave.DocGenerationFlag).GetUsage(), "`") // every flag of the library implements it
	value, _, _ := strings.Cut(rest, "`")
	return slices.Contains(strings.Split(value, "|"), "FILE")
}

// wantsHelp reports whether the arguments contain -h or --help before any "--". The library
// would take the other arguments for the topic of the help.
func wantsHelp(args []string) bool {
	at := slices.IndexFunc(args, func(arg string) bool { return arg == "--help" || arg == "-h" || arg == "--" })
	return at >= 0 && args[at] != "--"
}

func unknownCommand(app *urfave.App, word string) error {
	if app.Command(word) != nil {
		return cli.Usage("put the command before its flags: %s %s …", app.Name, word)
	}
	if first, _, _ := strings.Cut(word, ","); slices.Contains(outcome.Classes(), outcome.Class(first)) {
		return cli.Usage("there is no command %q; for a class of failure write --retry-failed=%s", word, word)
	}
	isFlag := func(f urfave.Flag) bool { return slices.Contains(f.Names(), word) }
	if len(word) > 1 && slices.ContainsFunc(app.Flags, isFlag) {
		return cli.Usage("there is no command %q; there is a flag --%s", word, word)
	}
	names := cli.Each(app.Commands, func(c *urfave.Command) string { return c.Name })
	hint := cmp.Or(textutil.Hint(word, names), "; there are: "+strings.Join(names, ", "))
	return cli.Usage("there is no command %q%s", word, hint)
}

// unknownFlag returns the error for an unknown flag, with the nearest known flag.
func unknownFlag(known map[string]urfave.Flag, command, flag string) error {
	name := strings.TrimLeft(flag, "-")
	if nearest := textutil.Nearest(name, slices.Collect(maps.Keys(known))); len(name) > 1 && nearest != "" {
		return cli.Usage("there is no flag %s; did you mean --%s?", flag, nearest)
	}
	return cli.Usage("there is no flag %s (%s --help lists the flags)", flag, command)
}

// badValue matches the library's error for a value of the wrong type.
var badValue = textutil.Pattern(`^invalid (?:boolean )?value (".*") for (?:flag )?-(\S+): (parse error|value out of range)$`)

// usageError rewrites the usage errors of the library.
func usageError(c *urfave.Context, err error, _ bool) error {
	if found := badValue().FindStringSubmatch(err.Error()); found != nil {
		wanted := "of the expected kind"
		switch byName(slices.Concat(c.App.Flags, c.Command.Flags))[found[2]].(type) {
		case *urfave.IntFlag:
			wanted = "a whole number"
		case *urfave.Uint64Flag:
			wanted = "a whole number from 0"
		case *urfave.Float64Flag:
			wanted = "a number"
		case *urfave.DurationFlag:
			wanted = "a time such as 90s, 2m or 1m30s"
		case *urfave.BoolFlag:
			wanted = "true or false"
		}
		if found[3] != "parse error" {
			wanted = "in the range of a number"
		}
		dashes := strings.Repeat("-", min(2, len(found[2])))
		return cli.Usage("%s%s: %s is not %s", dashes, found[2], found[1], wanted)
	}
	return cli.Usage("%w (%s --help lists the flags)", err, c.Command.HelpName)
}

// Action is something that a command does, selected by the first argument of the command.
// Subcommands of the library do not serve for this, because flags may not follow their
// arguments.
type Action struct {
	Name, Usage      string        // Usage is a complete command line
	MinArgs, MaxArgs int           // number of arguments after the name; no limit if MaxArgs is -1
	Flags            []urfave.Flag // flags that the action accepts
	Run              func(c *urfave.Context, env cli.Env, words []string) error
}

// SetActions gives a command its actions and the flags of all of them; for help about one action,
// only that one. defaultAction is the action of a command line without arguments; if it is empty,
// they are required.
func SetActions(env cli.Env, command *urfave.Command, list []Action, defaultAction string) *urfave.Command {
	asked := func(a Action) bool { return slices.Contains(env.Args, a.Name) }
	if at := slices.IndexFunc(list, asked); at >= 0 && wantsHelp(env.Args) {
		list = list[at : at+1]
	}
	command.UsageText = strings.Join(cli.Each(list, func(a Action) string { return a.Usage }), "\n")
	known := byName(command.Flags)
	for _, a := range list {
		for _, f := range a.Flags {
			if name := f.Names()[0]; known[name] == nil {
				known[name] = f
				command.Flags = append(command.Flags, f)
			}
		}
	}
	command.Action = func(c *urfave.Context) error { return runAction(c, env, list, defaultAction) }
	return command
}

// runAction runs the action that the first argument names. It refuses flags that the action does
// not accept.
func runAction(c *urfave.Context, env cli.Env, list []Action, defaultAction string) error {
	words := c.Args().Slice()
	if len(words) == 0 && defaultAction != "" {
		words = []string{defaultAction}
	}
	names := cli.Each(list, func(a Action) string { return a.Name })
	if len(words) == 0 {
		prefix := "experiment " + c.Command.Name + " "
		return cli.Usage("%s needs an action: %s", c.Command.Name, prefix+strings.Join(names, ", or "+prefix))
	}
	at := slices.Index(names, words[0])
	if at < 0 {
		return cli.Usage("there is no action %q of %s%s (there are: %s)", words[0], c.Command.Name, textutil.Hint(words[0], names), strings.Join(names, ", "))
	}
	a, words := list[at], words[1:]
	if err := checkWords(c.Command.Name+" "+a.Name, a.Usage, words, a.MinArgs, a.MaxArgs); err != nil {
		return err
	}
	allowed := byName(a.Flags)
	for _, flag := range c.Command.Flags {
		if name := flag.Names()[0]; name != "help" && c.IsSet(name) && allowed[name] == nil {
			return cli.Usage("%s %s has no --%s: %s", c.Command.Name, a.Name, name, a.Usage)
		}
	}
	return a.Run(c, env, words)
}
