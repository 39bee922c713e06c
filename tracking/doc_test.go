package tracking_test

import (
	"os"
	"strings"
	"testing"

	"extraction-experiment/tracking"
)

// TestLangfuseDoc: docs/langfuse.md names every finding of verify and every key of
// a run's metadata.
func TestLangfuseDoc(t *testing.T) {
	page, err := os.ReadFile("../docs/langfuse.md")
	if err != nil {
		t.Fatal(err)
	}
	names := tracking.FixedKeys()
	for _, kind := range tracking.Kinds() {
		names = append(names, string(kind))
	}
	for _, name := range names {
		if !strings.Contains(string(page), "`"+name+"`") {
			t.Errorf("docs/langfuse.md does not name %s", name)
		}
	}
}
