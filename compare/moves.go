package compare

import (
	"cmp"
	"math"
	"slices"

	"extraction-experiment/internal/stats"
	"extraction-experiment/outcome"
)

// Moves gathers what scoring again changed, one outcome at a time, in any order:
// the order changes no digit and no line of the result. Memory is bounded by the
// number of scores.
type Moves struct {
	primary string
	scores  map[string]*MovedScore
	moved   *stats.Shortlist[MovedItem]
	n       int
}

// MovedScore tells how one score moved. The means are over the outcomes that
// define the score then; n counts them.
type MovedScore struct {
	Score  string   `json:"score"`
	Before *float64 `json:"before"` // mean; nil where nothing defined it
	After  *float64 `json:"after"`
	NOld   int      `json:"n_before"`
	NNew   int      `json:"n_after"`
	// Up and Down count outcomes by more than Epsilon; Defined counts those that
	// define the score only now, Undefined only then.
	Up        int `json:"up"`
	Down      int `json:"down"`
	Defined   int `json:"newly_defined"`
	Undefined int `json:"newly_undefined"`

	before, after stats.Moments // in the making
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

// NewMoves returns a gatherer that has seen nothing; it keeps the ten items that move
// most by the primary score.
func NewMoves(primary string) *Moves {
	return &Moves{primary: primary, scores: map[string]*MovedScore{}, moved: stats.NewShortlist(10, func(a, b MovedItem) int {
		return cmp.Or(cmp.Compare(math.Abs(b.After-b.Before), math.Abs(a.After-a.Before)), cmp.Compare(a.Item, b.Item), cmp.Compare(a.Trial, b.Trial))
	})}
}

// Add takes what an outcome was and is. It is not safe for concurrent use.
func (m *Moves) Add(before, after outcome.Outcome) {
	m.n++
	values := map[string][2]*float64{}
	for _, s := range before.Scores {
		values[s.Name] = [2]*float64{s.Value}
	}
	for _, s := range after.Scores {
		values[s.Name] = [2]*float64{values[s.Name][0], s.Value}
	}
	for name, v := range values {
		then, now := v[0], v[1]
		if then == nil && now == nil {
			continue
		}
		s := m.scores[name]
		if s == nil {
			s = &MovedScore{Score: name}
			m.scores[name] = s
		}
		s.add(then, now)
		if name == m.primary && then != nil && now != nil && math.Abs(*now-*then) > Epsilon {
			m.moved.Offer(MovedItem{after.Item, after.Trial, name, *then, *now})
		}
	}
}

func (s *MovedScore) add(before, after *float64) {
	if before != nil {
		s.before.Add(*before)
	}
	if after != nil {
		s.after.Add(*after)
	}
	switch {
	case before == nil:
		s.Defined++
	case after == nil:
		s.Undefined++
	case *after > *before+Epsilon:
		s.Up++
	case *after < *before-Epsilon:
		s.Down++
	}
}

// Result sums up, the scores in this order, the others by name; h is the header of
// the new run.
func (m *Moves) Result(h outcome.Header, order []string) MovesResult {
	r := MovesResult{Name: h.Name, Scorer: h.Scorer, Items: m.n, Scores: []MovedScore{}, Moved: m.moved.Values()}
	if h.Rescored != nil {
		r.From = *h.Rescored
	}
	for _, s := range m.scores {
		s.NOld, s.NNew = s.before.N(), s.after.N()
		s.Before, s.After = s.before.MeanOrNil(), s.after.MeanOrNil()
		r.Scores = append(r.Scores, *s)
	}
	place := func(name string) uint { return uint(slices.Index(order, name)) } // the last for -1
	slices.SortFunc(r.Scores, func(a, b MovedScore) int {
		return cmp.Or(cmp.Compare(place(a.Score), place(b.Score)), cmp.Compare(a.Score, b.Score))
	})
	return r
}
