package main

import (
	"fmt"
	"strings"

	urfave "github.com/urfave/cli/v2"

	"extraction-experiment/configs"
)

// setting is a value that may come from a flag, the environment, the
// configuration file or its default, in this order of precedence.
type setting struct {
	flag, alias, env, fallback string
	// toggle makes it a switch, which takes no value; many allows the flag to
	// be repeated; bare lets it stand without a value, which then is "true".
	toggle, many, bare bool
	// usage is the help; the word in backquotes stands for the value.
	usage string
}

// flagFor translates the setting for the command library. Its default is not
// given to the library, so that "not set" can be told from "set to the default".
func (s setting) flagFor() urfave.Flag {
	usage := s.usage
	if s.fallback != "" {
		usage += fmt.Sprintf(" (default: %s)", s.fallback)
	}
	if s.env != "" {
		usage += fmt.Sprintf(" [$%s]", s.env)
	}
	var aliases []string
	if s.alias != "" {
		aliases = []string{s.alias}
	}
	switch {
	case s.many:
		return &urfave.StringSliceFlag{Name: s.flag, Aliases: aliases, Usage: usage}
	case s.bare:
		return &urfave.GenericFlag{Name: s.flag, Aliases: aliases, Usage: usage, Value: &optional{}}
	case s.toggle:
		return &urfave.BoolFlag{Name: s.flag, Aliases: aliases, Usage: usage, DisableDefaultText: true}
	default:
		return &urfave.StringFlag{Name: s.flag, Aliases: aliases, Usage: usage}
	}
}

// resolved is what a setting came to, and where from.
type resolved struct {
	words []string
	from  string
}

// settings are the resolved values of a command, by flag.
type settings map[string]resolved

// resolve looks every setting up: flag, then environment, then file, then
// default. An environment variable that is set but empty counts as not set.
func resolve(c *urfave.Context, table []setting, getenv func(string) string, file configs.Experiment, path string) settings {
	out := settings{}
	for _, s := range table {
		out[s.flag] = s.lookup(c, getenv, file, path)
	}
	return out
}

func (s setting) lookup(c *urfave.Context, getenv func(string) string, file configs.Experiment, path string) resolved {
	if c.IsSet(s.flag) {
		switch {
		case s.many:
			return resolved{c.StringSlice(s.flag), "flag"}
		case s.bare:
			return resolved{[]string{fmt.Sprint(c.Generic(s.flag))}, "flag"}
		case s.toggle:
			return resolved{[]string{fmt.Sprint(c.Bool(s.flag))}, "flag"}
		default:
			return resolved{[]string{c.String(s.flag)}, "flag"}
		}
	}
	if s.env != "" {
		if text := getenv(s.env); text != "" {
			return resolved{[]string{text}, s.env}
		}
	}
	if words := file.Lookup(s.flag); words != nil {
		return resolved{words, path}
	}
	if s.fallback != "" {
		return resolved{[]string{s.fallback}, "default"}
	}
	return resolved{nil, "not set"}
}

// text returns the value of a setting that is given once; "" if it is not set.
func (s settings) text(flag string) string {
	if words := s[flag].words; len(words) > 0 {
		return words[0]
	}
	return ""
}

func (s settings) all(flag string) []string { return s[flag].words }

func (s settings) on(flag string) bool {
	switch strings.ToLower(s.text(flag)) {
	case "true", "1", "yes", "on":
		return true
	}
	return false
}
