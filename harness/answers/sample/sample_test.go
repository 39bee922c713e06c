package main

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"extraction-experiment/harness/answers"
	"extraction-experiment/harness/answers/pdf"
)

// TestSample: the committed files are what the texts and this program make,
// every page is read exactly, and the questions have all their kinds.
func TestSample(t *testing.T) {
	questions := 0
	var kinds [5]int
	for name, pages := range map[string]int{"report": 14, "manual": 8} {
		raw, err := os.ReadFile(name + ".txt")
		if err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(name + ".pdf")
		if err != nil {
			t.Fatal(err)
		}
		doc, err := pdf.Read(t.Context(), data, pdf.Options{})
		if err != nil || len(doc.Pages) != pages {
			t.Fatalf("%s: %v, %d pages", name, err, len(doc.Pages))
		}
		for i, page := range strings.Split(string(raw), "\n---\n") {
			got := plain(doc.Pages[i].Text)
			for line := range strings.Lines(page) {
				if want := plain(strings.TrimPrefix(line, "# ")); !strings.Contains(got, want) {
					t.Errorf("%s: page %d has no %q:\n%s", name, i+1, want, doc.Pages[i].Text)
				}
			}
		}
		list, err := os.ReadFile(name + ".jsonl")
		if err != nil {
			t.Fatal(err)
		}
		read, warnings, err := answers.Read(bytes.NewReader(list), name)
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

// TestSample_rebuilt: drawing again gives the same bytes.
func TestSample_rebuilt(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"report", "manual"} {
		raw, err := os.ReadFile(name + ".txt")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(dir+"/"+name+".txt", raw, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, footer := range map[string]string{"report": "стр. %d", "manual": "page %d"} {
		if err := draw(dir, name, footer); err != nil {
			t.Fatal(err)
		}
		want, err := os.ReadFile(name + ".pdf")
		if err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(dir + "/" + name + ".pdf"); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s.pdf is not what its text makes: go run ./harness/answers/sample (%v)", name, err)
		}
	}
}

func plain(text string) string {
	return strings.Join(strings.Fields(strings.ReplaceAll(text, "|", " ")), " ")
}
