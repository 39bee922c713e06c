// Package stats has the statistics of means and their differences: exact sums, mean and
// variance, Student's interval, quantiles; for two runs over the same items, the paired mean
// with its interval, also clustered, the sign-flip permutation test, Holm's correction,
// McNemar's test, the bootstrap of pooled ratios, and the difference that a comparison could
// have detected; and exact intervals of rates, with the number of trials needed to bound one.
// It also processes sequences that do not fit in memory: the first few values (Shortlist),
// several sequences merged (Merge), one sequence on all processors (Parallel). It is not a
// general library, and knows neither runs nor scores; package compare does.
//
// Every function documents when its result is undefined, and then returns ok == false, never
// NaN and never a substitute like 0. Unless documented otherwise, a result depends only on
// the values, not on their order. Random numbers are drawn from a seed that the caller gives.
//
//	var m stats.Moments
//	m.Add(0.5)
//	m.Add(1)
//	mean, _ := m.Mean()            // 0.75
//	e, ok := m.Estimate()          // ok for two or more different values: e.Mean, e.CI95
//
//	p, ok := stats.SignFlip(differences, 10_000, seed)
package stats

import (
	"math"
	"math/big"
	"slices"

	"gonum.org/v1/gonum/mathext"
)

// Moments accumulates mean, variance and range of numbers in constant memory. The zero value is
// empty. It is not safe for concurrent use.
//
// It keeps exact sums of x and x² and subtracts at the end, in rational arithmetic, so that the
// cancellation of float64 arithmetic (which Welford's recurrence avoids) cannot happen. Unlike
// with Welford's recurrence, the result does not depend on the order of Add.
type Moments struct {
	n               int
	sum             Sum
	squares         Sum
	lowest, highest float64
}

// MomentsOf adds all values. ok is false if one was refused, which is left out.
func MomentsOf(values []float64) (m Moments, ok bool) {
	ok = true
	for _, x := range values {
		ok = m.Add(x) && ok
	}
	return m, ok
}

// Add adds x. NaN, infinities and magnitudes over Limit are refused: Add then changes nothing
// and returns false.
func (m *Moments) Add(x float64) bool {
	if !m.sum.Add(x) {
		return false
	}
	// x² = square + rest exactly, except for underflow below 1e-308.
	square := x * x
	m.squares.grow(square)
	m.squares.grow(math.FMA(x, x, -square))
	if m.n == 0 {
		m.lowest, m.highest = x, x
	}
	m.lowest, m.highest = min(m.lowest, x), max(m.highest, x)
	m.n++
	return true
}

// Clone returns a copy to which numbers can be added.
func (m Moments) Clone() Moments {
	m.sum.partials, m.squares.partials = slices.Clone(m.sum.partials), slices.Clone(m.squares.partials)
	return m
}

// N returns the number of numbers added.
func (m Moments) N() int { return m.n }

// Mean returns Σx/n, correctly rounded. It is undefined for n = 0.
func (m Moments) Mean() (mean float64, ok bool) {
	if m.n == 0 {
		return 0, false
	}
	mean, _ = new(big.Rat).Quo(m.sum.rat(), integer(m.n)).Float64()
	return mean, true
}

// MeanOrNil returns the Mean, or nil if it is undefined.
func (m Moments) MeanOrNil() *float64 {
	if mean, ok := m.Mean(); ok {
		return &mean
	}
	return nil
}

// Range returns the smallest and the largest number. It is undefined for n = 0.
func (m Moments) Range() (least, top float64, ok bool) {
	return m.lowest, m.highest, m.n > 0
}

// largest returns the largest magnitude, or 0 for n = 0.
func (m Moments) largest() float64 { return max(-m.lowest, m.highest) }

// Variance returns the sample variance (nΣx² − (Σx)²) / (n(n−1)), which is Σ(x−mean)²/(n−1),
// correctly rounded. It is undefined for n < 2.
func (m Moments) Variance() (variance float64, ok bool) {
	if m.n < 2 {
		return 0, false
	}
	sum := m.sum.rat()
	v := new(big.Rat).Mul(integer(m.n), m.squares.rat())
	v.Sub(v, new(big.Rat).Mul(sum, sum))
	if v.Sign() < 0 { // squares below 1e-308 were rounded
		return 0, true
	}
	v.Quo(v, new(big.Rat).Mul(integer(m.n), integer(m.n-1)))
	variance, _ = v.Float64()
	return variance, true
}

// PopulationVariance returns Σ(x−mean)²/n, the variance of a population, not of a sample; 0 for
// n = 1. It is undefined for n = 0.
func (m Moments) PopulationVariance() (variance float64, ok bool) {
	if m.n < 2 {
		return 0, m.n == 1
	}
	sample, _ := m.Variance()
	return sample * float64(m.n-1) / float64(m.n), true
}

// SD returns the sample standard deviation, the root of Variance. It is undefined for n < 2.
func (m Moments) SD() (sd float64, ok bool) {
	v, ok := m.Variance()
	return math.Sqrt(v), ok
}

// Estimate returns the mean with Student's 95 % interval, mean ± t(0.975, n−1)·SE with SE =
// sd/√n; for differences of pairs, this is the paired t-test. It is not limited to the range of
// the values: the interval of scores near 1 may exceed 1; see ScoreInterval95. It is undefined
// for n < 2, and if all values are equal, since an interval without width would claim
// certainty.
//
// It is exact for normal values, and good for others from about 20 values on; with very many
// ties it is too wide rather than too narrow.
//
// Source: Student 1908, "The probable error of a mean"; for evaluations Miller 2024, "Adding
// Error Bars to Evals", arXiv 2411.00640, section 4.2.
func (m Moments) Estimate() (e Estimate, ok bool) {
	sd, _ := m.SD()
	mean, _ := m.Mean()
	return newEstimate(mean, sd/math.Sqrt(float64(m.n)), float64(m.n-1), m.largest())
}

// ScoreInterval95 returns the 95 % interval of the mean of scores from 0 to 1, or nil for n <
// 2. It assumes the worst of one unseen value: the lower end is the 2.5 % point of the mean
// with one more value of 0, the upper end the 97.5 % point of the mean with one more value of
// 1, both by the beta distribution with
//
//	mean m = Σ/(n+1) and variance Σ(x−m)²/(n+1)/(n+2), the sums over all n+1
//
// If all values are 0 or 1, it is exactly BinomialInterval. It has a width even if all values
// are equal. Student's interval, which does not know the bounds, is narrower and covers too
// little if most values are 1: docs/comparing.md has the numbers. If a value is outside of 0 to
// 1, it is the interval of Estimate.
//
// Source: Gaffke 2005, "Three test statistics for a nonparametric one-sided hypothesis on the
// mean of a nonnegative variable", which draws weights; here, their distribution is replaced by
// the beta distribution of equal mean and variance.
func (m Moments) ScoreInterval95() *[2]float64 {
	switch {
	case m.n < 2:
		return nil
	case m.lowest < 0 || m.highest > 1:
		e, _ := m.Estimate()
		return e.CI95
	}
	return &[2]float64{m.scoreEnd(0, 0.025), m.scoreEnd(1, 0.975)}
}

// scoreEnd returns one end of ScoreInterval95, with that value added.
func (m Moments) scoreEnd(value, p float64) float64 {
	extended := m.Clone()
	extended.Add(value)
	mean, _ := extended.Mean()
	if math.Abs(mean-value) < 1e-9 {
		return value
	}
	variance, _ := extended.PopulationVariance()
	concentration := mean*(1-mean)*float64(extended.n+1)/variance - 1
	return mathext.InvRegIncBeta(mean*concentration, (1-mean)*concentration, p)
}

func integer(n int) *big.Rat { return new(big.Rat).SetInt64(int64(n)) }

// Limit is the largest magnitude that Sum and Moments accept: squares of such values, and sums
// of 10^8 of those, are finite.
const Limit = 1e150

// Sum adds numbers without rounding: for any order of Add, Value is the float64
// nearest to the exact sum. The zero value is an empty sum. It is not safe for concurrent use.
//
// It keeps a list of non-overlapping float64 whose exact sum is the total: two or three members
// for values of similar size, a few dozen for values over the whole range of float64. Add takes
// one pass over the list.
//
// Source: Shewchuk 1997, "Adaptive Precision Floating-Point Arithmetic and Fast Robust
// Geometric Predicates", grow-expansion.
type Sum struct {
	partials []float64
}

// Add adds x. NaN, infinities and magnitudes over Limit are refused: the sum
// stays as it was and the result is false.
func (s *Sum) Add(x float64) bool {
	if !(x >= -Limit && x <= Limit) { // also true for NaN
		return false
	}
	s.grow(x)
	return true
}

// Value returns the float64 nearest to the exact sum, ties to even; 0 for an empty sum.
func (s Sum) Value() float64 {
	if len(s.partials) == 1 {
		return s.partials[0]
	}
	value, _ := s.rat().Float64()
	return value
}

// grow adds x to the partials from small to large, and keeps the rounding error of each
// addition.
func (s *Sum) grow(x float64) {
	kept := s.partials[:0]
	for _, p := range s.partials {
		high := x + p
		back := high - x
		low := (x - (high - back)) + (p - back)
		if low != 0 {
			kept = append(kept, low)
		}
		x = high
	}
	if x != 0 {
		kept = append(kept, x)
	}
	s.partials = kept
}

func (s Sum) rat() *big.Rat {
	total := new(big.Rat)
	for _, p := range s.partials {
		total.Add(total, new(big.Rat).SetFloat64(p))
	}
	return total
}

// Quantile returns the p-quantile of values sorted in ascending order, by linear interpolation
// between the two nearest: with h = (n−1)·p it is x[⌊h⌋] + (h−⌊h⌋)·(x[⌊h⌋+1] − x[⌊h⌋]),
// counting from 0. This is definition 7 of Hyndman and Fan 1996, the default of R, NumPy and
// spreadsheets. For p = 0 it is the least value, for p = 1 the largest. It is undefined without
// values and for p outside of [0,1].
func Quantile(sorted []float64, p float64) (q float64, ok bool) {
	if len(sorted) == 0 || !(p >= 0 && p <= 1) {
		return 0, false
	}
	i, part := math.Modf(float64(len(sorted)-1) * p)
	lower, upper := sorted[int(i)], sorted[min(int(i)+1, len(sorted)-1)]
	return lower + part*(upper-lower), true
}

// studentQuantile returns the p-quantile of Student's t distribution with df degrees of
// freedom. The caller ensures that 1/2 ≤ p < 1 and df > 0.
//
// Source: Student 1908; by the incomplete beta function as in Abramowitz and Stegun 26.5.27.
func studentQuantile(p, df float64) float64 {
	x := mathext.InvRegIncBeta(df/2, 0.5, 2*(1-p))
	return math.Sqrt(df * (1 - x) / x)
}
