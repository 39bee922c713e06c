package compare

import (
	"context"
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"

	"extraction-experiment/internal/cli"
	"extraction-experiment/outcome"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

// undefined is an undefined value in newRun.
var undefined = math.NaN()

func near(p *float64, want float64) bool { return p != nil && math.Abs(*p-want) < 1e-12 }

func TestCompare_byHand(t *testing.T) {
	// Eight items: differences 0.1 0.2 0 −0.1 0.1 0.1 and a failure on each
	// side, 0.6 − 0 and 0 − 0.5.
	base := newRun("b", 0.5, 0.5, 1, 0.6, 0.4, 0.4, failed, 0.5)
	cand := newRun("c", 0.6, 0.7, 1, 0.5, 0.5, 0.5, 0.6, failed)
	r := mustCompare(t, Config{}, base, cand)
	s := primaryOf(t, r)
	// Base (0.5+0.5+1+0.6+0.4+0.4+0+0.5)/8 = 3.9/8, candidate 4.4/8.
	if s.N != 8 || !near(s.Base, 3.9/8) || !near(s.Candidate, 4.4/8) || !near(s.Difference, 0.5/8) {
		t.Errorf("means %v %v, difference %v", *s.Base, *s.Candidate, *s.Difference)
	}
	if s.Wins != 5 || s.Losses != 2 || s.Ties != 1 || s.Verdict != Unclear {
		t.Errorf("%d wins, %d losses, %d ties, %s", s.Wins, s.Losses, s.Ties, s.Verdict)
	}
	// Σd = 0.5, mean 0.0625; Σd² = 0.01+0.04+0+0.01+0.01+0.01+0.36+0.25 = 0.69;
	// variance (0.69 − 8·0.0625²)/7 = 0.65875/7; SE = √(that/8) = 0.10846.
	if !near(s.SE, math.Sqrt(0.65875/7/8)) {
		t.Errorf("SE %v", *s.SE)
	}
	// t(0.975, 7) = 2.364624
	if half := 2.364624 * *s.SE; math.Abs(s.CI95[0]-(0.0625-half)) > 1e-6 || math.Abs(s.CI95[1]-(0.0625+half)) > 1e-6 {
		t.Errorf("interval %v", *s.CI95)
	}
	if !s.PExact || s.P == nil || !near(s.PHolm, *s.P) {
		t.Errorf("p %v, exact %v, corrected %v", s.P, s.PExact, s.PHolm)
	}
	// and t(0.8, 7) = 0.896030
	if found := 3.260654 * *s.SE; s.Detectable == nil || math.Abs(*s.Detectable-found) > 1e-6 || s.Needed == nil || *s.Needed != int(math.Ceil(8*math.Pow(found/0.0625, 2))) {
		t.Errorf("detectable %v, needed %v", s.Detectable, s.Needed)
	}
	// Pooled over the six items that failed in neither: 340/600 and 380/600.
	if p := s.Pooled; p == nil || p.N != 6 || math.Abs(p.Base-340./600) > 1e-12 || math.Abs(p.Difference-40./600) > 1e-12 || p.CI95 != nil {
		t.Errorf("pooled %+v", p)
	}
	if len(r.Groups) != 1 || r.Groups[0].Base.Matched != 340 || r.Groups[0].Candidate.Expected != 600 || !near(r.Groups[0].Difference, 40./600) {
		t.Errorf("groups %+v", r.Groups)
	}
	if r.Regressions != 2 || r.Regressed[0].Item != "item-0007" || r.Regressed[1].Item != "item-0003" {
		t.Errorf("%d regressions: %+v", r.Regressions, r.Regressed)
	}
	if !near(r.Cost.Difference, 0) || r.Cost.N != 8 || !near(r.Latency.Base, 100) {
		t.Errorf("cost %+v, latency %+v", r.Cost, r.Latency)
	}
	for _, want := range []string{"few items (8)", "1 item failed in the base, 1 in the candidate: they count as 0 wherever their expected output defines the score"} {
		if !strings.Contains(strings.Join(r.Warnings, "\n"), want) {
			t.Errorf("no warning %q in %q", want, r.Warnings)
		}
	}
}

// TestCompare_weak checks the warnings about weak comparisons.
func TestCompare_weak(t *testing.T) {
	list := func(n int, v float64) []float64 { return slices.Repeat([]float64{v}, n) }
	halves := slices.Concat(list(8, 0.6), list(7, 0.4)) // of 15 items, gained and lost
	for name, tt := range map[string]struct {
		base, cand []float64
		want       []string
	}{
		"five items":      {list(5, 0.5), halves[:5], []string{"5 items with f1: too few to claim anything"}},
		"six":             {list(6, 0.5), halves[3:9], []string{"few items (6): the interval is rough, and only large differences can be found"}},
		"nothing changed": {list(30, 0.5), list(30, 0.5), []string{}},
		"half of it":      {list(30, 0.5), append(list(15, 0.5), halves...), []string{}},
		"most of it":      {list(31, 0.5), append(list(16, 0.5), halves...), []string{"16 of 31 items tie: the difference rests on the other 15"}},
		"all by the same": {list(20, 0.5), list(20, 0.75), []string{"f1 changed by the same in all of 20 items: nothing is known of how it varies, so that there is no interval, and nothing can be claimed"}},
	} {
		if diff := cmp.Diff(tt.want, mustCompare(t, Config{}, newRun("b", tt.base...), newRun("c", tt.cand...)).Warnings); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	// If an outcome lists a score twice, the first counts.
	base, cand := newRun("b", 0.5, 0.5), newRun("c", 0.6, 0.6)
	zero := 0.0
	cand.outcomes[0].Scores = append(cand.outcomes[0].Scores, outcome.Score{Name: "f1", Value: &zero})
	if s := primaryOf(t, mustCompare(t, Config{}, base, cand)); !near(s.Candidate, 0.6) {
		t.Errorf("named twice: %+v", s)
	}
}

// TestComparePlanned checks that it finds what Compare finds about the items.
func TestComparePlanned(t *testing.T) {
	base, cand := newRun("b", 1, 1), newRun("c", 1, 1, 1)
	cand.header.Dataset.Fingerprint = "other"
	want := mustCompare(t, Config{}, base, cand).Incompatible
	cand.outcomes = nil
	got, err := Config{}.ComparePlanned(t.Context(), base, cand)
	if err != nil || len(got.Candidates) != 1 {
		t.Fatal(got, err)
	}
	if diff := cmp.Diff(want, got.Candidates[0].Incompatible); diff != "" || len(want) != 2 {
		t.Error(diff, want)
	}
	b, c := got.Base.Summary, got.Candidates[0].Candidate.Summary
	if b.Run.Name != "b" || b.Items.Planned != 2 || c.Run.Name != "c" || c.Items.Planned != 3 {
		t.Errorf("%+v, %+v", b, c)
	}
	base.header.Scorer.Primary = ""
	if _, err := (Config{}).ComparePlanned(t.Context(), base, cand); cli.ExitCode(err) != cli.ExitUsage {
		t.Error(err)
	}
}

func TestCompare_yesNo(t *testing.T) {
	// perfect: items 0–4 gained, 5 lost, 6 both, 7 neither: 2·(1+6)/2^6 = 0.21875.
	base := newRun("b", .5, .5, .5, .5, .5, 1, 1, .5)
	cand := newRun("c", 1, 1, 1, 1, 1, .5, 1, .5)
	r := mustCompare(t, Config{}, base, cand)
	i := slices.IndexFunc(r.YesNo, func(y YesNo) bool { return y.Name == "perfect" })
	if y := r.YesNo[max(0, i)]; i < 0 || !near(y.P, 0.21875) || y.Gained != 5 || y.Lost != 1 || y.Both != 1 || y.None != 1 {
		t.Errorf("%+v", r.YesNo)
	}
	i = slices.IndexFunc(r.YesNo, func(y YesNo) bool { return y.Name == "error" })
	if y := r.YesNo[max(0, i)]; i < 0 || !near(y.P, 1) || y.None != 8 {
		t.Errorf("%+v", r.YesNo)
	}
	if len(r.YesNo) != 2 {
		t.Errorf("%+v", r.YesNo)
	}
	// In two trials it may be neither yes nor no.
	base, cand = newRun("b", 1), newRun("c", 1)
	second := newOutcome("item-0000", .5)
	second.Trial, cand.header.Trials = 2, 2
	cand.outcomes = append(cand.outcomes, second)
	if r := mustCompare(t, Config{}, base, cand); len(r.YesNo) != 1 || r.YesNo[0].Name != "error" {
		t.Errorf("%+v", r.YesNo)
	}
	// f1 is not a yes/no score, even if it is 0 or 1 in every item.
	if r := mustCompare(t, Config{}, newRun("b", 1, 0, 1), newRun("c", 1, 1, 0)); len(r.YesNo) != 2 {
		t.Errorf("%+v", r.YesNo)
	}
	// More errors are worse.
	r = mustCompare(t, Config{}, newRun("b", .5, .5, .5, .5, .5, .5, .5), newRun("c", failed, failed, failed, failed, failed, failed, .5))
	for _, s := range r.Scores {
		if s.Name == "error" && (s.Wins != 0 || s.Losses != 6 || s.Verdict != Worse || !s.LowerIsBetter) {
			t.Errorf("error: %+v", s)
		}
	}
}

// TestCompare_pooledError checks that failed items have counts of error.
func TestCompare_pooledError(t *testing.T) {
	base, cand := newRun("b", .5, .5, failed, .5), newRun("c", .5, failed, failed, .5)
	for _, run := range []*memoryRun{base, cand} {
		for _, o := range run.outcomes {
			for i := range o.Scores {
				if s := &o.Scores[i]; s.Name == outcome.ErrorScore {
					s.Ratio = &outcome.Ratio{Num: int64(*s.Value), Den: 1}
				}
			}
		}
	}
	r := mustCompare(t, Config{}, base, cand)
	for _, s := range r.Scores {
		switch p := s.Pooled; s.Name {
		case outcome.ErrorScore:
			if p == nil || p.N != 4 || !near(&p.Base, 0.25) || !near(&p.Candidate, 0.5) {
				t.Errorf("error: %+v", p)
			}
		case "f1":
			if p == nil || p.N != 2 {
				t.Errorf("f1: %+v", p)
			}
		}
	}
}

// TestCompare_opposed compares runs in which items of few entities gain and others of many lose,
// six times as many of the former. Below 60 items, the pooled value has no interval.
func TestCompare_opposed(t *testing.T) {
	run := func(name string, n int, small, large float64) *memoryRun {
		values := append(slices.Repeat([]float64{small}, 6*n), slices.Repeat([]float64{large}, n)...)
		for i := range values {
			values[i] += 0.01 * float64(i%5)
		}
		m := newRun(name, values...)
		for _, o := range m.outcomes[6*n:] {
			o.Scores[0].Ratio.Num *= 100
			o.Scores[0].Ratio.Den *= 100
		}
		return m
	}
	tests := map[string]struct {
		n            int // items of many entities
		small, large float64
		want         string
	}{
		"the mean rose, pooled fell":    {10, 0.7, 0.3, "opposite directions: f1 (mean +0.1, pooled -0.4604);"}, // (60·0.2 − 10·0.5)/70, (60·0.2 − 1000·0.5)/1060
		"the reverse":                   {10, 0.3, 0.9, "f1 (mean -0.1571, pooled +0.08302);"},                  // (−60·0.2 + 10·0.1)/70, (−60·0.2 + 1000·0.1)/1060
		"both rose":                     {10, 0.7, 0.9, ""},
		"both fell":                     {10, 0.3, 0.2, ""},
		"few items":                     {5, 0.9, 0.6, "f1 (mean +0.3143, pooled -0.166 without an interval);"}, // (30·0.4 − 5·0.2)/35, (30·0.4 − 500·0.2)/530
		"few items, the reverse":        {5, 0.3, 0.9, "f1 (mean -0.1571, pooled +0.08302 without an interval);"},
		"few items, pooled hardly fell": {5, 0.9, 0.77, ""}, // (30·0.4 − 500·0.03)/530 = −0.006, and the interval of the mean is 0.1 wide
	}
	for name, tt := range tests {
		got := strings.Join(mustCompare(t, Config{}, run("b", tt.n, 0.5, 0.8), run("c", tt.n, tt.small, tt.large)).Warnings, "\n")
		if !strings.Contains(got, tt.want) || tt.want == "" && strings.Contains(got, "opposite") {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// TestCompare_typesOfNothing checks that a type without anything in one run has no F1 there, and
// no difference.
func TestCompare_typesOfNothing(t *testing.T) {
	base, cand := newRun("b", .5, .5), newRun("c", .5, .5)
	cand.outcomes[0].Groups = append(cand.outcomes[0].Groups, outcome.Group{Kind: "entity_type", Name: "City", Extracted: 1})
	groups := mustCompare(t, Config{}, base, cand).Groups
	if len(groups) != 2 {
		t.Fatalf("%+v", groups)
	}
	if city := groups[1]; city.Base.F1 != nil || city.Base.Precision != nil || !near(city.Candidate.F1, 0) || city.Difference != nil {
		t.Errorf("%+v", city)
	}
}

func TestCompare_undefined(t *testing.T) {
	base := newRun("b", .5, undefined, undefined, .5, .5, .5, .5, .5, .5)
	cand := newRun("c", .6, undefined, .5, undefined, .6, .6, .6, .6, .7)
	r := mustCompare(t, Config{}, base, cand)
	for _, s := range r.Scores { // item-0001 does not list perfect in either run
		if s.N+s.Undefined != 9 {
			t.Errorf("%s: n %d, undefined %d", s.Name, s.N, s.Undefined)
		}
	}
	s := primaryOf(t, r)
	if s.N != 6 || s.Undefined != 3 || s.UndefinedBase != 1 || s.UndefinedCandidate != 1 || s.Verdict != Better {
		t.Errorf("%+v", s)
	}
	// Five items are too few to claim any difference.
	s = primaryOf(t, mustCompare(t, Config{}, newRun("b", .5, .5, .5, .5, .5), newRun("c", .6, .6, .6, .6, .7)))
	if s.Verdict != Unclear || !near(s.P, 2./32) || s.CI95[0] <= 0 || s.Detectable != nil || s.Needed != nil {
		t.Errorf("five items: %+v", s)
	}
	// One item has no interval. An unknown score is an error that lists the known ones.
	s = primaryOf(t, mustCompare(t, Config{}, newRun("b", .5), newRun("c", .6)))
	if s.CI95 != nil || s.Verdict != Unclear || s.Needed != nil {
		t.Errorf("one item: %+v", s)
	}
	c := Config{Metric: "f2"}
	if _, err := c.Compare(context.Background(), newRun("b", .5), newRun("c", .6)); cli.ExitCode(err) != cli.ExitUsage || !strings.Contains(err.Error(), "there are: error, f1") {
		t.Errorf("unknown metric: %v", err)
	}
}

func TestCompare_changed(t *testing.T) {
	base := newRun("b", .5, .5, .5, .2)
	cand := newRun("c", .5, .3, .7, 1)
	r := mustCompare(t, Config{Matches: matchesOf, MaxChanged: 2}, base, cand)
	want := []Change{
		{ItemChange{"item-0003", .2, 1, .8}, "20 matched", "100 matched", "", "", slices.Repeat([]string{"Ada"}, 8), []string{}, 2},
		// Of two equal changes, the loss comes first.
		{ItemChange{"item-0001", .5, .3, -.2}, "50 matched", "30 matched", "", "", []string{}, []string{"Ada", "Ada"}, 3},
	}
	if diff := cmp.Diff(want, r.Changed); diff != "" {
		t.Error(diff)
	}
	cand.outcomes[3] = newOutcome("item-0003", failed)
	r = mustCompare(t, Config{Matches: matchesOf}, base, cand)
	i := slices.IndexFunc(r.Changed, func(c Change) bool { return c.Item == "item-0003" })
	if r.Changed[i].CandidateFailure != "timeout: no answer" || len(r.Changed[i].Lost) != 2 {
		t.Errorf("%+v", r.Changed[i])
	}
	for i := range base.outcomes { // as in a run that is only in Langfuse: nothing is known, and nothing gained
		base.outcomes[i].Explanation = nil
	}
	for _, c := range mustCompare(t, Config{Matches: matchesOf}, base, cand).Changed {
		if len(c.Lost)+len(c.Gained)+c.Kept > 0 || c.Lost == nil || c.Gained == nil {
			t.Errorf("%+v", c)
		}
	}
}

func TestCompare_clusters(t *testing.T) {
	// Four items of each document move together.
	var b, c []float64
	for i := range 40 {
		b, c = append(b, .5), append(c, .5+[]float64{.1, .1, -.05, .1, .1, .1, -.1, .1, .1, .1}[i/4])
	}
	plain := primaryOf(t, mustCompare(t, Config{}, newRun("b", b...), newRun("c", c...)))
	cand := newRun("c", c...)
	for i := range cand.outcomes { // half of the documents cost more
		cand.outcomes[i].CostUSD = new(.01 + .01*float64(i/4%2))
	}
	if r := mustCompare(t, Config{}, newRun("b", b...), cand); r.Cost.CI95 == nil {
		t.Error("no interval of the cost")
	}
	r := mustCompare(t, Config{ClusterBy: "source.doc"}, newRun("b", b...), cand)
	if r.Cost.CI95 != nil || !near(r.Cost.Difference, .005) {
		t.Errorf("an interval as if items were independent: %+v", r.Cost)
	}
	s := primaryOf(t, r)
	for _, y := range r.YesNo { // the items of a cluster are not independent
		if y.P != nil {
			t.Errorf("%s has a p-value of McNemar's test: %v", y.Name, *y.P)
		}
	}
	if r.Clusters != 10 || s.Clusters != 10 || *s.SE <= *plain.SE || *s.Unclustered != *plain.CI95 || *s.P <= *plain.P {
		t.Errorf("clustered %+v, plain %+v", s, plain)
	}
	// A score of 0 or 1 has the interval of the clusters, too, which lies evenly around the difference.
	var zeros, some01 []float64
	for i := range 40 {
		zeros, some01 = append(zeros, 0), append(some01, []float64{1, 0, 0, 1, 0, 0, 1, 0, 0, 0}[i/4])
	}
	s = primaryOf(t, mustCompare(t, Config{ClusterBy: "source.doc"}, newRun("b", zeros...), newRun("c", some01...)))
	if mid := (s.CI95[0] + s.CI95[1]) / 2; !near(&mid, .3) {
		t.Errorf("%+v", s)
	}
	// With 20 items of 5 documents, p is at least 2/2^5, so nothing is claimed, whatever the
	// interval. With 6 documents, a difference is claimed.
	better := []float64{.6, .6, .6, .6, .7, .7, .7, .7, .6, .6, .6, .6, .7, .7, .7, .7, .6, .6, .6, .6, .7, .7, .7, .7}
	gate := Gate{Rules: []Rule{mustRule(t, "f1 >= base - 0.1")}}
	for n, want := range map[int]Verdict{20: Unclear, 24: Better} {
		r = mustCompare(t, Config{ClusterBy: "source.doc", Gate: gate}, newRun("b", b[:n]...), newRun("c", better[:n]...))
		s := primaryOf(t, r)
		few := strings.Contains(strings.Join(r.Warnings, "\n"), "5 clusters: too few")
		if s.CI95[0] <= 0 || s.Verdict != want || few != (n == 20) || (s.Detectable == nil) != few || (s.Needed == nil) != few || (r.Gate.Answer == Pass) == few {
			t.Errorf("%d items: %+v %q %+v", n, s, r.Warnings, r.Gate)
		}
	}
	// No score changed, but outputs did: the interval is ± 1 − 0.025^(1/G), 0.088 for 40 documents and 0.336 for 9.
	for n, want := range map[int]Answer{160: Pass, 36: Inconclusive} {
		same := slices.Repeat([]float64{.5}, n)
		cand := newRun("c", same...)
		cand.outcomes[0].Output = json.RawMessage(`{"value":"other"}`)
		r = mustCompare(t, Config{ClusterBy: "source.doc", Gate: gate}, newRun("b", same...), cand)
		hi := 1 - math.Pow(0.025, 4/float64(n))
		if s := primaryOf(t, r); s.Verdict != Same || !near(&s.CI95[1], hi) || s.CI95[0] != -s.CI95[1] || r.Gate.Answer != want {
			t.Errorf("%d items: %+v %+v", n, s, r.Gate)
		}
	}
	some := newRun("b", b...)
	some.items[7].Metadata = json.RawMessage(`{"source":{"part":1}}`)
	r = mustCompare(t, Config{ClusterBy: "source.doc"}, some, newRun("c", c...))
	if !strings.Contains(strings.Join(r.Warnings, "\n"), "1 item without source.doc in the metadata") {
		t.Errorf("a key that one item has not: %q", r.Warnings)
	}
	// A base in Langfuse has no metadata of items: the candidate has it.
	bare := newRun("b", b...)
	for i := range bare.items {
		bare.items[i].Metadata = nil
	}
	if r = mustCompare(t, Config{ClusterBy: "source.doc"}, bare, newRun("c", c...)); r.Clusters != 10 {
		t.Errorf("%d clusters from the metadata of the candidate, want 10", r.Clusters)
	}
}

// TestCompare_unknownCluster checks that a mistyped key is an error. It would make every item a
// cluster.
func TestCompare_unknownCluster(t *testing.T) {
	c := Config{ClusterBy: "suorces"}
	base, cand, bare := newRun("b", .5, .6), newRun("c", .5, .7), newRun("bare", .5)
	base.items[0].Metadata = json.RawMessage(`{"tags":["x"],"sources":{"doc":"d","page":3}}`)
	bare.items[0].Metadata = nil
	_, err := c.Compare(t.Context(), base, cand)
	if cli.ExitCode(err) != cli.ExitUsage || !strings.Contains(err.Error(), `the first has: sources, tags (did you mean "sources"?)`) {
		t.Errorf("%v", err)
	}
	if _, err = c.Compare(t.Context(), bare, cand); cli.ExitCode(err) != cli.ExitUsage || !strings.Contains(err.Error(), "the first has: source") {
		t.Errorf("%v", err)
	}
	if _, err = c.Rank(t.Context(), base, cand); cli.ExitCode(err) != cli.ExitUsage {
		t.Errorf("%v", err)
	}
	if err = c.CheckClusters(t.Context(), bare, base); cli.ExitCode(err) != cli.ExitUsage {
		t.Errorf("%v", err)
	}
	if err = (Config{ClusterBy: "sources"}).CheckClusters(t.Context(), bare, base); err != nil { // one of them has it
		t.Error(err)
	}
}

func TestLookup(t *testing.T) {
	raw := json.RawMessage(`{"a":"x","b":{"c":1.0,"d.e":true},"f":null,"g":[1, 2],"b.c":"dotted"}`)
	for path, want := range map[string]string{"a": "x", "b.c": "1", "b.d.e": "true", "g": "[1,2]"} {
		if got, ok := lookup(raw, path); !ok || got != want {
			t.Errorf("%s: %q, %v; want %q", path, got, ok, want)
		}
	}
	for _, path := range []string{"f", "x", "a.b", "b.c.d"} {
		if got, ok := lookup(raw, path); ok {
			t.Errorf("%s: %q", path, got)
		}
	}
	if _, ok := lookup(json.RawMessage(`not json`), "a"); ok {
		t.Error("what is not JSON has a value")
	}
}

// TestCompare_trials checks that trials are averaged within the item.
func TestCompare_trials(t *testing.T) {
	base, cand := newRun("b", .5, .5, .5), newRun("c", .6, .6, .6)
	cand.header.Trials = 2
	var doubled []outcome.Outcome
	for i, o := range cand.outcomes {
		second := newOutcome(o.Item, []float64{.8, failed, .6}[i])
		second.Trial = 2
		doubled = append(doubled, o, second)
	}
	cand.outcomes = doubled
	for _, run := range []*memoryRun{base, cand} {
		for i := range run.outcomes {
			if o := &run.outcomes[i]; !o.Failed() {
				half := 0.5
				o.Scores = append(o.Scores, outcome.Score{Name: "grounded", Value: &half, Ratio: &outcome.Ratio{Num: 1, Den: 2}})
			}
		}
	}
	r := mustCompare(t, Config{}, base, cand)
	s := primaryOf(t, r)
	// (0.7 + 0.3 + 0.6)/3
	if s.N != 3 || !near(s.Candidate, 1.6/3) || s.Pooled.N != 2 || r.Scored != 2 || r.Cost.N != 3 {
		t.Errorf("%d scored in both, %+v", r.Scored, s)
	}
	// A failed trial lacks the score, and its item has counts of the other one only.
	if i := slices.IndexFunc(r.Scores, func(s Score) bool { return s.Name == "grounded" }); r.Scores[i].N != 3 || r.Scores[i].Pooled.N != 2 {
		t.Errorf("%+v, pooled %+v", r.Scores[i], r.Scores[i].Pooled)
	}
	for _, want := range []string{"the base has 1 trial, the candidate 2", "0 outcomes failed in the base, 1 in the candidate"} {
		if !strings.Contains(strings.Join(r.Warnings, "\n"), want) {
			t.Errorf("no %q in %q", want, r.Warnings)
		}
	}
	// Changes show all trials: 5 matches in one trial; 6 and 8, or 6 and none, in two.
	want := []Change{
		{ItemChange{"item-0001", .5, .3, -.2}, "50 matched", "60 matched", "", "timeout in 1 of 2 trials: no answer", []string{}, []string{"Ada (5/1 → 6/2)"}, 0},
		{ItemChange{"item-0000", .5, .7, .2}, "50 matched", "60 matched · 80 matched", "", "", []string{"Ada (5/1 → 14/2)"}, []string{}, 0},
		{ItemChange{"item-0002", .5, .6, .1}, "50 matched", "60 matched", "", "", []string{"Ada (5/1 → 12/2)"}, []string{}, 0},
	}
	r = mustCompare(t, Config{Matches: matchesOf}, base, cand)
	if diff := cmp.Diff(want, r.Changed, cmpopts.EquateApprox(0, 1e-12)); diff != "" {
		t.Error(diff)
	}
	cand.outcomes = cand.outcomes[:5]
	if r := mustCompare(t, Config{}, base, cand); len(r.Incompatible) != 1 || !strings.Contains(r.Incompatible[0].What, "not run in every trial of the candidate") {
		t.Errorf("%+v", r.Incompatible)
	}
}

// TestCompare_symmetric checks that swapping base and candidate negates every difference and
// keeps every p-value.
func TestCompare_symmetric(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := rapid.SampledFrom([]float64{0, .1, .25, .5, .5, .5, .8, 1, 1, failed, undefined})
		n := rapid.IntRange(1, 70).Draw(t, "n")
		b := rapid.SliceOfN(draw, n, n).Draw(t, "b")
		c := rapid.SliceOfN(draw, n, n).Draw(t, "c")
		b[0], c[0] = 1, 1 // every score is in both
		cfg := Config{Flips: 50, ClusterBy: rapid.SampledFrom([]string{"", "source.doc"}).Draw(t, "key")}
		there := mustCompare(t, cfg, newRun("b", b...), newRun("c", c...))
		back := mustCompare(t, cfg, newRun("c", c...), newRun("b", b...))
		if len(there.Scores) != len(back.Scores) || len(there.YesNo) != len(back.YesNo) || there.Regressions != back.Scores[0].Wins {
			t.Fatalf("%+v\n%+v", there, back)
		}
		for i, s := range there.Scores {
			if diff := cmp.Diff(s, swapped(back.Scores[i])); diff != "" {
				t.Fatal(diff)
			}
		}
		for i, y := range there.YesNo {
			z := back.YesNo[i]
			if diff := cmp.Diff(y.P, z.P); diff != "" || y.Gained != z.Lost || y.Lost != z.Gained {
				t.Fatalf("%+v and %+v", y, z)
			}
		}
		if *there.Cost.Difference != -*back.Cost.Difference || *there.Groups[0].Difference != -*back.Groups[0].Difference {
			t.Fatalf("%+v and %+v", there, back)
		}
	})
}

// swapped returns the score that is expected if base and candidate are exchanged.
func swapped(s Score) Score {
	s.Base, s.Candidate = s.Candidate, s.Base
	s.UndefinedBase, s.UndefinedCandidate = s.UndefinedCandidate, s.UndefinedBase
	s.Wins, s.Losses = s.Losses, s.Wins
	s.Difference = negated(s.Difference)
	s.CI95, s.Unclustered = turned(s.CI95), turned(s.Unclustered)
	if s.Pooled != nil {
		s.Pooled = &Pooled{s.Pooled.N, s.Pooled.Candidate, s.Pooled.Base, *negated(&s.Pooled.Difference), turned(s.Pooled.CI95)}
	}
	s.Verdict = map[Verdict]Verdict{Better: Worse, Worse: Better, Same: Same, Unclear: Unclear}[s.Verdict]
	return s
}

// negated returns -v, but never -0.
func negated(v *float64) *float64 {
	if v == nil {
		return nil
	}
	n := 0 - *v
	return &n
}

func turned(ci *[2]float64) *[2]float64 {
	if ci == nil {
		return nil
	}
	return &[2]float64{0 - ci[1], 0 - ci[0]}
}
