package runstore

import (
	"errors"
	"fmt"
	"strings"

	"extraction-experiment/internal/printable"
)

// maxNamed bounds how many lost rows a Loss names.
const maxNamed = 10

// Loss says what of a damaged run an export could not read. Everything else was
// written. It is ErrDamaged.
type Loss struct {
	Path string
	// Items and Outcomes are the rows that are known to be missing: where an
	// index is damaged too there may be more.
	Items, Outcomes int64
	// Parts are the lost parts of which there is one: "header", "footer".
	Parts []string
	// Named are the first of the lost rows, each with what was found.
	Named []string
	// WrittenItems and WrittenOutcomes are what was read.
	WrittenItems, WrittenOutcomes int64
}

// Error says what was kept, what is lost, and names the first of it.
func (l *Loss) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "run file %s is damaged: exported %s and %s; lost: %s",
		l.Path, printable.Counted(l.WrittenItems, "item"), printable.Counted(l.WrittenOutcomes, "outcome"), l.what())
	for _, name := range l.Named {
		b.WriteString("\n  " + name)
	}
	if more := l.Items + l.Outcomes - int64(len(l.Named)); more > 0 && len(l.Named) > 0 {
		fmt.Fprintf(&b, "\n  and %d more", more)
	}
	return b.String()
}

// Unwrap makes it an ErrDamaged.
func (l *Loss) Unwrap() error { return ErrDamaged }

// ExitCode is 74: what was asked for could not all be written.
func (l *Loss) ExitCode() int { return 74 }

func (l *Loss) what() string {
	parts := append([]string{}, l.Parts...)
	if l.Items > 0 {
		parts = append(parts, printable.Counted(l.Items, "item"))
	}
	if l.Outcomes > 0 {
		parts = append(parts, printable.Counted(l.Outcomes, "outcome"))
	}
	return strings.Join(parts, ", ")
}

func (l *Loss) any() bool { return l.Items+l.Outcomes > 0 || len(l.Parts) > 0 }

func (l *Loss) part(name string) { l.Parts = append(l.Parts, name) }

// name keeps what was found about a lost row, without the advice of a Fault.
func (l *Loss) name(row string, err error) {
	if len(l.Named) == maxNamed {
		return
	}
	var f *Fault
	if errors.As(err, &f) && f.Err != nil {
		err = f.Err
	}
	if text := err.Error(); strings.HasPrefix(text, row) {
		row = text
	} else {
		row += ": " + text
	}
	l.Named = append(l.Named, row)
}
