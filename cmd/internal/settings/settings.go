// Package settings gives a command what it begins with: the flags and arguments of the command
// line in any order, settings from flags, environment, configuration file and defaults, its log,
// and its Langfuse.
package settings

import (
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	urfave "github.com/urfave/cli/v2"

	"extraction-experiment/configs"
	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/textutil"
	"extraction-experiment/scoring"
)

// NoWords is the action of a command that takes no words: leftover ones are refused.
func NoWords(action urfave.ActionFunc) urfave.ActionFunc {
	return func(c *urfave.Context) error {
		if c.Args().Present() {
			return cli.Usage("%s takes no argument, got %q (%s --help lists the flags)", c.Command.Name, c.Args().First(), c.Command.HelpName)
		}
		return action(c)
	}
}

// JSONFlag is --json.
func JSONFlag() urfave.Flag {
	return &urfave.BoolFlag{Name: "json", Usage: "print JSON on standard output"}
}

// OptionsFlag is --options of a command that scores; ScoringOptions reads it.
func OptionsFlag() urfave.Flag {
	return &urfave.StringFlag{Name: "options", Usage: "scoring options from `FILE|JSON` (a YAML or JSON file); see docs/metrics.md"}
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
	return scoring.ParseOptions(raw, options)
}

// DatasetFlag is --dataset of a command that finds a run by its name.
func DatasetFlag() urfave.Flag {
	return &urfave.StringFlag{Name: "dataset", Aliases: []string{"d"}, Usage: "`NAME` of the dataset, if runs over several datasets have the same name"}
}

// LogFlags are those of a command that has no settings.
func LogFlags() []urfave.Flag {
	return []urfave.Flag{
		&urfave.StringFlag{Name: "log-level", Value: "warn", Usage: "log at `LEVEL`: debug, info, warn or error"},
		&urfave.StringFlag{Name: "log-format", Value: "text", Usage: "log in `FORMAT`: text or json"},
	}
}

// NewLog makes the log of a command on standard error.
func NewLog(w io.Writer, level, form string) (*slog.Logger, error) {
	var at slog.Level
	if err := at.UnmarshalText([]byte(level)); err != nil {
		return nil, cli.Usage("--log-level: %q is not one of debug, info, warn, error", level)
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
	// Switch takes no value; Many may be repeated; Bare may be without a value,
	// which then is "true".
	Switch, Many, Bare bool
	// Usage is the help; the word in backquotes stands for the value.
	Usage string
	// Category is its heading in the help.
	Category string
}

// Under puts settings under a heading of the help.
func Under(heading string, list []Setting) []Setting {
	for i := range list {
		list[i].Category = heading
	}
	return list
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
		return &urfave.StringSliceFlag{Category: s.Category, Name: s.Flag, Aliases: aliases, Usage: usage}
	case s.Bare:
		return &urfave.GenericFlag{Category: s.Category, Name: s.Flag, Aliases: aliases, Usage: usage, Value: &optional{}}
	case s.Switch:
		return &urfave.BoolFlag{Category: s.Category, Name: s.Flag, Aliases: aliases, Usage: usage}
	}
	return &urfave.StringFlag{Category: s.Category, Name: s.Flag, Aliases: aliases, Usage: usage}
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
	out, given := Values{}, c.FlagNames()
	for _, s := range table {
		value, isGiven := Value{nil, NotSet}, slices.Contains(given, s.Flag)
		switch words := file(s.Flag); {
		case isGiven && s.Many:
			value = Value{c.StringSlice(s.Flag), fromFlag}
		case isGiven:
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
type Problems struct {
	Found  []error // nil among them is none
	Values Values  // say where a value is from that no flag gave
}

// Add notes a problem; %w works as in fmt.Errorf.
func (p *Problems) Add(format string, args ...any) {
	p.Found = append(p.Found, fmt.Errorf(format, args...))
}

// Join notes errors; nil is none.
func (p *Problems) Join(errs ...error) { p.Found = append(p.Found, errs...) }

// Err returns all problems as one error, each once, or nil.
func (p *Problems) Err() error { return cli.Distinct(cli.Each(p.Found, p.traced)...) }

// traced names before a problem with a flag the variable or file that its value is from.
func (p *Problems) traced(err error) error {
	if err == nil {
		return nil
	}
	word, _, _ := strings.Cut(err.Error(), " ")
	flag, found := strings.CutPrefix(strings.TrimSuffix(word, ":"), "--")
	switch from := p.Values[flag].From; {
	case !found, from == "", from == fromFlag, from == FromDefault, from == NotSet:
		return err
	default:
		return fmt.Errorf("%s: %w", from, err)
	}
}

// Switch reads a switch, which the environment may write as 1 or true.
func (p *Problems) Switch(v Values, flag string) bool {
	text := v.Text(flag)
	on, err := strconv.ParseBool(text)
	if text != "" && err != nil {
		p.Add("--%s: %q is neither true nor false", flag, text)
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
	case strings.ContainsAny(name, "/,"):
		p.Add("--%s: %q contains a slash or comma, which Langfuse cannot look up", flag, name)
	case TrialName().MatchString(name):
		p.Add("--%s: %q ends in # and digits, which is kept for trials", flag, name)
	case name == "." || name == ".." || len(name) > 200 || name != strings.TrimSpace(name),
		!utf8.ValidString(name), strings.ContainsFunc(name, unicode.IsControl):
		p.Add("--%s: %.200q is not a name: up to 200 bytes of text without control characters and spaces around it", flag, name)
	}
}
