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

// newDifference draws the difference of a score with its interval, from −scale to +scale;
// it is nil without one.
func newDifference(s compare.Score, scale float64) *drawing {
	if s.Difference == nil {
		return nil
	}
	const width, height, middle = 240.0, 22.0, 11.0
	x := func(v float64) float64 { return width * within((v+scale)/(2*scale), 0, 1) }
	out := &drawing{Class: "interval v-" + string(s.Verdict), Label: "difference " + report.Delta(s.Difference), Width: width, Height: height,
		Lines:   []line{{"axis", 0, middle, width, middle}, {"zero", x(0), 2, x(0), height}},
		Circles: []circle{{Class: "at", X: x(*s.Difference), Y: middle, R: 4}}}
	if s.CI95 != nil {
		out.Label += ", 95 % interval " + report.Deltas(s.CI95)
		out.Lines = append(out.Lines, line{"range", x(s.CI95[0]), middle, x(s.CI95[1]), middle})
	}
	return out
}

// scaleOf is how far the drawings of differences reach from 0: as far as the widest
// interval, rounded up to 0.05; at least that, and at most 1.
func scaleOf(scores []compare.Score) float64 {
	most := 0.0
	for _, s := range scores {
		if s.Difference != nil {
			most = max(most, math.Abs(*s.Difference))
		}
		if s.CI95 != nil {
			most = max(most, -s.CI95[0], s.CI95[1])
		}
	}
	return within(math.Ceil(most*bins-1e-9)/bins, 0.05, 1)
}

// differences inserts a column with a drawing of each score's difference.
func (t *table) differences(at int, scores []compare.Score) *table {
	scale := scaleOf(scores)
	drawings := cli.Each(scores, func(s compare.Score) *drawing { return newDifference(s, scale) })
	end := report.Score(&scale, 2)
	t.At, t.Scale, t.Drawings = at, []string{"−" + end, "and 95 % interval", "+" + end}, drawings
	return t
}

// Compare writes a comparison as one page: the verdict with its interval, the
// rules of the gate, every score with its paired difference, the breakdown by
// type, the items that changed, a list of all items to sort and filter by their
// difference, and a page per item with the document once and what base and
// candidate made of it. Of candidates that cannot be compared it lists what
// differs, and shows no items.
//
// The runs are the base and the candidates, in the order of the comparison. A
// failed item counts as 0, as in package compare; of several trials each has a
// row of its own. Size, memory and errors are those of Write.
func Compare(w io.Writer, c compare.Comparison, runs []report.Run, cfg Config) error {
	if len(c.Candidates) == 0 || len(runs) != 1+len(c.Candidates) {
		return fmt.Errorf("a comparison of %d candidates needs the base and the runs of all of them, not %d runs", len(c.Candidates), len(runs))
	}
	differs := func(r compare.Result) bool { return len(r.Incompatible) > 0 }
	scripts := ofComparison
	if !slices.ContainsFunc(c.Candidates, func(r compare.Result) bool { return !differs(r) }) {
		scripts = still
	}
	out := &comparing{newWriter(w, scripts, cfg), report.ComparisonView{Comparison: c}, runs}
	out.paired, out.scores, out.primary = true, []string{c.Metric}, c.Metric
	for i, r := range runs {
		out.titles = append(out.titles, named(r.Summary.Run.Name))
		if i == 0 || !differs(c.Candidates[i-1]) {
			out.runs, out.places = append(out.runs, r), append(out.places, i)
		}
	}
	if scripts == still {
		return out.parts(out.head, out.body)
	}
	out.lower = slices.ContainsFunc(c.Candidates, func(r compare.Result) bool { return r.Primary().LowerIsBetter })
	return out.parts(out.head, out.items, out.body, func() error { return out.move(out.meta()) })
}

// comparing is the page of a comparison in the making.
type comparing struct {
	*writer
	report.ComparisonView
	all []report.Run
}

// body writes what the comparison comes to, and the places that the script
// fills.
func (c *comparing) body() error {
	page := struct {
		frame
		Board      *table
		Candidates []versus
	}{frame: c.frame()}
	page.Name, page.More, page.Trials = c.titles[0]+" → "+c.titles[1], len(c.titles)-2, c.trials > 1
	for i, r := range c.Results() {
		if at := slices.Index(c.places, i+1); at > 0 && len(c.runs) > 2 {
			page.Against = append(page.Against, choice{againstValue(at), c.titles[i+1]})
		}
		page.Candidates = append(page.Candidates, c.versus(i, r))
	}
	if len(c.Candidates) > 1 {
		page.Board = newTable("board", c.CandidateTable(), mostRows)
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
	report.ResultView
	Sides  []sideCard
	Figure *drawing
	End    string // where the drawing ends
	Routes []routeLink
	Scores []*table
	Tables []*table
}

// sideCard says what a run is.
type sideCard struct {
	Title, Name, Link string
	About             []string
	Failed            int
}

func (c *comparing) versus(i int, r report.ResultView) versus {
	against := againstValue(slices.Index(c.places, i+1))
	v := versus{ResultView: r, Sides: []sideCard{c.sideCard("Base", 0, c.Base), c.sideCard("Candidate", i+1, r.Candidate)}}
	if len(r.Incompatible) > 0 {
		v.Incompatible = first(r.Incompatible, mostRows)
		return v
	}
	primary, scale := r.Primary(), scaleOf(r.Result.Scores)
	v.Figure = newDifference(primary, scale)
	v.Routes = routes(primary, r.Candidate.Summary.Items.Failed, against)
	v.Warnings = first(r.Warnings, mostLines)
	v.End = report.Score(&scale, 2)
	v.Scores = []*table{newTable("scores differences", r.ScoreTable(), mostLines).differences(4, r.Result.Scores)}
	v.Tables = newTables(mostRows, r.Tables(mostGroups)...)
	for _, t := range v.Tables {
		t.Against = against
	}
	if r.Sensitivity != nil {
		scores := cli.Each(r.Sensitivity.Settings, func(w compare.Setting) compare.Score { return w.Score })
		v.Tables = append(v.Tables, newTable("differences", r.SensitivityTable(), mostLines).differences(5, scores))
	}
	return v
}

func (c *comparing) sideCard(title string, at int, s compare.Side) sideCard {
	view := report.SummaryView{Summary: c.all[at].Summary}
	card := sideCard{Title: title, Name: c.titles[at], About: append(view.About(), view.Origin()...), Failed: s.Summary.Items.Failed}
	if at < len(c.cfg.Links) {
		card.Link = c.cfg.Links[at]
	}
	if s.Where != "" {
		card.About = append(card.About, long(s.Where))
	}
	return card
}

type routeLink struct {
	Title string
	Count int
	Route string
}

// routes link to the parts of the list.
func routes(s compare.Score, failed int, against string) (list []routeLink) {
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
		list = append(list, routeLink{part.title, part.n, "#/items?" + query.Encode()})
	}
	return list
}

// Leaderboard writes the runs of a sweep as one page: each with its mean and
// interval, cost, and how it compares with the best; every two runs, the rules of each run's gate, and what to read
// with care. The page has no script. Errors are those of the writer.
func Leaderboard(w io.Writer, l compare.Leaderboard) error {
	runs := first(l.Runs, mostRuns)
	page := struct {
		Metric      string
		Runs        []compare.Ranked
		Rank, Pairs *table
		Warnings    []string
	}{Metric: named(l.Metric), Runs: runs, Warnings: first(l.Warnings, mostLines)}
	view := report.LeaderboardView{Leaderboard: l}
	page.Rank = newTable("board", view.RankTable(), mostRuns)
	scores := cli.Each(l.Pairs, func(p compare.Pair) compare.Score { // verdicts of pairs are corrected already
		return compare.Score{Primary: true, Difference: p.Difference, CI95: p.CI95, Verdict: p.Verdict}
	})
	page.Pairs = newTable("differences", view.PairTable(), 500).differences(3, scores)
	return writeStill(w, "Leaderboard by "+page.Metric, "leaderboard", page)
}
