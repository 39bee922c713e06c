package scoring

import (
	"math/bits"
	"slices"
	"strings"
	"unicode"
)

// dictionary gives each distinct text a number, in the order of the texts, so
// that whatever is decided by comparing numbers is decided by content and not
// by the order of a list. 0 is the empty text.
//
// Every text is added first, then the dictionary is closed, then it answers.
type dictionary struct {
	spell func(string) string
	byRaw map[string]string
	ids   map[string]int
	texts []string // by number
}

func newDictionary(spell func(string) string) *dictionary {
	return &dictionary{spell: spell, byRaw: map[string]string{}}
}

func (d *dictionary) add(raw string) {
	if _, known := d.byRaw[raw]; !known {
		d.byRaw[raw] = d.spell(raw)
	}
}

func (d *dictionary) close() {
	d.ids = map[string]int{"": 0}
	d.texts = []string{""}
	for _, text := range d.byRaw {
		if _, known := d.ids[text]; !known {
			d.ids[text] = -1
			d.texts = append(d.texts, text)
		}
	}
	slices.Sort(d.texts)
	for id, text := range d.texts {
		d.ids[text] = id
	}
}

// id returns the number of a text that was added.
func (d *dictionary) id(raw string) int { return d.ids[d.byRaw[raw]] }

// profile is what comparing one name with others needs.
type profile struct {
	runes []rune
	// letters has a bit for each code point of the name, by its value modulo
	// 64. One edit takes at most one bit away and adds at most one.
	letters uint64
	digits  *string  // the decimal digits in order; nil until asked for
	tokens  []string // words without dots, at most maxTokens
}

// names are the distinct names of one call with their profiles.
type names struct {
	*dictionary
	profiles []*profile // by number, made when first asked for
}

func newNames(o Options) *names {
	return &names{dictionary: newDictionary(newSpeller(o).text)}
}

func (n *names) profile(id int) *profile {
	if n.profiles == nil {
		n.profiles = make([]*profile, len(n.texts))
	}
	if p := n.profiles[id]; p != nil {
		return p
	}
	p := &profile{runes: []rune(n.texts[id])}
	for _, r := range p.runes {
		p.letters |= 1 << (uint32(r) % 64)
	}
	n.profiles[id] = p
	return p
}

// digitsOf returns the decimal digits of a name, in order.
func (n *names) digitsOf(id int) string {
	p := n.profile(id)
	if p.digits == nil {
		digits := strings.Map(func(r rune) rune {
			if unicode.IsDigit(r) {
				return r
			}
			return -1
		}, n.texts[id])
		p.digits = &digits
	}
	return *p.digits
}

// leastEdits returns a lower bound of the edit distance of two names that
// costs next to nothing, from the letters that they use.
func leastEdits(a, b uint64) int {
	return max(bits.OnesCount64(a&^b), bits.OnesCount64(b&^a))
}
