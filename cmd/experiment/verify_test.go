package main

import (
	"os"
	"strings"
	"testing"

	"extraction-experiment/configs/sample"
	"extraction-experiment/internal/cli"
	"extraction-experiment/langfuse/embedded"
)

// TestVerify_elsewhere: the variables name another server than the one that a
// run was published to, with the same project and dataset name; then none.
func TestVerify_elsewhere(t *testing.T) {
	d := newDeployment(t, embedded.ModeV4)
	d.exits(cli.ExitOK, "--dataset", sample.Name, "--name", "r1", "--limit", "2", "--quiet")
	first := d.env["LANGFUSE_BASE_URL"]
	folder, err := os.Getwd()
	must(t, err)
	other := newDeployment(t, embedded.ModeV4)
	t.Chdir(folder)
	for _, env := range []map[string]string{other.env, {}} {
		d.env = env
		for _, args := range [][]string{{"publish", "r1"}, {"verify", "r1", "--timeout", "0s"}, {"verify", "r1", "--repair", "--timeout", "0s"}} {
			stdout, stderr := d.exits(cli.ExitUsage, args...)
			if stdout != "" || !strings.Contains(stderr, "published to "+first) || !strings.Contains(stderr, "set LANGFUSE_BASE_URL to "+first) {
				t.Errorf("%v: %s%s", args, stdout, stderr)
			}
		}
	}
}
