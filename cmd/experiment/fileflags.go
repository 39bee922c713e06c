package main

import (
	"slices"
	"strings"

	urfave "github.com/urfave/cli/v2"

	"extraction-experiment/cmd/internal/flags"
	"extraction-experiment/internal/cli"
)

// filesNamed refuses a flag that names a file with an empty name, as a variable
// of a shell that is not set leaves it: the work would be done, and the file
// written nowhere. args are in the order of cli.FlagsFirst.
func filesNamed(list []urfave.Flag, args []string) error {
	takes := flags.Takes(list)
	for i := 0; i < len(args) && args[i] != "--"; i++ {
		flag, value, inline := strings.Cut(args[i], "=")
		name := strings.TrimLeft(flag, "-")
		if _, valued := takes(name); !valued {
			continue
		}
		if !inline {
			i++
			value = args[i]
		}
		named := func(f urfave.Flag) bool { return slices.Contains(f.Names(), name) && takesFile(f) }
		if value == "" && slices.ContainsFunc(list, named) {
			return cli.Usage("%s needs a value, and it is empty: give one, or leave the flag out", flag)
		}
	}
	return nil
}

// takesFile reports whether the value of a flag may be a file: the word in
// backquotes that stands for it in the help says so.
func takesFile(f urfave.Flag) bool {
	documented, ok := f.(urfave.DocGenerationFlag)
	if !ok {
		return false
	}
	_, rest, _ := strings.Cut(documented.GetUsage(), "`")
	value, _, _ := strings.Cut(rest, "`")
	return slices.Contains(strings.Split(value, "|"), "FILE")
}
