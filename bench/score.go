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

// Names of the scores of a case.
const (
	SchemaValidRate    = "schema_valid_rate"
	QuoteInvariantRate = "quote_invariant_rate"
	CoverageRate       = "coverage_rate"
	CaseSuccess        = "case_success"
)

// scorer is the experiment.Scorer of the bench.
type scorer struct{}

// ForItem reads the expected output of a case.
func (scorer) ForItem(item dataset.Item) (experiment.ItemScorer, error) {
	var g gold
	if err := json.Unmarshal(item.Expected, &g); err != nil {
		return nil, &outcome.Failure{Class: outcome.Item, Message: "the expected output cannot be read: " + err.Error()}
	}
	return g, nil
}

// Score scores an Answer.
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

// Undelivered returns the scores without values, for a case that failed.
func (gold) Undelivered() []outcome.Score {
	var scores []outcome.Score
	for _, name := range []string{CaseSuccess, SchemaValidRate, QuoteInvariantRate, CoverageRate} {
		scores = append(scores, outcome.Score{Name: name, Boolean: name == CaseSuccess, Reason: "the case failed"})
	}
	return scores
}

// ratio returns the score num / den, or 1 if den is 0.
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

// judgement holds the counts of one answer.
type judgement struct {
	count, shaped, quoted int
	covered, wanted       int
	why                   string // why the case did not succeed; empty if it did
}

// judge counts an answer and compares it with the expected result. Covered are the gold spans
// that a record quotes at their offsets; for a regression record, the extractions up to the
// least expected number.
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
		if r.why != "" && len(a.Failures) > 0 {
			r.why += ": " + a.Failures[0].Message
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

// coveredBy returns for each gold span the index of the first record that quotes it at its
// offsets and has its class, if it has one; -1 if there is none.
func (g gold) coveredBy(a Answer) []int {
	document := extraction.NewOffsets(g.DocumentText)
	return cli.Each(g.GoldSpans, func(span GoldSpan) int {
		at, _ := span.record().find(document)
		return slices.IndexFunc(a.Records, func(rec Record) bool {
			found := at != nil && rec.Code == "" && rec.Spans != nil && rec.Spans.Rune == at.Rune
			return found && (span.Class == "" || span.Class == rec.Class)
		})
	})
}

// ItemDetail is a case with the answer of one trial, for display.
type ItemDetail struct {
	DocumentText string
	// Gold holds the gold spans as records. Covered gives for each of them the index in Records,
	// or -1.
	Gold, Records []Record
	Covered       []int
}

// DecodeItem decodes the input and the expected output of a case and the output of a trial, which may
// be empty. It returns an error if they are not those of a case.
func DecodeItem(caseInput, expected, output json.RawMessage) (ItemDetail, error) {
	var in input
	var g gold
	var a Answer
	if err := cmp.Or(json.Unmarshal(caseInput, &in), json.Unmarshal(expected, &g)); err != nil {
		return ItemDetail{}, fmt.Errorf("the input or the expected output is not that of a case: %w", err)
	}
	if err := json.Unmarshal(output, &a); err != nil && len(output) > 0 {
		return ItemDetail{}, fmt.Errorf("the output is not an answer: %w", err)
	}
	s := ItemDetail{DocumentText: in.DocumentText, Records: a.Records, Covered: g.coveredBy(a)}
	for _, span := range g.GoldSpans {
		s.Gold = append(s.Gold, span.record())
	}
	return s, nil
}

// Fault describes what is wrong with the record; empty if nothing is.
func (r Record) Fault() string { return strings.Trim(string(r.Code)+"; "+r.Shape, "; ") }

// Gate is a limit for a value of a report. A value equal to the limit passes.
type Gate struct {
	Name  string // of its flag: min- or max- and the metric
	About string // describes the metric
	// Highest is the largest sensible limit. Count says that the limit is a whole number.
	Limit, Highest float64
	Count          bool
}

// Gates returns all gates with their default limits.
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

// gated returns the values that the gates limit, in the order of Gates.
func (r Report) gated() []float64 {
	return []float64{
		r.SuccessRate, r.SchemaValidRate, r.QuoteInvariantRate, r.CoverageRate, r.UniqueExtractionStability,
		r.Variance.Variance, r.SuccessRateStdDev, r.CaseOutcomeDriftRate,
		float64(r.Breadth.RegressionCategoryCount), float64(r.Breadth.TotalCaseCount),
	}
}

// Violation is a gate that the report does not pass.
type Violation struct {
	Gate  string  `json:"gate"`
	Limit float64 `json:"limit"`
	Value float64 `json:"value"`
}

// gateSlack tolerates rounding errors of a mean or root.
const gateSlack = 1e-12

// Check returns the gates that the report does not pass. The gates are those of Gates, in their order.
func Check(r Report, gates []Gate) []Violation {
	violations := []Violation{}
	for i, value := range r.gated() {
		g := gates[i]
		excess := g.Limit - value // distance to the limit
		if strings.HasPrefix(g.Name, "max-") {
			excess = value - g.Limit
		}
		if math.IsNaN(value) || excess > gateSlack {
			violations = append(violations, Violation{g.Name, g.Limit, value})
		}
	}
	return violations
}

// Verdict summarises the result of a number of gates in one line. If there are violations, the
// error has exit code 1 and lists them.
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
