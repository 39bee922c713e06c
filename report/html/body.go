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
	m := meta{Scores: []string{}, Causes: []string{}, Left: w.left, Answers: w.runs[0].Summary.Answers != nil}
	m.Primary = slices.Index(w.scores, w.runs[0].Summary.Run.Primary)
	for _, name := range w.scores {
		m.Scores = append(m.Scores, named(name))
	}
	m.Shown = w.columns(m.Primary)
	if m.Answers {
		m.Causes = answerCauseKeys()
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
	States                []choice
	Against               []choice // candidates to choose from
	Trials                bool     // items have a row per trial
}

// choice is an option of a filter.
type choice struct{ Value, Title string }

func (w *writer) frame() frame {
	return frame{Home: w.cfg.Home, Name: w.titles[0], More: len(w.titles) - 1, Left: w.left, Listed: w.listed, Shorter: w.shorter}
}

// body writes the overview and the places that the script fills.
func (w *writer) body() error {
	page := struct {
		frame
		Runs []overview
	}{frame: w.frame()}
	page.States = []choice{{"", "all"}, {"wrong", "not perfect"}, {"perfect", "perfect"}, {"failed", "failed"}}
	for i, r := range w.runs {
		page.Trials = page.Trials || r.Summary.Trials != nil
		page.Runs = append(page.Runs, newOverview(r, w.tallies[i]))
	}
	return w.ExecuteTemplate(w, "body", page)
}

// script writes what makes the page move.
func (w *writer) script(m meta) error {
	if err := w.block("meta", 0, m); err != nil {
		return err
	}
	_, err := w.WriteString("<script>" + w.assets.script + "</script>\n")
	return err
}
