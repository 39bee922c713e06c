package stats

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// sleep has Student's differences of 1908, additional hours of sleep under two drugs; R's
// t.test gives mean 1.58 and the interval 0.7001142 to 2.4598858.
var sleep = []float64{1.2, 2.4, 1.3, 1.3, 0, 1, 1.8, 0.8, 4.6, 1.4}

// maize has Darwin's differences between crossed and self-fertilised plants in eighths of an
// inch, Fisher's example: mean 20.933, t = 2.148 with 14 degrees of freedom, so that SE =
// 20.933/2.148 = 9.746.
var maize = []float64{49, -67, 8, 16, 6, 23, 28, 41, 14, 29, 56, 24, 75, 60, -48}

func near(a, b, within float64) bool { return math.Abs(a-b) <= within }

// ends returns the ends of an interval. ok is false if it is nil.
func ends(ci *[2]float64) (lo, hi float64, ok bool) {
	if ci == nil {
		return 0, 0, false
	}
	return ci[0], ci[1], true
}

func TestEstimate_published(t *testing.T) {
	e, ok := moments(sleep...).Estimate()
	if !ok || !near(e.Mean, 1.58, 1e-12) || !near(e.CI95[0], 0.7001142, 5e-8) || !near(e.CI95[1], 2.4598858, 5e-8) || e.DF != 9 {
		t.Errorf("Student's sleep: %+v, %v", e, ok)
	}
	e, ok = moments(maize...).Estimate()
	if !ok || !near(e.Mean, 314.0/15, 1e-12) || !near(e.Mean/e.SE, 2.148, 5e-4) {
		t.Errorf("Darwin's maize: %+v, %v", e, ok)
	}
}

func TestEstimate_undefined(t *testing.T) {
	for name, d := range map[string][]float64{"none": nil, "one": {1}, "NaN": {1, math.NaN()}, "infinite": {1, math.Inf(1)}} {
		if _, ok := moments(d...).Estimate(); ok {
			t.Errorf("%s: defined", name)
		}
	}
	for name, d := range map[string][]float64{"NaN": {math.NaN(), 1, 2}, "too large to be squared": {1e149, -1e149, 0}} {
		if e, ok := ClusteredMean(d, []int{1, 2, 2}); ok {
			t.Errorf("%s in clusters: %+v", name, e)
		}
	}
	if e, ok := ClusteredMean([]float64{1, 2}, []int{1, 1}); ok {
		t.Errorf("one cluster: %+v", e)
	}
	for name, d := range map[string][]float64{"equal": {0.1, 0.1, 0.1}, "equal but for rounding": {.6 - .5, .8 - .7, .4 - .3}, "none": {0, 0, 0}} {
		if e, ok := moments(d...).Estimate(); ok {
			t.Errorf("%s: %+v, of no width", name, e)
		}
		if e, ok := ClusteredMean(d, []int{1, 2, 2}); ok {
			t.Errorf("%s in clusters: %+v, of no width", name, e)
		}
	}
	if e, ok := ClusteredMean([]float64{1, -1, 1, -1}, []int{1, 1, 2, 2}); ok {
		t.Errorf("what varies within clusters alone: %+v, of no width", e)
	}
}

func TestClusteredMean_byHand(t *testing.T) {
	// Mean 1. Residuals 0, 2 | −1, −1, so the clusters sum to 2 and −2:
	// SE² = (4+4)/(1−2/4)/4² = 1; a = 4/2 twice, n²/(8 + 16 − 8) = 1 degree of
	// freedom, t = 12.7062.
	e, ok := ClusteredMean([]float64{1, 3, 0, 0}, []int{7, 7, 2, 2})
	if !ok || e.Mean != 1 || !near(e.SE, 1, 1e-12) || !near(e.DF, 1, 1e-12) || !near(e.CI95[1], 1+math.Tan(math.Pi*0.475), 1e-9) {
		t.Errorf("two clusters: %+v, %v", e, ok)
	}
	// Unequal sizes: values 1, 1, 4, mean 2, clusters sum to −2 and 2:
	// SE² = (4/(1/3) + 4/(2/3))/9 = 2; a = 4/1, 1/2: 9/(5 + 4.5² − 16.25) = 1.
	e, ok = ClusteredMean([]float64{1, 1, 4}, []int{1, 1, 2})
	if !ok || !near(e.SE, math.Sqrt2, 1e-12) || !near(e.DF, 1, 1e-12) {
		t.Errorf("unequal clusters: %+v, %v", e, ok)
	}
	// Sizes 1, 1, 2: a = 1/3, 1/3, 4/2: 16/(6 + 64/9 − 38/9) = 1.8. Mean 2,
	// residuals −2 | −1 | 1, 2: SE² = (4/.75 + 1/.75 + 9/.5)/16 = 74/48.
	e, ok = ClusteredMean([]float64{0, 1, 3, 4}, []int{1, 2, 3, 3})
	if !ok || !near(e.DF, 1.8, 1e-12) || !near(e.SE*e.SE, 74.0/48, 1e-12) {
		t.Errorf("three clusters: %+v, %v", e, ok)
	}
	for name, cluster := range map[string][]int{"one cluster": {1, 1, 1}, "lists differ": {1, 2}, "none": nil} {
		if _, ok := ClusteredMean([]float64{1, 2, 3}, cluster); ok {
			t.Errorf("%s: defined", name)
		}
	}
	// The squares of the residuals, about 1e-324, underflow or are rounded up.
	tiny := []float64{1.1113793747425387e-162, 1.1113793747425387e-162, -2.2227587494850775e-162}
	if e, ok := ClusteredMean(tiny, []int{1, 2, 3}); ok {
		t.Errorf("squares below what a float holds: defined as %+v", e)
	}
	if e, ok := moments(tiny...).Estimate(); ok {
		t.Errorf("squares below what a float holds, paired: defined as %+v", e)
	}
	if e, ok := ClusteredMean([]float64{1, 2, 4, math.Inf(1)}, []int{1, 2, 3, 3}); ok {
		t.Errorf("infinite: defined as %+v", e)
	}
	// The square of 1e80 is over Limit: an interval without it would have no width.
	for name, large := range map[string]float64{"NaN": math.NaN(), "squares that pass the limit": 1e80, "residuals that do": Limit} {
		if e, ok := ClusteredMean([]float64{large, -large}, []int{1, 2}); ok {
			t.Errorf("%s: defined as %+v", name, e)
		}
	}
}

// TestClusteredMean_closedForms checks that clusters of single items change nothing, and that
// copies of one item count once.
func TestClusteredMean_closedForms(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := rapid.SliceOfN(rapid.Float64Range(-1, 1), 2, 30).Draw(t, "d")
		copies := rapid.IntRange(1, 4).Draw(t, "copies")
		var repeated []float64
		var cluster []int
		for i, v := range d {
			for range copies {
				repeated, cluster = append(repeated, v), append(cluster, i)
			}
		}
		plain, varies := moments(d...).Estimate()
		got, ok := ClusteredMean(repeated, cluster)
		lo, _, _ := ends(got.CI95)
		wantLo, _, _ := ends(plain.CI95)
		if ok != varies || !near(got.SE, plain.SE, 1e-12) || !near(got.DF, plain.DF, 1e-9) || !near(lo, wantLo, 1e-10) {
			t.Fatalf("%+v, want %+v", got, plain)
		}
		sums := ClusterSums(repeated, cluster)
		for i, v := range d {
			if !near(sums[i], v*float64(copies), 1e-12) {
				t.Fatalf("sum %d is %v", i, sums[i])
			}
		}
	})
}

// TestDifferences_symmetric checks that exchanging base and candidate negates the mean and its
// interval, to the last bit, and that neither this nor the order changes the p-value.
func TestDifferences_symmetric(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := rapid.SliceOfN(rapid.Float64Range(-1, 1), 2, 40).Draw(t, "d")
		cluster := rapid.SliceOfN(rapid.IntRange(0, 5), len(d), len(d)).Draw(t, "cluster")
		negated := make([]float64, len(d))
		for i, v := range d {
			negated[i] = -v
		}
		a, ok := ClusteredMean(d, cluster)
		b, ok2 := ClusteredMean(negated, cluster)
		if ok != ok2 || a.Mean != -b.Mean || a.SE != b.SE || ok && *a.CI95 != [2]float64{-b.CI95[1], -b.CI95[0]} {
			t.Fatalf("%+v and %+v", a, b)
		}
		p, _ := SignFlip(d, 200, 3)
		q, _ := SignFlip(negated, 200, 3)
		slices.Sort(d)
		r, _ := SignFlip(d, 200, 3)
		if p != q || p != r {
			t.Fatalf("p %+v, negated %+v, sorted %+v", p, q, r)
		}
	})
}
