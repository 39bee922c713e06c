package proc

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"extraction-experiment/internal/secret"
	"extraction-experiment/internal/textutil"
)

// operators are words that only a shell understands.
var operators = []string{"|", "||", "&", "&&", ";", "<", ">", ">>", "2>", "2>&1", "<<"}

// Split takes a command line apart into words, without any shell.
//
// White space separates words. Between single quotes everything stands for
// itself. Between double quotes a backslash makes a following double quote or
// backslash literal. Outside of quotes it makes a following quote, backslash or
// white space literal; before anything else it stands for itself, so that
// C:\tools\extract.exe is one word as it looks. Quoted and unquoted parts that
// touch are one word, and "" is an empty one. Variables, patterns and ~ are not
// expanded.
//
// An error names what is wrong, and repeats no argument, which may be a key: no word, an open quote, a NUL byte, or an
// unquoted |, <, >, & or ; that stands alone, because a shell was expected. Time
// and memory are linear.
func Split(line string) ([]string, error) {
	if strings.ContainsRune(line, 0) {
		return nil, errors.New("the command has a NUL byte")
	}
	s := splitter{rest: line}
	for s.next() {
	}
	switch {
	case s.err != nil && len(s.words) > 1:
		return nil, fmt.Errorf("the command %q: %w", shorten(s.words[0]), s.err)
	case s.err != nil:
		return nil, fmt.Errorf("the command: %w", s.err)
	case len(s.words) == 0:
		return nil, fmt.Errorf("the command is empty: name a program, as in './extract --flag'")
	case s.words[0] == "":
		return nil, errors.New("the command names no program: its first word is empty")
	}
	return s.words, nil
}

type splitter struct {
	rest  string
	words []string
	err   error
}

// next reads one word; it returns false at the end and on an error.
func (s *splitter) next() bool {
	s.rest = strings.TrimLeftFunc(s.rest, unicode.IsSpace)
	if s.rest == "" {
		return false
	}
	var word strings.Builder
	quoted := false
	for s.rest != "" && s.err == nil {
		r, size := utf8.DecodeRuneInString(s.rest)
		if unicode.IsSpace(r) {
			break
		}
		if r == '\'' || r == '"' {
			quoted = true
			s.quoted(&word, byte(r))
			continue
		}
		if r == '\\' && escapes(s.rest[1:]) {
			quoted = true
			s.rest = s.rest[1:]
			_, size = utf8.DecodeRuneInString(s.rest)
		}
		word.WriteString(s.rest[:size])
		s.rest = s.rest[size:]
	}
	if !quoted && slices.Contains(operators, word.String()) {
		s.err = fmt.Errorf("%s needs a shell and there is none: put the commands into a script and name that, or quote the word", word.String())
	}
	s.words = append(s.words, word.String())
	return s.err == nil
}

// quoted reads up to the closing quote.
func (s *splitter) quoted(word *strings.Builder, quote byte) {
	for i := 1; i < len(s.rest); i++ {
		c := s.rest[i]
		switch {
		case c == quote:
			s.rest = s.rest[i+1:]
			return
		case c == '\\' && quote == '"' && i+1 < len(s.rest) && (s.rest[i+1] == '"' || s.rest[i+1] == '\\'):
			i++
			word.WriteByte(s.rest[i])
		default:
			word.WriteByte(c)
		}
	}
	s.err = fmt.Errorf("the quote %c is not closed", quote)
}

// escapes reports whether a backslash before rest makes its first character
// literal.
func escapes(rest string) bool {
	r, _ := utf8.DecodeRuneInString(rest)
	return rest != "" && (r == '\'' || r == '"' || r == '\\' || unicode.IsSpace(r))
}

// Shown returns a command line as it may be kept and shown: secrets of the
// environment and of its arguments are masked. One that Split refuses is not
// repeated.
func Shown(line string, environ []string) string {
	words, err := Split(line)
	if err != nil {
		return "a command that cannot be used: " + err.Error()
	}
	shown := secret.NewMasker(environ, words).Arguments(words)
	if slices.Equal(shown, words) {
		return strings.TrimSpace(line)
	}
	for i, word := range shown {
		if word == "" || strings.ContainsFunc(word, unicode.IsSpace) || strings.ContainsAny(word, `"'`) || slices.Contains(operators, word) {
			shown[i] = "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
		}
	}
	return strings.Join(shown, " ")
}

// shorten cuts a line for a message.
func shorten(line string) string { return textutil.Cut(line, 200) }
