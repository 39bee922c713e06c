package secret

import (
	"fmt"
	"strings"
	"unicode"

	"extraction-experiment/internal/textutil"
)

// known finds keys by their beginning; see isKey.
var known = textutil.Pattern(`\b(?:sk-|pk-lf-|gh[pousr]_|github_pat_|AIza|eyJ)[A-Za-z0-9_-]{8,}`)

// keyFlag finds flags whose value is a secret.
var keyFlag = textutil.Pattern(`(?i)^--?[\w.-]*(?:key|token|secret|password)$`)

// isKey reports whether what known has found is a key and no word such as
// sk-learn-extractor: keys have digits or capitals.
func isKey(text string) bool {
	return strings.ContainsFunc(strings.TrimPrefix(text, "AIza"), func(r rune) bool { return unicode.IsDigit(r) || unicode.IsUpper(r) })
}

// ArgumentError says that an argument of a command holds a secret. It does not
// repeat it.
type ArgumentError struct {
	Number int // 1 is the first behind the program
	Holds  string
}

// Error says what the argument holds, and what to do.
func (e *ArgumentError) Error() string {
	return fmt.Sprintf("argument %d of the command holds %s: arguments are kept with the run, and everyone on this machine can see them; let the program read it from its environment", e.Number, e.Holds)
}

// ExitCode is that of a wrong usage.
func (*ArgumentError) ExitCode() int { return 64 }

// CheckArguments refuses a command one of whose arguments holds the secret of a
// variable, or what looks like a key. The error is an *ArgumentError.
func (m *Masker) CheckArguments(words []string) error {
	for i, word := range words {
		if name, found := m.variableIn(word); found {
			return &ArgumentError{i, "the value of " + name}
		}
		for _, key := range known().FindAllString(word, -1) {
			if isKey(key) {
				return &ArgumentError{i, "what looks like a key"}
			}
		}
	}
	return nil
}

func (m *Masker) variableIn(word string) (name string, found bool) {
	for _, v := range m.secrets {
		if v.variable != "" && strings.Contains(word, v.text) {
			return v.variable, true
		}
	}
	return "", false
}

// Arguments returns a command as it may be shown: *** stands for secrets, for what
// looks like a key, and for the value of flags such as --api-key and of variables
// such as API_KEY=….
func (m *Masker) Arguments(words []string) []string {
	shown := make([]string, len(words))
	for i, word := range words {
		from, to := valueOf(words, i)
		if from < to {
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

// argumentSecrets returns the values that a command gives to flags and variables
// that speak of secrets.
func argumentSecrets(words []string) (texts []string) {
	for i, word := range words {
		from, to := valueOf(words, i)
		texts = append(texts, word[from:to])
	}
	return texts
}

// valueOf says where word i of a command holds the value of a flag or variable that
// speaks of a secret; it is empty where it does not.
func valueOf(words []string, i int) (from, to int) {
	word := words[i]
	if i > 1 && keyFlag().MatchString(words[i-1]) && !strings.HasPrefix(word, "--") {
		return 0, len(word)
	}
	if name, _, ok := strings.Cut(word, "="); ok && (keyFlag().MatchString(name) || !strings.HasPrefix(name, "-") && variableName().MatchString(name) && Named(name)) {
		return len(name) + 1, len(word)
	}
	return len(word), len(word)
}

// variableName is that of an environment variable.
var variableName = textutil.Pattern(`^[A-Za-z_][A-Za-z0-9_]*$`)
