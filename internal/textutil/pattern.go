package textutil

import (
	"regexp"
	"sync"
)

// Pattern is a regular expression that is compiled when it is first asked for, so that a
// program does not pay at its start for those that it does not use. It panics then
// where the expression is invalid. Safe for concurrent use.
func Pattern(expression string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expression) })
}
