package exchange

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"extraction-experiment/internal/secret"
)

// BaseURL returns the address of a server without trailing slashes. Variable
// is the name under which a person sets it. An address with credentials is
// refused and not repeated.
func BaseURL(address, variable string) (string, error) {
	u, err := url.Parse(strings.TrimSpace(address))
	switch {
	case err != nil:
		return "", fmt.Errorf("the base URL (%s) cannot be read as an address: expected something like https://host/v1", variable)
	case u.User != nil:
		return "", fmt.Errorf("the base URL (%s) must not contain a user or password: keys and headers are given on their own", variable)
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return "", fmt.Errorf("the base URL %.200q (%s) needs http:// or https:// and a host", address, variable)
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return "", fmt.Errorf("the base URL (%s) must not have a query or a fragment", variable)
	}
	return strings.TrimRight(u.String(), "/"), nil
}

// ConfigError holds all problems of a provider's configuration.
type ConfigError struct {
	Provider string
	Err      error // may be of several lines
}

// Error lists the problems, one per line.
func (e *ConfigError) Error() string {
	start := e.Provider + ": "
	return start + strings.ReplaceAll(e.Err.Error(), "\n", "\n"+start)
}

// Unwrap returns the problems.
func (e *ConfigError) Unwrap() error { return e.Err }

// ExitCode is that of a wrong usage.
func (*ConfigError) ExitCode() int { return 64 }

// Keys lists what must not show in messages: the key, the values of headers,
// and the key within a value such as "Bearer key". The longest stand first.
func Keys(key secret.Secret, headers map[string]secret.Secret) []secret.Secret {
	keys := []secret.Secret{key}
	for _, value := range headers {
		_, within, _ := strings.Cut(value.Reveal(), " ")
		keys = append(keys, value, secret.New(strings.TrimSpace(within)))
	}
	slices.SortFunc(keys, func(a, b secret.Secret) int { return len(b.Reveal()) - len(a.Reveal()) })
	return keys
}

// CheckKey refuses a key that no header can carry, without repeating it.
func CheckKey(key secret.Secret, variable string) error {
	if strings.ContainsFunc(key.Reveal(), func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		return fmt.Errorf("the key (%s) contains a space, a line break or a letter outside of ASCII: copy it again", variable)
	}
	return nil
}

// headerName is a token of RFC 9110.
var headerName = regexp.MustCompile("^[!#$%&'*+.^_`|~0-9A-Za-z-]+$")

// CheckHeaders refuses headers that cannot be sent, all at once. Values are
// not repeated.
func CheckHeaders(headers map[string]secret.Secret) error {
	var problems []error
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		value := headers[name]
		if !headerName.MatchString(name) {
			problems = append(problems, fmt.Errorf("the header name %.80q is not one", name))
		}
		if strings.ContainsFunc(value.Reveal(), func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) {
			problems = append(problems, fmt.Errorf("the value of the header %.80q contains a line break or a control character", name))
		}
	}
	return errors.Join(problems...)
}
