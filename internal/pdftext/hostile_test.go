package pdftext_test

import (
	"bytes"
	"compress/zlib"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"extraction-experiment/internal/pdf"
	"extraction-experiment/internal/pdftext"
)

// flated compresses zeros: 1 MiB takes a kilobyte.
func flated(t testing.TB, size int) string {
	t.Helper()
	var b bytes.Buffer
	w := zlib.NewWriter(&b)
	if _, err := w.Write(bytes.Repeat([]byte(" "), size)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// hostile are files that ask for too much.
func hostile(t testing.TB) map[string][]byte {
	bomb := flated(t, 80<<20)
	forms := []string{"<</Font<</F<</Subtype/Type1/BaseFont/Helvetica>>>>/XObject<</A 6 0 R>>>>"}
	for i := 6; i < 30; i++ { // each shows the next one ten times
		forms = append(forms, fmt.Sprintf("<</Subtype/Form/Resources<</XObject<</A %d 0 R>>>>/Length 60>>stream\n%s\nendstream", i+1, strings.Repeat("/A Do ", 10)))
	}
	lengths := []string{}
	for i := 5; i < 5000; i++ {
		lengths = append(lengths, fmt.Sprintf("<</Length %d 0 R>>stream\nx\nendstream", i+1))
	}
	return map[string][]byte{
		"a stream of 80 MiB in 80 KiB":          build("", bomb, ""), /* not compressed here */
		"a bomb":                                []byte(strings.Replace(string(build("", bomb)), "<</Length", "<</Filter/FlateDecode/Length", 1)),
		"a bomb in a bomb":                      []byte(strings.Replace(string(build("", bomb)), "<</Length", "<</Filter[/FlateDecode/FlateDecode/FlateDecode]/Length", 1)),
		"forms without end":                     build("/Resources 5 0 R", "/A Do", forms...),
		"a page that is its own parent":         []byte("%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj 2 0 obj<</Type/Pages/Kids[2 0 R 2 0 R 1 0 R]>>endobj trailer<</Root 1 0 R>>"),
		"brackets without end":                  []byte("%PDF-1.4\n1 0 obj" + strings.Repeat("[<<", 200_000)),
		"content of brackets":                   build("", strings.Repeat("[", 500_000)+strings.Repeat("<<", 500_000)),
		"lengths of lengths":                    build("", "x", lengths...),
		"a section that is its own predecessor": []byte("%PDF-1.4\nxref\n0 1\n0000000000 65535 f \ntrailer<</Prev 9/Size 1/Root 1 0 R>>\nstartxref\n9\n%%EOF"),
		"a table of a billion rows":             []byte("%PDF-1.4\nxref\n0 999999999\n0000000000 65535 f \ntrailer<</Size 1/Root 1 0 R>>\nstartxref\n9\n%%EOF"),
		"a stream of a billion rows":            []byte("%PDF-1.5\n1 0 obj<</Type/XRef/W[1 8 8]/Size 99999999999/Root 1 0 R/Length 1>>stream\nx\nendstream endobj\nstartxref\n9\n%%EOF"),
		"a predictor of a terabyte":             []byte(strings.Replace(string(build("", bomb)), "<</Length", "<</Filter/FlateDecode/DecodeParms<</Predictor 12/Columns 999999999999/Colors 99>>/Length", 1)),
		"a map of four billion codes":           build("/Resources<</Font<</F<</Subtype/Type0/Encoding/Identity-H/ToUnicode 5 0 R/DescendantFonts[<</W[0 9999999999 5]>>]>>>>>>", "BT /F 1e9 Tf <00010002> Tj ET", "<</Length 60>>stream\n1 beginbfrange <00000000> <ffffffff> <0041> endbfrange\nendstream"),
		"numbers beyond all measure":            build("/Rotate 9e99", "9e300 0 0 9e300 9e300 9e300 cm BT 9e300 0 0 9e300 9 9 Tm /F -9e300 Tf (x) Tj (y) Tj ET"),
		"nothing":                               {},
		"a header":                              []byte("%PDF-1.7"),
	}
}

// TestRead_hostile: every one of them ends soon, with an error or a page.
func TestRead_hostile(t *testing.T) {
	for name, data := range hostile(t) {
		t.Run(name, func(t *testing.T) {
			began := time.Now()
			doc, err := pdftext.Read(t.Context(), data, pdftext.Options{})
			if took := time.Since(began); took > 20*time.Second {
				t.Errorf("it took %s", took)
			}
			var refused *pdftext.Error
			if err != nil && !errors.As(err, &refused) {
				t.Errorf("%v", err)
			}
			for _, p := range doc.Pages {
				if strings.Contains(p.Problem, "interpreted") {
					t.Errorf("a fault was caught: %s", p.Problem)
				}
			}
			if err != nil && strings.Contains(err.Error(), "internal fault") {
				t.Error(err)
			}
		})
	}
}

func TestRead_limits(t *testing.T) {
	data, err := os.ReadFile("testdata/producers/fpdf.pdf")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := pdftext.Read(t.Context(), data, pdftext.Options{MaxDecoded: 1000}); !errors.Is(err, pdf.ErrBudget) {
		t.Errorf("a budget of 1000 bytes: %v", err)
	}
	if _, err := pdftext.Read(t.Context(), data, pdftext.Options{Timeout: time.Nanosecond}); err == nil || !strings.Contains(err.Error(), "longer than 1ns") {
		t.Errorf("a nanosecond: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := pdftext.Read(ctx, data, pdftext.Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if _, err := pdftext.Read(t.Context(), []byte("<html>"), pdftext.Options{}); !errors.Is(err, pdf.ErrNotPDF) {
		t.Errorf("a page of HTML: %v", err)
	}
}

func FuzzRead(f *testing.F) {
	files, err := filepath.Glob("testdata/*/*.pdf")
	if err != nil {
		f.Fatal(err)
	}
	for _, path := range files {
		data, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	for _, data := range hostile(f) {
		if len(data) < 10_000 {
			f.Add(data)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		doc, err := pdftext.Read(t.Context(), data, pdftext.Options{MaxDecoded: 8 << 20, Timeout: 5 * time.Second})
		if err != nil && strings.Contains(err.Error(), "internal fault") {
			t.Fatal(err)
		}
		for _, p := range doc.Pages {
			if strings.Contains(p.Problem, "interpreted") {
				t.Fatal(p.Problem)
			}
		}
	})
}
