package baseline

import (
	"strings"
)

// maxParts is the longest name in tokens.
const maxParts = 12

// names takes capitalised names of the scripts that have capitals.
func (b *reading) names(p *page) {
	if shouted(p.toks) {
		return
	}
	heading := b.heading(p)
	for i := 0; i < len(p.toks); i++ {
		if !p.free(i) || !b.nameStart(p, i) {
			continue
		}
		last := b.nameEnd(p, i)
		b.splitName(p, i, last, heading)
		i = last
	}
}

// shouted reports a sentence in capitals: its capitals say nothing.
func shouted(toks []token) bool {
	all, caps := 0, 0
	for _, t := range toks {
		if t.kind == word && letters(t.text) > 1 {
			all++
			if t.caps {
				caps++
			}
		}
	}
	return all >= 4 && caps*10 >= all*6
}

// heading reports a line in Title Case without a full stop.
func (b *reading) heading(p *page) bool {
	upper := 0
	for _, t := range p.toks {
		switch {
		case t.is(".") || t.is("!") || t.is("?") || t.is(","):
			return false
		case t.kind == word && t.upper:
			upper++
		case t.kind == word && !b.lex.stops[t.lower]:
			return false
		}
	}
	return upper >= 2 && len(p.toks) <= 14
}

// nameStart reports a capitalised word that may begin a name.
func (b *reading) nameStart(p *page, i int) bool {
	t := p.toks[i]
	if t.kind != word || !t.upper || b.lex.weekdays[t.lower] || b.lex.labels[t.lower] {
		return false
	}
	first := i == 0 || opensQuote(p.toks[i-1])
	if b.lex.stops[t.lower] {
		return (t.caps && !first || strings.Contains(t.text, ".")) && t.lower != "i"
	}
	followed := p.free(i+1) && p.toks[i+1].upper && !b.lex.stops[p.toks[i+1].lower]
	if b.lex.starters[t.lower] {
		return b.lex.prefixes[t.lower] && followed || !first && followed || t.caps
	}
	return true
}

// nameEnd returns the last token of the name that begins at i.
func (b *reading) nameEnd(p *page, i int) int {
	last := i
	for last-i < maxParts {
		next := b.nextPart(p, i, last)
		if next < 0 {
			break
		}
		last = next
	}
	return last
}

// nextPart returns the token that continues the name first..last, or -1.
func (b *reading) nextPart(p *page, first, last int) int {
	j := last + 1
	if !p.free(j) || p.toks[j].lines > 0 && p.toks[j].lines+b.lineEnds(p, last) > 1 {
		return -1
	}
	t, before := p.toks[j], p.toks[last]
	switch {
	case last > first && before.upper && b.lex.legal[before.lower] && !b.lex.suffixes[t.lower] && !t.is("&"):
		return -1
	case t.kind == word && t.upper && !b.barred(t):
		return j
	case !latin(t.text) && b.lex.heads[t.lower] != person && adjectival(before.lower):
		return j
	case t.is(",") && p.free(j+1) && b.lex.suffixes[p.lowerAt(j+1)] && p.toks[j+1].upper:
		return j + 1
	case t.kind == digit && t.space && smallNumber(t.text) && !b.measured(p, j) && !b.lex.placing[before.lower] && !p.comparison(j):
		return j
	case t.is("&") && p.free(j+1) && p.toks[j+1].upper:
		return j + 1
	case t.kind == word && b.lex.connectors[t.lower]:
		return b.behindConnector(p, first, last)
	case t.lower == "and" && b.institution(p, first, last) && p.free(j+1) && p.toks[j+1].upper && !b.barred(p.toks[j+1]):
		return j + 1
	}
	return -1
}

// adjectival reports the endings of Russian adjectives, which begin names that
// go on in lower case: "Московский университет".
func adjectival(w string) bool {
	for _, ending := range []string{"ий", "ый", "ой", "ая", "ое", "ого", "ому", "ом", "ую"} {
		if strings.HasSuffix(w, ending) {
			return true
		}
	}
	return false
}

// barred reports capitalised words that never continue a name.
func (b *reading) barred(t token) bool {
	return b.lex.weekdays[t.lower] || b.lex.stops[t.lower] && !t.caps && !strings.Contains(t.text, ".")
}

// lineEnds is 1 when the name stands in a table-like line.
func (b *reading) lineEnds(p *page, last int) int {
	if p.toks[last].lines > 0 {
		return 1
	}
	return 0
}

// comparison reports that a number belongs to what follows: "Berlin 5 times".
func (p *page) comparison(j int) bool {
	return j+1 < len(p.toks) && p.toks[j+1].kind == word && !p.toks[j+1].upper && p.toks[j+1].lower != "and" &&
		p.toks[j+1].lower != "was" && p.toks[j+1].lower != "is" && p.toks[j+1].lower != "in"
}

// smallNumber reports the numbers that names end in: "Apollo 11".
func smallNumber(s string) bool {
	return len(s) <= 4 && digits(s) == len(s) && !year(s)
}

// behindConnector continues a name over "of", "de la", "van der" and the like.
func (b *reading) behindConnector(p *page, first, last int) int {
	j := last + 1
	for j < len(p.toks) && j-last <= 3 && p.free(j) && (b.lex.connectors[p.toks[j].lower] || j > last+1 && b.lex.articles[p.toks[j].lower]) {
		j++
	}
	if !p.free(j) || p.toks[j].kind != word || !p.toks[j].upper || b.barred(p.toks[j]) || b.month(p, j) {
		return -1
	}
	connector, before := p.toks[last+1].lower, p.toks[last]
	_, head := b.lex.heads[before.lower]
	switch {
	case b.lex.roles[before.lower] || b.lex.titles[before.lower] && !before.caps:
		return -1
	case b.lex.demonyms[before.lower] != person && b.lex.demonyms[before.lower] != thing && last == first:
		return -1
	case connector == "of" && last > first && !head && plainWords(p, first, last) && (b.lex.given[p.lowerAt(first)] || b.lex.suffixes[p.lowerAt(j+1)] || b.lex.gazetteer(p.lowerAt(j))):
		return -1
	case b.words.language == "de" && (connector == "von" || connector == "vom" || connector == "zu" || connector == "zum"):
		if !head && !b.lex.given[before.lower] && first == last {
			return -1
		}
	case strings.Contains(" der den dem des das die la le les du del al el zur zum am auf im for in et y e en ", " "+connector+" "):
		if !head && !b.lex.given[before.lower] {
			return -1
		}
	case b.lex.countries[before.lower] || b.lex.cities[before.lower]:
		return -1
	}
	return j
}

// institution reports "Ministry of Trade", which goes on with "and Industry".
func (b *reading) institution(p *page, first, last int) bool {
	if last-first < 2 || b.lex.heads[p.lowerAt(first)] != org {
		return false
	}
	switch p.lowerAt(first) {
	case "ministry", "department", "institute", "office", "faculty", "school", "committee", "academy", "board", "college":
		return p.lowerAt(first+1) == "of" || p.lowerAt(first+1) == "for"
	}
	return false
}

// splitName cuts a run of capitalised words where an office stands inside it
// ("Acme CEO Jane Smith"), strips titles from the parts and takes them.
func (b *reading) splitName(p *page, first, last int, heading bool) {
	start := first
	for i := first + 1; i < last; i++ {
		t := p.toks[i]
		inside := b.lex.roles[t.lower] || b.lex.titles[t.lower] && t.lower != "saint" && t.lower != "st."
		if !inside || b.lex.connectors[p.lowerAt(i+1)] || b.lex.connectors[p.lowerAt(i-1)] {
			continue
		}
		if _, head := b.lex.heads[p.lowerAt(i+1)]; head {
			continue
		}
		b.takeName(p, start, i-1, heading)
		start = i
	}
	b.takeName(p, start, last, heading)
}

// takeName strips titles and takes what is left, if it is likely a name.
func (b *reading) takeName(p *page, first, last int, heading bool) {
	first, titled := b.stripTitles(p, first, last)
	if first > last {
		return
	}
	if titled == 0 && first == last && (b.lex.roles[p.lowerAt(first)] || b.lex.titles[p.lowerAt(first)]) {
		return
	}
	if !b.likely(p, first, last, titled > 0) {
		return
	}
	ev := b.weigh(p, first, last)
	ev[person] += float32(min(titled, 2)) * 1.5
	before := len(p.mentions)
	if p.take(first, last, ruleName, ev) {
		p.mentions[before].weak = heading && first == 0 && titled == 0 && !b.known(p, first, last)
	}
}

// stripTitles moves first behind honorifics and offices and counts them.
func (b *reading) stripTitles(p *page, first, last int) (int, int) {
	titled := 0
	if b.gazetted(p, first, last) {
		return first, 0
	}
	for first < last {
		w := p.lowerAt(first)
		qualifier := b.lex.qualifiers[w] && (b.lex.titles[p.lowerAt(first+1)] || b.lex.roles[p.lowerAt(first+1)])
		if !b.lex.titles[w] && !b.lex.roles[w] && !qualifier || b.lex.connectors[p.lowerAt(first+1)] || p.toks[first+1].kind == digit {
			break
		}
		if _, head := b.lex.heads[p.lowerAt(first+1)]; head && first+1 == last {
			break
		}
		first++
		titled++
	}
	if titled == 0 && first > 0 && (b.lex.titles[p.lowerAt(first-1)] || b.lex.roles[p.lowerAt(first-1)]) && p.toks[first-1].kind == word {
		titled = 1
	}
	return first, titled
}
