package answers

import (
	"encoding/json"
	"fmt"

	"extraction-experiment/dataset"
	"extraction-experiment/experiment"
	"extraction-experiment/outcome"
)

// Scorer judges answers by the terms that items expect. It is safe for
// concurrent use.
type Scorer struct {
	// Pages is how many pages the document has: a citation of another page is
	// warned of. 0 does not know.
	Pages int
}

// Judge reads what is expected of an item. What cannot be read is an error of
// class item.
func (s Scorer) Judge(item dataset.Item) (experiment.Judge, error) {
	if _, err := DecodeInput(item.Input); err != nil {
		return nil, &outcome.Failure{Class: outcome.Item, Message: err.Error()}
	}
	expected, err := DecodeExpected(item.Expected)
	if err != nil {
		return nil, &outcome.Failure{Class: outcome.Item, Message: fmt.Sprintf("the expected output cannot be used: %v", err)}
	}
	return judge{expected, s.Pages}, nil
}

type judge struct {
	expected Expected
	pages    int
}

// Score judges an answer, the Output of a Task.
func (j judge) Score(raw json.RawMessage) (experiment.Scored, error) {
	var output Output
	if err := json.Unmarshal(raw, &output); err != nil {
		return experiment.Scored{}, &outcome.Failure{Class: outcome.InvalidOutput, Message: "the result is no answer: " + err.Error()}
	}
	g := Judge(j.expected, output.Answer)
	explanation, err := json.Marshal(g.Explanation)
	if err != nil {
		return experiment.Scored{}, fmt.Errorf("encoding the terms found: %w", err)
	}
	return experiment.Scored{
		Scores: j.scores(g), Explanation: explanation, Warnings: j.oddCitations(g.Explanation.Citations),
		Counts: map[string]int64{
			"include_hits": int64(g.Hits), "include_total": int64(g.Groups),
			"forbidden_hits": int64(len(g.Explanation.Forbidden)), "citations": int64(len(g.Explanation.Citations)),
		},
	}, nil
}

// scores lists the parts of the score; question_score carries the weight.
func (j judge) scores(g Grade) []outcome.Score {
	number := func(name string, value float64) outcome.Score { return outcome.Score{Name: name, Value: &value} }
	yesNo := func(name string, yes bool) outcome.Score {
		s := outcome.Score{Name: name, Value: new(float64), Ratio: &outcome.Ratio{Den: 1}, Boolean: true}
		if yes {
			*s.Value, s.Ratio.Num = 1, 1
		}
		return s
	}
	weight := j.expected.Importance()
	score := number(Primary, g.Score)
	score.Weight, score.Comment = &weight, g.comment()
	rate := number(IncludeRate, g.IncludeRate)
	rate.Ratio, rate.Vacuous = &outcome.Ratio{Num: int64(g.Hits), Den: int64(g.Groups)}, g.Groups == 0
	rate.Comment = fmt.Sprintf("%d/%d required groups found", g.Hits, g.Groups)
	return []outcome.Score{
		score, rate, yesNo(SafeOK, g.SafeOK), number(BaseScore, g.BaseScore),
		number(CitationPenalty, g.CitationPenalty), yesNo(HasCitation, len(g.Explanation.Citations) > 0),
	}
}

// comment says in one line how the score came about.
func (g Grade) comment() string {
	text := fmt.Sprintf("%d/%d required groups found", g.Hits, g.Groups)
	if g.Groups == 0 {
		text = "nothing required"
	}
	switch n := len(g.Explanation.Forbidden); {
	case n == 1:
		text += ", 1 forbidden term"
	case n > 1:
		text += fmt.Sprintf(", %d forbidden terms", n)
	}
	if g.CitationPenalty > 0 {
		text += ", no page cited"
	}
	return text
}

// oddCitations warns of pages that the document does not have.
func (j judge) oddCitations(cited []int) []string {
	var list []string
	for _, page := range cited {
		if page < 1 || j.pages > 0 && page > j.pages {
			list = append(list, "the answer cites a page that the document does not have")
			break
		}
	}
	return list
}

// Undelivered returns the scores that an answer would have had, but for the
// penalty: a failure counts as 0 where a score is averaged, and that is the best
// that a penalty can be.
func (j judge) Undelivered() []outcome.Score {
	weight := j.expected.Importance()
	var list []outcome.Score
	for _, name := range ScoreOrder() {
		if name == CitationPenalty {
			continue
		}
		s := outcome.Score{Name: name, Reason: "failed"}
		if name == Primary {
			s.Weight = &weight
		}
		list = append(list, s)
	}
	return list
}
