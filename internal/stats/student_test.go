package stats

import (
	"math"
	"testing"
)

// Critical values of the t distribution as tables print them (NIST/SEMATECH
// e-Handbook 1.3.6.7.2), and closed forms for one and two degrees of freedom:
// tan(π·0.475) and 2·0.475·√(2/(1−(2·0.475)²)) = 0.95·√(2/0.0975).
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

func TestHalfWidth95(t *testing.T) {
	// NIST/SEMATECH e-Handbook 1.3.5.2, data set ZARR13: 195 values, mean
	// 9.261460, standard deviation 0.02278881, interval 9.258242 to 9.264679.
	half, ok := halfWidth95(195, 0.02278881)
	if !ok || math.Abs(9.261460-half-9.258242) > 1e-6 || math.Abs(9.261460+half-9.264679) > 1e-6 {
		t.Errorf("interval %.6f to %.6f, want 9.258242 to 9.264679", 9.261460-half, 9.261460+half)
	}
	for name, tt := range map[string]struct {
		n  int
		sd float64
	}{"no values": {0, 1}, "one value": {1, 1}, "negative": {5, -1}, "NaN": {5, math.NaN()}, "infinite": {5, math.Inf(1)}} {
		if _, ok := halfWidth95(tt.n, tt.sd); ok {
			t.Errorf("%s: defined", name)
		}
	}
	if half, ok := halfWidth95(3, 0); half != 0 || !ok {
		t.Errorf("equal values: %v, %v, want 0, true", half, ok)
	}
}

func TestInterval95(t *testing.T) {
	// 0 and 1: mean 1/2, sd √½, half = tan(π·0.475)·√½/√2 = 12.7062/2
	lo, hi, ok := moments(0, 1).Interval95()
	half := math.Tan(math.Pi*0.475) / 2
	if !ok || math.Abs(lo-(0.5-half)) > 1e-9 || math.Abs(hi-(0.5+half)) > 1e-9 {
		t.Errorf("interval %v to %v, want 0.5 ± %v", lo, hi, half)
	}
}

func TestScoreInterval95(t *testing.T) {
	none := math.NaN()
	for name, tt := range map[string]struct {
		values []float64
		lo, hi float64 // none: there is no interval
	}{
		// mean 29/30, sd √(1/300), half 4.302653·sd/√3 = 0.143422
		"cut at the top": {[]float64{1, 1, 0.9}, 29.0/30 - 0.143422, 1},
		// mean 1/30, likewise
		"cut at the bottom": {[]float64{0, 0, 0.1}, 0, 1.0/30 + 0.143422},
		// mean 0.75, sd √2·0.75, half tan(π·0.475)·0.75 = 12.706205·0.75
		"a value beyond": {[]float64{0, 1.5}, 0.75 - 9.529653, 0.75 + 9.529653},
		"a value below":  {[]float64{-0.1, 1}, 0.45 - 12.706205*0.55, 0.45 + 12.706205*0.55},
		// mean 38/75, sd √(1/7500), half 4.302653·sd/√3 = 0.028684
		"nothing to be cut": {[]float64{0.5, 0.5, 0.52}, 38.0/75 - 0.028684, 38.0/75 + 0.028684},
		// lower end: 0.025^(1/2); of 10: 0.025^(1/10)
		"two of two":   {[]float64{1, 1}, 0.158114, 1},
		"ten of ten":   {[]float64{1, 1, 1, 1, 1, 1, 1, 1, 1, 1}, 0.691503, 1},
		"none of four": {[]float64{0, 0, 0, 0}, 0, 0.602365}, // 1 − 0.025^(1/4)
		// 1 of 2: 1 − √0.975 and √0.975
		"one of two":     {[]float64{0, 1}, 0.012579, 0.987421},
		"all equal":      {[]float64{0.5, 0.5, 0.5}, none, none},
		"one value":      {[]float64{1}, none, none},
		"nearly 0 and 1": {[]float64{1e-9, 1}, 0, 1},
	} {
		lo, hi, ok := moments(tt.values...).ScoreInterval95()
		if ok == math.IsNaN(tt.lo) || ok && (math.Abs(lo-tt.lo) > 1e-6 || math.Abs(hi-tt.hi) > 1e-6) {
			t.Errorf("%s: %v to %v, %v, want %v to %v", name, lo, hi, ok, tt.lo, tt.hi)
		}
	}
}
