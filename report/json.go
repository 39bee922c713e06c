package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"extraction-experiment/internal/printable"
)

// JSON writes v as one JSON value and a line end: on one line, or indented by
// two spaces. Numbers are not rounded. Letters stay as they are, but what
// could steer a terminal is escaped, so that the output can be looked at; it
// decodes to the same value.
//
// It writes once; the error is that of the encoder (a bug) or of the writer.
func JSON(w io.Writer, v any, indent bool) error {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if indent {
		e.SetIndent("", "  ")
	}
	if err := e.Encode(v); err != nil {
		return fmt.Errorf("encoding the report: %w", err)
	}
	if _, err := io.WriteString(w, quiet(b.String())); err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	return nil
}

// quiet escapes format and control characters outside of ASCII in JSON; they
// can only stand inside strings there.
func quiet(raw string) string {
	if !strings.ContainsFunc(raw, unsettling) {
		return raw
	}
	var b strings.Builder
	for _, r := range raw {
		switch {
		case !unsettling(r):
			b.WriteRune(r)
		case r > 0xffff:
			high, low := (r-0x10000)>>10+0xd800, (r-0x10000)&0x3ff+0xdc00
			fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

func unsettling(r rune) bool { return r >= 0x7f && printable.Steers(r) }
