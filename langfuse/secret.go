package langfuse

import (
	"fmt"
	"io"
	"log/slog"
)

// hidden is what every way of printing a Secret gives.
const hidden = "***"

// Secret holds a key that must not be printed. Every formatting verb, JSON,
// text marshalling and structured logging give "***"; in an unexported field,
// where fmt does not ask a type how to print itself, the address of the key
// shows, not the key. The zero value is an empty key.
type Secret struct{ key *string }

// NewSecret returns the secret that holds key.
func NewSecret(key string) Secret { return Secret{&key} }

// Reveal returns the key itself, for the one place that sends it.
func (s Secret) Reveal() string {
	if s.key == nil {
		return ""
	}
	return *s.key
}

// String returns "***".
func (Secret) String() string { return hidden }

// GoString returns "***", so that %#v of a struct that holds a Secret is safe.
func (Secret) GoString() string { return hidden }

// Format writes "***" for every verb, %x and %q included.
func (Secret) Format(state fmt.State, _ rune) {
	// fmt keeps no error of a Formatter; the state's own writer reports it.
	_, _ = io.WriteString(state, hidden)
}

// MarshalJSON returns "***" as a JSON string.
func (Secret) MarshalJSON() ([]byte, error) { return []byte(`"` + hidden + `"`), nil }

// MarshalText returns "***".
func (Secret) MarshalText() ([]byte, error) { return []byte(hidden), nil }

// LogValue returns "***".
func (Secret) LogValue() slog.Value { return slog.StringValue(hidden) }
