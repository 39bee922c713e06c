package html

import (
	"cmp"
	"encoding/json"
	"iter"
	"math"
	"slices"

	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/stats"
	"extraction-experiment/outcome"
	"extraction-experiment/report"
)

// mergeItems iterates over several runs together, each ordered by item and trial. It yields each
// trial of an item with its view in each run, or nil if a run does not have it. One item of each
// run is in memory.
func mergeItems(runs []report.Run) iter.Seq2[[]*report.ItemView, error] {
	return stats.Merge(func(a, b *report.ItemView) int {
		return cmp.Or(cmp.Compare(a.Outcome.Item, b.Outcome.Item), cmp.Compare(a.Outcome.Trial, b.Outcome.Trial))
	}, cli.Each(runs, func(r report.Run) iter.Seq2[*report.ItemView, error] { return r.Items })...)
}

// items writes the rows and details of all items.
func (w *writer) items() error {
	total := 0
	for _, r := range w.runs {
		total = max(total, r.Summary.Items.Planned)
	}
	rows, details := bundle{class: "rows"}, bundle{class: "details"}
	budget := byteBudget{bytes: w.cfg.MaxBytes, items: min(total, w.cfg.MaxItems)}
	for row, err := range mergeItems(w.runs) {
		if err != nil {
			return err
		}
		for i, t := range w.tallies {
			if v := row[i]; v != nil {
				t.add(v)
			}
		}
		if w.frame.Listed == w.cfg.MaxItems {
			w.frame.Left++
			continue
		}
		listed, err := json.Marshal(w.row(row))
		if err != nil {
			return err
		}
		detail, cut := budget.fit(row, w)
		if cut {
			w.frame.Shorter++
		}
		if err := cmp.Or(rows.add(w, listed), details.add(w, detail)); err != nil {
			return err
		}
		w.frame.Listed++
	}
	return cmp.Or(rows.write(w), details.write(w))
}

// listRow is a row of the list of items.
type listRow struct {
	ID    string     `json:"id"`
	Trial int        `json:"trial,omitempty"` // empty for the first
	Text  string     `json:"text"`            // beginning of the document
	Runs  []*rowPart `json:"runs"`
}

// rowPart is the part of a row about one run.
type rowPart struct {
	Class  string         `json:"class,omitempty"`
	Why    string         `json:"why,omitempty"`
	Scores []*float64     `json:"scores"` // in the order of the scores of the page
	Faults map[string]int `json:"faults,omitempty"`
	MS     float64        `json:"ms"`
	Cost   *float64       `json:"cost,omitempty"`
}

// Limits of a row, in characters.
const (
	maxRowID      = 300
	maxRowText    = 140
	maxRowMessage = 200
	maxRowClass   = 40
)

// row returns the row of an item that at least one of the views has.
func (w *writer) row(views []*report.ItemView) (r listRow) {
	for _, v := range views {
		if v == nil {
			r.Runs = append(r.Runs, nil)
			continue
		}
		o := v.Outcome
		r.ID, r.Text = report.Brief(o.Item, maxRowID), cmp.Or(r.Text, clip(v.Text, maxRowText))
		if w.trials = max(w.trials, o.Trial); o.Trial > 1 {
			r.Trial = o.Trial
		}
		part := &rowPart{Class: clip(string(o.Class), maxRowClass), Cost: o.CostUSD, Faults: map[string]int{}}
		part.MS = float64(o.Latency.Microseconds()) / 1000
		if o.Failure != nil {
			part.Why = clip(o.Failure.Message, maxRowMessage)
		}
		for _, name := range w.scores {
			s, defined := outcome.Lookup(o.Scores, name)
			if w.paired && defined && s.Value == nil && o.Failed() {
				s.Value = new(float64)
			}
			part.Scores = append(part.Scores, roundScore(s.Value))
		}
		addFault := func(what, name string, n int) {
			if key := causeKey(what, name); part.Faults[key] > 0 || len(part.Faults) < 30 {
				part.Faults[key] += n
			}
		}
		for _, c := range o.Causes {
			addFault(c.What, c.Name, int(c.Count))
		}
		for i, m := range slices.Concat(v.Missed, v.Spurious) { // causes do not cover parts of answers
			if isAnswerPart(m.What) && i < len(v.Missed) {
				addFault(m.What, causeMissed, 1)
			} else if isAnswerPart(m.What) {
				addFault(m.What, causeForbidden, 1)
			}
		}
		r.Runs = append(r.Runs, part)
	}
	return r
}

// roundScore rounds a score to six decimals, more than a list shows, unless the result would be
// a whole number.
func roundScore(v *float64) *float64 {
	if v == nil {
		return nil
	}
	if rounded := math.Round(*v*1e6) / 1e6; rounded != math.Trunc(rounded) {
		return &rounded
	}
	return v
}

// causeKey names a cause in the list and in its filter.
func causeKey(what, name string) string {
	return report.Brief(report.Words(what), 40) + " · " + report.Brief(report.Words(name), 60)
}
