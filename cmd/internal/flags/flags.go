// Package flags stands between the command library and the commands: it tells
// which flags take values, so that flags may stand behind arguments, and turns
// the library's usage errors into ours.
package flags

import (
	"slices"
	"strings"

	urfave "github.com/urfave/cli/v2"

	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/nearest"
)

// Takes answers for a list of flags, their aliases included.
func Takes(flags []urfave.Flag) cli.Takes {
	values := map[string]bool{}
	for _, f := range flags {
		isSwitch := standsAlone(f)
		for _, name := range f.Names() {
			values[name] = !isSwitch
		}
	}
	return func(name string) (bool, bool) {
		value, known := values[name]
		return known, value
	}
}

// standsAlone reports whether the word behind the flag is not its value.
func standsAlone(f urfave.Flag) bool {
	switch f := f.(type) {
	case *urfave.BoolFlag:
		return true
	case *urfave.GenericFlag:
		value, ok := f.Value.(interface{ IsBoolFlag() bool })
		return ok && value.IsBoolFlag()
	}
	return false
}

// UsageError is the OnUsageError of every command.
func UsageError(c *urfave.Context, err error, _ bool) error {
	if name, unknown := strings.CutPrefix(err.Error(), "flag provided but not defined: -"); unknown {
		return Unknown(slices.Concat(c.App.Flags, c.Command.Flags), c.App.Name, name)
	}
	return cli.Usage("%w (%s --help lists the flags)", err, c.App.Name)
}

// Unknown says that there is no flag of that name, and which one may be meant.
func Unknown(flags []urfave.Flag, program, name string) error {
	var names []string
	for _, f := range flags {
		names = append(names, f.Names()...)
	}
	if meant := nearest.Word(name, names); meant != "" {
		return cli.Usage("there is no flag --%s; did you mean --%s?", name, meant)
	}
	return cli.Usage("there is no flag --%s (%s --help lists the flags)", name, program)
}
