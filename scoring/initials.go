package scoring

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxTokens is how many words a name may have to be read with initials; a
// longer one is no person's name, and comparing it is quadratic in the words.
const maxTokens = 32

// tokensOf returns the words of a name without their dots, or nil where the
// initials rule does not apply: fewer than two words, or more than maxTokens.
func (n *names) tokensOf(id int) []string {
	p := n.profile(id)
	if p.tokens != nil || len(p.runes) == 0 {
		return p.tokens
	}
	p.tokens = []string{}
	for word := range strings.FieldsSeq(n.texts[id]) {
		if word = strings.ReplaceAll(word, ".", ""); word != "" {
			p.tokens = append(p.tokens, word)
		}
		if len(p.tokens) > maxTokens {
			break
		}
	}
	if len(p.tokens) < 2 || len(p.tokens) > maxTokens {
		p.tokens = []string{}
	}
	return p.tokens
}

// sameByInitials reports whether two names are one by their initials: the last
// words are equal, the first words agree, the middle words of the shorter name
// agree in order with middle words of the longer, and the words left over in
// the longer are single letters. Words agree if they are equal or one is the
// single letter that begins the other.
func sameByInitials(a, b []string) bool {
	if len(a) > len(b) {
		a, b = b, a
	}
	if len(a) < 2 || a[len(a)-1] != b[len(b)-1] || !agree(a[0], b[0]) {
		return false
	}
	return alignMiddle(a[1:len(a)-1], b[1:len(b)-1])
}

// alignMiddle reports whether every word of a agrees, in order, with a word of
// b while the rest of b is single letters. fits[i] says whether the first i
// words of a fit the words of b seen so far.
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

// byLastToken groups names by their last word, for the initials rule.
func (m *matcher) byLastToken(b []key) map[string][]int {
	groups := map[string][]int{}
	if !m.initials {
		return groups
	}
	for _, k := range b {
		if tokens := m.names.tokensOf(k.name); len(tokens) > 0 {
			last := tokens[len(tokens)-1]
			groups[last] = append(groups[last], k.name)
		}
	}
	return groups
}

// compareInitials finds the names with the same last word that are one with a
// name by their initials.
func (m *matcher) compareInitials(name int, byLast map[string][]int, found map[int][]similarTo, left *budget) {
	if len(byLast) == 0 {
		return
	}
	tokens := m.names.tokensOf(name)
	if len(tokens) == 0 {
		return
	}
	for _, other := range byLast[tokens[len(tokens)-1]] {
		if !left.spend(20 + len(tokens)*len(m.names.tokensOf(other))) {
			return
		}
		if other == name || m.digitsDiffer(name, other) || !sameByInitials(tokens, m.names.tokensOf(other)) {
			continue
		}
		if left.spend(edgeCost) {
			found[name] = append(found[name], similarTo{other, m.withInitials(name, other, left)})
		}
	}
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
