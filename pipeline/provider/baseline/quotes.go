package baseline

import "unicode"

// quoteEnds maps opening signs to closing ones.
func quoteEnd(open string) string {
	switch open {
	case `"`:
		return `"`
	case "“":
		return "”"
	case "„":
		return "“"
	case "«":
		return "»"
	case "《":
		return "》"
	case "「":
		return "」"
	case "『":
		return "』"
	}
	return ""
}

// quoted takes short quoted titles: capitalised, or in scripts without capitals.
// Quoted speech is no name: what is longer than eight words, ends in a full
// stop or begins in lower case is left alone.
func (b *reading) quoted(p *page) {
	for i := 0; i < len(p.toks); i++ {
		end := quoteEnd(p.toks[i].text)
		if p.toks[i].kind != mark || end == "" {
			continue
		}
		j := i + 1
		for j < len(p.toks) && j <= i+9 && !p.toks[j].is(end) {
			j++
		}
		if j >= len(p.toks) || !p.toks[j].is(end) || j == i+1 {
			continue
		}
		if i > 0 && p.free(i-1) && p.toks[i-1].caps && b.lex.suffixes[p.lowerAt(i-1)] && b.titleLike(p, i+1, j-1) {
			p.take(i-1, j, ruleQuote, evidence{org: 4})
		} else if b.titleLike(p, i+1, j-1) {
			ev := evidence{work: 1.4, thing: 0.6, product: 0.5}
			if p.toks[i].is("《") {
				ev[work] += 2
			}
			if k, ok := b.lex.heads[p.lowerAt(i-1)]; ok {
				ev[k] += 2
			}
			ev.add(b.around(p, i, j))
			p.take(i+1, j-1, ruleQuote, ev)
		}
		i = j
	}
}

// titleLike reports that the words between quotes look like a title.
func (b *reading) titleLike(p *page, first, last int) bool {
	head, end := p.toks[first], p.toks[last]
	for i := first; i <= last; i++ {
		if p.used[i] {
			return false
		}
	}
	switch {
	case end.is(".") || end.is(",") || end.is("!") || end.is("?"):
		return false
	case head.kind == han:
		return first == last && len(head.text) <= 36
	case head.kind != word || !head.upper:
		return false
	}
	// All long words of a title in English have capitals; elsewhere the first
	// one is enough when the title is short.
	lower := 0
	for i := first; i <= last; i++ {
		t := p.toks[i]
		if t.kind == word && !t.upper && letters(t.text) > 4 && unicode.IsLower(rune(t.text[0])) {
			lower++
		}
	}
	return lower == 0 || lower == 1 && last-first >= 2 && b.words.language != "en"
}
