package stats

import "math"

// Estimate is a mean with its uncertainty.
type Estimate struct {
	Mean float64
	SE   float64 // standard error of Mean
	DF   float64 // degrees of freedom of SE
	// Lo and Hi are the ends of the 95 % interval Mean ± t(0.975, DF)·SE.
	Lo, Hi float64
}

// PairedMean estimates the mean of differences of pairs: SE = sd/√n with n−1
// degrees of freedom. Undefined for fewer than two differences, where one is not
// finite, and where nothing varies: an interval of no width would be certain of
// what was never seen to vary.
//
// The interval is exact for normal differences and good for others from about
// 20 on; with very many ties it is too wide rather than too narrow.
//
// Source: Student 1908, "The probable error of a mean"; for evaluations Miller
// 2024, "Adding Error Bars to Evals", arXiv 2411.00640, section 4.2.
func PairedMean(differences []float64) (e Estimate, ok bool) {
	var m Moments
	for _, d := range differences {
		if !m.Add(d) {
			return Estimate{}, false
		}
	}
	sd, ok := m.SD()
	if !ok {
		return Estimate{}, false
	}
	mean, _ := m.Mean()
	return newEstimate(mean, sd/math.Sqrt(float64(m.N())), float64(m.N()-1), m.largest())
}

// ClusteredMean estimates the same mean when differences of one cluster
// resemble each other, because the items share a document, say:
//
//	SE² = Σ_g (Σ_{i in g} (d_i − mean))² / (1 − n_g/n) / n²
//	DF  = n² / (Σ_g n_g² + (Σ_g a_g)² − Σ_g a_g²),  a_g = n_g² / (n − n_g)
//
// n_g is the size of cluster g. With G clusters of one size these are the usual
// G/(G−1) and G−1; where the sizes differ, large clusters weigh more, and DF is
// less: one of 60 items beside nine of 2 leaves 1.6. cluster holds a number for
// each difference; equal numbers are one cluster. With every difference in a
// cluster of its own it is PairedMean. Undefined for fewer than two clusters,
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
func ClusteredMean(differences []float64, cluster []int) (e Estimate, ok bool) {
	if len(differences) != len(cluster) {
		return Estimate{}, false
	}
	var all Moments
	for _, d := range differences {
		if !all.Add(d) {
			return Estimate{}, false
		}
	}
	mean, ok := all.Mean()
	if !ok {
		return Estimate{}, false
	}
	groups := map[int]*residuals{}
	for i, d := range differences {
		if groups[cluster[i]] == nil {
			groups[cluster[i]] = &residuals{}
		}
		if !groups[cluster[i]].add(d - mean) {
			return Estimate{}, false
		}
	}
	if len(groups) < 2 {
		return Estimate{}, false
	}
	n := float64(len(differences))
	var squares, sizes, shares, shares2 Sum // exact, so that no order counts
	for _, g := range groups {
		// A square left out would narrow the interval.
		if !squares.Add(g.sum.Value() * g.sum.Value() / (1 - g.n/n)) {
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

// residuals are those of one cluster.
type residuals struct {
	n   float64
	sum Sum
}

func (r *residuals) add(x float64) bool {
	r.n++
	return r.sum.Add(x)
}

// newEstimate is undefined where nothing varies but what was rounded, beside the
// largest of the values.
func newEstimate(mean, se, df, largest float64) (e Estimate, ok bool) {
	if !(se > 1e-9*largest && df > 0) {
		return Estimate{}, false
	}
	half := studentQuantile(0.975, df) * se
	return Estimate{Mean: mean, SE: se, DF: df, Lo: mean - half, Hi: mean + half}, true
}

// ClusterSums returns Σ d_i of every cluster, in the order in which the
// clusters first appear: what SignFlip is given when whole clusters are
// flipped. The lists have the same length; the caller sees to that.
func ClusterSums(differences []float64, cluster []int) []float64 {
	at := map[int]int{}
	var sums []Sum
	for i, d := range differences {
		j, known := at[cluster[i]]
		if !known {
			j = len(sums)
			at[cluster[i]] = j
			sums = append(sums, Sum{})
		}
		sums[j].Add(d)
	}
	values := make([]float64, len(sums))
	for i, s := range sums {
		values[i] = s.Value()
	}
	return values
}
