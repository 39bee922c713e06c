package answers

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"extraction-experiment/dataset"
	"extraction-experiment/experiment"
	"extraction-experiment/internal/textutil"
	"extraction-experiment/outcome"
)

// Scorer judges answers by the terms of the expected output. It is safe for concurrent use.
type Scorer struct {
	// Pages is the number of pages of the document, for warnings about citations of other pages; 0
	// if unknown.
	Pages int
}

// ScorerOf returns the Scorer to score the answers of a run again.
func ScorerOf(h outcome.Header) Scorer {
	pages, _ := strconv.Atoi(h.Metadata[metaPages]) // 0 if unknown
	return Scorer{Pages: pages}
}

// ForItem reads the expected output of an item. An error has class item.
func (s Scorer) ForItem(item dataset.Item) (experiment.ItemScorer, error) {
	question, err := ReadItem(item)
	if err != nil {
		return nil, &outcome.Failure{Class: outcome.Item, Message: err.Error()}
	}
	return itemScorer{question.Expected, s.Pages}, nil
}

type itemScorer struct {
	expected Expected
	pages    int
}

// Score scores an Answer, the output of a Task.
func (s itemScorer) Score(raw json.RawMessage) (experiment.Scored, error) {
	var answer Answer
	if err := json.Unmarshal(raw, &answer); err != nil {
		return experiment.Scored{}, &outcome.Failure{Class: outcome.InvalidOutput, Message: "the result is not an answer: " + err.Error()}
	}
	g := Judge(s.expected, answer.Text)
	cited := g.Explanation.Citations
	scored := experiment.Scored{
		Scores: s.scores(g), Explanation: encode(g.Explanation),
		Counts: map[string]int64{
			"include_hits": int64(g.Hits), "include_total": int64(g.Groups),
			"forbidden_hits": int64(len(g.Explanation.Forbidden)), "citations": int64(len(cited)),
		},
	}
	if slices.ContainsFunc(cited, func(page int) bool { return page < 1 || s.pages > 0 && page > s.pages }) {
		scored.Warnings = []string{"the answer cites a page that the document does not have"}
	}
	return scored, nil
}

// scores lists the parts of the score. Only question_score has the weight.
func (s itemScorer) scores(g Grade) []outcome.Score {
	number := func(name string, value float64) outcome.Score { return outcome.Score{Name: name, Value: &value} }
	boolean := func(name string, yes bool) outcome.Score {
		n := int64(0)
		if yes {
			n = 1
		}
		return outcome.Score{Name: name, Value: new(float64(n)), Ratio: &outcome.Ratio{Num: n, Den: 1}, Boolean: true}
	}
	score, rate := number(Primary, g.Score), number(IncludeRate, g.IncludeRate)
	score.Weight, score.Comment = new(s.expected.Importance()), g.comment()
	rate.Ratio, rate.Vacuous = &outcome.Ratio{Num: int64(g.Hits), Den: int64(g.Groups)}, g.Groups == 0
	rate.Comment = fmt.Sprintf("%d/%d required groups found", g.Hits, g.Groups)
	return []outcome.Score{
		score, rate, boolean(SafeOK, g.SafeOK), number(BaseScore, g.BaseScore),
		number(CitationPenalty, g.CitationPenalty), boolean(HasCitation, len(g.Explanation.Citations) > 0),
	}
}

// comment explains the score in one line.
func (g Grade) comment() string {
	text := fmt.Sprintf("%d/%d required groups found", g.Hits, g.Groups)
	if n := len(g.Explanation.Forbidden); n > 0 {
		text += ", " + textutil.Counted(n, "forbidden term")
	}
	if g.CitationPenalty > 0 {
		text += ", no page cited"
	}
	return text
}

// Undelivered returns the scores of a failed question. It leaves out the penalty: a missing score
// counts as 0 in an average, and 0 is the best penalty.
func (s itemScorer) Undelivered() []outcome.Score {
	list := []outcome.Score{{Name: Primary, Reason: "failed", Weight: new(s.expected.Importance())}}
	for _, name := range []string{IncludeRate, SafeOK, BaseScore, HasCitation} {
		list = append(list, outcome.Score{Name: name, Reason: "failed"})
	}
	return list
}

// Grade is a judged answer with every part of the score.
//
// Formulas, where groups are those of MustInclude and MustIncludeAny together: IncludeRate =
// hits/groups, 1 without groups; SafeOK = 1 unless a forbidden term was found; BaseScore =
// 0.7·IncludeRate + 0.3·SafeOK; CitationPenalty = 0.2 if a citation is required and missing; Score
// = max(0, BaseScore − CitationPenalty). All are in [0,1] and exact quotients, rounded once.
type Grade struct {
	Hits, Groups    int
	IncludeRate     float64
	SafeOK          bool
	BaseScore       float64
	CitationPenalty float64
	Score           float64
	Explanation     Explanation
}

// Explanation lists which terms were found, and where.
type Explanation struct {
	Groups    []GroupHit `json:"groups"`
	Forbidden []TermHit  `json:"forbidden"`
	// Citations are the cited pages; CitationRequired says whether a citation was required.
	Citations        []int `json:"citations"`
	CitationRequired bool  `json:"citation_required"`
}

// GroupHit is a group of terms with the first of them that was found.
type GroupHit struct {
	From  string   `json:"from"` // must_include or must_include_any
	Terms []string `json:"terms"`
	Hit   *TermHit `json:"hit"` // nil if none was found
}

// TermHit is an occurrence of a term in the normalised answer.
type TermHit struct {
	Term string `json:"term"`
	// At is the position in characters of the normalised answer, from 0.
	At int `json:"at"`
	// Context is the term with the surrounding normalised answer.
	Context string `json:"context"`
}

// Judge grades an answer. It searches terms as substrings after applying Normalise to both; an
// empty term is never found. Time O(answer · terms).
func Judge(e Expected, answer string) Grade {
	text := Normalise(answer)
	g := Grade{SafeOK: true, Explanation: Explanation{
		Groups: []GroupHit{}, Forbidden: []TermHit{}, Citations: []int{}, CitationRequired: e.RequireCitation,
	}}
	for _, term := range e.MustInclude {
		g.addGroup("must_include", Group{term}, text)
	}
	for _, group := range e.MustIncludeAny {
		g.addGroup("must_include_any", group, text)
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

// addGroup searches the terms of a group and counts the group.
func (g *Grade) addGroup(from string, terms Group, text string) {
	hit := GroupHit{From: from, Terms: terms}
	for i := 0; i < len(terms) && hit.Hit == nil; i++ {
		hit.Hit = find(text, terms[i])
	}
	if g.Groups++; hit.Hit != nil {
		g.Hits++
	}
	g.Explanation.Groups = append(g.Explanation.Groups, hit)
}

// compute fills in the numbers. It counts in tenths of a group, so that each number is one division
// of integers.
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

// contextRunes is the number of characters of context on each side of a hit.
const contextRunes = 30

// find returns the first occurrence of a term in a normalised text, or nil.
func find(text, term string) *TermHit {
	needle := Normalise(term)
	at := strings.Index(text, needle)
	if needle == "" || at < 0 {
		return nil
	}
	before, after := []rune(text[:at]), []rune(text[at+len(needle):])
	from, to := max(0, len(before)-contextRunes), min(len(after), contextRunes)
	return &TermHit{Term: term, At: len(before), Context: string(before[from:]) + needle + string(after[:to])}
}

// citation matches a reference to a page: "стр. N" in any case, in brackets or not. No letter may
// precede it: "регистр. 5" is not a citation.
var citation = textutil.Pattern(`(?i)(?:^|[^\p{L}\p{N}])стр\.[\s\x{00a0}\x{202f}\x{2009}]*(\d+)`)

// maxCitations bounds the number of citations in an answer.
const maxCitations = 1000

// Citations returns the pages that an answer cites as "стр. N", in order. A number too large for a
// page is 0. The answer need not be normalised.
func Citations(answer string) []int {
	var pages []int
	for _, found := range citation().FindAllStringSubmatch(answer, maxCitations) {
		page, err := strconv.Atoi(found[1])
		if err != nil {
			page = 0
		}
		pages = append(pages, page)
	}
	return pages
}

var (
	// moreThan and lessThan match a number with such a word before it. \b only knows ASCII letters.
	moreThan = textutil.Pattern(`(^|[^\p{L}\p{N}])(?:более|свыше) ?(\d)`)
	lessThan = textutil.Pattern(`(^|[^\p{L}\p{N}])менее ?(\d)`)
	// digitGroups matches numbers separated by spaces, for example the digit groups of one number,
	// with a leading point or comma that makes the first one a decimal fraction.
	digitGroups = textutil.Pattern(`[.,]?\d+(?: \d+)+`)
	comma       = textutil.Pattern(`(\d),(\d)`)
)

// Normalise converts an answer or a term to the form in which terms are searched, in this order:
//
//  1. lower case; ё becomes е;
//  2. white space of every kind, no-break spaces included, collapses to one
//     space, and is trimmed;
//  3. "более 5" and "свыше 5" become ">5", "менее 5" becomes "<5";
//  4. the spaces in a number written in groups of three digits are removed:
//     "1 234 567" becomes "1234567"; "2023 2024" and "1.5 200" stay two numbers;
//  5. a comma between digits becomes a point: "3,5" becomes "3.5".
//
// Time is linear in the text. Normalise is idempotent.
func Normalise(text string) string {
	text = strings.ReplaceAll(strings.ToLower(strings.ToValidUTF8(text, "\uFFFD")), "ё", "е")
	text = strings.Join(strings.Fields(text), " ")
	text = moreThan().ReplaceAllString(text, "${1}>${2}")
	text = lessThan().ReplaceAllString(text, "${1}<${2}")
	text = digitGroups().ReplaceAllStringFunc(text, joinGroups)
	for comma().MatchString(text) { // "1,2,3" overlaps: at most two rounds
		text = comma().ReplaceAllString(text, "${1}.${2}")
	}
	return text
}

// joinGroups joins a head of up to three digits with the following groups of exactly three digits.
// The digits after a decimal point are not a head.
func joinGroups(run string) string {
	first, rest, _ := strings.Cut(run, " ")
	joined := []byte(first)
	joinable := len(first) <= 3 && first[0] != '.' && first[0] != ','
	for group := range strings.SplitSeq(rest, " ") {
		if !joinable || len(group) != 3 {
			joined = append(joined, ' ')
			joinable = len(group) <= 3
		}
		joined = append(joined, group...)
	}
	return string(joined)
}
