package html

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"extraction-experiment/outcome"
	"extraction-experiment/report"
	"extraction-experiment/scoring"
)

// meta tells the script what the rows mean.
type meta struct {
	Runs    []metaRun `json:"runs"`
	Scores  []string  `json:"scores"`
	Shown   []int     `json:"shown"`   // places of the scores that the list shows
	Primary int       `json:"primary"` // place of the primary score, or -1
	Causes  []string  `json:"causes"`
	Left    int       `json:"left"` // items that are not listed
	// Lower says that less of the primary score is better.
	Lower bool `json:"lower,omitempty"`
	// Answers says that items are questions about a document.
	Answers bool `json:"answers,omitempty"`
}

type metaRun struct {
	Name    string `json:"name"`
	Dataset string `json:"dataset"`
	Model   string `json:"model"`
}

func (w *writer) meta() meta {
	m := meta{Scores: []string{}, Shown: []int{}, Causes: []string{}, Left: w.left, Lower: w.lower}
	m.Primary, m.Answers = slices.Index(w.scores, w.primary), w.runs[0].Summary.Answers != nil
	for _, name := range w.scores {
		m.Scores = append(m.Scores, named(name))
	}
	names := []string{w.primary}
	if len(w.runs) == 1 { // some others, those that say most first
		names = append(names, scoring.EntityF1, scoring.EntityPrecision, scoring.EntityRecall, scoring.TypeAccuracy)
		names = append(append(names, scoring.RelationshipF1), w.scores...)
	}
	for _, name := range names {
		i := slices.Index(w.scores, name)
		says := i >= 0 && (i == m.Primary || name != outcome.ErrorScore)
		if says && len(m.Shown) < 5 && !slices.Contains(m.Shown, i) {
			m.Shown = append(m.Shown, i)
		}
	}
	if m.Answers {
		m.Causes = []string{causeKey("term", causeMissed), causeKey("term", causeForbidden), causeKey("citation", causeMissed)}
	}
	for _, r := range w.runs {
		run := r.Summary.Run
		m.Runs = append(m.Runs, metaRun{named(run.Name), named(run.Dataset), named(run.Model)})
		for _, c := range r.Summary.Causes {
			if key := causeKey(c.What, c.Name); !slices.Contains(m.Causes, key) && len(m.Causes) < mostLines {
				m.Causes = append(m.Causes, key)
			}
		}
	}
	return m
}

// frame is what all pages with a list of items have around their overview.
type frame struct {
	Home, Name            string
	More                  int // runs beside the one that is named
	Left, Listed, Shorter int
	Against               []choice // candidates to choose from
	Trials                bool     // items have a row per trial
	Differences           bool     // of a candidate and the base
}

// choice is an option of a filter.
type choice struct{ Value, Title string }

func (w *writer) frame() frame {
	return frame{Home: w.cfg.Home, Name: w.titles[0], More: len(w.titles) - 1,
		Left: w.left, Listed: w.listed, Shorter: w.shorter, Differences: w.paired}
}

// body writes the overview and the places that the script fills.
func (w *writer) body() error {
	page := struct {
		frame
		Runs []overview
	}{frame: w.frame()}
	for i, r := range w.runs {
		page.Trials = page.Trials || r.Summary.Trials != nil
		page.Runs = append(page.Runs, newOverview(report.SummaryView{Summary: r.Summary, Ceiling: r.Ceiling}, w.tallies[i]))
	}
	return w.ExecuteTemplate(w, "body", page)
}

// overview is what the first view shows of one run.
type overview struct {
	Name     string
	About    []string
	Link     string
	Tiles    []tile
	Scores   []*table
	Warnings []string
	Trials   []*table
	Failures []outcome.FailureCount
	Causes   []outcome.CauseCount
	Groups   []*table
}

// tile is a number that stands out.
type tile struct{ Title, Value, Note, State string }

func newOverview(v report.SummaryView, t tally) overview {
	o := overview{Name: named(v.Run.Name), About: append(v.About(), v.Origin()...), Tiles: tiles(v), Warnings: first(v.Warnings, mostLines),
		Failures: first(v.Failures, mostLines), Causes: first(v.Causes, mostLines)}
	o.Groups = newTables(mostGroups, v.GroupTables()...)
	o.Link, _ = report.WebLink(v.Run.URL)
	if len(v.Scores) > 0 {
		var distributions []*drawing
		for _, s := range v.Scores {
			mean, ci := v.Scores.Lead(s)
			figure := newDistribution(named(s.Name), mean, ci, t[s.Name], v.Ceiling.Stat(s.Name))
			distributions = append(distributions, figure)
		}
		scores := newTable("scores", v.ScoreTable(), mostLines)
		scores.At, scores.Drawings = 2, distributions
		scores.Scale = []string{"0", "distribution, mean and 95 % interval", "1"}
		o.Scores = []*table{scores}
	}
	if v.Trials != nil {
		o.Trials = newTables(mostRows, v.TrialTable(), v.SpreadTable(), v.FlakyTable())
	}
	return o
}

// mostGroups is the most rows of a breakdown.
const mostGroups = 60

// tiles are the primary score and the facts of a run.
func tiles(v report.SummaryView) (list []tile) {
	if stat, ok := v.Scores.Lookup(v.Run.Primary); ok {
		var notes []string
		mean, ci := v.Scores.Lead(stat)
		if ci != nil {
			notes = append(notes, "95 % interval "+report.Interval(ci))
		}
		if people := v.Ceiling.Stat(stat.Name); people.Mean != nil {
			notes = append(notes, "human agreement "+report.Score(people.Mean, 3))
		}
		if v.Scores.AnyFailed() {
			notes = append(notes, "failed as 0; of those scored "+report.Score(stat.Mean, 3))
		}
		list = append(list, tile{named(stat.Name), report.Score(mean, 3), strings.Join(notes, ", "), "primary"})
	}
	for _, f := range v.Facts() {
		title, value := f.Label, f.Parts[0]
		if number, ok := strings.CutPrefix(value, "weighted_score "); ok { // the name is too long for a number's place
			title, value = "weighted_score", number
		}
		list = append(list, tile{title, named(value), long(strings.Join(f.Parts[1:], ", ")), f.State})
	}
	return list
}

// causeMeaning explains a cause of the extraction harness; "" for any other.
func causeMeaning(name string) string {
	for _, c := range scoring.Causes() {
		if string(c.Cause) == name {
			return c.Meaning
		}
	}
	return ""
}

// tally counts how often each score of a run has which value.
type tally map[string]*[bins]int

func newTally(s outcome.Summary) tally {
	t := tally{}
	for _, score := range s.Scores {
		t[score.Name] = &[bins]int{}
	}
	return t
}

func (t tally) add(v report.ItemView) {
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

// drawing is a small picture of numbers.
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

// within keeps a number from one to another.
func within(v, least, most float64) float64 { return min(most, max(least, v)) }

// bins is how many bars a distribution has, over [0,1]; a value of 1 is in the
// last.
const bins = 20

func binOf(v float64) int { return int(within(math.Floor(v*bins), 0, bins-1)) }

// newDistribution draws how often a score has which value, and its mean and
// interval below. The agreement of people is a line at its mean, and a band behind the
// bars for its interval.
func newDistribution(score string, mean *float64, ci95 *[2]float64, d *[bins]int, people outcome.Stat) *drawing {
	const width, base, step, below = 300.0, 30.0, 300.0 / bins, 37
	out := &drawing{Class: "figure", Width: width, Height: 44}
	x := func(v float64) float64 { return width * within(v, 0, 1) }
	most, values := 1, 0
	for _, n := range d {
		most, values = max(most, n), values+n
	}
	agreement := ""
	if people.Mean != nil {
		agreement = "; human agreement " + report.Score(people.Mean, 3)
	}
	if people.Mean != nil && people.CI95 != nil {
		agreement += ", 95 % interval " + report.Interval(people.CI95)
		from, to := x(people.CI95[0]), x(people.CI95[1])
		out.Rects = append(out.Rects, rect{"people", from, 0, max(0, to-from), out.Height, agreement[2:]})
	}
	for i, n := range d {
		if n > 0 {
			high := max(1.5, (base-2)*float64(n)/float64(most))
			out.Rects = append(out.Rects, rect{"bin", step*float64(i) + .5, base - high, step - 1, high,
				fmt.Sprintf("%.2f–%.2f: %s", float64(i)/bins, float64(i+1)/bins, report.Counted(n, "item"))})
		}
	}
	out.Lines = append(out.Lines, line{"axis", 0, base, width, base})
	if ci95 != nil {
		out.Lines = append(out.Lines, line{"interval", x(ci95[0]), below, x(ci95[1]), below})
	}
	if mean != nil {
		out.Circles = append(out.Circles, circle{Class: "mean", X: x(*mean), Y: below, R: 4})
	}
	if people.Mean != nil {
		out.Lines = append(out.Lines, line{"people", x(*people.Mean), 0, x(*people.Mean), out.Height})
	}
	out.Label = "Distribution of " + score + " over " + report.Counted(values, "value") + agreement
	return out
}
