package stats

import (
	"math"
	"math/big"
)

// Moments accumulates mean, variance and range of a stream of numbers in
// constant memory. The zero value is empty. Not safe for concurrent use.
//
// It keeps exact sums of x and x² and subtracts at the end, in rational
// arithmetic, so the cancellation that forbids this in float64 (and that
// Welford's recurrence avoids) cannot happen; unlike Welford's recurrence the
// result does not depend on the order of Add and Merge.
type Moments struct {
	n          int
	sum        Sum
	squares    Sum
	least, top float64
}

// Add takes x into account. NaN, infinities and magnitudes over Limit are
// refused: nothing changes and the result is false.
func (m *Moments) Add(x float64) bool {
	if !m.sum.Add(x) {
		return false
	}
	// x² = square + rest exactly, short of underflow below 1e-308.
	square := x * x
	m.squares.grow(square)
	m.squares.grow(math.FMA(x, x, -square))
	if m.n == 0 || x < m.least {
		m.least = x
	}
	if m.n == 0 || x > m.top {
		m.top = x
	}
	m.n++
	return true
}

// Merge takes into account everything that was added to o.
func (m *Moments) Merge(o Moments) {
	if o.n == 0 {
		return
	}
	if m.n == 0 || o.least < m.least {
		m.least = o.least
	}
	if m.n == 0 || o.top > m.top {
		m.top = o.top
	}
	m.n += o.n
	m.sum.Merge(o.sum)
	m.squares.Merge(o.squares)
}

// N returns how many numbers were added.
func (m Moments) N() int { return m.n }

// Mean returns Σx/n, correctly rounded. Undefined for n = 0.
func (m Moments) Mean() (mean float64, ok bool) {
	if m.n == 0 {
		return 0, false
	}
	mean, _ = new(big.Rat).Quo(m.sum.rat(), integer(m.n)).Float64()
	return mean, true
}

// Range returns the smallest and the largest number. Undefined for n = 0.
func (m Moments) Range() (least, top float64, ok bool) {
	return m.least, m.top, m.n > 0
}

// Variance returns the sample variance (nΣx² − (Σx)²) / (n(n−1)), which is
// Σ(x−mean)²/(n−1), correctly rounded. Undefined for n < 2.
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

// PopulationVariance returns Σ(x−mean)²/n, that of all there is and not of a
// sample: 0 for n = 1. Undefined for n = 0.
func (m Moments) PopulationVariance() (variance float64, ok bool) {
	if m.n < 2 {
		return 0, m.n == 1
	}
	sample, _ := m.Variance()
	return sample * float64(m.n-1) / float64(m.n), true
}

// SD returns the sample standard deviation, the root of Variance. Undefined
// for n < 2.
func (m Moments) SD() (sd float64, ok bool) {
	v, ok := m.Variance()
	return math.Sqrt(v), ok
}

// Interval95 returns Student's 95 % interval of the mean, mean ±
// t(0.975, n−1)·sd/√n. It is not cut at the range of the values: the interval of
// scores near 1 may reach beyond 1; see ScoreInterval95. Undefined for n < 2; of width 0 when all values are
// equal.
func (m Moments) Interval95() (lo, hi float64, ok bool) {
	sd, ok := m.SD()
	if !ok {
		return 0, 0, false
	}
	half, ok := halfWidth95(m.n, sd)
	mean, _ := m.Mean()
	return mean - half, mean + half, ok
}

// ScoreInterval95 returns the 95 % interval of the mean of scores, which lie from 0
// to 1:
//
//   - where every value is 0 or 1, BinomialInterval of Σx of n: Student's has width 0
//     where all are equal, as if 10 of 10 proved that none can ever fail. It holds
//     for scores between 0 and 1 too, of which all that were seen are 0, or all 1;
//   - where all values are equal otherwise, none: nothing is known of the spread;
//   - else Interval95 cut at 0 and 1: it is symmetric and knows of no bounds, so that
//     that of few values near 1 promises what cannot be. What is cut away holds no
//     possible mean: the interval covers as often as before.
//
// With a value beyond 0 or 1 it is Interval95. Undefined for n < 2.
func (m Moments) ScoreInterval95() (lo, hi float64, ok bool) {
	least, top, _ := m.Range()
	switch {
	case m.n < 2:
		return 0, 0, false
	case least < 0 || top > 1:
		return m.Interval95()
	case m.binary():
		ones, _ := m.sum.rat().Float64()
		return BinomialInterval(int(ones), m.n, 0.95)
	case least == top:
		return 0, 0, false
	}
	lo, hi, ok = m.Interval95()
	return max(lo, 0), min(hi, 1), ok
}

// binary reports whether values from 0 to 1 are all 0 or 1: only then is Σx² = Σx.
func (m Moments) binary() bool { return m.squares.rat().Cmp(m.sum.rat()) == 0 }

func integer(n int) *big.Rat { return new(big.Rat).SetInt64(int64(n)) }
