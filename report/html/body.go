package html

import (
	"slices"

	"extraction-experiment/outcome"
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
}

type metaRun struct {
	Name    string `json:"name"`
	Dataset string `json:"dataset"`
	Model   string `json:"model"`
}

// mostColumns bounds the scores that the list shows of a single run.
const mostColumns = 5

// preferred are the scores that say most beside the primary one.
var preferred = [...]string{scoring.EntityF1, scoring.EntityPrecision, scoring.EntityRecall, scoring.TypeAccuracy, scoring.RelationshipF1}

// columns are the places of the scores that the list shows: the primary one,
// and of a single run some others.
func (w *writer) columns(primary int) []int {
	shown := []int{}
	if primary >= 0 {
		shown = append(shown, primary)
	}
	if len(w.runs) > 1 {
		return shown
	}
	for _, name := range slices.Concat(preferred[:], w.scores) {
		i := slices.Index(w.scores, name)
		if i >= 0 && name != outcome.ErrorScore && len(shown) < mostColumns && !slices.Contains(shown, i) {
			shown = append(shown, i)
		}
	}
	return shown
}

func (w *writer) meta() meta {
	m := meta{Scores: []string{}, Causes: []string{}, Left: w.left}
	primary := w.runs[0].Summary.Run.Primary
	m.Primary = slices.Index(w.scores, primary)
	for _, name := range w.scores {
		m.Scores = append(m.Scores, named(name))
	}
	m.Shown = w.columns(m.Primary)
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

// body writes the overview and the places that the script fills.
func (w *writer) body() error {
	page := struct {
		Runs                  []overview
		Left, Listed, Shorter int
	}{Left: w.left, Listed: w.listed, Shorter: w.shorter}
	for i, r := range w.runs {
		page.Runs = append(page.Runs, newOverview(r, w.tallies[i]))
	}
	return w.ExecuteTemplate(w, "body", page)
}

// script writes what makes the page move, and ends it.
func (w *writer) script() error {
	if err := w.block("meta", 0, w.meta()); err != nil {
		return err
	}
	_, err := w.WriteString("<script>" + w.assets.script + "</script>\n</body>\n</html>\n")
	return err
}
