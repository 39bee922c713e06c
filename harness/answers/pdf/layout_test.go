package pdf_test

import (
	"fmt"
	"strings"
	"testing"

	"extraction-experiment/harness/answers/pdf"
)

// mono is a font whose letters are all half its size wide.
const mono = "/Resources<</Font<</F<</Subtype/Type0/Encoding/UniGB-UTF16-H/DescendantFonts[<</DW 500>>]>>>>>>"

// at writes a text at a place.
func at(x, y int, text string) string {
	return fmt.Sprintf("1 0 0 1 %d %d Tm <%s> Tj ", x, y, hexUTF16(text))
}

func textOf(t *testing.T, content string) string {
	t.Helper()
	doc, err := pdf.Read(t.Context(), build(mono, "BT /F 10 Tf "+content+" ET"), pdf.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return doc.Pages[0].Text
}

// TestLayout_tables: letters are 5 wide, so that eight of them from 50 end at 90;
// a gap of 5 is half the size of the font, too little for cells by itself.
func TestLayout_tables(t *testing.T) {
	tests := map[string]struct{ content, want string }{
		"cells that nearly touch": {
			at(50, 700, "Position") + at(95, 700, "2022 year") + at(145, 700, "2023") +
				at(50, 686, "Debt") + at(95, 686, "312") + at(145, 686, "347"),
			"Position | 2022 year | 2023\nDebt | 312 | 347"},
		"a row that is one piece": {
			at(50, 700, "Position") + at(120, 700, "2022") +
				at(50, 686, "Headcount and") + at(120, 686, "312") +
				at(50, 672, "Debt") + at(120, 672, "347"),
			"Position | 2022\nHeadcount and | 312\nDebt | 347"},
		"no table beside it": {
			at(50, 700, "Position") + at(95, 700, "2022 year"),
			"Position 2022 year"},
		"words of one cell": {
			at(50, 700, "Net") + at(70, 700, "debt") + at(145, 700, "12") +
				at(50, 686, "Debt") + at(145, 686, "34"),
			"Net debt | 12\nDebt | 34"},
		"prose over a table": {
			at(50, 714, "These") + at(80, 714, "are") + at(100, 714, "all") + at(120, 714, "in") + at(135, 714, "euros") +
				at(50, 700, "Profit") + at(120, 700, "12") +
				at(50, 686, "Debt") + at(120, 686, "34"),
			"These are all in euros\nProfit | 12\nDebt | 34"},
		"a word that a soft hyphen divides": {
			at(50, 700, "An exam\u00ad") + at(50, 686, "ple of\u00ad three"),
			"An example\nof three"},
		"a word with a hyphen of its own, divided": {
			at(50, 700, "An infor-") + at(50, 686, "ma-") + at(50, 672, "tion- and more"),
			"An information-\nand more"},
		"columns that do not agree": {
			at(50, 700, "Profit and loss") + at(180, 700, "of a year") +
				at(50, 686, "Debt") + at(110, 686, "in thousands of euros") +
				at(50, 672, "Left") + at(75, 672, "right"),
			"Profit and loss | of a year\nDebt | in thousands of euros\nLeft right"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := textOf(t, tt.content); got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}

// TestLayout_spacedOut: letters that are set apart for emphasis are one word,
// whatever sets them apart; figures and single letters stay what they are.
func TestLayout_spacedOut(t *testing.T) {
	apart := func(text string, by int) string { // each letter moved, a word by as much again and a quarter
		var b strings.Builder
		for _, r := range text {
			if r == ' ' {
				fmt.Fprintf(&b, "%d ", -by-250)
				continue
			}
			fmt.Fprintf(&b, "<%s> %d ", hexUTF16(string(r)), -by)
		}
		return "[" + b.String() + "] TJ"
	}
	tests := map[string]struct{ content, want string }{
		"character spacing":                 {"9 700 Td 3 Tc <" + hexUTF16("Разрядка и текст") + "> Tj 0 Tc", "Разрядка и текст"},
		"character spacing inside a line":   {"9 700 Td <" + hexUTF16("Это ") + "> Tj 4 Tc <" + hexUTF16("важно") + "> Tj 0 Tc <" + hexUTF16(" всем") + "> Tj", "Это важно всем"},
		"character spacing, words by moves": {"9 700 Td 3 Tc <" + hexUTF16("net") + "> Tj 27 0 Td <" + hexUTF16("debt") + "> Tj", "net debt"},
		"each letter moved":                 {"9 700 Td " + apart("Разрядка и текст", 200), "Разрядка и текст"},
		"figures on a scale":                {"9 700 Td 4 Tc <" + hexUTF16("12345") + "> Tj", "1 2 3 4 5"},
		"words of one letter":               {"9 700 Td <" + hexUTF16("a b c d e f") + "> Tj", "a b c d e f"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := textOf(t, tt.content); got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}
