// Package settings reads what a command is told. A command line is put into the
// order that the command library needs, and a flag or command that is not there is
// refused with the one that may be meant. A setting may also come from the
// environment, the configuration file or its default, and each value knows where it
// came from. What is wrong with the values is collected, so that all of it is said at
// once. It knows no command.
package settings

import (
	"fmt"
	"strings"

	urfave "github.com/urfave/cli/v2"

	"extraction-experiment/configs"
)

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

// Resolve looks every setting up: flag, then environment, then file, then default. An
// environment variable that is set but empty counts as not set.
func Resolve(c *urfave.Context, table []Setting, getenv func(string) string, file configs.Experiment, path string) Values {
	out := Values{}
	for _, s := range table {
		out[s.Flag] = s.lookup(c, getenv, file, path)
	}
	return out
}

func (s Setting) lookup(c *urfave.Context, getenv func(string) string, file configs.Experiment, path string) Value {
	if c.IsSet(s.Flag) {
		if s.Many {
			return Value{c.StringSlice(s.Flag), fromFlag}
		}
		return Value{[]string{c.String(s.Flag)}, fromFlag} // of any flag
	}
	if s.Env != "" {
		if text := getenv(s.Env); text != "" {
			return Value{[]string{text}, s.Env}
		}
	}
	if words := file.Lookup(s.Flag); words != nil {
		return Value{words, path}
	}
	if s.Default != "" {
		return Value{[]string{s.Default}, FromDefault}
	}
	return Value{nil, NotSet}
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
	switch strings.ToLower(v.Text(flag)) {
	case "true", "1", "yes", "on":
		return true
	}
	return false
}
