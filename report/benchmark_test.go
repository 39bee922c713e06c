package report

import (
	"bytes"
	"strings"
	"testing"

	"github.com/jedib0t/go-pretty/v6/text"

	"extraction-experiment/harness/answers"
)

// TestBenchmark_width: every line fits, and what is left out is named.
func TestBenchmark_width(t *testing.T) {
	d := answers.BenchmarkDataset{ID: "report-of-the-year", Kind: "annual report of a company", Weight: 2, Runs: []answers.BenchmarkRun{{WeightedScore: new(0.5)}, {WeightedScore: new(0.7)}}}
	r := answers.SumBenchmark("b", []answers.BenchmarkDataset{d})
	r.Gates = r.Judge(answers.BenchmarkGates{MinScore: new(0.9), MaxDrop: new(0.1)}, nil)
	for _, width := range []int{50, 60, 80, 120} {
		var b bytes.Buffer
		if err := Benchmark(&b, r, Options{Width: width}); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(b.String()) {
			if n := text.StringWidthWithoutEscSequences(strings.TrimSuffix(line, "\n")); n > width {
				t.Errorf("%d cells of %d: %q", n, width, line)
			}
		}
		for _, want := range []string{"report-of", "weighted_score", "0.6000", "FAIL", "min_score", "skip", "max_drop"} {
			if !strings.Contains(b.String(), want) {
				t.Errorf("width %d: no %q in\n%s", width, want, &b)
			}
		}
		if strings.Contains(b.String(), "annual") == strings.Contains(b.String(), "left out") {
			t.Errorf("width %d: the kind is neither shown nor named as left out:\n%s", width, &b)
		}
	}
}
