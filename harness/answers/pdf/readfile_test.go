package pdf_test

import (
	"testing"

	"extraction-experiment/harness/answers/pdf"
	"extraction-experiment/internal/cli"
)

func TestReadFile(t *testing.T) {
	secret := "testdata/forms/password.pdf"
	if doc, err := pdf.ReadFile(t.Context(), secret, pdf.Options{Password: "secret"}); err != nil || len(doc.Pages) == 0 {
		t.Errorf("with its password: %v", err)
	}
	for _, password := range []string{"", "wrong"} {
		if doc, err := pdf.ReadFile(t.Context(), secret, pdf.Options{Password: password}); cli.ExitCode(err) != 64 || doc.Pages != nil {
			t.Errorf("read with the password %q: %v", password, err)
		}
	}
	if _, err := pdf.ReadFile(t.Context(), "testdata/forms/aes128.pdf", pdf.Options{Password: "of another file"}); err != nil {
		t.Errorf("encrypted without a password: %v", err)
	}
	for _, path := range []string{"testdata/none.pdf", "testdata", "readfile_test.go"} {
		if _, err := pdf.ReadFile(t.Context(), path, pdf.Options{}); cli.ExitCode(err) != 64 {
			t.Errorf("%s: %v", path, err)
		}
	}
}
