package baseline

import (
	"strings"
	"unicode"
)

// dates takes dates, years, decades, centuries and lengths of time. The longest
// reading of a place wins: "March 4, 2021" is one date, not three numbers.
func (b *reading) dates(p *page) {
	for i := 0; i < len(p.toks); i++ {
		if !p.free(i) {
			continue
		}
		if n := b.dateLength(p, i); n > 0 {
			p.take(i, i+n-1, ruleDate, evidence{date: 3})
			i += n - 1
			continue
		}
		if n := b.durationLength(p, i); n > 0 {
			p.take(i, i+n-1, ruleDate, evidence{duration: 3, quantity: 0.5})
			i += n - 1
		}
	}
}

// dateLength returns how many tokens from i on are a date; 0 for none.
func (b *reading) dateLength(p *page, i int) int {
	t := p.toks[i]
	switch {
	case t.kind == digit && numericDate(t.text):
		return 1
	case t.kind == digit && dayNumber(t.text):
		if n := b.dayMonth(p, i); n > 0 {
			return n
		}
	case b.month(p, i):
		return b.monthFirst(p, i)
	}
	return b.yearLength(p, i)
}

// dayMonth reads "4 March 2021", "4. März 2021", "4th of March", "4 марта 2021 года".
func (b *reading) dayMonth(p *page, i int) int {
	j := i + 1
	if p.free(j) && p.toks[j].is(".") && !p.toks[j].space {
		j++
	}
	if w := p.lowerAt(j); w == "of" || w == "de" {
		j++
	}
	if !p.free(j) || b.lex.months[p.lowerAt(j)] == 0 || p.toks[j].text == "may" {
		return 0
	}
	j++
	if w := p.lowerAt(j); (w == "," || w == "de" || w == "del") && p.free(j+1) && year(p.toks[j+1].text) {
		j++
	}
	if p.free(j) && year(p.toks[j].text) {
		j++
		if w := p.lowerAt(j); w == "года" || w == "г." {
			j++
		}
	}
	return j - i
}

// monthFirst reads "March 4, 2021", "March 2021", and a lone month.
func (b *reading) monthFirst(p *page, i int) int {
	j := i + 1
	if p.free(j) && p.toks[j].kind == digit && dayNumber(p.toks[j].text) {
		j++
		if p.lowerAt(j) == "," && p.free(j+1) && year(p.toks[j+1].text) {
			return j + 2 - i
		}
		if p.free(j) && year(p.toks[j].text) {
			return j + 1 - i
		}
		return j - i
	}
	if p.lowerAt(j) == "," && p.free(j+1) && year(p.toks[j+1].text) {
		return j + 2 - i
	}
	if w := p.lowerAt(j); (w == "of" || w == "de") && p.free(j+1) && year(p.toks[j+1].text) {
		return j + 2 - i
	}
	if p.free(j) && year(p.toks[j].text) {
		return j + 1 - i
	}
	// "May" and "Mars" alone are words of other meanings, too.
	if short := p.lowerAt(i); len(short) <= 4 && !b.lex.placing[p.lowerAt(i-1)] {
		return 0
	}
	return 1
}

// yearLength reads "1990", "1990s", "18th century", "2010-2015" as its first year.
func (b *reading) yearLength(p *page, i int) int {
	t := p.toks[i]
	if t.kind != digit {
		return 0
	}
	next := p.lowerAt(i + 1)
	if next == "century" || next == "centuries" || next == "siècle" || next == "jahrhundert" || next == "век" || next == "века" {
		return 2
	}
	if next == "." && p.lowerAt(i+2) == "jahrhundert" {
		return 3
	}
	decade := strings.TrimSuffix(strings.TrimSuffix(t.lower, "er"), "s")
	if decade != t.lower && year(decade) && strings.HasSuffix(decade, "0") {
		return 1
	}
	if !year(t.text) || b.measured(p, i) {
		return 0
	}
	if next == "года" || next == "году" || next == "год" {
		return 2
	}
	if i > 0 && currencySign(p.toks[i-1].lower) {
		return 0
	}
	return 1
}

// durationLength reads "six months", "100 years", "3-year", "2 часа".
func (b *reading) durationLength(p *page, i int) int {
	t := p.toks[i]
	if t.kind != digit && !b.lex.numerals[t.lower] {
		return 0
	}
	j := i + 1
	if p.free(j) && p.toks[j].kind == digit || b.lex.numerals[p.lowerAt(j)] {
		j++
	}
	if !p.free(j) || !b.lex.periods[p.lowerAt(j)] {
		return 0
	}
	return j + 1 - i
}

// measured reports that a unit, a scale or a currency follows a number.
func (b *reading) measured(p *page, i int) bool {
	next := p.lowerAt(i + 1)
	return b.lex.scales[next] || b.lex.percents[next] || (b.lex.units[next] && len(next) > 1) || b.lex.currencies[next]
}

func (b *reading) month(p *page, i int) bool {
	t := p.toks[i]
	if t.kind != word || b.lex.months[t.lower] == 0 {
		return false
	}
	// Months are capitalised in English and German, not in the others; "may"
	// and "mars" and "march" are words.
	return t.upper || len(t.lower) > 4 && t.lower != "march" || !latin(t.text)
}

// year reports four digits from 1000 to 2199 (ASCII or Arabic digits).
func year(s string) bool {
	value, n := 0, 0
	for _, r := range s {
		d := digitValue(r)
		if d < 0 {
			return false
		}
		value = value*10 + d
		if n++; n > 4 {
			return false
		}
	}
	return n == 4 && value >= 1000 && value < 2200
}

// digitValue returns the value of an ASCII, Arabic-Indic or Persian digit, -1 otherwise.
func digitValue(r rune) int {
	switch {
	case r >= '0' && r <= '9':
		return int(r - '0')
	case r >= '٠' && r <= '٩':
		return int(r - '٠')
	case r >= '۰' && r <= '۹':
		return int(r - '۰')
	}
	return -1
}

// dayNumber reports 1..31, also written "4th", "1er".
func dayNumber(s string) bool {
	n := runLength(s, unicode.IsDigit)
	value := 0
	for _, r := range s[:n] {
		value = value*10 + max(0, digitValue(r))
		if value > 31 {
			return false
		}
	}
	switch s[n:] {
	case "", "st", "nd", "rd", "th", "er":
		return value >= 1
	}
	return false
}

// numericDate reports 2021-03-04, 4.3.2021, 03/04/2021, 2021/03/04.
func numericDate(s string) bool {
	for _, sep := range []string{"-", ".", "/"} {
		parts := strings.Split(s[:min(len(s), 24)], sep)
		if len(parts) != 3 {
			continue
		}
		day := func(p string) bool { return len(p) <= 2 && dayNumber(p) }
		if year(parts[0]) && day(parts[1]) && day(strings.SplitN(parts[2], "T", 2)[0]) {
			return true
		}
		if day(parts[0]) && day(parts[1]) && (year(parts[2]) || sep != "-" && len(parts[2]) == 2 && parts[2] >= "00" && parts[2] <= "99") {
			return true
		}
	}
	return false
}

func latin(s string) bool {
	for _, r := range s {
		return r < 0x0250
	}
	return false
}
