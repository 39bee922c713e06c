package html

import (
	"cmp"
	"encoding/json"
	"errors"
	"iter"
	"math"
	"slices"

	"extraction-experiment/internal/stats"
	"extraction-experiment/internal/textutil"
	"extraction-experiment/outcome"
	"extraction-experiment/report"
)

// merging is one item in one trial, as each of the runs has it; nil where a run
// has it not.
type merging struct {
	id    string
	trial int
	views []*report.ItemView
}

// merged walks through several runs at once, each of which yields its items by
// id and trial. One item of each is in memory.
func merged(runs []report.Run) iter.Seq2[merging, error] {
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
	byTrial := func(a, b *report.ItemView) int {
		return cmp.Or(cmp.Compare(a.Outcome.Item, b.Outcome.Item), cmp.Compare(a.Outcome.Trial, b.Outcome.Trial))
	}
	return func(yield func(merging, error) bool) {
		for views, err := range stats.Merge(byTrial, items...) {
			if err != nil {
				yield(merging{}, err)
				return
			}
			there := views[slices.IndexFunc(views, func(v *report.ItemView) bool { return v != nil })].Outcome
			if !yield(merging{there.Item, there.Trial, views}, nil) {
				return
			}
		}
	}
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
			if v := row.views[i]; v != nil {
				t.add(*v)
			}
		}
		if w.listed == w.cfg.MaxItems {
			w.left++
			continue
		}
		listed, err := json.Marshal(w.row(row, w.scores))
		if err != nil {
			return err
		}
		detail, cut := budget.fit(row, w.detailed)
		if cut {
			w.shorter++
		}
		if err := errors.Join(rows.add(w, listed), details.add(w, detail)); err != nil {
			return err
		}
		w.listed++
	}
	return errors.Join(rows.write(w), details.write(w))
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
			r.Text = textutil.Line(cutTo(v.Text, rowText))
		}
		r.Runs = append(r.Runs, newRowPart(*v, scores))
	}
	return r
}

func newRowPart(v report.ItemView, scores []string) *rowPart {
	o := v.Outcome
	part := &rowPart{Class: textutil.Line(cutTo(string(o.Class), rowClass)), MS: float64(o.Latency.Microseconds()) / 1000, Cost: o.CostUSD}
	if o.Failure != nil {
		part.Why = textutil.Line(cutTo(o.Failure.Message, rowMessage))
	}
	for _, name := range scores {
		s, _ := outcome.Lookup(o.Scores, name)
		part.Scores = append(part.Scores, rounded(s.Value))
	}
	faults := map[string]int{}
	for _, c := range slices.Concat(o.Causes, answerCauses(v)) {
		if key := causeKey(c.What, c.Name); faults[key] > 0 || len(faults) < 30 {
			faults[key] += int(c.Count)
		}
	}
	part.Faults = faults
	return part
}

// rounded returns a score with six digits behind the point, which a list never shows
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
	return cutTo(report.Words(what), 40) + " · " + cutTo(report.Words(name), 60)
}

// The faults of an answer: it lacks a term or a citation, or has a forbidden term.
const (
	causeMissed    = "missed"
	causeForbidden = "forbidden"
)

// answerCauses counts what is wrong with an answer, which has no causes of its
// own: each row of its terms that is not found as it should be is a fault.
func answerCauses(v report.ItemView) (list []outcome.Cause) {
	for i, m := range slices.Concat(v.Missed, v.Spurious) {
		name := causeMissed
		if i >= len(v.Missed) {
			name = causeForbidden
		}
		if ofAnswer(m.What) {
			list = append(list, outcome.Cause{What: m.What, Name: name, Count: 1})
		}
	}
	return list
}

// scoreNames are the scores of all runs, in the order of the first that has
// each; no page shows more than 40.
func scoreNames(runs []report.Run) []string {
	names := []string{}
	for _, r := range runs {
		for _, s := range r.Summary.Scores {
			if !slices.Contains(names, s.Name) && len(names) < mostLines {
				names = append(names, s.Name)
			}
		}
	}
	return names
}

// limits say how much of an item is shown.
type limits struct {
	text int // characters of the document, and of each message and answer
	list int // rows of each table, calls, warnings
}

// The most that any item shows; the least, under which only a notice is left; the
// most bytes of the detail of an item, however few there are; what a run's part may have
// where a fair share is less, which then the last items pay for; and that notice.
const (
	mostText, mostList      = 256 << 10, 4096
	leastText, leastList    = 256, 8
	mostDetail, leastDetail = 1 << 20, 8 << 10
	nothing                 = `{"runs":[]}`
)

// byteBudget shares the bytes of a page among its items: each may use an equal
// share of what is left, so that what small items leave over is there for later
// ones.
type byteBudget struct{ bytes, items int }

// fit encodes as much of an item as its share allows, and says whether anything
// was left out: what is too large is made anew with half of each text and list.
func (b *byteBudget) fit(row merging, detailed func(merging, limits) detail) (raw []byte, cut bool) {
	least := leastDetail * len(row.views)
	share := min(mostDetail, b.bytes, max(least, b.bytes/max(1, b.items)))
	b.items--
	l := limits{max(leastText, min(mostText, share)), mostList}
	for share >= least/2 { // hardly an item has less
		d := detailed(row, l)
		raw, err := json.Marshal(d)
		if err == nil && len(raw) <= share {
			b.bytes -= len(raw)
			return raw, d.cut()
		}
		smaller := limits{max(leastText, l.text/2), max(leastList, l.list/2)}
		if err != nil || smaller == l {
			break
		}
		l = smaller
	}
	b.bytes -= len(nothing)
	return []byte(nothing), true
}
