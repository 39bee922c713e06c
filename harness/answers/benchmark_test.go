package answers_test

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"

	"extraction-experiment/harness/answers"
)

func of(v float64) *float64 { return &v }

// documentOf makes one with a run for each list of scores; weights are 1, 2, ….
func documentOf(id string, weight float64, runs ...[]float64) answers.BenchmarkDataset {
	d := answers.BenchmarkDataset{ID: id, Weight: weight}
	for _, scores := range runs {
		run := answers.BenchmarkRun{PDFSHA256: "p" + id, QuestionsSHA256: "q" + id, Questions: map[string]answers.BenchmarkQuestion{}}
		sum, weights := 0.0, 0.0
		for i, s := range scores {
			w := float64(i + 1)
			run.Questions[string(rune('a'+i))] = answers.BenchmarkQuestion{Score: s, Weight: w}
			sum, weights = sum+s*w, weights+w
		}
		run.WeightedScore = of(sum / weights)
		d.Runs = append(d.Runs, run)
	}
	return d
}

// TestSum by hand. Dataset x, weight 3: runs (1·1 + .5·2)/3 = 2/3 and
// (1 + 1·2)/3 = 1, mean 5/6. Dataset y, weight 1: runs 0.4 and 0.4. Together
// (5/6·3 + .4)/4 = 0.725. By question: (1·1 + .5·2 + 1·1 + 1·2 + .4·1 + .4·1)
// / (3 + 3 + 1 + 1) = 5.8/8 = 0.725. First runs (2/3·3 + .4)/4 = 0.6, second
// (3 + .4)/4 = 0.85: the deviation is .25/√2 = 0.17678.
func TestSum(t *testing.T) {
	r := answers.SumBenchmark("b", []answers.BenchmarkDataset{
		documentOf("x", 3, []float64{1, .5}, []float64{1, 1}), documentOf("y", 1, []float64{.4}, []float64{.4}),
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

// TestSum_broken: a dataset that has a weight and no score leaves none.
func TestSum_broken(t *testing.T) {
	broken := answers.BenchmarkDataset{ID: "z", Weight: 1, Runs: []answers.BenchmarkRun{{Error: "no"}}}
	r := answers.SumBenchmark("b", []answers.BenchmarkDataset{documentOf("x", 1, []float64{1}), broken})
	if r.Summary.WeightedScore != nil || r.Summary.Broken != 1 {
		t.Errorf("%+v", r.Summary)
	}
	broken.Weight = 0
	if r = answers.SumBenchmark("b", []answers.BenchmarkDataset{documentOf("x", 1, []float64{1}), broken}); *r.Summary.WeightedScore != 1 {
		t.Errorf("%+v", r.Summary)
	}
}

func TestReport_Judge(t *testing.T) {
	base := answers.SumBenchmark("b", []answers.BenchmarkDataset{documentOf("x", 1, []float64{1, .5, .5})})
	worse := answers.SumBenchmark("b", []answers.BenchmarkDataset{documentOf("x", 1, []float64{1, .5, .3})}) // −.2·3/6 = −.1
	none := 0
	one := 1
	tests := map[string]struct {
		gates  answers.BenchmarkGates
		base   *answers.BenchmarkReport
		passed bool
		says   string
	}{
		"nothing asked":            {answers.BenchmarkGates{}, nil, true, ""},
		"a drop of exactly .1":     {answers.BenchmarkGates{MaxDrop: of(.1)}, &base, true, "from 0.5833 to 0.4833"},
		"a drop beyond":            {answers.BenchmarkGates{MaxDrop: of(.09)}, &base, false, "a drop of 0.09"},
		"no regression allowed":    {answers.BenchmarkGates{MaxRegressions: &none}, &base, false, "1 questions are worse, 0 are allowed: x/c"},
		"one regression allowed":   {answers.BenchmarkGates{MaxRegressions: &one}, &base, true, ""},
		"a drop without a base":    {answers.BenchmarkGates{MaxDrop: of(1)}, nil, true, `"passed":false,"skipped":true,"reason":"there is no baseline`},
		"regressions without base": {answers.BenchmarkGates{MaxRegressions: &one}, nil, true, `"passed":false,"skipped":true,"reason":"there is no baseline`},
		"skipped and failed":       {answers.BenchmarkGates{MaxRegressions: &one, MinScore: of(.9)}, nil, false, "no baseline"},
		"deviation of one run":     {answers.BenchmarkGates{MaxStddev: of(1)}, nil, false, "undefined"},
		"least score":              {answers.BenchmarkGates{MinScore: of(.48)}, nil, true, "0.4833"},
		"least score missed":       {answers.BenchmarkGates{MinScore: of(.49)}, nil, false, "0.4833"},
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

func TestReport_Incompatible(t *testing.T) {
	base := answers.SumBenchmark("b", []answers.BenchmarkDataset{documentOf("x", 1, []float64{1}), documentOf("y", 1, []float64{1})})
	if got := base.Incompatible(base); got != nil {
		t.Errorf("with itself: %v", got)
	}
	other := documentOf("x", 2, []float64{1})
	other.Runs[0].PDFSHA256, other.Runs[0].QuestionsSHA256 = "other", ""
	got := strings.Join(answers.SumBenchmark("b", []answers.BenchmarkDataset{other, documentOf("z", 1, []float64{1})}).Incompatible(base), "\n")
	for _, want := range []string{"x: the weight was 1 and is 2", "x: another document", "x: other questions", "z is not in the baseline", "y is in the baseline only"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q does not say %q", got, want)
		}
	}
}
