package stats

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestStudentQuantile uses critical values of the t distribution as in tables (NIST/SEMATECH
// e-Handbook 1.3.6.7.2), and closed forms for one and two degrees of freedom: tan(π·0.475) and
// 2·0.475·√(2/(1−(2·0.475)²)) = 0.95·√(2/0.0975).
func TestStudentQuantile(t *testing.T) {
	tests := []struct{ df, want, within float64 }{
		{1, math.Tan(math.Pi * 0.475), 1e-9},
		{2, 0.95 * math.Sqrt(2/0.0975), 1e-9},
		{3, 3.182, 5e-4},
		{5, 2.571, 5e-4},
		{10, 2.228, 5e-4},
		{30, 2.042, 5e-4},
		{60, 2.000, 5e-4},
		{100, 1.984, 5e-4},
		{1e6, 1.959966, 1e-6}, // normal quantile 1.959964 + (z³+z)/(4·10⁶) = 2.4e-6
	}
	for _, tt := range tests {
		if got := studentQuantile(0.975, tt.df); math.Abs(got-tt.want) > tt.within {
			t.Errorf("t(0.975, %v) = %.9f, want %.9f", tt.df, got, tt.want)
		}
	}
}

// TestEstimate_interval uses NIST/SEMATECH e-Handbook 1.3.5.2, data set ZARR13: 195 values,
// mean 9.261460, standard deviation 0.02278881, interval 9.258242 to 9.264679.
func TestEstimate_interval(t *testing.T) {
	e, ok := newEstimate(9.261460, 0.02278881/math.Sqrt(195), 194, 9.3)
	if !ok || math.Abs(e.CI95[0]-9.258242) > 1e-6 || math.Abs(e.CI95[1]-9.264679) > 1e-6 {
		t.Errorf("interval %.6f to %.6f, want 9.258242 to 9.264679", e.CI95[0], e.CI95[1])
	}
	// 0 and 1: mean 1/2, sd √½, half = tan(π·0.475)·√½/√2 = 12.7062/2
	e, ok = moments(0, 1).Estimate()
	lo, hi, _ := ends(e.CI95)
	half := math.Tan(math.Pi*0.475) / 2
	if !ok || math.Abs(lo-(0.5-half)) > 1e-9 || math.Abs(hi-(0.5+half)) > 1e-9 {
		t.Errorf("interval %v to %v, want 0.5 ± %v", lo, hi, half)
	}
	for name, m := range map[string]Moments{"no values": {}, "one value": moments(1), "equal values": moments(3, 3, 3), "equal but for rounding": moments(.6-.5, .8-.7, .4-.3)} {
		if e, ok := m.Estimate(); ok || e.CI95 != nil {
			t.Errorf("%s: %+v", name, e)
		}
	}
}

func TestScoreInterval95(t *testing.T) {
	undefined := math.NaN()
	for name, tt := range map[string]struct {
		values []float64
		lo, hi float64 // NaN if there is no interval
	}{
		// lower end: 0.025^(1/2); of 10: 0.025^(1/10)
		"two of two":   {[]float64{1, 1}, 0.158114, 1},
		"ten of ten":   {[]float64{1, 1, 1, 1, 1, 1, 1, 1, 1, 1}, 0.691503, 1},
		"none of four": {[]float64{0, 0, 0, 0}, 0, 0.602365}, // 1 − 0.025^(1/4)
		// 1 of 2: 1 − √0.975 and √0.975
		"one of two": {[]float64{0, 1}, 0.012579, 0.987421},
		// With a 0: m 3/8, variance (3/16 − 9/64)/5 = 3/320, 15/64·320/3 − 1 = 24: the
		// beta distribution of 9 and 15, as that of 9 of 23. With a 1 it is mirrored.
		"all equal": {[]float64{0.5, 0.5, 0.5}, 0.197076, 0.802924},
		// mean 0.75, sd √2·0.75, half tan(π·0.475)·0.75 = 12.706205·0.75
		"a value beyond": {[]float64{0, 1.5}, 0.75 - 9.529653, 0.75 + 9.529653},
		"a value below":  {[]float64{-0.1, 1}, 0.45 - 12.706205*0.55, 0.45 + 12.706205*0.55},
		"equal beyond":   {[]float64{5, 5, 5}, undefined, undefined},
		"one value":      {[]float64{1}, undefined, undefined},
		"no value":       {nil, undefined, undefined},
		"nearly nothing": {[]float64{1e-320, 0, 0, 0}, 0, 0.602365},
	} {
		lo, hi, ok := ends(moments(tt.values...).ScoreInterval95())
		if ok == math.IsNaN(tt.lo) || ok && (math.Abs(lo-tt.lo) > 1e-6 || math.Abs(hi-tt.hi) > 1e-6) {
			t.Errorf("%s: %v to %v, %v, want %v to %v", name, lo, hi, ok, tt.lo, tt.hi)
		}
	}
}

// TestScoreInterval95_binary checks that the interval of values that are 0 or 1 is the binomial
// one.
func TestScoreInterval95_binary(t *testing.T) {
	for _, n := range []int{2, 3, 10, 38, 1000, 100_000} {
		for _, k := range []int{0, 1, 2, n / 3, n - 1, n} {
			m := moments(append(make([]float64, n-k), slices.Repeat([]float64{1}, k)...)...)
			lo, hi, _ := ends(m.ScoreInterval95())
			if wantLo, wantHi, _ := BinomialInterval(k, n, 0.95); math.Abs(lo-wantLo) > 1e-9 || math.Abs(hi-wantHi) > 1e-9 {
				t.Errorf("%d of %d: %v to %v, want %v to %v", k, n, lo, hi, wantLo, wantHi)
			}
		}
	}
}

// TestScoreInterval95_bounds checks that the interval is within [0,1], has a width, contains
// the mean, and is mirrored with the values.
func TestScoreInterval95_bounds(t *testing.T) {
	value := rapid.OneOf(rapid.Float64Range(0, 1), rapid.SampledFrom([]float64{0, 1, 1, 1, 0.5, 1e-9, 1 - 1e-9}))
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(value, 2, 40).Draw(t, "values")
		var mirrored []float64
		for _, v := range values {
			mirrored = append(mirrored, 1-v)
		}
		m := moments(values...)
		lo, hi, ok := ends(m.ScoreInterval95())
		mean, _ := m.Mean()
		if !ok || !(0 <= lo && lo <= mean && mean <= hi && hi <= 1 && hi-lo > 0.01) {
			t.Fatalf("%v to %v, mean %v", lo, hi, mean)
		}
		if back, forth, _ := ends(moments(mirrored...).ScoreInterval95()); math.Abs(1-forth-lo) > 1e-7 || math.Abs(1-back-hi) > 1e-7 {
			t.Fatalf("%v to %v, turned %v to %v", lo, hi, back, forth)
		}
	})
}
