package report

import (
	"strings"
	"testing"

	"extraction-experiment/harness/conformance"

	"github.com/jedib0t/go-pretty/v6/text"
)

// TestConformance_narrow: long ids, messages and names keep within 80 cells, and
// what has no number shows none.
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
	var b strings.Builder
	if err := Conformance(&b, r); err != nil {
		t.Fatal(err)
	}
	said := b.String()
	for line := range strings.SplitSeq(said, "\n") {
		if text.StringWidthWithoutEscSequences(line) > 80 {
			t.Errorf("%d cells: %s", text.StringWidthWithoutEscSequences(line), line)
		}
	}
	for _, want := range []string{"mean=–  var=–  flip=–", "mean=0.00  var=0.0000  flip=1.00", "run 1: the judge", "run 2: other"} {
		if !strings.Contains(said, want) {
			t.Errorf("it does not say %q:\n%s", want, said)
		}
	}
	b.Reset()
	r.Compatible, r.Consistent = true, true
	if err := Conformance(&b, r); err != nil || !strings.Contains(b.String(), "with care: no pass or fail fixture was evaluated twice") {
		t.Errorf("what passed and says little is named: %v\n%s", err, b.String())
	}
	if strings.Count(said, "the judge could not be imported, ") > 20 || strings.Contains(said, "\x1b") {
		t.Error(said)
	}
}
