package langfuse

import (
	"errors"
	"strings"
	"testing"
)

func TestConfigFromEnv(t *testing.T) {
	type env = map[string]string
	for name, test := range map[string]struct {
		env          env
		base         string
		set          bool
		has, missing []string
	}{
		"nothing":               {env: env{}},
		"only blanks":           {env: env{EnvPublicKey: " ", EnvSecretKey: "", EnvBaseURL: "\t"}},
		"both keys":             {env: env{EnvPublicKey: " pk ", EnvSecretKey: "sk\n"}, set: true, base: DefaultBaseURL},
		"all three":             {env: env{EnvPublicKey: "pk", EnvSecretKey: "sk", EnvBaseURL: "http://a"}, set: true, base: "http://a"},
		"the old name":          {env: env{EnvPublicKey: "pk", EnvSecretKey: "sk", EnvHost: " http://b "}, set: true, base: "http://b"},
		"the new name wins":     {env: env{EnvPublicKey: "pk", EnvSecretKey: "sk", EnvHost: "http://b", EnvBaseURL: "http://a"}, set: true, base: "http://a"},
		"the blank name loses":  {env: env{EnvPublicKey: "pk", EnvSecretKey: "sk", EnvHost: "http://b", EnvBaseURL: " "}, set: true, base: "http://b"},
		"no secret":             {env: env{EnvPublicKey: "pk"}, has: []string{EnvPublicKey}, missing: []string{EnvSecretKey}},
		"no public":             {env: env{EnvSecretKey: "sk", EnvBaseURL: "http://a"}, has: []string{EnvSecretKey, EnvBaseURL}, missing: []string{EnvPublicKey}},
		"the address only":      {env: env{EnvBaseURL: "http://a"}, has: []string{EnvBaseURL}, missing: []string{EnvPublicKey, EnvSecretKey}},
		"the old address only":  {env: env{EnvHost: "http://a"}, has: []string{EnvHost}, missing: []string{EnvPublicKey, EnvSecretKey}},
		"other variables there": {env: env{"HOME": "/", "LANGFUSE_RELEASE": "1"}},
	} {
		t.Run(name, func(t *testing.T) {
			config, set, err := ConfigFromEnv(func(key string) (string, bool) { v, ok := test.env[key]; return v, ok })
			if set != test.set || config.BaseURL != test.base {
				t.Errorf("set %v, base %q", set, config.BaseURL)
			}
			if set && (config.PublicKey != "pk" || config.SecretKey.Reveal() != "sk") {
				t.Errorf("keys %q %q", config.PublicKey, config.SecretKey.Reveal())
			}
			var incomplete *UsageError
			if errors.As(err, &incomplete) != (test.missing != nil) {
				t.Fatalf("error %v", err)
			}
			if test.missing == nil {
				return
			}
			if exitCode(err) != 64 {
				t.Errorf("exit code %d", exitCode(err))
			}
			for _, want := range append(test.missing, test.has...) {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q is not named in %q", want, err)
				}
			}
			if strings.Contains(err.Error(), "sk ") {
				t.Errorf("a value shows in %q", err)
			}
		})
	}
}
