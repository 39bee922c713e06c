// Package flags stands between the command library and the commands: it tells
// which flags take values, so that flags may stand behind arguments, and turns
// the library's usage errors into ours.
package flags

import (
	urfave "github.com/urfave/cli/v2"

	"extraction-experiment/internal/cli"
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
	return cli.Usage("%w (%s --help lists the flags)", err, c.App.Name)
}
