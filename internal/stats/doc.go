// Package stats is the arithmetic of averages and of their differences: exact
// sums, mean and variance, Student's interval, quantiles; and for two runs over
// the same items the paired mean with its interval, also clustered, the
// sign-flip permutation test, Holm's correction, McNemar's test, the bootstrap
// of pooled ratios, and what a comparison could have detected; and exact
// intervals of rates, with the trials that it takes to bound one. It is not a
// general library, and it knows neither runs nor scores: package compare does.
//
// Every function says when its result is undefined and then returns ok ==
// false, never NaN and never a stand-in such as 0. Unless it says otherwise, a
// result depends only on the collection of values, not on the order in which
// they came. What is random is drawn from a seed that the caller gives.
//
//	var m stats.Moments
//	m.Add(0.5)
//	m.Add(1)
//	mean, _ := m.Mean()            // 0.75
//	lo, hi, ok := m.Interval95()   // ok from two different values on
//
//	e, ok := stats.PairedMean(differences)      // e.Mean, e.Lo, e.Hi
//	p, ok := stats.SignFlip(differences, 10_000, seed)
package stats
