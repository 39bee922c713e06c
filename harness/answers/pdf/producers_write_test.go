package pdf_test

import (
	"bytes"
	"fmt"
	"html"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"codeberg.org/go-pdf/fpdf"
	"github.com/signintech/gopdf"
	"golang.org/x/image/font/gofont/goregular"
)

// producers has a function for each program that writes the pages of content.json as a PDF file. It
// may use the folder work.
var producers = map[string]func(pages []page, work string) ([]byte, error){
	"latex": latex, "libreoffice": libreoffice, "chromium": chromium, "fpdf": withFpdf, "gopdf": withGopdf,
}

// runTool writes text to the file input in the folder work, runs a command there and returns the
// file output.
func runTool(work, input, text, output string, command ...string) ([]byte, error) {
	if err := os.WriteFile(filepath.Join(work, input), []byte(text), 0o644); err != nil {
		return nil, err
	}
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Dir = work
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%w: %.500s", err, out)
	}
	return os.ReadFile(filepath.Join(work, output))
}

func latex(pages []page, work string) ([]byte, error) {
	return runTool(work, "latex.tex", latexSource(pages), "latex.pdf", "pdflatex", "-interaction=batchmode", "latex.tex")
}

func libreoffice(pages []page, work string) ([]byte, error) {
	return runTool(work, "libreoffice.html", htmlSource(pages, false), "libreoffice.pdf",
		"soffice", "--headless", "-env:UserInstallation=file://"+work+"/profile", "--infilter=HTML (StarWriter)", "--convert-to", "pdf:writer_pdf_Export", "libreoffice.html")
}

func chromium(pages []page, work string) ([]byte, error) {
	return runTool(work, "chromium.html", htmlSource(pages, true), "chromium.pdf",
		"chromium", "--headless", "--no-sandbox", "--disable-gpu", "--no-pdf-header-footer", "--print-to-pdf=chromium.pdf", "chromium.html")
}

// htmlSource returns the pages as HTML, for a browser with CSS or for LibreOffice, which supports
// columns as multicol elements and no rotation.
func htmlSource(pages []page, browser bool) string {
	var b strings.Builder
	b.WriteString(`<!doctype html><html lang="ru"><head><meta charset="utf-8"><style>
body{font-family:"Liberation Serif",serif;font-size:12pt} td{border:1px solid #888;padding:2pt 6pt}
h1{font-size:18pt} .next{page-break-before:always} .columns{column-count:2;column-gap:1cm}
.turned{writing-mode:vertical-rl}</style></head><body>`)
	for i, p := range pages {
		class := ""
		if i > 0 {
			class = ` class="next" style="page-break-before:always"`
		}
		fmt.Fprintf(&b, "<h1%s>%s</h1>\n", class, html.EscapeString(p.Title))
		for _, text := range p.Paragraphs {
			fmt.Fprintf(&b, "<p>%s</p>\n", html.EscapeString(text))
		}
		if p.Table != nil {
			b.WriteString("<table>")
			for _, row := range p.Table {
				b.WriteString("<tr>")
				for _, cell := range row {
					fmt.Fprintf(&b, "<td>%s</td>", html.EscapeString(cell))
				}
				b.WriteString("</tr>")
			}
			b.WriteString("</table>\n")
		}
		if p.Columns != nil {
			open, end := `<multicol cols="2" gutter="40">`, "</multicol>"
			if browser {
				open, end = `<div class="columns">`, "</div>"
			}
			fmt.Fprintf(&b, "%s<p>%s</p><p>%s</p>%s\n", open, html.EscapeString(p.Columns[0]), html.EscapeString(p.Columns[1]), end)
		}
		if p.Rotated != "" {
			fmt.Fprintf(&b, `<p class="turned">%s</p>`, html.EscapeString(p.Rotated))
		}
	}
	return b.String() + "</body></html>"
}

// latexSource returns the pages for pdfLaTeX, with Cyrillic in T2A.
func latexSource(pages []page) string {
	escape := strings.NewReplacer("%", `\%`, "&", `\&`, "«", "<<", "»", ">>", "—", "---").Replace
	var b strings.Builder
	b.WriteString(`\documentclass[12pt]{article}
\usepackage[T2A]{fontenc}\usepackage[utf8]{inputenc}\usepackage[english,russian]{babel}
\usepackage{graphicx}\usepackage{multicol}\pagestyle{empty}\setlength{\columnsep}{1cm}
\begin{document}
`)
	for i, p := range pages {
		if i > 0 {
			b.WriteString("\\newpage\n")
		}
		fmt.Fprintf(&b, "\\section*{%s}\n", escape(p.Title))
		for _, text := range p.Paragraphs {
			fmt.Fprintf(&b, "%s\n\n", escape(text))
		}
		if p.Table != nil {
			b.WriteString("\\begin{tabular}{|l|r|r|}\\hline\n")
			for _, row := range p.Table {
				fmt.Fprintf(&b, "%s \\\\ \\hline\n", escape(strings.Join(row, " \x00 ")))
			}
			b.WriteString("\\end{tabular}\n")
		}
		if p.Columns != nil {
			fmt.Fprintf(&b, "\\begin{multicols}{2}\n%s\n\n%s\n\\end{multicols}\n", escape(p.Columns[0]), escape(p.Columns[1]))
		}
		if p.Rotated != "" {
			fmt.Fprintf(&b, "\\rotatebox{90}{%s}\n", escape(p.Rotated))
		}
	}
	return strings.ReplaceAll(b.String(), "\x00", "&") + "\\end{document}\n"
}

// withFpdf writes the pages with fpdf and the Go font, which has Cyrillic.
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

// withGopdf writes the pages with gopdf, line by line.
func withGopdf(pages []page, _ string) ([]byte, error) {
	pdf := &gopdf.GoPdf{}
	pdf.Start(gopdf.Config{PageSize: *gopdf.PageSizeA4})
	if err := pdf.AddTTFFontData("go", goregular.TTF); err != nil {
		return nil, err
	}
	var firstErr error
	put := func(x, y float64, size int, text string) {
		if err := pdf.SetFont("go", "", size); err != nil && firstErr == nil {
			firstErr = err
		}
		pdf.SetXY(x, y)
		if err := pdf.Cell(nil, text); err != nil && firstErr == nil {
			firstErr = err
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
	if firstErr != nil {
		return nil, firstErr
	}
	return pdf.GetBytesPdfReturnErr()
}

// wrap breaks text into lines of about width characters.
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
