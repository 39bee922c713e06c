package configs

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
)

// TestLoadBenchmark_problems checks that the error lists exactly the problems of a file.
func TestLoadBenchmark_problems(t *testing.T) {
	const one = "datasets: [{id: d, pdf: d.pdf, questions: q.json}]\n"
	for name, tt := range map[string]struct {
		text string
		want []string
	}{
		"the least":         {"name: n\n" + one, nil},
		"every bound":       {"name: n\nruns: 100\non_error: fail-fast\ngates: {min_score: 0, max_drop: 1, max_stddev: 0.5, max_regressions: 0}\n" + one, nil},
		"best effort":       {"name: n\non_error: best-effort\n" + one, nil},
		"one weight of 0":   {"name: n\ndatasets: [{id: a, pdf: p, questions: q, weight: 0}, {id: b, pdf: p, questions: q, weight: 1e6}]\n", nil},
		"nothing":           {"", []string{"name: is missing", "datasets: there is none"}},
		"an odd name":       {"name: a/b\n" + one, []string{`name: "a/b" is not a name`}},
		"a long name":       {"name: " + strings.Repeat("n", 62) + "\n" + one, []string{"is not a name"}},
		"an odd id":         {"name: n\ndatasets: [{id: .a, pdf: p, questions: q}]\n", []string{`datasets[0].id: ".a" is not an id`}},
		"no questions":      {"name: n\ndatasets: [{id: a, pdf: p}]\n", []string{"datasets[0]: pdf and questions are both needed"}},
		"no file":           {"name: n\ndatasets: [{id: a, questions: q}]\n", []string{"datasets[0]: pdf and questions are both needed"}},
		"the same id":       {"name: n\ndatasets: [{id: a, pdf: p, questions: q}, {id: a, pdf: p, questions: q}]\n", []string{`datasets[1].id: "a" appears twice`}},
		"only weights of 0": {"name: n\ndatasets: [{id: a, pdf: p, questions: q, weight: 0}]\n", []string{"the weights sum up to 0"}},
		"a negative weight": {"name: n\ndatasets: [{id: a, pdf: p, questions: q, weight: -1}, {id: b, pdf: p, questions: q}]\n", []string{"datasets[0].weight: -1 is not"}},
		"a huge weight":     {"name: n\ndatasets: [{id: a, pdf: p, questions: q, weight: 1e7}, {id: b, pdf: p, questions: q}]\n", []string{"datasets[0].weight: 1e+07 is not"}},
		"a weight of none":  {"name: n\ndatasets: [{id: a, pdf: p, questions: q, weight: .nan}, {id: b, pdf: p, questions: q}]\n", []string{"datasets[0].weight: NaN is not"}},
		"too few runs":      {"name: n\nruns: -1\n" + one, []string{"runs: -1 is not a number from 1 to 100"}},
		"too many runs":     {"name: n\nruns: 101\n" + one, []string{"runs: 101 is not a number from 1 to 100"}},
		"another word":      {"name: n\non_error: stop\n" + one, []string{`on_error: "stop" is neither`}},
		"bounds":            {"name: n\nruns: 2\ngates: {min_score: 1.1, max_drop: -0.1, max_stddev: .nan, max_regressions: -1}\n" + one, []string{"gates.max_drop: -0.1 is not a number from 0 to 1", "gates.max_stddev: NaN is not", "gates.min_score: 1.1 is not", "gates.max_regressions: -1 is negative"}},
		"one run's spread":  {"name: n\nruns: 1\ngates: {max_stddev: 0.1}\n" + one, []string{"one run does not vary"}},
	} {
		t.Run(name, func(t *testing.T) {
			path := writeFile(t, tt.text)
			_, err := LoadBenchmark(path, "")
			message := fmt.Sprint(err)
			if err == nil && len(tt.want) > 0 || err != nil && (len(strings.Split(message, "\n")) != max(1, len(tt.want)) || !strings.Contains(message, path)) {
				t.Errorf("%s, want %d problems", message, len(tt.want))
			}
			for _, want := range tt.want {
				if !strings.Contains(message, want) {
					t.Errorf("%s, want %q", message, want)
				}
			}
			if err != nil && len(tt.want) == 0 {
				t.Error(err)
			}
		})
	}
	if _, err := LoadBenchmark(filepath.Join(t.TempDir(), "b.yaml"), "n"); err == nil {
		t.Error("a missing file is not an error")
	}
	path := writeFile(t, "name: n\ndatasets: [{id: d, pdf: p, qestions: q}]\n")
	if _, err := LoadBenchmark(path, ""); err == nil || !strings.Contains(err.Error(), `did you mean "questions"`) {
		t.Errorf("%v, want a hint", err)
	}
}

// TestLoadBenchmark checks that paths are relative to the file, the defaults of weights and runs,
// and that the name is only used if the file has none.
func TestLoadBenchmark(t *testing.T) {
	text := "datasets: [{id: a, pdf: sub/a.pdf, questions: /q.json}, {id: b, pdf: b.pdf, questions: b.json, weight: 2.5}]\n"
	path := writeFile(t, text)
	b, err := LoadBenchmark(path, "given")
	if err != nil {
		t.Fatal(err)
	}
	if first := b.Datasets[0]; b.Name != "given" || b.Runs != 1 || first.PDF != filepath.Join(filepath.Dir(path), "sub", "a.pdf") || first.Questions != "/q.json" ||
		first.WeightOrDefault() != 1 || b.Datasets[1].WeightOrDefault() != 2.5 {
		t.Errorf("%+v", b)
	}
	if b, err := LoadBenchmark(writeFile(t, "name: own\nruns: 3\n"+text), "given"); err != nil || b.Name != "own" || b.Runs != 3 {
		t.Errorf("%+v, %v", b, err)
	}
}

// TestAllowed_Canonical checks that a payload may give one of the values or a number in the
// range, and that numbers are in the form of the command line.
func TestAllowed_Canonical(t *testing.T) {
	texts, numbers, interval := Allowed{Values: []string{"a", "0.50"}}, Allowed{Values: []string{"0.5", "2"}}, Allowed{From: -0.5, To: 1}
	for _, tt := range []struct {
		rule           Allowed
		setting, value string
		want, problem  string
	}{
		{texts, "model", "a", "a", ""},
		{texts, "model", "0.50", "0.50", ""}, // a text stays as it is
		{texts, "model", "0.5", "", "model: 0.5 is not one of a, 0.50"},
		{numbers, "temperature", "0.50", "0.5", ""},
		{numbers, "temperature", "2e0", "2", ""},
		{numbers, "temperature", "1", "", "temperature: 1 is not one of 0.5, 2"},
		{numbers, "temperature", "x", "", "temperature: x is not one of 0.5, 2"},
		{Allowed{Values: []string{"0"}}, "temperature", "x", "", "temperature: x is not one of 0"}, // x does not count as 0
		{interval, "temperature", "-0.5", "-0.5", ""},
		{interval, "temperature", "1.0", "1", ""},
		{interval, "temperature", "-0", "0", ""},
		{Allowed{From: 0, To: 1e19}, "seed", "9007199254740993", "9007199254740993", ""},
		{Allowed{Values: []string{"9007199254740993"}}, "seed", "9007199254740992", "", "seed: 9007199254740992 is not one of 9007199254740993"},
		{interval, "temperature", "1.01", "", "temperature: 1.01 is not a number from -0.5 to 1"},
		{interval, "temperature", "-0.51", "", "is not a number from -0.5 to 1"},
		{interval, "temperature", "NaN", "", "is not a number from -0.5 to 1"},
		{interval, "temperature", "warm", "", "temperature: warm is not a number from -0.5 to 1"},
	} {
		got, err := tt.rule.Canonical(tt.setting, tt.value)
		if got != tt.want || (err == nil) != (tt.problem == "") || err != nil && !strings.Contains(err.Error(), tt.problem) {
			t.Errorf("%s=%s of %+v: %q, %v; want %q, %q", tt.setting, tt.value, tt.rule, got, err, tt.want, tt.problem)
		}
	}
}
