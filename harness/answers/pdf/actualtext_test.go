package pdf_test

import (
	"errors"
	"strings"
	"testing"

	"extraction-experiment/harness/answers/pdf"
)

// TestActualText checks that the text of a marked span is its ActualText, at the place of its glyphs.
func TestActualText(t *testing.T) {
	named := strings.Replace(helvetica, "<</Font", "<</Properties<</Named<</ActualText(named)>>>>/Font", 1)
	long := strings.Repeat("long", 100)
	for name, tt := range map[string]struct{ content, want string }{
		"a soft hyphen as a space":     {"(Haupt) Tj /Span<</ActualText <FEFF00AD>>> BDC ( ) Tj EMC (saal) Tj", "Hauptsaal"},
		"a soft hyphen, shown":         {"(Haupt) Tj /Span<</ActualText<FEFF00AD>>> BDC (-) Tj EMC 0 -14 Td (saal) Tj", "Hauptsaal"},
		"several glyphs":               {"/Span<</ActualText<FEFF04160031>>> BDC (abc) Tj EMC (d) Tj", "Ж1d"},
		"letters that are far apart":   {"/Span<</ActualText(one)>> BDC [(o) -500 (n) -500 (e)] TJ EMC (s) Tj", "ones"},
		"two lines":                    {"/Span<</ActualText(both)>> BDC (bo) Tj 0 -14 Td (th) Tj EMC 0 -14 Td (next) Tj", "both\nnext"},
		"two columns of a table":       {"/Span<</ActualText(a)>> BDC (x) Tj EMC 80 0 Td (b) Tj", "a | b"},
		"UTF-8":                        {"/Span<</ActualText<EFBBBFD096>>> BDC (x) Tj EMC", "Ж"},
		"signs of PDFDocEncoding":      {"/Span<</ActualText(a\\204b\\240\\344)>> BDC (x) Tj EMC", "a—b€ä"},
		"a named list of properties":   {"/Span/Named BDC (x) Tj EMC (d) Tj", "namedd"},
		"a tag of the same name":       {"/Named BMC (x) Tj EMC (d) Tj", "xd"},
		"content inside":               {"/Span<</ActualText(one)>> BDC /P BMC (x) Tj EMC /P<</MCID 1>> BDC (y) Tj EMC EMC ( two) Tj", "one two"},
		"a span inside":                {"/Span<</ActualText(one)>> BDC /Span<</ActualText(x)>> BDC (y) Tj EMC (z) Tj EMC ( two) Tj", "one two"},
		"none, or not usable":          {"/P BMC (a) Tj EMC /P/None BDC (b) Tj EMC /Span<</ActualText 5>> BDC (c) Tj EMC", "abc"},
		"empty":                        {"(Haupt) Tj /Span<</ActualText()>> BDC (-) Tj EMC 0 -14 Td (saal) Tj", "Hauptsaal"},
		"too long":                     {"/Span<</ActualText(" + long + ")>> BDC (short) Tj EMC", "short"},
		"invalid UTF-16":               {"/Span<</ActualText<FEFFD800>>> BDC (a) Tj EMC", "a"},
		"without an end":               {"(a) Tj /Span<</ActualText(x)>> BDC (b) Tj", "ab"},
		"without a beginning":          {"EMC EMC (a) Tj /Span<</ActualText(b)>> BDC (x) Tj EMC EMC (c) Tj", "abc"},
		"without glyphs":               {"(a) Tj /Span<</ActualText(b)>> BDC EMC (c) Tj", "ac"},
		"content that is nested often": {strings.Repeat("/S<</ActualText(x)>>BDC ", 1000) + "(a) Tj" + strings.Repeat(" EMC", 1000) + " (b) Tj", "xb"},
	} {
		if got := pageText(t, buildFile(named, "BT /F 10 Tf 50 700 Td "+tt.content+" ET")); got != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}

// TestActualText_budget checks that a small file with much replacement text is refused.
func TestActualText_budget(t *testing.T) {
	named := strings.Replace(helvetica, "<</Font", "<</Properties<</N<</ActualText("+strings.Repeat("x", 250)+")>>>>/Font", 1)
	content := "BT /F 10 Tf " + strings.Repeat("/S/N BDC (a) Tj EMC ", 10_000) + "ET"
	_, err := pdf.Read(t.Context(), buildFile(named, content), pdf.Options{MaxDecoded: 1 << 20})
	if !errors.Is(err, pdf.ErrBudget) {
		t.Error(err)
	}
}
