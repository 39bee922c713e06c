package secret

import (
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"extraction-experiment/internal/textutil"
)

// speaking finds the names of variables that speak of a secret, in capitals: a
// word such as SECRET anywhere, KEY at the end of a part (APIKEY, KEY_2, no
// KEYBOARD), PAT as a whole part (no PATH).
var speaking = textutil.Pattern(`SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIAL|AUTHORIZATION` +
	`|(KEY|TOKEN|HEADER)S?([^A-Z]|$)|AUTH([^A-Z]|$)|(^|[^A-Z])(PAT|PASS|DSN)([^A-Z]|$)`)

// login finds the user and password of an address or a DSN.
var login = textutil.Pattern(`(?:^[\w.%+~-]+|//[\w.%+~-]*):([^/\s]+)@`)

// scheme begins the value of an Authorization header.
var scheme = textutil.Pattern(`(?i)^(?:bearer|basic|token|apikey|key)\s+`)

// ours begin the names of the variables that steer this program. None of them is
// of use to an evaluator.
var ours = []string{"EXPERIMENT_", "LANGFUSE_", "OPENAI_", "GEMINI_", "GOOGLE_GEMINI_"}

// Named reports whether the name of an environment variable speaks of a secret.
func Named(name string) bool { return speaking().MatchString(strings.ToUpper(name)) }

// variable reports whether an environment variable holds a secret: its name says
// so, or its value has a user and password.
func variable(name, value string) bool { return Named(name) || login().MatchString(value) }

// Withhold parts an environment ("NAME=value") into what a program may have that
// is not trusted with secrets, and the names of the rest: variables that steer
// this program, and those that hold secrets. Those that handed names are given.
func Withhold(environ, handed []string) (given, withheld []string) {
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		upper := strings.ToUpper(name)
		own := slices.ContainsFunc(ours, func(prefix string) bool { return strings.HasPrefix(upper, prefix) })
		switch {
		case slices.Contains(handed, name) || !own && !variable(name, value):
			given = append(given, entry)
		case value != "":
			withheld = append(withheld, name)
		}
	}
	slices.Sort(withheld)
	return given, slices.Compact(withheld)
}

// values returns the texts that must not show of a variable that holds a secret:
// the value, the texts within it if it is JSON, else the parts of a list
// ("name=value, …") and its lines; of these what follows an authentication scheme
// ("Bearer …"), and the password of an address.
func values(value string) []string {
	value = strings.TrimSpace(value)
	found := []string{value}
	var within any
	if json.Unmarshal([]byte(value), &within) == nil {
		found = append(found, textsIn(within)...)
	} else {
		for _, part := range strings.FieldsFunc(value, func(r rune) bool { return strings.ContainsRune(",;\n\r", r) }) {
			found = append(found, strings.TrimSpace(part))
			if at := strings.IndexAny(part, "=:"); at > 0 && !strings.HasPrefix(part[at:], "://") {
				found = append(found, strings.TrimSpace(part[at+1:]))
			}
		}
	}
	for _, text := range slices.Clone(found) {
		found = append(found, scheme().ReplaceAllString(text, ""))
		if password := login().FindStringSubmatch(text); password != nil {
			found = append(found, password[1])
			if plain, err := url.PathUnescape(password[1]); err == nil {
				found = append(found, plain)
			}
		}
	}
	return slices.DeleteFunc(found, func(text string) bool { return !worth(text) })
}

// textsIn returns the texts of a JSON value, without keys.
func textsIn(value any) (texts []string) {
	switch v := value.(type) {
	case string:
		return []string{v}
	case []any:
		for _, one := range v {
			texts = append(texts, textsIn(one)...)
		}
	case map[string]any:
		for _, one := range v {
			texts = append(texts, textsIn(one)...)
		}
	}
	return texts
}

// worth reports whether a text is masked: it has 8 bytes, or 5 with a letter and a
// digit. To mask "1", "true" or "local" would ruin every message and protect
// nothing; nor is the path of a file a secret.
func worth(text string) bool {
	if len(text) < 8 && (len(text) < 5 || !strings.ContainsFunc(text, unicode.IsLetter) || !strings.ContainsFunc(text, unicode.IsDigit)) {
		return false
	}
	if filepath.IsAbs(text) {
		_, err := os.Stat(text)
		return err != nil
	}
	return true
}

// known finds keys by their beginning; see isKey.
var known = textutil.Pattern(`\b(?:sk-|pk-lf-|gh[pousr]_|github_pat_|AIza|eyJ)[A-Za-z0-9_-]{8,}`)

// keyFlag finds flags whose value is a secret.
var keyFlag = textutil.Pattern(`(?i)^--?[\w.-]*(?:key|token|secret|password)$`)

// isKey reports whether what known has found is a key and no word such as
// sk-learn-extractor: keys have digits or capitals.
func isKey(text string) bool {
	return strings.ContainsFunc(strings.TrimPrefix(text, "AIza"), func(r rune) bool { return unicode.IsDigit(r) || unicode.IsUpper(r) })
}

// argumentError says that an argument of a command holds a secret. It does not
// repeat it.
type argumentError struct {
	Number int // 1 is the first after the program
	Holds  string
}

// Error says what the argument holds, and what to do.
func (e *argumentError) Error() string {
	return fmt.Sprintf("argument %d of the command holds %s: arguments are kept with the run, and everyone on this machine can see them; let the program read it from its environment", e.Number, e.Holds)
}

// ExitCode is that of a wrong usage.
func (*argumentError) ExitCode() int { return 64 }

// CheckArguments refuses a command one of whose arguments holds the secret of a
// variable, or what looks like a key. The error is an *argumentError.
func (m *Masker) CheckArguments(words []string) error {
	for i, word := range words {
		for _, s := range m.secrets {
			if s.variable != "" && strings.Contains(word, s.text) {
				return &argumentError{i, "the value of " + s.variable}
			}
		}
		if slices.ContainsFunc(known().FindAllString(word, -1), isKey) {
			return &argumentError{i, "what looks like a key"}
		}
	}
	return nil
}

// Arguments returns a command as it may be shown: *** stands for secrets, for what
// looks like a key, and for the value of flags such as --api-key and of variables
// such as API_KEY=….
func (m *Masker) Arguments(words []string) []string {
	shown := make([]string, len(words))
	for i, word := range words {
		if from := valueStart(words, i); from < len(word) {
			word = word[:from] + hidden
		}
		shown[i] = known().ReplaceAllStringFunc(m.Text(word), func(text string) string {
			if isKey(text) {
				return hidden
			}
			return text
		})
	}
	return shown
}

// valueStart says where the value of a flag or variable that speaks of a secret begins in
// word i of a command: at its end where it holds none.
func valueStart(words []string, i int) int {
	word := words[i]
	if i > 1 && keyFlag().MatchString(words[i-1]) && !strings.HasPrefix(word, "--") {
		return 0
	}
	if name, _, ok := strings.Cut(word, "="); ok && (keyFlag().MatchString(name) || !strings.HasPrefix(name, "-") && variableName().MatchString(name) && Named(name)) {
		return len(name) + 1
	}
	return len(word)
}

// variableName is that of an environment variable.
var variableName = textutil.Pattern(`^[A-Za-z_][A-Za-z0-9_]*$`)
