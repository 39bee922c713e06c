package stats

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestQuantile(t *testing.T) {
	sorted := slices.Sorted(slices.Values(python25))
	tests := map[string]struct {
		values []float64
		p      float64
		want   float64
		ok     bool
	}{
		"nothing":           {nil, 0.5, 0, false},
		"p too small":       {[]float64{1}, -0.1, 0, false},
		"p too large":       {[]float64{1}, 1.1, 0, false},
		"p is not a number": {[]float64{1}, math.NaN(), 0, false},
		"one value":         {[]float64{3}, 0.95, 3, true},
		"middle of two":     {[]float64{1, 2}, 0.5, 1.5, true},             // h = 0.5
		"quarter of four":   {[]float64{1, 2, 3, 4}, 0.25, 1.75, true},     // h = 0.75
		"p95 of four":       {[]float64{1, 2, 3, 4}, 0.95, 3.85, true},     // h = 2.85
		"least":             {[]float64{1, 2, 3}, 0, 1, true},              // h = 0
		"largest":           {[]float64{1, 2, 3}, 1, 3, true},              // h = 2
		"ties":              {[]float64{5, 5, 5, 9}, 0.5, 5, true},         // h = 1.5
		"Python inclusive":  {sorted, 0.5, 0.1337, true},                   // statistics.quantiles(x, n=100, method='inclusive')
		"Python inclusive5": {sorted, 0.95, 0.86596, true},                 // the 95th of the same
		"Python inclusive1": {sorted, 0.05, 0.00244, true},                 // the 5th
		"Python inclusive2": {sorted, 0.25, 0.0153, true},                  // the 25th
		"far apart":         {[]float64{-1e150, 1e150}, 0.75, 5e149, true}, // h = 0.75
	}
	for name, tt := range tests {
		got, ok := Quantile(tt.values, tt.p)
		if ok != tt.ok || math.Abs(got-tt.want) > 1e-12*max(1, math.Abs(tt.want)) {
			t.Errorf("%s: %v, %v; want %v, %v", name, got, ok, tt.want, tt.ok)
		}
	}
}

func TestQuantile_growsWithP(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.Float64Range(-1e9, 1e9), 1, 30).Draw(t, "values")
		slices.Sort(values)
		p := rapid.Float64Range(0, 1).Draw(t, "p")
		q := rapid.Float64Range(p, 1).Draw(t, "q")
		low, _ := Quantile(values, p)
		high, _ := Quantile(values, q)
		if low > high+1e-6 || low < values[0] || high > values[len(values)-1]+1e-6 {
			t.Fatalf("quantiles %v and %v of %v", low, high, values)
		}
	})
}
