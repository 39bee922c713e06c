package compare

import (
	"strings"
	"testing"

	"extraction-experiment/internal/cli"
	"extraction-experiment/outcome"
)

func TestParseRule(t *testing.T) {
	tests := map[string]Rule{
		"entity_f1 >= base - 0.02":       {Metric: "entity_f1", Op: ">=", Relative: true, Factor: 1, Offset: -0.02},
		" entity_f1>base ":               {Text: "entity_f1>base", Metric: "entity_f1", Op: ">", Relative: true, Factor: 1},
		"error <= base + 0.01":           {Metric: "error", Op: "<=", Relative: true, Factor: 1, Offset: 0.01},
		"pooled(entity_f1) >= base-0.02": {Metric: "entity_f1", Pooled: true, Op: ">=", Relative: true, Factor: 1, Offset: -0.02},
		"relationship_f1 >= 0.6":         {Metric: "relationship_f1", Op: ">=", Factor: 1, Offset: 0.6},
		"coverage >= 99%":                {Metric: "coverage", Op: ">=", Factor: 1, Offset: 0.99},
		"cost <= base * 1.1":             {Metric: "cost", Op: "<=", Relative: true, Factor: 1.1},
		"cost <= base * 110%":            {Metric: "cost", Op: "<=", Relative: true, Factor: 1.1},
		"cost_per_item < $0.01":          {Metric: "cost_per_item", Op: "<", Factor: 1, Offset: 0.01},
		"coverage >= 2%":                 {Metric: "coverage", Op: ">=", Factor: 1, Offset: 0.02},
		"coverage >= 7%":                 {Metric: "coverage", Op: ">=", Factor: 1, Offset: 0.07},
		"latency_p95 <= base + 0":        {Metric: "latency_p95", Op: "<=", Relative: true, Factor: 1},
		"latency_p95 <= 2s":              {Metric: "latency_p95", Op: "<=", Factor: 1, Offset: 2000},
		"cost >= base * 0.5":             {Metric: "cost", Op: ">=", Relative: true, Factor: 0.5},
		"latency_mean <= base + 250 ms":  {Metric: "latency_mean", Op: "<=", Relative: true, Factor: 1, Offset: 250},
	}
	for text, want := range tests {
		if want.Text == "" {
			want.Text = text
		}
		if got, err := ParseRule(text); err != nil || got != want {
			t.Errorf("%s: %+v, %v; want %+v", text, got, err, want)
		}
	}
	for text, want := range map[string]string{
		"":                              "between a score and a value",
		"entity_f1":                     "between a score and a value",
		">= 0.5":                        "between a score and a value",
		"entity_f1 >=":                  "expected a number or base",
		"entity_f1 = 0.5":               "expected >=",
		"entity_f1 => 0.5":              "expected >=",
		"entity_f1 >= much":             "expected a number",
		"entity_f1 >= NaN":              "expected a number",
		"entity_f1 <= 1e13":             "expected a number",
		"cost <= 5s":                    "expected a number",
		"entity_f1 >= 0x1p3":            "expected a number",
		"entity_f1 >= base / 2":         "expected base",
		"entity_f1 >= base − 0.02":      "not base − 0.02",
		"entity_f1 >= base - -0.1":      "two signs",
		"entity_f1 >= base * 0.9":       "multiple of the base",
		"entity_f1 >= 5ms":              "expected a number",
		"latency_p95 <= 2":              "such as 2s or 2ms",
		"latency_p95 <= base + 2":       "such as 2s or 2ms",
		"latency_p95 <= 5%":             "is not a share",
		"latency_p95 <= base + 10%":     "base * 1.1",
		"cost <= 5%":                    "is not a share",
		"entity_f1 >= base - 5%":        "5% could be a share of the base: write 0.05,",
		"pooled(f1) >= base - 0.7 %":    "write 0.007,",
		"coverage >= base - 1%":         "write 0.01,",
		"entity_f1 >= 0.8e":             "expected a number",
		"cost <= -1":                    "nothing can keep it: cost is never below 0",
		"cost >= 0":                     "everything keeps it",
		"failures <= 2%":                "coverage >= 98%",
		"failures < 0":                  "nothing can keep it",
		"coverage >= 99":                "nothing can keep it: coverage lies from 0 to 1; did you mean 99%?",
		"coverage >= 0":                 "everything keeps it",
		"coverage > base + 1":           "nothing can keep it: a difference of coverage lies from -1 to 1",
		"latency_p95 >= base * 2":       "less of latency_p95 is better, and the rule keeps the candidate from it: did you mean latency_p95 <= base * 2?",
		"failures > base + 1":           "did you mean failures < base + 1?",
		"coverage < base":               "more of coverage is better, and the rule keeps the candidate from it: did you mean coverage > base?",
		"weighted_score <= base - 0.1":  "did you mean weighted_score >= base - 0.1?",
		"entity f1 >= 0.5":              "between a score and a value",
		"pooled(cost) <= 3":             "pooled(SCORE)",
		"pooled(entity_f1 >= 0.5":       "pooled(SCORE)",
		strings.Repeat("x", 600) + ">1": "longer than",
	} {
		if _, err := ParseRule(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// TestDigits checks that numbers have no exponent.
func TestDigits(t *testing.T) {
	for v, want := range map[float64][2]string{
		0: {"0", "0"}, 0.00002: {"0.00002", "+0.00002"}, -0.0000412345678: {"-0.0000412346", "-0.00004123"},
		1234567.89: {"1234570", "+1235000"}, 0.1 + 0.2: {"0.3", "+0.3"}, 1: {"1", "+1"},
	} {
		if got := [2]string{decimal(v), signed(v)}; got != want {
			t.Errorf("%v: %q, want %q", v, got, want)
		}
	}
}

// TestRule_reasons checks that a number which misses its bound does not read like it.
func TestRule_reasons(t *testing.T) {
	mean, ms, p := 0.69999996, 2000.0004, 0.05003
	run := outcome.Summary{Items: outcome.Items{Planned: 9, Scored: 9}, LatencyMS: &outcome.Latencies{N: 2, P95: ms},
		Scores: outcome.Stats{{Name: "f1", FailuresAsZero: &mean}}}
	unclear := difference(.001, .05)
	unclear.PHolm = &p
	scores := []Score{difference(-.100004, .05)}
	for _, tt := range []struct {
		rule   string
		scores []Score
		want   string
	}{
		{"f1 >= 0.7", scores, "f1 is 0.69999996"},
		{"latency_p95 <= 2s", scores, "latency_p95 is 2000.0004 ms, known of 2 of 9 outcomes; allowed is <= 2000 ms"},
		{"f1 >= base - 0.1", scores, "95 % interval -0.100004 to +0.05; allowed is >= -0.1"},
		{"f1 > base", []Score{unclear}, "at most 0.05, and it is 0.05003"},
	} {
		got, err := mustRule(t, tt.rule).judge(Side{}, Result{Scores: tt.scores, Candidate: Side{Summary: run}})
		if err != nil || got.Answer == Pass || !strings.Contains(got.Reason, tt.want) {
			t.Errorf("%s: %s, %s (%v); want %s", tt.rule, got.Answer, got.Reason, err, tt.want)
		}
	}
}

// TestRule_missing checks a score that only the base has: nothing is known, and the rule is no
// mistake.
func TestRule_missing(t *testing.T) {
	r := Result{Scores: []Score{{Name: "f1", UndefinedCandidate: 9}}}
	for _, text := range []string{"f1 >= 0.5", "f1 >= base"} {
		if got, err := mustRule(t, text).judge(Side{}, r); err != nil || got.Answer != Inconclusive {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
}

// TestRule_Complement checks that a bound x on a score becomes 1 - x on its complement.
func TestRule_Complement(t *testing.T) {
	for text, want := range map[string]string{
		"lost <= 0.1":                   "kept >= 0.9",
		"lost < 10%":                    "kept > 0.9",
		"lost <= base":                  "kept >= base",
		"lost <= base + 0.02":           "kept >= base - 0.02",
		"pooled(lost) < base - 0.01":    "pooled(kept) > base + 0.01",
		"pooled(lost) <= 0.333333":      "pooled(kept) >= 0.666667",
		"lost >= 0.9":                   "kept <= 0.1",
		"lost <= base + 0.000000000001": "kept >= base - 0.000000000001",
	} {
		got := mustRule(t, text).Complement("kept")
		if _, err := ParseRule(got); got != want || err != nil {
			t.Errorf("%s: %s (%v), want %s", text, got, err, want)
		}
	}
}

// TestRule_Decides checks rules about scores from 0 to 1.
func TestRule_Decides(t *testing.T) {
	for text, want := range map[string]string{
		"f1 >= 0.5":               "",
		"f1 >= 1":                 "",
		"f1 > 0":                  "",
		"f1 < 0.9":                "", // a rule of one run may be in either direction
		"f1 >= base - 0.02":       "",
		"f1 > base - 1":           "",
		"f1 >= base + 1":          "",
		"f1 >= base - 1":          "everything keeps it",
		"f1 >= base - 2":          "everything keeps it: a difference of f1 lies from -1 to 1; did you mean 0.02?",
		"f1 > base + 1":           "nothing can keep it",
		"f1 >= 70":                "nothing can keep it: f1 lies from 0 to 1; did you mean 70%?",
		"f1 >= 0":                 "everything keeps it",
		"f1 > 1":                  "nothing can keep it",
		"f1 <= 1":                 "everything keeps it",
		"f1 < base":               "did you mean f1 > base?",
		"pooled(f1) <= base":      "more of pooled f1 is better",
		"pooled(f1) >= base-0.03": "",
	} {
		err := mustRule(t, text).Decides(0, 1, false)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	if err := mustRule(t, "error <= base + 0.01").Decides(0, 1, true); err != nil {
		t.Error(err)
	}
	if err := mustRule(t, "error > base").Decides(0, 1, true); err == nil || !strings.Contains(err.Error(), "less of error is better") {
		t.Error(err)
	}
}

func FuzzParseRule(f *testing.F) {
	for _, seed := range []string{"entity_f1 >= base - 0.02", "pooled(a)>1%", "latency_p95 <= base * 1.1", "latency_p95<=base*110%", "coverage>=99", "cost<$1e3", "<", "a>=base*", "a!=1"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		r, err := ParseRule(text)
		if err != nil {
			return
		}
		if again, err := ParseRule(r.Text); err != nil || again != r {
			t.Fatalf("%q is read as %+v, and its text as %+v, %v", text, r, again, err)
		}
		if r.holds(2, 1) == r.holds(1, 2) || r.holds(1, 2) != r.isUpper() {
			t.Fatalf("%+v points in no direction", r)
		}
	})
}

// difference returns a score with this interval and a p-value of 0.01.
func difference(lo, hi float64) Score {
	mid, p := (lo+hi)/2, 0.01
	return Score{Name: "f1", N: 50, Difference: &mid, CI95: &[2]float64{lo, hi}, P: &p, PHolm: &p, Verdict: Unclear}
}

// doubtful is difference with a corrected p-value of 0.125.
func doubtful(lo, hi float64) Score {
	s, p := difference(lo, hi), 0.125
	s.PHolm = &p
	return s
}

func TestRule_judgeDifference(t *testing.T) {
	few, fewClusters, constant := difference(.01, .02), difference(.01, .02), difference(.1, .1)
	few.N, fewClusters.Clusters, constant.CI95 = 5, 5, nil
	pooled, unpooled := difference(-.5, .5), difference(.1, .2)
	pooled.N = 60
	failing := pooled
	failing.N = 80
	pooled.Pooled = &Pooled{N: 60, Difference: .15, CI95: &[2]float64{.1, .2}}
	unpooled.Pooled = &Pooled{N: 50, Difference: .15}
	failing.Pooled = pooled.Pooled
	tests := []struct {
		rule  string
		score Score
		want  Answer
	}{
		{"f1 >= base - 0.02", difference(-.01, .05), Pass},
		{"f1 >= base - 0.02", difference(-.02, .05), Pass}, // at the threshold
		{"f1 > base - 0.02", difference(-.02, .05), Inconclusive},
		{"f1 >= base - 0.02", difference(-.03, .05), Inconclusive},
		{"f1 >= base - 0.02", difference(-.05, -.02), Inconclusive}, // the upper end still keeps it
		{"f1 > base - 0.02", difference(-.05, -.02), Fail},
		{"f1 >= base - 0.02", difference(-.05, -.03), Fail},
		{"f1 > base", difference(.001, .05), Pass},
		{"f1 > base", difference(0, .05), Inconclusive},
		{"f1 > base", difference(-.05, 0), Fail},
		{"f1 <= base + 0.01", difference(-.05, .01), Pass},
		{"f1 <= base + 0.01", difference(-.05, .02), Inconclusive},
		{"f1 <= base + 0.01", difference(.02, .05), Fail},
		{"f1 < base", difference(-.05, -.01), Pass},
		{"f1 >= base - 0.02", difference(.78-.8, .78-.8), Pass}, // -0.020000000000000018
		{"f1 > base - 0.02", difference(.8-.78-.04, .8-.78-.04), Fail},
		{"f1 > base", difference(1e-10, .05), Inconclusive},
		{"f1 > base", doubtful(.001, .05), Inconclusive},
		{"f1 >= base", doubtful(-.05, -.001), Inconclusive},
		{"f1 >= base - 0.02", doubtful(-.05, -.03), Inconclusive},
		{"f1 >= base - 0.02", doubtful(-.01, .05), Pass}, // a difference of 0 would pass, too
		{"f1 > base", doubtful(-.05, 0), Fail},           // a difference of 0 would fail, too
		{"f1 >= base", few, Inconclusive},
		{"f1 >= base", fewClusters, Inconclusive},
		{"f1 > base", constant, Inconclusive},
		{"f1 >= base", Score{Name: "f1"}, Inconclusive},
		{"pooled(f1) > base", pooled, Pass},
		{"pooled(f1) > base", unpooled, Inconclusive},
		{"pooled(f1) > base", difference(.1, .2), Inconclusive},
		{"pooled(f1) > base", failing, Inconclusive}, // the 20 that failed have no counts
	}
	for _, tt := range tests {
		got := mustRule(t, tt.rule).judgeDifference(tt.score, Result{})
		if got.Answer != tt.want || got.Reason == "" {
			t.Errorf("%s on %v: %s (%s), want %s", tt.rule, tt.score.CI95, got.Answer, got.Reason, tt.want)
		}
	}
}

func TestRule_measures(t *testing.T) {
	cost, zero := 2.0, 0.5
	base := Side{Summary: outcome.Summary{Items: outcome.Items{Planned: 10, Scored: 10}, Usage: outcome.UsageSum{CostUSD: &cost}, LatencyMS: &outcome.Latencies{P95: 100}}}
	run := outcome.Summary{
		Items:     outcome.Items{Planned: 10, Scored: 8, Failed: 2},
		Usage:     outcome.UsageSum{CostUSD: &cost},
		LatencyMS: &outcome.Latencies{P50: 50, P95: 110, Mean: 60, Max: 200},
		Scores:    outcome.Stats{{Name: "f1", FailuresAsZero: &zero}, {Name: "nothing"}},
	}
	partly, unknown, trials := run, run, run
	trials.Items = outcome.Items{Planned: 20, Scored: 19, Failed: 1}
	partly.Usage.CostUnknown = 3
	unknown.Usage, unknown.LatencyMS = outcome.UsageSum{}, nil
	tests := []struct {
		rule string
		run  outcome.Summary
		want Answer
	}{
		{"coverage >= 80%", run, Pass}, // at the threshold
		{"coverage > 80%", run, Fail},
		{"coverage >= base", run, Fail},
		{"failures <= 2", run, Pass},
		{"failures < base + 2", run, Fail},
		{"cost <= base", run, Pass},
		{"cost <= 1.99", run, Fail},
		{"cost_per_item <= 0.2", run, Pass},
		{"cost <= 3", partly, Inconclusive}, // at least 2
		{"cost <= 1", partly, Fail},
		{"cost >= 1", partly, Pass},
		{"cost >= 3", partly, Inconclusive},
		{"cost <= 3", unknown, Inconclusive},
		{"latency_p95 <= base * 1.1", run, Pass},
		{"latency_p95 <= base * 1.05", run, Fail},
		{"latency_max <= 0.2s", run, Pass},
		{"latency_p50 <= 49ms", run, Fail},
		{"latency_mean <= 1s", unknown, Inconclusive},
		{"cost <= base", trials, Inconclusive}, // twice as many trials as the base
		{"failures <= base + 5", trials, Inconclusive},
		{"failures <= 1", trials, Pass},
		{"cost_per_item <= base", trials, Pass},
		{"coverage >= base - 0.1", trials, Pass},
		{"f1 >= 0.5", run, Pass},
		{"f1 > 0.5", run, Fail},
		{"nothing >= 0", run, Inconclusive},
		{"pooled(f1) >= 0", run, Inconclusive},
	}
	for _, tt := range tests {
		got, err := mustRule(t, tt.rule).judge(base, Result{Candidate: Side{Summary: tt.run}})
		if unknown := tt.run.Items.Planned == 20 && tt.want == Inconclusive; unknown != (got.Threshold == nil) {
			t.Errorf("%s: the threshold is %v", tt.rule, got.Threshold)
		}
		if err != nil || got.Answer != tt.want || got.Reason == "" {
			t.Errorf("%s: %s (%s), %v; want %s", tt.rule, got.Answer, got.Reason, err, tt.want)
		}
	}
	for _, summary := range []outcome.Summary{partly, unknown} {
		got, err := mustRule(t, "cost <= base").judge(Side{Summary: summary}, Result{Candidate: Side{Summary: run}})
		if err != nil || got.Answer != Inconclusive || got.Reason != "cost of the base is not known" {
			t.Errorf("%s (%s), %v", got.Answer, got.Reason, err)
		}
	}
	for _, text := range []string{"f2 >= 0.5", "f2 >= base"} {
		if _, err := mustRule(t, text).judge(base, Result{Candidate: Side{Summary: run}}); cli.ExitCode(err) != cli.ExitUsage || !strings.Contains(err.Error(), `did you mean`) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func mustRule(t *testing.T, text string) Rule {
	t.Helper()
	r, err := ParseRule(text)
	if err != nil {
		t.Fatal(err)
	}
	return r
}
