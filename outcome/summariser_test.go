package outcome

import (
	"encoding/json"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"extraction-experiment/internal/testkit/suite"
)

func ratio(name string, num, den int64) Score {
	return Score{Name: name, Value: new(float64(num) / float64(den)), Ratio: &Ratio{num, den}}
}

func header() Header {
	return Header{Name: "r1", Trials: 1, Scorer: Scorer{Version: "1", Primary: "f1"}}
}

// fourOutcomes returns two scored items, one with nothing to find, and one that failed and also
// had nothing to find.
func fourOutcomes() []Outcome {
	ok := Score{Name: ErrorScore, Value: new(0.0), Boolean: true}
	return []Outcome{
		{Item: "a", Seq: 1, Latency: 100 * time.Millisecond, Usage: Usage{Input: 10, Output: 1}, CostUSD: new(0.1),
			Scores: []Score{ok, ratio("f1", 1, 2), ratio("type_accuracy", 3, 4)},
			Detail: Detail{Groups: []Group{{"entity_type", "Person", 2, 1, 1}, {"entity_type", "Place", 0, 1, 0}}}},
		{Item: "b", Seq: 2, Latency: 200 * time.Millisecond, Usage: Usage{Input: 20, Output: 2, Cached: 5}, CostUSD: new(0.2),
			Scores: []Score{ok, ratio("f1", 6, 8), {Name: "type_accuracy", Reason: "nothing matched"}},
			Detail: Detail{Groups: []Group{{"entity_type", "Person", 1, 2, 1}}}},
		{Item: "c", Seq: 3, Latency: 400 * time.Millisecond, Usage: Usage{Input: 30, Output: 3},
			Scores: []Score{ok, {Name: "f1", Value: new(1.0), Ratio: &Ratio{0, 0}, Vacuous: true}}},
		{Item: "d", Seq: 4, Class: Timeout, Latency: 800 * time.Millisecond,
			Scores: []Score{{Name: ErrorScore, Value: new(1.0), Boolean: true, Comment: "timeout: too slow"}, {Name: "f1"}, {Name: "type_accuracy"}},
			Detail: Detail{Failure: &Failure{Timeout, "no answer within 800ms"}, NothingExpected: true}},
	}
}

// TestSummary_nothingToFind checks that an item of which only relationships are expected has something to find, also
// if its primary score, of the entities, is vacuous.
func TestSummary_nothingToFind(t *testing.T) {
	vacuous := Score{Name: "f1", Value: new(1.0), Ratio: &Ratio{0, 0}, Vacuous: true}
	ok := Score{Name: ErrorScore, Value: new(0.0), Ratio: &Ratio{0, 1}, Boolean: true}
	for want, o := range map[int]Outcome{
		0: {Item: "a", Scores: []Score{vacuous, ratio("relationship_recall", 0, 3), ok}},
		1: {Item: "b", Scores: []Score{vacuous, ok}}, // as earlier versions recorded it
	} {
		s := NewSummariser(header(), SummaryConfig{})
		s.Add(o)
		if got := s.Summary().Items.NothingToFind; got != want {
			t.Errorf("%s: %d, want %d", o.Item, got, want)
		}
	}
}

func TestSummary_byHand(t *testing.T) {
	s := NewSummariser(header(), SummaryConfig{Order: []string{"f1", "never_seen", "f1"}})
	for _, o := range fourOutcomes() {
		s.Add(o)
	}
	got := s.Summary()
	approx := cmpopts.EquateApprox(0, 1e-12)

	if diff := cmp.Diff(Items{Planned: 4, Scored: 3, Failed: 1, NothingToFind: 2}, got.Items); diff != "" {
		t.Error(diff)
	}
	// f1: values 1/2, 3/4, 1: mean 9/4/3 = 3/4. With a 0 the mean is 9/16, the variance
	// 35/256/5, the size 8: the 2.5 % point of the beta distribution of 4.5 and 3.5.
	// With a 1 it is that of 97.5 % of 13.5909 and 3.1364.
	// failures as zero: 9/4 over 3+1 = 0.5625; pooled (1+6+0)/(2+8+0) = 0.7
	// Their interval with a 0: mean 0.45, variance 0.16/6, size 8.28125: beta of 3.7266 and
	// 4.5547; with a 1: mean 0.65, variance 0.14/6, size 8.75: beta of 5.6875 and 3.0625.
	// error: 0 0 0 1: from 1 − 0.975^(1/4) to the p of (1−p)⁴ + 4p(1−p)³ = 0.025
	want := Stats{
		{Name: "f1", Mean: new(0.75), N: 3, CI95: &[2]float64{0.2345012493, 0.9546942328}, Min: new(0.5), Max: new(1.0),
			FailuresAsZero: new(0.5625), CI95AsZero: &[2]float64{0.1514745003644, 0.9075609028572}, Pooled: new(0.7), Failed: 1, Vacuous: 1},
		{Name: "error", Mean: new(0.25), N: 4, CI95: &[2]float64{1 - math.Pow(0.975, 0.25), 0.8058795503}, Min: new(0.0), Max: new(1.0),
			FailuresAsZero: new(0.25), CI95AsZero: &[2]float64{1 - math.Pow(0.975, 0.25), 0.8058795503}},
		// one value: no interval; as zero 3/4 over 1+1
		{Name: "type_accuracy", Mean: new(0.75), N: 1, Min: new(0.75), Max: new(0.75),
			FailuresAsZero: new(0.375), CI95AsZero: &[2]float64{0.0152137195551, 0.9371108985113}, Pooled: new(0.75), Failed: 1, Undefined: 1},
	}
	if diff := cmp.Diff(want, got.Scores, cmpopts.EquateApprox(0, 1e-9)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]FailureCount{{Timeout, 1, []FailedItem{{ID: "d", Message: "no answer within 800ms"}}}}, got.Failures); diff != "" {
		t.Error(diff)
	}
	// 0.1 + 0.2 is exactly summed and then rounded: the float64 next to 0.3
	if diff := cmp.Diff(UsageSum{Input: 60, Output: 6, Total: 66, Cached: 5, CostUSD: new(0.3), CostUnknown: 2}, got.Usage, approx); diff != "" {
		t.Error(diff)
	}
	// 100 200 400 800: p50 at h = 1.5: 300; p95 at h = 2.85: 400+0.85·400 = 740; mean 1500/4
	if diff := cmp.Diff(&Latencies{N: 4, P50: 300, P95: 740, Mean: 375, Max: 800}, got.LatencyMS, approx); diff != "" {
		t.Error(diff)
	}
	wantGroups := []GroupStat{
		{Group{"entity_type", "Person", 3, 3, 2}, new(2.0 / 3), new(2.0 / 3), new(2.0 / 3)}, // F1 4/6
		{Group{"entity_type", "Place", 0, 1, 0}, new(0.0), new(0.0), new(0.0)},
	}
	if diff := cmp.Diff(wantGroups, got.Groups, approx); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]WorstItem{{ID: "a", Score: 0.5}, {ID: "b", Score: 0.75}}, got.Worst); diff != "" {
		t.Error(diff)
	}
}

// TestSummary_failuresAsZero checks the mean and interval with failures as 0 for 20 items, of which
// half fail and the others have 0.8 or 1. A score of OutputOnly has none.
func TestSummary_failuresAsZero(t *testing.T) {
	for _, trials := range []int{1, 2} {
		h := header()
		h.Trials, h.Scorer.OutputOnly = trials, []string{"grounded_rate"}
		s := NewSummariser(h, SummaryConfig{})
		for i := range 20 {
			o := Outcome{Item: string(rune('a' + i)), Trial: 1, Class: Timeout, Scores: []Score{{Name: "f1"}}}
			if i < 10 {
				value := new(0.8 + 0.2*float64(i%2))
				o.Class, o.Scores = OK, []Score{{Name: "f1", Value: value}, {Name: "grounded_rate", Value: value}}
			}
			s.Add(o)
		}
		stats := s.Summary().Scores
		// 10 zeros, 5 of 0.8, 5 of 1: mean 9/20. With one more 0: 3/7, variance (8.2/21 −
		// 9/49)/22; with one more 1: 10/21, (9.2/21 − 100/441)/22. The beta distributions
		// of 10.7368 and 14.3158, and of 11.8884 and 13.0773.
		f1, _ := stats.Lookup("f1")
		if diff := cmp.Diff(&[2]float64{0.24573502466, 0.66833162135}, f1.CI95AsZero, cmpopts.EquateApprox(0, 1e-9)); diff != "" || math.Abs(*f1.FailuresAsZero-0.45) > 1e-9 {
			t.Errorf("%d trials: %v, %s", trials, *f1.FailuresAsZero, diff)
		}
		if g, _ := stats.Lookup("grounded_rate"); g.FailuresAsZero != nil || g.CI95AsZero != nil || math.Abs(*g.Mean-0.9) > 1e-9 || g.N != 10 {
			t.Errorf("%d trials: %+v", trials, g)
		}
	}
}

func TestGroup_Stat_nothing(t *testing.T) {
	if diff := cmp.Diff(GroupStat{Group: Group{Kind: "entity_type", Name: "city"}}, Group{Kind: "entity_type", Name: "city"}.Stat()); diff != "" {
		t.Error(diff)
	}
}

func TestSummary_pooled(t *testing.T) {
	vacuous := Score{Name: "f1", Value: new(1.0), Ratio: &Ratio{0, 0}, Vacuous: true}
	missed := Score{Name: "f1", Value: new(0.0), Ratio: &Ratio{0, 0}} // nothing extracted, something expected
	tests := map[string]struct {
		scores []Score
		want   *float64
	}{
		"no value":                  {[]Score{{Name: "f1"}}, nil},
		"a value without its ratio": {[]Score{ratio("f1", 1, 2), {Name: "f1", Value: new(1.0)}}, nil},
		"undefined beside defined":  {[]Score{ratio("f1", 1, 2), {Name: "f1"}}, new(0.5)},
		"nothing to find anywhere":  {[]Score{vacuous, vacuous}, new(1.0)},
		"nothing extracted":         {[]Score{vacuous, missed}, new(0.0)},
		"different sizes":           {[]Score{ratio("f1", 1, 1), ratio("f1", 0, 3)}, new(0.25)},
		"a negative count":          {[]Score{{Name: "f1", Value: new(1.0), Ratio: &Ratio{-1, 2}}}, nil},
		"an absurd count":           {[]Score{{Name: "f1", Value: new(1.0), Ratio: &Ratio{1, math.MaxInt64}}}, nil},
	}
	for name, tt := range tests {
		s := NewSummariser(header(), SummaryConfig{})
		for _, score := range tt.scores {
			s.Add(Outcome{Scores: []Score{score}})
		}
		stat, _ := s.Summary().Scores.Lookup("f1")
		if diff := cmp.Diff(tt.want, stat.Pooled); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestSummary_nothing(t *testing.T) {
	got := NewSummariser(Header{}, SummaryConfig{}).Summary()
	raw, err := json.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"scores":{}`, `"failures":[]`, `"groups":[]`, `"worst":[]`, `"latency_ms":null`, `"cost_usd":null`, `"status":"unfinished"`, `"warnings":[]`} {
		if !strings.Contains(string(raw), want) {
			t.Errorf("%s is missing in %s", want, raw)
		}
	}
}

func TestSummary_allFailed(t *testing.T) {
	scores := []Score{{Name: ErrorScore, Value: new(1.0), Comment: "provider: 500"}, {Name: "f1"}}
	got := summarise([]Outcome{{Item: "a", Class: Provider, Scores: scores}})
	stat, _ := got.Scores.Lookup("f1")
	// no item succeeded: no mean, but 0 over 0+1 with failures as zero
	if diff := cmp.Diff(Stat{Name: "f1", FailuresAsZero: new(0.0), Failed: 1}, stat); diff != "" {
		t.Error(diff)
	}
	if got.Failures[0].Items[0].Message != "provider: 500" {
		t.Errorf("without a Failure the message is %q, want the error score's comment", got.Failures[0].Items[0].Message)
	}
	if len(got.Worst) != 0 {
		t.Errorf("a failed item is among the worst: %v", got.Worst)
	}
}

// TestSummary_notCounted checks the warning about failed outcomes whose expected output defines no score, so that
// they do not count as 0, and the one about other outcomes without the score.
func TestSummary_notCounted(t *testing.T) {
	s := NewSummariser(header(), SummaryConfig{})
	for _, o := range []Outcome{
		{Item: "scored", Scores: []Score{{Name: "f1", Value: new(1.0)}}},
		{Item: "no gold"},
		{Item: "failed", Class: Provider, Scores: []Score{{Name: "f1"}}},
		{Item: "failed, bad gold", Class: Item},
	} {
		s.Add(o)
	}
	// the mean with failures as 0 is over "scored" and "failed" only
	got := s.Summary()
	want := []string{"no f1, not even 0, for 1 of 2 failed outcomes: their expected output is missing or cannot be used",
		"no f1 for 1 of 2 outcomes that did not fail: their expected output is missing or says nothing of it"}
	if f1, _ := got.Scores.Lookup("f1"); *f1.FailuresAsZero != 0.5 || !slices.Equal(got.Warnings, want) {
		t.Errorf("%v, %q", *f1.FailuresAsZero, got.Warnings)
	}
}

// TestSummary_workers checks that a worker whose items fail where those of the others do not is named,
// and that chance is not taken for a reason.
func TestSummary_workers(t *testing.T) {
	type work struct {
		worker       string
		done, failed int
	}
	const broken = "of 34 failures of class provider, 34 come from worker b, which did 34 of 38 outcomes: " +
		"its machine may be the reason"
	const often = "of 23 failures of class provider, 20 come from worker b, which did 50 of 150 outcomes: " +
		"its machine may be the reason"
	for name, c := range map[string]struct {
		work []work
		want []string
	}{
		"broken":        {[]work{{"a", 4, 0}, {"b", 34, 34}}, []string{broken}},
		"often":         {[]work{{"a", 100, 3}, {"b", 50, 20}}, []string{often}},
		"chance":        {[]work{{"a", 150, 0}, {"b", 150, 5}}, nil},
		"only one":      {[]work{{"a", 38, 30}}, nil},
		"all alike":     {[]work{{"a", 50, 20}, {"b", 50, 21}}, nil},
		"no worker yet": {[]work{{"", 20, 20}, {"a", 30, 0}}, nil},
	} {
		s := NewSummariser(Header{}, SummaryConfig{})
		for _, w := range c.work {
			for i := range w.done {
				o := Outcome{Item: fmt.Sprint(w.worker, i), Detail: Detail{Worker: w.worker}}
				if i < w.failed {
					o.Class = Provider
				}
				s.Add(o)
			}
		}
		if got := s.Summary().Warnings; !slices.Equal(got, c.want) {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// TestSummary_reason: of several reasons the same one is shown in any order.
func TestSummary_reason(t *testing.T) {
	outcomes := []Outcome{{Item: "a", Scores: []Score{{Name: "f1", Reason: "second"}}}, {Item: "b", Scores: []Score{{Name: "f1", Reason: "first"}}}}
	for range 2 {
		s := NewSummariser(header(), SummaryConfig{})
		for _, o := range outcomes {
			s.Add(o)
		}
		if got := s.Summary().Warnings; len(got) != 1 || !strings.HasSuffix(got[0], ": first") {
			t.Errorf("%q", got)
		}
		slices.Reverse(outcomes)
	}
}

func TestSummary_hostileScores(t *testing.T) {
	s := NewSummariser(header(), SummaryConfig{})
	for _, v := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), 1e300, -1e300, 0.5} {
		s.Add(Outcome{Item: "x", Usage: Usage{Input: math.MaxInt64, Output: -7}, Scores: []Score{{Name: "f1", Value: new(v)}, {Name: "f1", Value: new(0.0)}},
			Detail: Detail{Groups: []Group{{Kind: "k", Name: "n", Expected: -5}, {Kind: "k", Name: "n", Expected: math.MaxInt64}}}})
	}
	got := s.Summary()
	stat, _ := got.Scores.Lookup("f1")
	if stat.N != 1 || *stat.Mean != 0.5 || stat.Undefined != 5 {
		t.Errorf("%d values with mean %v, %d undefined; want 1, 0.5, 5", stat.N, *stat.Mean, stat.Undefined)
	}
	if got.Usage.Input <= 0 || got.Usage.Output != 0 || got.Usage.Total != got.Usage.Input {
		t.Errorf("tokens %+v", got.Usage)
	}
	if len(got.Worst) != 1 || len(got.Groups) != 0 || len(got.Warnings) != 2 {
		t.Errorf("worst %v, groups %v, warnings %q", got.Worst, got.Groups, got.Warnings)
	}
	if _, err := json.Marshal(got); err != nil {
		t.Error(err)
	}
}

// TestGroup_Add checks that a group with a negative or absurd count is not added.
func TestGroup_Add(t *testing.T) {
	g := Group{Kind: "k", Name: "n", Expected: 1, Extracted: 2, Matched: 1}
	for _, odd := range []Group{{Expected: -1}, {Extracted: -1}, {Matched: -1}, {Expected: maxCount + 1}, {Extracted: maxCount + 1}, {Matched: maxCount + 1}} {
		if g.Add(odd) || g != (Group{"k", "n", 1, 2, 1}) {
			t.Errorf("%+v was added: %+v", odd, g)
		}
	}
	if !g.Add(Group{Expected: 3, Extracted: 4, Matched: 2}) || g != (Group{"k", "n", 4, 6, 3}) {
		t.Errorf("%+v", g)
	}
}

// TestSummary_evaluators checks the warnings about each evaluator.
func TestSummary_evaluators(t *testing.T) {
	h := header()
	h.Scorer.Custom = []CustomScorer{{Name: "tone", Evaluator: "t", Uncertified: "it was never asked"}, {Name: "style", Evaluator: "s", Weak: "of 3 cases"}, {Name: "old", Carried: "r0"}, {Name: "fine"}}
	want := []string{
		"tone comes from an external evaluator that is not certified (t): it was never asked",
		"style comes from an external evaluator whose certificate says little (s): of 3 cases",
		"old was taken over from the run r0: the evaluator was not asked again",
	}
	if diff := cmp.Diff(want, NewSummariser(h, SummaryConfig{}).Summary().Warnings); diff != "" {
		t.Error(diff)
	}
}

// TestStats_Lead checks that the mean with failures as 0 leads if any score of the run owes a
// value.
func TestStats_Lead(t *testing.T) {
	f1 := Stat{Name: "f1", Mean: new(0.8), CI95: &[2]float64{0.7, 0.9}, FailuresAsZero: new(0.4), CI95AsZero: &[2]float64{0.3, 0.5}}
	whole := Stat{Name: "whole", Mean: new(0.5), FailuresAsZero: new(0.5)}
	for name, tt := range map[string]struct {
		stats Stats
		zero  bool
	}{
		"nothing failed":               {Stats{whole, {Name: "grounded_rate", Mean: new(1.0)}, {Name: "none", FailuresAsZero: new(0.0)}}, false},
		"an item failed":               {Stats{whole, {Failed: 1}}, true},
		"an evaluator gave no value":   {Stats{whole, {Unanswered: 1}}, true},
		"one trial of several, of one": {Stats{whole, f1}, true},
	} {
		mean, ci := tt.stats.Lead(f1)
		if want := map[bool]float64{true: 0.4, false: 0.8}[tt.zero]; *mean != want || ci[0] != map[bool]float64{true: 0.3, false: 0.7}[tt.zero] {
			t.Errorf("%s: %v %v", name, *mean, *ci)
		}
	}
	if _, found := (Stats{whole}).Lookup("f1"); found {
		t.Error("a score that is not there was found")
	}
}

func TestStats_UnmarshalJSON(t *testing.T) {
	for raw, wrong := range map[string]string{`[1]`: "an object is expected, not [1]", `3`: "an object is expected, not 3", `{"f1":{"n":"many"}}`: `score "f1": `} {
		var s Stats
		if err := json.Unmarshal([]byte(raw), &s); err == nil || !strings.Contains(err.Error(), wrong) {
			t.Errorf("%s: %v", raw, err)
		}
	}
	s := Stats{{Name: "f1"}}
	if err := json.Unmarshal([]byte(`{"scores":null}`), &struct{ Scores *Stats }{&s}); err != nil {
		t.Error(err)
	}
	if err := s.UnmarshalJSON([]byte("null")); err != nil || s != nil {
		t.Errorf("null: %v, %v", s, err)
	}
}

func TestSummary_finish(t *testing.T) {
	got := summarise(fourOutcomes())
	ended := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	got.Finish(Footer{Status: Interrupted, Planned: 10, Ended: ended})
	if got.Status != Interrupted || got.Items.Planned != 10 || got.Items.NotRun() != 6 || !got.Run.Ended.Equal(ended) {
		t.Errorf("%s, %+v, ended %v", got.Status, got.Items, got.Run.Ended)
	}
	// The number of planned items is never lower than that of the outcomes.
	if got.Finish(Footer{Status: Interrupted}); got.Items.Planned != 4 || got.Items.NotRun() != 0 {
		t.Errorf("%+v", got.Items)
	}
}

func TestSummary_longMessagesAreCut(t *testing.T) {
	sum := summarise([]Outcome{{Class: Internal, Detail: Detail{Failure: &Failure{Internal, strings.Repeat("é", 5000)}}}})
	message := sum.Failures[0].Items[0].Message
	if want := strings.Repeat("é", 500) + "…"; message != want {
		t.Errorf("message of %d bytes, want %d", len(message), len(want))
	}
}

// TestSummary_classes checks that failures are in the order of Classes, and others behind them.
func TestSummary_classes(t *testing.T) {
	var list []Outcome
	for _, class := range []Class{"z", Item, "odd", Provider, Timeout} {
		list = append(list, Outcome{Item: string(class), Class: class, Detail: Detail{Failure: &Failure{Class: class}}})
	}
	var got []Class
	for _, f := range summarise(list).Failures {
		got = append(got, f.Class)
	}
	if diff := cmp.Diff([]Class{Timeout, Provider, Item, "odd", "z"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestSummariser_memoryDoesNotGrow(t *testing.T) {
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	s := NewSummariser(header(), SummaryConfig{})
	add := func(n int) {
		for i := range n {
			o := fourOutcomes()[i%4]
			o.Latency = 0
			s.Add(o)
		}
	}
	add(100)
	before := heap()
	n := suite.SampleOr(20_000, 100_000)
	add(n)
	if after := heap(); after > before+64<<10 {
		t.Errorf("the heap grew by %d bytes over %d outcomes", after-before, n)
	}
	runtime.KeepAlive(s)
}

func BenchmarkSummariserAdd(b *testing.B) {
	outcomes := fourOutcomes()
	s := NewSummariser(header(), SummaryConfig{})
	for i := 0; b.Loop(); i++ {
		s.Add(outcomes[i%4])
	}
}
