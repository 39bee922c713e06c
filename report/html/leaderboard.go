package html

import (
	"fmt"
	"io"

	"extraction-experiment/compare"
	"extraction-experiment/report"
)

// Leaderboard writes the runs of a sweep as one page: each with its mean and
// interval, cost, and how it compares with the best; quality against cost with
// the Pareto front; every two runs, the rules of each run's gate, and what to read
// with care. The page has no script. Errors are those of the writer.
func Leaderboard(w io.Writer, l compare.Leaderboard) error {
	out, err := newWriter(w, still, Config{})
	if err != nil {
		return err
	}
	page := boardPage{Metric: named(l.Metric), Front: newFrontFigure(l), Scale: pairScale(l.Pairs)}
	out.titles = []string{"Leaderboard by " + page.Metric}
	for i, r := range l.Runs[:min(len(l.Runs), mostRuns)] {
		page.Runs = append(page.Runs, newRankLine(i, r, l.ToBest(i)))
		if r.Gate != nil {
			page.Gates = append(page.Gates, gateOf{named(r.Summary.Run.Name), newGateCard(r.Gate)})
		}
	}
	for _, p := range l.Pairs[:min(len(l.Pairs), mostPairs)] {
		page.Pairs = append(page.Pairs, newPairLine(p, page.Scale))
	}
	if more := len(l.Pairs) - len(page.Pairs); more > 0 {
		page.More = "and " + report.FormatCounted(more, "more pair")
	}
	for _, warning := range l.Warnings[:min(len(l.Warnings), mostLines)] {
		page.Warnings = append(page.Warnings, long(warning))
	}
	return out.parts(out.head, func() error { return out.ExecuteTemplate(out, "leaderboard", page) })
}

// mostPairs bounds the pairs of a page; JSON has all.
const mostPairs = 500

type boardPage struct {
	Metric   string
	Runs     []rankLine
	Front    *frontFigure
	Scale    float64
	Pairs    []pairLine
	More     string
	Gates    []gateOf
	Warnings []string
}

// Ends is how far the drawings of differences reach.
func (b boardPage) Ends() string { return report.FormatScore(&b.Scale, 2) }

type gateOf struct {
	Name string
	*gateCard
}

// rankLine is one run of the leaderboard.
type rankLine struct {
	Place, Name, Mean, Interval, Away, Holm, Failed, Cost, P95, Front, Gate string
	Tied                                                                    bool
	Figure                                                                  *intervalFigure
}

func newRankLine(i int, r compare.Ranked, best compare.Pair) rankLine {
	s := r.Summary
	line := rankLine{
		Place: report.FormatRank(r), Name: named(s.Run.Name), Mean: report.FormatScore(r.Mean, 3), Interval: report.FormatInterval(r.CI95),
		Away: report.FormatDelta(best.Difference), Holm: report.FormatP(best.PHolm), Failed: report.FormatCount(s.Items.Failed), Cost: report.FormatPerItem(r), P95: "–", Front: report.FormatFront(r), Tied: i > 0 && r.Tied,
	}
	if s.LatencyMS != nil {
		line.P95 = report.FormatMilliseconds(s.LatencyMS.P95)
	}
	if r.Gate != nil {
		line.Gate = report.FormatGate(*r.Gate)
	}
	if r.Mean == nil {
		return line
	}
	x := func(v float64) float64 { return intervalWidth * min(1, max(0, v)) }
	at := x(*r.Mean)
	line.Figure = &intervalFigure{Width: intervalWidth, Height: intervalHeight, Middle: intervalHeight / 2, At: &at, Label: "mean " + line.Mean}
	if r.CI95 != nil {
		line.Figure.Interval, line.Figure.From, line.Figure.To = true, x(r.CI95[0]), x(r.CI95[1])
		line.Figure.Label += ", 95 % interval " + line.Interval
	}
	return line
}

// pairLine compares two runs.
type pairLine struct {
	First, Second, Difference, Interval, P, Holm, Says, State, Reasons string
	Figure                                                             *intervalFigure
}

func newPairLine(p compare.Pair, scale float64) pairLine {
	line := pairLine{First: named(p.First), Second: named(p.Second), Difference: report.FormatDelta(p.Difference), Interval: report.FormatDeltas(p.CI95),
		P: report.FormatP(p.P), Holm: report.FormatP(p.PHolm), Says: string(p.Verdict), State: string(p.Verdict), Figure: newIntervalFigure(pairScore(p), scale)}
	if reasons := p.Reasons(); len(reasons) > 0 {
		line.Says, line.State = "cannot be compared", string(compare.Worse)
		line.Reasons = long(fmt.Sprintf("%s%s", reasons[0], map[bool]string{true: "; and more"}[len(reasons) > 1]))
	}
	return line
}

// pairScore is a pair as a score that is drawn; its verdict is corrected already.
func pairScore(p compare.Pair) compare.Score {
	return compare.Score{Primary: true, Difference: p.Difference, CI95: p.CI95, Verdict: p.Verdict}
}

func pairScale(pairs []compare.Pair) float64 {
	var scores []compare.Score
	for _, p := range pairs {
		scores = append(scores, pairScore(p))
	}
	return scaleOf(scores)
}
