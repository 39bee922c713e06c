package langfuse

import (
	"fmt"
	"strings"
)

// The environment variables that ConfigFromEnv reads.
const (
	EnvPublicKey = "LANGFUSE_PUBLIC_KEY"
	EnvSecretKey = "LANGFUSE_SECRET_KEY"
	EnvBaseURL   = "LANGFUSE_BASE_URL"
	// EnvHost is the old name of EnvBaseURL; it is read where the new one is
	// not set.
	EnvHost = "LANGFUSE_HOST"
)

// EnvError says that only some of the LANGFUSE_* variables are set.
type EnvError struct {
	// Set and Missing name variables, never their values.
	Set, Missing []string
}

// Error names what is set and what is missing.
func (e *EnvError) Error() string {
	missing := strings.Join(e.Missing, " and ")
	return fmt.Sprintf("%s %s set but %s %s not: set %s too, or unset all LANGFUSE_* variables",
		strings.Join(e.Set, " and "), verb(e.Set), missing, verb(e.Missing), missing)
}

func verb(names []string) string {
	if len(names) == 1 {
		return "is"
	}
	return "are"
}

// ExitCode returns 64: the command was started with an incomplete environment.
func (*EnvError) ExitCode() int { return 64 }

// ConfigFromEnv reads the keys and the address through lookup, usually
// os.LookupEnv. Surrounding white space does not count, and a blank variable
// counts as not set.
//
// With none of the variables set it returns false and no error. With both keys
// set it returns true; without an address BaseURL is DefaultBaseURL. Anything
// between is an *EnvError.
func ConfigFromEnv(lookup func(string) (string, bool)) (Config, bool, error) {
	read := func(name string) string {
		value, _ := lookup(name)
		return strings.TrimSpace(value)
	}
	config := Config{PublicKey: read(EnvPublicKey), SecretKey: NewSecret(read(EnvSecretKey)), BaseURL: read(EnvBaseURL)}
	addressName := EnvBaseURL
	if config.BaseURL == "" {
		config.BaseURL, addressName = read(EnvHost), EnvHost
	}

	var set, missing []string
	for _, key := range []struct{ name, value string }{
		{EnvPublicKey, config.PublicKey}, {EnvSecretKey, config.SecretKey.Reveal()},
	} {
		if key.value == "" {
			missing = append(missing, key.name)
		} else {
			set = append(set, key.name)
		}
	}
	if config.BaseURL != "" {
		set = append(set, addressName)
	}
	if len(set) == 0 {
		return Config{}, false, nil
	}
	if len(missing) > 0 {
		return Config{}, false, &EnvError{Set: set, Missing: missing}
	}
	if config.BaseURL == "" {
		config.BaseURL = DefaultBaseURL
	}
	return config, true, nil
}
