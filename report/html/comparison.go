package html

import (
	"slices"
	"strconv"
	"strings"

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
	page.Trials = c.trials > 1
	if c.spreads != nil {
		c.spreads.count() // the last item
	}
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
	Counts          string // which items have any
	Pooled          []pooledLine
	PooledNote      string
	YesNo           []yesNoLine
	Consumption     []string
	Groups          []typeTable[groupDifference]
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

func (c *comparing) versus(i int, r compare.Result) versus {
	v := versus{Metric: named(c.comparison.Metric), Base: c.sideCard("Base", 0, c.comparison.Base), Candidate: c.sideCard("Candidate", i+1, r.Candidate)}
	for _, m := range r.Incompatible[:min(len(r.Incompatible), 10*mostLines)] {
		v.Mismatches = append(v.Mismatches, mismatchLine{long(strings.TrimSuffix(m.What+"; "+m.Advice, "; ")), long(m.Base), long(m.Candidate)})
	}
	if len(r.Incompatible) > 0 {
		return v
	}
	primary := r.Primary()
	scale := scaleOf(r.Scores)
	v.Verdict = newVerdictCard(c.comparison, r)
	v.Verdict.Figure, v.Verdict.Spread = newIntervalFigure(primary, scale), newSpreadFigure(c.spreads.of[c.at[i]], primary)
	v.Routes = routes(primary, r, againstValue(c.at[i]))
	v.Gate = newGateCard(r.Gate)
	for _, warning := range r.Warnings[:min(len(r.Warnings), mostLines)] {
		v.Warnings = append(v.Warnings, long(warning))
	}
	v.Scale, v.Scores = report.FormatScore(&scale, 2), differenceLines(r.Scores, scale)
	v.Pooled, v.YesNo, v.Counts = pooledLines(r), yesNoLines(r.YesNo), report.FormatCounts(r)
	if !slices.ContainsFunc(r.Scores, func(s compare.Score) bool { return s.Pooled != nil && s.Pooled.CI95 != nil }) {
		v.PooledNote = report.FormatNoIntervals()
	}
	for _, line := range report.FormatConsumption(c.all[0], r) {
		v.Consumption = append(v.Consumption, long(line))
	}
	v.Groups = groupDifferences(r.Groups)
	v.Changed = changeLines(r.Changed, againstValue(c.at[i]), primary.LowerIsBetter)
	return v
}

// long is a line of text that strangers had a hand in.
func long(s string) string { return printable.Line(cutTo(s, 1000)) }

func (c *comparing) sideCard(title string, at int, s compare.Side) sideCard {
	card := sideCard{Title: title, Name: c.titles[at], About: append(about(c.all[at]), report.FormatPlanned(c.all[at]))}
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
