package html

import (
	"fmt"
	"io"
	"slices"

	"extraction-experiment/compare"
	"extraction-experiment/extraction"
	"extraction-experiment/outcome"
	"extraction-experiment/report"
)

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
	cfg, err := cfg.filled()
	if err != nil {
		return err
	}
	if len(c.Candidates) == 0 || len(runs) != 1+len(c.Candidates) {
		return fmt.Errorf("a comparison of %d candidates needs the base and the runs of all of them, not %d runs", len(c.Candidates), len(runs))
	}
	out := &comparing{comparison: c, all: runs}
	comparable := out.choose()
	k := ofComparison
	if len(comparable) < 2 {
		k = still
	}
	if out.writer, err = newWriter(w, k, cfg); err != nil {
		return err
	}
	for i := range runs {
		out.titles = append(out.titles, named(runs[i].Summary.Run.Name))
	}
	if k == still {
		return out.parts(out.head, out.body)
	}
	out.runs, out.scores = comparable, []string{c.Metric}
	out.row, out.detailed, out.spreads = out.pairRow, out.pairs, newSpreads(len(comparable))
	return out.parts(out.head, out.items, out.body, func() error { return out.script(out.meta()) })
}

// comparing is the page of a comparison in the making.
type comparing struct {
	*writer
	comparison compare.Comparison
	all        []report.Run
	at         []int    // where each candidate stands among the runs that are shown; 0 for nowhere
	places     []int    // where each run that is shown stands among all
	spreads    *spreads // of the differences of the items of each run that is shown
	trials     int      // of the item that has most
}

// choose returns the base and the candidates that can be compared with it.
func (c *comparing) choose() []report.Run {
	runs := c.all[:1:1]
	c.places = []int{0}
	for i, r := range c.comparison.Candidates {
		at := 0
		if len(r.Incompatible) == 0 {
			at = len(runs)
			runs, c.places = append(runs, c.all[i+1]), append(c.places, i+1)
		}
		c.at = append(c.at, at)
	}
	return runs
}

// lower reports whether less of the primary score is better.
func (c *comparing) lower() bool {
	return slices.ContainsFunc(c.comparison.Candidates, func(r compare.Result) bool { return r.Primary().LowerIsBetter })
}

func (c *comparing) meta() meta {
	m := c.writer.meta()
	m.Primary, m.Shown, m.Lower = 0, []int{0}, c.lower()
	return m
}

// pairRow is a row of the list: as that of runs, but failed items count as 0.
func (c *comparing) pairRow(row merging, scores []string) listRow {
	r := newListRow(row, scores)
	c.trials = max(c.trials, row.trial)
	for i, v := range row.views {
		if v == nil || !v.Outcome.Failed() || r.Runs[i].Scores[0] != nil {
			continue
		}
		if _, defined := outcome.Lookup(v.Outcome.Scores, c.comparison.Metric); defined {
			r.Runs[i].Scores[0] = new(float64)
		}
	}
	c.spreads.add(row.id, r.Runs)
	return r
}

// pairing is the detail of an item of a comparison: its document once, with the
// places of what was expected and of what each run extracted.
type pairing struct {
	shownText
	detail
}

func (p pairing) cut() bool { return p.Cut > 0 || p.detail.cut() }

func (c *comparing) pairs(row merging, l limits) shortened {
	p := pairing{detail: detail{Runs: make([]*pane, len(row.views))}}
	sides := make([]*extraction.Extraction, 0, 1+len(row.views))
	sides = append(sides, nil)
	text := ""
	for i, v := range cited(row.views) {
		sides = append(sides, nil)
		if v == nil {
			continue
		}
		p.Runs[i] = newPane(*v, l)
		p.Runs[i].Trace = c.trace(c.places[i], v.Outcome)
		sides[i+1] = v.Extracted
		if sides[0] == nil {
			sides[0] = v.Expected
		}
		if text == "" {
			text = v.Text
		}
	}
	p.shownText = highlighted(text, l, sides...)
	return p
}
