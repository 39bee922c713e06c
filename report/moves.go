package report

import (
	"cmp"
	"io"
	"math"
	"slices"

	"extraction-experiment/internal/stats"
	"extraction-experiment/internal/textutil"
	"extraction-experiment/outcome"
)

// Moves gathers what scoring again changed, one outcome at a time, in any order:
// the order changes no digit and no line of the result. Memory is bounded by the
// number of scores and shownMoves items of each.
type Moves struct {
	scores []*movingScore
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
}

// movingScore is a MovedScore in the making.
type movingScore struct {
	MovedScore
	before, after stats.Moments
	first         [3]int64    // where it stands first in the run: item, trial, place in the list
	items         []MovedItem // that moved most
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
	for i, s := range slices.Concat(before.Scores, after.Scores) {
		if s.Value == nil {
			continue
		}
		at := [3]int64{before.Seq, int64(before.Trial), int64(i)}
		known := slices.IndexFunc(m.scores, func(row *movingScore) bool { return row.Score == s.Name })
		if known < 0 {
			m.scores = append(m.scores, &movingScore{MovedScore: MovedScore{Score: s.Name}, first: at})
		} else if row := m.scores[known]; slices.Compare(at[:], row.first[:]) < 0 {
			row.first = at
		}
	}
	for _, row := range m.scores {
		then, _ := outcome.Lookup(before.Scores, row.Score)
		now, _ := outcome.Lookup(after.Scores, row.Score)
		row.add(then.Value, now.Value, after)
	}
}

func (s *movingScore) add(before, after *float64, o outcome.Outcome) {
	if before != nil {
		s.before.Add(*before)
	}
	if after != nil {
		s.after.Add(*after)
	}
	switch {
	case before == nil && after == nil:
	case before == nil:
		s.Defined++
	case after == nil:
		s.Undefined++
	case math.Abs(*after-*before) <= tolerance:
	default:
		if *after > *before {
			s.Up++
		} else {
			s.Down++
		}
		if s.items = append(s.items, MovedItem{o.Item, o.Trial, s.Score, *before, *after}); len(s.items) > 4*shownMoves {
			s.items = farthest(s.items)
		}
	}
}

// farthest keeps the items that moved most; ties by item and trial, so that the
// order in which outcomes came changes nothing.
func farthest(items []MovedItem) []MovedItem {
	slices.SortFunc(items, func(a, b MovedItem) int {
		return cmp.Or(cmp.Compare(math.Abs(b.After-b.Before), math.Abs(a.After-a.Before)), cmp.Compare(a.Item, b.Item), cmp.Compare(a.Trial, b.Trial))
	})
	return items[:min(len(items), shownMoves)]
}

// Result sums up; h is the header of the new run.
func (m *Moves) Result(h outcome.Header) MovesResult {
	r := MovesResult{Name: h.Name, Scorer: h.Scorer, Items: m.n, Scores: []MovedScore{}, Moved: []MovedItem{}}
	if h.Rescored != nil {
		r.From = *h.Rescored
	}
	slices.SortFunc(m.scores, func(a, b *movingScore) int { return slices.Compare(a.first[:], b.first[:]) })
	for _, s := range m.scores {
		row := s.MovedScore
		row.NOld, row.NNew = s.before.N(), s.after.N()
		row.Before, row.After = meanOf(s.before), meanOf(s.after)
		r.Scores = append(r.Scores, row)
		if s.Score == h.Scorer.Primary {
			r.Moved = append(r.Moved, farthest(s.items)...)
		}
	}
	return r
}

func meanOf(m stats.Moments) *float64 {
	if mean, ok := m.Mean(); ok {
		return &mean
	}
	return nil
}

// MovesText writes what moved as a table: the scores that moved, then the
// items. It writes once; the error is that of the writer.
func MovesText(w io.Writer, r MovesResult, opt Options) error {
	p := newPage(opt)
	p.line(p.bold(textutil.Line(r.Name)) + " · " + textutil.Line(r.From.Name) + " scored again, " + counted(r.Items, "result"))
	t := Table{Title: "Scores that moved", Columns: []Column{{Title: "score"}, {Title: "before", Right: true}, {Title: "after", Right: true},
		{Title: "difference", Right: true}, {Title: "up", Right: true}, {Title: "down", Right: true}, {Title: "n", Right: true}}}
	still := 0
	for _, s := range r.Scores {
		if s.Up+s.Down+s.Defined+s.Undefined == 0 {
			still++
			continue
		}
		difference, n := none, count(s.NNew)
		if s.NOld != s.NNew {
			n = count(s.NOld) + " → " + n
		}
		if s.Before != nil && s.After != nil {
			difference = delta(new(*s.After - *s.Before))
		}
		t.add(textutil.Line(s.Score), score(s.Before, 3), score(s.After, 3), difference, count(s.Up), count(s.Down), n)
	}
	if len(t.Rows) == 0 {
		p.line("no score moved")
		return p.writeTo(w)
	}
	p.table(t)
	if still > 0 {
		p.note(counted(still, "other score") + " did not move")
	}
	p.table(movedTable(r))
	return p.writeTo(w)
}

func movedTable(r MovesResult) Table {
	t := Table{Title: "Items that moved most, by " + textutil.Line(r.Scorer.Primary), Columns: []Column{{Title: "item", Name: true, flex: true},
		{Title: "before", Right: true}, {Title: "after", Right: true}, {Title: "difference", Right: true}}}
	for _, item := range r.Moved {
		row := t.add(item.Item, ratio(item.Before), ratio(item.After), delta(new(item.After-item.Before)))
		if item.Trial > 1 {
			row.Trial = item.Trial
		}
	}
	return t
}
