package proc

import (
	"slices"
	"strings"
)

// shortestSecret is the length from which a value is masked, in bytes: masking
// "1" or "true" would ruin every message and protect nothing.
const shortestSecret = 8

// Mask returns a replacer that puts *** in place of the values of environment
// variables ("NAME=value") whose names speak of a key, secret, token, password
// or credential: a child program has them and may print them.
func Mask(environ []string) *strings.Replacer {
	secrets := Secrets(environ)
	pairs := make([]string, 0, 2*len(secrets))
	for _, s := range secrets {
		pairs = append(pairs, s, "***")
	}
	return strings.NewReplacer(pairs...)
}

// Secrets returns the values that Mask masks. The longest stand first: a secret
// that begins with another is masked whole.
func Secrets(environ []string) []string {
	var secrets []string
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		if len(value) >= shortestSecret && secretName(strings.ToUpper(name)) {
			secrets = append(secrets, value)
		}
	}
	slices.SortFunc(secrets, func(a, b string) int { return len(b) - len(a) })
	return secrets
}

func secretName(name string) bool {
	for _, word := range []string{"KEY", "SECRET", "TOKEN", "PASSWORD", "PASSWD", "CREDENTIAL"} {
		if strings.Contains(name, word) {
			return true
		}
	}
	return false
}
