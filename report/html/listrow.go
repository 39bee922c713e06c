package html

import (
	"slices"
	"unicode/utf8"

	"extraction-experiment/internal/printable"
	"extraction-experiment/outcome"
	"extraction-experiment/report"
)

// listRow is what the list of items shows of one.
type listRow struct {
	ID    string     `json:"id"`
	Trial int        `json:"trial,omitempty"` // from 2
	Text  string     `json:"text"`            // how the document begins
	Runs  []*rowPart `json:"runs"`
}

// rowPart is the part that one run has in a row.
type rowPart struct {
	Class  string         `json:"class,omitempty"`
	Why    string         `json:"why,omitempty"`
	Scores []*float64     `json:"scores"` // in the order of the page's scores
	Faults map[string]int `json:"faults,omitempty"`
	MS     float64        `json:"ms"`
	Cost   *float64       `json:"cost,omitempty"`
}

// Bounds of a row, in characters.
const (
	rowID      = 300
	rowText    = 140
	rowMessage = 200
	rowClass   = 40
)

func newListRow(row merging, scores []string) listRow {
	r := listRow{ID: cutTo(row.id, rowID)}
	if row.trial > 1 {
		r.Trial = row.trial
	}
	for _, v := range row.views {
		if v == nil {
			r.Runs = append(r.Runs, nil)
			continue
		}
		if r.Text == "" {
			r.Text = printable.Line(cutTo(v.Text, rowText))
		}
		r.Runs = append(r.Runs, newRowPart(*v, scores))
	}
	return r
}

func newRowPart(v report.ItemView, scores []string) *rowPart {
	o := v.Outcome
	part := &rowPart{Class: printable.Line(cutTo(string(o.Class), rowClass)), MS: float64(o.Latency.Microseconds()) / 1000, Cost: o.CostUSD}
	if o.Failure != nil {
		part.Why = printable.Line(cutTo(o.Failure.Message, rowMessage))
	}
	for _, name := range scores {
		s, _ := outcome.Lookup(o.Scores, name)
		part.Scores = append(part.Scores, s.Value)
	}
	for _, c := range slices.Concat(o.Causes, answerCauses(v)) {
		if part.Faults == nil {
			part.Faults = map[string]int{}
		}
		part.Faults[causeKey(c.What, c.Name)] += int(c.Count)
		if len(part.Faults) == 30 {
			break
		}
	}
	return part
}

// causeKey names a cause in the list and in its filter.
func causeKey(what, name string) string {
	return cutTo(report.FormatWords(what), 40) + " · " + cutTo(report.FormatWords(name), 60)
}

// scoreNames are the scores of all runs, in the order of the first that has
// each; no page shows more than 40.
func scoreNames(runs []report.Run) []string {
	names := []string{}
	for _, r := range runs {
		for _, s := range r.Summary.Scores {
			if !slices.Contains(names, s.Name) && len(names) < 40 {
				names = append(names, s.Name)
			}
		}
	}
	return names
}

// cutTo cuts a text to so many characters and marks the cut.
func cutTo(s string, most int) string {
	if len(s) <= most {
		return s
	}
	for i := range s {
		if most == 0 {
			return s[:i] + "…"
		}
		most--
	}
	return s
}

// charactersAfter counts the characters that a cut to so many leaves out.
func charactersAfter(s string, most int) int { return max(0, utf8.RuneCountInString(s)-most) }
