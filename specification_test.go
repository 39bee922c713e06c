package floors

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestSpecification compares docs/specification.md with the tests there are:
// every named one exists, and every TestSpec is named.
func TestSpecification(t *testing.T) {
	page, err := os.ReadFile("docs/specification.md")
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile("`(TestSpec_\\w+)`").FindAllStringSubmatch(string(page), -1)
	var documented []string
	for _, m := range named {
		documented = append(documented, m[1])
	}
	if len(documented) != 21 {
		t.Errorf("%d of the 21 scenarios have a test", len(documented))
	}
	if scenarios := strings.Count(string(page), "\n| ") - 1; scenarios != 21 {
		t.Errorf("the page lists %d scenarios, the specification has 21", scenarios)
	}
	existing := specTests(t)
	slices.Sort(documented)
	slices.Sort(existing)
	if !slices.Equal(documented, existing) {
		t.Errorf("the page names\n%q\nthere are\n%q", documented, existing)
	}
}

func specTests(t *testing.T) []string {
	t.Helper()
	var tests []string
	declared := regexp.MustCompile(`(?m)^func (TestSpec_\w+)\(`)
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, m := range declared.FindAllSubmatch(text, -1) {
			tests = append(tests, string(m[1]))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return tests
}
