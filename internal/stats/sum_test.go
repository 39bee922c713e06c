package stats

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

// TestSum_halfway checks rounding: next to 1 float64 has steps of 2^-52, so that adding 2^-53
// is exactly halfway, and much smaller values decide.
func TestSum_halfway(t *testing.T) {
	step, half, speck := math.Ldexp(1, -52), math.Ldexp(1, -53), math.Ldexp(1, -200)
	for name, test := range map[string]struct {
		values []float64
		want   float64
	}{
		"nothing":           {nil, 0},
		"nothing left":      {[]float64{0.1, 0.2, -0.1, -0.2}, 0},
		"to even, down":     {[]float64{1, half}, 1},
		"to even, up":       {[]float64{1, step, half}, 1 + 2*step},
		"a speck more":      {[]float64{1, half, speck}, 1 + step},
		"a speck less":      {[]float64{1, step, half, -speck}, 1 + step},
		"negative":          {[]float64{-1, -half, -speck}, -1 - step},
		"not quite halfway": {[]float64{1, half / 2, speck}, 1},
		"ten tenths":        {[]float64{.1, .1, .1, .1, .1, .1, .1, .1, .1, .1}, 1},
	} {
		var s Sum
		for _, v := range test.values {
			s.Add(v)
		}
		if got := s.Value(); got != test.want {
			t.Errorf("%s: %.20g, want %.20g", name, got, test.want)
		}
	}
}

// TestSum_nearest compares Value with the exact sum as a fraction. Few bits and similar
// exponents make many sums that are halfway between two float64.
func TestSum_nearest(t *testing.T) {
	value := rapid.OneOf(rapid.Float64Range(-Limit, Limit), rapid.Float64Range(-1, 1), rapid.Custom(func(t *rapid.T) float64 {
		return math.Ldexp(float64(rapid.IntRange(-3, 3).Draw(t, "bits")), rapid.IntRange(-120, 2).Draw(t, "exponent"))
	}))
	rapid.Check(t, func(t *rapid.T) {
		var s Sum
		for _, v := range rapid.SliceOfN(value, 0, 20).Draw(t, "values") {
			s.Add(v)
		}
		if want, _ := s.rat().Float64(); s.Value() != want {
			t.Fatalf("%.20g, the nearest is %.20g of %v", s.Value(), want, s.partials)
		}
	})
}
