package seed

import (
	"strings"
	"testing"
)

// Files that do not fit are told in the words of the files, never in those of
// the program.
func TestDecodeYAML_words(t *testing.T) {
	mapping := func(text string) error { _, err := ParseMapping([]byte(text)); return err }
	patterns := func(text string) error { _, err := ParseRedaction([]byte(text)); return err }
	for text, tt := range map[string]struct {
		parse func(string) error
		want  string
	}{
		"patterns: 5":                {patterns, `line 1: found "5", expected a list`},
		"\nfields: {a: b}":           {patterns, "line 2: found keys with values, expected a list"},
		"a: b":                       {patterns, `line 1: the key "a" is none of this file's`},
		"patterns: [x]":              {patterns, `line 1: found "x", expected keys with values`},
		"- a":                        {patterns, "line 1: found a list, expected keys with values"},
		"patterns: [{name: [1]}]":    {patterns, "line 1: found a list, expected a text"},
		"observation: {nam: x}":      {mapping, `line 1: the key "nam" is none of this file's`},
		"expected: {a: b}":           {mapping, "line 1: found keys with values, expected a list"},
		"input: {a: [[b]]}":          {mapping, "line 1: found a list, expected a text"},
		"evidence: {tags: x}":        {mapping, `line 1: found "x", expected a list`},
		"evidence: {scores: {a: 1}}": {mapping, "line 1: found keys with values, expected a list"},
		"a: 1\nb: 2\nevidence: 3\n":  {mapping, "line 3: found"},
	} {
		err := tt.parse(text)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%q: %v, want %q", text, err, tt.want)
			continue
		}
		for _, word := range []string{"struct", "unmarshal", "[]", "map[", "seed.", "!!"} {
			if strings.Contains(err.Error(), word) {
				t.Errorf("%q: %v says %q", text, err, word)
			}
		}
	}
}
