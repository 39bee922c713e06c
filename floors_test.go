// Package floors holds the tests that look at the whole repository: which
// package may import which, and which scenario is shown by which test.
package floors

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// floors says how high each package stands; a package imports only lower ones.
// A prefix that ends in / stands for every package below it. CONTRIBUTING.md has
// them as a table.
var floors = map[string]int{
	"internal/":              0,
	"internal/cli":           1, // above the other internal ones, which it uses
	"harness/answers/pdf":    6,
	"internal/proc":          1,
	"internal/load":          2,  // a program of its own, which nothing imports
	"internal/textutil":      -1, // below the other internal ones
	"internal/testkit/suite": -1,
	"extraction":             1,
	"outcome":                1,
	"langfuse":               1,
	"configs":                1,
	"dataset":                2,
	"langfuse/embedded":      2,
	"pipeline/answer":        2,
	"scoring":                3,
	"pipeline":               3,
	"runstore":               4,
	"evaluator":              4,
	"pipeline/provider":      5,
	"tracking":               5,
	"seed":                   5,
	"compare":                5,
	"experiment":             6,
	"internal/workers":       7, // above the engine, whose queue it carries to other machines
	"harness/extraction":     7,
	"harness/answers":        7,
	"harness/conformance":    8,
	"bench":                  8,
	"report":                 9,
	"report/html":            10,
	"cmd/internal/settings":  10,
	"cmd/internal/runs":      11,
	"cmd/internal/system":    12,
	"cmd/internal/":          13, // what a command does, all but its flags
	"examples/":              11,
	"cmd/":                   15,
}

// fences are imports that no floor forbids and that are forbidden all the same.
var fences = []struct {
	to      string
	allowed []string // packages, or prefixes ending in /, that may
	why     string
}{
	{"langfuse", []string{"tracking", "seed", "experiment", "cmd/"}, "only tracking, seed, experiment and the commands speak to Langfuse"},
	{"configs", []string{"cmd/"}, "configuration files are known to the commands only"},
	{"langfuse/embedded", []string{"cmd/"}, "the embedded server is met over HTTP"},
	{"tracking", []string{"experiment", "cmd/"}, "what is recorded in Langfuse follows from the run file"},
	{"internal/testkit/natsserver", nil, "the NATS server is not part of the program, only tests start it"},
	{"runstore", []string{"experiment", "tracking", "bench", "cmd/"}, "libraries must not compile SQLite"},
}

func TestFloors(t *testing.T) {
	imports := readImports(t)
	for pkg, imported := range imports {
		floor, ok := lookup(pkg)
		if !ok {
			t.Errorf("package %s is not in the table of floors: add it with the floor where it stands", pkg)
			continue
		}
		for _, to := range imported {
			toFloor, known := lookup(to)
			if known && toFloor >= floor {
				t.Errorf("%s (floor %d) imports %s (floor %d): imports go down only", pkg, floor, to, toFloor)
			}
			for _, fence := range fences {
				if to == fence.to && !matches(pkg, fence.allowed) {
					t.Errorf("%s imports %s: %s", pkg, to, fence.why)
				}
			}
		}
	}
}

// TestFloors_stale finds rows of the tables that stand for nothing.
func TestFloors_stale(t *testing.T) {
	imports := readImports(t)
	check := func(table, row string) {
		used := false
		for pkg := range imports {
			used = used || matches(pkg, []string{row})
		}
		if !used {
			t.Errorf("the table of %s has a row %q and there is no such package", table, row)
		}
	}
	for row := range floors {
		check("floors", row)
	}
	for _, fence := range fences {
		for _, row := range append([]string{fence.to}, fence.allowed...) {
			check("fences", row)
		}
	}
}

// readImports returns what the non-test files of every package import of this
// module. It reads the files itself: the test cache would not notice a change
// that only a go command sees.
func readImports(t *testing.T) map[string][]string {
	t.Helper()
	mod, err := os.ReadFile("go.mod")
	if err != nil {
		t.Fatal(err)
	}
	module, _, _ := strings.Cut(strings.TrimPrefix(string(mod), "module "), "\n")
	imports := map[string][]string{}
	err = filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name := d.Name(); path != "." && (strings.HasPrefix(name, ".") || name == "testdata" || name == "node_modules") {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		pkg := filepath.ToSlash(filepath.Dir(path))
		if imports[pkg] == nil {
			imports[pkg] = []string{} // it is there, whatever it imports
		}
		for _, spec := range file.Imports {
			name, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			if own, ok := strings.CutPrefix(name, strings.TrimSpace(module)+"/"); ok {
				imports[pkg] = append(imports[pkg], own)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(imports) == 0 {
		t.Fatal("no package was found")
	}
	return imports
}

// lookup returns the floor of a package; an exact row beats a prefix, a longer
// prefix a shorter one.
func lookup(pkg string) (int, bool) {
	if floor, ok := floors[pkg]; ok {
		return floor, true
	}
	best, floor := "", 0
	for row, f := range floors {
		if strings.HasSuffix(row, "/") && strings.HasPrefix(pkg, row) && len(row) > len(best) {
			best, floor = row, f
		}
	}
	return floor, best != ""
}

func matches(pkg string, rows []string) bool {
	for _, row := range rows {
		if pkg == row || strings.HasSuffix(row, "/") && strings.HasPrefix(pkg, row) {
			return true
		}
	}
	return false
}
