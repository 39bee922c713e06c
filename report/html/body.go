package html

import "slices"

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

func (w *writer) meta() meta {
	m := meta{Scores: []string{}, Shown: []int{}, Causes: []string{}, Left: w.left}
	primary := w.runs[0].Summary.Run.Primary
	m.Primary = slices.Index(w.scores, primary)
	for _, name := range w.scores {
		m.Scores = append(m.Scores, named(name))
	}
	if m.Primary >= 0 {
		m.Shown = append(m.Shown, m.Primary)
	}
	for i, name := range w.scores {
		if i != m.Primary && name != "error" && len(m.Shown) < mostColumns && len(w.runs) == 1 {
			m.Shown = append(m.Shown, i)
		}
	}
	for _, r := range w.runs {
		run := r.Summary.Run
		m.Runs = append(m.Runs, metaRun{named(run.Name), named(run.Dataset), named(run.Model)})
		for _, c := range r.Summary.Causes {
			if key := causeKey(c.What, c.Name); !slices.Contains(m.Causes, key) && len(m.Causes) < 60 {
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
