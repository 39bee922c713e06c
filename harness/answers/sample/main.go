// Command sample draws the two PDF files of the sample of answers from their
// texts: report.txt, the annual report of an invented company in Russian, and
// manual.txt, the manual of an invented machine in English. Run it in the root of
// the repository:
//
//	go run ./harness/answers/sample
package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"codeberg.org/go-pdf/fpdf"
	"golang.org/x/image/font/gofont/gobold"
	"golang.org/x/image/font/gofont/goregular"
)

func main() {
	dir := filepath.Join("harness", "answers", "sample")
	err := errors.Join(draw(dir, "report", "стр. %d"), draw(dir, "manual", "page %d"))
	if err != nil {
		fmt.Fprintln(os.Stderr, "sample:", err)
		os.Exit(1)
	}
}

// draw writes name.pdf from name.txt; footer is the form of the page number.
func draw(dir, name, footer string) error {
	raw, err := os.ReadFile(filepath.Join(dir, name+".txt"))
	if err != nil {
		return fmt.Errorf("run it in the root of the repository: %w", err)
	}
	pdf := fpdf.New("P", "mm", "A4", "")
	pdf.SetCreationDate(time.Date(2024, 3, 14, 0, 0, 0, 0, time.UTC))
	pdf.SetModificationDate(time.Date(2024, 3, 14, 0, 0, 0, 0, time.UTC))
	pdf.SetCatalogSort(true)
	pdf.AddUTF8FontFromBytes("go", "", goregular.TTF)
	pdf.AddUTF8FontFromBytes("go", "B", gobold.TTF)
	pdf.SetFooterFunc(func() {
		pdf.SetY(-15)
		pdf.SetFont("go", "", 9)
		pdf.CellFormat(0, 8, fmt.Sprintf(footer, pdf.PageNo()), "", 0, "C", false, 0, "")
	})
	for page := range strings.SplitSeq(string(raw), "\n---\n") {
		pdf.AddPage()
		drawPage(pdf, strings.Split(strings.TrimSpace(page), "\n"))
	}
	return pdf.OutputFileAndClose(filepath.Join(dir, name+".pdf"))
}

// drawPage draws headings (#), rows of a table (|) and paragraphs.
func drawPage(pdf *fpdf.Fpdf, lines []string) {
	for _, line := range lines {
		title, isTitle := strings.CutPrefix(line, "# ")
		switch {
		case isTitle:
			pdf.SetFont("go", "B", 18)
			pdf.MultiCell(0, 10, title, "", "L", false)
			pdf.Ln(4)
		case strings.HasPrefix(line, "|"):
			drawRow(pdf, strings.Split(strings.Trim(line, "| "), " | "))
		default:
			pdf.SetFont("go", "", 11)
			pdf.MultiCell(0, 6, line, "", "L", false)
		}
	}
}

// drawRow draws the first cell wide, the others alike.
func drawRow(pdf *fpdf.Fpdf, cells []string) {
	const width, first = 190.0, 70.0
	pdf.SetFont("go", "", 9)
	for i, cell := range cells {
		w, align := (width-first)/float64(len(cells)-1), "R"
		if i == 0 {
			w, align = first, "L"
		}
		if len(cells) == 3 && i == 1 && len([]rune(cell)) > 24 {
			align = "L"
		}
		pdf.CellFormat(w, 7, cell, "1", 0, align, false, 0, "")
	}
	pdf.Ln(7)
}
