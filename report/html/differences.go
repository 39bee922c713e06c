package html

import (
	"extraction-experiment/compare"
	"extraction-experiment/internal/printable"
	"extraction-experiment/outcome"
	"extraction-experiment/report"
)

// differenceLine is a score of the base and of the candidate.
type differenceLine struct {
	Name, Base, Candidate, Difference, Interval, P, Holm string
	Better, Worse, Equal, N                              string
	State                                                string
	Primary                                              bool
	Figure                                               *intervalFigure
}

func differenceLines(scores []compare.Score, scale float64) []differenceLine {
	var lines []differenceLine
	for _, s := range scores[:min(len(scores), mostLines)] {
		lines = append(lines, differenceLine{
			Name: named(s.Name), Primary: s.Primary, State: string(s.Verdict),
			Base: report.FormatScore(s.Base, 3), Candidate: report.FormatScore(s.Candidate, 3), Difference: report.FormatDelta(s.Difference),
			Interval: report.FormatDeltas(s.CI95), P: report.FormatP(s.P), Holm: report.FormatP(s.PHolm),
			Better: report.FormatCount(s.Wins), Worse: report.FormatCount(s.Losses), Equal: report.FormatCount(s.Ties), N: report.FormatCount(s.N),
			Figure: newIntervalFigure(s, scale),
		})
	}
	return lines
}

type pooledLine struct{ Name, Base, Candidate, Difference, Interval, N string }

// pooledLines leaves out yes or no: there every item counts the same.
func pooledLines(r compare.Result) []pooledLine {
	yesNo := map[string]bool{}
	for _, y := range r.YesNo {
		yesNo[y.Name] = true
	}
	var lines []pooledLine
	for _, s := range r.Scores[:min(len(r.Scores), mostLines)] {
		if p := s.Pooled; p != nil && !yesNo[s.Name] {
			lines = append(lines, pooledLine{named(s.Name), report.FormatScore(&p.Base, 3), report.FormatScore(&p.Candidate, 3),
				report.FormatDelta(&p.Difference), report.FormatDeltas(p.CI95), report.FormatCount(p.N)})
		}
	}
	return lines
}

type yesNoLine struct{ Name, Gained, Lost, Both, None, P string }

func yesNoLines(list []compare.YesNo) []yesNoLine {
	var lines []yesNoLine
	for _, y := range list[:min(len(list), mostLines)] {
		lines = append(lines, yesNoLine{named(y.Name), report.FormatCount(y.Gained), report.FormatCount(y.Lost), report.FormatCount(y.Both), report.FormatCount(y.None), report.FormatP(y.P)})
	}
	return lines
}

// groupDifference is one type in the base and in the candidate.
type groupDifference struct {
	Name, Expected             string
	BaseMatched, Matched       string // of those extracted
	BaseF1, CandidateF1, Delta string
	State                      string
	BarX, BarWidth             float64
}

// groupBar is half the width of the bar of a type.
const groupBar = 30.0

func groupDifferences(groups []compare.Group) []typeTable[groupDifference] {
	return typeTables(groups, func(g compare.Group) string { return g.Kind }, newGroupDifference)
}

func newGroupDifference(g compare.Group) groupDifference {
	row := groupDifference{Name: typeName(g.Name), Expected: report.FormatCount(g.Candidate.Expected),
		BaseMatched: matchedOf(g.Base), Matched: matchedOf(g.Candidate),
		BaseF1: report.FormatScore(g.Base.F1, 3), CandidateF1: report.FormatScore(g.Candidate.F1, 3), Delta: report.FormatDelta(g.Difference)}
	d := 0.0
	if g.Difference != nil {
		d = min(1, max(-1, *g.Difference))
	}
	switch {
	case d > compare.Epsilon:
		row.State = string(compare.Better)
	case d < -compare.Epsilon:
		row.State = string(compare.Worse)
	}
	row.BarX, row.BarWidth = groupBar+min(0, d)*groupBar, max(d, -d)*groupBar
	return row
}

func matchedOf(g outcome.GroupStat) string {
	return report.FormatCount(g.Matched) + "/" + report.FormatCount(g.Extracted)
}

// changeLine is an item that changed, with what was matched before and after.
type changeLine struct {
	itemLink
	Base, Candidate, Delta, State string
	Lines                         []matchLine
}

// matchLine is a side's comment, or what only one side matched.
type matchLine struct {
	Title, State string
	Words        []string
	More         int
}

func changeLines(list []compare.Change, against string, lower bool) []changeLine {
	var lines []changeLine
	for _, c := range list[:min(len(list), 10*mostLines)] {
		line := changeLine{itemLink: link(c.Item, 1), Base: report.FormatScore(&c.Base, 3), Candidate: report.FormatScore(&c.Candidate, 3), Delta: report.FormatDelta(&c.Delta)}
		line.Against = against
		line.State = string(compare.Better)
		if (c.Delta < 0) != lower {
			line.State = string(compare.Worse)
		}
		for _, part := range []matchLine{
			failureWords("base", c.BaseFailure), failureWords("candidate", c.CandidateFailure),
			matchWords("candidate only", "gained", c.Gained), matchWords("base only", "lost", c.Lost),
		} {
			if len(part.Words) > 0 {
				line.Lines = append(line.Lines, part)
			}
		}
		lines = append(lines, line)
	}
	return lines
}

// matchWords shows the first of a list of matches.
func matchWords(title, state string, words []string) matchLine {
	const shown = 8
	line := matchLine{Title: title, State: state, More: max(0, len(words)-shown)}
	for _, w := range words[:min(shown, len(words))] {
		line.Words = append(line.Words, named(w))
	}
	return line
}

func failureWords(side, failure string) matchLine {
	if failure == "" {
		return matchLine{}
	}
	return matchLine{Title: side + " failed", State: "failed", Words: []string{printable.Line(cutTo(failure, rowMessage))}}
}
