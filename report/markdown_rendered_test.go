package report

import (
	"bytes"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	east "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/text"
	"pgregory.net/rapid"
)

// seen is what a renderer that is not ours, with the extensions of GitHub, finds
// in a report.
type seen struct {
	Tables [][]string // the words of the first row
	Rows   int        // of all tables, the first ones left out
	Links  []string
	HTML   []string
}

func rendered(t rapid.TB, source []byte) seen {
	var p seen
	renderer := goldmark.New(goldmark.WithExtensions(extension.GFM))
	root := renderer.Parser().Parse(text.NewReader(source))
	width := 0
	err := ast.Walk(root, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *east.TableHeader:
			width = n.ChildCount()
			var words []string
			for cell := n.FirstChild(); cell != nil; cell = cell.NextSibling() {
				words = append(words, string(cell.Text(source))) //nolint:staticcheck // plain words
			}
			p.Tables = append(p.Tables, words)
		case *east.TableRow:
			p.Rows++
			if n.ChildCount() != width {
				t.Fatalf("a row of %d cells in a table of %d:\n%s", n.ChildCount(), width, source)
			}
		case *ast.Link:
			p.Links = append(p.Links, string(n.Destination))
		case *ast.AutoLink:
			p.Links = append(p.Links, string(n.URL(source)))
		case *ast.Image:
			p.Links = append(p.Links, "image "+string(n.Destination))
		case *ast.RawHTML:
			p.HTML = append(p.HTML, string(n.Segments.Value(source)))
		case *ast.HTMLBlock:
			p.HTML = append(p.HTML, strings.TrimSpace(string(n.Lines().Value(source))))
		}
		return ast.WalkContinue, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestCompareMarkdown_rendered: tables are tables, and what is folded is folded.
func TestCompareMarkdown_rendered(t *testing.T) {
	source := printed(t, func(b *bytes.Buffer) error { return CompareMarkdown(b, comparison(), Options{}) })
	got := rendered(t, source)
	want := seen{
		Tables: [][]string{
			{"", "rule", "reason"},
			{"score", "base", "candidate", "difference", "95 % interval", "p (Holm)", "better / worse / equal", "n"},
			{"kind", "type", "expected", "matched", "extracted", "base F1", "candidate F1", "difference"},
			{"item", "base", "candidate", "difference", "matched by the candidate only", "matched by the base only"},
		},
		Rows: strings.Count(string(source), "\n| ") - 2*4, // lines with bars, without each head and its rule
		HTML: []string{"<details><summary>By type, over the counts of 58 of 60 items: the others failed</summary>", "</details>", "<details><summary>Items that changed most</summary>", "</details>"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s\n%s", diff, source)
	}
}

// TestMarkdown_renderedHostile: whatever names hold, a renderer makes the same
// tables of them, no link but that of the run, and no element.
func TestMarkdown_renderedHostile(t *testing.T) {
	plain := rendered(t, printed(t, func(b *bytes.Buffer) error { return Markdown(b, []Run{named("x")}) }))
	if len(plain.Tables) < 2 || plain.Rows < 3 {
		t.Fatalf("%+v", plain)
	}
	pieces := regexp.MustCompile(`\S+|\s`).FindAllString(tricky, -1)
	rapid.Check(t, func(t *rapid.T) {
		name := strings.Join(rapid.SliceOfN(rapid.SampledFrom(append(pieces, "`", "|", "\\", "\n\n# ", "<b>", "https://example.com ", "- ")), 1, 8).Draw(t, "name"), "")
		var b bytes.Buffer
		if err := Markdown(&b, []Run{named(name)}); err != nil {
			t.Fatal(err)
		}
		got := rendered(t, b.Bytes())
		if got.Rows != plain.Rows || len(got.Tables) != len(plain.Tables) || len(got.HTML) != 0 || !cmp.Equal(got.Links, plain.Links) {
			t.Fatalf("%+v instead of %+v:\n%s", got, plain, &b)
		}
	})
}

// named is a run in which everything bears one name.
func named(name string) Run {
	run := shown()
	s := &run.Summary
	s.Run.Name, s.Run.Dataset, s.Run.Model, s.Warnings = name, name, name, []string{name}
	for i := range s.Scores {
		s.Scores[i].Name = name
	}
	return run
}
