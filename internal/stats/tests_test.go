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
	if _, ok := McNemar(-1, 3); ok {
		t.Error("a negative count: defined")
	}
}

func TestPower(t *testing.T) {
	// sd 0.24 over 60 pairs: 2.80·0.24/√60 = 0.086755
	if mde, ok := DetectableDifference(0.24 / math.Sqrt(60)); !ok || !near(mde, 0.086755, 5e-7) {
		t.Errorf("detectable %v, %v", mde, ok)
	}
	// Half a standard deviation: (2.80/0.5)² = 31.36
	if n, ok := NeededPairs(10, 1/math.Sqrt(10), -0.5); !ok || n != 32 {
		t.Errorf("needed %v, %v; want 32", n, ok)
	}
	// Exactly 2.80 standard errors: n itself.
	if n, ok := NeededPairs(100, 0.1, 0.28); !ok || n != 100 {
		t.Errorf("needed %v, %v; want 100", n, ok)
	}
	for name, tt := range map[string]struct {
		n         int
		se, delta float64
	}{
		"no difference": {10, 1, 0}, "nothing varies": {10, 0, 1}, "no pairs": {0, 1, 1},
		"NaN": {10, 1, math.NaN()}, "infinite": {10, math.Inf(1), 1}, "absurd": {1000, 1, 1e-9},
	} {
		if n, ok := NeededPairs(tt.n, tt.se, tt.delta); ok {
			t.Errorf("%s: %d", name, n)
		}
	}
}

func TestPooledDifference(t *testing.T) {
	// 3/6 − 2/8 = 1/4; two items are too few for an interval.
	p, ok := PooledDifference([]PairedRatio{{1, 4, 2, 4}, {1, 4, 1, 2}}, 1)
	if !ok || p != (Pooled{Base: 0.25, Candidate: 0.5, Difference: 0.25}) {
		t.Errorf("two items: %+v, %v", p, ok)
	}
	if _, ok := PooledDifference([]PairedRatio{{0, 0, 1, 2}}, 1); ok {
		t.Error("a base without denominator: defined")
	}
	// The same difference everywhere: nothing varies.
	same := slices.Repeat([]PairedRatio{{1, 4, 2, 4}}, LeastResampled)
	if p, ok := PooledDifference(same, 1); !ok || p.Difference != 0.25 || p.CI95 == nil || *p.CI95 != [2]float64{0.25, 0.25} {
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
