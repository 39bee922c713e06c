// Package terminal looks at the terminal that a command talks to.
package terminal

import (
	"os"

	"golang.org/x/term"
)

// Width returns the width of the terminal behind standard error, 0 if there is
// none. It is asked again each time, because windows are resized.
func Width() int {
	fd := int(os.Stderr.Fd())
	if !term.IsTerminal(fd) {
		return 0
	}
	width, _, err := term.GetSize(fd)
	if err != nil || width <= 0 {
		return 80 // a terminal that does not tell, as over a serial line
	}
	return width
}
