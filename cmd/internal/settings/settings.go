// Package settings gives a command what it begins with: the flags and arguments of the command
// line in any order, settings from flags, environment, configuration file and defaults, its log,
// and its Langfuse.
package settings

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	urfave "github.com/urfave/cli/v2"

	"extraction-experiment/configs"
	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/textutil"
	"extraction-experiment/outcome"
	"extraction-experiment/scoring"
)

// Run carries out one command line of a program, which may have commands or none, and
// returns the exit code.
func Run(ctx context.Context, env cli.Env, app *urfave.App) (code int) {
	defer cli.Recover(env.Stderr, &code)
	app.Version, app.Writer, app.ErrWriter = cli.Version(), env.Stdout, env.Stderr
	app.EnableBashCompletion, app.HideHelpCommand, app.DisableSliceFlagSeparator = true, true, true
	app.OnUsageError = usageError
	app.ExitErrHandler = func(*urfave.Context, error) {} // it is decided below
	for _, c := range app.Commands {
		c.OnUsageError, c.HideHelpCommand = usageError, true // a run may be called help
	}
	args, err := arrange(app, env.Args)
	if err == nil {
		err = app.RunContext(ctx, append([]string{app.Name}, args...))
	}
	if err != nil {
		cli.Report(env.Stderr, app.Name, err)
	}
	return cli.ExitCode(err)
}

// arrange brings a command line into the order that the command library needs: the
// command, its flags, its arguments. A word that is no command is an error that names
// the nearest one: the library would do what the program does without a command.
func arrange(app *urfave.App, args []string) ([]string, error) {
	if len(args) > 0 && args[len(args)-1] == "--generate-bash-completion" {
		return args, nil
	}
	if len(args) == 0 || isFlag(args[0]) || len(app.Commands) == 0 {
		ordered, err := order(app, append([]urfave.Flag{urfave.HelpFlag, urfave.VersionFlag}, app.Flags...), args)
		if at := slices.Index(ordered, "--"); at >= 0 && len(app.Commands) > 0 {
			return nil, unknownCommand(app, ordered[at+1])
		}
		return ordered, err
	}
	command := app.Command(args[0])
	if command == nil {
		return nil, unknownCommand(app, args[0])
	}
	if WantsHelp(args) {
		return []string{command.Name, "--help"}, nil
	}
	ordered, err := order(app, append([]urfave.Flag{urfave.HelpFlag}, command.Flags...), args[1:])
	return append([]string{command.Name}, ordered...), err
}

// order moves flags before arguments, because the command library stops reading flags
// at the first argument and would silently ignore the rest. "--" ends the flags; a
// lone "-" is an argument.
//
// A flag that needs a value and has none is an error of usage: what begins with a dash
// is no value, but for "-" and negative numbers, with or without a unit. Behind =
// anything is one. A flag of a command that names a file is refused with an empty name,
// as a variable of a shell that is not set leaves it: the work would be done, and the
// file written nowhere.
func order(app *urfave.App, list []urfave.Flag, args []string) ([]string, error) {
	known := byName(list)
	var flags, words []string
	for i := 0; i < len(args); i++ {
		arg := args[i]
		if arg == "--" {
			words = append(words, args[i+1:]...)
			break
		}
		if !isFlag(arg) {
			words = append(words, arg)
			continue
		}
		flags = append(flags, arg)
		flag, value, inline := strings.Cut(arg, "=")
		name := strings.TrimLeft(flag, "-")
		switch f := known[name]; {
		case f == nil:
			return nil, unknownFlag(known, app.Name, name)
		case standsAlone(f):
			continue
		case inline:
		case i+1 == len(args) || args[i+1] == "--":
			return nil, cli.Usage("%s needs a value", arg)
		case !isValue(args[i+1]):
			return nil, cli.Usage("%s needs a value, and %s looks like a flag: write %s=%s if it is the value", arg, args[i+1], arg, args[i+1])
		default:
			i++
			value = args[i]
			flags = append(flags, value)
		}
		if value == "" && len(app.Commands) > 0 && takesFile(known[name]) {
			return nil, cli.Usage("%s needs a value, and it is empty: give one, or leave the flag out", flag)
		}
	}
	if len(words) > 0 {
		flags = append(flags, "--")
	}
	return append(flags, words...), nil
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

// isValue tells a value from a flag, whose name does not begin with a digit.
func isValue(word string) bool {
	rest, dashed := strings.CutPrefix(word, "-")
	return !dashed || rest == "" || strings.ContainsRune(".0123456789", rune(rest[0]))
}

// standsAlone reports whether the word behind the flag is not its value.
func standsAlone(f urfave.Flag) bool {
	switch f := f.(type) {
	case *urfave.BoolFlag:
		return true
	case *urfave.GenericFlag:
		_, bare := f.Value.(*optional)
		return bare
	}
	return false
}

// takesFile reports whether the value of a flag may be a file: the word in backquotes
// that stands for it in the help says so.
func takesFile(f urfave.Flag) bool {
	documented, ok := f.(urfave.DocGenerationFlag)
	if !ok {
		return false
	}
	_, rest, _ := strings.Cut(documented.GetUsage(), "`")
	value, _, _ := strings.Cut(rest, "`")
	return slices.Contains(strings.Split(value, "|"), "FILE")
}

// WantsHelp reports whether help is asked for; the library would take the other words
// for its topic.
func WantsHelp(args []string) bool {
	for _, arg := range args {
		switch arg {
		case "--":
			return false
		case "--help", "-h":
			return true
		}
	}
	return false
}

func unknownCommand(app *urfave.App, word string) error {
	if app.Command(word) != nil {
		return cli.Usage("the command stands before its flags: %s %s …", app.Name, word)
	}
	if first, _, _ := strings.Cut(word, ","); slices.Contains(outcome.Classes(), outcome.Class(first)) {
		return cli.Usage("there is no command %q; for a class of failure write --retry-failed=%s", word, word)
	}
	names := cli.Each(app.Commands, func(c *urfave.Command) string { return c.Name })
	hint := cmp.Or(textutil.Hint(word, names), "; there are: "+strings.Join(names, ", "))
	return cli.Usage("there is no command %q%s", word, hint)
}

// unknownFlag says that there is no flag of that name, and which one may be meant.
func unknownFlag(known map[string]urfave.Flag, program, name string) error {
	if meant := textutil.Nearest(name, slices.Collect(maps.Keys(known))); meant != "" {
		return cli.Usage("there is no flag --%s; did you mean --%s?", name, meant)
	}
	return cli.Usage("there is no flag --%s (%s --help lists the flags)", name, program)
}

// usageError is what becomes of the library's own errors.
func usageError(c *urfave.Context, err error, _ bool) error {
	return cli.Usage("%w (%s --help lists the flags)", err, c.App.Name)
}

// Action is what a command can be told to do by its first argument: the command
// library knows no flags behind the arguments of commands within commands.
type Action struct {
	Name, Usage string        // Usage is a whole command line
	Least, Most int           // arguments behind the name; Most is -1 for any number
	Flags       []urfave.Flag // those that mean something here
	Run         func(c *urfave.Context, words []string) error
}

// SetActions gives a command its actions, with the flags of all of them. Without words it
// does the usual one; "" is none.
func SetActions(command *urfave.Command, list []Action, usual string) *urfave.Command {
	command.UsageText = strings.Join(cli.Each(list, func(a Action) string { return a.Usage }), "\n")
	for _, a := range list {
		for _, f := range a.Flags {
			if byName(command.Flags)[f.Names()[0]] == nil {
				command.Flags = append(command.Flags, f)
			}
		}
	}
	command.Action = func(c *urfave.Context) error { return act(c, list, usual) }
	return command
}

// act carries out the action that the words of a command line name. A flag that the
// action does not have is refused.
func act(c *urfave.Context, list []Action, usual string) error {
	words := c.Args().Slice()
	if len(words) == 0 && usual != "" {
		words = []string{usual}
	}
	names := cli.Each(list, func(a Action) string { return a.Name })
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
	case a.Most >= 0 && n > a.Most:
		more := map[bool]string{true: " more"}[a.Most > 0]
		return cli.Usage("%s %s takes no argument%s, got %s: %s", c.Command.Name, a.Name, more, cli.Quote(words[a.Most]), a.Usage)
	}
	p, own := Problems{}, byName(a.Flags)
	for _, flag := range c.Command.Flags {
		if name := flag.Names()[0]; name != "help" && c.IsSet(name) && own[name] == nil {
			p.Join(cli.Usage("%s %s has no --%s: %s", c.Command.Name, a.Name, name, a.Usage))
		}
	}
	if err := p.Err(); err != nil {
		return err
	}
	return a.Run(c, words)
}

// NoWords is the action of a command that takes no words: leftover ones are refused.
func NoWords(action urfave.ActionFunc) urfave.ActionFunc {
	return func(c *urfave.Context) error {
		if c.Args().Present() {
			return cli.Usage("%s takes no argument, got %q", c.Command.Name, c.Args().First())
		}
		return action(c)
	}
}

// JSONFlag is --json.
func JSONFlag() urfave.Flag {
	return &urfave.BoolFlag{Name: "json", Usage: "print JSON on standard output", DisableDefaultText: true}
}

// OptionsFlag is --options of a command that scores; ScoringOptions reads it.
func OptionsFlag() urfave.Flag {
	return &urfave.StringFlag{Name: "options", Usage: "scoring options, as `FILE|JSON` (the file YAML or JSON); docs/metrics.md explains them"}
}

// ScoringOptions reads scoring options from a file or from the word itself; none are
// the default ones. Errors have the exit code of wrong usage.
func ScoringOptions(word string) (scoring.Options, error) {
	options := scoring.DefaultOptions()
	if word == "" {
		return options, nil
	}
	raw := []byte(word)
	if !strings.HasPrefix(strings.TrimSpace(word), "{") {
		var err error
		if raw, err = configs.LoadScoring(word); err != nil {
			return options, cli.Usage("%w", err)
		}
	}
	options, err := scoring.ParseOptions(raw, options)
	if err != nil {
		return options, cli.Usage("the scoring options: %w", err)
	}
	return options, nil
}

// DatasetFlag is --dataset of a command that finds a run by its name.
func DatasetFlag() urfave.Flag {
	return &urfave.StringFlag{Name: "dataset", Aliases: []string{"d"}, Usage: "`NAME` of the dataset, where runs of several have the same name"}
}

// LogFlags are those of a command that has no settings.
func LogFlags() []urfave.Flag {
	return []urfave.Flag{
		&urfave.StringFlag{Name: "log-level", Value: "warn", Usage: "`LEVEL` is debug, info, warn or error"},
		&urfave.StringFlag{Name: "log-format", Value: "text", Usage: "`FORM` is text or json"},
	}
}

// NewLog makes the log of a command on standard error.
func NewLog(w io.Writer, level, form string) (*slog.Logger, error) {
	var at slog.Level
	if err := at.UnmarshalText([]byte(level)); err != nil {
		return nil, cli.Usage("--log-level: %q is none of debug, info, warn, error", level)
	}
	options := &slog.HandlerOptions{Level: at}
	switch form {
	case "text":
		return slog.New(slog.NewTextHandler(w, options)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(w, options)), nil
	}
	return nil, cli.Usage("--log-format: %q is neither text nor json", form)
}

// Setting is a value that may come from a flag, the environment, the configuration
// file or its default, in this order of precedence.
type Setting struct {
	Flag, Alias, Env, Default string
	// Switch takes no value; Many may be repeated; Bare may stand without a value,
	// which then is "true".
	Switch, Many, Bare bool
	// Usage is the help; the word in backquotes stands for the value.
	Usage string
}

// AsFlag translates the setting for the command library. Its default is not given to
// the library, so that "not set" can be told from "set to the default".
func (s Setting) AsFlag() urfave.Flag {
	usage := s.Usage
	if s.Default != "" {
		usage += fmt.Sprintf(" (default: %s)", s.Default)
	}
	if s.Env != "" {
		usage += fmt.Sprintf(" [$%s]", s.Env)
	}
	aliases := strings.Fields(s.Alias)
	switch {
	case s.Many:
		return &urfave.StringSliceFlag{Name: s.Flag, Aliases: aliases, Usage: usage}
	case s.Bare:
		return &urfave.GenericFlag{Name: s.Flag, Aliases: aliases, Usage: usage, Value: &optional{}}
	case s.Switch:
		return &urfave.BoolFlag{Name: s.Flag, Aliases: aliases, Usage: usage, DisableDefaultText: true}
	}
	return &urfave.StringFlag{Name: s.Flag, Aliases: aliases, Usage: usage}
}

// optional is a flag that may stand alone or with a value: --flag, --flag=VALUE. The
// command library gives "true" where there is none.
type optional struct{ text string }

func (o *optional) Set(text string) error { o.text = text; return nil }
func (o *optional) String() string        { return o.text }
func (o *optional) IsBoolFlag() bool      { return true }

// Value is what a setting came to, and where from: the name of a variable, the path
// of the file, or one of the words below.
type Value struct {
	Words []string
	From  string
}

// Where a value may be from beside a variable and the file.
const (
	fromFlag    = "flag"
	FromDefault = "default"
	NotSet      = "not set"
)

// Values are what the settings of a command came to, by flag.
type Values map[string]Value

// Resolve looks every setting up: flag, then environment, then the file that is at path,
// then default. An environment variable that is set but empty counts as not set.
func Resolve(c *urfave.Context, table []Setting, getenv func(string) string, file func(flag string) []string, path string) Values {
	out := Values{}
	for _, s := range table {
		value := Value{nil, NotSet}
		switch words := file(s.Flag); {
		case c.IsSet(s.Flag) && s.Many:
			value = Value{c.StringSlice(s.Flag), fromFlag}
		case c.IsSet(s.Flag):
			value = Value{[]string{c.String(s.Flag)}, fromFlag} // of any flag
		case s.Env != "" && getenv(s.Env) != "":
			value = Value{[]string{getenv(s.Env)}, s.Env}
		case words != nil:
			value = Value{words, path}
		case s.Default != "":
			value = Value{[]string{s.Default}, FromDefault}
		}
		out[s.Flag] = value
	}
	return out
}

// Text returns the value of a setting that is given once; "" if it is not set.
func (v Values) Text(flag string) string {
	if words := v[flag].Words; len(words) > 0 {
		return words[0]
	}
	return ""
}

// All returns the values of a setting that may be repeated.
func (v Values) All(flag string) []string { return v[flag].Words }

// On reports whether a switch is on.
func (v Values) On(flag string) bool {
	on, _ := strconv.ParseBool(v.Text(flag)) // Problems.Switch says what is neither
	return on
}

// Problems collects what is wrong with the settings. Its methods read values; one
// that cannot be read is a problem.
type Problems struct{ Found []error }

// Add notes a problem; %w works as in fmt.Errorf.
func (p *Problems) Add(format string, args ...any) {
	p.Found = append(p.Found, fmt.Errorf(format, args...))
}

// Join notes errors; nil is none.
func (p *Problems) Join(errs ...error) {
	for _, err := range errs {
		if err != nil {
			p.Found = append(p.Found, err)
		}
	}
}

// Err returns all problems as one error, or nil.
func (p *Problems) Err() error { return errors.Join(p.Found...) }

// Switch reads a switch, which the environment may write as 1 or true.
func (p *Problems) Switch(v Values, flag string) bool {
	text := v.Text(flag)
	on, err := strconv.ParseBool(text)
	if text != "" && err != nil {
		p.Add("%s: %q is neither true nor false", v[flag].From, text)
	}
	return on
}

// Count reads a whole number.
func (p *Problems) Count(flag, text string, low, high int) int {
	n, err := strconv.Atoi(text)
	if err != nil || n < low || n > high {
		p.Add("--%s: %q is not a whole number from %d to %d", flag, text, low, high)
	}
	return n
}

// Optional is Count of a number that may be left out; 0 where there is none.
func (p *Problems) Optional(flag, text string, low, high int) int {
	if text == "" {
		return 0
	}
	return p.Count(flag, text, low, high)
}

// Number reads a decimal; nil where there is none.
func (p *Problems) Number(flag, text string, low, high float64) *float64 {
	if text == "" {
		return nil
	}
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || !(n >= low && n <= high) {
		p.Add("--%s: %q is not a number from %g to %g", flag, text, low, high)
	}
	return &n
}

// Duration reads a time above 0.
func (p *Problems) Duration(flag, text string) time.Duration {
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		p.Add("--%s: %q is not a time such as 90s, 2m or 1m30s", flag, text)
	}
	return d
}

// Pairs reads words of the form key=value.
func (p *Problems) Pairs(flag string, words []string) map[string]string {
	pairs := map[string]string{}
	for _, word := range words {
		key, value, ok := strings.Cut(word, "=")
		if !ok || strings.TrimSpace(key) == "" {
			p.Add("--%s: %q is not of the form key=value", flag, word)
			continue
		}
		if _, twice := pairs[key]; twice {
			p.Add("--%s: the key %q is given twice", flag, key)
		}
		pairs[key] = value
	}
	return pairs
}

// TrialName is how the names end that further trials of a run have in Langfuse.
var TrialName = textutil.Pattern(`#[0-9]+$`)

// CheckRunName notes why a flag gives no name of a run that Langfuse can look up.
func CheckRunName(p *Problems, flag, name string) {
	switch {
	case name == "." || name == "..":
		p.Add("--%s: %q is no name that can be looked up", flag, name)
	case !utf8.ValidString(name):
		p.Add("--%s: %q is not valid UTF-8", flag, name)
	case strings.ContainsAny(name, "/,"):
		p.Add("--%s: %q contains a slash or comma, which Langfuse cannot look up; try %q", flag, name, strings.NewReplacer("/", "-", ",", "-").Replace(name))
	case TrialName().MatchString(name):
		p.Add("--%s: %q ends in # and digits, which is kept for trials", flag, name)
	case name != strings.TrimSpace(name):
		p.Add("--%s: %q begins or ends with a space", flag, name)
	case len(name) > 200:
		p.Add("--%s is longer than 200 bytes", flag)
	case strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == 0x7f }):
		p.Add("--%s: %q contains control characters", flag, name)
	}
}
