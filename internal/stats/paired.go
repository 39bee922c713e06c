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
// degrees of freedom. Undefined for fewer than two differences, and where one
// is not finite.
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
	return newEstimate(mean, sd/math.Sqrt(float64(m.N())), float64(m.N()-1)), true
}

// ClusteredMean estimates the same mean when differences of one cluster
// resemble each other, because the items share a document, say:
//
//	SE² = G/(G−1) · Σ_g (Σ_{i in g} (d_i − mean))² / n²
//
// with G−1 degrees of freedom, G the number of clusters. cluster holds a number
// for each difference; equal numbers are one cluster. With every difference in
// a cluster of its own it is PairedMean. Undefined for fewer than two clusters,
// for lists of different length, and where a difference is not finite or so
// large that a square of a cluster's sum passes Limit.
//
// Below about 10 clusters the interval is too narrow, the more so the more
// their sizes differ; callers refuse to claim anything below 5.
//
// Source: Liang and Zeger 1986; the correction is CR1 of Bell and McCaffrey
// 2002, which for a mean alone is G/(G−1); Miller 2024, section 2.2.
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
	sums := map[int]*Sum{}
	for i, d := range differences {
		if sums[cluster[i]] == nil {
			sums[cluster[i]] = &Sum{}
		}
		if !sums[cluster[i]].Add(d - mean) {
			return Estimate{}, false
		}
	}
	if len(sums) < 2 {
		return Estimate{}, false
	}
	var squares Sum
	for _, s := range sums {
		if !squares.Add(s.Value() * s.Value()) { // left out, it would narrow the interval
			return Estimate{}, false
		}
	}
	g, n := float64(len(sums)), float64(len(differences))
	return newEstimate(mean, math.Sqrt(g/(g-1)*squares.Value())/n, g-1), true
}

func newEstimate(mean, se, df float64) Estimate {
	half := studentQuantile(0.975, df) * se
	return Estimate{Mean: mean, SE: se, DF: df, Lo: mean - half, Hi: mean + half}
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
