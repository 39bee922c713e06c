package answers_test

import (
	"math"
	"testing"

	"extraction-experiment/harness/answers"
)

// TestJudge compares every branch of the formula with results calculated by hand: score = max(0,
// 0.7·hits/groups + 0.3·safe − 0.2·(required and not cited)).
func TestJudge(t *testing.T) {
	type groups = []answers.Group
	tests := map[string]struct {
		expected answers.Expected
		answer   string
		rate     float64
		base     float64
		penalty  float64
		score    float64
	}{
		"no groups: the rate is 1; 0.7·1 + 0.3·1": {
			answers.Expected{}, "anything", 1, 1, 0, 1},
		"no groups, forbidden term: 0.7·1 + 0.3·0": {
			answers.Expected{MustNotInclude: []string{"XX"}}, "it is xx", 1, 0.7, 0, 0.7},
		"no groups, no citation: 1 − 0.2": {
			answers.Expected{RequireCitation: true}, "", 1, 1, 0.2, 0.8},
		"all terms: 0.7·2/2 + 0.3": {
			answers.Expected{MustInclude: []string{"2023", "млн"}}, "5 МЛН в 2023", 1, 1, 0, 1},
		"one of two terms: 0.7·1/2 + 0.3": {
			answers.Expected{MustInclude: []string{"2023", "млрд"}}, "5 млн в 2023", 0.5, 0.65, 0, 0.65},
		"one of three: 0.7·1/3 + 0.3": {
			answers.Expected{MustInclude: []string{"a", "b", "c"}}, "b", 1. / 3, 16. / 30, 0, 16. / 30},
		"no term: 0.7·0 + 0.3": {
			answers.Expected{MustInclude: []string{"2023"}}, "2024", 0, 0.3, 0, 0.3},
		"an OR group is hit once by its second term: 0.7·1/1 + 0.3": {
			answers.Expected{MustIncludeAny: groups{{"рост", "увеличение"}}}, "Увеличение и рост", 1, 1, 0, 1},
		"OR groups and terms count alike: 0.7·2/3 + 0.3": {
			answers.Expected{MustInclude: []string{"x"}, MustIncludeAny: groups{{"a", "b"}, {"c"}}}, "x b", 2. / 3, 23. / 30, 0, 23. / 30},
		"an empty OR group is never hit: 0.7·0/1 + 0.3": {
			answers.Expected{MustIncludeAny: groups{{}}}, "x", 0, 0.3, 0, 0.3},
		"an empty term is never hit: 0.7·1/2 + 0.3": {
			answers.Expected{MustInclude: []string{"", "x"}}, "x", 0.5, 0.65, 0, 0.65},
		"an empty forbidden term is never found: 0.7 + 0.3": {
			answers.Expected{MustNotInclude: []string{" "}}, "a b", 1, 1, 0, 1},
		"a forbidden term and all the rest: 0.7 + 0": {
			answers.Expected{MustInclude: []string{"x"}, MustNotInclude: []string{"??"}}, "x??", 1, 0.7, 0, 0.7},
		"cited: no penalty": {
			answers.Expected{MustInclude: []string{"x"}, RequireCitation: true}, "x (стр. 4)", 1, 1, 0, 1},
		"not cited: 1 − 0.2": {
			answers.Expected{MustInclude: []string{"x"}, RequireCitation: true}, "x", 1, 1, 0.2, 0.8},
		"nothing right: 0 + 0 − 0.2 is not below 0": {
			answers.Expected{MustInclude: []string{"x"}, MustNotInclude: []string{"y"}, RequireCitation: true}, "y", 0, 0, 0.2, 0},
		"safe alone, not cited: 0.3 − 0.2": {
			answers.Expected{MustInclude: []string{"x"}, RequireCitation: true}, "", 0, 0.3, 0.2, 0.1},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			g := answers.Judge(tt.expected, tt.answer)
			if g.IncludeRate != tt.rate || !near(g.BaseScore, tt.base) || g.CitationPenalty != tt.penalty || !near(g.Score, tt.score) {
				t.Errorf("rate %v base %v penalty %v score %v, want %v %v %v %v",
					g.IncludeRate, g.BaseScore, g.CitationPenalty, g.Score, tt.rate, tt.base, tt.penalty, tt.score)
			}
		})
	}
}

// near allows a difference in the last bit: a literal 0.1 differs from 0.3−0.2.
func near(a, b float64) bool { return math.Abs(a-b) < 1e-15 }

func TestJudge_saysWhereTermsAre(t *testing.T) {
	g := answers.Judge(answers.Expected{
		MustInclude: []string{"нет"}, MustIncludeAny: []answers.Group{{"USD", "1 234,5"}}, MustNotInclude: []string{"убыток"}, RequireCitation: true,
	}, "Выручка — 1 234,5 млн, УБЫТОК не указан, СТР.\u00a07 и (стр. 12–13)")
	if g.Explanation.Groups[0].Hit != nil || g.Explanation.Groups[1].Hit.Term != "1 234,5" || g.Explanation.Groups[1].Hit.At != 10 {
		t.Errorf("groups %+v", g.Explanation.Groups)
	}
	if len(g.Explanation.Forbidden) != 1 || g.Explanation.Forbidden[0].Context != "выручка — 1234.5 млн, убыток не указан, стр. 7 и (стр. 12–" {
		t.Errorf("forbidden %+v", g.Explanation.Forbidden)
	}
	if c := g.Explanation.Citations; len(c) != 2 || c[0] != 7 || c[1] != 12 {
		t.Errorf("citations %v", c)
	}
}

func TestCitations(t *testing.T) {
	tests := map[string]int{
		"(стр. 4)": 1, "стр. 4": 1, "Стр.4": 1, "СТР. 12": 1, "см. стр.\u202f3": 1, "стр.\n5": 1, "[стр. 1–2]": 1,
		"стр. 1, стр. 2": 2, "": 0, "стр 4": 0, "с. 4": 0, "стр. четыре": 0, "регистр. 5": 0, "page 4": 0, "стр.": 0,
	}
	for answer, want := range tests {
		if got := answers.Citations(answer); len(got) != want {
			t.Errorf("%q cites %v, want %d", answer, got, want)
		}
	}
	if got := answers.Citations("стр. 99999999999999999999"); len(got) != 1 || got[0] != 0 {
		t.Errorf("a page that cannot be: %v", got)
	}
}

func FuzzJudge(f *testing.F) {
	f.Add("Выручка 1 234,5 (стр. 4)", "1234.5", "более 5", "XX", true)
	f.Fuzz(func(t *testing.T, answer, term, other, forbidden string, cite bool) {
		e := answers.Expected{MustInclude: []string{term}, MustIncludeAny: []answers.Group{{other, term}}, MustNotInclude: []string{forbidden}, RequireCitation: cite}
		g := answers.Judge(e, answer)
		if !(g.Score >= 0 && g.Score <= 1) || g.Hits > g.Groups || g.Score > g.BaseScore {
			t.Errorf("%+v", g)
		}
		if own := answers.Judge(answers.Expected{MustInclude: []string{answer}}, answer); answers.Normalise(answer) != "" && own.Hits != 1 {
			t.Errorf("%q does not contain itself", answer)
		}
	})
}
