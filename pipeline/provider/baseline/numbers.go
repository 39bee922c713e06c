package baseline

import (
	"strings"
	"unicode"
)

// numbers takes amounts of money, percentages, quantities with their units and
// plain numbers.
//
// The first call takes only those with a unit, before names can take the unit;
// the second what names left.
func (b *reading) numbers(p *page, measured bool) {
	for i := 0; i < len(p.toks); i++ {
		if !p.free(i) || !b.numeric(p, i) {
			continue
		}
		if measured && !b.measured(p, i) && (i == 0 || !currencySign(p.lowerAt(i-1))) {
			continue
		}
		i = b.number(p, i)
	}
}

// numeric reports digits, or a number written as a word.
func (b *reading) numeric(p *page, i int) bool {
	t := p.toks[i]
	if t.kind == digit {
		return true
	}
	return t.kind == word && b.lex.numerals[t.lower]
}

// number takes the number that begins at i and returns its last token.
func (b *reading) number(p *page, i int) int {
	first, last := i, i
	ev := evidence{quantity: 2}
	for p.free(last+1) && (b.lex.scales[p.lowerAt(last+1)] || p.toks[last+1].kind == word && b.lex.numerals[p.lowerAt(last+1)]) {
		last++
	}
	switch {
	case i > 0 && p.free(i-1) && currencySign(p.lowerAt(i-1)):
		first, ev = i-1, evidence{money: 3}
	case p.free(last+1) && b.lex.percents[p.lowerAt(last+1)]:
		last, ev = last+1, evidence{percent: 3}
	case p.free(last+1) && b.lex.currencies[p.lowerAt(last+1)]:
		last, ev = last+1, evidence{money: 3}
	case b.elided(p, last) > 0:
		last, ev = b.elided(p, last), evidence{money: 3}
	case p.free(last+1) && p.free(last+2) && b.lex.currencies[p.lowerAt(last+2)] && strings.HasSuffix(p.lowerAt(last+1), "us"):
		last, ev = last+2, evidence{money: 3}
	case p.free(last+1) && b.lex.units[p.lowerAt(last+1)] && p.toks[last+1].text != "A":
		last++
	case p.toks[i].kind == digit && letters(p.toks[i].text) >= 2 && digits(p.toks[i].text) >= 3:
		ev = evidence{identifier: 2}
	}
	p.take(first, last, ruleNumber, ev)
	return last
}

// elided returns the currency behind "millions d'euros", "millones de euros";
// 0 for none.
func (b *reading) elided(p *page, last int) int {
	if w := p.lowerAt(last + 1); w != "d" && w != "de" {
		return 0
	}
	for j := last + 2; j <= last+3; j++ {
		if p.free(j) && len(p.lowerAt(j)) > 2 && b.lex.currencies[p.lowerAt(j)] {
			return j
		}
	}
	return 0
}

// currencySign reports what stands before an amount.
func currencySign(s string) bool {
	switch s {
	case "$", "€", "£", "¥", "₽", "₹", "₩", "us$", "usd", "eur", "gbp", "chf", "rmb":
		return true
	}
	return false
}

func letters(s string) int { return countRunes(s, unicode.IsLetter) }
func digits(s string) int  { return countRunes(s, unicode.IsDigit) }

func countRunes(s string, in func(rune) bool) int {
	n := 0
	for _, r := range s {
		if in(r) {
			n++
		}
	}
	return n
}

// codes takes addresses of the net, and words that mix letters and digits or
// stand behind "No.", "ID" and the like.
func (b *reading) codes(p *page) {
	for i, t := range p.toks {
		if !p.free(i) {
			continue
		}
		switch {
		case t.kind == code:
			p.take(i, i, ruleCode, evidence{identifier: 3})
		case t.kind == digit && strings.Contains(t.text, "-") && !numericDate(t.text) && letters(t.text) > 0:
			p.take(i, i, ruleCode, evidence{identifier: 2})
		case t.kind == word && t.caps && digits(t.text) >= 2 && strings.ContainsAny(t.text, "-") && digits(t.text) >= 4:
			p.take(i, i, ruleCode, evidence{identifier: 2.5, product: 1})
		}
	}
}
