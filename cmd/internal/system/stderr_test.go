package system

import (
	"strings"
	"testing"
)

// TestPlain: what a program writes cannot steer the terminal nor fill it.
func TestPlain(t *testing.T) {
	var b strings.Builder
	p := newStderr(&b)
	if n, err := p.Write([]byte("loading\x1b[2J\nmodel\n")); n != 18 || err != nil || b.String() != "loading\\x1b[2J\nmodel\n" {
		t.Errorf("%d, %v: %q", n, err, b.String())
	}
	for range 100 {
		if n, err := p.Write([]byte(strings.Repeat("x", 10_000))); n != 10_000 || err != nil {
			t.Fatalf("%d, %v", n, err)
		}
	}
	if said := b.String(); len(said) > mostStderr+200 || strings.Count(said, "is not shown") != 1 {
		t.Errorf("%d bytes", len(said))
	}
}
