// Package settings prepares the start of a command: the flags and arguments of the command line
// in any order, settings from flags, environment, configuration file and defaults, the log, and
// the connection to Langfuse.
package settings

import (
	"bytes"
	"context"
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
	"extraction-experiment/internal/files"
	"extraction-experiment/internal/textutil"
	"extraction-experiment/scoring"
)

// Words returns the action of a command that takes from least to most arguments; there is no limit if
// most is -1.
func Words(least, most int, action urfave.ActionFunc) urfave.ActionFunc {
	return func(c *urfave.Context) error {
		if err := checkWords(c.Command.Name, c.Command.UsageText, c.Args().Slice(), least, most); err != nil {
			return err
		}
		return action(c)
	}
}

// NoWords returns the action of a command without arguments.
func NoWords(action urfave.ActionFunc) urfave.ActionFunc { return Words(0, 0, action) }

// checkWords refuses too few and too many arguments of a command.
func checkWords(command, usage string, words []string, least, most int) error {
	switch n := len(words); {
	case n < least:
		return cli.Usage("%s needs %s: %s", command, textutil.Counted(least-n, "more argument"), usage)
	case most >= 0 && n > most:
		more := map[bool]string{true: " more"}[most > 0]
		return cli.Usage("%s takes no argument%s, got %s: %s", command, more, cli.Quote(words[most]), usage)
	}
	return nil
}

// JSONFlag returns --json.
func JSONFlag() urfave.Flag {
	return &urfave.BoolFlag{Name: "json", Usage: "print JSON on standard output"}
}

// OptionsFlag returns --options of a command that scores; ScoringOptions reads its value.
func OptionsFlag() urfave.Flag {
	return &urfave.StringFlag{Name: "options", Usage: "scoring options from `FILE|JSON` (a YAML or JSON file); see docs/metrics.md"}
}

// ScoringOptions reads scoring options from a file, or from the word itself if it is a JSON
// object. An empty word gives the default options. Errors have exit code 64.
func ScoringOptions(word string) (scoring.Options, error) {
	options := scoring.DefaultOptions()
	if word == "" {
		return options, nil
	}
	raw := []byte(word)
	if !strings.HasPrefix(strings.TrimSpace(word), "{") {
		var err error
		if raw, err = configs.LoadScoring(word); err != nil {
			return options, cli.Usage(`%w: expected a file, or JSON such as {"threshold": 0.7}`, err)
		}
	}
	return scoring.ParseOptions(raw, options)
}

// ReadFile reads and parses the file of a flag, without a byte order mark. For an empty path it returns the
// zero value. An error of reading has exit code 64.
func ReadFile[T any](ctx context.Context, path, what string, parse func([]byte) (T, error)) (value T, err error) {
	if path == "" {
		return value, nil
	}
	raw, err := files.Read(ctx, path, files.MaxText)
	if err != nil {
		return value, cli.Usage("reading %s: %w", what, err)
	}
	if value, err = parse(bytes.TrimPrefix(raw, []byte("\xef\xbb\xbf"))); err != nil {
		return value, fmt.Errorf("%s: %w", path, err)
	}
	return value, nil
}

// DatasetFlag returns --dataset of a command that finds a run by its name.
func DatasetFlag() urfave.Flag {
	return &urfave.StringFlag{Name: "dataset", Aliases: []string{"d"}, Usage: "`NAME` of the dataset, if runs over several datasets have the same name"}
}

// LogFlags returns the flags of the log for a command without settings.
func LogFlags() []urfave.Flag {
	return []urfave.Flag{
		&urfave.StringFlag{Name: "log-level", Value: "warn", Usage: "log at `LEVEL`: debug, info, warn or error"},
		&urfave.StringFlag{Name: "log-format", Value: "text", Usage: "log in `FORMAT`: text or json"},
	}
}

// NewLog returns the log of a command, which writes to w. Errors have exit code 64.
func NewLog(w io.Writer, level, format string) (*slog.Logger, error) {
	var minLevel slog.Level
	if err := minLevel.UnmarshalText([]byte(level)); err != nil {
		return nil, cli.Usage("--log-level: %q is not one of debug, info, warn, error", level)
	}
	options := &slog.HandlerOptions{Level: minLevel}
	switch format {
	case "text":
		return slog.New(slog.NewTextHandler(w, options)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(w, options)), nil
	}
	return nil, cli.Usage("--log-format: %q is neither text nor json", format)
}

// Setting is a value from a flag, the environment, the configuration file or its default, in
// this order of precedence.
type Setting struct {
	Flag, Alias, Env, Default string
	// Switch takes no value; Many may be repeated; Bare may stand without a value, which means
	// "true".
	Switch, Many, Bare bool
	// Usage is the help; the word in backquotes is the placeholder of the value.
	Usage string
	// Category is the heading of the setting in the help.
	Category string
}

// WithCategory sets the heading of settings in the help. It changes the list in place.
func WithCategory(heading string, list []Setting) []Setting {
	for i := range list {
		list[i].Category = heading
	}
	return list
}

// AsFlag returns the setting as a flag of the library. It does not give the library the default,
// so that "not set" differs from "set to the default".
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
		return &urfave.StringSliceFlag{Category: s.Category, Name: s.Flag, Aliases: aliases, Usage: usage, KeepSpace: true}
	case s.Bare:
		return &urfave.GenericFlag{Category: s.Category, Name: s.Flag, Aliases: aliases, Usage: usage, Value: &optional{}}
	case s.Switch:
		return &urfave.BoolFlag{Category: s.Category, Name: s.Flag, Aliases: aliases, Usage: usage}
	}
	return &urfave.StringFlag{Category: s.Category, Name: s.Flag, Aliases: aliases, Usage: usage}
}

// optional is the value of a flag with or without a value: --flag, --flag=VALUE. Without one,
// the library sets "true".
type optional struct{ text string }

func (o *optional) Set(text string) error { o.text = text; return nil }
func (o *optional) String() string        { return o.text }
func (o *optional) IsBoolFlag() bool      { return true }

// Value is the value of a setting and its source: "flag", the name of a variable, the path of
// the file, FromDefault or NotSet.
type Value struct {
	Words []string
	From  string
}

// Sources of a Value other than a variable and the file.
const (
	FromFlag    = "flag"
	FromDefault = "default"
	NotSet      = "not set"
)

// Values holds the values of the settings of a command, by flag.
type Values map[string]Value

// Resolve finds the value of every setting in the table: from the flag, then the environment,
// then the configuration file at path, then the default. An empty environment variable counts as
// not set.
func Resolve(c *urfave.Context, table []Setting, getenv func(string) string, file func(flag string) []string, path string) Values {
	out, setFlags := Values{}, c.FlagNames()
	for _, s := range table {
		value, isSet := Value{nil, NotSet}, slices.Contains(setFlags, s.Flag)
		switch words := file(s.Flag); {
		case isSet && s.Many:
			value = Value{c.StringSlice(s.Flag), FromFlag}
		case isSet:
			value = Value{[]string{c.String(s.Flag)}, FromFlag} // works for flags of every type
		case s.Env != "" && getenv(s.Env) != "":
			value = Value{[]string{getenv(s.Env)}, s.Env}
			if s.Many { // one a line
				value.Words = strings.Split(strings.TrimSuffix(getenv(s.Env), "\n"), "\n")
			}
		case words != nil:
			value = Value{words, path}
		case s.Default != "":
			value = Value{[]string{s.Default}, FromDefault}
		}
		out[s.Flag] = value
	}
	return out
}

// Text returns the value of a setting that is not repeated; empty if it is not set.
func (v Values) Text(flag string) string {
	if words := v[flag].Words; len(words) > 0 {
		return words[0]
	}
	return ""
}

// All returns the values of a setting that may be repeated.
func (v Values) All(flag string) []string { return v[flag].Words }

// On reports whether a switch is on. A value that is neither true nor false counts as off.
func (v Values) On(flag string) bool {
	on, _ := strconv.ParseBool(v.Text(flag)) // Problems.Switch reports a bad value
	return on
}

// Problems collects what is wrong with settings. Its methods parse values; they add a problem
// for each value that they cannot parse.
type Problems struct {
	textutil.Problems        // may contain nil
	Values            Values // for the sources of values that no flag gave
}

// Err returns all problems as one error, without repetitions, or nil.
func (p *Problems) Err() error { return cli.JoinDistinct(cli.Each(p.Problems, p.withSource)...) }

// withSource prefixes a problem of a flag with the variable or file that gave its value.
func (p *Problems) withSource(err error) error {
	if err == nil {
		return nil
	}
	word, _, _ := strings.Cut(err.Error(), " ")
	flag, found := strings.CutPrefix(strings.TrimSuffix(word, ":"), "--")
	switch from := p.Values[flag].From; {
	case !found, from == "", from == FromFlag, from == FromDefault, from == NotSet:
		return err
	default:
		return fmt.Errorf("%s: %w", from, err)
	}
}

// Switch parses a boolean, such as 1 or true. Empty is false.
func (p *Problems) Switch(v Values, flag string) bool {
	text := v.Text(flag)
	on, err := strconv.ParseBool(text)
	p.Add(text != "" && err != nil, "--%s: %q is neither true nor false", flag, text)
	return on
}

// Count parses a whole number from low to high.
func (p *Problems) Count(flag, text string, low, high int) int {
	n, err := strconv.Atoi(text)
	p.Add(err != nil || n < low || n > high, "--%s: %q is not a whole number from %d to %d", flag, text, low, high)
	return n
}

// Optional is Count for a number that may be left out; 0 if text is empty.
func (p *Problems) Optional(flag, text string, low, high int) int {
	if text == "" {
		return 0
	}
	return p.Count(flag, text, low, high)
}

// Number parses a decimal number from low to high; nil if text is empty.
func (p *Problems) Number(flag, text string, low, high float64) *float64 {
	if text == "" {
		return nil
	}
	n, err := strconv.ParseFloat(text, 64)
	p.Add(err != nil || !(n >= low && n <= high), "--%s: %q is not a number from %g to %g", flag, text, low, high)
	return &n
}

// Duration parses a duration above 0.
func (p *Problems) Duration(flag, text string) time.Duration {
	d, err := time.ParseDuration(text)
	p.Add(err != nil || d <= 0, "--%s: %q is not a time such as 90s, 2m or 1m30s", flag, text)
	return d
}

// Pairs parses words of the form key=value.
func (p *Problems) Pairs(flag string, words []string) map[string]string {
	pairs := map[string]string{}
	for _, word := range words {
		key, value, ok := strings.Cut(word, "=")
		if !ok || strings.TrimSpace(key) == "" {
			p.Add(true, "--%s: %q is not of the form key=value", flag, word)
			continue
		}
		_, duplicate := pairs[key]
		p.Add(duplicate, "--%s: the key %q is given twice", flag, key)
		pairs[key] = value
	}
	return pairs
}

// TrialName matches the end of the name that Langfuse has for a trial of a run after the first.
var TrialName = textutil.Pattern(`#[0-9]+$`)

// CheckRunName adds a problem if Langfuse cannot look up a run by this name, or another rule for
// names forbids it.
func CheckRunName(p *Problems, flag, name string) {
	switch {
	case strings.ContainsAny(name, "/,"):
		p.Add(true, "--%s: %q contains a slash or comma, which Langfuse cannot look up", flag, name)
	case TrialName().MatchString(name):
		p.Add(true, "--%s: %q ends in # and digits, which is kept for trials", flag, name)
	case name == "latest", name == "@baseline", strings.HasPrefix(name, "latest "), strings.HasPrefix(name, "langfuse:"):
		p.Add(true, "--%s: %q means another run to compare and check", flag, name)
	case name == "." || name == ".." || len(name) > 200 || name != strings.TrimSpace(name),
		!utf8.ValidString(name), strings.ContainsFunc(name, unicode.IsControl):
		p.Add(true, "--%s: %.200q is not a name: up to 200 bytes of text without control characters and spaces around it",
			flag, name)
	}
}
