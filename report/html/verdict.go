package html

import (
	"fmt"
	"net/url"

	"extraction-experiment/compare"
	"extraction-experiment/report"
)

// verdictCard is the answer to whether the candidate is better.
type verdictCard struct {
	Word, State, Text, Interval string
	Notes                       []string
	Figure                      *intervalFigure
	Spread                      *spreadFigure
}

type routeLink struct{ Title, Count, Route string }

type gateCard struct {
	Word, State string
	Rules       []ruleLine
}

type ruleLine struct{ Answer, Rule, Reason string }

func newVerdictCard(c compare.Comparison, r compare.Result) verdictCard {
	s := r.Primary()
	v := verdictCard{Word: report.FormatVerdict(s), State: string(s.Verdict),
		Text: fmt.Sprintf("%s %s → %s", named(s.Name), report.FormatScore(s.Base, 3), report.FormatScore(s.Candidate, 3))}
	if e := report.FormatEvidence(s); e != "" {
		v.Interval = report.FormatDelta(s.Difference) + ", " + e
	}
	if s.Verdict == compare.Same {
		v.Notes = append(v.Notes, report.FormatAlike(r))
	}
	if w := s.Weighted; w != nil {
		v.Notes = append(v.Notes, "weighted "+report.FormatWeighted(*w))
	}
	if s.Clusters > 0 && s.Unclustered != nil {
		v.Notes = append(v.Notes, fmt.Sprintf("%s by %s; as if items were independent: %s", report.FormatCounted(s.Clusters, "cluster"), named(c.ClusterBy), report.FormatDeltas(s.Unclustered)))
	}
	if s.Detectable != nil {
		v.Notes = append(v.Notes, fmt.Sprintf("A true difference of %s would be found 4 times of 5.", report.FormatScore(s.Detectable, 3)))
	}
	if s.Needed != nil && *s.Needed > s.N {
		v.Notes = append(v.Notes, fmt.Sprintf("To find one of %s it takes about %s.", report.FormatDelta(s.Difference), report.FormatCounted(*s.Needed, "item")))
	}
	return v
}

// routes link to the parts of the list.
func routes(s compare.Score, r compare.Result, against string) []routeLink {
	var list []routeLink
	for _, part := range []struct {
		state, title string
		n            int
	}{{"better", "better", s.Wins}, {"worse", "worse", s.Losses}, {"same", "the same", s.Ties}, {"failed", "failed in the candidate", r.Candidate.Summary.Items.Failed}} {
		if part.n == 0 {
			continue
		}
		query := url.Values{"state": {part.state}}
		if against != "" {
			query.Set("against", against)
		}
		list = append(list, routeLink{part.title, report.FormatCount(part.n), "#/items?" + query.Encode()})
	}
	return list
}

func newGateCard(g *compare.GateResult) *gateCard {
	if g == nil {
		return nil
	}
	card := &gateCard{Word: report.FormatGate(*g), State: string(g.Answer)}
	for _, r := range g.Rules[:min(len(g.Rules), 10*mostLines)] {
		card.Rules = append(card.Rules, ruleLine{string(r.Answer), long(r.Rule), long(r.Reason)})
	}
	return card
}

// boardLine is a candidate among others.
type boardLine struct {
	Name, Mean, Difference, Interval, P, Verdict, State, Gate, GateState string
}

func board(c compare.Comparison) []boardLine {
	var lines []boardLine
	for _, r := range c.Candidates {
		s := r.Primary()
		line := boardLine{Name: named(r.Candidate.Summary.Run.Name), Mean: report.FormatScore(s.Candidate, 3), Difference: report.FormatDelta(s.Difference),
			Interval: report.FormatDeltas(s.CI95), P: report.FormatP(s.PHolm), Verdict: report.FormatVerdict(s), State: string(s.Verdict)}
		if len(r.Incompatible) > 0 {
			line.Verdict, line.State = "cannot be compared", string(compare.Worse)
		}
		if r.Gate != nil {
			line.Gate, line.GateState = report.FormatGate(*r.Gate), string(r.Gate.Answer)
		}
		lines = append(lines, line)
	}
	return lines
}
