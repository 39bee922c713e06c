package scoring

import (
	"cmp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// similarity is the similarity of two names, num/den: 1 if they are equal.
type similarity struct {
	num, den int32
	initials bool // the initials rule decided
}

var equalNames = similarity{num: 1, den: 1}

// byInitials is the similarity of names that agree by their initials only.
var byInitials = similarity{num: 9, den: 10, initials: true}

// ppm returns the similarity in millionths, rounded down. Assignments compare sums of these.
func (s similarity) ppm() int64 { return int64(s.num) * 1_000_000 / int64(s.den) }

// compareBest orders the higher similarity first, and of equal ones the one without initials.
func compareBest(s, t similarity) int {
	d := cmp.Compare(int64(t.num)*int64(s.den), int64(s.num)*int64(t.den))
	return cmp.Or(d, falseFirst(s.initials, t.initials))
}

// similarTo is a name and its similarity to another name.
type similarTo struct {
	name int
	similarity
}

// key is the part of a profile that rules out most pairs. Keys are adjacent in memory, since very
// many pairs are compared.
type key struct {
	letters uint64
	length  int
	name    int
}

// keysOf returns the keys of names, the shortest name first.
func (c *call) keysOf(list []int) []key {
	keys := make([]key, 0, len(list))
	for _, name := range list {
		p := c.names.profile(name)
		keys = append(keys, key{p.letters, len(p.runes), name})
	}
	slices.SortFunc(keys, func(p, q key) int {
		return cmp.Or(cmp.Compare(p.length, q.length), cmp.Compare(p.name, q.name))
	})
	return keys
}

// findSimilar returns for each name of a the names of b that are similar enough to match, without
// the name itself, in the order of their numbers. The result is indexed by name. Its lists are
// valid until the next call.
//
// Names are compared from the shortest to the longest, and only with names whose length allows a
// match. If the budget is used up, the result has what was found until then.
func (c *call) findSimilar(a, b []int, left *budget) [][]similarTo {
	found := make([][]similarTo, len(c.names.texts))
	c.similarNames = c.similarNames[:0]
	ours, theirs := c.keysOf(a), c.keysOf(b)
	byLast := c.byLastToken(theirs)
	from, to := 0, 0
	for _, k := range ours {
		for from < len(theirs) && theirs[from].length < k.length-c.threshold.maxDistance(k.length) {
			from++
		}
		for to < len(theirs) && theirs[to].length-max(0, c.threshold.maxDistance(theirs[to].length)) <= k.length {
			to++
		}
		start := len(c.similarNames)
		if from < to {
			c.compareEdits(k, theirs[from:to], left)
		}
		c.compareInitials(k.name, byLast, left)
		found[k.name] = bestOfEach(c.similarNames[start:])
	}
	return found
}

// compareEdits appends to similarNames the names among others, which are sorted by length, that
// match k by edit distance.
func (c *call) compareEdits(k key, others []key, left *budget) {
	if !left.spend(len(others)) {
		return
	}
	length, limit := -1, 0
	for i := range others {
		other := &others[i]
		if other.length != length {
			length = other.length
			limit = c.threshold.maxDistance(max(length, k.length))
		}
		if minEdits(k.letters, other.letters) > limit || other.name == k.name || c.digitsDiffer(k.name, other.name) {
			continue
		}
		if !left.covers(limit) {
			return
		}
		if s, ok := c.similarityWithin(k.name, other.name, limit, left); ok && left.spend(edgeCost) {
			c.similarNames = append(c.similarNames, similarTo{other.name, s})
		}
	}
}

// similarityWithin returns the similarity of two names by edit distance, and false if the
// distance is more than limit.
func (c *call) similarityWithin(a, b, limit int, left *budget) (similarity, bool) {
	d, work := c.editor.distance(c.names.profile(a).runes, c.names.profile(b).runes, limit)
	left.spend(editCost * work)
	longer := c.longer(a, b)
	return similarity{num: int32(longer - d), den: int32(longer)}, d >= 0
}

// longer returns the length of the longer name.
func (c *call) longer(a, b int) int {
	return max(len(c.names.profile(a).runes), len(c.names.profile(b).runes))
}

func (c *call) digitsDiffer(a, b int) bool {
	return c.options.DigitsEqual && c.names.digitsOf(a) != c.names.digitsOf(b)
}

// bestOfEach sorts list by name and keeps the highest similarity of each name.
func bestOfEach(list []similarTo) []similarTo {
	slices.SortFunc(list, func(s, t similarTo) int {
		return cmp.Or(s.name-t.name, compareBest(s.similarity, t.similarity))
	})
	return slices.CompactFunc(list, func(s, t similarTo) bool { return s.name == t.name })
}

// sameByInitials reports whether two names agree by their initials: the last words are equal, the
// first words agree, the middle words of the shorter name agree in order with middle words of the
// longer, and the other middle words of the longer are single letters. Words agree if they are
// equal or one is the single letter that begins the other.
func sameByInitials(a, b []string) bool {
	if len(a) > len(b) {
		a, b = b, a
	}
	if len(a) < 2 || a[len(a)-1] != b[len(b)-1] || !agree(a[0], b[0]) {
		return false
	}
	return alignMiddle(a[1:len(a)-1], b[1:len(b)-1])
}

// alignMiddle reports whether every word of a agrees, in order, with a word of b, and the other
// words of b are single letters. fits[i] reports whether the first i words of a fit the words of
// b seen so far.
func alignMiddle(a, b []string) bool {
	fits := make([]bool, len(a)+1)
	fits[0] = true
	for _, word := range b {
		for i := len(a); i >= 0; i-- {
			fits[i] = fits[i] && isLetter(word) || i > 0 && fits[i-1] && agree(a[i-1], word)
		}
	}
	return fits[len(a)]
}

func agree(a, b string) bool {
	return a == b || isLetter(a) && strings.HasPrefix(b, a) || isLetter(b) && strings.HasPrefix(a, b)
}

// isLetter reports whether a word is a single letter.
func isLetter(word string) bool {
	r, size := utf8.DecodeRuneInString(word)
	return size == len(word) && unicode.IsLetter(r)
}

// initialsAgree reports whether two names agree by their initials, if the options allow that.
func (c *call) initialsAgree(a, b int) bool {
	return c.options.Initials && sameByInitials(c.names.tokensOf(a), c.names.tokensOf(b))
}

// byLastToken groups names by their last word, for compareInitials.
func (c *call) byLastToken(b []key) map[string][]int {
	if !c.options.Initials {
		return nil
	}
	groups := map[string][]int{}
	for _, k := range b {
		if tokens := c.names.tokensOf(k.name); len(tokens) > 0 {
			last := tokens[len(tokens)-1]
			groups[last] = append(groups[last], k.name)
		}
	}
	return groups
}

// compareInitials appends to similarNames the names in byLast that agree with a name by their
// initials.
func (c *call) compareInitials(name int, byLast map[string][]int, left *budget) {
	if len(byLast) == 0 {
		return
	}
	tokens := c.names.tokensOf(name)
	if len(tokens) == 0 {
		return
	}
	for _, other := range byLast[tokens[len(tokens)-1]] {
		if !left.spend(20 + len(tokens)*len(c.names.tokensOf(other))) {
			return
		}
		if other == name || c.digitsDiffer(name, other) || !sameByInitials(tokens, c.names.tokensOf(other)) {
			continue
		}
		if left.spend(edgeCost) {
			c.similarNames = append(c.similarNames, similarTo{other, c.initialsSimilarity(name, other, left)})
		}
	}
}

// initialsSimilarity returns the similarity of two names that agree by their initials: 0.9, or
// the plain similarity if that is higher.
func (c *call) initialsSimilarity(a, b int, left *budget) similarity {
	limit := thresholdAt(byInitials).maxDistance(c.longer(a, b))
	if !left.covers(limit) {
		return byInitials
	}
	s, ok := c.similarityWithin(a, b, limit, left)
	if !ok {
		return byInitials
	}
	s.initials = !c.threshold.matches(s)
	return s
}

// editor computes edit distances. It reuses its memory, so it is not safe for concurrent use.
type editor struct{ previous, current []int }

// unreached marks a diagonal that no path with this number of edits reaches.
const unreached = -1 << 30

// distance returns the Levenshtein distance of a and b (insertions, deletions and substitutions
// of code points, each 1), or -1 if it is larger than limit; and the number of steps of the
// computation.
//
// For 0, 1, 2 … edits, it computes how far along each diagonal of the edit matrix a path can get
// (Ukkonen 1985), and stops after limit edits. That takes about limit² steps, and at most
// (2·limit+1)·max(len(a), len(b)) if a and b are repetitive. A library without a limit fills the
// whole matrix: 12.7 s for two names of 70,000 code points.
func (ed *editor) distance(a, b []rune, limit int) (int, int) {
	a, b = trimCommon(a, b)
	if len(a) > len(b) {
		a, b = b, a
	}
	goal := len(b) - len(a) // the diagonal on which the last cell lies
	limit = min(limit, len(b))
	if goal > limit {
		return -1, 1
	}
	if len(a) == 0 {
		return len(b), 1
	}
	ed.reserve(2*limit + 5)
	previous, current := ed.previous, ed.current
	zero := limit + 2 // index of diagonal 0
	work := 1
	for edits := 0; edits <= limit; edits++ {
		// A path cannot reach the goal from a diagonal that is more diagonals away than edits are
		// left. These bounds first move apart, then together, so no value beside them is out of date.
		low := max(-edits, goal-(limit-edits))
		high := min(edits, goal+(limit-edits))
		for d := low; d <= high; d++ {
			i := 0
			if edits > 0 {
				at := zero + d
				i = max(previous[at]+1, previous[at-1], previous[at+1]+1)
				i = min(i, len(a), len(b)-d)
			}
			start := i
			for i < len(a) && i+d < len(b) && a[i] == b[i+d] {
				i++
			}
			work += 1 + i - start
			current[zero+d] = i
			if d == goal && i == len(a) {
				return edits, work
			}
		}
		previous, current = current, previous
	}
	return -1, work
}

// reserve provides memory for n diagonals, all of them unreached.
func (ed *editor) reserve(n int) {
	if cap(ed.previous) < n {
		ed.previous, ed.current = make([]int, n), make([]int, n)
	}
	ed.previous, ed.current = ed.previous[:n], ed.current[:n]
	for i := range n {
		ed.previous[i], ed.current[i] = unreached, unreached
	}
}

// trimCommon removes the common prefix and suffix of a and b, which do not change the distance.
func trimCommon(a, b []rune) ([]rune, []rune) {
	for len(a) > 0 && len(b) > 0 && a[0] == b[0] {
		a, b = a[1:], b[1:]
	}
	for len(a) > 0 && len(b) > 0 && a[len(a)-1] == b[len(b)-1] {
		a, b = a[:len(a)-1], b[:len(b)-1]
	}
	return a, b
}

// disjointSet keeps the numbers from 0 in groups that can be joined (union-find).
type disjointSet struct{ parent []int }

func newDisjointSet(n int) *disjointSet {
	parent := make([]int, n)
	for i := range parent {
		parent[i] = i
	}
	return &disjointSet{parent}
}

func (d *disjointSet) find(i int) int {
	for d.parent[i] != i {
		d.parent[i] = d.parent[d.parent[i]]
		i = d.parent[i]
	}
	return i
}

// join merges the groups of i and j. The root of a group is its smallest member.
func (d *disjointSet) join(i, j int) {
	i, j = d.find(i), d.find(j)
	d.parent[max(i, j)] = min(i, j)
}

// index maps each key to a list of values.
type index struct{ starts, values []int }

// newIndex makes the index of pairs of a key and a value. Keys are less than n. The values of a
// key keep their order.
func newIndex(n int, pairs [][2]int) index {
	x := index{make([]int, n+2), make([]int, len(pairs))}
	for _, p := range pairs {
		x.starts[p[0]+2]++
	}
	for key := range n {
		x.starts[key+2] += x.starts[key+1]
	}
	for _, p := range pairs { // moves each start to that of the next key
		x.values[x.starts[p[0]+1]] = p[1]
		x.starts[p[0]+1]++
	}
	return x
}

func (x index) of(key int) []int { return x.values[x.starts[key]:x.starts[key+1]] }
