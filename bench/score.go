package bench

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"extraction-experiment/dataset"
	"extraction-experiment/experiment"
	"extraction-experiment/extraction"
	"extraction-experiment/internal/cli"
	"extraction-experiment/outcome"
)

// The scores of a case, as they are recorded.
const (
	SchemaValidRate    = "schema_valid_rate"
	QuoteInvariantRate = "quote_invariant_rate"
	CoverageRate       = "coverage_rate"
	CaseSuccess        = "case_success"
)

// scorer judges answers.
type scorer struct{}

// Judge reads what is expected of a case.
func (scorer) Judge(item dataset.Item) (experiment.Judge, error) {
	var g gold
	if err := json.Unmarshal(item.Expected, &g); err != nil {
		return nil, &outcome.Failure{Class: outcome.Item, Message: "what is expected cannot be read: " + err.Error()}
	}
	return g, nil
}

// Score judges an Answer.
func (g gold) Score(output json.RawMessage) (experiment.Scored, error) {
	var a Answer
	if err := json.Unmarshal(output, &a); err != nil {
		return experiment.Scored{}, &outcome.Failure{Class: outcome.InvalidOutput, Message: err.Error()}
	}
	r := g.judge(a)
	reason := cmp.Or(r.why, "as expected")
	if r.why == "" && len(a.Failures) > 0 {
		reason += ": " + a.Failures[0].Message
	}
	return experiment.Scored{
		Scores: []outcome.Score{
			ratio(CaseSuccess, toInt(r.why == ""), 1, reason),
			ratio(SchemaValidRate, r.shaped, r.count, fmt.Sprintf("%d of %d records have the right shape", r.shaped, r.count)),
			ratio(QuoteInvariantRate, r.quoted, r.count, fmt.Sprintf("%d of %d records quote the document", r.quoted, r.count)),
			ratio(CoverageRate, r.covered, r.wanted, fmt.Sprintf("%d of %d covered", r.covered, r.wanted)),
		},
		Counts: map[string]int64{"extractions": int64(r.count), "failures": int64(len(a.Failures))},
	}, nil
}

// Undelivered returns the scores without values.
func (gold) Undelivered() []outcome.Score {
	var scores []outcome.Score
	for _, name := range []string{CaseSuccess, SchemaValidRate, QuoteInvariantRate, CoverageRate} {
		scores = append(scores, outcome.Score{Name: name, Boolean: name == CaseSuccess, Reason: "the case failed"})
	}
	return scores
}

// ratio makes a score; 0/0 is 1, as nothing is wrong with nothing.
func ratio(name string, num, den int, comment string) outcome.Score {
	return outcome.Score{
		Name: name, Value: new(rate(num, den)), Ratio: &outcome.Ratio{Num: int64(num), Den: int64(den)},
		Boolean: name == CaseSuccess, Vacuous: den == 0, Comment: comment,
	}
}

func rate[N int | float64](num N, den int) float64 {
	if den == 0 {
		return 1
	}
	return float64(num) / float64(den)
}

func toInt(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

// judgement is what an answer comes to.
type judgement struct {
	count, shaped, quoted int
	covered, wanted       int
	why                   string // it did not succeed; "" where it did
}

// judge counts, and says whether the answer is as expected. Covered of a smoke
// case are its gold spans that a record quotes at their place; of a regression
// record the extractions, up to the least number.
func (g gold) judge(a Answer) judgement {
	r := judgement{count: len(a.Records)}
	for _, rec := range a.Records {
		r.shaped += toInt(rec.Shape == "")
		r.quoted += toInt(rec.Code == "")
	}
	if x := g.Expected; x != nil {
		r.wanted = x.MinExtractions
		r.covered = min(r.count, r.wanted)
		switch {
		case r.count < x.MinExtractions || r.count > x.MaxExtractions:
			r.why = fmt.Sprintf("%d extractions are not from %d to %d", r.count, x.MinExtractions, x.MaxExtractions)
		case a.Kind != x.EmptyResultKind:
			r.why = fmt.Sprintf("the result is %s, expected is %s", a.Kind, x.EmptyResultKind)
		}
		return r
	}
	r.wanted = len(g.GoldSpans)
	for _, by := range g.coveredBy(a) {
		r.covered += toInt(by >= 0)
	}
	switch {
	case len(a.Failures) > 0:
		r.why = "the answer failed: " + a.Failures[0].Message
	case r.covered < r.wanted:
		r.why = fmt.Sprintf("%d of %d gold spans were extracted", r.covered, r.wanted)
	}
	return r
}

// coveredBy says for each gold span which record is the first that quotes it at
// its place, with its class where it has one; -1 where none does.
func (g gold) coveredBy(a Answer) []int {
	// Where a record of a class, or of any class, stands; to its number, from 1.
	place := func(s *Spans, class string) string { return fmt.Sprintf("%d %q", s.Rune, class) }
	first := map[string]int{}
	for i, rec := range slices.Backward(a.Records) {
		if rec.Code == "" && rec.Spans != nil {
			first[place(rec.Spans, "")], first[place(rec.Spans, rec.Class)] = i+1, i+1
		}
	}
	document := extraction.NewOffsets(g.DocumentText)
	covered := make([]int, len(g.GoldSpans))
	for i, span := range g.GoldSpans {
		at, _ := span.record().find(document)
		covered[i] = first[place(cmp.Or(at, &Spans{}), span.Class)] - 1
	}
	return covered
}

// Seen is a case with what one trial made of it, for a person to read.
type Seen struct {
	DocumentText string
	// Gold are the spans that must be extracted, as records would state them, and
	// Covered says which of the Records each of them is, -1 for none.
	Gold, Records []Record
	Covered       []int
}

// See reads the input and the expected output of a case, and the output of a
// trial; an outcome that failed has none. The error says that they are not those
// of a case.
func See(caseInput, expected, output json.RawMessage) (Seen, error) {
	var in input
	var g gold
	var a Answer
	if err := cmp.Or(json.Unmarshal(caseInput, &in), json.Unmarshal(expected, &g)); err != nil {
		return Seen{}, fmt.Errorf("the input is not a case, or what is expected: %w", err)
	}
	if err := json.Unmarshal(output, &a); err != nil && len(output) > 0 {
		return Seen{}, fmt.Errorf("the output is not an answer: %w", err)
	}
	s := Seen{DocumentText: in.DocumentText, Records: a.Records, Covered: g.coveredBy(a)}
	for _, span := range g.GoldSpans {
		s.Gold = append(s.Gold, span.record())
	}
	return s, nil
}

// Fault says what is wrong with the record, "" for nothing.
func (r Record) Fault() string { return strings.Trim(string(r.Code)+"; "+r.Shape, "; ") }

// Gate is the least or the greatest value that a report may have. A value exactly
// at its gate passes.
type Gate struct {
	Name  string // that of its flag: min- or max- and the metric
	About string // what the metric is
	// Highest is the greatest limit that makes sense; Count says that a limit is a
	// whole number.
	Limit, Highest float64
	Count          bool
}

// Gates returns the gates of the specification with their limits.
func Gates() []Gate {
	return []Gate{
		{"min-success-rate", "share of cases with the expected result", 1, 1, false},
		{"min-schema-validity-rate", "share of records with a valid shape", 1, 1, false},
		{"min-quote-invariant-pass-rate", "share of records that quote the document", 1, 1, false},
		{"min-coverage-rate", "share of gold spans that are extracted", 1, 1, false},
		{"min-stability", "share of extractions that two trials have in common, uniqueExtractionStability", 0.95, 1, false},
		{"max-extraction-count-variance", "variance of the number of extractions per trial", 0.25, math.MaxFloat64, false},
		{"max-success-rate-stddev", "standard deviation of the success rate over trials", 0.05, 1, false},
		{"max-case-outcome-drift-rate", "share of cases that differ between trials", 0.05, 1, false},
		{"min-regression-category-count", "number of categories of regression records", 1, math.MaxInt32, true},
		{"min-total-case-count", "number of cases", 1, math.MaxInt32, true},
	}
}

// gated are the values that the gates bound, in their order.
func (r Report) gated() []float64 {
	return []float64{
		r.SuccessRate, r.SchemaValidRate, r.QuoteInvariantRate, r.CoverageRate, r.UniqueExtractionStability,
		r.Variance.Variance, r.SuccessRateStdDev, r.CaseOutcomeDriftRate,
		float64(r.Breadth.RegressionCategoryCount), float64(r.Breadth.TotalCaseCount),
	}
}

// Violation is a gate that does not hold.
type Violation struct {
	Gate  string  `json:"gate"`
	Limit float64 `json:"limit"`
	Value float64 `json:"value"`
}

// gateSlack forgives the last bits of a mean or root.
const gateSlack = 1e-12

// Check returns every one of the Gates that the report does not pass.
func Check(r Report, gates []Gate) []Violation {
	violations := []Violation{}
	for i, value := range r.gated() {
		g := gates[i]
		short := g.Limit - value // of what it should be
		if strings.HasPrefix(g.Name, "max-") {
			short = value - g.Limit
		}
		if math.IsNaN(value) || short > gateSlack {
			violations = append(violations, Violation{g.Name, g.Limit, value})
		}
	}
	return violations
}

// Verdict says in one line whether so many gates hold. The error is nil where they
// do; else it has exit code 1 and lists the violations.
func Verdict(gates int, violations []Violation) (line string, err error) {
	if len(violations) == 0 {
		return fmt.Sprintf("all %d gates hold", gates), nil
	}
	line = fmt.Sprintf("%d of %d gates do not hold", len(violations), gates)
	list := line + ":"
	for _, v := range violations {
		list += fmt.Sprintf("\n%.6g is not within --%s %s", v.Value, v.Gate, strconv.FormatFloat(v.Limit, 'f', -1, 64))
	}
	return line, cli.Errorf(cli.ExitGate, "%s", list)
}
