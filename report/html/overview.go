package html

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/textutil"
	"extraction-experiment/outcome"
	"extraction-experiment/report"
	"extraction-experiment/scoring"
)

// meta is the input of the script besides the items.
type meta struct {
	Runs    []metaRun `json:"runs"`
	Scores  []string  `json:"scores"`
	Shown   []int     `json:"shown"`   // indexes of the scores in the list
	Primary int       `json:"primary"` // index of the primary score, or -1
	Causes  []string  `json:"causes"`
	// Lower reports whether a lower primary score is better.
	Lower bool `json:"lower,omitempty"`
	// Answers reports whether items are questions about a document.
	Answers bool `json:"answers,omitempty"`
}

type metaRun struct {
	Name string `json:"name"`
}

func (w *writer) meta() meta {
	m := meta{Scores: append([]string{}, cli.Each(w.scores, clipName)...), Shown: []int{}, Causes: []string{},
		Lower: w.lowerIsBetter}
	m.Primary, m.Answers = slices.Index(w.scores, w.primary), w.runs[0].Summary.Answers != nil
	names := []string{w.primary}
	if len(w.runs) == 1 { // fill up with other scores, the most informative first
		names = append(names, scoring.EntityF1, scoring.EntityPrecision, scoring.EntityRecall, scoring.TypeAccuracy)
		names = append(append(names, scoring.RelationshipF1), w.scores...)
	}
	for _, name := range names {
		i := slices.Index(w.scores, name)
		informative := i >= 0 && (i == m.Primary || name != outcome.ErrorScore)
		if informative && len(m.Shown) < 5 && !slices.Contains(m.Shown, i) {
			m.Shown = append(m.Shown, i)
		}
	}
	if m.Answers {
		m.Causes = []string{causeKey("term", causeMissed), causeKey("term", causeForbidden), causeKey("citation", causeMissed)}
	}
	for _, r := range w.runs {
		m.Runs = append(m.Runs, metaRun{clipName(r.Summary.Run.Name)})
		for _, c := range r.Summary.Causes {
			if key := causeKey(c.What, c.Name); !slices.Contains(m.Causes, key) && len(m.Causes) < maxLines {
				m.Causes = append(m.Causes, key)
			}
		}
	}
	return m
}

// frame holds the parts around the overview that all pages with a list of items share.
type frame struct {
	Home, Name  string
	More        int      // number of runs that Name does not mention
	Listed      int      // items
	Left        int      // items that are not listed, because of MaxItems
	Shorter     int      // items with shortened details
	Against     []choice // candidates to choose from
	Trials      bool     // items have a row for each trial
	Differences bool     // the list shows differences between base and candidate
}

// choice is an option of a filter.
type choice struct{ Value, Title string }

// body writes the overview and the empty elements that the script fills.
func (w *writer) body() error {
	page := struct {
		frame
		Runs []overview
	}{frame: w.frame}
	page.Name, page.More = w.titles[0], len(w.titles)-1
	for i, r := range w.runs {
		page.Trials = page.Trials || r.Summary.Trials != nil
		page.Runs = append(page.Runs, newOverview(report.SummaryView{Summary: r.Summary, Ceiling: r.Ceiling}, w.tallies[i]))
	}
	return w.ExecuteTemplate(w, "body", page)
}

// overview is the content of the first view about one run: its lists, and tables of the rest.
type overview struct {
	report.SummaryView
	About                  []string
	Link                   string
	Tiles                  []tile
	Scores, Trials, Groups []*table
}

// tile is a highlighted number.
type tile struct{ Title, Value, Note, State string }

func newOverview(v report.SummaryView, t tally) overview {
	v.Warnings, v.Failures, v.Causes = firstN(v.Warnings, maxLines), firstN(v.Failures, maxLines), firstN(v.Causes, maxLines)
	o := overview{SummaryView: v, About: append(v.About(), v.Origin()...), Tiles: tiles(v)}
	o.Groups = newTables(maxGroups, v.GroupTables(-1)...)
	o.Link, _ = report.WebLink(v.Run.URL)
	if len(v.Scores) > 0 {
		scores := newTable("scores", v.ScoreTable(), maxLines)
		scores.At, scores.Drawings = 2, cli.Each(v.Scores, func(s outcome.Stat) *drawing {
			mean, ci := v.Scores.Lead(s)
			return drawDistribution(clipName(s.Name), mean, ci, t[s.Name], v.Ceiling.Stat(s.Name))
		})
		scores.Scale = []string{"0", "distribution, mean and 95 % interval", "1"}
		o.Scores = []*table{scores}
	}
	if v.Trials != nil {
		o.Trials = newTables(maxRows, v.TrialTable(), v.SpreadTable(), v.FlakyTable())
	}
	return o
}

// maxGroups limits the rows of a breakdown.
const maxGroups = 60

// tiles returns the primary score and the facts of a run.
func tiles(v report.SummaryView) (list []tile) {
	if stat, ok := v.Scores.Lookup(v.Run.Primary); ok {
		var notes []string
		mean, ci := v.Scores.Lead(stat)
		if ci != nil {
			notes = append(notes, "95 % interval "+report.Interval(ci))
		}
		if human := v.Ceiling.Stat(stat.Name); human.Mean != nil {
			notes = append(notes, "human agreement "+report.Score(human.Mean, 3))
		}
		if v.Scores.AnyFailed() {
			notes = append(notes, "failed as 0; of those scored "+report.Score(stat.Mean, 3))
		}
		list = append(list, tile{clipName(stat.Name), report.Score(mean, 3), strings.Join(notes, ", "), "primary"})
	}
	for _, f := range v.Facts() {
		title, value := f.Label, f.Parts[0]
		if number, ok := strings.CutPrefix(value, "weighted_score "); ok { // the name is too long for the place of the value
			title, value = "weighted_score", number
		}
		list = append(list, tile{title, clipName(value), clipLine(strings.Join(f.Parts[1:], ", ")), f.State})
	}
	return list
}

// causeMeaning explains a cause of the extraction harness. It is empty for other causes.
func causeMeaning(name string) string {
	for _, c := range scoring.Causes() {
		if string(c.Cause) == name {
			return c.Meaning
		}
	}
	return ""
}

// tally counts the values of each score of a run by bin.
type tally map[string]*[bins]int

func newTally(s outcome.Summary) tally {
	t := tally{}
	for _, score := range s.Scores {
		t[score.Name] = &[bins]int{}
	}
	return t
}

func (t tally) add(v *report.ItemView) {
	for name, d := range t {
		s, defined := outcome.Lookup(v.Outcome.Scores, name)
		if s.Value == nil && defined && v.Outcome.Failed() {
			s.Value = new(float64) // failed items count as 0
		}
		if s.Value != nil && !math.IsNaN(*s.Value) {
			d[binOf(*s.Value)]++
		}
	}
}

// drawing is a small SVG drawing.
type drawing struct {
	Class, Label  string
	Width, Height float64
	Rects         []rect
	Lines         []line
	Circles       []circle
}

type rect struct {
	Class               string
	X, Y, Width, Height float64
	Hint                string
}

type line struct {
	Class          string
	X1, Y1, X2, Y2 float64
}

type circle struct {
	Class   string
	X, Y, R float64
}

// clamp limits v to [low, high].
func clamp(v, low, high float64) float64 { return min(high, max(low, v)) }

// bins is the number of bars of a distribution over [0,1]. The last one includes the value 1.
const bins = 20

func binOf(v float64) int { return int(clamp(math.Floor(v*bins), 0, bins-1)) }

// drawDistribution draws a histogram of a score, with mean and interval below. Human agreement
// is a line at its mean, with a band behind the bars for its interval.
func drawDistribution(score string, mean *float64, ci95 *[2]float64, counts *[bins]int, human outcome.Stat) *drawing {
	const width, axisY, binWidth, meanY = 300.0, 30.0, 300.0 / bins, 37
	out := &drawing{Class: "figure", Width: width, Height: 44}
	x := func(v float64) float64 { return width * clamp(v, 0, 1) }
	highest, values := 1, 0
	for _, n := range counts {
		highest, values = max(highest, n), values+n
	}
	agreement := ""
	if human.Mean != nil {
		agreement = "; human agreement " + report.Score(human.Mean, 3)
	}
	if human.Mean != nil && human.CI95 != nil {
		agreement += ", 95 % interval " + report.Interval(human.CI95)
		from, to := x(human.CI95[0]), x(human.CI95[1])
		out.Rects = append(out.Rects, rect{"people", from, 0, max(0, to-from), out.Height, agreement[2:]})
	}
	for i, n := range counts {
		if n > 0 {
			height := max(1.5, (axisY-2)*float64(n)/float64(highest))
			out.Rects = append(out.Rects, rect{"bin", binWidth*float64(i) + .5, axisY - height, binWidth - 1, height,
				fmt.Sprintf("%.2f–%.2f: %s", float64(i)/bins, float64(i+1)/bins, textutil.Counted(n, "value"))})
		}
	}
	out.Lines = append(out.Lines, line{"axis", 0, axisY, width, axisY})
	if ci95 != nil {
		out.Lines = append(out.Lines, line{"interval", x(ci95[0]), meanY, x(ci95[1]), meanY})
	}
	if mean != nil {
		out.Circles = append(out.Circles, circle{Class: "mean", X: x(*mean), Y: meanY, R: 4})
	}
	if human.Mean != nil {
		out.Lines = append(out.Lines, line{"people", x(*human.Mean), 0, x(*human.Mean), out.Height})
	}
	out.Label = "Distribution of " + score + " over " + textutil.Counted(values, "value") + agreement
	return out
}
