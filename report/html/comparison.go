package html

import (
	"fmt"
	"net/url"
	"strconv"

	"extraction-experiment/compare"
	"extraction-experiment/internal/printable"
	"extraction-experiment/report"
)

// body writes what the comparison comes to, and the places that the script
// fills.
func (c *comparing) body() error {
	page := struct {
		frame
		Board      []boardLine
		Metric     string
		Candidates []versus
	}{frame: c.frame(), Metric: named(c.comparison.Metric)}
	page.Name, page.More = c.titles[0]+" → "+c.titles[1], len(c.titles)-2
	page.States = []choice{{"", "all"}, {"changed", "changed"}, {"better", "better"}, {"worse", "worse"}, {"same", "the same"}, {"failed", "failed in either"}}
	for i, r := range c.comparison.Candidates {
		if at := c.at[i]; at > 0 && len(c.runs) > 2 {
			page.Against = append(page.Against, choice{againstValue(at), c.titles[i+1]})
		}
		page.Candidates = append(page.Candidates, c.versus(i, r))
	}
	if len(c.comparison.Candidates) > 1 {
		page.Board = board(c.comparison)
	}
	return c.ExecuteTemplate(c, "comparison", page)
}

// againstValue names a candidate in the addresses of the page; the first needs
// no name.
func againstValue(at int) string {
	if at == 1 {
		return ""
	}
	return strconv.Itoa(at)
}

// versus is what the page shows of one candidate against the base.
type versus struct {
	Base, Candidate sideCard
	Mismatches      []mismatchLine
	Verdict         verdictCard
	Routes          []routeLink
	Gate            *gateCard
	Warnings        []string
	Scale           string
	Scores          []differenceLine
	Pooled          []pooledLine
	YesNo           []yesNoLine
	Consumption     []string
	Groups          []groupDifferences
	Changed         []changeLine
	Metric          string
}

// sideCard says what a run is.
type sideCard struct {
	Title, Name, Link string
	About             []string
	Failed            string
}

type mismatchLine struct{ What, Base, Candidate string }

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

func (c *comparing) versus(i int, r compare.Result) versus {
	v := versus{Metric: named(c.comparison.Metric), Base: c.sideCard("Base", 0, c.comparison.Base), Candidate: c.sideCard("Candidate", i+1, r.Candidate)}
	for _, m := range r.Incompatible[:min(len(r.Incompatible), 10*mostLines)] {
		v.Mismatches = append(v.Mismatches, mismatchLine{long(m.What), long(m.Base), long(m.Candidate)})
	}
	if len(r.Incompatible) > 0 {
		return v
	}
	primary, _ := primaryScore(r)
	scale := scaleOf(r.Scores)
	v.Verdict = newVerdictCard(c.comparison, primary)
	v.Verdict.Figure, v.Verdict.Spread = newIntervalFigure(primary, scale), newSpreadFigure(c.spreads[c.at[i]], primary)
	v.Routes = routes(primary, r, againstValue(c.at[i]))
	v.Gate = newGateCard(r.Gate)
	for _, warning := range r.Warnings[:min(len(r.Warnings), mostLines)] {
		v.Warnings = append(v.Warnings, long(warning))
	}
	v.Scale, v.Scores = report.FormatScore(&scale, 2), differenceLines(r.Scores, scale)
	v.Pooled, v.YesNo = pooledLines(r), yesNoLines(r.YesNo)
	for _, line := range report.FormatConsumption(c.all[0], r) {
		v.Consumption = append(v.Consumption, long(line))
	}
	v.Groups = groupDifferenceTables(r.Groups)
	v.Changed = changeLines(r.Changed, againstValue(c.at[i]), primary.LowerIsBetter)
	return v
}

// long is a line of text that strangers had a hand in.
func long(s string) string { return printable.Line(cutTo(s, 1000)) }

func (c *comparing) sideCard(title string, at int, s compare.Side) sideCard {
	card := sideCard{Title: title, Name: c.titles[at], About: append(about(c.all[at]), report.FormatCount(s.Summary.Items.Planned)+" items")}
	if at < len(c.cfg.Links) {
		card.Link = c.cfg.Links[at]
	}
	if n := s.Summary.Items.Failed; n > 0 {
		card.Failed = report.FormatCount(n) + " failed"
	}
	if s.Where != "" {
		card.About = append(card.About, long(s.Where))
	}
	return card
}

func primaryScore(r compare.Result) (compare.Score, bool) {
	for _, s := range r.Scores {
		if s.Primary {
			return s, true
		}
	}
	return compare.Score{Verdict: compare.Unclear}, false
}

func newVerdictCard(c compare.Comparison, s compare.Score) verdictCard {
	v := verdictCard{Word: report.FormatVerdict(s), State: string(s.Verdict),
		Text: fmt.Sprintf("%s %s → %s", named(s.Name), report.FormatScore(s.Base, 3), report.FormatScore(s.Candidate, 3))}
	if s.CI95 != nil {
		v.Interval = fmt.Sprintf("%s, 95 %% interval %s, p %s", report.FormatDelta(s.Difference), report.FormatDeltas(s.CI95), report.FormatP(s.P))
	}
	if s.Clusters > 0 && s.Unclustered != nil {
		v.Notes = append(v.Notes, fmt.Sprintf("%s by %s; as if items were independent: %s", counted(s.Clusters, "cluster"), named(c.ClusterBy), report.FormatDeltas(s.Unclustered)))
	}
	if s.Detectable != nil {
		v.Notes = append(v.Notes, fmt.Sprintf("A true difference of %s would be found 4 times of 5.", report.FormatScore(s.Detectable, 3)))
	}
	if s.Needed != nil && *s.Needed > s.N {
		v.Notes = append(v.Notes, fmt.Sprintf("To find one of %s it takes about %s.", report.FormatDelta(s.Difference), counted(*s.Needed, "item")))
	}
	return v
}

// routes link to the parts of the list.
func routes(s compare.Score, r compare.Result, against string) []routeLink {
	failed := max(r.Candidate.Summary.Items.Failed, 0)
	var list []routeLink
	for _, part := range []struct {
		state, title string
		n            int
	}{{"better", "better", s.Wins}, {"worse", "worse", s.Losses}, {"same", "the same", s.Ties}, {"failed", "failed in the candidate", failed}} {
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
		s, _ := primaryScore(r)
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
