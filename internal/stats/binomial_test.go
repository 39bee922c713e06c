package stats

import (
	"math"
	"testing"
)

// TestBinomialInterval checks closed forms: for 0 of n the upper end is 1-(tail)^(1/n), for n
// of n the lower end is tail^(1/n). 5 of 10 is the textbook's 0.187086 to 0.812914.
func TestBinomialInterval(t *testing.T) {
	lo, hi, ok := BinomialInterval(0, 30, 0.95)
	if !ok || lo != 0 || math.Abs(hi-1+math.Pow(0.025, 1.0/30)) > 1e-9 {
		t.Errorf("0 of 30: %v %v", lo, hi)
	}
	lo, hi, _ = BinomialInterval(30, 30, 0.95)
	if hi != 1 || math.Abs(lo-math.Pow(0.025, 1.0/30)) > 1e-9 {
		t.Errorf("30 of 30: %v %v", lo, hi)
	}
	lo, hi, _ = BinomialInterval(5, 10, 0.95)
	if math.Abs(lo-0.187086) > 1e-6 || math.Abs(hi-0.812914) > 1e-6 {
		t.Errorf("5 of 10: %v %v", lo, hi)
	}
}

func TestBinomial_undefined(t *testing.T) {
	for _, bad := range []struct {
		k, n       int
		confidence float64
	}{{0, 0, 0.95}, {-1, 3, 0.95}, {4, 3, 0.95}, {1, 3, 0}, {1, 3, 1}, {1, 3, math.NaN()}} {
		if _, _, ok := BinomialInterval(bad.k, bad.n, bad.confidence); ok {
			t.Errorf("%v has an interval", bad)
		}
		if _, ok := UpperRate(bad.k, bad.n, bad.confidence); ok {
			t.Errorf("%v has an upper rate", bad)
		}
	}
	for _, bad := range []struct {
		k                int
		rate, confidence float64
	}{{-1, 0.1, 0.95}, {0, 0, 0.95}, {0, 1, 0.95}, {0, math.NaN(), 0.95}, {0, 0.1, 0}, {0, 0.1, 1}, {0, 0.1, math.NaN()}, {0, 1e-10, 0.95}} {
		if n, ok := TrialsNeeded(bad.k, bad.rate, bad.confidence); ok {
			t.Errorf("%v: %d trials are enough", bad, n)
		}
	}
}

// TestTrialsNeeded checks n = ⌈ln(0.05)/ln(1-p)⌉ for k = 0: 29, 59 and 299 for 10 %, 5 % and 1 %.
// For k = 1 it is 46, 93 and 473 (the "rule of 4.74").
func TestTrialsNeeded(t *testing.T) {
	for _, c := range []struct {
		k    int
		rate float64
		want int
	}{{0, 0.1, 29}, {0, 0.05, 59}, {0, 0.01, 299}, {1, 0.1, 46}, {1, 0.05, 93}, {1, 0.01, 473}} {
		if n, ok := TrialsNeeded(c.k, c.rate, 0.95); !ok || n != c.want {
			t.Errorf("%d flips, %v: %d, want %d", c.k, c.rate, n, c.want)
		}
	}
	if hi, ok := UpperRate(0, 59, 0.95); !ok || hi > 0.05 {
		t.Errorf("59 runs leave %v possible", hi)
	}
}
