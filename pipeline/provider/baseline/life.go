package baseline

import "strings"

// lives reads the bracket behind a person's name: "(2 May 1903, Bonn – 1970)"
// gives birth before the dash and death behind it.
func (b *reading) lives(c *clause) {
	for i := 0; i+1 < len(c.places); i++ {
		open := c.places[i].last + 1
		if c.places[i].kind != person || open >= len(c.page.toks) || !c.page.toks[open].is("(") {
			continue
		}
		end, dash := c.bracket(open)
		if dash < 0 {
			continue
		}
		for j := i + 1; j < len(c.places) && c.places[j].last < end; j++ {
			side := birth
			if c.places[j].first > dash {
				side = death
			}
			b.life(c, i, j, side)
		}
	}
}

// bracket returns where a bracket closes and its dash with spaces around or
// between two years; -1 for a bracket without.
func (c *clause) bracket(open int) (int, int) {
	dash := -1
	for j := open + 1; j < len(c.page.toks) && j < open+40; j++ {
		t := c.page.toks[j]
		if t.is(")") {
			return j, dash
		}
		if dash < 0 && t.kind == mark && strings.Contains("-–—", t.text) {
			dash = j
		}
	}
	return open, -1
}

func (b *reading) life(c *clause, who, what int, side lifeEnd) {
	for r, rel := range b.grammar.relations {
		if rel.life == side && c.fits(who, rel.source) && c.fits(what, rel.target) && c.places[what].kind != person {
			b.stateAll(c, r, []int{c.places[who].entry}, []int{c.places[what].entry}, true)
		}
	}
}

// commas reads "Cardiff, Wales": the first place lies in the second.
func (b *reading) commas(c *clause) {
	for i := 0; i+1 < len(c.places); i++ {
		if !c.placesPair(i, i+1) || i > 0 && c.listed(i-1, i) && !c.placesPair(i-1, i) || c.enumerated(i) {
			continue
		}
		for r, rel := range b.grammar.relations {
			first, second := i, i+1
			if !rel.comma {
				continue
			}
			if !rel.forward {
				first, second = second, first
			}
			if c.fits(first, rel.source) && c.fits(second, rel.target) {
				b.stateAll(c, r, []int{c.places[first].entry}, []int{c.places[second].entry}, true)
			}
		}
	}
}

// enumerated reports that "and" or two countries make a list of the pair.
func (c *clause) enumerated(i int) bool {
	if c.places[i].kind == country {
		return true
	}
	if i+2 < len(c.places) && c.listed(i+1, i+2) && !c.page.toks[c.places[i+1].last+1].is(")") {
		return true
	}
	return false
}
