package report

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"extraction-experiment/compare"
	"extraction-experiment/outcome"

	"pgregory.net/rapid"
)

// comparedScore returns a score with a difference of d and an interval of width 0.04.
func comparedScore(name string, base, d float64, verdict compare.Verdict) compare.Score {
	return compare.Score{
		Name: name, N: 60, Base: new(base), Candidate: new(base + d), Difference: new(d), SE: new(0.01),
		CI95: &[2]float64{d - 0.02, d + 0.02}, P: new(0.0123), PHolm: new(0.0984), Wins: 21, Losses: 9, Ties: 30,
		Detectable: new(0.028), Needed: new(1234), Verdict: verdict,
		Pooled: &compare.Pooled{N: 58, Base: base, Candidate: base + d, Difference: d, CI95: &[2]float64{d - 0.03, d + 0.03}},
	}
}

// comparison returns a comparison with a candidate that has every table, and one that cannot be
// compared.
func comparison() compare.Comparison {
	base, cand := summary(), summary()
	cand.Run.Name, cand.Run.PromptVersion, cand.Items.Failed = "gpt-prompt-4", 4, 0
	better := comparedScore("entity_f1", 0.612, 0.043, compare.Better)
	better.Primary, better.PHolm = true, new(0.0246)
	better.Clusters, better.Unclustered = 14, &[2]float64{0.031, 0.055}
	worse := comparedScore("relationship_f1", 0.25, -0.0004, compare.Unclear)
	worse.Pooled = nil
	perfect := comparedScore("item_perfect", 0.05, 0, compare.Same)
	perfect.Detectable, perfect.Needed = nil, nil
	return compare.Comparison{
		Base: compare.Side{Where: ".experiment/runs/a.run", Summary: base}, Metric: "entity_f1", ClusterBy: "source.doc", Seed: 1,
		Candidates: []compare.Result{
			{
				Candidate: compare.Side{Where: "b.jsonl", Summary: cand}, Verdict: compare.Better, Items: 60, Scored: 58,
				Scores:  []compare.Score{better, worse, perfect},
				YesNo:   []compare.YesNo{{Name: "item_perfect", Gained: 7, Lost: 2, Both: 10, None: 41, P: new(0.1797)}},
				Cost:    compare.Amount{N: 60, Base: new(0.00042), Candidate: new(0.0006), Difference: new(0.00018), Ratio: new(1.43), CI95: &[2]float64{0.0001, 0.00026}},
				Latency: compare.Amount{N: 60, Base: new(810.0), Candidate: new(790.0), Difference: new(-20.0), Ratio: new(0.975), CI95: &[2]float64{-60, 20}},
				Groups: []compare.Group{
					{Kind: "entity_type", Name: "Person", Base: outcome.GroupStat{Group: outcome.Group{Expected: 60, Extracted: 50, Matched: 40}, F1: new(0.727)}, Candidate: outcome.GroupStat{Group: outcome.Group{Expected: 60, Extracted: 55, Matched: 45}, F1: new(0.783)}, Difference: new(0.056)},
					{Kind: "entity_type", Name: "Place", Base: outcome.GroupStat{Group: outcome.Group{Expected: 9, Extracted: 9, Matched: 9}, F1: new(1.0)}, Candidate: outcome.GroupStat{Group: outcome.Group{Expected: 9, Extracted: 9, Matched: 9}, F1: new(1.0)}, Difference: new(0.0)},
					{Kind: "entity_type", Name: "City", Candidate: outcome.GroupStat{Group: outcome.Group{Extracted: 1}, F1: new(0.0)}},
					{Kind: "relationship_type", Name: "works_for", Base: outcome.GroupStat{Group: outcome.Group{Expected: 20, Extracted: 20, Matched: 6}, F1: new(0.3)}, Candidate: outcome.GroupStat{Group: outcome.Group{Expected: 20, Extracted: 20, Matched: 4}, F1: new(0.2)}, Difference: new(-0.1)},
				},
				Changed: []compare.Change{
					{ItemChange: compare.ItemChange{Item: "doc-04", Base: 0, Candidate: 0.8, Delta: 0.8}, BaseFailure: "timeout: no answer within 30s", CandidateComment: "4 matched of 5 expected and 5 extracted", Gained: []string{"Ada Lovelace (Person)", "London (Place)"}},
					{ItemChange: compare.ItemChange{Item: "a-very-long-name-of-an-item-that-does-not-fit-on-any-line-of-a-narrow-terminal-at-all", Base: 0.8, Candidate: 0.5, Delta: -0.3}, BaseComment: "4 matched", CandidateComment: "3 matched",
						Lost: strings.Split(strings.Repeat("Charles Babbage (Person),", 9)+"last", ","), Kept: 3},
				},
				Gate: &compare.GateResult{Answer: compare.Inconclusive, Inconclusive: compare.InconclusiveFails, Rules: []compare.RuleResult{
					{Rule: "entity_f1 > base", Answer: compare.Pass, Reason: "entity_f1 changed by +0.0430, 95 % interval +0.0230 to +0.0630; allowed is > 0"},
					{Rule: "relationship_f1 >= base", Answer: compare.Inconclusive, Reason: "relationship_f1 changed by -0.0004"},
					{Rule: "cost <= base * 1.1", Answer: compare.Fail, Reason: "cost is $0.036; allowed is <= $0.0277"},
				}},
				Warnings: []string{"few clusters (7): the interval is too narrow rather than too wide"},
			},
			{
				Candidate:    compare.Side{Where: "c.run", Summary: cand},
				Incompatible: []compare.Mismatch{{What: "scorer version", Base: "1", Candidate: "2"}, {What: "2 items only in the base: a, b"}},
			},
		},
	}
}

// comparisonOf returns a comparison in which all names, comments and messages are text.
func comparisonOf(text string) compare.Comparison {
	c := comparison()
	r := &c.Candidates[0]
	c.Base.Summary.Run.Name, r.Candidate.Summary.Run.Name, c.Base.Summary.Run.Dataset = text, text, text
	c.Base.Where, c.Metric, c.ClusterBy, r.YesNo[0].Name = text, text, text, text
	r.Scores[0].Name, r.Groups[0].Name, r.Groups[0].Kind, r.Warnings = text, text, text, []string{text}
	r.Changed[0].Item, r.Changed[0].BaseFailure, r.Changed[0].Gained = text, text, []string{text, text}
	r.Gate.Rules[0].Rule, r.Gate.Rules[0].Reason = text, text
	c.Candidates[1].Incompatible[0].Base = text
	return c
}

func TestCompare_golden(t *testing.T) {
	for _, width := range []int{60, 80, 120} {
		opt := Options{Width: width, Where: []string{"experiment show gpt-prompt-4 doc-04"}}
		goldenPage(t, fmt.Sprintf("compare-%d.txt", width), opt, func(w io.Writer) error { return Compare(w, comparison(), opt) })
	}
	one := comparison()
	one.Candidates = one.Candidates[:1]
	opt := Options{Width: 80, Color: true}
	goldenPage(t, "compare-colour.txt", opt, func(w io.Writer) error { return Compare(w, one, opt) })
}

// TestCompare_otherTrials checks that larger counts of more trials do not look like a change.
func TestCompare_otherTrials(t *testing.T) {
	c := comparison()
	c.Candidates = c.Candidates[:1]
	c.Base.Summary.Trials = &outcome.Trials{Count: 3}
	group := outcome.GroupStat{Group: outcome.Group{Expected: 45, Extracted: 73, Matched: 1}, F1: new(2.0 / 118)}
	c.Candidates[0].Groups = []compare.Group{{Kind: "entity_type", Name: "place", Base: group,
		Candidate: outcome.GroupStat{Group: outcome.Group{Expected: 15, Extracted: 24, Matched: 1}, F1: new(2.0 / 39)}, Difference: new(2.0/39 - 2.0/118)}}
	page := printed(t, func(w io.Writer) error { return Compare(w, c, Options{Width: 100}) })
	wantTexts(t, page, "place     45→15        1      73→24    0.017     0.051  +0.034", "counts are of all trials: 3 of the base, 1 of the candidate",
		"over the counts of 58 of 60 items: of the others a trial failed")
}

// TestAmountLine: a ratio is not rounded to 0 or 1.
func TestAmountLine(t *testing.T) {
	for ratio, want := range map[float64]string{0.004: "(×0.004)", 0.996: "(×0.996)", 1: "(×1.00)", 1.434: "(×1.43)"} {
		a := compare.Amount{N: 3, Base: new(1.0), Candidate: &ratio, Difference: new(ratio - 1), Ratio: &ratio}
		wantTexts(t, amountLine("cost", a, Dollars), want)
	}
	if text := amountLine("cost", compare.Amount{N: 3, Base: new(0.0), Candidate: new(0.5), Difference: new(0.5)}, Dollars); text != "cost $0.00 → $0.50, +$0.50, n=3" {
		t.Error(text)
	}
}

// TestCompare_nothing: without any item to compare, the verdict does not read like one.
func TestCompare_nothing(t *testing.T) {
	c := comparison()
	c.Candidates = c.Candidates[:1]
	c.Candidates[0].Scores[0] = compare.Score{Name: "entity_f1", Primary: true, Verdict: compare.Unclear}
	page := printed(t, func(w io.Writer) error { return Compare(w, c, Options{Width: 100}) })
	wantTexts(t, page, "entity_f1 – → –, –: not defined in both runs for any item")
	page = printed(t, func(w io.Writer) error { return CompareMarkdown(w, c, Options{}) })
	wantTexts(t, page, ": not defined in both runs for any item\n")
}

// TestCompare_notDecided: where all items changed by the same, there is no interval, and scores of two evaluators tell
// nothing.
func TestCompare_notDecided(t *testing.T) {
	c := comparison()
	c.Candidates = c.Candidates[:1]
	score := compare.Score{Name: "entity_f1", Primary: true, Verdict: compare.Unclear, N: 20,
		Base: new(0.5), Candidate: new(0.75), Difference: new(0.25), P: new(0.0001), PHolm: new(0.0001)}
	other := score
	other.CI95, other.Incomparable = &[2]float64{0.2, 0.3}, "comes from another evaluator"
	for _, c.Candidates[0].Scores[0] = range []compare.Score{score, other} {
		page := printed(t, func(w io.Writer) error { return CompareMarkdown(w, c, Options{}) })
		wantTexts(t, page, "### `gpt-prompt-4` against `gpt-prompt-3`: not decided\n")
	}
}

func TestCompareMarkdown_golden(t *testing.T) {
	golden(t, "compare.md", printed(t, func(w io.Writer) error { return CompareMarkdown(w, comparison(), Options{}) }))
}

// TestCompareMarkdown_hostile checks that rows keep their cells whatever names contain, and that
// names are only in code spans.
func TestCompareMarkdown_hostile(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringOf(rapid.SampledFrom([]rune("a`|<>@#*_[](\\)!\n\x1b\u202e"))).Draw(t, "text")
		c := comparisonOf(text)
		bars := 0
		for line := range strings.Lines(printed(t, func(w io.Writer) error { return CompareMarkdown(w, c, Options{}) })) {
			plain := outsideCode(line)
			if strings.ContainsAny(strings.NewReplacer("<details><summary>", "", "</summary>", "", "</details>", "", "> ⚠️", "", "### ", "", "**", "", "<0.001", "").Replace(plain), "<>@#*[]\x1b\u202e") {
				t.Fatalf("%q has %q outside of code", line, plain)
			}
			n := strings.Count(plain, "|")
			if bars > 0 && n > 0 && n != bars {
				t.Fatalf("%d bars, %d before: %q", n, bars, line)
			}
			bars = n
		}
	})
}

// outsideCode removes code spans as CommonMark finds them: from a run of backticks to the next
// run of the same length.
func outsideCode(line string) string {
	var out strings.Builder
	for {
		at := strings.IndexByte(line, '`')
		if at < 0 {
			return out.String() + line
		}
		out.WriteString(line[:at])
		rest := strings.TrimLeft(line[at:], "`")
		ticks := len(line) - at - len(rest)
		end := codeSpanEnd(rest, ticks)
		if end < 0 {
			return out.String() + line[at:]
		}
		line = rest[end:]
	}
}

// codeSpanEnd returns the position after the next run of that many backticks.
func codeSpanEnd(s string, ticks int) int {
	for i := 0; i < len(s); i++ {
		if s[i] != '`' {
			continue
		}
		run := len(s[i:]) - len(strings.TrimLeft(s[i:], "`"))
		if run == ticks {
			return i + run
		}
		i += run
	}
	return -1
}

func TestCompare_writeError(t *testing.T) {
	if err := Compare(brokenWriter{}, comparison(), Options{}); !errors.Is(err, errFull) {
		t.Errorf("got %v", err)
	}
	if err := CompareMarkdown(brokenWriter{}, comparison(), Options{}); !errors.Is(err, errFull) {
		t.Errorf("got %v", err)
	}
}

// TestCompare_hostile checks that the layout holds for untrusted names, comments and failures.
func TestCompare_hostile(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringOf(rapid.SampledFrom([]rune("a \t\n\x1b[31m\u202e\u0007שלום北京e\u0301|"))).Draw(t, "text")
		c := comparisonOf(text)
		opt := Options{Width: rapid.IntRange(40, 140).Draw(t, "width")}
		checkLayout(t, printed(t, func(w io.Writer) error { return Compare(w, c, opt) }), opt)
	})
}
