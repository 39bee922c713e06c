package textutil

import (
	"errors"
	"fmt"
)

// Problems collects everything that is wrong with an input, so that it can be said at once.
type Problems []error

// Add adds a problem if wrong is true; %w works as in fmt.Errorf.
func (p *Problems) Add(wrong bool, format string, args ...any) {
	if wrong {
		*p = append(*p, fmt.Errorf(format, args...))
	}
}

// Join adds errors; nil is ignored.
func (p *Problems) Join(errs ...error) { *p = append(*p, errs...) }

// ExactlyOne says whether exactly one of the conditions is true.
func ExactlyOne(conditions ...bool) bool {
	count := 0
	for _, is := range conditions {
		if is {
			count++
		}
	}
	return count == 1
}

// In joins the problems of a file in an error with its name, or returns nil if there are none.
func (p Problems) In(file string) error {
	if err := errors.Join(p...); err != nil {
		return fmt.Errorf("reading %s: %w", file, err)
	}
	return nil
}
