package provider

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/agnivade/levenshtein"
)

// maxShown bounds how much of a spec a message repeats, in bytes.
const maxShown = 80

// UnknownError is returned for a spec that no provider takes.
type UnknownError struct {
	Spec    string   // as it was given
	Nearest string   // the form most like it
	Known   []string // every form
}

// Error names the spec, the nearest form and all forms.
func (e *UnknownError) Error() string {
	return fmt.Sprintf("unknown model %q: did you mean %q? known are: %s", shown(e.Spec), e.Nearest, strings.Join(e.Known, ", "))
}

// ExitCode is that of a wrong usage.
func (e *UnknownError) ExitCode() int { return 64 }

func unknown(spec string) *UnknownError {
	e := &UnknownError{Spec: spec}
	kind, _, _ := strings.Cut(strings.ToLower(strings.TrimSpace(shown(spec))), "/")
	best := -1
	for _, r := range table() {
		e.Known = append(e.Known, r.form)
		if d := levenshtein.ComputeDistance(kind, r.name); best < 0 || d < best {
			best, e.Nearest = d, r.form
		}
	}
	return e
}

// shown cuts a long spec at a character's border.
func shown(spec string) string {
	spec = strings.ToValidUTF8(spec, string(utf8.RuneError))
	if len(spec) <= maxShown {
		return spec
	}
	end := maxShown
	for !utf8.RuneStart(spec[end]) {
		end--
	}
	return spec[:end] + "…"
}
