package conformance_test

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"extraction-experiment/evaluator"
	"extraction-experiment/harness/conformance"
	"extraction-experiment/internal/cli"
)

// fakeJudge scores with a function of the candidate and the number of the call, from 1.
type fakeJudge struct {
	n     atomic.Int64
	score func(candidate string, n int64) (float64, error)
}

func (j *fakeJudge) Evaluate(_ context.Context, c evaluator.Case) (evaluator.Verdict, error) {
	score, err := j.score(c.Candidate, j.n.Add(1))
	return evaluator.Verdict{Score: score}, err
}

func (j *fakeJudge) Command() []string { return []string{"judge"} }

func fixture(id string, label conformance.Label, bounds *conformance.Bounds) conformance.Fixture {
	return conformance.Fixture{ID: id, Label: label, Bounds: bounds, Case: evaluator.Case{Candidate: id}}
}

// mustRun runs the fixtures of cfg one after the other with a fakeJudge.
func mustRun(t *testing.T, cfg conformance.Config, of func(string, int64) (float64, error)) conformance.Report {
	t.Helper()
	cfg.Evaluator, cfg.Concurrency = &fakeJudge{score: of}, 1
	r, err := conformance.Run(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestRun_flaky uses an evaluator that is wrong in every 7th call. Two fixtures have 7 runs each,
// one after the other: calls 7 and 14 score 0 for the pass fixture and 1 for the fail fixture.
// The pass fixture has the scores 1 1 1 1 1 1 0, mean 6/7, variance (6/7)(1/7) = 6/49, and 1 flip
// of 7 runs. Together there are 2 flips of 2·(7-1) = 12 comparisons.
func TestRun_flaky(t *testing.T) {
	of := func(candidate string, n int64) (float64, error) {
		right := map[string]float64{"good": 1, "bad": 0}[candidate]
		if n%7 == 0 {
			return 1 - right, nil
		}
		return right, nil
	}
	cfg := conformance.Config{Fixtures: []conformance.Fixture{fixture("good", conformance.Pass, nil), fixture("bad", conformance.Fail, nil)}, Runs: 7}
	r := mustRun(t, cfg, of)
	good := r.Fixtures[0]
	if !r.Compatible || r.Consistent || r.Passed() || good.Flips != 1 || *good.FlipRate != 1.0/7 || good.Violations != 1 {
		t.Errorf("%+v", good)
	}
	if math.Abs(*good.Mean-6.0/7) > 1e-15 || math.Abs(*good.Variance-6.0/49) > 1e-15 {
		t.Errorf("mean %v, variance %v", *good.Mean, *good.Variance)
	}
	s := r.Statistics
	for name, c := range map[string]struct {
		got       conformance.Rate
		count, of int
	}{
		"flips": {s.FlipRate, 2, 12}, "agreement": {s.Agreement, 12, 14}, "false pass": {s.FalsePass, 1, 7}, "false fail": {s.FalseFail, 1, 7},
		"borderline": {s.Borderline, 0, 14}, "violations": {s.BoundViolations, 2, 14},
	} {
		if c.got.Count != c.count || c.got.Of != c.of || !(*c.got.Lower <= *c.got.Value && *c.got.Value <= *c.got.Upper) {
			t.Errorf("%s: %+v, want %d of %d", name, c.got, c.count, c.of)
		}
	}
	// If that rate is allowed, the fixtures pass, but are not consistent.
	cfg.MaxFlipRate = 1.0 / 7
	r = mustRun(t, cfg, of)
	if good = r.Fixtures[0]; r.Consistent || good.Consistent || !good.Pass || !r.Pass || !r.Passed() || r.PassedFixtures() != 2 ||
		!slices.Equal(good.Reasons, []string{"1 of 7 scores are not 1, which the flip rate of 0.1429 allows"}) {
		t.Errorf("%+v", good)
	}
}

// TestRun_rate checks what the allowed flip rate decides for 20 scores of which some are odd, and why.
// A flip is a verdict other than that of the first score.
func TestRun_rate(t *testing.T) {
	for name, c := range map[string]struct {
		label            conformance.Label
		right, odd       float64
		odds             []int // numbers of the odd scores, from 1
		rate, tolerance  float64
		pass, consistent bool
		reasons          string
	}{
		"one flip": {conformance.Pass, 1, 0, []int{20}, 0.1, 0, true, false,
			"1 of 20 scores are not 1, which the flip rate of 0.1 allows"},
		"one flip of a fail fixture": {conformance.Fail, 0, 1, []int{3}, 0.1, 0, true, false,
			"1 of 20 scores are not 0, which the flip rate of 0.1 allows"},
		"with a tolerance": {conformance.Pass, 0.9, 0.3, []int{3}, 0.1, 0.2, true, false,
			"1 of 20 scores are not at least 0.8, which the flip rate of 0.1 allows"},
		"none allowed": {conformance.Pass, 1, 0, []int{20}, 0, 0, false, false,
			"1 of 20 scores are not 1; flip rate 0.05 is above 0"},
		"three flips": {conformance.Pass, 1, 0, []int{2, 3, 4}, 0.1, 0, false, false,
			"3 of 20 scores are not 1; flip rate 0.15 is above 0.1"},
		"no flip, always wrong": {conformance.Pass, 0, 0, nil, 0.1, 0, false, false,
			"20 of 20 scores are not 1"},
		"no flip, not exact": {conformance.Pass, 0.9, 0.9, nil, 0.1, 0, false, false,
			"20 of 20 scores are not 1"},
		"no flip, one not exact": {conformance.Pass, 1, 0.9, []int{5}, 0.1, 0, true, false,
			"1 of 20 scores are not 1, which the flip rate of 0.1 allows"},
		"flips within the tolerance": {conformance.Pass, 0.8, 0.7, []int{5}, 0.1, 0.3, true, true,
			""},
		"more than the rate of these": {conformance.Pass, 0.8, 0.7, []int{5, 6, 7}, 0.1, 0.3, false, false,
			"flip rate 0.15 is above 0.1"},
		"the first differs": {conformance.Pass, 1, 0, []int{1}, 0.1, 0, false, false,
			"1 of 20 scores are not 1, which the flip rate of 0.1 allows; flip rate 0.95 is above 0.1"},
	} {
		cfg := conformance.Config{Fixtures: []conformance.Fixture{fixture("a", c.label, nil)}, Runs: 20, MaxFlipRate: c.rate, ScoreTolerance: c.tolerance}
		r := mustRun(t, cfg, func(_ string, n int64) (float64, error) {
			if slices.Contains(c.odds, int(n)) {
				return c.odd, nil
			}
			return c.right, nil
		})
		if f := r.Fixtures[0]; f.Pass != c.pass || f.Consistent != c.consistent || strings.Join(f.Reasons, "; ") != c.reasons {
			t.Errorf("%s: passed %v, consistent %v: %s", name, f.Pass, f.Consistent, f.Reasons)
		}
	}
	old := conformance.Report{Compatible: true, Consistent: true}
	if !old.Passed() {
		t.Error("a report from before passed is said in it did not pass")
	}
}

// TestRun_thresholds checks values that equal the allowed flip rate, tolerance and bounds.
func TestRun_thresholds(t *testing.T) {
	fourth := func(_ string, n int64) (float64, error) {
		if n%4 == 0 {
			return 0.7, nil // borderline: a flip from pass
		}
		return 0.9, nil
	}
	cfg := conformance.Config{Fixtures: []conformance.Fixture{fixture("a", conformance.Pass, nil)}, Runs: 4, MaxFlipRate: 0.25, ScoreTolerance: 0.3}
	if r := mustRun(t, cfg, fourth); !r.Passed() {
		t.Errorf("flip rate 1/4 = the allowed one, 0.7 = 1 - 0.3: %+v", r.Fixtures[0])
	}
	cfg.MaxFlipRate = 0.2499
	if r := mustRun(t, cfg, fourth); r.Passed() {
		t.Error("a flip rate above the allowed one was accepted")
	}
	cfg.MaxFlipRate, cfg.ScoreTolerance = 0.25, 0.29
	if r := mustRun(t, cfg, fourth); !r.Passed() || r.Consistent || r.Fixtures[0].Violations != 1 {
		t.Error("a score below the tolerance is one of those that the rate allows")
	}
	// As floats, 1 - 0.7 is above 0.3, but a score equal to the tolerance passes.
	for tolerance, score := range map[float64]float64{0.7: 0.3, 0.3: 0.7, 0.1: 0.9, 0.9: 0.1} {
		edge := conformance.Config{Fixtures: []conformance.Fixture{fixture("a", conformance.Pass, nil)}, Runs: 2, ScoreTolerance: tolerance}
		if r := mustRun(t, edge, func(string, int64) (float64, error) { return score, nil }); !r.Passed() {
			t.Errorf("%v with a tolerance of %v: %+v", score, tolerance, r.Fixtures[0])
		}
	}
	bounds := conformance.Config{Fixtures: []conformance.Fixture{fixture("a", conformance.Ambiguous, &conformance.Bounds{Low: 0.7, High: 0.9})}, Runs: 4}
	if r := mustRun(t, bounds, fourth); !r.Passed() {
		t.Errorf("both bounds are allowed, and flips of ambiguous fixtures too: %+v", r.Fixtures[0])
	}
	bounds.Fixtures[0].Bounds.High = 0.8999
	if r := mustRun(t, bounds, fourth); r.Passed() || r.Fixtures[0].Violations != 3 {
		t.Errorf("three scores above the bound: %+v", r.Fixtures[0])
	}
}

func TestRun_noValidRun(t *testing.T) {
	fault := &evaluator.Fault{Kind: evaluator.TimedOut, Message: "no answer"}
	cfg := conformance.Config{Fixtures: []conformance.Fixture{fixture("a", conformance.Ambiguous, nil), fixture("b", conformance.Pass, nil)}, Runs: 3}
	r := mustRun(t, cfg, func(candidate string, _ int64) (float64, error) {
		if candidate == "b" {
			return 1, nil
		}
		return 0, fault
	})
	a := r.Fixtures[0]
	if a.Compatible || a.Consistent || a.Mean != nil || a.Variance != nil || len(a.Scores) != 0 || len(a.Errors) != 3 || r.PassedFixtures() != 1 {
		t.Errorf("%+v", a)
	}
	if r.Statistics.Faults["timeout"] != 3 || r.Statistics.ValidRuns != 3 || r.TotalRuns != 6 {
		t.Errorf("%+v", r.Statistics)
	}
}

func TestRun_neverThere(t *testing.T) {
	gone := &evaluator.Fault{Kind: evaluator.NotStarted, Message: "no such file"}
	cfg := conformance.Config{Evaluator: &fakeJudge{score: func(string, int64) (float64, error) { return 0, gone }}, Fixtures: []conformance.Fixture{fixture("a", conformance.Pass, nil)}}
	_, err := conformance.Run(t.Context(), cfg)
	var fault *evaluator.Fault
	if !errors.As(err, &fault) || fault.ExitCode() != 69 {
		t.Errorf("got %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := conformance.Run(ctx, cfg); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

const head = "evaluator: {script: [judge]}\nfixtures:\n"

func TestParse(t *testing.T) {
	set, err := conformance.Parse("f.yaml", []byte(head+`
- {id: a, label: pass, question: q, criteria: c, expected_output: 366, candidate_answer: ""}
- {id: b, label: ambiguous, answer: x, score_bounds: [0.2, 0.8]}
- {id: c, label: ambiguous, answer: x, score_bounds: [0, 1]}
- {id: d, label: ambiguous, answer: x}
- {id: e, label: fail, answer: x, score_bounds: [0, 1]}
`))
	if err != nil {
		t.Fatal(err)
	}
	if len(set.Fixtures) != 5 || set.Fixtures[0].Case.Reference != "366" || *set.Fixtures[1].Bounds != (conformance.Bounds{Low: 0.2, High: 0.8}) || set.Evaluator.Script[0] != "judge" {
		t.Errorf("%+v", set)
	}
	if len(set.Warnings) != 2 || !strings.Contains(set.Warnings[0], `"d" is ambiguous and has no score_bounds`) || !strings.Contains(set.Warnings[1], `"e"`) {
		t.Errorf("warnings %q", set.Warnings)
	}
}

func TestParse_problems(t *testing.T) {
	for text, want := range map[string]string{
		"":                            "f.yaml: line 1: evaluator: give exactly one",
		"a: [":                        "reading f.yaml: line 1: ",
		"- 1":                         "line 1: cannot unmarshal a list where keys with values are expected",
		"fixtures: []":                "f.yaml: line 1: evaluator: give exactly one",
		"evaluator: {}\nfixtures: []": "line 1: evaluator: give exactly one",
		"evaluator: {script: [x], url: http://x}\nfixtures: []":                             "line 1: evaluator: give exactly one",
		"evaluator: {script: [x], command: [x]}\nfixtures: []":                              "line 1: evaluator: give exactly one",
		head + "- {id: a, label: pass, answer: x, candidate_answer: y}":                     `line 3: fixture "a": candidate_answer and answer are two names of one key`,
		head + "- {id: a, label: pass, answer: x, expected_output: y, reference_answer: z}": "expected_output and reference_answer are two names",
		"evaluator: {scirpt: [x]}":                                                          `line 1: unknown key "scirpt"; did you mean "script"?`,
		head + "- {id: a, label: maybe, answer: x}":                                         `f.yaml: line 3: fixture "a": the label "maybe" is not one of`,
		head + "- {id: a, label: [pass], answer: x}":                                        "line 3: cannot unmarshal a list where a text is expected",
		head + "- {label: pass, answer: x}":                                                 "line 3: the fixture has no id",
		head + "- {id: a, label: pass}":                                                     `fixture "a": candidate_answer is missing`,
		head + "- {id: a, label: pass, answer: x}\n- {id: a, label: fail, answer: x}":       `f.yaml: line 4: the id "a" is used by the fixture of line 3 already`,
		head + "- {id: a, label: ambiguous, answer: x, score_bounds: [0.8, 0.2]}":           "score_bounds: [0.8 0.2] are not two numbers from 0 to 1",
		head + "- {id: a, label: ambiguous, answer: x, score_bounds: [.nan, 1]}":            "score_bounds",
		head + "- {id: a, label: ambiguous, answer: x, score_bounds: 0.5}":                  "line 3: cannot unmarshal !!float `0.5` where a list of numbers is expected",
		head + "- {id: a, label: pass, answer: {b: c}}":                                     "line 3: cannot unmarshal a mapping where a text is expected",
		head + "- {id: a, label: pass, answer: x, id: b}":                                   `line 3: mapping key "id" already defined`,
		head + "- {id: a, label: pass, answer: x}\n---\nfixtures: []":                       "one document is expected, there is a second",
		"fixtures:\n-":   "fixtures: an entry of the list is empty",
		head + "- seven": "where keys with values are expected",
		head + "- {id: a, label: pass, answer: x, lable: y}": `unknown key "lable"; did you mean "label"?`,
	} {
		_, err := conformance.Parse("f.yaml", []byte(text))
		if err == nil || !strings.Contains(err.Error(), want) || cli.ExitCode(err) != 64 {
			t.Errorf("%s:\n%v\nwant %q", text, err, want)
		}
	}
	if _, err := conformance.Read(filepath.Join(t.TempDir(), "none.yaml")); err == nil || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file that is not there: %v", err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(head + "- {id: a, label: pass, answer: x}"))
	f.Add([]byte("evaluator: &a [*a]"))
	f.Add([]byte("fixtures:\n-"))
	f.Fuzz(func(t *testing.T, text []byte) {
		set, err := conformance.Parse("f", text)
		if err == nil && len(set.Fixtures) == 0 {
			t.Fatal("no fixture and no error")
		}
	})
}
