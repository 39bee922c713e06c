package compare

import (
	"cmp"
	"fmt"
	"slices"
)

// Sensitivity is the comparison of a candidate when the same outputs are scored in other
// ways: how far the verdict rests on how it was scored. No gate reads it.
type Sensitivity struct {
	Settings []Setting `json:"settings"`
	// Flips are the thresholds at which another run is ahead than below it.
	Flips []Flip   `json:"flips"`
	Notes []string `json:"notes"`
}

// Setting is one way to score, and what the comparison then says: Verdict, interval and
// p-values are those of Compare, with Holm's correction over the candidates.
type Setting struct {
	What string `json:"setting"`
	// Threshold is its decimal text; "" where it is that of the runs.
	Threshold string `json:"threshold,omitempty"`
	// Own says that the runs are scored in this way.
	Own bool `json:"own,omitempty"`
	// LeftOut counts the items that are left out as doubtful.
	LeftOut int   `json:"left_out,omitempty"`
	Score   Score `json:"score"`
}

// Flip is a change of the sign of the difference between two thresholds, steps of 0.01
// without a sign between them: the last with the one and the first with the other.
type Flip struct {
	Below Setting `json:"below"`
	At    Setting `json:"at"`
}

// sign of the difference, turned round where less is better; 0 where no run is ahead.
func (s Setting) sign() int {
	d := s.Score.Difference
	switch {
	case d == nil || *d <= Epsilon && *d >= -Epsilon:
		return 0
	case (*d < 0) != s.Score.LowerIsBetter:
		return -1
	}
	return 1
}

// Flips finds the changes of sign among settings, in order of their thresholds; those
// without a threshold are not looked at. A threshold without a sign ends nothing: it
// lies between the two of its neighbours.
func Flips(settings []Setting) []Flip {
	at := slices.DeleteFunc(slices.Clone(settings), func(s Setting) bool { return s.Threshold == "" || s.sign() == 0 })
	slices.SortStableFunc(at, func(a, b Setting) int { return cmp.Compare(a.Threshold, b.Threshold) })
	flips := []Flip{}
	for i := 1; i < len(at); i++ {
		if at[i-1].sign() != at[i].sign() {
			flips = append(flips, Flip{at[i-1], at[i]})
		}
	}
	return flips
}

// Warning says who is ahead on each side of a flip.
func (f Flip) Warning(base, candidate string) string {
	ahead := func(s Setting) string {
		name, claim := candidate, "no difference can be claimed"
		if s.sign() < 0 {
			name = base
		}
		if v := s.Score.Verdict; v == Better || v == Worse {
			claim = "a difference that can be claimed"
		}
		return fmt.Sprintf("%s is ahead (%s, %s)", name, signed(*s.Score.Difference), claim)
	}
	return fmt.Sprintf("the ranking by %s flips at threshold %s: up to %s %s, from %s on %s",
		f.At.Score.Name, f.At.Threshold, f.Below.Threshold, ahead(f.Below), f.At.Threshold, ahead(f.At))
}
