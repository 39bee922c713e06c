package floors

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"extraction-experiment/dataset"
	"extraction-experiment/extraction"
)

// TestDocs_comments finds doc comments of functions and types that do not begin with the name, as
// they do after a renaming.
func TestDocs_comments(t *testing.T) {
	files := token.NewFileSet()
	check := func(name *ast.Ident, doc *ast.CommentGroup) {
		words := strings.Fields(doc.Text())
		if len(words) > 0 && name.Name != "main" && !slices.Contains(words[:min(2, len(words))], name.Name) {
			t.Errorf("%s: the comment of %s does not begin with its name", files.Position(doc.Pos()), name.Name)
		}
	}
	err := filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(files, path, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		for _, decl := range file.Decls {
			switch decl := decl.(type) {
			case *ast.FuncDecl:
				check(decl.Name, decl.Doc)
			case *ast.GenDecl:
				if decl.Tok == token.TYPE && len(decl.Specs) == 1 {
					check(decl.Specs[0].(*ast.TypeSpec).Name, decl.Doc)
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestDocs_linked finds pages of docs/ that the README does not lead to.
func TestDocs_linked(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	pages, err := filepath.Glob("docs/*.md")
	if err != nil || len(pages) == 0 {
		t.Fatal(pages, err)
	}
	for _, page := range pages {
		if !strings.Contains(string(readme), "]("+page+")") {
			t.Errorf("README.md has no link to %s", page)
		}
	}
}

// TestDocs_paths finds links of the README and of docs/ to files that are not there,
// and folders in the README's table that are none.
func TestDocs_paths(t *testing.T) {
	pages, err := filepath.Glob("docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range append(pages, "README.md", "CONTRIBUTING.md") {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, link := range regexp.MustCompile(`\]\(([^)#:]+)(#[^)]*)?\)`).FindAllStringSubmatch(string(text), -1) {
			if _, err := os.Stat(filepath.Join(filepath.Dir(page), link[1])); err != nil {
				t.Errorf("%s links to %s: %v", page, link[1], err)
			}
		}
		_, table, found := strings.Cut(string(text), "| folder | contents |\n")
		if page == "README.md" && !found {
			t.Error("README.md has no table of folders")
		}
		table, _, _ = strings.Cut(table, "\n\n")
		for row := range strings.Lines(table) {
			for _, folder := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(strings.Split(row, "|")[1], -1) {
				if info, err := os.Stat(folder[1]); err != nil || !info.IsDir() {
					t.Errorf("%s names %s, which is not a folder", page, folder[1])
				}
			}
		}
	}
}

// TestDocs_library holds the programs of docs/library.md to the tested examples that they are: main
// has the body of Example, and the program declares or imports whatever it uses.
func TestDocs_library(t *testing.T) {
	page, err := os.ReadFile("docs/library.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?ms)^```go\n(.*?)^```$").FindAllStringSubmatch(string(page), -1)
	names := []string{"scoring/example_test.go", "experiment/example_test.go"}
	if len(blocks) != len(names) {
		t.Fatalf("%d programs, want one of each example", len(blocks))
	}
	for i, name := range names {
		example, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		program, err := parser.ParseFile(token.NewFileSet(), "", blocks[i][1], 0)
		if err != nil {
			t.Fatal(err)
		}
		var imported, used []string
		for _, spec := range program.Imports {
			imported = append(imported, path.Base(strings.Trim(spec.Path.Value, `"`)))
		}
		for _, name := range program.Unresolved {
			if types.Universe.Lookup(name.Name) == nil {
				used = append(used, name.Name)
			}
		}
		slices.Sort(imported)
		slices.Sort(used)
		if used = slices.Compact(used); !slices.Equal(used, imported) {
			t.Errorf("%s: the program imports %q and uses %q", name, imported, used)
		}
		_, code, _ := strings.Cut(blocks[i][1], "\n)\n\n")
		code = strings.Replace(code, "\tcfg, _, err := langfuse.ConfigFromEnv(os.LookupEnv)\n", "", 1)
		for part := range strings.SplitSeq(code, "func main() {\n") {
			if !strings.Contains(string(example), part) {
				t.Errorf("docs/library.md shows what %s does not say:\n%s", name, part)
			}
		}
	}
}

// TestDocs_items holds docs/items.md to the readers: its examples are read
// without a warning, and every key of its tables is known to them.
func TestDocs_items(t *testing.T) {
	page, err := os.ReadFile("docs/items.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?ms)^```(jsonl|csv)\n(.*?)^```$").FindAllStringSubmatch(string(page), -1)
	if len(blocks) != 2 {
		t.Fatalf("%d examples, want one of each form", len(blocks))
	}
	for _, b := range blocks {
		for item, err := range dataset.Read(strings.NewReader(b[2]), dataset.Format(b[1]), b[1]) {
			if err != nil {
				t.Fatal(err)
			}
			warnings := item.Warnings
			_, more, err := extraction.DecodeDocument(item.Input)
			if err != nil {
				t.Errorf("%s: %v", item.ID, err)
			}
			warnings = append(warnings, more...)
			if _, more, err = extraction.DecodeExtraction(item.Expected); err != nil {
				t.Errorf("%s: %v", item.ID, err)
			}
			if warnings = append(warnings, more...); len(warnings) > 0 {
				t.Errorf("%s: %q", item.ID, warnings)
			}
		}
	}
	// The keys of a table, put into the place that they are read at.
	places := map[string]string{
		"## The item\n":    `{KEY, "document_text": "t"}`,
		"## The input\n":   `{"id": "a", "input": {KEY, "text": "t"}}`,
		"An entity has\n":  `{"id": "a", "input": {"document_text": "t"}, "expected": {"entities": [{KEY}]}}`,
		"A relationship h": `{"id": "a", "input": {"document_text": "t"}, "expected": {"relationships": [{KEY}]}}`,
	}
	for heading, place := range places {
		_, rest, ok := strings.Cut(string(page), heading)
		if !ok {
			t.Fatalf("no %q", heading)
		}
		_, table, _ := strings.Cut(rest, "|---|---|---|\n")
		table, _, _ = strings.Cut(table, "\n\n")
		keys := 0
		for row := range strings.Lines(table) {
			cells := strings.Split(row, "|")
			for _, key := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(cells[1]+cells[2], -1) {
				keys++
				line := strings.Replace(place, "KEY", `"`+key[1]+`": null`, 1)
				for item, err := range dataset.Read(strings.NewReader(line), dataset.JSONL, "") {
					if err != nil {
						t.Fatalf("%s: %v", line, err)
					}
					_, found, err := extraction.DecodeDocument(item.Input)
					if err != nil {
						t.Fatalf("%s: %v", line, err)
					}
					if item.Expected != nil {
						var more []string
						if _, more, err = extraction.DecodeExtraction(item.Expected); err != nil {
							t.Fatalf("%s: %v", line, err)
						}
						found = append(found, more...)
					}
					if found = append(found, item.Warnings...); len(found) > 0 {
						t.Errorf("%s: %q", key[1], found)
					}
				}
			}
		}
		if keys < 4 {
			t.Errorf("%s: only %d keys were looked at", heading, keys)
		}
	}
}
