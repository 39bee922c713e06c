package secret

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"extraction-experiment/internal/textutil"
)

// secretName matches the upper-case names of variables that hold a secret: SECRET and similar
// words anywhere, KEY at the end of a word (APIKEY and KEY_2, but not KEYBOARD), PAT as a whole
// word (not PATH).
var secretName = textutil.Pattern(`SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIAL|AUTHORIZATION` +
	`|(KEY|TOKEN|HEADER)S?([^A-Z]|$)|AUTH([^A-Z]|$)|(^|[^A-Z])(PAT|PASS|DSN)([^A-Z]|$)`)

// credentials matches the user and password in an address or a DSN, and what looks like them.
var credentials = textutil.Pattern(`(?:^([\w.%+~-]+)|//[\w.%+~-]*):([^/\s]+)@(sha256:)?`)

// passwordIn returns the password in an address or a DSN, or "". The tag of a container image
// (app:1.0@sha256:…), an address for mail and a path of Windows have none.
func passwordIn(text string) string {
	for _, m := range credentials().FindAllStringSubmatch(text, -1) {
		if m[3] == "" && m[1] != "mailto" && !(len(m[1]) == 1 && m[2][0] == '\\') {
			return m[2]
		}
	}
	return ""
}

// authScheme matches the beginning of the value of an Authorization header.
var authScheme = textutil.Pattern(`(?i)^(?:bearer|basic|token|apikey|key)\s+`)

// ownPrefixes are the prefixes of the variables that configure this program. Evaluators do not
// need them.
var ownPrefixes = []string{"EXPERIMENT_", "LANGFUSE_", "OPENAI_", "GEMINI_", "GOOGLE_GEMINI_"}

// IsSecretName reports whether an environment variable holds a secret, judging by its name.
func IsSecretName(name string) bool { return secretName().MatchString(strings.ToUpper(name)) }

// isSecret reports whether an environment variable holds a secret, judging by its name or
// because its value contains a user and a password.
func isSecret(name, value string) bool { return IsSecretName(name) || passwordIn(value) != "" }

// Withhold splits an environment ("NAME=value") for a program that must not get secrets. given
// omits the variables that configure this program or hold secrets, unless they are in handed.
// withheld contains the sorted names of the omitted variables that are not empty.
func Withhold(environ, handed []string) (given, withheld []string) {
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		upper := strings.ToUpper(name)
		own := slices.ContainsFunc(ownPrefixes, func(prefix string) bool { return strings.HasPrefix(upper, prefix) })
		switch {
		case slices.Contains(handed, name) || !own && !isSecret(name, value):
			given = append(given, entry)
		case value != "":
			withheld = append(withheld, name)
		}
	}
	slices.Sort(withheld)
	return given, slices.Compact(withheld)
}

// secretTexts returns the texts to mask for the value of a secret variable: the value itself,
// the texts in it if it is JSON, otherwise its lines and the elements of a list ("name=value,
// …"), and for each of these the part after an authentication scheme ("Bearer …") and the
// password of an address.
func secretTexts(value string) []string {
	value = strings.TrimSpace(value)
	found := []string{value}
	if raw := []byte(value); textutil.ValidJSON(raw) {
		found = append(found, jsonTexts(raw)...)
	} else {
		for _, part := range strings.FieldsFunc(value, func(r rune) bool { return strings.ContainsRune(",;\n\r", r) }) {
			found = append(found, strings.TrimSpace(part))
			if at := strings.IndexAny(part, "=:"); at > 0 && !strings.HasPrefix(part[at:], "://") {
				found = append(found, strings.TrimSpace(part[at+1:]))
			}
		}
	}
	for _, text := range slices.Clone(found) {
		found = append(found, authScheme().ReplaceAllString(text, ""))
		if password := passwordIn(text); password != "" {
			found = append(found, password)
			if plain, err := url.PathUnescape(password); err == nil {
				found = append(found, plain)
			}
		}
	}
	return slices.DeleteFunc(found, func(text string) bool { return !maskable(text) })
}

// jsonTexts returns the texts in a JSON value, without keys.
func jsonTexts(raw []byte) []string {
	texts := []string{textutil.JSONText(raw)}
	for _, value := range textutil.JSONMembers(raw) {
		texts = append(texts, jsonTexts(value)...)
	}
	for value := range textutil.JSONElements(raw) {
		texts = append(texts, jsonTexts(value)...)
	}
	return texts
}

// maskable reports whether a text is long enough to be masked: it has 8 bytes, or 5 with a
// letter and a digit. Masking "1", "true" or "local" would make messages unreadable and protect
// nothing. The path of an existing file is not masked.
func maskable(text string) bool {
	if len(text) < 8 && (len(text) < 5 || !strings.ContainsFunc(text, unicode.IsLetter) || !strings.ContainsFunc(text, unicode.IsDigit)) {
		return false
	}
	if filepath.IsAbs(text) {
		_, err := os.Stat(text)
		return err != nil
	}
	return true
}

// keyPattern matches keys by their prefix; see isKey.
var keyPattern = textutil.Pattern(`\b(?:sk-|pk-lf-|gh[pousr]_|github_pat_|AIza|eyJ)[A-Za-z0-9_-]{8,}`)

// keyFlag matches flags whose value is a secret.
var keyFlag = textutil.Pattern(`(?i)^--?[\w.-]*(?:key|token|secret|password)$`)

// isKey reports whether a match of keyPattern is a key and not a word like sk-learn-extractor.
// Keys have digits or upper-case letters.
func isKey(text string) bool {
	return strings.ContainsFunc(strings.TrimPrefix(text, "AIza"), func(r rune) bool { return unicode.IsDigit(r) || unicode.IsUpper(r) })
}

// argumentError reports that an argument of a command contains a secret, without repeating the
// secret.
type argumentError struct {
	Number int // 1 is the first after the program
	Holds  string
}

// Error describes what the argument contains and what to do.
func (e *argumentError) Error() string {
	return fmt.Sprintf("argument %d of the command holds %s: arguments are kept with the run, and everyone on this machine can see them; let the program read it from its environment", e.Number, e.Holds)
}

// ExitCode returns 64 because the caller is at fault.
func (*argumentError) ExitCode() int { return 64 }

// CheckArguments returns an *argumentError if an argument of a command contains the secret of a
// variable, or a text that looks like a key.
func (m *Masker) CheckArguments(words []string) error {
	for i, word := range words {
		for _, s := range m.secrets {
			if s.variable != "" && strings.Contains(word, s.text) {
				return &argumentError{i, "the value of " + s.variable}
			}
		}
		if slices.ContainsFunc(keyPattern().FindAllString(word, -1), isKey) {
			return &argumentError{i, "what looks like a key"}
		}
	}
	return nil
}

// Arguments returns a command that can be shown. It replaces secrets, texts that look like
// keys, and the values of flags like --api-key and of variables like API_KEY=… by ***.
func (m *Masker) Arguments(words []string) []string {
	shown := make([]string, len(words))
	for i, word := range words {
		if from := valueStart(words, i); from < len(word) {
			word = word[:from] + hidden
		}
		shown[i] = keyPattern().ReplaceAllStringFunc(m.Text(word), func(text string) string {
			if isKey(text) {
				return hidden
			}
			return text
		})
	}
	return shown
}

// valueStart returns the start of the value of a secret flag or variable in word i of a
// command, or the length of the word if there is none.
func valueStart(words []string, i int) int {
	word := words[i]
	if i > 1 && keyFlag().MatchString(words[i-1]) && !strings.HasPrefix(word, "--") {
		return 0
	}
	if name, _, ok := strings.Cut(word, "="); ok && (keyFlag().MatchString(name) || !strings.HasPrefix(name, "-") && variableName().MatchString(name) && IsSecretName(name)) {
		return len(name) + 1
	}
	return len(word)
}

// variableName matches the name of an environment variable.
var variableName = textutil.Pattern(`^[A-Za-z_][A-Za-z0-9_]*$`)
