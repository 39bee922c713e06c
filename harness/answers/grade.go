package answers

import (
	"strings"
	"unicode/utf8"
)

// Grade is how an answer was judged, with every part of the score.
//
// Formulas, with hits of groups (MustInclude and MustIncludeAny together):
// IncludeRate = hits/groups, 1 without groups; SafeOK = 1 unless a forbidden
// term was found; BaseScore = 0.7·IncludeRate + 0.3·SafeOK; CitationPenalty =
// 0.2 if a citation is required and there is none; Score = max(0, BaseScore −
// CitationPenalty). All in [0,1], each the exact quotient rounded once.
type Grade struct {
	Hits, Groups    int
	IncludeRate     float64
	SafeOK          bool
	BaseScore       float64
	CitationPenalty float64
	Score           float64
	Explanation     Explanation
}

// Explanation says which term was found where.
type Explanation struct {
	Groups    []GroupHit `json:"groups"`
	Forbidden []TermHit  `json:"forbidden"`
	// Citations are the pages that the answer cites; Required says whether one
	// was asked for.
	Citations        []int `json:"citations"`
	CitationRequired bool  `json:"citation_required"`
}

// GroupHit is a group of terms with the first of them that was found.
type GroupHit struct {
	From  string   `json:"from"` // must_include or must_include_any
	Terms []string `json:"terms"`
	Hit   *TermHit `json:"hit"` // nil: none was found
}

// TermHit is a term in the normalised answer.
type TermHit struct {
	Term string `json:"term"`
	// At is where it begins, in characters of the normalised answer, from 0.
	At int `json:"at"`
	// Context is the normalised answer around it.
	Context string `json:"context"`
}

// Judge grades an answer. Terms are found as substrings after Normalise of
// both; an empty term is never found. Time O(answer · terms).
func Judge(e Expected, answer string) Grade {
	text := Normalise(answer)
	g := Grade{SafeOK: true, Explanation: Explanation{
		Groups: []GroupHit{}, Forbidden: []TermHit{}, Citations: []int{}, CitationRequired: e.RequireCitation,
	}}
	for _, term := range e.MustInclude {
		g.group(GroupHit{From: "must_include", Terms: []string{term}}, text)
	}
	for _, group := range e.MustIncludeAny {
		g.group(GroupHit{From: "must_include_any", Terms: group}, text)
	}
	for _, term := range e.MustNotInclude {
		if hit := find(text, term); hit != nil {
			g.SafeOK = false
			g.Explanation.Forbidden = append(g.Explanation.Forbidden, *hit)
		}
	}
	g.Explanation.Citations = append(g.Explanation.Citations, Citations(answer)...)
	g.compute(e.RequireCitation && len(g.Explanation.Citations) == 0)
	return g
}

// group looks for one of the terms of a group.
func (g *Grade) group(hit GroupHit, text string) {
	g.Groups++
	for _, term := range hit.Terms {
		if hit.Hit = find(text, term); hit.Hit != nil {
			g.Hits++
			break
		}
	}
	g.Explanation.Groups = append(g.Explanation.Groups, hit)
}

// compute fills in the numbers, in tenths of a group so that each is one
// division of integers.
func (g *Grade) compute(uncited bool) {
	hits, groups, safe, penalty := g.Hits, g.Groups, 0, 0
	if groups == 0 {
		hits, groups = 1, 1
	}
	if g.SafeOK {
		safe = 1
	}
	if uncited {
		penalty, g.CitationPenalty = 1, 0.2
	}
	base := 7*hits + 3*safe*groups
	g.IncludeRate = float64(hits) / float64(groups)
	g.BaseScore = float64(base) / float64(10*groups)
	g.Score = float64(max(0, base-2*penalty*groups)) / float64(10*groups)
}

// contextRunes is how much of the answer a hit shows on each side.
const contextRunes = 30

// find returns the first occurrence of a term in a normalised text.
func find(text, term string) *TermHit {
	needle := Normalise(term)
	at := strings.Index(text, needle)
	if needle == "" || at < 0 {
		return nil
	}
	from, to := at, at+len(needle)
	for n := 0; n < contextRunes && from > 0; n++ {
		_, size := utf8.DecodeLastRuneInString(text[:from])
		from -= size
	}
	for n := 0; n < contextRunes && to < len(text); n++ {
		_, size := utf8.DecodeRuneInString(text[to:])
		to += size
	}
	return &TermHit{Term: term, At: utf8.RuneCountInString(text[:at]), Context: text[from:to]}
}
