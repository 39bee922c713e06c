package stats

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestSignFlip_exact(t *testing.T) {
	tests := map[string]struct {
		d    []float64
		want float64
	}{
		"nothing":     {nil, 1},
		"only zeros":  {[]float64{0, 0, 0}, 1},
		"one":         {[]float64{-3}, 1},           // both signs are as extreme
		"all better":  {[]float64{1, 2, 4}, 2. / 8}, // only +++ and −−−
		"with zeros":  {[]float64{1, 0, 2, 0, 4}, 2. / 8},
		"balanced":    {[]float64{1, -1}, 1},
		"one against": {[]float64{-1, 2, 4}, 4. / 8},      // |Σ| = 5 or 7: ±(−1+2+4), ±(1+2+4)
		"ties":        {[]float64{1, 1, 1, -1}, 10. / 16}, // |Σ| ≥ 2: C(4,0)+C(4,1), twice
		// 0.1+0.2 is not 0.3 in float64, but flipping 0.3 must count as equally extreme.
		"rounding": {[]float64{0.1, 0.2, -0.3}, 1},
		// Fisher 1935: in 863 of 32,768 arrangements Darwin's differences sum
		// to 314 or more, and in as many to −314 or less.
		"Darwin's maize": {maize, 1726. / 32768},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			p, ok := SignFlip(tt.d, 0, 1)
			if !ok || !p.Exact || p.P != tt.want {
				t.Errorf("%+v, %v; want %v", p, ok, tt.want)
			}
		})
	}
}

// TestSignFlip_everyCombination compares with counting all combinations one by one; tenths
// cause many ties.
func TestSignFlip_everyCombination(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tenths := rapid.SliceOfN(rapid.IntRange(-9, 9), 0, 11).Draw(t, "tenths")
		d, sum := make([]float64, len(tenths)), 0
		for i, k := range tenths {
			d[i] = float64(k) / 10
			sum += k
		}
		extreme := 0
		for bits := range 1 << len(tenths) {
			flipped := 0
			for i, k := range tenths {
				if bits>>i&1 == 1 {
					k = -k
				}
				flipped += k
			}
			if max(flipped, -flipped) >= max(sum, -sum) {
				extreme++
			}
		}
		want := float64(extreme) / float64(int(1)<<len(tenths))
		if p, ok := SignFlip(d, 0, 1); !ok || p.P != want {
			t.Fatalf("%+v, want %v", p, want)
		}
	})
}

func TestSignFlip_drawn(t *testing.T) {
	// 25 equal differences: |Σ| = 25 only for two of 2^25 combinations.
	ones := slices.Repeat([]float64{1}, 25)
	p, ok := SignFlip(ones, 999, 1)
	if !ok || p.Exact || p.P != 1./1000 {
		t.Errorf("all better: %+v, %v", p, ok)
	}
	// 15 up and 10 down: P(|Binomial(25,½) − 12.5| ≥ 2.5) = 0.4244 (twice the
	// sum of C(25,k)/2^25 for k ≤ 10 is 0.42436). With 99,999 flips the
	// standard error is 0.0016.
	for i := range 10 {
		ones[i] = -1
	}
	p, ok = SignFlip(ones, 99_999, 1)
	if !ok || !near(p.P, 0.42436, 0.006) {
		t.Errorf("15 against 10: %+v, %v", p, ok)
	}
	if q, _ := SignFlip(ones, 99_999, 1); q != p {
		t.Error("the same seed gives another value")
	}
	if q, _ := SignFlip(ones, 99_999, 2); q == p {
		t.Error("another seed gives the same value")
	}
	// More than 64 differences take more than one block of random signs.
	many := make([]float64, 150)
	for i := range many {
		many[i] = 1 - 2*float64(i%2)
	}
	many[1] = 1 // the sum is 2
	if q, ok := SignFlip(many, 9999, 1); !ok || !near(q.P, 0.935, 0.02) {
		// 1 − C(150,75)/2^150 = 1 − 0.0650
		t.Errorf("two of 150: %+v, %v", q, ok)
	}
}

func TestSignFlip_undefined(t *testing.T) {
	if _, ok := SignFlip([]float64{1, math.NaN()}, 10, 1); ok {
		t.Error("NaN: defined")
	}
	if _, ok := SignFlip(slices.Repeat([]float64{1}, exactFlips+1), 0, 1); ok {
		t.Error("no flips: defined")
	}
}

func BenchmarkSignFlip(b *testing.B) {
	d := make([]float64, 1000)
	for i := range d {
		d[i] = float64(i%7) - 3.1
	}
	for b.Loop() {
		SignFlip(d, 10_000, 1)
	}
}
