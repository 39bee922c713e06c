package main

import (
	"encoding/json"
	"fmt"
	"html"
	"os"
	"strings"
)

// page is what every producer puts on one page.
type page struct {
	Title      string     `json:"title"`
	Paragraphs []string   `json:"paragraphs"`
	Table      [][]string `json:"table"`
	Columns    []string   `json:"columns"`
	Rotated    string     `json:"rotated"`
}

func readContent(path string) ([]page, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var pages []page
	return pages, json.Unmarshal(raw, &pages)
}

// web writes the pages as HTML: for a browser with CSS, or for LibreOffice, which
// knows columns as a multicol element and no rotation.
func web(pages []page, browser bool) string {
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

// tex writes the pages for pdfLaTeX with Cyrillic in T2A.
func tex(pages []page) string {
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
