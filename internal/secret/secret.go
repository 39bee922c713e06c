// Package secret holds keys that must not be printed, and takes them out of
// texts that were made by others.
package secret

import (
	"fmt"
	"io"
	"log/slog"
)

// hidden is what every way of printing a Secret gives.
const hidden = "***"

// Secret is a key. Every formatting verb, JSON, text marshalling and structured
// logging give "***"; where fmt does not ask a type how to print itself, in an
// unexported field, an address shows and not the key. The zero value is an
// empty key.
type Secret struct{ key *string }

// New returns the secret that holds key.
func New(key string) Secret { return Secret{&key} }

// Reveal returns the key, for the one place that sends it.
func (s Secret) Reveal() string {
	if s.key == nil {
		return ""
	}
	return *s.key
}

// String returns "***".
func (Secret) String() string { return hidden }

// GoString returns "***", for %#v.
func (Secret) GoString() string { return hidden }

// Format writes "***" for every verb.
func (Secret) Format(state fmt.State, _ rune) {
	// A Formatter cannot return an error; fmt's own writer takes everything.
	_, _ = io.WriteString(state, hidden)
}

// MarshalJSON returns "***" as a JSON string.
func (Secret) MarshalJSON() ([]byte, error) { return []byte(`"` + hidden + `"`), nil }

// MarshalText returns "***".
func (Secret) MarshalText() ([]byte, error) { return []byte(hidden), nil }

// LogValue returns "***".
func (Secret) LogValue() slog.Value { return slog.StringValue(hidden) }
