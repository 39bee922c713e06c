package compare

import (
	"cmp"
	"math"
	"slices"

	"extraction-experiment/internal/stats"
	"extraction-experiment/outcome"
)

// Moves collects what scoring a run again changed, one outcome at a time. The order of the
// outcomes does not change the result. Memory is bounded by the number of scores. It is not safe
// for concurrent use.
type Moves struct {
	primary string
	scores  map[string]*MovedScore
	moved   *stats.Shortlist[MovedItem]
	n       int
}

// MovedScore is the change of one score. Each mean is over the NOld or NNew outcomes that define
// the score.
type MovedScore struct {
	Score  string   `json:"score"`
	Before *float64 `json:"before"` // mean; nil if no outcome defines the score
	After  *float64 `json:"after"`
	NOld   int      `json:"n_before"`
	NNew   int      `json:"n_after"`
	// Up and Down count outcomes that changed by more than Epsilon, Defined those that define the
	// score only after, and Undefined those that define it only before.
	Up        int `json:"up"`
	Down      int `json:"down"`
	Defined   int `json:"newly_defined"`
	Undefined int `json:"newly_undefined"`

	before, after stats.Moments
}

// MovedItem is an outcome whose primary score changed by more than Epsilon.
type MovedItem struct {
	Item   string  `json:"item"`
	Trial  int     `json:"trial"`
	Score  string  `json:"score"`
	Before float64 `json:"before"`
	After  float64 `json:"after"`
}

// MovesResult is the result of scoring a run again.
type MovesResult struct {
	Name   string         `json:"name"`
	From   outcome.Origin `json:"from"`
	Scorer outcome.Scorer `json:"scorer"`
	Items  int            `json:"outcomes"`
	Scores []MovedScore   `json:"scores"`
	Moved  []MovedItem    `json:"moved"` // at most 10, the largest changes of the primary score first
}

// NewMoves returns an empty collection. It keeps the ten items whose primary score changed most.
func NewMoves(primary string) *Moves {
	return &Moves{primary: primary, scores: map[string]*MovedScore{}, moved: stats.NewShortlist(10, func(a, b MovedItem) int {
		return cmp.Or(cmp.Compare(math.Abs(b.After-b.Before), math.Abs(a.After-a.Before)), cmp.Compare(a.Item, b.Item), cmp.Compare(a.Trial, b.Trial))
	})}
}

// Add adds an outcome before and after scoring again.
func (m *Moves) Add(before, after outcome.Outcome) {
	m.n++
	for _, s := range slices.Concat(before.Scores, after.Scores) {
		if m.scores[s.Name] == nil && s.Value != nil {
			m.scores[s.Name] = &MovedScore{Score: s.Name}
		}
	}
	for name, s := range m.scores {
		old, _ := outcome.Lookup(before.Scores, name)
		current, _ := outcome.Lookup(after.Scores, name)
		s.add(old.Value, current.Value)
		if v, w := old.Value, current.Value; name == m.primary && v != nil && w != nil && math.Abs(*w-*v) > Epsilon {
			m.moved.Offer(MovedItem{after.Item, after.Trial, name, *v, *w})
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
	case before == nil && after == nil:
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

// Result returns the changes: the scores of order first, the others by name. h is the header of
// the new run.
func (m *Moves) Result(h outcome.Header, order []string) MovesResult {
	r := MovesResult{Name: h.Name, Scorer: h.Scorer, Items: m.n, Scores: []MovedScore{}, Moved: m.moved.Values()}
	if h.Rescored != nil {
		r.From = *h.Rescored
	}
	for _, name := range outcome.OrderedNames(m.scores, order) {
		s := m.scores[name]
		s.NOld, s.NNew = s.before.N(), s.after.N()
		s.Before, s.After = s.before.MeanOrNil(), s.after.MeanOrNil()
		r.Scores = append(r.Scores, *s)
	}
	return r
}
