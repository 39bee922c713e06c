package secret

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestIsSecretName(t *testing.T) {
	for _, name := range []string{
		"OPENAI_API_KEY", "APIKEY", "key_2", "SECRET_BASE", "ClientSecret", "GH_TOKEN", "TOKENS", "PGPASSWORD", "KEY_PASSPHRASE",
		"GOOGLE_APPLICATION_CREDENTIALS", "NPM_CONFIG__AUTH", "HTTP_AUTHORIZATION", "AZURE_PAT", "PAT", "SENTRY_DSN", "OPENAI_EXTRA_HEADERS", "DB_PASS",
	} {
		if !IsSecretName(name) {
			t.Errorf("%s speaks of a secret", name)
		}
	}
	for _, name := range []string{"PATH", "GIT_AUTHOR_NAME", "KEYBOARD_LAYOUT", "SEARCH_KEYWORDS", "TOKENIZERS_PARALLELISM", "COMPASS", "PATTERN", "HOME", ""} {
		if IsSecretName(name) {
			t.Errorf("%s does not speak of a secret", name)
		}
	}
}

func TestWithhold(t *testing.T) {
	given, withheld := Withhold([]string{
		"PATH=/bin", "X_TOKEN=a", "EMPTY_KEY=", "LANGFUSE_BASE_URL=http://h", "OPENAI_BASE_URL=http://h", "JUDGE_KEY=b",
		"HTTPS_PROXY=http://user:pw@host:3128", "NO_PROXY=localhost", "SITE=https://host:80/@x", "FORM={\"mail\":\"a@b\"}",
		"IMAGE=app:production@sha256:01ab", "CONTACT=mailto:jonathan@example.org", `HOME=C:\Users\ann@corp.com`, "DSN_2=u:hunter2@tcp(h)/db", "LIST=app:1.0@sha256:01ab,https://user:hunter22@host",
	}, []string{"JUDGE_KEY"})
	if want := []string{"PATH=/bin", "JUDGE_KEY=b", "NO_PROXY=localhost", "SITE=https://host:80/@x", "FORM={\"mail\":\"a@b\"}",
		"IMAGE=app:production@sha256:01ab", "CONTACT=mailto:jonathan@example.org", `HOME=C:\Users\ann@corp.com`}; !slices.Equal(given, want) {
		t.Errorf("given %q, want %q", given, want)
	}
	if want := []string{"DSN_2", "HTTPS_PROXY", "LANGFUSE_BASE_URL", "LIST", "OPENAI_BASE_URL", "X_TOKEN"}; !slices.Equal(withheld, want) {
		t.Errorf("withheld %q, want %q", withheld, want)
	}
}

// newTestMasker returns a Masker for variables and arguments of many forms, some of which hold no
// secret.
func newTestMasker() *Masker {
	return NewMasker([]string{
		"A_KEY=secret-12", "B_TOKEN=secret-1234", "PATH=/usr/local/bin", "C_SECRET=short", "D_TOKEN=true", "db_password=hunter2hunter2",
		`OPENAI_EXTRA_HEADERS={"X-Key":"UNIQ1","X-List":["in a \"list\""],"Authorization":"Bearer bearer-key","n":12345678}`,
		"OTEL_HEADERS=x-team=team-key-7,y=1", "DATABASE_URL=postgres://me:p%40ssw0rd@host/db", "F_KEY=line one of two\nline two of two", "N_PASSWORD=98765432", "G_KEY=/dev/null",
	}, []string{"prog", "--api-key", "argument-key", "--max-tokens", "12345678"})
}

func TestMasker_Text(t *testing.T) {
	m := newTestMasker()
	for text, want := range map[string]string{
		"secret-1234 secret-12 /usr/local/bin short true hunter2hunter2": "*** *** /usr/local/bin short true ***",
		"UNIQ1, in a \"list\", in a \\\"list\\\", bearer-key":            "***, ***, ***, ***",
		`"{\"X-Key\":\"UNIQ1\"`: `"{\"X-Key\":\"***\"`,
		"team-key-7 at postgres://me:p%40ssw0rd@host/db, p@ssw0rd": "*** at ***, ***",
		"line two of two\nin%20a%20%22list%22":                     "***\n***",
		"argument-key /dev/null 12345678":                          "*** /dev/null 12345678",
		"":                                                         "",
		`{"a":"\u0055NI\u00511","b":"\u0022\u0041"}`:               `{"a":"***","b":"\u0022A"}`,
		`\u0055NI`:                                                 `\u0055NI`,
		`"secret\u002D1234\/"`:                                     `"***/"`,
		`"{\"a\":\"\\u0055NIQ1\\/\"}"`:                             `"{\"a\":\"***/\"}"`,
	} {
		if got := m.Text(text); got != want {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
	}
}

// TestMasker_JSON checks that masked JSON is valid JSON.
func TestMasker_JSON(t *testing.T) {
	m := newTestMasker()
	for text, want := range map[string]string{
		`{"a": "UNIQ1" , "UNIQ1":[1, "x UNIQ1\n"]}`:            `{"a": "***" , "***":[1, "x ***\n"]}`,
		`{"a":"\u0055NIQ1","b":"in a \u0022list\u0022"}`:       `{"a":"***","b":"***"}`,
		`{"n":98765432,"f":1.5e3,"m":-98765432,"t":true}`:      `{"n":"***","f":1.5e3,"m":"-***","t":true}`,
		`{"plain" : "nothing\u0020here", "<&>":"\\"}`:          `{"plain" : "nothing\u0020here", "<&>":"\\"}`,
		`{"answer":"{\"name\":\"\\u0055NIQ1\"}"}`:              `{"answer":"{\"name\":\"***\"}"}`,
		`not JSON with UNIQ1`:                                  `not JSON with ***`,
		`{"env":"{\"X-Key\":\"UNIQ1\",\"n\":1}"}`:              `{"env":"{\"X-Key\":\"***\",\"n\":1}"}`,
		`{"entities":[{"name":"line one of two\nsecret-12"}]}`: `{"entities":[{"name":"***\n***"}]}`,
	} {
		if got := string(m.JSON([]byte(text))); got != want {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
	}
	words := NewMasker([]string{"A_KEY=entities", `B_KEY=":"confidence"`}, nil)
	if got := string(words.JSON([]byte(`{"entities":["entities"],"a":"confidence"}`))); got != `{"entities":["***"],"a":"confidence"}` {
		t.Errorf("got %s", got)
	}
}

// TestMasker_Writer checks that the result does not depend on how a text is split into writes.
func TestMasker_Writer(t *testing.T) {
	m := newTestMasker()
	rapid.Check(t, func(t *rapid.T) {
		parts := rapid.SliceOf(rapid.SampledFrom([]string{"secret-12", "34", "UNIQ", "1", "UNIQ1", "\n", "hunter2", "é", "line one of two\nline", " two of two"})).Draw(t, "parts")
		var got strings.Builder
		w := m.Writer(&got)
		for _, part := range parts {
			if n, err := w.Write([]byte(part)); n != len(part) || err != nil {
				t.Fatal(n, err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if want := m.Text(strings.Join(parts, "")); got.String() != want {
			t.Fatalf("%q: got %q, want %q", parts, got.String(), want)
		}
	})
}

func TestCheckArguments(t *testing.T) {
	m := NewMasker([]string{"A_KEY=secret-12", `X_HEADERS={"k":"UNIQ1"}`, "H_KEY=/dev/null"}, nil)
	for word, want := range map[string]string{
		"--x=secret-12": "argument 1 of the command holds the value of A_KEY", "aUNIQ1b": "the value of X_HEADERS",
		"sk-proj-0123456789": "what looks like a key", "--key=ghp_0123456789abcdef": "a key", "AIzaSyA0123456789": "a key", "pk-lf-01234567-89ab": "a key",
		"Bearer eyJhbGciOiJIUzI1NiJ9.e30.x": "a key",
		"--api-key=X":                       "", "/dev/null": "", "disk-usage-of-2024": "", "sk-learn-extractor": "", "--lang=sk-SK": "", "secret-1": "",
	} {
		err := m.CheckArguments([]string{"prog", word})
		var refused *argumentError
		switch {
		case want == "" && err != nil:
			t.Errorf("%s: %v", word, err)
		case want != "" && (!errors.As(err, &refused) || refused.ExitCode() != 64 || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), word)):
			t.Errorf("%s: got %v, want %s", word, err, want)
		}
	}
}

func TestArguments(t *testing.T) {
	m := NewMasker([]string{"A_KEY=secret-12"}, nil)
	for line, want := range map[string]string{
		"env|API_KEY=x|LANG=de|p":  "env|API_KEY=***|LANG=de|p",
		"p|--api-key=X|-v":         "p|--api-key=***|-v",
		"p|--api-key|X|-v":         "p|--api-key|***|-v",
		"p|-key|X|--db.Password=":  "p|-key|***|--db.Password=",
		"p|--token|--verbose|x":    "p|--token|--verbose|x",
		"p|--max-tokens|4096":      "p|--max-tokens|4096",
		"p|--key-file|f":           "p|--key-file|f",
		"p|xsecret-12|sk-a1234567": "p|x***|***",
	} {
		if got := strings.Join(m.Arguments(strings.Split(line, "|")), "|"); got != want {
			t.Errorf("%s: got %s, want %s", line, got, want)
		}
	}
}

func FuzzMasker_JSON(f *testing.F) {
	f.Add(`{"a":"\u0055NIQ1","n":98765432}`)
	f.Add(`"\\\""`)
	m := newTestMasker()
	f.Fuzz(func(t *testing.T, text string) {
		if got := m.JSON([]byte(text)); json.Valid([]byte(text)) != json.Valid(got) && json.Valid([]byte(text)) {
			t.Fatalf("%q became %q", text, got)
		}
	})
}

// TestMasker_nothingToHide checks that a Masker without secrets masks nothing, not even a word with
// the prefix of a key.
func TestMasker_nothingToHide(t *testing.T) {
	var m Masker
	words := []string{"sk-learn-extractor", "--plain"}
	if got := m.Arguments(words); !slices.Equal(got, words) {
		t.Errorf("got %q", got)
	}
	if got := m.JSON([]byte(`{"a":1}`)); string(got) != `{"a":1}` {
		t.Errorf("got %s", got)
	}
}
