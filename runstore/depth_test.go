package runstore

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestOutcomes_brief: a brief query omits output, calls, explanation and counts of scores, and
// nothing else.
func TestOutcomes_brief(t *testing.T) {
	run := newRun(t, 20)
	commitOutcomes(t, run, 20, 300)
	whole := collect(t, run.Reader, Query{Depth: Full})
	long := 0
	for i := range whole {
		if len(whole[i].Output)+len(whole[i].Calls)+len(whole[i].Explanation) > 0 {
			long++
		}
		whole[i].Output, whole[i].Calls, whole[i].Explanation = nil, nil, nil
		for k := range whole[i].Scores {
			whole[i].Scores[k].Counts = nil
		}
	}
	if diff := cmp.Diff(whole, collect(t, run.Reader, Query{Depth: Brief})); diff != "" || long == 0 {
		t.Errorf("(-whole +brief), %d with long parts\n%s", long, diff)
	}
}

// BenchmarkOutcomes reads 5,000 outcomes at each depth.
func BenchmarkOutcomes(b *testing.B) {
	const n = 5000
	run := newRun(b, n)
	commitOutcomes(b, run, n, 3000)
	for name, q := range map[string]Query{"row": {}, "brief": {Depth: Brief}, "full": {Depth: Full}} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				for _, err := range run.Outcomes(b.Context(), q) {
					noError(b, err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/outcome")
		})
	}
}
