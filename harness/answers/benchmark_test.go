package answers_test

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"

	"extraction-experiment/harness/answers"
)

// datasetOf returns a dataset with a run for each list of scores. The weights of the questions are
// 1, 2, ….
func datasetOf(id string, weight float64, runs ...[]float64) answers.BenchmarkDataset {
	d := answers.BenchmarkDataset{ID: id, Weight: weight}
	for _, scores := range runs {
		run := answers.BenchmarkRun{PDFSHA256: "p" + id, QuestionsSHA256: "q" + id, Questions: map[string]answers.BenchmarkQuestion{}}
		sum, weights := 0.0, 0.0
		for i, s := range scores {
			w := float64(i + 1)
			run.Questions[string(rune('a'+i))] = answers.BenchmarkQuestion{Score: s, Weight: w}
			sum, weights = sum+s*w, weights+w
		}
		run.WeightedScore = new(sum / weights)
		d.Runs = append(d.Runs, run)
	}
	return d
}

// TestSumBenchmark compares with results calculated by hand. Dataset x, weight 3: runs (1·1 +
// .5·2)/3 = 2/3 and (1 + 1·2)/3 = 1, mean 5/6. Dataset y, weight 1: runs 0.4 and 0.4. Together
// (5/6·3 + .4)/4 = 0.725. By question: (1·1 + .5·2 + 1·1 + 1·2 + .4·1 + .4·1) / (3 + 3 + 1 + 1) =
// 5.8/8 = 0.725. First runs (2/3·3 + .4)/4 = 0.6, second (3 + .4)/4 = 0.85: the standard deviation
// is .25/√2 = 0.17678.
func TestSumBenchmark(t *testing.T) {
	r := answers.SumBenchmark("b", []answers.BenchmarkDataset{
		datasetOf("x", 3, []float64{1, .5}, []float64{1, 1}), datasetOf("y", 1, []float64{.4}, []float64{.4}),
	})
	for name, c := range map[string]struct{ got, want float64 }{
		"weighted":    {*r.Summary.WeightedScore, .725},
		"by question": {*r.Summary.QuestionWeightedScore, .725},
		"stddev":      {*r.Summary.Stddev, .25 / math.Sqrt2},
		"x":           {*r.Datasets[0].WeightedScore, 5. / 6},
		"stddev of y": {*r.Datasets[1].Stddev, 0},
	} {
		if math.Abs(c.got-c.want) > 1e-12 {
			t.Errorf("%s is %v, want %v", name, c.got, c.want)
		}
	}
}

// TestSumBenchmark_broken checks that the benchmark has no score if a dataset with a weight above 0
// has none.
func TestSumBenchmark_broken(t *testing.T) {
	broken := answers.BenchmarkDataset{ID: "z", Weight: 1, Runs: []answers.BenchmarkRun{{Error: "no"}}}
	r := answers.SumBenchmark("b", []answers.BenchmarkDataset{datasetOf("x", 1, []float64{1}), broken})
	if r.Summary.WeightedScore != nil || r.Summary.Broken != 1 {
		t.Errorf("%+v", r.Summary)
	}
	broken.Weight = 0
	if r = answers.SumBenchmark("b", []answers.BenchmarkDataset{datasetOf("x", 1, []float64{1}), broken}); *r.Summary.WeightedScore != 1 {
		t.Errorf("%+v", r.Summary)
	}
}

func TestBenchmarkReport_Judge(t *testing.T) {
	base := answers.SumBenchmark("b", []answers.BenchmarkDataset{datasetOf("x", 1, []float64{1, .5, .5})})
	worse := answers.SumBenchmark("b", []answers.BenchmarkDataset{datasetOf("x", 1, []float64{1, .5, .3})}) // −.2·3/6 = −.1
	tests := map[string]struct {
		gates  answers.BenchmarkGates
		base   *answers.BenchmarkReport
		passed bool
		says   string
	}{
		"nothing asked":            {answers.BenchmarkGates{}, nil, true, ""},
		"a drop of exactly .1":     {answers.BenchmarkGates{MaxDrop: new(.1)}, &base, true, "from 0.5833 to 0.4833"},
		"a drop beyond":            {answers.BenchmarkGates{MaxDrop: new(.09)}, &base, false, "a drop of 0.09"},
		"no regression allowed":    {answers.BenchmarkGates{MaxRegressions: new(0)}, &base, false, "1 questions are worse, 0 are allowed: x/c"},
		"one regression allowed":   {answers.BenchmarkGates{MaxRegressions: new(1)}, &base, true, ""},
		"a drop without a base":    {answers.BenchmarkGates{MaxDrop: new(1.0)}, nil, true, `"passed":false,"skipped":true,"reason":"there is no baseline`},
		"regressions without base": {answers.BenchmarkGates{MaxRegressions: new(1)}, nil, true, `"passed":false,"skipped":true,"reason":"there is no baseline`},
		"skipped and failed":       {answers.BenchmarkGates{MaxRegressions: new(1), MinScore: new(.9)}, nil, false, "no baseline"},
		"deviation of one run":     {answers.BenchmarkGates{MaxStddev: new(1.0)}, nil, false, "undefined"},
		"least score":              {answers.BenchmarkGates{MinScore: new(.48)}, nil, true, "0.4833"},
		"least score missed":       {answers.BenchmarkGates{MinScore: new(.49)}, nil, false, "0.4833"},
	}
	for name, tt := range tests {
		r := worse
		r.Gates = r.Judge(tt.gates, tt.base)
		raw, err := json.Marshal(r.Gates)
		if err != nil || slices.ContainsFunc(r.Gates, answers.BenchmarkGate.Failed) == tt.passed || !strings.Contains(string(raw), tt.says) {
			t.Errorf("%s: %s %v", name, raw, err)
		}
	}
}

func TestBenchmarkReport_Incompatible(t *testing.T) {
	of := func(list ...answers.BenchmarkDataset) answers.BenchmarkReport { return answers.SumBenchmark("b", list) }
	one := []float64{1}
	base := of(datasetOf("v", 1, one), datasetOf("w", 1, one), datasetOf("x", 1, one), datasetOf("y", 1, one))
	if got := base.Incompatible(base); got != nil {
		t.Errorf("with itself: %v", got)
	}
	document, questions := datasetOf("w", 1, one), datasetOf("x", 1, one)
	document.Runs[0].PDFSHA256, questions.Runs[0].QuestionsSHA256 = "other", ""
	got := of(datasetOf("v", 2, one), document, questions, datasetOf("z", 1, one)).Incompatible(base)
	want := []string{
		"dataset v: the weight was 1 and is 2", "dataset w: another document (pdf_sha256)", "dataset x: other questions (questions_sha256)",
		"dataset z is not in the baseline", "dataset y is in the baseline only",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestBenchmarkReport_Judge_undecided checks that every gate fails if the report has no score, and
// the gates on the spread and against a base.
func TestBenchmarkReport_Judge_undecided(t *testing.T) {
	whole := answers.SumBenchmark("b", []answers.BenchmarkDataset{datasetOf("x", 1, []float64{0.4}, []float64{0.6})}) // mean .5, deviation .2/√2 = .1414
	broken := answers.SumBenchmark("b", []answers.BenchmarkDataset{datasetOf("x", 1, []float64{1}), {ID: "z", Weight: 1, Runs: []answers.BenchmarkRun{{Error: "no"}}}})
	all := answers.BenchmarkGates{MinScore: new(0.0), MaxDrop: new(1.0), MaxStddev: new(1.0), MaxRegressions: new(9)}
	for _, gate := range broken.Judge(all, &whole) {
		if gate.Passed || gate.Skipped || gate.Word() != "FAIL" || gate.Reason != "there is no weighted_score: a dataset has none" {
			t.Errorf("without a score: %+v", gate)
		}
	}
	for _, tt := range []struct {
		name  string
		gates answers.BenchmarkGates
		base  *answers.BenchmarkReport
		word  string
	}{
		{"a spread that is allowed", answers.BenchmarkGates{MaxStddev: new(0.1415)}, nil, "pass"},
		{"a spread beyond", answers.BenchmarkGates{MaxStddev: new(0.1414)}, nil, "FAIL"},
		{"a base without a score", answers.BenchmarkGates{MaxDrop: new(1.0)}, &broken, "FAIL"},
		{"no base", answers.BenchmarkGates{MaxDrop: new(1.0)}, nil, "skip"},
		{"no drop", answers.BenchmarkGates{MaxDrop: new(0.0)}, &whole, "pass"},
		{"no regression", answers.BenchmarkGates{MaxRegressions: new(0)}, &whole, "pass"},
	} {
		got := whole.Judge(tt.gates, tt.base)
		if len(got) != 1 || got[0].Word() != tt.word || got[0].Failed() != (tt.word == "FAIL") {
			t.Errorf("%s: %+v, want %s", tt.name, got, tt.word)
		}
	}
	// A question that is missing counts as worse; a new question does not.
	two := answers.SumBenchmark("b", []answers.BenchmarkDataset{datasetOf("x", 1, []float64{0.4, 1})})
	if got := whole.Judge(answers.BenchmarkGates{MaxRegressions: new(0)}, &two); got[0].Passed || !strings.HasSuffix(got[0].Reason, ": x/b") {
		t.Errorf("%+v", got)
	}
	// x/a has .4 and .6 in the base, and .4 only in this report: means .5 and .4.
	if got := two.Judge(answers.BenchmarkGates{MaxRegressions: new(0)}, &whole); got[0].Passed || !strings.HasSuffix(got[0].Reason, ": x/a") {
		t.Errorf("%+v", got)
	}
}

// TestSumBenchmark_uneven checks datasets with different numbers of runs, failed questions, failed
// runs and weights of 0.
func TestSumBenchmark_uneven(t *testing.T) {
	one, two := datasetOf("x", 1, []float64{1}), datasetOf("y", 1, []float64{0.5}, []float64{0.7})
	two.Runs[0].Failed, two.Runs[1].Failed = 1, 2
	r := answers.SumBenchmark("b", []answers.BenchmarkDataset{one, two})
	// The second runs have no common score, because x has one run, so there is no standard
	// deviation.
	if r.Summary.Failed != 3 || r.Summary.Broken != 0 || r.Summary.Stddev != nil || math.Abs(*r.Summary.WeightedScore-0.8) > 1e-12 || r.Datasets[0].Stddev != nil {
		t.Errorf("%+v, %+v", r.Summary, r.Datasets)
	}
	half := datasetOf("x", 1, []float64{1}, []float64{1})
	half.Runs[1] = answers.BenchmarkRun{Error: "cut"}
	if r = answers.SumBenchmark("b", []answers.BenchmarkDataset{half}); r.Datasets[0].WeightedScore != nil || r.Datasets[0].FailureReason() != "cut" {
		t.Errorf("%+v", r.Datasets[0])
	}
	if got := (answers.BenchmarkDataset{Runs: []answers.BenchmarkRun{{WeightedScore: new(1.0), Error: "beside"}, {}}}).FailureReason(); got != "it was not run to its end, or its weights sum up to 0" {
		t.Error(got)
	}
	none := datasetOf("x", 0, []float64{1})
	if r = answers.SumBenchmark("b", []answers.BenchmarkDataset{none}); r.Summary.WeightedScore != nil {
		t.Errorf("only weights of 0 came to %v", *r.Summary.WeightedScore)
	}
}

// TestBenchmarkReport_Incompatible_broken checks the reasons if no run of a side read the document.
func TestBenchmarkReport_Incompatible_broken(t *testing.T) {
	broken := answers.BenchmarkDataset{ID: "x", Weight: 1, Runs: []answers.BenchmarkRun{{Error: "no"}}}
	report := func(list ...answers.BenchmarkDataset) answers.BenchmarkReport { return answers.SumBenchmark("b", list) }
	whole := report(datasetOf("x", 1, []float64{1}))
	if got := whole.Incompatible(report(broken)); !slices.Equal(got, []string{"dataset x has no score in the baseline"}) {
		t.Errorf("%q", got)
	}
	if got := report(broken).Incompatible(whole); !slices.Equal(got, []string{"dataset x: another document (pdf_sha256)"}) {
		t.Errorf("%q", got)
	}
	// The first run with hashes provides those of the dataset.
	late := datasetOf("x", 1, []float64{1})
	late.Runs = append([]answers.BenchmarkRun{{Error: "no"}}, late.Runs...)
	if got := report(late).Incompatible(whole); got != nil {
		t.Errorf("%q", got)
	}
	if got := report(datasetOf("z", 1, []float64{1})).Incompatible(whole); !slices.Equal(got, []string{"dataset z is not in the baseline", "dataset x is in the baseline only"}) {
		t.Errorf("%q", got)
	}
}
