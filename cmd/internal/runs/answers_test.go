package runs

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"extraction-experiment/compare"
	"extraction-experiment/harness/answers"
	"extraction-experiment/internal/cli"
)

// twoDatasets returns a benchmark with two datasets of two runs each. The questions have the
// weights 1 and 3; the light one has the score 1.
func twoDatasets(first, second float64) answers.BenchmarkReport {
	dataset := func(id string, weight float64, score func(run int) float64) answers.BenchmarkDataset {
		d := answers.BenchmarkDataset{ID: id, Weight: weight}
		for run := range 2 {
			s := score(run)
			mean := (1 + 3*s) / 4
			d.Runs = append(d.Runs, answers.BenchmarkRun{WeightedScore: &mean, PDFSHA256: "pdf of " + id, QuestionsSHA256: "questions of " + id,
				Questions: map[string]answers.BenchmarkQuestion{"light": {Score: 1, Weight: 1}, "heavy": {Score: s, Weight: 3}}})
		}
		return d
	}
	return answers.SumBenchmark("two", []answers.BenchmarkDataset{
		dataset("a", 2, func(int) float64 { return first }),
		dataset("b", 1, func(run int) float64 { return second * float64(run) }), // 0 in the first run
	})
}

// TestBenchmarkRun: two reports are compared as runs whose weighted means are the weighted
// scores of the benchmarks; reports of different benchmarks cannot be compared.
func TestBenchmarkRun(t *testing.T) {
	// Base: a 1, b (1/4 + 1)/2 = 0.625, (2·1 + 0.625)/3 = 0.875. Candidate: a
	// (1 + 3·0.5)/4 = 0.625, b the same, (2·0.625 + 0.625)/3 = 0.625.
	base, cand := twoDatasets(1, 1), twoDatasets(.5, 1)
	if *base.Summary.WeightedScore != .875 || *cand.Summary.WeightedScore != .625 {
		t.Fatalf("%v, %v", *base.Summary.WeightedScore, *cand.Summary.WeightedScore)
	}
	maxRegressions, minDelta := 1, -.25
	cfg := Comparison()
	cfg.Gate = compare.Gate{MaxRegressions: &maxRegressions, MinDelta: &minDelta}
	compareWith := func(cand answers.BenchmarkReport) compare.Comparison {
		t.Helper()
		source := func(name string, r answers.BenchmarkReport) compare.Source {
			run, err := benchmarkRun(name, r)
			must(t, err)
			slices.SortFunc(run.Outcomes, byItem)
			return remoteSource{run}
		}
		result, err := cfg.Compare(t.Context(), source("base.json", base), source("cand.json", cand))
		must(t, err)
		return result
	}
	result := compareWith(cand)
	weighted := result.Candidates[0].Scores[0].Weighted
	if err := result.Err(); err != nil || weighted == nil || math.Abs(weighted.Base-.875) > 1e-15 || math.Abs(weighted.Difference+.25) > 1e-15 {
		t.Errorf("%v: %+v", err, weighted)
	}
	cand.Datasets[0].Runs[1].Questions["light"] = answers.BenchmarkQuestion{Weight: 1}
	if err := compareWith(cand).Err(); err == nil || !strings.Contains(err.Error(), "max-regressions 1") {
		t.Errorf("one more regression: %v", err)
	}
	for want, change := range map[string]func(*answers.BenchmarkReport){
		"a (weight 2), b (weight 1) in the base, a (weight 3)": func(r *answers.BenchmarkReport) { r.Datasets[0].Weight = 3 },
		"b pdf of b in the base, a other":                      func(r *answers.BenchmarkReport) { r.Datasets[0].Runs[0].PDFSHA256 = "other" },
		": answers@1 in the base, answers@9 in the candidate":  func(r *answers.BenchmarkReport) { r.ScorerVersion = "answers@9" },
		"only in the base: b/heavy, b/light":                   func(r *answers.BenchmarkReport) { r.Datasets = r.Datasets[:1] },
	} {
		other := twoDatasets(1, 1)
		change(&other)
		if err := compareWith(other).Err(); err == nil || !strings.Contains(err.Error(), want) || cli.ExitCode(err) != cli.ExitIncompatible {
			t.Errorf("%v does not say %q", err, want)
		}
	}
	marked, err := json.Marshal(base)
	must(t, err)
	path := filepath.Join(t.TempDir(), "marked.json")
	must(t, os.WriteFile(path, append([]byte("\ufeff"), marked...), 0o600))
	if _, isReport, err := openAnswersReport(t.Context(), path); err != nil || !isReport {
		t.Errorf("with a byte order mark: %v, %v", isReport, err)
	}
	base.Datasets[1].WeightedScore = nil
	if _, err := benchmarkRun("base.json", base); err == nil || cli.ExitCode(err) != cli.ExitIncompatible || !strings.Contains(err.Error(), "base.json cannot be compared: dataset b has no score") {
		t.Errorf("a dataset without a score: %v", err)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
