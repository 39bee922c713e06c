// Package benchmark sums runs over several documents up: weighted scores by
// dataset and by question, their spread over repeated runs, and gates against an
// earlier benchmark. It runs nothing and prints nothing.
//
//	report := benchmark.Sum("sample", datasets)
//	gates := report.Judge(benchmark.Gates{MaxDrop: &drop}, &earlier)
package benchmark

// Epsilon is up to what size a difference of one question is none.
const Epsilon = 1e-9
