package conformance_test

import (
	"strings"
	"testing"

	"extraction-experiment/harness/conformance"
)

// TestReport_weak checks the reasons why a certificate proves little.
func TestReport_weak(t *testing.T) {
	of := func(candidate string, _ int64) (float64, error) {
		return map[string]float64{"good": 1, "bad": 0, "half": 0.5}[candidate], nil
	}
	good, bad := fixture("good", conformance.Pass, nil), fixture("bad", conformance.Fail, nil)
	half := fixture("half", conformance.Ambiguous, nil)
	for name, tt := range map[string]struct {
		cfg  conformance.Config
		weak []string // texts in the reasons, in order
	}{
		// 2·(4−1) = 6 comparisons: 1 − 0.05^(1/6) = 39 % remains possible
		"worth something": {conformance.Config{Fixtures: []conformance.Fixture{good, bad}, Runs: 4}, nil},
		// 4 comparisons: 1 − 0.05^(1/4) = 52.7 %
		"too few":        {conformance.Config{Fixtures: []conformance.Fixture{good, bad}, Runs: 3}, []string{"its 4 comparisons leave a flip rate of 53 % possible"}},
		"once":           {conformance.Config{Fixtures: []conformance.Fixture{good, bad}, Runs: 1}, []string{"evaluated twice"}},
		"ambiguous only": {conformance.Config{Fixtures: []conformance.Fixture{half}, Runs: 9}, []string{"evaluated twice", "no pass and no fail fixture"}},
		"one label":      {conformance.Config{Fixtures: []conformance.Fixture{good}, Runs: 9}, []string{"no fail fixture"}},
		"anything goes": {conformance.Config{Fixtures: []conformance.Fixture{good, bad}, Runs: 9, MaxFlipRate: 1, ScoreTolerance: 0.99},
			[]string{"a flip rate of 1 was allowed", "tolerance of 0.99"}},
	} {
		r := mustRun(t, tt.cfg, of)
		weak := r.Weak()
		if len(weak) != len(tt.weak) {
			t.Errorf("%s: %q", name, weak)
			continue
		}
		for i, want := range tt.weak {
			if !strings.Contains(weak[i], want) {
				t.Errorf("%s: %q does not say %q", name, weak[i], want)
			}
		}
		if !r.Passed() {
			t.Errorf("%s did not pass", name)
		}
	}
	r := mustRun(t, conformance.Config{Fixtures: []conformance.Fixture{good, bad, half}, Runs: 4}, of)
	if terms := r.Terms(); terms != "4 runs of each of 3 fixtures (1 pass, 1 fail, 1 ambiguous); flip rate up to 0 allowed, tolerance 0; a flip rate of at most 39.3 % is certified" {
		t.Error(terms)
	}
}

// TestRun_tolerance checks that a score equal to the tolerance is allowed, and that messages have
// no digits of binary arithmetic.
func TestRun_tolerance(t *testing.T) {
	for _, tt := range []struct {
		tolerance, score float64
		consistent       bool
	}{{0.58, 0.42, true}, {0.58, 0.41, false}, {0.1, 0.9, true}, {0.3, 0.7, true}, {0.7, 0.3, true}, {0.2, 0.79, false}} {
		of := func(string, int64) (float64, error) { return tt.score, nil }
		r := mustRun(t, conformance.Config{Fixtures: []conformance.Fixture{fixture("good", conformance.Pass, nil)}, Runs: 2, ScoreTolerance: tt.tolerance}, of)
		if r.Consistent != tt.consistent {
			t.Errorf("%v with a tolerance of %v: %+v", tt.score, tt.tolerance, r.Fixtures[0])
		}
		if text := strings.Join(r.Fixtures[0].Reasons, "\n"); strings.Contains(text, "0000") || strings.Contains(text, "9999") {
			t.Error(text)
		}
	}
}
