package scoring

import (
	"fmt"
	"math/bits"
	"slices"
	"strings"
	"unicode"
)

// dictionary numbers distinct normalised texts in the order of the texts. Comparing numbers is
// comparing texts, so decisions do not depend on the order of the lists. The empty text has
// number 0.
//
// All texts are added first; close assigns the numbers, which id returns afterwards.
type dictionary struct {
	normalise  func(string) string
	slots      map[string]int // by the text as given
	normalised []string       // by slot
	ids        []int          // number by slot
	texts      []string       // by number
}

func newDictionary(spell func(string) string) *dictionary {
	return &dictionary{normalise: spell, slots: map[string]int{}}
}

// add returns the slot of a text. After close, ids has the text's number at this slot.
func (d *dictionary) add(raw string) int {
	place, known := d.slots[raw]
	if !known {
		place = len(d.normalised)
		d.slots[raw] = place
		d.normalised = append(d.normalised, d.normalise(raw))
	}
	return place
}

func (d *dictionary) close() {
	d.texts = sortedSet(slices.Concat([]string{""}, d.normalised))
	d.ids = make([]int, len(d.normalised))
	for place, text := range d.normalised {
		d.ids[place], _ = slices.BinarySearch(d.texts, text)
	}
}

// id returns the number of a text that was added before close.
func (d *dictionary) id(raw string) int { return d.ids[d.slots[raw]] }

// profile has the properties of a name that comparisons need.
type profile struct {
	runes []rune
	// letters has a bit for the value modulo 64 of each code point of the name. One edit removes
	// at most one bit and adds at most one.
	letters uint64
	digits  *string  // the decimal digits in order; nil until digitsOf is called
	tokens  []string // words without dots, at most maxTokens; nil until tokensOf is called
}

// names are the distinct names of one call, with their profiles.
type names struct {
	*dictionary
	numbers  []int     // 0, 1, 2 …: the memory of the lists that single returns
	profiles []profile // by number, filled by profile
	buffer   []rune    // free memory for the runes of profiles
}

// single returns a list of one number without allocating.
func (n *names) single(id int) []int { return n.numbers[id : id+1 : id+1] }

func (n *names) profile(id int) *profile {
	if n.profiles == nil {
		n.profiles = make([]profile, len(n.texts))
	}
	p, text := &n.profiles[id], n.texts[id]
	if p.runes != nil {
		return p
	}
	if cap(n.buffer)-len(n.buffer) < len(text) {
		n.buffer = make([]rune, 0, max(256, len(text)))
	}
	from := len(n.buffer)
	for _, r := range text {
		n.buffer = append(n.buffer, r)
		p.letters |= 1 << (uint32(r) % 64)
	}
	p.runes = slices.Clip(n.buffer[from:])
	return p
}

// digitsOf returns the decimal digits of a name in order.
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

// maxTokens is the most words of a name that has initials. A longer name is not that of a person,
// and comparing words takes quadratic time.
const maxTokens = 32

// tokensOf returns the words of a name without dots. It returns none if the name has fewer than
// two words or more than maxTokens, since the initials rule does not apply then.
func (n *names) tokensOf(id int) []string {
	p := n.profile(id)
	if p.tokens == nil {
		p.tokens = strings.Fields(strings.ReplaceAll(n.texts[id], ".", ""))
		if len(p.tokens) < 2 || len(p.tokens) > maxTokens {
			p.tokens = []string{}
		}
	}
	return p.tokens
}

// minEdits returns a cheap lower bound of the edit distance of two names from their letters.
func minEdits(a, b uint64) int {
	return max(bits.OnesCount64(a&^b), bits.OnesCount64(b&^a))
}

// endNames knows the names that an end of an expected relationship stands for. A name of an
// expected entity stands for all names of that entity.
type endNames struct {
	all      *names
	entities []entity
	byName   map[int][]int    // entities that have several names, by name
	shared   map[int][]int    // names of several entities, by a name that these share; nil until needed
	combined map[string][]int // the same, by the text of the entities' indices
}

func newEndNames(all *names, entities []entity) endNames {
	a := endNames{all: all, entities: entities, byName: map[int][]int{}}
	for i, e := range entities {
		if len(e.names) < 2 {
			continue
		}
		for _, name := range e.names {
			a.byName[name] = append(a.byName[name], i)
		}
	}
	return a
}

// names returns all names that an end stands for, sorted. Ends of the same entities share one
// list, since an entity may have very many names.
func (a *endNames) names(end int) []int {
	owners := a.byName[end]
	switch len(owners) {
	case 0:
		return a.all.single(end)
	case 1:
		return a.entities[owners[0]].names
	}
	if list, known := a.shared[end]; known {
		return list
	}
	if a.shared == nil {
		a.shared, a.combined = map[int][]int{}, map[string][]int{}
	}
	key := fmt.Sprint(owners)
	if _, known := a.combined[key]; !known {
		var all []int
		for _, i := range owners {
			all = append(all, a.entities[i].names...)
		}
		a.combined[key] = sortedSet(all)
	}
	a.shared[end] = a.combined[key]
	return a.shared[end]
}
