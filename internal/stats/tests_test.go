package stats

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestHolm(t *testing.T) {
	tests := map[string]struct{ p, want []float64 }{
		"nothing": {nil, []float64{}},
		"one":     {[]float64{0.2}, []float64{0.2}},
		// The example of most textbooks: sorted 0.005·4, 0.01·3, 0.03·2, 0.04·1
		// raised to the 0.06 before it.
		"four": {[]float64{0.01, 0.04, 0.03, 0.005}, []float64{0.03, 0.06, 0.06, 0.02}},
		// 0.01·5, 0.02·4, 0.03·3, 0.04·2 and 0.05·1 raised to 0.09.
		"five":  {[]float64{0.01, 0.02, 0.03, 0.04, 0.05}, []float64{0.05, 0.08, 0.09, 0.09, 0.09}},
		"large": {[]float64{0.9, 0.6}, []float64{1, 1}},
		// 0.02·3, 0.02·2 raised to 0.06, 0.5·1
		"equal": {[]float64{0.02, 0.5, 0.02}, []float64{0.06, 0.5, 0.06}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got := Holm(tt.p)
			if !slices.EqualFunc(got, tt.want, func(a, b float64) bool { return near(a, b, 1e-12) }) {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

func TestMcNemar(t *testing.T) {
	tests := map[string]struct {
		gained, lost int
		want         float64
	}{
		"nothing changed": {0, 0, 1},
		"one":             {1, 0, 1},          // 2·½
		"five to none":    {5, 0, 2. / 32},    // 2/2^5
		"nine to one":     {9, 1, 22. / 1024}, // 2·(1+10)/2^10
		"equal":           {4, 4, 1},          // more than 1 is 1
		// With exact fractions: 2·Σ C(n,k)/2^n in Python's fractions module.
		"59 to 121":  {59, 121, 4.434449263755176e-06},
		"86 to 150":  {86, 150, 3.715936139571442e-05},
		"228 to 328": {228, 328, 2.5636681547370315e-05},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, ok := McNemar(tt.gained, tt.lost)
			swapped, _ := McNemar(tt.lost, tt.gained)
			if !ok || math.Abs(got/tt.want-1) > 1e-9 || swapped != got {
				t.Errorf("got %v (%v swapped), want %v", got, swapped, tt.want)
			}
		})
	}
	for n := range 200 { // half of the distribution of an odd n, without a last digit from rounding
		if p, _ := McNemar(n, n+1); p != 1 {
			t.Errorf("%d and %d: %v, want 1", n, n+1, p)
		}
	}
	if _, ok := McNemar(-1, 3); ok {
		t.Error("a negative count: defined")
	}
}

// TestYesNoInterval95 checks that with changes in one direction only, the end on that side is
// that of a binomial share, and that without changes the interval is ± 1 − 0.025^(1/n).
func TestYesNoInterval95(t *testing.T) {
	for _, n := range []int{6, 10, 38, 60} {
		none := 1 - math.Pow(0.025, 1/float64(n))
		if lo, hi, ok := YesNoInterval95(0, 0, n); !ok || !near(hi, none, 1e-9) || lo != -hi {
			t.Errorf("no change in %d: %v to %v", n, lo, hi)
		}
		_, share, _ := BinomialInterval(3, n, 0.95)
		if _, hi, _ := YesNoInterval95(3, 0, n); !near(hi, share, 1e-9) {
			t.Errorf("3 of %d gained: up to %v, want %v", n, hi, share)
		}
		if lo, hi, _ := YesNoInterval95(n, 0, n); hi != 1 || !near(lo, 1-2*none, 1e-9) {
			t.Errorf("all of %d gained: %v to %v", n, lo, hi)
		}
	}
	// Equal counts, 5 of 20 each: symmetric about 0, with the correlation −1/3 of
	// shares of 1/4. Clopper-Pearson 0.086571 to 0.491045: x = 0.241045, y =
	// 0.163429, √(x² + y² + 2xy/3) = 0.333278.
	if lo, hi, _ := YesNoInterval95(5, 5, 20); !near(hi, 0.333278, 1e-6) || lo != -hi {
		t.Errorf("5 and 5 of 20: %v to %v", lo, hi)
	}
	for _, bad := range [][3]int{{0, 0, 0}, {-1, 0, 3}, {0, -1, 3}, {2, 2, 3}} {
		if _, _, ok := YesNoInterval95(bad[0], bad[1], bad[2]); ok {
			t.Errorf("%v: defined", bad)
		}
	}
}

// TestUnchangedBound95 checks the bound for clusters of equal and of unequal sizes.
func TestUnchangedBound95(t *testing.T) {
	tests := map[string]struct {
		sizes []int
		want  float64
	}{
		"one":      {[]int{7}, 0.975},
		"equal":    {slices.Repeat([]int{5}, 40), 1 - math.Pow(0.025, 1.0/40)},
		"unequal":  {[]int{1, 3}, 1 - 2*math.Sqrt(0.025*0.75*0.25)}, // λ = 0.068, below both shares
		"dominant": {[]int{1, 100}, 0.975 * 100 / 101},              // λ = 0.025·100/101, above the share of the other
	}
	for name, tt := range tests {
		if got, ok := UnchangedBound95(tt.sizes); !ok || !near(got, tt.want, 1e-12) {
			t.Errorf("%s: %v, want %v", name, got, tt.want)
		}
	}
	if _, ok := UnchangedBound95(nil); ok {
		t.Error("no clusters: defined")
	}
}

// TestUnchangedBound95_largest checks that no rates of the clusters, with which nothing changes with
// a probability of 0.025, exceed the bound.
func TestUnchangedBound95_largest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sizes := rapid.SliceOfN(rapid.IntRange(1, 1000), 1, 30).Draw(t, "sizes")
		parts := rapid.SliceOfN(rapid.Float64Range(1e-6, 1), len(sizes), len(sizes)).Draw(t, "parts")
		total, all, sum := 0, 0.0, 0.0
		for i := range sizes {
			total, all = total+sizes[i], all+parts[i]
		}
		for i := range sizes { // Σ −ln(1−q) = −ln 0.025
			sum += float64(sizes[i]) / float64(total) * (1 - math.Pow(0.025, parts[i]/all))
		}
		if bound, ok := UnchangedBound95(sizes); !ok || sum > bound+1e-9 || bound > 1 {
			t.Errorf("%v exceeds %v", sum, bound)
		}
	})
}

func TestPower(t *testing.T) {
	// sd 0.24 over 60 pairs, quantiles of t with 59 degrees of freedom 2.000995 and
	// 0.847768: 2.848763·0.24/√60 = 0.088265. With 5, 2.570582 + 0.919544 = 3.490126.
	if mde, ok := DetectableDifference(Estimate{SE: 0.24 / math.Sqrt(60), DF: 59}); !ok || !near(mde, 0.088265, 1e-6) {
		t.Errorf("detectable %v, %v", mde, ok)
	}
	if mde, _ := DetectableDifference(Estimate{SE: 1, DF: 5}); !near(mde, 3.490126, 1e-5) {
		t.Errorf("detectable of six %v", mde)
	}
	// The normal quantiles 1.959964 + 0.841621 for many items.
	if mde, _ := DetectableDifference(Estimate{SE: 1, DF: 1e7}); !near(mde, 2.801585, 1e-5) {
		t.Errorf("detectable of many %v", mde)
	}
	// 3.145561 standard errors with 9 degrees of freedom (2.262157 + 0.883404), half
	// a standard deviation: (3.145561/0.5)² = 39.58.
	if n, ok := NeededPairs(10, Estimate{Mean: -0.5, SE: 1 / math.Sqrt(10), DF: 9}); !ok || n != 40 {
		t.Errorf("needed %v, %v; want 40", n, ok)
	}
	if n, ok := NeededPairs(10, Estimate{Mean: 1, SE: 1e-9, DF: 9}); !ok || n != 1 {
		t.Errorf("needed %v, %v; want 1", n, ok)
	}
	for name, tt := range map[string]struct {
		n int
		e Estimate
	}{
		"no difference": {10, Estimate{SE: 1, DF: 9}}, "nothing varies": {10, Estimate{Mean: 1, DF: 9}}, "no pairs": {0, Estimate{1, 1, 1, nil}},
		"NaN": {10, Estimate{Mean: math.NaN(), SE: 1, DF: 9}}, "infinite": {10, Estimate{Mean: 1, SE: math.Inf(1), DF: 9}}, "infinite mean": {10, Estimate{Mean: math.Inf(1), SE: 1, DF: 9}},
		"no degrees": {10, Estimate{Mean: 1, SE: 1}}, "infinite degrees": {10, Estimate{Mean: 1, SE: 1, DF: math.Inf(1)}}, "absurd": {1000, Estimate{Mean: 1e-9, SE: 1, DF: 999}},
	} {
		if n, ok := NeededPairs(tt.n, tt.e); ok {
			t.Errorf("%s: %d", name, n)
		}
	}
}

// TestMargins computes the tables of docs/comparing.md: the number of items that a margin
// needs.
func TestMargins(t *testing.T) {
	// For a yes/no score, by the number of items that changed for the worse.
	for margin, want := range map[float64][3]int{0.01: {368, 555, 720}, 0.02: {183, 277, 359}, 0.05: {72, 110, 142}, 0.1: {36, 54, 70}, 0.15: {23, 35, 46}} {
		for k, n := range want {
			if got, ok := TrialsNeeded(k, margin, 0.975); !ok || got != n {
				t.Errorf("%d items changed, margin %v: %d items, want %d", k, margin, got, n)
			}
			for n := range want[k] + 1 {
				if _, hi, ok := YesNoInterval95(k, 0, n); ok && (hi <= margin) != (n == want[k]) {
					t.Errorf("%d of %d items changed: up to %v", k, n, hi)
				}
			}
		}
	}
	// For a score whose differences have that standard deviation and the mean 0: the number of
	// items from which on the rule passes with a probability of 80 %.
	for sd, want := range map[float64][4]int{0.1: {199, 34, 10, 6}, 0.2: {787, 128, 34, 16}, 0.25: {1229, 199, 52, 24}, 0.3: {1768, 285, 73, 34}, 0.4: {3142, 505, 128, 58}} {
		for i, margin := range []float64{0.02, 0.05, 0.1, 0.15} {
			rate := func(n int) float64 { return passRate(n, margin*math.Sqrt(float64(n))/sd) }
			if n := want[i]; rate(n) < 0.8 || rate(n-1) >= 0.8 {
				t.Errorf("sd %v, margin %v: %d items pass in %v, %d in %v", sd, margin, n-1, rate(n-1), n, rate(n))
			}
		}
	}
}

// passRate returns the probability that a mean of n values that is away standard errors over a
// bound is shown to be over it: P(T > t(0.975, n−1)) of the noncentral t distribution, as the
// mean of Φ(away − t·√(V/df)) over V, a χ² with df degrees of freedom.
func passRate(n int, away float64) float64 {
	df := float64(n - 1)
	critical := studentQuantile(0.975, df)
	lgamma, _ := math.Lgamma(df / 2)
	const steps = 400
	sum := 0.0
	low, high := math.Max(0, math.Sqrt(df)-7), math.Sqrt(df)+7 // of √V
	for i := range steps {
		root := low + (high-low)*(float64(i)+0.5)/steps
		density := 2 * math.Exp((df-1)*math.Log(root)-root*root/2-df/2*math.Ln2-lgamma)
		sum += density * math.Erfc((critical*root/math.Sqrt(df)-away)/math.Sqrt2) / 2
	}
	return sum * (high - low) / steps
}

func TestPooledDifference(t *testing.T) {
	// 3/6 − 2/8 = 1/4; two items are too few for an interval.
	p, ok := PooledDifference([]PairedRatio{{0, 4, 2, 4}, {2, 4, 1, 2}}, 1)
	if !ok || p != (Pooled{Base: 0.25, Candidate: 0.5, Difference: 0.25}) {
		t.Errorf("two items: %+v, %v", p, ok)
	}
	for name, ratio := range map[string]PairedRatio{"base": {0, 0, 1, 2}, "candidate": {1, 2, 0, 0}} {
		if _, ok := PooledDifference([]PairedRatio{ratio}, 1); ok {
			t.Errorf("a %s without denominator: defined", name)
		}
	}
	// One item has everything: a third of the resamples lack it, (1 − 1/60)^60 = 0.365, and
	// have no difference.
	items := append(make([]PairedRatio, 59), PairedRatio{0, 1, 1, 1})
	if p, ok := PooledDifference(items, 1); !ok || p.CI95 == nil || *p.CI95 != [2]float64{0, 1} {
		t.Errorf("all in one item: %+v, %v", p, ok)
	}
	// The same difference everywhere: there is no variation.
	same := slices.Repeat([]PairedRatio{{1, 4, 2, 4}}, LeastResampled)
	if p, ok := PooledDifference(same, 1); !ok || p.Difference != 0.25 || p.CI95 != nil {
		t.Errorf("equal items: %+v, %v", p, ok)
	}
	// With denominators of 1 it is the mean of differences, here −1, 0 and 1 in
	// turn over 300 items. The bootstrap's standard error is the population's,
	// √(2/3)/√300 = 0.04714, and the ends lie 1.96 of those from 0: 0.0924.
	var means []PairedRatio
	for i := range 300 {
		means = append(means, PairedRatio{int64(max(0, 1-i%3)), 1, int64(max(0, i%3-1)), 1})
	}
	// One end varies by 0.003 from seed to seed, the mean of 40 by 0.0005.
	lo, hi := 0.0, 0.0
	for seed := range 40 {
		p, ok := PooledDifference(means, uint64(seed))
		if !ok || p.Difference != 0 || p.CI95 == nil {
			t.Fatalf("means: %+v, %v", p, ok)
		}
		lo, hi = lo+p.CI95[0]/40, hi+p.CI95[1]/40
	}
	if !near(lo, -0.0924, 0.002) || !near(hi, 0.0924, 0.002) {
		t.Errorf("means: %v to %v on average", lo, hi)
	}
}

func TestPooledDifference_symmetric(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := rapid.Custom(func(t *rapid.T) PairedRatio {
			n := func(name string, limit int64) int64 { return rapid.Int64Range(0, limit).Draw(t, name) }
			baseDen, candDen := n("base den", 9), n("cand den", 9)
			return PairedRatio{n("base num", baseDen), baseDen, n("cand num", candDen), candDen}
		})
		items := rapid.SliceOfN(draw, 60, 62).Draw(t, "items")
		swapped := make([]PairedRatio, len(items))
		for i, r := range items {
			swapped[i] = PairedRatio{r.CandNum, r.CandDen, r.BaseNum, r.BaseDen}
		}
		p, ok := PooledDifference(items, 4)
		q, ok2 := PooledDifference(swapped, 4)
		if ok != ok2 || p.Base != q.Candidate || p.Difference != -q.Difference || (p.CI95 == nil) != (q.CI95 == nil) ||
			p.CI95 != nil && (p.CI95[0] != -q.CI95[1] || p.CI95[1] != -q.CI95[0]) {
			t.Fatalf("%+v, swapped %+v", p, q)
		}
	})
}

func BenchmarkPooledDifference(b *testing.B) {
	items := slices.Repeat([]PairedRatio{{1, 4, 2, 4}, {3, 4, 2, 4}}, 500)
	for b.Loop() {
		PooledDifference(items, 1)
	}
}
