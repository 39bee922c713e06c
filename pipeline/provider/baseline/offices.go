package baseline

import "slices"

// offices takes professions and offices, where the schema asks for them.
func (b *reading) offices(p *page) {
	if !b.typing.wanted[title] || !b.wantsTitles() {
		return
	}
	for i := 0; i < len(p.toks); i++ {
		if !p.free(i) || p.toks[i].kind != word || !b.lex.roles[p.toks[i].lower] {
			continue
		}
		first := i
		for first > 0 && p.free(first-1) && b.lex.qualifiers[p.lowerAt(first-1)] {
			first--
		}
		p.take(first, i, ruleRole, evidence{title: 2})
	}
}

// wantsTitles reports a type that is meant for offices, not one that takes
// them for want of a better.
func (b *reading) wantsTitles() bool {
	for _, t := range b.typing.types {
		if t.affinity[title] >= 0.75 {
			return true
		}
	}
	return false
}

// sort brings the mentions into the order of the text.
func (p *page) sort() {
	slices.SortStableFunc(p.mentions, func(a, b mention) int { return a.offset - b.offset })
}

// enter puts the mentions of a page into the register and joins acronyms in
// brackets to the names before them.
func (b *reading) enter(p *page) {
	for i := range p.mentions {
		m := &p.mentions[i]
		b.counts.Mentions[m.rule.String()]++
		m.group = b.register.add(*m)
		if i == 0 || m.group < 0 || p.mentions[i-1].group < 0 {
			continue
		}
		before := p.mentions[i-1]
		if m.first == before.last+2 && p.toks[before.last+1].is("(") && p.lowerAt(m.last+1) == ")" && allCaps(m.text) && initialsOf(m.text, before.text) {
			if len(b.register.pairs) < maxEntities {
				b.register.pairs = append(b.register.pairs, [2]int{before.group, m.group})
			}
		}
	}
}
