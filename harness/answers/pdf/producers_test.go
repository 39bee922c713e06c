package pdf_test

import (
	"flag"

	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"extraction-experiment/harness/answers/pdf"
	"extraction-experiment/internal/cli"
)

// page is a page of content.json.
type page struct {
	Title      string     `json:"title"`
	Paragraphs []string   `json:"paragraphs"`
	Table      [][]string `json:"table"`
	Columns    []string   `json:"columns"`
	Rotated    string     `json:"rotated"`
}

// phrases returns the texts that must be found on the page as a whole.
func (p page) phrases() []string {
	list := append([]string{p.Title}, p.Paragraphs...)
	for _, row := range p.Table {
		list = append(list, strings.Join(row, " "))
	}
	list = append(list, p.Columns...)
	if p.Rotated != "" {
		list = append(list, p.Rotated)
	}
	return list
}

func readContent(t *testing.T) []page {
	t.Helper()
	var pages []page
	if err := json.Unmarshal(readFile(t, "testdata/producers/content.json"), &pages); err != nil {
		t.Fatal(err)
	}
	return pages
}

func readFile(t testing.TB, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func read(t *testing.T, data []byte, opt pdf.Options) pdf.Document {
	t.Helper()
	doc, err := pdf.Read(t.Context(), data, opt)
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

// normalize removes what depends on the layout: line ends and the bars between cells.
func normalize(text string) string {
	return strings.Join(strings.Fields(strings.ReplaceAll(text, "|", " ")), " ")
}

// checkPages checks that each page has the phrases of content.json and no other page has them,
// and that each row of a table is a line of cells.
func checkPages(t *testing.T, doc pdf.Document, want []page) {
	t.Helper()
	if len(doc.Pages) != len(want) {
		t.Fatalf("%d pages, want %d", len(doc.Pages), len(want))
	}
	correct := 0
	for i, p := range want {
		got := normalize(doc.Pages[i].Text)
		matches := doc.Pages[i].Kind == pdf.Readable && doc.Pages[i].Number == i+1
		for _, phrase := range p.phrases() {
			matches = matches && strings.Contains(got, normalize(phrase))
			for j := range doc.Pages {
				matches = matches && (i == j || !strings.Contains(normalize(doc.Pages[j].Text), normalize(phrase)))
			}
		}
		for _, row := range p.Table { // cell by cell
			matches = matches && slices.Contains(strings.Split(doc.Pages[i].Text, "\n"), strings.Join(row, " | "))
		}
		if !matches {
			t.Errorf("page %d (%s %s) is\n%s", i+1, doc.Pages[i].Kind, doc.Pages[i].Problem, doc.Pages[i].Text)
			continue
		}
		correct++
	}
	t.Logf("%d of %d pages correct", correct, len(want))
}

var update = flag.Bool("update", false, "write the PDF files anew, with the tools that are on this machine")

// TestProducers reads files of five producers with the same pages.
func TestProducers(t *testing.T) {
	want := readContent(t)
	for producer, build := range producers {
		t.Run(producer, func(t *testing.T) {
			path := filepath.Join("testdata", "producers", producer+".pdf")
			if *update {
				data, err := build(want, t.TempDir())
				if err != nil {
					t.Skip(err)
				}
				if err := os.WriteFile(path, data, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			checkPages(t, read(t, readFile(t, path), pdf.Options{}), want)
		})
	}
}

// TestForms reads the same pages encrypted, linearised and in object streams.
func TestForms(t *testing.T) {
	want := readContent(t)
	for _, form := range []string{"aes128", "aes256", "linearized"} {
		t.Run(form, func(t *testing.T) {
			checkPages(t, read(t, readFile(t, "testdata/forms/"+form+".pdf"), pdf.Options{}), want)
		})
	}
	data := readFile(t, "testdata/forms/password.pdf")
	checkPages(t, read(t, data, pdf.Options{Password: "secret"}), want)
	checkPages(t, read(t, data, pdf.Options{Password: "owner"}), want)
	for password, want := range map[string]error{"": pdf.ErrPassword, "wrong": pdf.ErrWrongPassword} {
		if _, err := pdf.Read(t.Context(), data, pdf.Options{Password: password}); !errors.Is(err, want) {
			t.Errorf("password %q: %v", password, err)
		}
	}
}

// TestForms_owner checks that the password of the owner opens a file like that of the user, for
// each method of encryption.
func TestForms_owner(t *testing.T) {
	for _, form := range []string{"rc4-40", "rc4-128", "aes-128", "aes-256"} {
		data := readFile(t, "testdata/forms/owner-"+form+".pdf")
		for _, password := range []string{"user", "owner"} {
			doc := read(t, data, pdf.Options{Password: password})
			if len(doc.Pages) != 1 || strings.TrimSpace(doc.Pages[0].Text) != "Whoever has the password of the owner reads it." {
				t.Errorf("%s, password of the %s: %+v", form, password, doc.Pages)
			}
		}
		if _, err := pdf.Read(t.Context(), data, pdf.Options{Password: "other"}); !errors.Is(err, pdf.ErrWrongPassword) {
			t.Errorf("%s, another password: %v", form, err)
		}
	}
}

// TestRead_damaged checks that the objects of a file without its cross-reference table are
// found, and that a file that is cut off is read in part or fails with exit code 64.
func TestRead_damaged(t *testing.T) {
	want := readContent(t)
	for _, name := range []string{"producers/fpdf.pdf", "producers/latex.pdf", "forms/linearized.pdf", "forms/aes256.pdf"} {
		data := readFile(t, filepath.Join("testdata", name))
		broken := bytes.ReplaceAll(data, []byte("startxref"), []byte("startxxxx"))
		doc, err := pdf.Read(t.Context(), broken, pdf.Options{})
		if err != nil || !doc.Repaired {
			t.Errorf("%s without its table: %v, repaired %v", name, err, doc.Repaired)
			continue
		}
		checkPages(t, doc, want)
		if doc.DeclaredPages != 0 {
			t.Errorf("%s: no page is missing of %d", name, doc.DeclaredPages)
		}
		for cut := 0; cut < len(data); cut += len(data)/23 + 1 {
			if _, err := pdf.Read(t.Context(), data[:cut], pdf.Options{}); err != nil && cli.ExitCode(err) != 64 {
				t.Errorf("%s cut to %d: %v", name, cut, err)
			}
		}
	}
}

// TestRead_missingPages checks that the number of pages a file claims to have is reported if
// fewer are found.
func TestRead_missingPages(t *testing.T) {
	file := func(count string) []byte {
		return bytes.Replace(buildFile(mono, "BT /F 10 Tf "+textAt(50, 700, "One page of several")+" ET"), []byte("/Count 1>>"), []byte("/Count "+count+">>"), 1)
	}
	for count, want := range map[string]int{"1": 0, "0": 0, "-7": 0, "(x)": 0, "20000": 20000, "9e99": 1 << 40} {
		doc, err := pdf.Read(t.Context(), file(count), pdf.Options{})
		if err != nil || len(doc.Pages) != 1 || doc.DeclaredPages != want {
			t.Errorf("count %s: %v, %d pages of %d", count, err, len(doc.Pages), doc.DeclaredPages)
		}
	}
}
