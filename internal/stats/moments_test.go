package stats

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func moments(values ...float64) Moments {
	m, _ := MomentsOf(values)
	return m
}

func TestMoments_byHand(t *testing.T) {
	tests := map[string]struct {
		values               []float64
		mean, variance       float64
		meanOK, varianceIsOK bool
	}{
		"nothing":  {nil, 0, 0, false, false},
		"negative": {[]float64{-3, -1}, -2, 2, true, true},
		// x² underflows to 0, and (Σx)² does not
		"squares that are lost": {[]float64{1.5e-162, 1.5e-162}, 1.5e-162, 0, true, true},
		"one value":             {[]float64{0.7}, 0.7, 0, true, false},
		// mean 3/4; deviations ±1/4; 2·(1/16)/1 = 1/8
		"two values": {[]float64{0.5, 1}, 0.75, 0.125, true, true},
		// mean 5; squared deviations 9+1+1+1+0+0+4+16 = 32; 32/7
		"eight values": {[]float64{2, 4, 4, 4, 5, 5, 7, 9}, 5, 32.0 / 7, true, true},
		"all equal":    {[]float64{0.1, 0.1, 0.1}, 0.1, 0, true, true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			m := moments(tt.values...)
			if got, ok := m.Mean(); got != tt.mean || ok != tt.meanOK {
				t.Errorf("Mean = %v, %v; want %v, %v", got, ok, tt.mean, tt.meanOK)
			}
			if got, ok := m.Variance(); got != tt.variance || ok != tt.varianceIsOK {
				t.Errorf("Variance = %v, %v; want %v, %v", got, ok, tt.variance, tt.varianceIsOK)
			}
			if got := m.MeanOrNil(); (got != nil) != tt.meanOK || got != nil && *got != tt.mean {
				t.Errorf("MeanOrNil = %v, want %v, %v", got, tt.mean, tt.meanOK)
			}
			least, top, ok := m.Range()
			if n := len(tt.values); ok != (n > 0) || n > 0 && (least != slices.Min(tt.values) || top != slices.Max(tt.values)) {
				t.Errorf("Range = %v to %v, %v", least, top, ok)
			}
			if all, ok := MomentsOf(append([]float64{math.NaN()}, tt.values...)); ok || all.N() != m.N() {
				t.Errorf("with NaN: %d values, %v", all.N(), ok)
			}
			if _, ok := m.Estimate(); ok != (tt.variance > 0) {
				t.Errorf("Estimate ok = %v of the variance %v", ok, tt.variance)
			}
		})
	}
}

// TestMoments_NIST uses the NumAcc data sets of NIST's Statistical Reference Datasets
// (univariate), whose certified means and standard deviations are exact. The values are read as
// float64, so the standard deviation of NumAcc4 is that of the rounded values, which differs
// from the certified 0.1 from the ninth digit on.
func TestMoments_NIST(t *testing.T) {
	alternating := func(first, low, high float64) []float64 {
		values := []float64{first}
		for range 500 {
			values = append(values, low, high)
		}
		return values
	}
	tests := map[string]struct {
		values             []float64
		mean, sd, sdWithin float64
	}{
		"NumAcc1": {[]float64{10000001, 10000003, 10000002}, 10000002, 1, 0},
		"NumAcc2": {alternating(1.2, 1.1, 1.3), 1.2, 0.1, 1e-15},
		"NumAcc3": {alternating(1000000.2, 1000000.1, 1000000.3), 1000000.2, 0.1, 1e-9},
		"NumAcc4": {alternating(10000000.2, 10000000.1, 10000000.3), 10000000.2, 0.1, 1e-8},
	}
	for name, tt := range tests {
		m := moments(tt.values...)
		if got, _ := m.Mean(); got != tt.mean {
			t.Errorf("%s: mean = %.17g, want %.17g", name, got, tt.mean)
		}
		if got, _ := m.SD(); math.Abs(got-tt.sd) > tt.sdWithin {
			t.Errorf("%s: sd = %.17g, want %.17g ± %g", name, got, tt.sd, tt.sdWithin)
		}
	}
}

// python25 is from Python 3.11 with exact rational arithmetic: random.seed(7);
// x=[round(random.random()**2,4) for _ in range(25)]; statistics.mean(x),
// statistics.variance(x).
var python25 = []float64{0.1049, 0.0228, 0.4237, 0.0052, 0.2872, 0.1337, 0.0034, 0.2575, 0.0014, 0.188, 0.0049, 0.0082, 0.1802, 0.6837, 0.0153, 0.0498, 0.3937, 0.8982, 0.333, 0.1574, 0.9531, 0.0022, 0.737, 0.0839, 0.0208}

func TestMoments_python(t *testing.T) {
	m := moments(python25...)
	if got, _ := m.Mean(); got != 0.237968 {
		t.Errorf("mean = %.17g", got)
	}
	if got, _ := m.Variance(); got != 0.08485715643333333 {
		t.Errorf("variance = %.17g", got)
	}
}

func TestMoments_refusesWhatCannotBeSummed(t *testing.T) {
	m := moments(1, 2)
	for _, v := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), 1e151, -1e151} {
		if m.Add(v) {
			t.Errorf("Add(%v) was taken", v)
		}
	}
	if mean, _ := m.Mean(); mean != 1.5 || m.N() != 2 {
		t.Errorf("mean %v over %d after refusals, want 1.5 over 2", mean, m.N())
	}
}

func TestMoments_cancellation(t *testing.T) {
	// In float64 1e16 + 1 − 1e16 is 0; the mean of the three is 1/3.
	m := moments(1e16, 1, -1e16)
	if mean, _ := m.Mean(); mean != 1.0/3 {
		t.Errorf("mean = %v, want 1/3", mean)
	}
}

func TestMoments_orderChangesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOf(rapid.Float64Range(-1e12, 1e12)).Draw(t, "values")
		cut := rapid.IntRange(0, len(values)).Draw(t, "cut")
		seed := rapid.Uint64().Draw(t, "seed")
		want := moments(values...)

		shuffled := slices.Clone(values)
		rand.New(rand.NewPCG(seed, 1)).Shuffle(len(shuffled), func(i, j int) {
			shuffled[i], shuffled[j] = shuffled[j], shuffled[i]
		})
		part := moments(shuffled[:cut]...)
		got := part.Clone()
		for _, x := range shuffled[cut:] {
			got.Add(x)
		}

		type all struct {
			n                           int
			mean, variance, lo, hi      float64
			least, top                  float64
			meanOK, varianceOK, rangeOK bool
		}
		read := func(m Moments) (a all) {
			a.n = m.N()
			a.mean, a.meanOK = m.Mean()
			a.variance, a.varianceOK = m.Variance()
			e, _ := m.Estimate()
			a.lo, a.hi, _ = ends(e.CI95)
			a.least, a.top, a.rangeOK = m.Range()
			return a
		}
		if read(got) != read(want) {
			t.Fatalf("shuffled: %+v, in order: %+v", read(got), read(want))
		}
		if read(part) != read(moments(shuffled[:cut]...)) {
			t.Fatalf("adding to a clone changed the original: %+v", read(part))
		}
	})
}

func TestMoments_meanLiesInRange(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := moments(rapid.SliceOfN(rapid.Float64Range(-Limit, Limit), 1, 50).Draw(t, "values")...)
		mean, _ := m.Mean()
		least, top, _ := m.Range()
		if mean < least || mean > top {
			t.Fatalf("mean %v outside [%v, %v]", mean, least, top)
		}
		if v, ok := m.Variance(); ok && !(v >= 0 && !math.IsInf(v, 0)) {
			t.Fatalf("variance %v", v)
		}
	})
}

func BenchmarkMomentsAdd(b *testing.B) {
	var m Moments
	for i := 0; b.Loop(); i++ {
		m.Add(float64(i%97) / 97)
	}
}

// TestMoments_PopulationVariance uses 1, 2 and 6 with the mean 3: (4 + 1 + 9)/3 = 14/3.
func TestMoments_PopulationVariance(t *testing.T) {
	if _, ok := moments().PopulationVariance(); ok {
		t.Error("that of nothing is defined")
	}
	for i, want := range []float64{0, 0.25, 14.0 / 3} { // of 1; of 1 and 2; of all
		if v, ok := moments([]float64{1, 2, 6}[:i+1]...).PopulationVariance(); !ok || math.Abs(v-want) > 1e-15 {
			t.Errorf("%d numbers: %v, want %v", i+1, v, want)
		}
	}
}
