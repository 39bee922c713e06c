package baseline

import (
	"strings"
	"unicode/utf8"
)

// likely judges a capitalised candidate: where it stands, how the document
// writes its words elsewhere, and what the language does with capitals.
func (b *reading) likely(p *page, first, last int, titled bool) bool {
	t := p.toks[first]
	if titled || b.gazetted(p, first, last) {
		return true
	}
	if first == last && (utf8.RuneCountInString(strings.Trim(t.text, ".")) < 2 || b.lex.months[t.lower] > 0) {
		return false
	}
	if b.words.language == "de" {
		return b.likelyGerman(p, first, last)
	}
	if first < last || t.caps {
		return true
	}
	u := b.words.usage[t.lower]
	if first > 0 && !opensQuote(p.toks[first-1]) {
		// A capital inside a sentence is a name, unless the document mostly
		// writes the word without.
		return u.lower <= u.mid
	}
	switch {
	case u.lower > 0:
		return false
	case u.mid > 0 || b.lex.given[t.lower] || b.lex.demonyms[t.lower] == group:
		return true
	case adverb(t.lower):
		return false
	}
	next := p.lowerAt(first + 1)
	return next == "is" || next == "was" || next == "has" || next == "'s" || next == "’s" || next == "(" || next == "," || next == "and" ||
		b.lex.saying[next] || strings.HasSuffix(next, "ed") || strings.HasSuffix(next, "es") || next == "had" || next == "will" ||
		next == "est" || next == "a" && b.words.language == "fr" || b.words.language == "ru" && !b.lex.stops[next]
}

// adverb reports the shapes of words that begin sentences and name nothing.
func adverb(w string) bool {
	return strings.HasSuffix(w, "ly") || strings.HasSuffix(w, "ing") || strings.HasSuffix(w, "ment") && len(w) > 6 || strings.HasSuffix(w, "tion")
}

// likelyGerman asks for more, because every German noun has a capital.
func (b *reading) likelyGerman(p *page, first, last int) bool {
	t, end := p.toks[first], p.toks[last]
	if t.caps || end.caps || b.known(p, first, last) || b.lex.suffixes[end.lower] {
		return true
	}
	before := p.lowerAt(first - 1)
	if first < last {
		// "Deutsche Bank", "Angela Merkel"; but not "Die Kosten" or a noun
		// behind a capitalised beginning of the sentence.
		return (first > 0 || !b.lex.stops[t.lower]) && !germanNoun(end.lower) && (end.kind != digit || last-first > 1) && b.words.usage[t.lower].lower == 0
	}
	if germanNoun(t.lower) || b.words.usage[t.lower].lower > 0 {
		return false
	}
	if b.lex.given[t.lower] || strings.Contains(t.text, "-") && first > 0 && before == "in" {
		return true
	}
	return (before == "in" || before == "aus" || before == "nach" || before == "bei") && utf8.RuneCountInString(t.text) > 2 && !germanPlural(t.lower)
}

// germanNoun reports endings that common nouns have and names rarely.
func germanNoun(w string) bool {
	for _, ending := range []string{"ung", "ungen", "heit", "keit", "schaft", "tion", "tionen", "tät", "ismus", "nis", "chen", "lein", "ment", "eur", "tur", "enz", "anz", "ik", "ling", "tum", "zeit", "arbeit", "betrag", "kosten", "jahre", "jahr"} {
		if strings.HasSuffix(w, ending) {
			return true
		}
	}
	return false
}

func germanPlural(w string) bool {
	return strings.HasSuffix(w, "en") && !strings.HasSuffix(w, "ingen") && !strings.HasSuffix(w, "hausen") && !strings.HasSuffix(w, "kirchen") && !strings.HasSuffix(w, "men")
}

// gazetted reports a name of the lists of countries, cities and continents.
func (b *reading) gazetted(p *page, first, last int) bool {
	if last-first > 4 {
		return false
	}
	name := p.joined(first, last)
	return b.lex.countries[name] || b.lex.cities[name] || b.lex.continents[name]
}

// known reports that something in the lexicon speaks for a name.
func (b *reading) known(p *page, first, last int) bool {
	if b.gazetted(p, first, last) || first < last && b.lex.given[p.lowerAt(first)] {
		return true
	}
	end := p.lowerAt(last)
	_, head := b.lex.heads[end]
	return first < last && (head || b.lex.suffixes[end] || p.toks[first].initial())
}

// joined writes tokens in lower case with single spaces.
func (p *page) joined(first, last int) string {
	if first == last {
		return p.toks[first].lower
	}
	var parts []string
	for i := first; i <= last; i++ {
		parts = append(parts, p.toks[i].lower)
	}
	return strings.Join(parts, " ")
}
