package cli

import "strings"

// Takes says of a flag, by its name without dashes, whether it exists and
// whether it takes a value.
type Takes func(name string) (known, value bool)

// FlagsFirst moves flags before arguments, because the command library stops
// reading flags at the first argument and would silently ignore the rest.
// "--" ends the flags; a lone "-" is an argument; an unknown flag is moved too,
// so that the library names it.
//
// A flag that needs a value and has none is an error of usage: what begins with a
// dash is no value, but for "-" and negative numbers, with or without a unit.
// Behind = anything is one.
func FlagsFirst(args []string, takes Takes) ([]string, error) {
	var flags, words []string
	for i := 0; i < len(args); i++ {
		arg := args[i]
		if arg == "--" {
			words = append(words, args[i+1:]...)
			break
		}
		if arg == "-" || !strings.HasPrefix(arg, "-") {
			words = append(words, arg)
			continue
		}
		flags = append(flags, arg)
		name, _, inline := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		if known, value := takes(name); !known || !value || inline {
			continue
		}
		i++
		switch {
		case i == len(args) || args[i] == "--":
			return nil, Usage("%s needs a value", arg)
		case !isValue(args[i]):
			return nil, Usage("%s needs a value, and %s looks like a flag: write %s=%s if it is the value", arg, args[i], arg, args[i])
		}
		flags = append(flags, args[i])
	}
	if len(words) > 0 {
		flags = append(flags, "--")
	}
	return append(flags, words...), nil
}

// isValue tells a value from a flag, whose name does not begin with a digit.
func isValue(word string) bool {
	rest, dashed := strings.CutPrefix(word, "-")
	return !dashed || rest == "" || strings.ContainsRune(".0123456789", rune(rest[0]))
}
