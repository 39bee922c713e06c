package langfuse

import (
	"fmt"
	"io"
	"log/slog"
)

// hidden is what every way of printing a Secret gives.
const hidden = "***"

// Secret holds a key that must not be printed. Every formatting verb, JSON,
// text marshalling and structured logging give "***" instead; convert with
// string(s) where the key itself is needed.
type Secret string

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
