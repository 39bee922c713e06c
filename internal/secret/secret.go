// Package secret holds keys that must not be printed, and masks them in texts of programs and
// servers.
package secret

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"extraction-experiment/internal/textutil"
)

// hidden is the printed form of a Secret.
const hidden = "***"

// Secret is a key. All formatting verbs, JSON, text marshalling and structured logging print
// "***". In an unexported field, where fmt does not call methods, an address is printed instead
// of the key. The zero value is an empty key.
type Secret struct{ key *string }

// New returns a Secret that holds key.
func New(key string) Secret { return Secret{&key} }

// Reveal returns the key. Only code that sends the key may call it.
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
	// Format cannot return an error. The writer of fmt never fails.
	_, _ = io.WriteString(state, hidden)
}

// MarshalText returns "***", also for JSON and structured logging.
func (Secret) MarshalText() ([]byte, error) { return []byte(hidden), nil }

// Masker replaces secrets by ***. A program may repeat the secrets that it gets in its answers,
// in its standard error and in messages. The zero value masks nothing. A Masker is safe for
// concurrent use.
type Masker struct {
	secrets []secretText
	forms   [256][]string // the encodings of the secrets by their first byte, the longest first
}

// secretText is a text to mask, and the variable that contains it, or "" for an argument.
type secretText struct{ variable, text string }

// NewMasker returns a Masker for the secrets of an environment ("NAME=value") and for the
// secrets that a command contains as values of flags like --api-key. It does not mask texts
// with fewer than 8 bytes, or fewer than 5 if they have a letter and a digit.
func NewMasker(environ, command []string) *Masker {
	m := &Masker{}
	add := func(variable, text string) {
		m.secrets = append(m.secrets, secretText{variable, text})
		for _, form := range encodings(text) {
			m.forms[form[0]] = append(m.forms[form[0]], form)
		}
	}
	for _, entry := range environ {
		if name, value, _ := strings.Cut(entry, "="); isSecret(name, value) {
			for _, text := range secretTexts(value) {
				add(name, text)
			}
		}
	}
	for i, word := range command {
		if value := word[valueStart(command, i):]; maskable(value) {
			add("", value)
		}
	}
	for i := range m.forms {
		slices.SortFunc(m.forms[i], func(a, b string) int { return len(b) - len(a) })
		m.forms[i] = slices.Compact(m.forms[i])
	}
	return m
}

// encodings returns the forms in which a text may appear: unchanged, as JSON of several
// encoders, and in a URL.
func encodings(text string) []string {
	forms := []string{text, url.QueryEscape(text), url.PathEscape(text)}
	escaped, _ := json.Marshal(text) // a text cannot fail
	for _, quoted := range []string{string(escaped), string(quote(text)), strconv.QuoteToASCII(text)} {
		forms = append(forms, quoted[1:len(quoted)-1])
	}
	return forms
}

// quote returns a text as JSON.
func quote(text string) []byte {
	quoted, _ := textutil.MarshalJSON(text)
	return quoted
}

// jsonEscape matches the escapes of JSON that stand for visible ASCII characters, also those of JSON within JSON, whose
// backslashes are escaped.
var jsonEscape = textutil.Pattern(`\\+(?:u00[2-7][0-9A-Fa-f]|/)`)

// Text masks a text. It also finds secrets that are escaped for JSON or for URLs. If characters
// of a secret have escapes that are not necessary, the text is returned without such escapes.
func (m *Masker) Text(text string) string {
	masked, _ := m.scan(text, true)
	if !bytes.Contains(masked, []byte(`\u00`)) && !bytes.Contains(masked, []byte(`\/`)) {
		return string(masked)
	}
	plain := jsonEscape().ReplaceAllFunc(masked, func(escape []byte) []byte {
		if c := textutil.JSONText([]byte(`"\` + strings.TrimLeft(string(escape), `\`) + `"`)); c != `"` && c != `\` {
			return []byte(c)
		}
		return escape
	})
	if shown, _ := m.scan(string(plain), true); !bytes.Equal(shown, plain) {
		return string(shown)
	}
	return string(masked)
}

// scan masks a text from left to right. At each position it masks the longest secret. If final
// is false, more text follows, and scan stops where this text may complete a secret.
func (m *Masker) scan(text string, final bool) (masked []byte, done int) {
	copied := 0
next:
	for done < len(text) {
		rest := text[done:]
		for _, form := range m.forms[rest[0]] {
			if strings.HasPrefix(rest, form) {
				masked = append(append(masked, text[copied:done]...), hidden...)
				done += len(form)
				copied = done
				continue next
			}
			if !final && strings.HasPrefix(form, rest) {
				return append(masked, text[copied:done]...), done
			}
		}
		done++
	}
	return append(masked, text[copied:]...), done
}

// fieldName matches the keys of a protocol, which are not masked even if they equal a secret.
var fieldName = textutil.Pattern(`^[a-z_]+$`)

// JSON masks the texts of a JSON value, including keys that are no names of fields. The result is
// valid JSON; numbers that contain a secret become texts. If raw is not JSON, it is masked as a text.
func (m *Masker) JSON(raw []byte) []byte {
	switch {
	case len(m.secrets) == 0:
		return raw
	case !json.Valid(raw):
		return []byte(m.Text(string(raw)))
	}
	masked := make([]byte, 0, len(raw))
	for len(raw) > 0 {
		if c := raw[0]; c == '"' || c == '-' || c >= '0' && c <= '9' {
			token, rest := textutil.CutJSON(raw)
			masked, raw = append(masked, m.token(token, rest)...), rest
			continue
		}
		masked, raw = append(masked, raw[0]), raw[1:]
	}
	return masked
}

// token masks a text or a number in JSON, before rest.
func (m *Masker) token(token, rest []byte) []byte {
	text := string(token)
	if token[0] == '"' {
		text = textutil.JSONText(token)
		isKey := bytes.HasPrefix(bytes.TrimLeft(rest, " \t\r\n"), []byte(":"))
		if isKey && fieldName().MatchString(text) {
			return token
		}
	}
	if shown := m.Text(text); shown != text {
		return quote(shown)
	}
	return token
}

// Writer returns a writer that masks a text and writes it to w. It also masks secrets that are
// split between two writes: it keeps the beginning of a possible secret until the next Write or
// Close. Close does not close w. Errors are those of w. The writer is not safe for concurrent
// use.
func (m *Masker) Writer(w io.Writer) io.WriteCloser { return &maskingWriter{m: m, to: w} }

type maskingWriter struct {
	m       *Masker
	to      io.Writer
	pending string
}

// Write masks p and writes it, except for the beginning of a possible secret at its end.
func (w *maskingWriter) Write(p []byte) (int, error) { return len(p), w.mask(string(p), false) }

// Close writes the rest.
func (w *maskingWriter) Close() error { return w.mask("", true) }

func (w *maskingWriter) mask(text string, final bool) error {
	text = w.pending + text
	masked, done := w.m.scan(text, final)
	w.pending = text[done:]
	if len(masked) == 0 {
		return nil
	}
	_, err := w.to.Write(masked)
	return err
}
