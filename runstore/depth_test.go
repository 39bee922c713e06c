package runstore

import (
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"extraction-experiment/outcome"
)

// TestOutcomes_brief: a brief query omits output, calls, explanation and counts of scores, and
// nothing else.
func TestOutcomes_brief(t *testing.T) {
	run, err := Create(filepath.Join(t.TempDir(), "r.run"), testHeader())
	noError(t, err)
	defer func() { noError(t, run.Close()) }()
	noError(t, run.AddItems(t.Context(), testItems(0, 20), testHash))
	for i := range 20 {
		noError(t, run.Commit(t.Context(), testOutcome(i, 300)))
	}
	all := func(q Query) (list []outcome.Outcome) {
		for o, err := range run.Outcomes(t.Context(), q) {
			noError(t, err)
			list = append(list, o)
		}
		return list
	}
	whole := all(Query{Detail: true})
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
	if diff := cmp.Diff(whole, all(Query{Brief: true})); diff != "" || long == 0 {
		t.Errorf("(-whole +brief), %d with long parts\n%s", long, diff)
	}
}

// BenchmarkOutcomes reads 5,000 outcomes at each depth.
func BenchmarkOutcomes(b *testing.B) {
	run, err := Create(filepath.Join(b.TempDir(), "r.run"), testHeader())
	noError(b, err)
	defer func() { noError(b, run.Close()) }()
	const n = 5000
	noError(b, run.AddItems(b.Context(), testItems(0, n), testHash))
	for i := range n {
		noError(b, run.Commit(b.Context(), testOutcome(i, 3000)))
	}
	for name, q := range map[string]Query{"row": {}, "brief": {Brief: true}, "full": {Detail: true}} {
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
