package stats

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/mathext"
)

// Estimate is a mean with its uncertainty.
type Estimate struct {
	Mean float64
	SE   float64     // standard error of Mean
	DF   float64     // degrees of freedom of SE
	CI95 *[2]float64 // the ends of the 95 % interval Mean ± t(0.975, DF)·SE
}

// ClusteredMean estimates the mean, as Moments.Estimate does, when differences of one cluster
// resemble each other, because the items share a document, say:
//
//	SE² = Σ_g (Σ_{i in g} (d_i − mean))² / (1 − n_g/n) / n²
//	DF  = n² / (Σ_g n_g² + (Σ_g a_g)² − Σ_g a_g²),  a_g = n_g² / (n − n_g)
//
// n_g is the size of cluster g. With G clusters of one size these are the usual
// G/(G−1) and G−1; where the sizes differ, large clusters weigh more, and DF is
// less: one of 60 items beside nine of 2 leaves 1.6. cluster holds what
// the cluster of each difference is called; equal ones are one cluster. With every difference in a
// cluster of its own it is Moments.Estimate. Undefined for fewer than two clusters,
// for lists of different length, where a difference is not finite or so large that
// a square of a cluster's sum passes Limit, and where nothing varies between the
// clusters. Cost: O(n).
//
// Callers refuse to claim anything below 6 clusters.
//
// Source: CR2 with the degrees of freedom of Bell and McCaffrey 2002, for a mean
// alone and independent differences; recommended by Imbens and Kolesár 2016,
// "Robust Standard Errors in Small Samples". Miller 2024, section 2.2, has the
// simpler form, which finds too much where sizes differ.
func ClusteredMean[C comparable](differences []float64, cluster []C) (e Estimate, ok bool) {
	if len(differences) != len(cluster) {
		return Estimate{}, false
	}
	all, finite := MomentsOf(differences)
	mean, _ := all.Mean()
	groups := Grouped(differences, cluster, func(g *group, d float64) {
		g.n++
		finite = g.sum.Add(d-mean) && finite
	})
	if !finite || len(groups) < 2 {
		return Estimate{}, false
	}
	n := float64(len(differences))
	var squares, sizes, shares, shares2 Sum // exact, so that no order counts
	for _, g := range groups {
		// A square left out would narrow the interval.
		if off := g.sum.Value(); !squares.Add(off * off / (1 - g.n/n)) {
			return Estimate{}, false
		}
		a := g.n * g.n / (n - g.n)
		sizes.Add(g.n * g.n)
		shares.Add(a)
		shares2.Add(a * a)
	}
	df := n * n / (sizes.Value() + shares.Value()*shares.Value() - shares2.Value())
	return newEstimate(mean, math.Sqrt(squares.Value())/n, df, all.largest())
}

// group is a cluster: how many values it has, and the sum of what they lie off the mean.
type group struct {
	n   float64
	sum Sum
}

// Grouped makes a group of the values of every cluster, in the order in which the clusters
// first appear. The lists have the same length; the caller sees to that.
func Grouped[V, G any, C comparable](values []V, cluster []C, add func(to *G, v V)) (groups []G) {
	at := map[C]int{}
	for i, v := range values {
		j, known := at[cluster[i]]
		if !known {
			j = len(groups)
			at[cluster[i]] = j
			groups = append(groups, *new(G))
		}
		add(&groups[j], v)
	}
	return groups
}

// newEstimate is undefined where nothing varies but what was rounded: beside the
// largest of the values, or because squares so small are none to a float.
func newEstimate(mean, se, df, largest float64) (e Estimate, ok bool) {
	if !(se > max(1e-9*largest, 1e-150) && df > 0) {
		return Estimate{}, false
	}
	half := studentQuantile(0.975, df) * se
	return Estimate{Mean: mean, SE: se, DF: df, CI95: &[2]float64{mean - half, mean + half}}, true
}

// ClusterSums returns Σ d_i of every cluster, in the order in which the
// clusters first appear: what SignFlip is given when whole clusters are
// flipped. The lists have the same length; the caller sees to that.
func ClusterSums[C comparable](differences []float64, cluster []C) []float64 {
	sums := Grouped(differences, cluster, func(sum *Sum, d float64) { sum.Add(d) })
	values := make([]float64, len(sums))
	for i, sum := range sums {
		values[i] = sum.Value()
	}
	return values
}

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
	slices.Sort(right)
	count := 0
	for _, a := range left {
		// With all signs turned, as many sums are at most -bound as are at least bound.
		first, _ := slices.BinarySearch(right, bound-a)
		count += 2 * (len(right) - first)
	}
	return count
}

// signedSums returns Σ ±size for every combination of signs.
func signedSums(sizes []float64) []float64 {
	sums := make([]float64, 1, 1<<len(sizes))
	for _, size := range sizes {
		for i, s := range sums {
			sums[i] = s - size
			sums = append(sums, s+size)
		}
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

// McNemar tests whether a yes/no result changed more often in one direction
// than in the other: gained items went from no to yes, lost ones from yes to
// no; items that stayed say nothing. P is the exact two-sided binomial
//
//	min(1, 2 · Σ_{k ≤ min(gained, lost)} C(n,k) / 2^n),  n = gained + lost
//
// In [0,1]; 1 for n = 0 and for equal counts. Undefined for negative counts. The sum
// is an incomplete beta function.
//
// Source: McNemar 1947; the exact form as in Agresti, Categorical Data
// Analysis, section 11.1.1.
func McNemar(gained, lost int) (p float64, ok bool) {
	least, most := min(gained, lost), max(gained, lost)
	if least < 0 || least == most {
		return 1, least >= 0
	}
	return min(1, 2*mathext.RegIncBeta(float64(most), float64(least+1), 0.5)), true
}

// YesNoInterval95 returns the 95 % interval of the share of items that go from no
// to yes less that of those that go from yes to no, of which gained and lost of n
// were seen. The exact binomial intervals of both shares (BinomialInterval) are put
// together by the squares of what each end lies away, and a share of which nothing
// was seen adds nothing on its near side:
//
//	hi = g − l + √(x² + y² + 2rxy),  x = upper(g) − g, y = l − lower(l)
//
// and lo likewise with the other ends; −r is the correlation of the two shares,
// √(gl/((1−g)(1−l))), which is 1 where all changed. With no loss, hi is that of a binomial share, and with no
// change at all the interval is ± 1 − 0.025^(1/n): it never has width 0. Undefined
// for n < 1 and counts that are negative or more than n.
//
// It covers at least 95.4 % in simulations of 6 to 400 items; Student's covers as
// little as 16 % where changes are rare.
//
// Source: Zou and Donner 2008, "Construction of confidence limits about effect
// measures: a general approach", of the two shares of McNemar's table.
func YesNoInterval95(gained, lost, n int) (lo, hi float64, ok bool) {
	leastGain, mostGain, ok := BinomialInterval(gained, n, 0.95)
	leastLoss, mostLoss, ok2 := BinomialInterval(lost, n, 0.95)
	if !ok || !ok2 || gained+lost > n {
		return 0, 0, false
	}
	g, l, r := float64(gained)/float64(n), float64(lost)/float64(n), 1.0
	if gained+lost < n { // else all changed: what one share has less the other has more
		r = math.Sqrt(g * l / ((1 - g) * (1 - l)))
	}
	apart := func(x, y float64) float64 { return math.Sqrt(x*x + y*y + 2*r*x*y) }
	return g - l - apart(mostLoss-l, g-leastGain), g - l + apart(mostGain-g, l-leastLoss), true
}

// Holm corrects p-values for being looked at together: the chance that any of
// them is at most α although all null hypotheses hold is at most α, whatever
// their dependence. With p(1) ≤ … ≤ p(m) sorted, the i-th becomes
//
//	max over j ≤ i of min(1, (m−j+1)·p(j))
//
// The result has the order of the argument; equal values stay equal. Every p
// lies in [0,1]; the caller leaves out those that are undefined.
//
// Source: Holm 1979, "A simple sequentially rejective multiple test procedure".
func Holm(p []float64) []float64 {
	order := make([]int, len(p))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(p[a], p[b]) })
	corrected := make([]float64, len(p))
	least := 0.0
	for rank, i := range order {
		least = max(least, min(1, float64(len(p)-rank)*p[i]))
		corrected[i] = least
	}
	return corrected
}

// DetectableDifference returns the minimum detectable effect of an estimate: a true
// difference of that size would be found 80 times of 100, at the level 5 %,
// two-sided, by a comparison of that standard error and as many degrees of freedom:
//
//	(t(0.975, DF) + t(0.8, DF)) · SE
//
// which is 2.80·SE for many items, 2.90·SE for 30 and 3.49·SE for 6. Undefined for a
// standard error or degrees of freedom that are 0, negative or not finite.
//
// Source: Miller 2024, arXiv 2411.00640, section 5; Cohen 1988, chapter 2.
func DetectableDifference(e Estimate) (effect float64, ok bool) {
	if !(e.SE > 0 && e.DF > 0) || math.IsInf(e.SE, 1) || math.IsInf(e.DF, 1) {
		return 0, false
	}
	return (studentQuantile(0.975, e.DF) + studentQuantile(0.8, e.DF)) * e.SE, true
}

// NeededPairs returns how many pairs it takes to find the difference that was seen
// 80 times of 100, when n pairs gave the estimate: n·(effect/Mean)², rounded up,
// with the DetectableDifference of the estimate. For clustered ones it assumes more
// clusters of the same kind.
//
// Undefined for n < 1, a mean that is 0 or not finite, an estimate that has no
// DetectableDifference, and numbers over 10^9, which nobody needs. It is a rough
// guide only: the difference that was seen is itself uncertain, and with more pairs
// the degrees of freedom are more as well.
func NeededPairs(n int, e Estimate) (pairs int, ok bool) {
	effect, ok := DetectableDifference(e)
	if !ok || n < 1 || math.IsNaN(e.Mean) || math.IsInf(e.Mean, 0) {
		return 0, false
	}
	needed := math.Ceil(float64(n)*(effect/e.Mean)*(effect/e.Mean) - 1e-9)
	if needed > 1e9 {
		return 0, false
	}
	return max(1, int(needed)), true
}
