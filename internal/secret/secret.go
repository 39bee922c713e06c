// Package secret holds keys that must not be printed, and takes them out of
// texts that were made by others.
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

// MarshalText returns "***", also for JSON and structured logging.
func (Secret) MarshalText() ([]byte, error) { return []byte(hidden), nil }

// Masker puts *** in place of what a program was given in confidence: it may
// repeat it in its answers, on standard error and in messages. The zero value
// masks nothing. Safe for concurrent use.
type Masker struct {
	secrets []held
	forms   [256][]string // what is looked for, by its first byte; the longest first
}

// held is a text that must not show, and the variable that holds it; none for an
// argument.
type held struct{ variable, text string }

// NewMasker returns a Masker for the secrets of an environment ("NAME=value") and
// for those that a command gives as values of flags such as --api-key. Texts of
// fewer than 8 bytes, or 5 with a letter and a digit, are not looked for.
func NewMasker(environ, command []string) *Masker {
	m := &Masker{}
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		if !variable(name, value) {
			continue
		}
		for _, text := range values(value) {
			m.secrets = append(m.secrets, held{name, text})
		}
	}
	for i, word := range command {
		if value := word[valueStart(command, i):]; worth(value) {
			m.secrets = append(m.secrets, held{"", value})
		}
	}
	for _, s := range m.secrets {
		for _, form := range written(s.text) {
			m.forms[form[0]] = append(m.forms[form[0]], form)
		}
	}
	for i := range m.forms {
		slices.SortFunc(m.forms[i], func(a, b string) int { return len(b) - len(a) })
		m.forms[i] = slices.Compact(m.forms[i])
	}
	return m
}

// written returns the ways in which a text is written: as it is, within JSON by
// several writers, and in an address.
func written(text string) []string {
	forms := []string{text, url.QueryEscape(text), url.PathEscape(text)}
	escaped, _ := json.Marshal(text) // a text can always be written
	for _, quoted := range []string{string(escaped), string(quote(text)), strconv.QuoteToASCII(text)} {
		forms = append(forms, quoted[1:len(quoted)-1])
	}
	return forms
}

// quote writes a text as JSON, which it can always be.
func quote(text string) []byte {
	quoted, _ := textutil.MarshalJSON(text)
	return quoted
}

// Text masks a text, as it is written and as JSON and addresses escape it.
func (m *Masker) Text(text string) string {
	masked, _ := m.scan(text, true)
	return string(masked)
}

// scan masks a text from left to right, the longest secret first. If more of the
// text is to come, it stops where that may complete a secret.
func (m *Masker) scan(text string, whole bool) (masked []byte, done int) {
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
			if !whole && strings.HasPrefix(form, rest) {
				return append(masked, text[copied:done]...), done
			}
		}
		done++
	}
	return append(masked, text[copied:]...), done
}

// fieldName is what keys of a protocol look like; they are not secrets, whatever a
// secret is.
var fieldName = textutil.Pattern(`^[a-z_]+$`)

// JSON masks the texts of a JSON value, keys included, which stays one; numbers
// with a secret become texts. What is not JSON is masked as a text.
func (m *Masker) JSON(raw []byte) []byte {
	if len(m.secrets) == 0 {
		return raw
	}
	if !json.Valid(raw) {
		return []byte(m.Text(string(raw)))
	}
	masked := make([]byte, 0, len(raw))
	for len(raw) > 0 {
		n, replaced := m.token(raw)
		if replaced == nil {
			replaced = raw[:n]
		}
		masked, raw = append(masked, replaced...), raw[n:]
	}
	return masked
}

// token masks the text, the number or the one byte that JSON begins with, and
// returns its length; nil where nothing is to be masked.
func (m *Masker) token(raw []byte) (n int, masked []byte) {
	text := ""
	switch c := raw[0]; {
	case c == '"':
		for n = 1; raw[n] != '"'; n++ {
			if raw[n] == '\\' {
				n++
			}
		}
		n++
		if json.Unmarshal(raw[:n], &text) != nil {
			return n, nil
		}
		if fieldName().MatchString(text) && bytes.HasPrefix(bytes.TrimLeft(raw[n:], " \t\r\n"), []byte(":")) {
			return n, nil
		}
	case c == '-' || c >= '0' && c <= '9':
		for n = 1; n < len(raw) && strings.IndexByte("+-.eE0123456789", raw[n]) >= 0; n++ {
		}
		text = string(raw[:n])
	default:
		return 1, nil
	}
	if shown := m.Text(text); shown != text {
		return n, quote(shown)
	}
	return n, nil
}

// Writer returns a writer that masks what it hands on to w, also what is divided
// between two writes: the beginning of a secret is kept back until the next
// write, or Close, which leaves w open. Errors are those of w. Not safe for
// concurrent use.
func (m *Masker) Writer(w io.Writer) io.WriteCloser { return &maskingWriter{m: m, to: w} }

type maskingWriter struct {
	m    *Masker
	to   io.Writer
	kept string
}

// Write masks and hands on.
func (w *maskingWriter) Write(p []byte) (int, error) { return len(p), w.pass(string(p), false) }

// Close hands on what was kept back.
func (w *maskingWriter) Close() error { return w.pass("", true) }

func (w *maskingWriter) pass(text string, whole bool) error {
	text = w.kept + text
	masked, done := w.m.scan(text, whole)
	w.kept = text[done:]
	if len(masked) == 0 {
		return nil
	}
	_, err := w.to.Write(masked)
	return err
}
