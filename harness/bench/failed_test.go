package bench_test

import (
	"strings"
	"testing"

	"extraction-experiment/harness/bench"
)

// TestFailedCalls: a system that is dead is not without faults, one that fails
// now and then is judged by all of its calls. Case q expects nothing.
//
// Half: p is answered in trial 1 and q in trial 2. Success 1/2 and 1/2, coverage
// (1 + 0 + 0 + 1)/4. Both cases drift; they have outcomes in both trials, whose
// keys share nothing: 0/1.
func TestFailedCalls(t *testing.T) {
	for name, c := range map[string]struct {
		p, q                                 [][]string
		failed, code                         int
		schema, stability, success, coverage float64
	}{
		"dead":    {[][]string{{"fail"}, {"fail"}}, [][]string{{"fail"}, {"fail"}}, 4, 69, 0, 0, 0, 0},
		"half":    {[][]string{{"a"}, {"fail"}}, [][]string{{"fail"}, {}}, 2, 4, 1, 0, 0.5, 0.5},
		"none":    {[][]string{{"a"}, {"a"}}, [][]string{{}, {}}, 0, 0, 1, 1, 1, 1},
		"nothing": {[][]string{{}, {}}, [][]string{{}, {}}, 0, 0, 1, 1, 0.5, 0.5},
	} {
		n := &noisy{calls: map[string]int{}, answers: map[string][][]string{"a b": c.p, "x y": c.q}}
		r, err := bench.Run(t.Context(), bench.Config{Cases: cases(t, line("p", "a b", "a"), line("q", "x y")), Trials: 2, Answerer: n})
		if err != nil {
			t.Fatal(err)
		}
		if r.FailedCalls != c.failed || r.SchemaValidRate != c.schema || r.QuoteInvariantRate != c.schema ||
			r.UniqueExtractionStability != c.stability || r.SuccessRate != c.success || r.CoverageRate != c.coverage {
			t.Errorf("%s: %+v", name, r)
		}
		code := 0
		if err := r.Err(); err != nil {
			code = err.(interface{ ExitCode() int }).ExitCode()
			if !strings.Contains(err.Error(), "of 4 calls failed") || !strings.Contains(err.Error(), "nobody there") {
				t.Errorf("%s: %v", name, err)
			}
		}
		var text strings.Builder
		if err := r.WriteText(&text); err != nil {
			t.Fatal(err)
		}
		if code != c.code || strings.Contains(text.String(), "nobody there") != (c.failed > 0) {
			t.Errorf("%s: exit code %d, want %d\n%s", name, code, c.code, &text)
		}
	}
}
