package stats

import "math/big"

// Limit is the largest magnitude that a Sum or a Moments takes: squares of
// such values, and sums of 10^8 of those, stay within float64.
const Limit = 1e150

// Sum adds numbers without rounding: whatever the order of Add and Merge,
// Value is the float64 nearest to the true sum of everything added. The zero
// value is an empty sum. Not safe for concurrent use.
//
// The sum is kept as a list of non-overlapping float64 whose exact total it
// is: two or three members for values of similar size, a few dozen when they
// span the whole range of float64. Add costs one pass over the list.
//
// Source: Shewchuk 1997, "Adaptive Precision Floating-Point Arithmetic and
// Fast Robust Geometric Predicates", grow-expansion.
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

// Merge adds everything that was added to t.
func (s *Sum) Merge(t Sum) {
	for _, p := range t.partials {
		s.grow(p)
	}
}

// Value returns the float64 nearest to the exact sum, ties to even; 0 for an
// empty sum.
func (s Sum) Value() float64 {
	n := len(s.partials)
	if n == 0 {
		return 0
	}
	n--
	high, low := s.partials[n], 0.0
	for n > 0 && low == 0 { // as far down as nothing is rounded off
		n--
		x, p := high, s.partials[n]
		high = x + p
		low = p - (high - x)
	}
	// What was rounded off may be just half of the last place, and rounded to
	// even: with more of its sign below, the other neighbour is the nearer one.
	if n > 0 && low != 0 && (low < 0) == (s.partials[n-1] < 0) {
		if up := high + 2*low; up-high == 2*low {
			return up
		}
	}
	return high
}

// grow carries x through the partials from small to large, leaving behind what
// each addition rounded off.
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
