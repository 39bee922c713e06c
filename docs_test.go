package floors

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"os"
	"os/exec"
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

// TestDocs_paths finds links of the pages to files and headings that are not there, and folders in
// the README's table that are none.
func TestDocs_paths(t *testing.T) {
	pages, err := filepath.Glob("docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range append(pages, "README.md", "CONTRIBUTING.md", "CHANGELOG.md", "examples/conformance/README.md") {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, link := range regexp.MustCompile(`\]\(([^)#:]*)(#[^)]*)?\)`).FindAllStringSubmatch(string(text), -1) {
			target := page
			if link[1] != "" {
				target = filepath.Join(filepath.Dir(page), link[1])
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s links to %s: %v", page, link[1], err)
			} else if link[2] != "" && !slices.Contains(anchorsOf(t, target), link[2]) {
				t.Errorf("%s links to %s, which has no heading for %s", page, target, link[2])
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

// anchorsOf returns the anchors of the headings of a page, as they are made on GitHub.
func anchorsOf(t *testing.T, page string) (anchors []string) {
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	prose := regexp.MustCompile("(?ms)^ *```.*?^ *```$").ReplaceAllString(string(text), "")
	for _, heading := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(prose, -1) {
		words := regexp.MustCompile(`[^\pL\pN_ -]`).ReplaceAllString(strings.ToLower(heading[1]), "")
		anchors = append(anchors, "#"+strings.ReplaceAll(words, " ", "-"))
	}
	return anchors
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
	t.Run("items.py", func(t *testing.T) { checkItemsProgram(t, string(page)) })
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
				if strings.Contains(place, `"`+key[1]+`": "t"`) {
					continue // the place has it, and a key is given once
				}
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

// checkItemsProgram checks that the page shows docs/examples/items.py as it is, and that a folder
// with gold in JSON and one with gold in CSV give the same items, that a text without gold is not
// annotated, and that gold of a text that is not there is an error.
func checkItemsProgram(t *testing.T, page string) {
	program, err := os.ReadFile("docs/examples/items.py")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(page, "```python\n"+string(program)+"```\n") {
		t.Error("docs/items.md does not show docs/examples/items.py as it is")
	}
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("no python3")
	}
	const ada, recipe = "Ada Lovelace was born in London.\n", "Knead the dough.\n"
	var outputs []string
	for _, gold := range []map[string]string{
		{
			"ada.json":    `{"entities": [{"name": "Ada Lovelace", "type": "Person"}, {"name": "London", "type": "City"}]}`,
			"recipe.json": `{"entities": []}`,
		},
		{"gold.csv": "\ufeffdocument,name,type\r\nada,Ada Lovelace,Person\r\nada,London,City\r\n"},
	} {
		gold["ada.txt"], gold["recipe.txt"] = ada, recipe
		folder := t.TempDir()
		for name, text := range gold {
			if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		output, err := exec.Command(python, "docs/examples/items.py", folder).Output()
		if err != nil {
			t.Fatal(err)
		}
		outputs = append(outputs, string(output))
	}
	if outputs[0] != outputs[1] {
		t.Errorf("gold in JSON gives\n%sgold in CSV\n%s", outputs[0], outputs[1])
	}
	for file, want := range map[string]string{"ada.txt": `"expectedOutput": null`, "gold.csv": ""} {
		folder := t.TempDir()
		text := "document,name,type\nada.txt,Ada,Person\n"
		if err := os.WriteFile(filepath.Join(folder, file), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		output, err := exec.Command(python, "docs/examples/items.py", folder).Output()
		if (err == nil) != (want != "") || !strings.Contains(string(output), want) {
			t.Errorf("a folder with only %s gives %q, %v", file, output, err)
		}
	}
	var items []string
	for item, err := range dataset.Read(strings.NewReader(outputs[0]), dataset.JSONL, "") {
		if err != nil {
			t.Fatal(err)
		}
		expected, _, err := extraction.DecodeExtraction(item.Expected)
		if err != nil {
			t.Fatal(err)
		}
		items = append(items, fmt.Sprint(item.ID, len(expected.Entities)))
	}
	if want := []string{"ada2", "recipe0"}; !slices.Equal(items, want) {
		t.Errorf("items %q, want %q", items, want)
	}
}
