package pdf_test

import (
	"bytes"
	"compress/zlib"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"extraction-experiment/harness/answers/pdf"
	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/testkit/suite"
)

// deflatedSpaces returns compressed spaces; 1 MiB becomes a kilobyte.
func deflatedSpaces(t testing.TB, size int) string { return deflated(t, strings.Repeat(" ", size)) }

func deflated(t testing.TB, text string) string {
	t.Helper()
	var b bytes.Buffer
	w := zlib.NewWriter(&b)
	if _, err := w.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// hostileFiles returns files whose reading could take too much time or memory, by their trick.
func hostileFiles(t testing.TB) map[string][]byte {
	size, deep := suite.SampleOr(8<<20, 80<<20), suite.SampleOr(100_000, 500_000)
	bomb := deflatedSpaces(t, size)
	forms := []string{"<</Font<</F<</Subtype/Type1/BaseFont/Helvetica>>>>/XObject<</A 6 0 R>>>>"}
	for i := 6; i < 30; i++ { // each shows the next one ten times
		forms = append(forms, fmt.Sprintf("<</Subtype/Form/Resources<</XObject<</A %d 0 R>>>>/Length 60>>stream\n%s\nendstream", i+1, strings.Repeat("/A Do ", 10)))
	}
	lengths := []string{}
	for i := 5; i < 5000; i++ {
		lengths = append(lengths, fmt.Sprintf("<</Length %d 0 R>>stream\nx\nendstream", i+1))
	}
	unclosed := ""
	for i := range deep / 20 {
		unclosed += fmt.Sprintf("%d 0 obj<</Length 9>>stream\n", i+1)
	}
	return map[string][]byte{
		"spaces behind the end of many streams": []byte("%PDF-1.4\n" + unclosed + "endstream" +
			strings.Repeat(" ", size) + "endobj"),
		"bytes that are not operators":          buildFile("", bomb),
		"a bomb":                                []byte(strings.Replace(string(buildFile("", bomb)), "<</Length", "<</Filter/FlateDecode/Length", 1)),
		"a bomb in a bomb":                      []byte(strings.Replace(string(buildFile("", bomb)), "<</Length", "<</Filter[/FlateDecode/FlateDecode/FlateDecode]/Length", 1)),
		"forms without end":                     buildFile("/Resources 5 0 R", "/A Do", forms...),
		"a page that is its own parent":         []byte("%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj 2 0 obj<</Type/Pages/Kids[2 0 R 2 0 R 1 0 R]>>endobj trailer<</Root 1 0 R>>"),
		"brackets without end":                  []byte("%PDF-1.4\n1 0 obj" + strings.Repeat("[<<", deep/2)),
		"content of brackets":                   buildFile("", strings.Repeat("[", deep)+strings.Repeat("<<", deep)),
		"lengths of lengths":                    buildFile("", "x", lengths...),
		"a section that is its own predecessor": []byte("%PDF-1.4\nxref\n0 1\n0000000000 65535 f \ntrailer<</Prev 9/Size 1/Root 1 0 R>>\nstartxref\n9\n%%EOF"),
		"a table of a billion rows":             []byte("%PDF-1.4\nxref\n0 999999999\n0000000000 65535 f \ntrailer<</Size 1/Root 1 0 R>>\nstartxref\n9\n%%EOF"),
		"a stream of a billion rows":            []byte("%PDF-1.5\n1 0 obj<</Type/XRef/W[1 8 8]/Size 99999999999/Root 1 0 R/Length 1>>stream\nx\nendstream endobj\nstartxref\n9\n%%EOF"),
		"a predictor of a terabyte":             []byte(strings.Replace(string(buildFile("", bomb)), "<</Length", "<</Filter/FlateDecode/DecodeParms<</Predictor 12/Columns 999999999999/Colors 99>>/Length", 1)),
		"a map of four billion codes":           buildFile("/Resources<</Font<</F<</Subtype/Type0/Encoding/Identity-H/ToUnicode 5 0 R/DescendantFonts[<</W[0 9999999999 5]>>]>>>>>>", "BT /F 1e9 Tf <00010002> Tj ET", "<</Length 60>>stream\n1 beginbfrange <00000000> <ffffffff> <0041> endbfrange\nendstream"),
		"the same widths over and over":         buildFile("/Resources<</Font<</F<</Subtype/Type0/Encoding/Identity-H/DescendantFonts[<</W["+strings.Repeat("0 65534 5 ", 100_000)+"]>>]>>>>>>", "BT /F 9 Tf <00010002> Tj ET"),
		"numbers beyond all measure":            buildFile("/Rotate 9e99", "9e300 0 0 9e300 9e300 9e300 cm BT 9e300 0 0 9e300 9 9 Tm /F -9e300 Tf (x) Tj (y) Tj ET"),
		"objects that are never closed":         []byte("%PDF-1.4\n" + strings.Repeat("1 0 obj[(", deep) + "\n%%EOF"),
		"comments behind objects":               []byte("%PDF-1.4\n" + strings.Repeat("1 0 obj<<>>%", deep) + "\n%%EOF"),
		"filters of nothing":                    []byte(strings.Replace(string(buildFile("", "")), "<</Length", "<</Filter["+strings.Repeat("/Fl ", deep)+"]/Length", 1)),
		"nothing":                               {},
		"a header":                              []byte("%PDF-1.7"),
	}
}

// TestRead_hostile checks that reading ends soon, with an error or pages.
func TestRead_hostile(t *testing.T) {
	options := pdf.Options{MaxDecoded: suite.SampleOr[int64](128<<20, 0)}
	for name, data := range hostileFiles(t) {
		t.Run(name, func(t *testing.T) {
			began := time.Now()
			doc, err := pdf.Read(t.Context(), data, options)
			if took := time.Since(began); took > 20*time.Second {
				t.Errorf("it took %s", took)
			}
			if err != nil && cli.ExitCode(err) != 64 {
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

// TestRead_memory checks that what a few bytes of a file expand to is charged to the budget, or
// not created. Without that, each of these files takes at least a quarter of a gigabyte, and
// with the default budget and some hundred kilobytes all memory.
func TestRead_memory(t *testing.T) {
	suite.Slow(t, "it writes 60 MB")
	compressed := func(text string) string {
		data := deflated(t, text)
		return fmt.Sprintf("/Filter/FlateDecode/Length %d>>stream\n%s\nendstream", len(data), data)
	}
	content := func(page, text string, objects ...string) []byte {
		file := string(buildFile(page, "", objects...))
		return []byte(strings.Replace(file, "/Length 0>>stream\n\nendstream", compressed(text), 1))
	}
	fonts, selections := "", ""
	for i := range 100 {
		fonts += fmt.Sprintf("/F%d %d 0 R", i, i+6)
		selections += fmt.Sprintf("/F%d 1 Tf ", i)
	}
	manyFonts := func(font string) []byte {
		objects := []string{"<<" + compressed(strings.Repeat(strings.Repeat("()", 1000)+" endbfchar ", 150))}
		for range 100 {
			objects = append(objects, font)
		}
		return buildFile("/Resources<</Font<<"+fonts+">>>>", "BT "+selections+" ET", objects...)
	}
	const large = "a string of glyphs" // a few of them do not exceed its budget
	for name, data := range map[string][]byte{
		large:    content("", "BT /F 9 Tf ("+strings.Repeat("a", 12<<20)+") Tj ET"),
		"a list": content("", "["+strings.Repeat("0 ", 3<<20)+"] TJ"),
		"a table": []byte("%PDF-1.5\n1 0 obj<</Type/XRef/W[0 1 0]/Index[5 99999999]/Size 99999999/Root 1 0 R" +
			compressed(strings.Repeat(" ", 3<<20)) + " endobj\nstartxref\n9\n%%EOF"),
		"widths of fonts": manyFonts("<</Subtype/Type0/Encoding/Identity-H/DescendantFonts[<</W[0 65535 500]>>]>>"),
		"maps of fonts":   manyFonts("<</Subtype/Type1/ToUnicode 5 0 R>>"),
	} {
		budget := 16
		if name == large {
			budget = 64
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		// The result does not matter, only its memory.
		_, err := pdf.Read(t.Context(), data, pdf.Options{MaxDecoded: int64(budget) << 20})
		runtime.ReadMemStats(&after)
		if took := (after.TotalAlloc - before.TotalAlloc) >> 20; took > uint64(budget*75/8) {
			t.Errorf("%s: a file of %d KiB took %d MiB (%v)", name, len(data)>>10, took, err)
		}
	}
}

func TestRead_limits(t *testing.T) {
	data := readFile(t, "testdata/producers/fpdf.pdf")
	if _, err := pdf.Read(t.Context(), data, pdf.Options{MaxDecoded: 1000}); !errors.Is(err, pdf.ErrBudget) {
		t.Errorf("a budget of 1000 bytes: %v", err)
	}
	repeated := buildFile("/Resources<</Font<</F<</Subtype/Type1/Encoding<</Differences[0"+strings.Repeat("/g", 50_000)+"]>>>>>>>>", "BT "+strings.Repeat("/F 1 Tf ", 1000)+"ET")
	if _, err := pdf.Read(t.Context(), repeated, pdf.Options{MaxDecoded: 16 << 20}); !errors.Is(err, pdf.ErrBudget) {
		t.Errorf("an encoding that is read over and over: %v", err)
	}
	allCodes := buildFile("/Resources<</Font<</F<</Subtype/Type0/Encoding/Identity-H/ToUnicode 5 0 R/DescendantFonts[<</DW 500>>]>>>>>>",
		"BT /F 9 Tf <00420041> Tj ET", "<</Length 44>>stream\n1 beginbfrange <0000><ffff><0000> endbfrange \nendstream")
	if doc, err := pdf.Read(t.Context(), allCodes, pdf.Options{MaxDecoded: 16 << 10}); err != nil || doc.Pages[0].Text != "BA" {
		t.Errorf("a range of all codes: %v %v", doc, err)
	}
	if _, err := pdf.Read(t.Context(), data, pdf.Options{Timeout: time.Nanosecond}); err == nil || !strings.Contains(err.Error(), "longer than 1ns") {
		t.Errorf("a nanosecond: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := pdf.Read(ctx, data, pdf.Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	locked := []byte("%PDF-1.4\ntrailer<</Encrypt 1 0 R>> 1 0 obj null endobj")
	if _, err := pdf.Read(ctx, locked, pdf.Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled, encrypted: %v", err)
	}
	if _, err := pdf.Read(t.Context(), []byte("<html>"), pdf.Options{}); !errors.Is(err, pdf.ErrNotPDF) {
		t.Errorf("a page of HTML: %v", err)
	}
}

func FuzzRead(f *testing.F) {
	files, err := filepath.Glob("testdata/*/*.pdf")
	if err != nil {
		f.Fatal(err)
	}
	for _, path := range files {
		f.Add(readFile(f, path))
	}
	for _, data := range hostileFiles(f) {
		if len(data) < 10_000 {
			f.Add(data)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		doc, err := pdf.Read(t.Context(), data, pdf.Options{MaxDecoded: 8 << 20, Timeout: 5 * time.Second})
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
