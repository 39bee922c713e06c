package main

import (
	"bytes"
	"strings"

	"codeberg.org/go-pdf/fpdf"
	"github.com/signintech/gopdf"
	"golang.org/x/image/font/gofont/goregular"
)

// withFpdf draws the pages with fpdf and the Go font, which has Cyrillic.
func withFpdf(pages []page, _ string) ([]byte, error) {
	pdf := fpdf.New("P", "mm", "A4", "")
	pdf.AddUTF8FontFromBytes("go", "", goregular.TTF)
	for _, p := range pages {
		pdf.AddPage()
		pdf.SetFont("go", "", 18)
		pdf.MultiCell(0, 10, p.Title, "", "L", false)
		pdf.SetFont("go", "", 11)
		for _, text := range p.Paragraphs {
			pdf.MultiCell(0, 6, text, "", "L", false)
		}
		for _, row := range p.Table {
			for i, cell := range row {
				align := "R"
				if i == 0 {
					align = "L"
				}
				pdf.CellFormat(60, 7, cell, "1", 0, align, false, 0, "")
			}
			pdf.Ln(7)
		}
		top := pdf.GetY() + 5
		for i, text := range p.Columns {
			pdf.SetXY(10+float64(i)*98, top)
			pdf.MultiCell(90, 6, text, "", "L", false)
		}
		if p.Rotated != "" {
			pdf.TransformBegin()
			pdf.TransformRotate(90, 30, 200)
			pdf.Text(30, 200, p.Rotated)
			pdf.TransformEnd()
		}
	}
	var b bytes.Buffer
	err := pdf.Output(&b)
	return b.Bytes(), err
}

// withGopdf draws the pages with gopdf, line by line.
func withGopdf(pages []page, _ string) ([]byte, error) {
	pdf := &gopdf.GoPdf{}
	pdf.Start(gopdf.Config{PageSize: *gopdf.PageSizeA4})
	if err := pdf.AddTTFFontData("go", goregular.TTF); err != nil {
		return nil, err
	}
	var failed error
	put := func(x, y float64, size int, text string) {
		if err := pdf.SetFont("go", "", size); err != nil && failed == nil {
			failed = err
		}
		pdf.SetXY(x, y)
		if err := pdf.Cell(nil, text); err != nil && failed == nil {
			failed = err
		}
	}
	for _, p := range pages {
		pdf.AddPage()
		put(40, 40, 18, p.Title)
		y := 80.0
		for _, text := range p.Paragraphs {
			for _, line := range wrap(text, 80) {
				put(40, y, 11, line)
				y += 16
			}
		}
		for _, row := range p.Table {
			for i, cell := range row {
				put(40+float64(i)*160, y, 11, cell)
			}
			y += 18
		}
		for i, text := range p.Columns {
			for n, line := range wrap(text, 40) {
				put(40+float64(i)*270, y+float64(n)*16, 11, line)
			}
		}
		if p.Rotated != "" {
			pdf.Rotate(90, 60, 600)
			put(60, 600, 11, p.Rotated)
			pdf.RotateReset()
		}
	}
	if failed != nil {
		return nil, failed
	}
	return pdf.GetBytesPdfReturnErr()
}

// wrap breaks a text into lines of about so many characters.
func wrap(text string, width int) []string {
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(text) {
		if line != "" && len([]rune(line))+len([]rune(word)) >= width {
			lines = append(lines, line)
			line = ""
		}
		line = strings.TrimSpace(line + " " + word)
	}
	return append(lines, line)
}
