package scoring

// MatchType says how a relationship came to match.
type MatchType string

// The ways in which relationships match, the preferred first.
const (
	// ExactMatch: same type and equal ends; of a symmetric type also swapped.
	ExactMatch MatchType = "exact"
	// InverseMatch: inverse types and equal ends, swapped.
	InverseMatch MatchType = "inverse"
	// FuzzyMatch: as exact, with at least one end similar instead of equal.
	FuzzyMatch MatchType = "fuzzy"
	// InverseFuzzyMatch: as inverse, with at least one end similar.
	InverseFuzzyMatch MatchType = "inverse-fuzzy"
)

// matchTypeOf names a way, and says how far back it stands in preference.
func matchTypeOf(inverse, equal bool) (MatchType, int) {
	switch {
	case equal && !inverse:
		return ExactMatch, 0
	case equal:
		return InverseMatch, 1
	case !inverse:
		return FuzzyMatch, 2
	}
	return InverseFuzzyMatch, 3
}

// way is how an expected statement can be matched with an extracted one.
type way struct {
	kind           MatchType
	rank           int
	source, target similarity // of the ends of the expected statement
}

func (w way) betterThan(v way) bool {
	if w.rank != v.rank {
		return w.rank < v.rank
	}
	return w.source.ppm()+w.target.ppm() > v.source.ppm()+v.target.ppm()
}

// gain orders assignments: most exact, most exact or inverse, most pairs,
// most similar ends, most of the same type.
func (w way) gain() gain {
	g := gain{1, w.source.ppm() + w.target.ppm(), 0}
	if w.rank < 2 {
		g[0] += field
	}
	if w.kind == ExactMatch {
		g[0] += field * field
	}
	if w.kind == ExactMatch || w.kind == FuzzyMatch {
		g[2] = 1
	}
	return g
}
