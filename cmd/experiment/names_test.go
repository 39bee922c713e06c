package main

import (
	"net/http/httptest"
	"strings"
	"testing"

	"extraction-experiment/internal/cli"
	"extraction-experiment/langfuse"
	"extraction-experiment/langfuse/embedded"
)

// TestNames_inPaths: requests to a v3 server have the name of the run in the path. A name that
// cannot be there is a usage error.
func TestNames_inPaths(t *testing.T) {
	t.Parallel()
	server, err := embedded.Open(embedded.Config{Mode: embedded.ModeV3})
	must(t, err)
	defer func() { must(t, server.Close()) }()
	hs := httptest.NewServer(server.Handler())
	defer hs.Close()
	client, err := langfuse.New(langfuse.Config{BaseURL: hs.URL, PublicKey: embedded.DefaultPublicKey, SecretKey: langfuse.NewSecret(embedded.DefaultSecretKey)})
	must(t, err)
	seedItems(t, client, "..", makeItems(2, 100))
	f := newFolder(t, "LANGFUSE_BASE_URL="+hs.URL, "LANGFUSE_PUBLIC_KEY="+embedded.DefaultPublicKey, "LANGFUSE_SECRET_KEY="+embedded.DefaultSecretKey)
	f.run(t, 0, "--dataset", "..", "--name", "r", "--max-failures", "2", "--quiet")
	f.run(t, 0, "verify", "r", "--dataset", "..")
	for want, args := range map[string][]string{
		`".." cannot stand in a path`: {"compare", "--dataset", "..", "langfuse:r", "r"},
		"needs the name of a run":     {"compare", "r", "langfuse:"},
	} {
		if c := f.run(t, cli.ExitUsage, args...); !strings.Contains(c.stderr.String(), want) {
			t.Errorf("%q does not say %q: %s", args, want, &c.stderr)
		}
	}
}
