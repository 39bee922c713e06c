package stats

import (
	"math"
	"math/rand/v2"
	"slices"
)

// exactFlips is up to how many non-zero differences SignFlip looks at every
// combination of signs.
const exactFlips = 20

// Permutation is the result of SignFlip.
type Permutation struct {
	P     float64
	Exact bool // all combinations of signs were looked at
}

// SignFlip tests whether differences are symmetric about 0: P is the share of
// all combinations of signs under which |Σ ±d| is at least the observed |Σ d|.
// Two-sided, in (0,1]; 1 when there is no difference but 0. It is a test of the
// mean: zeros change nothing, and sizes count, not ranks.
//
// Up to 20 non-zero differences all 2^n combinations count, by the sorted
// sums of both halves: O(2^(n/2)). Beyond that, so many flips are drawn
// and P = (k+1)/(flips+1), which is a valid p-value for any number of flips;
// it cannot be less than 1/(flips+1). The drawing depends on seed alone, and P
// neither on the order of differences nor on the sign of all of them together.
//
// Undefined when a difference is not finite, and for flips < 1 where drawing
// is needed. Sums that differ by less than 1e-12·Σ|d| count as equal.
//
// Source: Fisher 1935, The Design of Experiments, section 21; the +1 rule is
// Phipson and Smyth 2010, "Permutation P-values Should Never Be Zero".
func SignFlip(differences []float64, flips int, seed uint64) (p Permutation, ok bool) {
	var sum, total Sum
	var sizes []float64
	for _, d := range differences {
		if !sum.Add(d) {
			return Permutation{}, false
		}
		if d != 0 {
			sizes = append(sizes, math.Abs(d))
			total.Add(math.Abs(d))
		}
	}
	slices.Sort(sizes)
	bound := math.Abs(sum.Value()) - 1e-12*total.Value()
	if len(sizes) <= exactFlips {
		return Permutation{float64(extreme(sizes, bound)) / float64(int(1)<<len(sizes)), true}, true
	}
	if flips < 1 {
		return Permutation{}, false
	}
	return Permutation{float64(1+drawn(sizes, total.Value(), bound, flips, seed)) / float64(flips+1), false}, true
}

// extreme counts the combinations of signs with |Σ ±size| ≥ bound.
func extreme(sizes []float64, bound float64) int {
	if bound <= 0 {
		return 1 << len(sizes)
	}
	left, right := signedSums(sizes[:len(sizes)/2]), signedSums(sizes[len(sizes)/2:])
	count, above, below := 0, len(right), len(right)
	for _, a := range left { // the larger a, the smaller the b that count
		// b ≥ bound − a, or b ≤ −bound − a; bound > 0 keeps them apart.
		for above > 0 && right[above-1] >= bound-a {
			above--
		}
		for below > 0 && right[below-1] > -bound-a {
			below--
		}
		count += len(right) - above + below
	}
	return count
}

// signedSums returns Σ ±size for every combination of signs, in rising order:
// each size makes two rising lists of one, which are merged.
func signedSums(sizes []float64) []float64 {
	sums, next := make([]float64, 1, 1<<len(sizes)), make([]float64, 0, 1<<len(sizes))
	for _, size := range sizes {
		next = next[:0]
		minus := 0
		for _, s := range sums {
			for minus < len(sums) && sums[minus]-size <= s+size {
				next = append(next, sums[minus]-size)
				minus++
			}
			next = append(next, s+size)
		}
		sums, next = next, sums
	}
	return sums
}

// drawn counts, among so many random combinations of signs, those with
// |Σ ±size| ≥ bound. Each draws 64 signs at a time.
func drawn(sizes []float64, total, bound float64, flips int, seed uint64) int {
	random := rand.NewPCG(seed, 0x5eed)
	count := 0
	for range flips {
		positive := 0.0
		for rest := sizes; len(rest) > 0; {
			block := rest[:min(64, len(rest))]
			rest = rest[len(block):]
			bits := random.Uint64()
			for i, size := range block {
				// A product, not a branch: random branches cannot be predicted.
				positive += size * float64(bits>>i&1)
			}
		}
		if math.Abs(2*positive-total) >= bound {
			count++
		}
	}
	return count
}
