package provider

import (
	"fmt"
	"strings"

	"extraction-experiment/internal/nearest"
	"extraction-experiment/internal/printable"
)

// maxShown bounds how much of a spec a message repeats, in bytes.
const maxShown = 80

// UnknownError is returned for a spec that no provider takes.
type UnknownError struct {
	Spec    string   // as it was given
	Nearest string   // the provider most like it; empty if none is
	Known   []string // every form
}

// Error names the spec, the nearest form if one is near, and all forms.
func (e *UnknownError) Error() string {
	hint := ""
	if e.Nearest != "" {
		hint = fmt.Sprintf("; did you mean %q?", e.Nearest)
	}
	return fmt.Sprintf("unknown model %q%s (there are: %s)", printable.Cut(e.Spec, maxShown), hint, strings.Join(e.Known, ", "))
}

// ExitCode is that of a wrong usage.
func (e *UnknownError) ExitCode() int { return 64 }

func unknown(spec string) *UnknownError {
	e := &UnknownError{Spec: spec}
	var names []string
	for _, r := range table() {
		e.Known, names = append(e.Known, r.form), append(names, r.name)
	}
	kind, _, _ := strings.Cut(strings.TrimSpace(spec), "/")
	e.Nearest = nearest.Word(kind, names)
	return e
}
