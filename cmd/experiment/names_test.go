package main

import (
	"strings"
	"testing"

	"extraction-experiment/internal/cli"
	"extraction-experiment/langfuse/embedded"
)

// TestNames_inPaths: requests to a v3 server have the name of the run in the path. A name that
// cannot be there is a usage error.
func TestNames_inPaths(t *testing.T) {
	t.Parallel()
	_, client := startLangfuse(t, embedded.ModeV3, direct)
	seedItems(t, client, "..", makeItems(2, 100))
	f := newFolder(t, langfuseEnv(client.BaseURL())...)
	f.run(t, 0, "--dataset", "..", "--name", "r", "--max-failures", "2", "--quiet")
	f.run(t, 0, "verify", "r", "--dataset", "..")
	for want, args := range map[string][]string{
		`".." cannot be part of a path`: {"compare", "--dataset", "..", "langfuse:r", "r"},
		"needs the name of a run":       {"compare", "r", "langfuse:"},
	} {
		if c := f.run(t, cli.ExitUsage, args...); !strings.Contains(c.stderr.String(), want) {
			t.Errorf("%q does not say %q: %s", args, want, &c.stderr)
		}
	}
}
