package html

import (
	"fmt"
	"io"
	"math"
	"net/url"
	"slices"
	"strconv"

	"extraction-experiment/compare"
	"extraction-experiment/internal/cli"
	"extraction-experiment/report"
)

// drawDifference draws the difference of a score with its interval, from −scale to +scale. It
// returns nil without a difference.
func drawDifference(s compare.Score, scale float64) *drawing {
	if s.Difference == nil {
		return nil
	}
	const width, height, middle = 240.0, 22.0, 11.0
	x := func(v float64) float64 { return width * clamp((v+scale)/(2*scale), 0, 1) }
	out := &drawing{Class: "interval v-" + string(s.Verdict), Label: "difference " + report.Delta(s.Difference), Width: width, Height: height,
		Lines:   []line{{"axis", 0, middle, width, middle}, {"zero", x(0), 2, x(0), height}},
		Circles: []circle{{Class: "at", X: x(*s.Difference), Y: middle, R: 4}}}
	if s.CI95 != nil {
		out.Label += ", 95 % interval " + report.Deltas(s.CI95)
		out.Lines = append(out.Lines, line{"range", x(s.CI95[0]), middle, x(s.CI95[1]), middle})
	}
	return out
}

// scaleOf returns the scale of drawings of differences: the largest absolute value of all
// differences and intervals, rounded up to 0.05, at least 0.05 and at most 1.
func scaleOf(scores []compare.Score) float64 {
	widest := 0.0
	for _, s := range scores {
		if s.Difference != nil {
			widest = max(widest, math.Abs(*s.Difference))
		}
		if s.CI95 != nil {
			widest = max(widest, -s.CI95[0], s.CI95[1])
		}
	}
	return clamp(math.Ceil(widest*bins-1e-9)/bins, 0.05, 1)
}

// addDifferences adds a drawing of the difference of each score before the column at.
func (t *table) addDifferences(at int, scores []compare.Score) *table {
	scale := scaleOf(scores)
	drawings := cli.Each(scores, func(s compare.Score) *drawing { return drawDifference(s, scale) })
	end := report.Score(&scale, 2)
	t.At, t.Scale, t.Drawings = at, []string{"-" + end, "and 95 % interval", "+" + end}, drawings
	return t
}

// Compare writes a comparison as one page: the verdict with its interval, the rules of the gate,
// every score with its paired difference, the breakdown by type, the items that changed, a list
// of all items to sort and filter by difference, and a page for each item with the document and
// the results of base and candidate. For candidates that cannot be compared it lists what
// differs, and shows no items.
//
// runs are the base and the candidates, in the order of the comparison. A failed item counts as
// 0, as in package compare; each trial has its own row. Size, memory and errors are those of
// Write.
func Compare(w io.Writer, c compare.Comparison, runs []report.Run, cfg Config) error {
	if len(c.Candidates) == 0 || len(runs) != 1+len(c.Candidates) {
		return fmt.Errorf("a comparison of %d candidates needs the base and the runs of all of them, not %d runs", len(c.Candidates), len(runs))
	}
	incompatible := func(r compare.Result) bool { return len(r.Incompatible) > 0 }
	scripts := compareScripts
	if !slices.ContainsFunc(c.Candidates, func(r compare.Result) bool { return !incompatible(r) }) {
		scripts = noScripts
	}
	out := &comparisonWriter{newWriter(w, scripts, cfg), c, runs}
	out.paired, out.scores, out.primary = true, []string{c.Metric}, c.Metric
	for i, r := range runs {
		out.titles = append(out.titles, clipName(r.Summary.Run.Name))
		if i == 0 || !incompatible(c.Candidates[i-1]) {
			out.runs, out.runIndex = append(out.runs, r), append(out.runIndex, i)
		}
	}
	if scripts == noScripts {
		return out.writeParts(out.head, out.body)
	}
	out.lowerIsBetter = slices.ContainsFunc(c.Candidates, func(r compare.Result) bool { return r.Primary().LowerIsBetter })
	return out.writeParts(out.head, out.items, out.body, func() error { return out.writeScript(out.meta()) })
}

// comparisonWriter writes the page of a comparison.
type comparisonWriter struct {
	*writer
	compare.Comparison
	allRuns []report.Run
}

// body writes the results of the comparison and the empty elements that the script fills.
func (c *comparisonWriter) body() error {
	page := struct {
		frame
		Board      *table
		Candidates []candidateView
	}{frame: c.frame}
	page.Name, page.More = c.titles[0]+" → "+c.titles[1], len(c.titles)-2
	page.Differences, page.Trials = true, c.trials > 1
	for i, r := range report.Results(c.Comparison) {
		if at := slices.Index(c.runIndex, i+1); at > 0 && len(c.runs) > 2 {
			page.Against = append(page.Against, choice{againstValue(at), c.titles[i+1]})
		}
		page.Candidates = append(page.Candidates, c.candidateView(i, r))
	}
	if len(c.Candidates) > 1 {
		page.Board = newTable("board", report.CandidateTable(c.Comparison), maxRows)
	}
	return c.ExecuteTemplate(c, "comparison", page)
}

// againstValue names a candidate in the addresses of the page. It is empty for the first one.
func againstValue(at int) string {
	if at == 1 {
		return ""
	}
	return strconv.Itoa(at)
}

// candidateView is the comparison of one candidate with the base.
type candidateView struct {
	report.ResultView
	Sides  []sideCard
	Figure *drawing
	End    string // end of the scale of Figure
	Routes []routeLink
	Scores []*table
	Tables []*table
}

// sideCard describes a run.
type sideCard struct {
	Title, Name, Link string
	About             []string
	Failed            int
}

func (c *comparisonWriter) candidateView(i int, r report.ResultView) candidateView {
	against := againstValue(slices.Index(c.runIndex, i+1))
	v := candidateView{ResultView: r, Sides: []sideCard{c.sideCard("Base", 0, c.Base), c.sideCard("Candidate", i+1, r.Candidate)}}
	if len(r.Incompatible) > 0 {
		v.Incompatible = firstN(r.Incompatible, maxRows)
		return v
	}
	primary, scale := r.Primary(), scaleOf(r.Result.Scores)
	v.Figure = drawDifference(primary, scale)
	v.Routes = routes(primary, r.Candidate.Summary.Items.Failed, against)
	v.Warnings = firstN(r.Warnings, maxLines)
	v.End = report.Score(&scale, 2)
	v.Scores = []*table{newTable("scores differences", r.ScoreTable(), maxLines).addDifferences(4, r.Result.Scores)}
	v.Tables = newTables(maxRows, r.Tables(maxGroups)...)
	for _, t := range v.Tables {
		t.Against = against
	}
	if r.Sensitivity != nil {
		scores := cli.Each(r.Sensitivity.Settings, func(w compare.Setting) compare.Score { return w.Score })
		v.Tables = append(v.Tables, newTable("differences", r.SensitivityTable(), maxLines).addDifferences(5, scores))
	}
	return v
}

func (c *comparisonWriter) sideCard(title string, at int, s compare.Side) sideCard {
	view := report.SummaryView{Summary: c.allRuns[at].Summary}
	card := sideCard{Title: title, Name: c.titles[at], About: append(view.About(), view.Origin()...), Failed: s.Summary.Items.Failed}
	if at < len(c.cfg.Links) {
		card.Link = c.cfg.Links[at]
	}
	if s.Where != "" {
		card.About = append(card.About, clipLine(s.Where))
	}
	return card
}

type routeLink struct {
	Title string
	Count int
	Route string
}

// routes returns links to filtered lists of items.
func routes(s compare.Score, failed int, against string) (list []routeLink) {
	for _, part := range []struct {
		state, title string
		count        int
	}{{"better", "better", s.Wins}, {"worse", "worse", s.Losses}, {"same", "the same", s.Ties}, {"failed-candidate", "failed in the candidate", failed}} {
		if part.count == 0 {
			continue
		}
		query := url.Values{"state": {part.state}}
		if against != "" {
			query.Set("against", against)
		}
		list = append(list, routeLink{part.title, part.count, "#/items?" + query.Encode()})
	}
	return list
}

// Leaderboard writes the runs of a sweep as one page: each run with its mean, interval and cost,
// and its difference to the best; every two runs; the rules of the gate of each run; and
// warnings. The page has no script. The error is that of w.
func Leaderboard(w io.Writer, l compare.Leaderboard) error {
	runs := firstN(l.Runs, maxRuns)
	page := struct {
		Metric      string
		Runs        []compare.Ranked
		Rank, Pairs *table
		Warnings    []string
	}{Metric: clipName(l.Metric), Runs: runs, Warnings: firstN(l.Warnings, maxLines)}
	page.Rank = newTable("board", report.RankTable(l), maxRuns)
	scores := cli.Each(l.Pairs, func(p compare.Pair) compare.Score { // verdicts of pairs are already corrected
		return compare.Score{Difference: p.Difference, CI95: p.CI95, Verdict: p.Verdict}
	})
	page.Pairs = newTable("differences pairs", report.PairTable(l), 500).addDifferences(3, scores)
	return writeStatic(w, "Leaderboard by "+page.Metric, "leaderboard", page)
}
