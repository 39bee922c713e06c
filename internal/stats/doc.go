// Package stats is the arithmetic of averages: exact sums, mean and variance,
// Student's interval of a mean, quantiles. It is not a general library, and it
// compares nothing: package compare does.
//
// Every function says when its result is undefined and then returns ok ==
// false, never NaN and never a stand-in such as 0. Results depend only on the
// collection of values, not on the order in which they came, to the last bit.
//
//	var m stats.Moments
//	m.Add(0.5)
//	m.Add(1)
//	mean, _ := m.Mean()            // 0.75
//	lo, hi, ok := m.Interval95()   // ok from two values on
package stats
