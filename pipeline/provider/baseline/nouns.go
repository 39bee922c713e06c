package baseline

// stateNoun reads a noun that one end is of the other: "Ann, the founder of
// Acme", "Acme's founder Ann", "Acme founder Ann", "the founder of Acme, Ann",
// "Ann is its founder".
func (b *reading) stateNoun(c *clause, h hit) {
	rel := &b.grammar.relations[h.relation]
	holder, whole := rel.source, rel.target
	if !h.forward {
		holder, whole = whole, holder
	}
	holders, wholes := b.nounEnds(c, h, holder, whole)
	b.stateAll(c, h.relation, holders, wholes, h.forward)
}

// nounEnds returns who holds the noun, and of what.
func (b *reading) nounEnds(c *clause, h hit, holder, whole []bool) ([]int, []int) {
	toks := c.page.toks
	if h.last+1 < len(toks) && (b.grammar.of[toks[h.last+1].lower] || c.at(h.last+1) >= 0 && !b.capital(c)) {
		w := c.right(h.last, h.end, whole, 6)
		if w >= 0 {
			if l := c.left(h.first, h.offset, holder); l >= 0 && c.places[l].entry != c.places[w].entry && !c.possessed(h.first) {
				return []int{c.places[l].entry}, c.listRight(w, whole)
			}
			if r := c.right(c.places[w].last, c.places[w].end, holder, 3); r >= 0 {
				return c.listRight(r, holder), []int{c.places[w].entry}
			}
			if s := b.subject(c, h, w, holder); len(s) > 0 {
				return s, []int{c.places[w].entry}
			}
		}
	}
	r := c.right(h.last, h.end, holder, 5)
	if c.possessed(h.first) || c.at(h.first-1) >= 0 {
		if l := c.left(h.first, h.offset, whole); l >= 0 && h.first-c.places[l].last <= 4 {
			if r >= 0 && r != l {
				return c.listRight(r, holder), []int{c.places[l].entry}
			}
			return nil, nil
		}
	}
	return b.ownNoun(c, h, r, holder, whole)
}

// ownNoun reads "his wife Ann", "Ann is its founder".
func (b *reading) ownNoun(c *clause, h hit, r int, holder, whole []bool) ([]int, []int) {
	for i := h.first - 1; i >= 0 && i >= h.first-3; i-- {
		k := pronounKind(c.page.toks[i].lower)
		if k == 0 || c.page.toks[i].lower == "he" || c.page.toks[i].lower == "she" || c.page.toks[i].lower == "it" {
			continue
		}
		owners := b.topic(k == 'p', whole)
		if l := c.left(i, c.page.toks[i].start, whole); l >= 0 {
			owners = []int{c.places[l].entry}
		}
		if len(owners) == 0 {
			return nil, nil
		}
		if r >= 0 {
			return c.listRight(r, holder), owners
		}
		if l := c.left(i, c.page.toks[i].start, holder); l >= 0 {
			return []int{c.places[l].entry}, owners
		}
	}
	return nil, nil
}

// possessed reports 's within two tokens before i: "Acme's new CEO".
func (c *clause) possessed(i int) bool {
	for j := i - 1; j >= 0 && j >= i-3; j-- {
		switch c.page.toks[j].lower {
		case "'s", "’s", "'", "’":
			return true
		}
		if c.owner[j] >= 0 {
			return false
		}
	}
	return false
}

// capital reports a document in a language where "CEO Ann" names the holder
// right behind the noun; Russian and Arabic put the whole there.
func (b *reading) capital(c *clause) bool {
	for _, t := range c.page.toks {
		if t.kind == word {
			return latin(t.text)
		}
	}
	return true
}
