package pdf_test

import (
	"encoding/ascii85"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"

	"extraction-experiment/harness/answers/pdf"
)

// helvetica is the entry of a page with a font F that every reader has.
const helvetica = "/Resources<</Font<</F<</Subtype/Type1/BaseFont/Helvetica>>>>>>"

func pageText(t *testing.T, file []byte) string {
	t.Helper()
	return read(t, file, pdf.Options{}).Pages[0].Text
}

// TestOperators checks the operators that move and show text, and what comes between texts.
func TestOperators(t *testing.T) {
	for name, tt := range map[string]struct{ content, want string }{
		"the next line":            {"/F 10 Tf 50 700 Td 14 TL (One) Tj T* (Two) Tj (Three) ' 0 0 (Four) \"", "One\nTwo\nThree\nFour"},
		"lines by TD":              {"/F 10 Tf 50 700 Td (One) Tj 0 -14 TD (Two) Tj T* (Three) Tj", "One\nTwo\nThree"},
		"space between letters":    {"/F 10 Tf 50 700 Td 1 Tc (spread) Tj 0 Tc 200 Tz (wide) Tj", "spreadwide"},
		"space between words":      {"/F 10 Tf 50 700 Td 2 Tw (a b) Tj 0 Tw 30 0 Td (c d) Tj", "a b | c d"},
		"gaps of TJ":               {"/F 10 Tf 50 700 Td [(one) -600 (two) 20 (three)] TJ", "one twothree"},
		"raised and lowered":       {"/F 10 Tf 50 700 Td (H) Tj -2 Ts (2) Tj 0 Ts (O) Tj", "H2O"},
		"an inline image":          {"/F 10 Tf 50 700 Td (before) Tj ET q 9 0 0 9 0 0 cm BI /W 2 /H 2 /BPC 8 /CS /G ID (\xff)\xfeTj EI Q BT /F 10 Tf 50 686 Td (after) Tj", "before\nafter"},
		"an image without its end": {"/F 10 Tf 50 700 Td (before) Tj ET BI /W 9 ID abc", "before"},
		"a state that is restored": {"/F 10 Tf ET q 1 0 0 1 300 0 cm Q BT /F 10 Tf 50 700 Td (left) Tj 1 0 0 1 80 700 Tm (right) Tj", "left | right"},
	} {
		if got := pageText(t, buildFile(helvetica, "BT "+tt.content+" ET")); got != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}

// TestFilters checks a content stream with each filter, and with several.
func TestFilters(t *testing.T) {
	const plain = "BT /F 10 Tf 50 700 Td (Filtered text) Tj ET"
	hexText := hex.EncodeToString([]byte(plain)) + ">"
	ascii85Text := func(text string) string {
		b := make([]byte, ascii85.MaxEncodedLen(len(text)))
		return string(b[:ascii85.Encode(b, []byte(text))]) + "~>"
	}
	for filter, content := range map[string]string{
		"":                                  plain,
		"/Filter/ASCIIHexDecode":            hexText,
		"/Filter/AHx":                       strings.ToUpper(hexText),
		"/Filter/ASCII85Decode":             ascii85Text(plain),
		"/Filter[/A85]":                     ascii85Text(plain),
		"/Filter/FlateDecode":               deflated(t, plain),
		"/Filter[/ASCII85Decode/Fl]":        ascii85Text(deflated(t, plain)),
		"/Filter[/ASCIIHexDecode/A85/Fl]":   hex.EncodeToString([]byte(ascii85Text(deflated(t, plain)))) + ">",
		"/Filter/RunLengthDecode":           string(rune(len(plain)-1)) + plain + "\x80",
		"/Filter/Crypt":                     plain, // Identity by default
		"/Filter[/LZWDecode]/DecodeParms 0": string(encodeLZW(plain)),
	} {
		file := strings.Replace(string(buildFile(helvetica, content)), "<</Length", "<<"+filter+"/Length", 1)
		if got := pageText(t, []byte(file)); got != "Filtered text" {
			t.Errorf("%s: %q", filter, got)
		}
	}
}

// TestRead_lost checks that a page of which a stream cannot be decoded is neither blank nor
// readable, and has the rest of its text.
func TestRead_lost(t *testing.T) {
	const shown, content = "BT /F 10 Tf 50 700 Td (The rest of the page) Tj ET", "BT /F 10 Tf 50 680 Td (lost) Tj ET"
	const resources = "/Resources<</Font<</F<</Subtype/Type1/BaseFont/Helvetica>>>>/XObject<</X 5 0 R/Y 9 0 R/Z null>>>>"
	form := func(dict, content string) string {
		return fmt.Sprintf("<<%s/Length %d>>stream\n%s\nendstream", dict, len(content), content)
	}
	for name, tt := range map[string]struct{ page, operators, object, problem string }{
		"a form":                        {"", "/X Do", form("/Subtype/Form", content), ""},
		"a form, unknown filter":        {"", "/X Do", form("/Subtype/Form/Filter/Other", content), `the filter "Other"`},
		"a form, corrupt":               {"", "/X Do", form("/Subtype/Form/Filter/Fl", "\xff\xff\xff"), "flate: corrupt"},
		"a form, cut off":               {"", "/X Do", "<</Subtype/Form/Length 9>>", "not in the file"},
		"a form, missing":               {"", "/Y Do", "null", "not in the file"},
		"a form, null":                  {"", "/Z Do", "null", ""},
		"a form in itself":              {"", "/X Do", form("/Subtype/Form", "/X Do"), ""},
		"a picture":                     {"", "/X Do", form("/Subtype/Image/Filter/DCTDecode", "x"), ""},
		"a picture, cut off":            {"", "/X Do", "<</Subtype/Image>>", ""},
		"a form that is not there":      {"", "/Other Do", "null", ""},
		"the content, missing":          {"/Contents 9 0 R", "", "null", "not in the file"},
		"the content, cut off":          {"/Contents 5 0 R", "", "<</Length 9>>", "not in the file"},
		"a part of the content":         {"/Contents[4 0 R 9 0 R]", "", "null", "not in the file"},
		"an array of contents":          {"/Contents 5 0 R", "", "[4 0 R 9 0 R]", "not in the file"},
		"an array of whole contents":    {"/Contents 5 0 R", "", "[4 0 R null]", ""},
		"no content":                    {"/Contents null", "", "null", ""},
		"an empty array":                {"/Contents[]", "", "null", ""},
		"an empty array that is shared": {"/Contents 5 0 R", "", "[]", ""},
	} {
		p := read(t, buildFile(resources+tt.page, shown+" "+tt.operators, tt.object), pdf.Options{}).Pages[0]
		lost := strings.HasPrefix(p.Problem, "a part of the page cannot be decoded: ")
		if !strings.Contains(p.Problem, tt.problem) || lost != (tt.problem != "") || lost != (p.Kind == pdf.Unreadable) {
			t.Errorf("%s: %s, %q, want %q", name, p.Kind, p.Problem, tt.problem)
		}
		shows := tt.page == "" || strings.Contains(tt.page+tt.object, "[4")
		if shows != strings.Contains(p.Text, "The rest") {
			t.Errorf("%s: the text is %q", name, p.Text)
		}
	}
}

// encodeLZW encodes every byte as a code of nine bits, and clears the table before codes grow.
func encodeLZW(text string) []byte {
	var bits strings.Builder
	for i := range len(text) {
		if i%200 == 0 {
			fmt.Fprintf(&bits, "%09b", 256)
		}
		fmt.Fprintf(&bits, "%09b", text[i])
	}
	fmt.Fprintf(&bits, "%09b", 257)
	all := bits.String() + "0000000"
	var out []byte
	for ; len(all) >= 8; all = all[8:] {
		var b byte
		fmt.Sscanf(all[:8], "%b", &b)
		out = append(out, b)
	}
	return out
}
