package report

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"

	"extraction-experiment/internal/printable"
	"extraction-experiment/outcome"
)

// Moves gathers what scoring again changed, one outcome at a time. Memory is
// bounded by the number of scores and shownMoves items.
type Moves struct {
	scores []*MovedScore
	items  []MovedItem
	n      int
}

// shownMoves is how many of the most moved items are kept.
const shownMoves = 10

// tolerance: a smaller difference is that of rounding.
const tolerance = 1e-9

// MovedScore tells how one score moved. The means are over the outcomes that
// define the score then; n counts them.
type MovedScore struct {
	Score  string   `json:"score"`
	Before *float64 `json:"before"` // mean; nil where nothing defined it
	After  *float64 `json:"after"`
	NOld   int      `json:"n_before"`
	NNew   int      `json:"n_after"`
	// Up and Down count outcomes by more than 1e-9; Defined counts those that
	// define the score only now, Undefined only then.
	Up        int `json:"up"`
	Down      int `json:"down"`
	Defined   int `json:"newly_defined"`
	Undefined int `json:"newly_undefined"`

	sumOld, sumNew float64
}

// MovedItem is an outcome whose scores moved far.
type MovedItem struct {
	Item   string  `json:"item"`
	Trial  int     `json:"trial"`
	Score  string  `json:"score"`
	Before float64 `json:"before"`
	After  float64 `json:"after"`
}

// MovesResult is the outcome of scoring a run again.
type MovesResult struct {
	Name   string         `json:"name"`
	From   outcome.Origin `json:"from"`
	Scorer outcome.Scorer `json:"scorer"`
	Items  int            `json:"outcomes"`
	Scores []MovedScore   `json:"scores"`
	Moved  []MovedItem    `json:"moved"` // by the primary score, the farthest first
}

// NewMoves returns a gatherer that has seen nothing.
func NewMoves() *Moves { return &Moves{} }

// Add takes what an outcome was and is. It is not safe for concurrent use.
func (m *Moves) Add(before, after outcome.Outcome) {
	m.n++
	for _, s := range before.Scores {
		if s.Value != nil {
			row := m.row(s.Name)
			row.NOld, row.sumOld = row.NOld+1, row.sumOld+*s.Value
		}
	}
	for _, s := range after.Scores {
		if s.Value != nil {
			row := m.row(s.Name)
			row.NNew, row.sumNew = row.NNew+1, row.sumNew+*s.Value
		}
	}
	for _, row := range m.scores {
		m.one(row, valueOf(before, row.Score), valueOf(after, row.Score), after)
	}
}

func (m *Moves) row(name string) *MovedScore {
	for _, s := range m.scores {
		if s.Score == name {
			return s
		}
	}
	m.scores = append(m.scores, &MovedScore{Score: name})
	return m.scores[len(m.scores)-1]
}

func (m *Moves) one(row *MovedScore, before, after *float64, o outcome.Outcome) {
	switch {
	case before == nil && after == nil:
	case before == nil:
		row.Defined++
	case after == nil:
		row.Undefined++
	case *after > *before+tolerance:
		row.Up++
	case *after < *before-tolerance:
		row.Down++
	}
	if before != nil && after != nil && math.Abs(*after-*before) > tolerance {
		m.items = append(m.items, MovedItem{o.Item, o.Trial, row.Score, *before, *after})
		if len(m.items) > 4*shownMoves*len(m.scores) {
			m.items = farthest(m.items)
		}
	}
}

// farthest keeps the items that moved most of every score; ties by item and
// trial, so that the order in which outcomes came changes nothing.
func farthest(items []MovedItem) []MovedItem {
	slices.SortFunc(items, func(a, b MovedItem) int {
		return cmp.Or(
			cmp.Compare(math.Abs(b.After-b.Before), math.Abs(a.After-a.Before)),
			cmp.Compare(a.Item, b.Item), cmp.Compare(a.Trial, b.Trial), cmp.Compare(a.Score, b.Score))
	})
	kept, seen := items[:0], map[string]int{}
	for _, item := range items {
		if seen[item.Score]++; seen[item.Score] <= shownMoves {
			kept = append(kept, item)
		}
	}
	return kept
}

func valueOf(o outcome.Outcome, name string) *float64 {
	for _, s := range o.Scores {
		if s.Name == name {
			return s.Value
		}
	}
	return nil
}

// Result sums up; h is the header of the new run.
func (m *Moves) Result(h outcome.Header) MovesResult {
	r := MovesResult{Name: h.Name, Scorer: h.Scorer, Items: m.n, Scores: []MovedScore{}, Moved: []MovedItem{}}
	if h.Rescored != nil {
		r.From = *h.Rescored
	}
	for _, s := range m.scores {
		row := *s
		if row.NOld > 0 {
			row.Before = new(row.sumOld / float64(row.NOld))
		}
		if row.NNew > 0 {
			row.After = new(row.sumNew / float64(row.NNew))
		}
		r.Scores = append(r.Scores, row)
	}
	for _, item := range farthest(m.items) {
		if item.Score == h.Scorer.Primary {
			r.Moved = append(r.Moved, item)
		}
	}
	return r
}

// MovesText writes what moved as a table: the scores that moved, then the
// items. It writes once; the error is that of the writer.
func MovesText(w io.Writer, r MovesResult, opt Options) error {
	p := newPage(opt)
	p.line(p.bold(printable.Line(r.Name)) + " · " + printable.Line(r.From.Name) + " scored again, " + counted(r.Items, "result"))
	g := &grid{columns: []column{{title: "score"}, {title: "before", right: true}, {title: "after", right: true},
		{title: "difference", right: true}, {title: "up", right: true}, {title: "down", right: true}, {title: "n", right: true}}}
	still := 0
	for _, s := range r.Scores {
		if s.Up+s.Down+s.Defined+s.Undefined == 0 {
			still++
			continue
		}
		difference, n := "–", fmt.Sprint(s.NNew)
		if s.Before != nil && s.After != nil {
			difference = fmt.Sprintf("%+.3f", *s.After-*s.Before)
		}
		if s.NOld != s.NNew {
			n = fmt.Sprintf("%d → %d", s.NOld, s.NNew)
		}
		g.add(printable.Line(s.Score), score(s.Before, 3), score(s.After, 3), difference, fmt.Sprint(s.Up), fmt.Sprint(s.Down), n)
	}
	if len(g.rows) == 0 {
		p.line("no score moved")
		return p.writeTo(w)
	}
	p.title("Scores that moved")
	p.grid(g)
	if still > 0 {
		p.wrapped(counted(still, "other score")+" did not move", gap, 0, p.faint)
	}
	p.movedItems(r)
	return p.writeTo(w)
}

func (p *page) movedItems(r MovesResult) {
	if len(r.Moved) == 0 {
		return
	}
	p.title("Items that moved most, by " + printable.Line(r.Scorer.Primary))
	g := &grid{columns: []column{{title: "item", flex: true}, {title: "before", right: true}, {title: "after", right: true}, {title: "difference", right: true}}}
	for _, item := range r.Moved {
		name := printable.Line(item.Item)
		if item.Trial > 1 {
			name += fmt.Sprintf(" #%d", item.Trial)
		}
		g.add(name, ratio(item.Before), ratio(item.After), fmt.Sprintf("%+.3f", item.After-item.Before))
	}
	p.grid(g)
}
