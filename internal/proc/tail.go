package proc

import (
	"io"
	"strings"
	"sync"
	"unicode/utf8"
)

// tailSize is how much of standard error is kept, in bytes; tailLines how many
// of its last lines a message shows.
const (
	tailSize  = 4 << 10
	tailLines = 10
)

// tail is a writer that keeps the last tailSize bytes.
type tail struct {
	mu   sync.Mutex
	ring [tailSize]byte
	n    int // bytes written in all
}

// Write never fails.
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	size := len(p)
	if skip := len(p) - tailSize; skip > 0 {
		p = p[skip:]
		t.n += skip
	}
	for len(p) > 0 {
		k := copy(t.ring[t.n%tailSize:], p)
		t.n += k
		p = p[k:]
	}
	return size, nil
}

// text returns the last lines, valid UTF-8. A line whose beginning is lost is
// left out unless it is the only one.
func (t *tail) text() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.n <= tailSize {
		return lastLines(string(t.ring[:t.n]))
	}
	at := t.n % tailSize
	kept := string(t.ring[at:]) + string(t.ring[:at])
	if _, rest, ok := strings.Cut(kept, "\n"); ok && strings.TrimSpace(rest) != "" {
		kept = rest
	}
	return lastLines(kept)
}

func lastLines(text string) string {
	text = strings.ToValidUTF8(strings.TrimSpace(text), string(utf8.RuneError))
	lines := strings.Split(text, "\n")
	return strings.Join(lines[max(0, len(lines)-tailLines):], "\n")
}

// tee hands what processes write to standard error on to one writer, one
// write at a time. A writer that fails is left alone from then on: what a
// program says beside its answers must not fail a run.
type tee struct {
	mu  sync.Mutex
	to  io.Writer
	bad bool
}

// Write never fails.
func (t *tee) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.to != nil && !t.bad {
		_, err := t.to.Write(p)
		t.bad = err != nil
	}
	return len(p), nil
}
