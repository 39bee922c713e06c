package compare

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"extraction-experiment/outcome"

	"pgregory.net/rapid"
)

// memoryRun is a Source in memory.
type memoryRun struct {
	name       string
	header     outcome.Header
	footer     *outcome.Footer
	items      []Item
	outcomes   []outcome.Outcome
	unreadable error
}

func (m *memoryRun) Where() string                                  { return m.name + ".run" }
func (m *memoryRun) Header(context.Context) (outcome.Header, error) { return m.header, nil }
func (m *memoryRun) Items(context.Context) iter.Seq2[Item, error]   { return each(m.items, m.unreadable) }
func (m *memoryRun) Outcomes(context.Context) iter.Seq2[outcome.Outcome, error] {
	return each(m.outcomes, m.unreadable)
}

func (m *memoryRun) Footer(context.Context) (outcome.Footer, bool, error) {
	if m.footer == nil {
		return outcome.Footer{}, false, nil
	}
	return *m.footer, true, nil
}

func each[T any](list []T, err error) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for _, x := range list {
			if !yield(x, nil) {
				return
			}
		}
		if err != nil {
			var none T
			yield(none, err)
		}
	}
}

// newRun returns a complete run with one item per score: f1 with its ratio in hundredths.
// undefined is an undefined value, failed a failed item.
func newRun(name string, scores ...float64) *memoryRun {
	m := &memoryRun{name: name}
	m.header = outcome.Header{
		Name: name, Harness: "extraction", Trials: 1,
		Dataset: outcome.Dataset{Name: "docs", Fingerprint: "f00d"},
		Scorer:  outcome.Scorer{Version: "1", Options: json.RawMessage(`{"threshold":"0.85","initials":false}`), Primary: "f1"},
	}
	for i, v := range scores {
		id := fmt.Sprintf("item-%04d", i)
		m.items = append(m.items, Item{ID: id, Hash: "h" + id, Metadata: json.RawMessage(fmt.Sprintf(`{"source":{"doc":"d%d"}}`, i/4))})
		m.outcomes = append(m.outcomes, newOutcome(id, v))
	}
	m.footer = &outcome.Footer{Status: outcome.Complete, Planned: len(scores)}
	return m
}

const failed = -1

func newOutcome(id string, v float64) outcome.Outcome {
	cost := 0.01
	o := outcome.Outcome{Item: id, Trial: 1, Attempt: 1, Latency: 100 * time.Millisecond, CostUSD: &cost}
	o.Output = fmt.Appendf(nil, `{"value":"%v"}`, v)
	switch {
	case v == failed:
		o.Class = outcome.Timeout
		o.Failure = &outcome.Failure{Class: outcome.Timeout, Message: "no answer"}
		o.Scores = []outcome.Score{{Name: "f1", Reason: "the item failed"}, yesNoScore("error", true)}
	case v != v:
		o.Scores = []outcome.Score{{Name: "f1", Reason: "undefined"}, yesNoScore("error", false)}
	default:
		num := int64(v*100 + 0.5)
		o.Scores = []outcome.Score{
			{Name: "f1", Value: &v, Ratio: &outcome.Ratio{Num: num, Den: 100}, Comment: fmt.Sprintf("%d matched", num)},
			yesNoScore("perfect", v == 1), yesNoScore("error", false),
		}
		o.Groups = []outcome.Group{{Kind: "entity_type", Name: "Person", Expected: 100, Extracted: 100, Matched: num}}
		o.Explanation, _ = json.Marshal(slices.Repeat([]string{"Ada"}, int(num/10)))
	}
	return o
}

func yesNoScore(name string, is bool) outcome.Score {
	v := 0.0
	if is {
		v = 1
	}
	return outcome.Score{Name: name, Value: &v, Boolean: true}
}

// matchesOf reads the explanations that newOutcome writes.
func matchesOf(raw json.RawMessage) (lines []string, err error) {
	return lines, json.Unmarshal(raw, &lines)
}

// mustCompare compares two runs, and fails on an error.
func mustCompare(t interface {
	Helper()
	Fatal(...any)
}, cfg Config, base, cand *memoryRun) Result {
	t.Helper()
	out, err := cfg.Compare(context.Background(), base, cand)
	if err != nil {
		t.Fatal(err)
	}
	return out.Candidates[0]
}

func primaryOf(t *testing.T, r Result) Score {
	t.Helper()
	if len(r.Scores) == 0 || !r.Scores[0].Primary {
		t.Fatalf("no primary score comes first: %+v", r)
	}
	return r.Scores[0]
}

// TestCompare_hostile checks that there is a result for any outcomes, and that all its numbers
// are finite.
func TestCompare_hostile(t *testing.T) {
	number := rapid.SampledFrom([]float64{0, 1, -1, 0.5, math.NaN(), math.Inf(1), math.Inf(-1), math.MaxFloat64, -1e150, 1e-320})
	count := rapid.SampledFrom([]int64{0, 1, 7, -1, math.MaxInt64, math.MinInt64, 1 << 31})
	draw := rapid.Custom(func(t *rapid.T) outcome.Score {
		v := number.Draw(t, "value")
		s := outcome.Score{Name: rapid.SampledFrom([]string{"f1", "", "error", "x"}).Draw(t, "name"), Value: &v, Boolean: rapid.Bool().Draw(t, "boolean")}
		if rapid.Bool().Draw(t, "ratio") {
			s.Ratio = &outcome.Ratio{Num: count.Draw(t, "num"), Den: count.Draw(t, "den")}
		}
		if rapid.Bool().Draw(t, "nil") {
			s.Value = nil
		}
		return s
	})
	rapid.Check(t, func(t *rapid.T) {
		base, cand := newRun("b", make([]float64, 8)...), newRun("c", make([]float64, 8)...)
		for _, run := range []*memoryRun{base, cand} {
			for i := range run.outcomes {
				o := &run.outcomes[i]
				o.Scores = append(o.Scores[:1], rapid.SliceOfN(draw, 0, 5).Draw(t, "scores")...)
				cost := number.Draw(t, "cost")
				o.CostUSD, o.Latency = &cost, time.Duration(count.Draw(t, "latency"))
				o.Groups = []outcome.Group{{Kind: "k", Name: "n", Expected: count.Draw(t, "e"), Extracted: count.Draw(t, "x"), Matched: count.Draw(t, "m")}}
				if rapid.Bool().Draw(t, "fails") {
					o.Class = "odd"
				}
			}
		}
		rule, _ := ParseRule("f1 >= base")
		r := mustCompare(t, Config{ClusterBy: rapid.SampledFrom([]string{"", "source.doc"}).Draw(t, "key"), Gate: Gate{Rules: []Rule{rule}}}, base, cand)
		// encoding/json refuses NaN and infinities.
		if _, err := json.Marshal(r.Scores); err != nil {
			t.Fatal(err)
		}
		if _, err := json.Marshal([]any{r.Cost, r.Latency, r.Groups, r.YesNo, r.Changed, r.Regressed, r.Gate}); err != nil {
			t.Fatal(err)
		}
	})
}

func TestCompare_sourceErrors(t *testing.T) {
	broken := newRun("broken", 1, 1)
	broken.unreadable = errors.New("the disk is gone")
	unordered := newRun("unordered", 1, 1, 1)
	slices.Reverse(unordered.outcomes)
	repeated := newRun("repeated", 1, 1, 1)
	repeated.outcomes = slices.Insert(repeated.outcomes, 1, repeated.outcomes[1])
	repeated.outcomes[1] = repeated.outcomes[0]
	for name, tt := range map[string]struct {
		base, cand *memoryRun
		want       string
	}{
		"base":      {broken, newRun("c", 1, 1), "disk is gone"},
		"candidate": {newRun("b", 1, 1), broken, "disk is gone"},
		"order":     {newRun("b", 1, 1, 1), unordered, "in order of their ids"},
		"twice":     {newRun("b", 1, 1, 1), repeated, "must come once"},
	} {
		if _, err := (Config{}).Compare(context.Background(), tt.base, tt.cand); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
