package pdf_test

import (
	"fmt"
	"strings"
	"testing"
)

// mono is the entry of a page with a font F whose letters are half as wide as its size.
const mono = "/Resources<</Font<</F<</Subtype/Type0/Encoding/UniGB-UTF16-H/DescendantFonts[<</DW 500>>]>>>>>>"

// textAt returns operators that show text at a place.
func textAt(x, y int, text string) string {
	return fmt.Sprintf("1 0 0 1 %d %d Tm <%s> Tj ", x, y, hexUTF16(text))
}

func textOf(t *testing.T, content string) string {
	t.Helper()
	return pageText(t, buildFile(mono, "BT /F 10 Tf "+content+" ET"))
}

// TestLayout_tables checks cells. Letters are 5 wide, so that eight of them from 50 end at 90; a
// gap of 5 is half of the font size, too little for cells by itself.
func TestLayout_tables(t *testing.T) {
	tests := map[string]struct{ content, want string }{
		"cells that nearly touch": {
			textAt(50, 700, "Position") + textAt(95, 700, "2022 year") + textAt(145, 700, "2023") +
				textAt(50, 686, "Debt") + textAt(95, 686, "312") + textAt(145, 686, "347"),
			"Position | 2022 year | 2023\nDebt | 312 | 347"},
		"a row that is one piece": {
			textAt(50, 700, "Position") + textAt(120, 700, "2022") +
				textAt(50, 686, "Headcount and") + textAt(120, 686, "312") +
				textAt(50, 672, "Debt") + textAt(120, 672, "347"),
			"Position | 2022\nHeadcount and | 312\nDebt | 347"},
		"no table beside it": {
			textAt(50, 700, "Position") + textAt(95, 700, "2022 year"),
			"Position 2022 year"},
		"words of one cell": {
			textAt(50, 700, "Net") + textAt(70, 700, "debt") + textAt(145, 700, "12") +
				textAt(50, 686, "Debt") + textAt(145, 686, "34"),
			"Net debt | 12\nDebt | 34"},
		"prose over a table": {
			textAt(50, 714, "These") + textAt(80, 714, "are") + textAt(100, 714, "all") + textAt(120, 714, "in") + textAt(135, 714, "euros") +
				textAt(50, 700, "Profit") + textAt(120, 700, "12") +
				textAt(50, 686, "Debt") + textAt(120, 686, "34"),
			"These are all in euros\nProfit | 12\nDebt | 34"},
		"a word that a soft hyphen divides": {
			textAt(50, 700, "An exam\u00ad") + textAt(50, 686, "ple of\u00ad three interna\u00ad\u2010") + textAt(50, 672, "tional ones"),
			"An example\nof three international\nones"},
		"a word with a hyphen of its own, divided": {
			textAt(50, 700, "An infor-") + textAt(50, 686, "ma-") + textAt(50, 672, "tion- and more"),
			"An information-\nand more"},
		"columns that do not agree": {
			textAt(50, 700, "Profit and loss") + textAt(180, 700, "of a year") +
				textAt(50, 686, "Debt") + textAt(110, 686, "in thousands of euros") +
				textAt(50, 672, "Left") + textAt(75, 672, "right"),
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

// TestLayout_spacedOut checks that letters spaced out for emphasis, in any way, are one word,
// but digits and single letters are not.
func TestLayout_spacedOut(t *testing.T) {
	spacedOut := func(text string, distance int) string { // moves each letter by distance, and a word by that and a quarter more
		var b strings.Builder
		for _, r := range text {
			if r == ' ' {
				fmt.Fprintf(&b, "%d ", -distance-250)
				continue
			}
			fmt.Fprintf(&b, "<%s> %d ", hexUTF16(string(r)), -distance)
		}
		return "[" + b.String() + "] TJ"
	}
	tests := map[string]struct{ content, want string }{
		"character spacing":                 {"9 700 Td 3 Tc <" + hexUTF16("Разрядка и текст") + "> Tj 0 Tc", "Разрядка и текст"},
		"character spacing inside a line":   {"9 700 Td <" + hexUTF16("Это ") + "> Tj 4 Tc <" + hexUTF16("важно") + "> Tj 0 Tc <" + hexUTF16(" всем") + "> Tj", "Это важно всем"},
		"character spacing, words by moves": {"9 700 Td 3 Tc <" + hexUTF16("net") + "> Tj 27 0 Td <" + hexUTF16("debt") + "> Tj", "net debt"},
		"each letter moved":                 {"9 700 Td " + spacedOut("Разрядка и текст", 200), "Разрядка и текст"},
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
