package compare

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"extraction-experiment/internal/cli"
	"extraction-experiment/outcome"
)

func TestCompare_incompatible(t *testing.T) {
	meta := func(m map[string]string) func(*memoryRun) { return func(r *memoryRun) { r.header.Metadata = m } }
	tests := map[string]struct {
		base, cand func(*memoryRun)
		want       []string
	}{
		"fingerprint": {nil, func(r *memoryRun) { r.header.Dataset.Fingerprint = "beef" },
			[]string{"fingerprint of the dataset: f00d in the base, beef in the candidate"}},
		"fingerprint by selection": {nil, func(r *memoryRun) {
			r.header.Dataset.Fingerprint, r.header.Dataset.Selection = "beef", "limit 2"
			r.items, r.outcomes = r.items[:2], r.outcomes[:2]
		}, []string{"fingerprint", "selection of items: all in the base, limit 2 in the candidate; run both with the same --limit, --item and --filter", "2 items only in the base: item-0002, item-0003"}},
		"no fingerprint at all": {func(r *memoryRun) { r.header.Dataset.Fingerprint = "" }, func(r *memoryRun) { r.header.Dataset.Fingerprint = "" },
			[]string{"fingerprint of the dataset: unknown in the base, unknown in the candidate"}},
		"scorer version":         {nil, func(r *memoryRun) { r.header.Scorer.Version = "2" }, []string{"scorer version: 1 in the base, 2 in the candidate; experiment rescore scores the results of the older run again, without the model"}},
		"scorer version unknown": {func(r *memoryRun) { r.header.Scorer.Version = "" }, nil, []string{"scorer version: unknown in the base, 1 in the candidate"}},
		"scorer version of the candidate unknown": {nil, func(r *memoryRun) { r.header.Scorer.Version = "" },
			[]string{"scorer version: 1 in the base, unknown in the candidate"}},
		"scorer options": {nil, func(r *memoryRun) {
			r.header.Scorer.Options = json.RawMessage(`{"initials":false, "threshold":"0.9","new":1}`)
		}, []string{"scoring option new: unknown in the base, 1 in the candidate", `scoring option threshold: "0.85" in the base, "0.9" in the candidate`}},
		"options that are none": {nil, func(r *memoryRun) { r.header.Scorer.Options = json.RawMessage(`[`) }, []string{"scoring options"}},
		"same options, other spelling": {nil, func(r *memoryRun) {
			r.header.Scorer.Options = json.RawMessage(`{ "initials" : false, "threshold": "0.85" }`)
		}, nil},
		"harness":     {nil, func(r *memoryRun) { r.header.Harness = "answers" }, []string{"harness: extraction in the base, answers in the candidate"}},
		"unfinished":  {nil, func(r *memoryRun) { r.footer = nil }, []string{"the candidate is not complete (unfinished)"}},
		"interrupted": {func(r *memoryRun) { r.footer.Status = outcome.Interrupted }, nil, []string{"the base is not complete (interrupted); finish it with --resume"}},
		"in Langfuse": {func(r *memoryRun) { r.footer.Status = "1 of 2 items are in Langfuse" }, nil,
			[]string{"the base is not complete (1 of 2 items are in Langfuse); where its run file is, finish or publish it"}},
		"missing outcomes": {nil, func(r *memoryRun) { r.outcomes = r.outcomes[1:3] },
			[]string{"2 items without an outcome in the candidate: item-0000, item-0003"}},
		"missing in both": {func(r *memoryRun) { r.outcomes = r.outcomes[1:] }, func(r *memoryRun) { r.outcomes = r.outcomes[1:] },
			[]string{"1 item without an outcome in either run: item-0000"}},
		"missing items": {nil, func(r *memoryRun) { r.items, r.outcomes = r.items[1:], r.outcomes[1:] }, []string{"1 item only in the base: item-0000"}},
		"added items":   {func(r *memoryRun) { r.items, r.outcomes = r.items[1:], r.outcomes[1:] }, nil, []string{"1 item only in the candidate: item-0000"}},
		"changed items": {nil, func(r *memoryRun) { r.items[2].Hash = "other" }, []string{"1 item with other content: item-0002"}},
		"hash of the pdf": {meta(map[string]string{"pdf_sha256": "a"}), meta(map[string]string{"pdf_sha256": "b"}),
			[]string{"pdf_sha256: a in the base, b in the candidate"}},
		"hash of the pdf in one run": {nil, meta(map[string]string{"questions_sha256": "b"}),
			[]string{"questions_sha256: unknown in the base, b in the candidate"}},
		"the same questions, hashed in two forms": {meta(map[string]string{"questions_sha256": "a"}), meta(map[string]string{"questions_sha256": "b"}), nil},
		"other questions": {meta(map[string]string{"questions_sha256": "a"}), func(r *memoryRun) {
			r.header.Metadata, r.header.Dataset.Fingerprint = map[string]string{"questions_sha256": "b"}, "beef"
		}, []string{"fingerprint of the dataset", "questions_sha256: a in the base, b in the candidate"}},
		"answers without hashes": {func(r *memoryRun) { r.header.Harness = "answers" }, func(r *memoryRun) { r.header.Harness = "answers" },
			[]string{"pdf_sha256: unknown", "questions_sha256: unknown"}},
		"several at once": {func(r *memoryRun) { r.footer = nil }, func(r *memoryRun) { r.header.Scorer.Version, r.footer = "2", nil },
			[]string{"scorer version", "the base is not complete (unfinished)", "the candidate is not complete (unfinished)"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			base, cand := newRun("b", .1, .2, .3, .4), newRun("c", .1, .2, .3, .4)
			if tt.base != nil {
				tt.base(base)
			}
			if tt.cand != nil {
				tt.cand(cand)
			}
			out, err := Config{}.Compare(context.Background(), base, cand)
			if err != nil {
				t.Fatal(err)
			}
			r := out.Candidates[0]
			if len(r.Incompatible) != len(tt.want) {
				t.Fatalf("%v, want %d", r.Incompatible, len(tt.want))
			}
			for i, want := range tt.want {
				got := r.Incompatible[i].String()
				whole := strings.Contains(want, "version") && strings.Contains(want, "unknown") // without advice
				if !strings.Contains(got, want) || whole && got != want {
					t.Errorf("%q, want %q", got, want)
				}
			}
			checkIncompatible(t, out, len(tt.want) > 0)
		})
	}
}

// checkIncompatible checks that a result has no scores if the runs cannot be compared.
func checkIncompatible(t *testing.T, out Comparison, want bool) {
	t.Helper()
	r := out.Candidates[0]
	if (out.Err() != nil) != want || want && (cli.ExitCode(out.Err()) != cli.ExitIncompatible || len(r.Scores) > 0 || r.Verdict != Unclear) {
		t.Errorf("%v, %+v", out.Err(), r)
	}
}

// TestCompare_someIncompatible checks that the other candidates are compared.
func TestCompare_someIncompatible(t *testing.T) {
	odd := newRun("odd", .1, .2)
	odd.header.Scorer.Version = "0"
	c := Config{}
	out, err := c.Compare(context.Background(), newRun("b", .1, .2), odd, newRun("c", .1, .2))
	if err != nil || len(out.Candidates[0].Incompatible) != 1 || out.Candidates[1].Verdict != Same {
		t.Errorf("%+v, %v", out, err)
	}
	if m := itemMismatch([]string{"g", "b", "f", "a", "c", "e", "d"}, "lost")[0]; m.What != "7 items lost: a, b, c, d, e and 2 more" {
		t.Error(m.What)
	}
	if _, err := c.Compare(context.Background(), newRun("b", 1)); err == nil {
		t.Error("no candidate is not an error")
	}
}

// TestCompare_evaluators compares a score of an external evaluator. A difference is only claimed
// if both runs asked the same evaluator and it always answered.
func TestCompare_evaluators(t *testing.T) {
	of := func(fingerprint string, scores ...float64) *memoryRun {
		run := newRun(fingerprint, scores...)
		run.header.Scorer.Custom = []outcome.CustomScorer{{Name: "f1", Evaluator: "sh judge.sh", Fingerprint: fingerprint}}
		return run
	}
	low, high := []float64{.1, .1, .2, .1, .1, .2, .1, .1}, []float64{.8, .9, .9, .8, .9, .8, .9, .8}
	gate := Gate{Rules: []Rule{mustRule(t, "f1 > base"), mustRule(t, "f1 >= base - 1")}, MinDelta: new(float64), MaxRegressions: new(int)}
	for name, tt := range map[string]struct {
		base, cand *memoryRun
		answer     Answer
		says       string
	}{
		"one evaluator":     {of("one", low...), of("one", high...), Pass, ""},
		"another evaluator": {of("one", low...), of("two", high...), Inconclusive, "f1 comes from another evaluator"},
		"no answer": {of("one", low...), of("one", append([]float64{undefined}, high[1:]...)...), Inconclusive,
			"f1 has no value for 1 of 8 items of the candidate: the evaluator gave none"},
		"no answer in the base": {of("one", append([]float64{undefined}, low[1:]...)...), of("one", high...), Inconclusive, "1 of 8 items of the base"},
		"no answer in both": {of("one", append([]float64{undefined}, low[1:]...)...), of("one", append([]float64{undefined, undefined}, high[2:]...)...),
			Inconclusive, "f1 has no value for 1 of 8 items of the base and 2 of 8 items of the candidate: the evaluator gave none"},
	} {
		r := mustCompare(t, Config{Gate: gate}, tt.base, tt.cand)
		for _, rule := range r.Gate.Rules {
			if want := tt.answer; rule.Answer != want || !strings.Contains(rule.Reason, tt.says) {
				t.Errorf("%s: %+v, want %s", name, rule, want)
			}
		}
		if s := primaryOf(t, r); (s.Verdict == Better) != (tt.says == "") {
			t.Errorf("%s: the verdict is %s", name, s.Verdict)
		}
		if tt.says != "" && !strings.Contains(strings.Join(r.Warnings, "\n"), tt.says) {
			t.Errorf("%s: no warning in %q", name, r.Warnings)
		}
	}
}

// TestCompare_bounds checks that the interval of a score from 0 to 1 is limited to -1 and 1, and
// that of other scores is not.
func TestCompare_bounds(t *testing.T) {
	r := mustCompare(t, Config{}, newRun("b", 0, 1), newRun("c", 1, 0.5))
	// differences 1 and -0.5: 0.25 ± 12.7·1.0607/√2 = 9.5
	if s := primaryOf(t, r); *s.CI95 != [2]float64{-1, 1} {
		t.Errorf("%v", *s.CI95)
	}
	r = mustCompare(t, Config{}, newRun("b", 0, 1.5), newRun("c", 1, 0.5))
	if s := primaryOf(t, r); s.CI95[0] > -2 || s.CI95[1] < 2 {
		t.Errorf("%v", *s.CI95)
	}
}
