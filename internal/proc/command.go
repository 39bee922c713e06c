package proc

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"

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
// An error names what is wrong, and repeats no argument, which may be a key: no word,
// an open quote, a NUL byte, or an unquoted |, <, >, & or ; that stands alone, because
// a shell was expected.
func Split(line string) ([]string, error) {
	if strings.ContainsRune(line, 0) {
		return nil, errors.New("the command has a NUL byte")
	}
	var words []string
	wrong := func(format, word string) error {
		if len(words) == 0 {
			return fmt.Errorf("the command: "+format, word)
		}
		return fmt.Errorf("the command %q: "+format, shorten(words[0]), word)
	}
	word, begun, plain := "", false, true
	for _, part := range append(commandPart().FindAllString(line, -1), " ") {
		switch first := part[0]; {
		case part == "'" || part == `"`:
			return nil, wrong("the quote %s is not closed", part)
		case strings.TrimSpace(part) == "":
			if begun && plain && slices.Contains(operators, word) {
				return nil, wrong("%s needs a shell and there is none: put the commands into a script and name that, or quote the word", word)
			}
			if begun {
				words = append(words, word)
			}
			word, begun, plain = "", false, true
			continue
		case first == '\'':
			word, plain = word+part[1:len(part)-1], false
		case first == '"':
			word, plain = word+unescape.Replace(part[1:len(part)-1]), false
		case first == '\\' && len(part) > 1:
			word, plain = word+part[1:], false
		default:
			word += part
		}
		begun = true
	}
	switch {
	case len(words) == 0:
		return nil, errors.New("the command is empty: name a program, as in './extract --flag'")
	case words[0] == "":
		return nil, errors.New("the command names no program: its first word is empty")
	}
	return words, nil
}

// commandPart is what a command line is made of: text in quotes, an escaped character,
// white space, other characters.
var commandPart = textutil.Pattern(`(?s)'[^']*'|"(?:[^"\\]|\\.)*"` +
	`|\\['"\\\s\v\x{85}\p{Z}]|[\s\v\x{85}\p{Z}]+|[^'"\\\s\v\x{85}\p{Z}]+|.`)

// unescape reads a text of double quotes.
var unescape = strings.NewReplacer(`\\`, `\`, `\"`, `"`)

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
