package bench

import (
	"encoding/json"
	"fmt"

	"extraction-experiment/dataset"
	"extraction-experiment/experiment"
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
	return judge{g}, nil
}

type judge struct{ gold gold }

// Score judges an Answer.
func (j judge) Score(output json.RawMessage) (experiment.Scored, error) {
	var a Answer
	if err := json.Unmarshal(output, &a); err != nil {
		return experiment.Scored{}, &outcome.Failure{Class: outcome.InvalidOutput, Message: err.Error()}
	}
	r := j.gold.judge(a)
	reason := "as expected"
	if !r.success {
		reason = r.why
	}
	success := ratio(CaseSuccess, toInt(r.success), 1, reason)
	success.Boolean = true
	return experiment.Scored{
		Scores: []outcome.Score{
			success,
			ratio(SchemaValidRate, r.shaped, r.count, fmt.Sprintf("%d of %d records have the right shape", r.shaped, r.count)),
			ratio(QuoteInvariantRate, r.quoted, r.count, fmt.Sprintf("%d of %d records quote the document", r.quoted, r.count)),
			ratio(CoverageRate, r.covered, r.wanted, fmt.Sprintf("%d of %d covered", r.covered, r.wanted)),
		},
		Counts: map[string]int64{"extractions": int64(r.count), "failures": int64(len(a.Failures))},
	}, nil
}

// Undelivered returns the scores without values.
func (j judge) Undelivered() []outcome.Score {
	var scores []outcome.Score
	for _, name := range []string{CaseSuccess, SchemaValidRate, QuoteInvariantRate, CoverageRate} {
		scores = append(scores, outcome.Score{Name: name, Boolean: name == CaseSuccess, Reason: "the case failed"})
	}
	return scores
}

// ratio makes a score; 0/0 is 1, as nothing is wrong with nothing.
func ratio(name string, num, den int, comment string) outcome.Score {
	value := rate(num, den)
	return outcome.Score{Name: name, Value: &value, Ratio: &outcome.Ratio{Num: int64(num), Den: int64(den)}, Vacuous: den == 0, Comment: comment}
}

func rate(num, den int) float64 {
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
	success               bool
	why                   string // it did not succeed
}

// judge counts, and says whether the answer is as expected. Covered of a smoke
// case are its gold spans that a record quotes at their place; of a regression
// record the extractions, up to the least number.
func (g gold) judge(a Answer) judgement {
	r := judgement{count: len(a.Records)}
	found := map[string]bool{}
	for _, rec := range a.Records {
		r.shaped += toInt(rec.Shape == "")
		r.quoted += toInt(rec.Code == "")
		if rec.Code == "" && rec.Spans != nil {
			found[fmt.Sprint(rec.Spans.Rune)] = true
			found[fmt.Sprint(rec.Spans.Rune, rec.Class)] = true
		}
	}
	if x := g.Expected; x != nil {
		r.wanted = x.MinExtractions
		r.covered = min(r.count, r.wanted)
		r.why = x.disagrees(a)
		r.success = r.why == ""
		return r
	}
	check := newChecker(g.DocumentText)
	r.wanted = len(g.GoldSpans)
	for _, s := range g.GoldSpans {
		start, end := s.CharStart, s.CharEnd
		spans, _ := check.quote(orUTF16(s.OffsetMode), &start, &end, s.Quote)
		if spans != nil && (s.Class == "" && found[fmt.Sprint(spans.Rune)] || found[fmt.Sprint(spans.Rune, s.Class)]) {
			r.covered++
		}
	}
	switch {
	case len(a.Failures) > 0:
		r.why = "the answer failed: " + a.Failures[0].Message
	case r.covered < r.wanted:
		r.why = fmt.Sprintf("%d of %d gold spans were extracted", r.covered, r.wanted)
	}
	r.success = r.why == ""
	return r
}

// disagrees says in what an answer is not as expected; "" where it is.
func (x Expected) disagrees(a Answer) string {
	n, failures := len(a.Records), len(a.Failures)
	switch {
	case n < x.MinExtractions || n > x.MaxExtractions:
		return fmt.Sprintf("%d extractions are not from %d to %d", n, x.MinExtractions, x.MaxExtractions)
	case a.Kind != x.EmptyResultKind:
		return fmt.Sprintf("the result is %s, expected is %s", a.Kind, x.EmptyResultKind)
	case x.EmptyResultKind == EmptyByFailure && failures == 0:
		return "nothing failed, a failure is expected"
	case x.EmptyResultKind == EmptyByEvidence && failures > 0:
		return "the answer failed: " + a.Failures[0].Message
	}
	return ""
}
