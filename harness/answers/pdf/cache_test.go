package pdf_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"extraction-experiment/harness/answers/pdf"
	"extraction-experiment/internal/cli"
)

func TestCache(t *testing.T) {
	cache := pdf.Cache{Dir: filepath.Join(t.TempDir(), "pdf")}
	path := "testdata/producers/gopdf.pdf"
	first, hit, err := cache.Read(t.Context(), path, pdf.Options{})
	if err != nil || hit {
		t.Fatal(err, hit)
	}
	second, hit, err := cache.Read(t.Context(), path, pdf.Options{})
	if err != nil || !hit || cmp.Diff(first, second) != "" {
		t.Errorf("%v, hit %v, %s", err, hit, cmp.Diff(first, second))
	}
	entries, err := os.ReadDir(cache.Dir)
	if err != nil || len(entries) != 1 {
		t.Fatalf("%v %v", entries, err)
	}
	for _, damage := range []string{"", "{", `{"sha256":"x","pages":[{"text":"wrong"}]}`} {
		if err := os.WriteFile(filepath.Join(cache.Dir, entries[0].Name()), []byte(damage), 0o600); err != nil {
			t.Fatal(err)
		}
		if again, hit, err := cache.Read(t.Context(), path, pdf.Options{}); err != nil || hit || cmp.Diff(first, again) != "" {
			t.Errorf("a damaged entry %q is used: %v", damage, err)
		}
	}
	secret := "testdata/forms/password.pdf"
	if doc, hit, err := cache.Read(t.Context(), secret, pdf.Options{Password: "secret"}); err != nil || hit || len(doc.Pages) == 0 {
		t.Errorf("with its password: %v, hit %v", err, hit)
	}
	for _, password := range []string{"", "wrong"} {
		if doc, _, err := cache.Read(t.Context(), secret, pdf.Options{Password: password}); cli.ExitCode(err) != 64 || doc.Pages != nil {
			t.Errorf("read with the password %q: %v", password, err)
		}
	}
	for range 2 { // anyone may open it
		_, hit, err = cache.Read(t.Context(), "testdata/forms/aes128.pdf", pdf.Options{Password: "of another file"})
	}
	if err != nil || !hit {
		t.Errorf("encrypted without a password: %v, hit %v", err, hit)
	}
	for _, path := range []string{"testdata/none.pdf", "testdata", "cache_test.go"} {
		if _, _, err := cache.Read(t.Context(), path, pdf.Options{}); cli.ExitCode(err) != 64 {
			t.Errorf("%s: %v", path, err)
		}
	}
	if _, _, err := (pdf.Cache{Dir: "/dev/null/x"}).Read(t.Context(), path, pdf.Options{}); err != nil {
		t.Errorf("a folder that cannot be made: %v", err)
	}
}
