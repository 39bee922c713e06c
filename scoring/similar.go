package scoring

import (
	"cmp"
	"slices"
)

// similarity is how much alike two names are: num/den, 1 when equal.
type similarity struct {
	num, den int
	initials bool // the initials rule decided
}

var equalNames = similarity{num: 1, den: 1}

// byInitials is the similarity that the initials rule gives.
var byInitials = similarity{num: 9, den: 10, initials: true}

// ppm is the similarity in millionths, rounded down: what is added up when
// pairs are chosen.
func (s similarity) ppm() int64 { return int64(s.num) * 1_000_000 / int64(s.den) }

func (s similarity) less(t similarity) bool {
	return int64(s.num)*int64(t.den) < int64(t.num)*int64(s.den)
}

// betterThan prefers the higher similarity, and of equal ones the one that
// needs no initials.
func betterThan(s, t similarity) bool {
	return t.less(s) || !s.less(t) && t.initials && !s.initials
}

// matcher finds names that are similar enough. It is not safe for concurrent
// use.
type matcher struct {
	names       *names
	threshold   threshold
	initials    bool
	digitsEqual bool
	editor      editor
}

// similarTo is one name that is similar to another, but not equal.
type similarTo struct {
	name int
	similarity
}

// join returns, for each name of a, the names of b that are similar enough, in
// the order of their numbers. Equal names are left out.
//
// Names are taken from the shortest to the longest, and only names whose
// length allows a match are compared. If the budget runs out, what was found
// until then is returned.
func (m *matcher) join(a, b []int, left *budget) map[int][]similarTo {
	found := map[int][]similarTo{}
	byLength := func(p, q int) int {
		return cmp.Or(cmp.Compare(m.length(p), m.length(q)), cmp.Compare(p, q))
	}
	a, b = slices.Clone(a), slices.Clone(b)
	slices.SortFunc(a, byLength)
	slices.SortFunc(b, byLength)
	byLast := m.byLastToken(b)
	from := 0
	for _, name := range a {
		n := m.length(name)
		for from < len(b) && m.length(b[from]) < n-m.threshold.maxDistance(n) {
			from++
		}
		for _, other := range b[from:] {
			if longer := m.length(other); longer > n && longer-n > m.threshold.maxDistance(longer) {
				break
			}
			s, ok := m.plain(name, other, left)
			if left.exhausted() {
				return found
			}
			if ok && left.spend(edgeCost) {
				found[name] = append(found[name], similarTo{other, s})
			}
		}
		if !m.joinInitials(name, byLast, found, left) {
			return found
		}
		found[name] = bestOfEach(found[name])
	}
	return found
}

func (m *matcher) length(name int) int { return len(m.names.profile(name).runes) }

// plain returns the similarity of two different names by edit distance, if it
// is enough for a match.
func (m *matcher) plain(a, b int, left *budget) (similarity, bool) {
	p, q := m.names.profile(a), m.names.profile(b)
	longer := max(len(p.runes), len(q.runes))
	limit := m.threshold.maxDistance(longer)
	left.spend(1)
	if a == b || p.leastEdits(q) > limit || m.digitsDiffer(a, b) || !left.covers(limit) {
		return similarity{}, false
	}
	d, work := m.editor.distance(p.runes, q.runes, limit)
	left.spend(editCost * work)
	return similarity{num: longer - d, den: longer}, d >= 0
}

func (m *matcher) digitsDiffer(a, b int) bool {
	return m.digitsEqual && m.names.digitsOf(a) != m.names.digitsOf(b)
}

// byLastToken groups names by their last word, for the initials rule.
func (m *matcher) byLastToken(b []int) map[string][]int {
	groups := map[string][]int{}
	if !m.initials {
		return groups
	}
	for _, name := range b {
		if tokens := m.names.tokensOf(name); len(tokens) > 0 {
			last := tokens[len(tokens)-1]
			groups[last] = append(groups[last], name)
		}
	}
	return groups
}

func (m *matcher) joinInitials(name int, byLast map[string][]int, found map[int][]similarTo, left *budget) bool {
	if len(byLast) == 0 {
		return true
	}
	tokens := m.names.tokensOf(name)
	if len(tokens) == 0 {
		return true
	}
	for _, other := range byLast[tokens[len(tokens)-1]] {
		if !left.spend(20 + len(tokens)*len(m.names.tokensOf(other))) {
			return false
		}
		if other == name || m.digitsDiffer(name, other) || !sameByInitials(tokens, m.names.tokensOf(other)) {
			continue
		}
		if !left.spend(edgeCost) {
			return false
		}
		found[name] = append(found[name], similarTo{other, m.withInitials(name, other, left)})
	}
	return true
}

// withInitials returns the similarity of two names that are one by their
// initials: 0.9, or the plain similarity where that is higher.
func (m *matcher) withInitials(a, b int, left *budget) similarity {
	p, q := m.names.profile(a), m.names.profile(b)
	longer := max(len(p.runes), len(q.runes))
	// (m-d)/m > 9/10  ⇔  d < m/10
	limit := (longer - 1) / 10
	if !left.covers(limit) {
		return byInitials
	}
	d, work := m.editor.distance(p.runes, q.runes, limit)
	left.spend(editCost * work)
	if d < 0 {
		return byInitials
	}
	return similarity{num: longer - d, den: longer, initials: d > m.threshold.maxDistance(longer)}
}

// bestOfEach sorts by name and keeps the highest similarity of each.
func bestOfEach(list []similarTo) []similarTo {
	slices.SortFunc(list, func(s, t similarTo) int {
		if s.name != t.name {
			return s.name - t.name
		}
		switch {
		case betterThan(s.similarity, t.similarity):
			return -1
		case betterThan(t.similarity, s.similarity):
			return 1
		}
		return 0
	})
	return slices.CompactFunc(list, func(s, t similarTo) bool { return s.name == t.name })
}
