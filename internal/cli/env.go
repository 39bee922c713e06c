package cli

import "io"

// Env is the outside world of a command; tests replace it.
type Env struct {
	Args   []string // without the program's name
	Stdin  io.Reader
	Stdout io.Writer
	Stderr io.Writer
	Getenv func(string) string
	// Terminal reports the width of the terminal behind Stderr, 0 if there is none.
	Terminal func() int
}
