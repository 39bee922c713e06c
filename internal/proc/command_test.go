package proc

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestSplit(t *testing.T) {
	tests := map[string]struct {
		line  string
		words []string
		err   string
	}{
		"plain":               {"./extract --flag", []string{"./extract", "--flag"}, ""},
		"white space":         {" \t a\n b  ", []string{"a", "b"}, ""},
		"single quotes":       {`a 'b "c" \d'`, []string{"a", `b "c" \d`}, ""},
		"double quotes":       {`a "b 'c' \"d\" \\ \e"`, []string{"a", `b 'c' "d" \ \e`}, ""},
		"touching parts":      {`a --x='1 2'"3"4`, []string{"a", "--x=1 234"}, ""},
		"empty words":         {`a '' ""`, []string{"a", "", ""}, ""},
		"escaped space":       {`a\ b c\'`, []string{"a b", "c'"}, ""},
		"windows path":        {`C:\tools\extract.exe \n`, []string{`C:\tools\extract.exe`, `\n`}, ""},
		"backslash at end":    {`a \`, []string{"a", `\`}, ""},
		"ideographic space":   {"a\u3000b", []string{"a", "b"}, ""},
		"no expansion":        {`a $HOME *.go ~ #x`, []string{"a", "$HOME", "*.go", "~", "#x"}, ""},
		"quoted operator":     {`a '|' \"`, []string{"a", "|", `"`}, ""},
		"invalid UTF-8 stays": {"a \xff'\xfe'", []string{"a", "\xff\xfe"}, ""},
		"empty":               {"  ", nil, "is empty"},
		"no program":          {`"" x`, nil, "names no program"},
		"open quote":          {`a "b`, nil, `the quote " is not closed`},
		"pipe":                {`a | b`, nil, "needs a shell and there is none"},
		"redirection":         {`a 2>&1`, nil, "needs a shell"},
		"NUL":                 {"a\x00b", nil, "NUL byte"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			words, err := Split(test.line)
			if test.err != "" {
				if err == nil || !strings.Contains(err.Error(), test.err) {
					t.Fatalf("got %q, %v", words, err)
				}
				return
			}
			if err != nil || !slices.Equal(words, test.words) {
				t.Errorf("got %q, %v, want %q", words, err, test.words)
			}
		})
	}
}

// TestSplit_quotedWordsComeBack checks that Split returns the original words, whichever way they
// are quoted.
func TestSplit_quotedWordsComeBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		words := rapid.SliceOfN(rapid.StringMatching(`[^\x00]{0,12}`), 1, 6).Draw(t, "words")
		if words[0] == "" {
			words[0] = "a"
		}
		double := rapid.Bool().Draw(t, "double")
		var quoted []string
		for _, w := range words {
			if double {
				quoted = append(quoted, `"`+strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(w)+`"`)
			} else {
				quoted = append(quoted, `'`+strings.ReplaceAll(w, `'`, `'\''`)+`'`)
			}
		}
		got, err := Split(strings.Join(quoted, " "))
		if err != nil || !slices.Equal(got, words) {
			t.Fatalf("%q came back as %q, %v", words, got, err)
		}
	})
}

func FuzzSplit(f *testing.F) {
	for _, seed := range []string{"a b", `"`, `a'\''b`, "\\", "\xff", "a | b"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, line string) {
		words, err := Split(line)
		if err != nil {
			return
		}
		if len(words) == 0 || words[0] == "" {
			t.Fatalf("%q: no program", line)
		}
		if size := len(strings.Join(words, "")); size > len(line) {
			t.Fatalf("%q grew to %q", line, words)
		}
	})
}

func TestTail(t *testing.T) {
	long := strings.Repeat("0123456789abcdef", 1000)
	tests := map[string]struct {
		writes []string
		want   string
	}{
		"nothing":            {nil, ""},
		"short":              {[]string{"a\n", "b\n"}, "a\nb"},
		"the last ten lines": {[]string{"1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11\n12\n"}, "3\n4\n5\n6\n7\n8\n9\n10\n11\n12"},
		"one long line":      {[]string{long}, long[:tailSize]},
		"invalid UTF-8":      {[]string{"a\xff"}, "a\uFFFD"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var kept tail
			for _, w := range test.writes {
				if n, err := kept.Write([]byte(w)); n != len(w) || err != nil {
					t.Fatal(n, err)
				}
			}
			if got := kept.text(); got != test.want {
				t.Errorf("got %d bytes %.60q, want %.60q", len(got), got, test.want)
			}
		})
	}
}

func TestShown(t *testing.T) {
	environ := []string{"A_KEY=s3cr3t-of-the-environment"}
	for line, want := range map[string]string{
		" python3 'my p.py'  -v ":                      "python3 'my p.py'  -v",
		"p --api-key=X --out o":                        "p --api-key=*** --out o",
		"p --auth-token 'a b' 'c d'":                   "p --auth-token *** 'c d'",
		"p 'it is' \"it's\" s3cr3t-of-the-environment": `p 'it is' 'it'\''s' ***`,
		"p --token 'open":                              `a command that cannot be used: the command "p": the quote ' is not closed`,
	} {
		if got := Shown(line, environ); got != want {
			t.Errorf("%s: got %s, want %s", line, got, want)
		}
	}
}
