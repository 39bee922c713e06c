package report

import (
	"io"
	"strings"
	"testing"

	"github.com/jedib0t/go-pretty/v6/text"

	"extraction-experiment/harness/answers"
	"extraction-experiment/harness/conformance"
)

// TestConformance_narrow checks that long ids, messages and names fit 80 cells, and that undefined
// numbers are not shown.
func TestConformance_narrow(t *testing.T) {
	long := strings.Repeat("the judge could not be imported, ", 20)
	one, zero := 1.0, 0.0
	r := conformance.Report{
		Evaluator: []string{"sh", "judge.sh"}, TotalFixtures: 2, TotalRuns: 6, Runs: 3,
		Fixtures: []conformance.FixtureResult{
			{ID: "a-fixture-with-an-id-that-goes-on-and-on-for-more-than-30", Label: conformance.Pass, Errors: []string{"run 1: " + long, "run 2: other\x1b[2J", "run 3: " + long}, Reasons: []string{"no run was valid"}},
			{ID: "名前", Label: conformance.Fail, Mean: &zero, Variance: &zero, FlipRate: &one, Scores: []float64{0}},
		},
	}
	said := printed(t, func(w io.Writer) error { return Conformance(w, r) })
	for line := range strings.SplitSeq(said, "\n") {
		if text.StringWidthWithoutEscSequences(line) > 80 {
			t.Errorf("%d cells: %s", text.StringWidthWithoutEscSequences(line), line)
		}
	}
	wantTexts(t, said, "mean=–  var=–  flip=–", "mean=0.00  var=0.0000  flip=1.00", "run 1: the judge", "run 2: other")
	cost, nearly, rare := 0.00002, 0.996, 0.004
	r.Statistics.CostUSD, r.Fixtures[1].Mean, r.Fixtures[1].FlipRate = &cost, &nearly, &rare
	wantTexts(t, printed(t, func(w io.Writer) error { return Conformance(w, r) }), "mean=0.996  var=0.0000  flip=0.004", "Cost:        $0.000020\n")
	r.Compatible, r.Consistent = true, true
	wantTexts(t, printed(t, func(w io.Writer) error { return Conformance(w, r) }), "with care: no pass or fail fixture was evaluated twice")
	if strings.Count(said, "the judge could not be imported, ") > 20 || strings.Contains(said, "\x1b") {
		t.Error(said)
	}
}

// TestBenchmark_width checks that every line fits, and that columns that do not fit are named.
func TestBenchmark_width(t *testing.T) {
	d := answers.BenchmarkDataset{ID: "report-of-the-year", Kind: "annual report of a company", Weight: 2, Runs: []answers.BenchmarkRun{{WeightedScore: new(0.5)}, {WeightedScore: new(0.7)}}}
	r := answers.SumBenchmark("b", []answers.BenchmarkDataset{d})
	r.Gates = r.Judge(answers.BenchmarkGates{MinScore: new(0.9), MaxDrop: new(0.1)}, nil)
	for _, width := range []int{40, 50, 60, 80, 120} {
		page := printed(t, func(w io.Writer) error { return Benchmark(w, r, Options{Width: width}) })
		for line := range strings.Lines(page) {
			if n := text.StringWidthWithoutEscSequences(strings.TrimSuffix(line, "\n")); n > width {
				t.Errorf("%d cells of %d: %q", n, width, line)
			}
		}
		wantTexts(t, page, "report-of", "weighted_score", "0.6000", "FAIL", "min_score", "skip", "max_drop")
		if strings.Contains(page, "annual") == strings.Contains(page, "do not fit: ") {
			t.Errorf("width %d: the kind is neither shown nor named among those that do not fit:\n%s", width, page)
		}
	}
}

// TestEstimateSum adds up 10 + 20 requests and $0.5 + $0.25; a run without a model adds nothing.
func TestEstimateSum(t *testing.T) {
	half, quarter := 0.5, 0.25
	list := []Estimate{
		{Asks: true, Requests: 10, InputTokens: 1000, OutputTokens: 100, CostUSD: &half},
		{OutputTokens: 7},
		{Asks: true, Requests: 20, InputTokens: 2000, OutputTokens: 200, CostUSD: &quarter},
	}
	if got, want := EstimateSum(list), "3 runs together: 30 requests, about 3,000 tokens in and 300 out, about $0.75\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := EstimateSum(list[1:2]), "1 run together: nothing that is known here\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	list[0].CostUSD = nil
	if got, want := EstimateSum(list), "3 runs together: 30 requests, about 3,000 tokens in and 300 out, about $0.25, and 1 run without a known price\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
