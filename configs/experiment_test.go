package configs

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestLoad_examples loads every example of an experiment file.
func TestLoad_examples(t *testing.T) {
	files, err := filepath.Glob("experiment*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no examples found: %v", err)
	}
	for _, file := range files {
		e, err := Load(file)
		if err != nil {
			t.Errorf("%s: %v", file, err)
		}
		if e.Dataset == "" {
			t.Errorf("%s names no dataset", file)
		}
	}
}

func TestLoad_problems(t *testing.T) {
	tests := map[string]struct{ text, want string }{
		"unknown key":     {"dataset: x\ncolour: red\n", `line 2: unknown key "colour"`},
		"mistyped key":    {"datset: x\n", `did you mean "dataset"`},
		"wrong kind":      {"item: {a: b}\n", "line 1: cannot unmarshal a mapping where a list is expected"},
		"list in a list":  {"check:\n  gate: [[a]]\n", "line 2"},
		"second document": {"dataset: x\n---\ndataset: y\n", "second"},
		"alias bomb": {"a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b]\n" +
			"d: &d [*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d]\nf: &f [*e,*e,*e,*e,*e,*e,*e,*e]\ng: [*f,*f,*f,*f,*f,*f,*f,*f]\n", ""},
		"too large": {strings.Repeat("# x\n", maxSize/4+1), "larger than"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := Load(writeFile(t, tt.text))
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
	if _, err := Load(filepath.Join(t.TempDir(), "missing.yaml")); err == nil {
		t.Error("a missing file is not an error")
	}
}

func TestExperiment_Lookup(t *testing.T) {
	e := Experiment{Dataset: "d", MaxFailures: "3", Item: []string{"a", "b"}, Metadata: map[string]string{"y": "2", "x": "1"}}
	read, err := Load(writeFile(t, "gate: one.yaml\nvar:\nfilter: [a, b]\ncheck:\n  gate: gate.yaml\n"))
	if err != nil || !slices.Equal(read.Check.Lookup("gate"), []string{"gate.yaml"}) || !slices.Equal(read.Lookup("gate"), []string{"one.yaml"}) ||
		len(read.Lookup("filter")) != 2 || len(read.Lookup("var")) != 0 {
		t.Errorf("one text as a list: %+v, %v", read, err)
	}
	for flag, want := range map[string][]string{
		"dataset": {"d"}, "max-failures": {"3"}, "item": {"a", "b"}, "metadata": {"x=1", "y=2"}, "model": nil, "nothing": nil,
	} {
		if got := e.Lookup(flag); !slices.Equal(got, want) {
			t.Errorf("Lookup(%s) = %q, want %q", flag, got, want)
		}
	}
}

func FuzzLoad(f *testing.F) {
	f.Add("dataset: x\nmetadata: {a: b}\n")
	f.Fuzz(func(t *testing.T, text string) {
		e, err := Load(writeFile(t, text))
		if err == nil {
			e.Lookup("metadata")
		}
	})
}
