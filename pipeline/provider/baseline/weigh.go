package baseline

import "strings"

// weigh collects what a name itself and its neighbours say about its kind.
func (b *reading) weigh(p *page, first, last int) evidence {
	ev := b.inside(p, first, last)
	ev.add(b.around(p, first, last))
	return ev
}

// inside reads the words of the name.
func (b *reading) inside(p *page, first, last int) evidence {
	ev := evidence{thing: 0.45, org: 0.4, person: 0.35, place: 0.35, product: 0.3}
	name := p.joined(first, last)
	switch {
	case b.lex.countries[name]:
		ev[country] += 4
		return ev
	case b.lex.cities[name] || b.lex.continents[name]:
		ev[place] += 3
		return ev
	case b.lex.demonyms[name] != person:
		ev[b.lex.demonyms[name]] += 3
		return ev
	}
	end := p.toks[last]
	if b.lex.suffixes[end.lower] && first < last {
		ev[org] += 4
	}
	decided := b.byHead(p, first, last, &ev)
	t := p.toks[first]
	switch {
	case b.lex.given[t.lower] && first < last && !decided:
		ev[person] += 2.5
	case b.lex.given[t.lower] && first == last:
		ev[person] += 1
	case t.initial() && first < last:
		ev[person] += 2
	}
	if first == last && t.caps {
		ev[org] += 1
		ev[product] += 0.2
	}
	if digits(name) > 0 && !decided {
		ev[product] += 1.2
		ev[person] -= 0.3
	}
	if n := last - first; (n == 1 || n == 2) && !decided && plainWords(p, first, last) {
		ev[person] += 0.9
	}
	return ev
}

// byHead looks for the word that says what is named: the last one, or the one
// before "of".
func (b *reading) byHead(p *page, first, last int, ev *evidence) bool {
	if first == last {
		return false
	}
	if k, ok := b.lex.heads[p.lowerAt(last)]; ok {
		ev[k] += 2.5
	}
	for i := first; i < last; i++ {
		k, ok := b.lex.heads[p.lowerAt(i)]
		if !ok {
			continue
		}
		if b.lex.connectors[p.lowerAt(i+1)] {
			ev[k] += 3
			ev[b.lex.heads[p.lowerAt(last)]] -= 0.5
		} else {
			ev[k] += 0.8
		}
	}
	return ev[org] > 1 || ev[place] > 1 || ev[event] > 1 || ev[law] > 1 || ev[product] > 1 || ev[work] > 1
}

// plainWords reports capitalised words of letters only, as full names are.
func plainWords(p *page, first, last int) bool {
	for i := first; i <= last; i++ {
		t := p.toks[i]
		if t.kind != word || digits(t.text) > 0 || t.caps && !t.initial() || !t.upper {
			return false
		}
	}
	return true
}

// around reads what stands before and behind the name.
func (b *reading) around(p *page, first, last int) evidence {
	var ev evidence
	before, next := p.lowerAt(first-1), p.lowerAt(last+1)
	if before == "the" || before == "le" || before == "la" || before == "der" || before == "die" || before == "das" {
		ev[person] -= 0.6
		ev[org] += 0.25
		ev[thing] += 0.2
		if b.lex.placing[p.lowerAt(first-2)] {
			ev[place] += 0.3
		}
	}
	if b.lex.placing[before] {
		ev[place] += 0.8
		if before == "in" || before == "near" || before == "at" {
			ev[person] -= 0.6
		}
	}
	if before == "by" || before == "with" || before == "von" || before == "par" {
		ev[person] += 0.2
	}
	if before == "," && first > 1 && p.toks[first-2].upper {
		ev[place] += 0.2
	}
	if b.lex.works[before] || first > 1 && b.lex.works[p.lowerAt(first-2)] && before == "," {
		ev[work] += 1.5
	}
	if next == "," && p.year(last+2) || next == "(" && p.year(last+2) {
		ev[work] += 0.5
	}
	b.behind(p, last, next, &ev)
	return ev
}

// behind reads what follows the name.
func (b *reading) behind(p *page, last int, next string, ev *evidence) {
	if b.lex.saying[next] {
		ev[person] += 0.6
		ev[org] += 0.2
	}
	if next == "(" && (p.lowerAt(last+2) == "born" || p.lowerAt(last+2) == "b." || p.born(last+2)) {
		ev[person] += 2.5
	}
	if next == "," && (b.lex.roles[p.lowerAt(last+2)] || b.lex.roles[p.lowerAt(last+3)]) {
		ev[person] += 1
	}
	if k, ok := b.lex.heads[next]; ok {
		ev[k] += 0.7
	}
	if next == "is" || next == "was" {
		for j := last + 2; j < len(p.toks) && j < last+7; j++ {
			w := p.lowerAt(j)
			switch {
			case b.lex.roles[w]:
				ev[person] += 1.5
				return
			case b.lex.works[w]:
				ev[work] += 1.5
				return
			}
			if k, ok := b.lex.heads[w]; ok {
				ev[k] += 1.2
				return
			}
			for _, k := range b.lex.kinds[w] {
				if k != thing {
					ev[k] += 0.8
				}
			}
		}
	}
}

// year reports that token i is a year.
func (p *page) year(i int) bool {
	return i < len(p.toks) && p.toks[i].kind == digit && year(p.toks[i].text)
}

// born reports that a bracket opens with two years or dates that a dash joins.
func (p *page) born(i int) bool {
	dash, years := false, 0
	for j := i; j < len(p.toks) && j < i+24 && !p.toks[j].is(")"); j++ {
		dash = dash || p.toks[j].kind == mark && strings.Contains("-–—", p.toks[j].text)
		if p.year(j) {
			years++
		}
	}
	return dash && years == 2
}
