package pdf_test

import (
	"fmt"
	"strings"
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

// TestRead_changed checks that the last version of an object counts, by itself or in an object
// stream, and that a file inside a stream and words in a text are not objects.
func TestRead_changed(t *testing.T) {
	page := func(content int) string {
		return fmt.Sprintf("<</Type/Page/Parent 2 0 R/MediaBox[0 0 600 800]/Contents %d 0 R %s>>", content, helvetica)
	}
	stream := func(dict, content string) string {
		return fmt.Sprintf("<<%s/Length %d>>stream\n%s\nendstream", dict, len(content), content)
	}
	show := func(text string) string { return stream("", "BT /F 9 Tf 9 700 Td ("+text+") Tj ET") }
	objStream := stream("/Type/ObjStm/N 1/First 4", "3 0 "+page(6))
	attachment := stream("/Type/EmbeddedFile", "3 0 obj"+page(7)+" endobj trailer<</Root 9 0 R>>")
	dict, body, _ := strings.Cut(attachment, ">>")
	content := strings.TrimSuffix(strings.TrimPrefix(body, "stream\n"), "\nendstream")
	dict, _, _ = strings.Cut(dict, "/Length")
	lateLength := fmt.Sprintf("%s/Length 9 0 R>>%s endobj 9 0 obj %d", dict, body, len(content))
	for name, tt := range map[string]struct{ want, appended string }{
		"nothing":            {"the first", attachment},
		"a length behind":    {"the first", lateLength},
		"a text":             {"the first", "<</Title(3 0 obj null trailer<</Root 9 0 R>>)>>"},
		"a word":             {"the first", "<<>> endobj % 3 0 objects"},
		"an object":          {"the third", "<<>> endobj 3 0 obj" + page(7)},
		"a stream":           {"the second", objStream},
		"an object, changed": {"the third", objStream + " endobj 3 0 obj" + page(7)},
		"a stream, changed":  {"the second", "<<>> endobj 3 0 obj" + page(7) + " endobj 8 0 obj" + objStream},
	} {
		file := string(buildFile(helvetica, "BT /F 9 Tf 9 700 Td (the first) Tj ET", "<<>>", show("the second"), show("the third"), tt.appended))
		doc, err := pdf.Read(t.Context(), []byte(file), pdf.Options{})
		if err != nil || !strings.Contains(doc.Pages[0].Text, tt.want) {
			t.Errorf("%s: %v %q, want %q", name, err, doc.Pages[0].Text, tt.want)
		}
	}
}
