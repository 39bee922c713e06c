package html

import (
	"cmp"
	"encoding/json"
	"iter"
	"math"
	"slices"

	"extraction-experiment/internal/stats"
	"extraction-experiment/outcome"
	"extraction-experiment/report"
)

// merged walks through several runs at once, each of which yields its items by
// id and trial: one item in one trial, as each of the runs has it; nil where a run has
// it not. One item of each is in memory.
func merged(runs []report.Run) iter.Seq2[[]*report.ItemView, error] {
	var items []iter.Seq2[*report.ItemView, error]
	for _, r := range runs {
		items = append(items, func(yield func(*report.ItemView, error) bool) {
			for v, err := range r.Items {
				if !yield(&v, err) {
					return
				}
			}
		})
	}
	return stats.Merge(func(a, b *report.ItemView) int {
		return cmp.Or(cmp.Compare(a.Outcome.Item, b.Outcome.Item), cmp.Compare(a.Outcome.Trial, b.Outcome.Trial))
	}, items...)
}

// items writes the blocks of every item.
func (w *writer) items() error {
	total := 0
	for _, r := range w.runs {
		total = max(total, r.Summary.Items.Planned)
	}
	rows, details := bundle{class: "rows"}, bundle{class: "details"}
	budget := byteBudget{bytes: w.cfg.MaxBytes, items: min(total, w.cfg.MaxItems)}
	for row, err := range merged(w.runs) {
		if err != nil {
			return err
		}
		for i, t := range w.tallies {
			if v := row[i]; v != nil {
				t.add(*v)
			}
		}
		if w.listed == w.cfg.MaxItems {
			w.left++
			continue
		}
		listed, err := json.Marshal(w.row(row))
		if err != nil {
			return err
		}
		detail, cut := budget.fit(row, w)
		if cut {
			w.shorter++
		}
		if err := cmp.Or(rows.add(w, listed), details.add(w, detail)); err != nil {
			return err
		}
		w.listed++
	}
	return cmp.Or(rows.write(w), details.write(w))
}

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

// row is the row of an item of which at least one run has a view.
func (w *writer) row(views []*report.ItemView) (r listRow) {
	for _, v := range views {
		if v == nil {
			r.Runs = append(r.Runs, nil)
			continue
		}
		o := v.Outcome
		r.ID, r.Text = report.Brief(o.Item, rowID), cmp.Or(r.Text, short(v.Text, rowText))
		if w.trials = max(w.trials, o.Trial); o.Trial > 1 {
			r.Trial = o.Trial
		}
		part := &rowPart{Class: short(string(o.Class), rowClass), Cost: o.CostUSD, Faults: map[string]int{}}
		part.MS = float64(o.Latency.Microseconds()) / 1000
		if o.Failure != nil {
			part.Why = short(o.Failure.Message, rowMessage)
		}
		for _, name := range w.scores {
			s, defined := outcome.Lookup(o.Scores, name)
			if w.paired && defined && s.Value == nil && o.Failed() {
				s.Value = new(float64)
			}
			part.Scores = append(part.Scores, rounded(s.Value))
		}
		count := func(what, name string, n int) {
			if key := causeKey(what, name); part.Faults[key] > 0 || len(part.Faults) < 30 {
				part.Faults[key] += n
			}
		}
		for _, c := range o.Causes {
			count(c.What, c.Name, int(c.Count))
		}
		for i, m := range slices.Concat(v.Missed, v.Spurious) { // an answer has no causes of its own
			if ofAnswer(m.What) && i < len(v.Missed) {
				count(m.What, causeMissed, 1)
			} else if ofAnswer(m.What) {
				count(m.What, causeForbidden, 1)
			}
		}
		r.Runs = append(r.Runs, part)
	}
	return r
}

// rounded returns a score with six digits after the point, which a list never shows
// all of; but one that is not whole does not become so.
func rounded(v *float64) *float64 {
	if v == nil {
		return nil
	}
	if short := math.Round(*v*1e6) / 1e6; short != math.Trunc(short) {
		return &short
	}
	return v
}

// causeKey names a cause in the list and in its filter.
func causeKey(what, name string) string {
	return report.Brief(report.Words(what), 40) + " · " + report.Brief(report.Words(name), 60)
}
