package cli

import "strings"

// Takes says of a flag, by its name without dashes, whether it exists and
// whether it takes a value.
type Takes func(name string) (known, value bool)

// FlagsFirst moves flags before arguments, because the command library stops
// reading flags at the first argument and would silently ignore the rest.
// "--" ends the flags; a lone "-" is an argument; an unknown flag is moved too,
// so that the library names it.
func FlagsFirst(args []string, takes Takes) []string {
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
		if known, value := takes(name); known && value && !inline && i+1 < len(args) {
			i++
			flags = append(flags, args[i])
		}
	}
	if len(words) > 0 {
		flags = append(flags, "--")
	}
	return append(flags, words...)
}
