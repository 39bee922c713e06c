package answers_test

import (
	"flag"
	"fmt"
	"time"

	"codeberg.org/go-pdf/fpdf"
	"golang.org/x/image/font/gofont/gobold"
	"golang.org/x/image/font/gofont/goregular"

	"bytes"
	"os"
	"strings"
	"testing"

	"extraction-experiment/harness/answers"
	"extraction-experiment/harness/answers/pdf"
)

var update = flag.Bool("update", false, "write the PDF files of the sample anew")

// TestSample checks that the pages of the committed files contain every line of their texts, and
// that there are enough questions of every kind.
func TestSample(t *testing.T) {
	questions := 0
	var kinds [5]int
	for name, pages := range map[string]int{"report": 14, "manual": 8} {
		raw, err := os.ReadFile("sample/" + name + ".txt")
		if err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile("sample/" + name + ".pdf")
		if err != nil {
			t.Fatal(err)
		}
		doc, err := pdf.Read(t.Context(), data, pdf.Options{})
		if err != nil || len(doc.Pages) != pages {
			t.Fatalf("%s: %v, %d pages", name, err, len(doc.Pages))
		}
		for i, page := range strings.Split(string(raw), "\n---\n") {
			got := collapse(doc.Pages[i].Text)
			for line := range strings.Lines(page) {
				if want := collapse(strings.TrimPrefix(line, "# ")); !strings.Contains(got, want) {
					t.Errorf("%s: page %d has no %q:\n%s", name, i+1, want, doc.Pages[i].Text)
				}
			}
		}
		list, err := os.ReadFile("sample/" + name + ".jsonl")
		if err != nil {
			t.Fatal(err)
		}
		read, warnings, err := answers.Read(list, name)
		if err != nil || warnings != nil {
			t.Fatal(err, warnings)
		}
		questions += len(read)
		for _, q := range read {
			for i, has := range []bool{q.MustInclude != nil, q.MustIncludeAny != nil, q.MustNotInclude != nil, q.RequireCitation, q.Weight != nil} {
				if has {
					kinds[i]++
				}
			}
		}
	}
	if questions < 30 || min(kinds[0], kinds[1], kinds[2], kinds[3], kinds[4]) < 3 {
		t.Errorf("%d questions, of the kinds %v", questions, kinds)
	}
}

// TestSample_drawn checks that the committed files are what drawSample returns; the flag -update
// writes them. report is the annual report of an invented company in Russian, manual the manual of
// an invented machine in English.
func TestSample_drawn(t *testing.T) {
	for name, footer := range map[string]string{"report": "стр. %d", "manual": "page %d"} {
		got, err := drawSample(name, footer)
		if err != nil {
			t.Fatal(err)
		}
		path := "sample/" + name + ".pdf"
		if *update {
			if err := os.WriteFile(path, got, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if want, err := os.ReadFile(path); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s.pdf is not what its text makes: go test ./harness/answers -run Sample -update (%v)", name, err)
		}
	}
}

// collapse replaces runs of white space and bars by a space.
func collapse(text string) string {
	return strings.Join(strings.Fields(strings.ReplaceAll(text, "|", " ")), " ")
}

// drawSample returns name.pdf of the sample, drawn from name.txt. footer is the format of the page
// number.
func drawSample(name, footer string) ([]byte, error) {
	raw, err := os.ReadFile("sample/" + name + ".txt")
	if err != nil {
		return nil, err
	}
	page := fpdf.New("P", "mm", "A4", "")
	page.SetCreationDate(time.Date(2024, 3, 14, 0, 0, 0, 0, time.UTC))
	page.SetModificationDate(time.Date(2024, 3, 14, 0, 0, 0, 0, time.UTC))
	page.SetCatalogSort(true)
	page.AddUTF8FontFromBytes("go", "", goregular.TTF)
	page.AddUTF8FontFromBytes("go", "B", gobold.TTF)
	page.SetFooterFunc(func() {
		page.SetY(-15)
		page.SetFont("go", "", 9)
		page.CellFormat(0, 8, fmt.Sprintf(footer, page.PageNo()), "", 0, "C", false, 0, "")
	})
	for text := range strings.SplitSeq(string(raw), "\n---\n") {
		page.AddPage()
		drawPage(page, strings.Split(strings.TrimSpace(text), "\n"))
	}
	var b bytes.Buffer
	err = page.Output(&b)
	return b.Bytes(), err
}

// drawPage draws headings (#), rows of tables (|) and paragraphs.
func drawPage(page *fpdf.Fpdf, lines []string) {
	for _, line := range lines {
		title, isTitle := strings.CutPrefix(line, "# ")
		switch {
		case isTitle:
			page.SetFont("go", "B", 18)
			page.MultiCell(0, 10, title, "", "L", false)
			page.Ln(4)
		case strings.HasPrefix(line, "|"):
			drawRow(page, strings.Split(strings.Trim(line, "| "), " | "))
		default:
			page.SetFont("go", "", 11)
			page.MultiCell(0, 6, line, "", "L", false)
		}
	}
}

// drawRow draws a wide first cell and equal other cells.
func drawRow(page *fpdf.Fpdf, cells []string) {
	const width, first = 190.0, 70.0
	page.SetFont("go", "", 9)
	for i, cell := range cells {
		w, align := (width-first)/float64(len(cells)-1), "R"
		if i == 0 {
			w, align = first, "L"
		}
		if len(cells) == 3 && i == 1 && len([]rune(cell)) > 24 {
			align = "L"
		}
		page.CellFormat(w, 7, cell, "1", 0, align, false, 0, "")
	}
	page.Ln(7)
}
