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

// key is the part of a profile that rules most pairs out; keys lie next to each
// other in memory, because very many pairs are looked at.
type key struct {
	letters uint64
	length  int
	name    int
}

// keysOf returns the keys of names, from the shortest name to the longest.
func (m *matcher) keysOf(list []int) []key {
	keys := make([]key, 0, len(list))
	for _, name := range list {
		p := m.names.profile(name)
		keys = append(keys, key{p.letters, len(p.runes), name})
	}
	slices.SortFunc(keys, func(p, q key) int {
		return cmp.Or(cmp.Compare(p.length, q.length), cmp.Compare(p.name, q.name))
	})
	return keys
}

// join returns, for each name of a, the names of b that are similar enough, in
// the order of their numbers. Equal names are left out.
//
// Names are taken from the shortest to the longest, and only names whose
// length allows a match are looked at. If the budget runs out, what was found
// until then is returned.
func (m *matcher) join(a, b []int, left *budget) map[int][]similarTo {
	found := map[int][]similarTo{}
	ours, theirs := m.keysOf(a), m.keysOf(b)
	byLast := m.byLastToken(theirs)
	from, to := 0, 0
	for _, k := range ours {
		for from < len(theirs) && theirs[from].length < k.length-m.threshold.maxDistance(k.length) {
			from++
		}
		for to < len(theirs) && theirs[to].length-max(0, m.threshold.maxDistance(theirs[to].length)) <= k.length {
			to++
		}
		if from < to {
			m.compare(k, theirs[from:to], found, left)
		}
		m.compareInitials(k.name, byLast, found, left)
		if list, ok := found[k.name]; ok {
			found[k.name] = bestOfEach(list)
		}
		if left.exhausted() {
			break
		}
	}
	return found
}

// compare finds the names among others, sorted by length, that are similar to
// one by edit distance.
func (m *matcher) compare(k key, others []key, found map[int][]similarTo, left *budget) {
	if !left.spend(len(others)) {
		return
	}
	length, limit := -1, 0
	for i := range others {
		other := &others[i]
		if other.length != length {
			length = other.length
			limit = m.threshold.maxDistance(max(length, k.length))
		}
		if leastEdits(k.letters, other.letters) > limit || other.name == k.name {
			continue
		}
		if s, ok := m.plain(k.name, other.name, limit, left); ok && left.spend(edgeCost) {
			found[k.name] = append(found[k.name], similarTo{other.name, s})
		}
		if left.exhausted() {
			return
		}
	}
}

// plain returns the similarity of two different names by edit distance, if it
// is within the limit.
func (m *matcher) plain(a, b, limit int, left *budget) (similarity, bool) {
	if m.digitsDiffer(a, b) || !left.covers(limit) {
		return similarity{}, false
	}
	p, q := m.names.profile(a), m.names.profile(b)
	d, work := m.editor.distance(p.runes, q.runes, limit)
	left.spend(editCost * work)
	longer := max(len(p.runes), len(q.runes))
	return similarity{num: longer - d, den: longer}, d >= 0
}

func (m *matcher) digitsDiffer(a, b int) bool {
	return m.digitsEqual && m.names.digitsOf(a) != m.names.digitsOf(b)
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
