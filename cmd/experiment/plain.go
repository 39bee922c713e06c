package main

import (
	"io"
	"sync"

	"extraction-experiment/internal/printable"
)

// mostPlain bounds what is shown of the standard error of a program, in bytes.
const mostPlain = 64 << 10

// plain passes on what a team's program writes to standard error: harmless to a
// terminal, and no more than mostPlain of it. An error is that of the writer behind
// it, which package proc does not let the program feel. Safe for concurrent use.
type plain struct {
	to io.Writer

	mu   sync.Mutex
	left int
}

func newPlain(to io.Writer) *plain { return &plain{to: to, left: mostPlain} }

// Write shows what there is room for.
func (p *plain) Write(text []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.left <= 0 {
		return len(text), nil
	}
	shown := printable.Block(string(text[:min(len(text), p.left)]))
	if p.left -= len(text); p.left <= 0 {
		shown += "\n… what the program writes to standard error beyond this is not shown\n"
	}
	_, err := io.WriteString(p.to, shown)
	return len(text), err
}
