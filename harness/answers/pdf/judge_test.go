package pdf_test

import (
	"fmt"
	"strings"
	"testing"

	"golang.org/x/text/encoding/charmap"

	"extraction-experiment/harness/answers/pdf"
)

// buildFile returns a file of one page without a cross-reference table. Object 1 is the catalogue,
// 2 the page tree, 3 the page with the entries of page, and 4 its content; objects are 5 and so on.
func buildFile(page, content string, objects ...string) []byte {
	var b strings.Builder
	b.WriteString("%PDF-1.7\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\n2 0 obj<</Type/Pages/Kids[3 0 R]/Count 1>>endobj\n")
	fmt.Fprintf(&b, "3 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 600 800]/Contents 4 0 R %s>>endobj\n", page)
	fmt.Fprintf(&b, "4 0 obj<</Length %d>>stream\n%s\nendstream endobj\n", len(content), content)
	for i, o := range objects {
		fmt.Fprintf(&b, "%d 0 obj%s endobj\n", i+5, o)
	}
	return []byte(b.String() + "trailer<</Root 1 0 R>>\n%%EOF\n")
}

const russian = "Выручка компании за отчётный период выросла благодаря новым договорам с портами северного побережья и снижению расходов на топливо"

// showLines returns a content stream that shows each word on its own line.
func showLines(text string) string {
	return "BT /F 12 Tf 50 700 Td (" + strings.ReplaceAll(text, " ", ") Tj 0 -14 Td (") + ") Tj ET"
}

func TestJudge(t *testing.T) {
	cp1251, err := charmap.Windows1251.NewEncoder().String(russian)
	if err != nil {
		t.Fatal(err)
	}
	picture := "<</Type/XObject/Subtype/Image/Width 1/Height 1/Length 1>>stream\nx\nendstream"
	composite := "<</Type/Font/Subtype/Type0/Encoding/Identity-H/DescendantFonts[<</DW 500>>]%s>>"
	same := "<</Length 70>>stream\n1 beginbfrange <0000> <ffff> [<0041><0041>] endbfrange 1 beginbfchar <0030> <0041> endbfchar\nendstream"
	tests := map[string]struct {
		file    []byte
		kind    pdf.Kind
		problem string
	}{
		"text":  {buildFile(helvetica, showLines("The office was closed because of the storm and nobody went to work that day at all")), pdf.Readable, ""},
		"blank": {buildFile("", ""), pdf.Blank, "blank"},
		"scan":  {buildFile("/Resources<</XObject<</I 5 0 R>>>>", "q 600 0 0 800 0 0 cm /I Do Q", picture), pdf.Scan, "OCR"},
		"scan with a page number": {buildFile("/Resources<</XObject<</I 5 0 R>>/Font<</F<</Subtype/Type1/BaseFont/Helvetica>>>>>>",
			"q 500 0 0 780 0 0 cm /I Do Q BT /F 9 Tf 300 20 Td (page 7) Tj ET", picture), pdf.Scan, "OCR"},
		"a small picture beside text": {buildFile("/Resources<</XObject<</I 5 0 R>>/Font<</F<</Subtype/Type1/BaseFont/Helvetica>>>>>>",
			"q 90 0 0 80 0 0 cm /I Do Q "+showLines("Some words under a picture are text"), picture), pdf.Readable, ""},
		"a composite font without a map": {buildFile("/Resources<</Font<</F 5 0 R>>>>", showLines("abcdefgh ijklmnop"), fmt.Sprintf(composite, "")), pdf.Unreadable, "no meaning"},
		"a map of everything to one letter": {buildFile("/Resources<</Font<</F 5 0 R>>>>", "BT /F 9 Tf 9 700 Td <"+strings.Repeat("00300030003000300030003000300001"+"0020", 20)+"> Tj ET",
			fmt.Sprintf(composite, "/ToUnicode 6 0 R"), same), pdf.Unreadable, ""},
		"windows-1251 that says it is Latin": {buildFile("/Resources<</Font<</F<</Subtype/TrueType/Encoding/WinAnsiEncoding>>>>>>", showLines(cp1251)), pdf.Unreadable, "no language has"},
		"symbols of a private font":          {buildFile("/Resources<</Font<</F<</Subtype/Type3/Encoding<</Differences[97/g1/g2/g3/g4/g5]>>>>>>>>", showLines("abcde edcba")), pdf.Unreadable, "no meaning"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			doc := read(t, tt.file, pdf.Options{})
			p := doc.Pages[0]
			if p.Kind != tt.kind || !strings.Contains(p.Problem, tt.problem) {
				t.Errorf("%s %q %q, want %s %q", p.Kind, p.Problem, p.Text, tt.kind, tt.problem)
			}
			if bad := len(doc.Problems()) > 0; bad != (tt.kind == pdf.Scan || tt.kind == pdf.Unreadable) {
				t.Errorf("problems %v", doc.Problems())
			}
		})
	}
}

// TestJudge_realText checks that unusual prose is readable.
func TestJudge_realText(t *testing.T) {
	for _, text := range []string{
		russian,
		"Параметр MaxLine ограничивает длину строки; GmbH, Ltd, HTTP, JSONL и XMLHttpRequest — сокращения, взгляд и контрстратегия — слова",
		"Rhythm myths: the strengths of Schwarzschild geometry, naïve café, Ærøskøbing, Łódź and Ångström were discussed there at length",
	} {
		data := buildFile("/Resources<</Font<</F<</Subtype/Type0/Encoding/UniGB-UTF16-H/DescendantFonts[<<>>]>>>>>>", "BT /F 9 Tf 9 700 Td <"+hexUTF16(text)+"> Tj ET")
		doc, err := pdf.Read(t.Context(), data, pdf.Options{})
		if err != nil || doc.Pages[0].Kind != pdf.Readable || normalize(doc.Pages[0].Text) != normalize(text) {
			t.Errorf("%v %+v", err, doc.Pages[0])
		}
	}
}

// hexUTF16 returns the UTF-16 code units of text in hexadecimal.
func hexUTF16(text string) string {
	var b strings.Builder
	for _, r := range text {
		fmt.Fprintf(&b, "%04x", r)
	}
	return b.String()
}

// TestRead_turned checks that a rotated page is read as it is shown.
func TestRead_turned(t *testing.T) {
	for rotate, matrix := range map[int]string{0: "1 0 0 1 50 700", 90: "0 1 -1 0 50 50", 180: "-1 0 0 -1 500 700", 270: "0 -1 1 0 50 700"} {
		content := "BT /F 12 Tf " + matrix + " Tm (First line) Tj 0 -14 Td (second line) Tj ET"
		doc, err := pdf.Read(t.Context(), buildFile(fmt.Sprintf("/Rotate %d %s", rotate, helvetica), content), pdf.Options{})
		if err != nil || doc.Pages[0].Text != "First line\nsecond line" {
			t.Errorf("turned by %d: %v %q", rotate, err, doc.Pages[0].Text)
		}
	}
}

// TestJudge_counts checks, with a file cut off before the maps of its fonts, that the number of
// unknown characters does not exceed that of all characters.
func TestJudge_counts(t *testing.T) {
	doc := read(t, readFile(t, "testdata/producers/chromium.pdf")[:15000], pdf.Options{})
	var unknown, shown int
	if _, err := fmt.Sscanf(doc.Pages[0].Problem, "%d of %d characters have no meaning", &unknown, &shown); err != nil || unknown > shown || !doc.Repaired {
		t.Errorf("%q, repaired %v: %v", doc.Pages[0].Problem, doc.Repaired, err)
	}
}
