package ground

import "unicode"

// isInvisible reports characters that change how others are shown and not what
// they say.
func isInvisible(r rune) bool {
	return r >= 0x80 && (unicode.Is(unicode.Cf, r) || unicode.Is(unicode.Variation_Selector, r))
}

func isDash(r rune) bool { return r == '-' || r == 0x2212 || r >= 0x80 && unicode.Is(unicode.Pd, r) }

// quotationMark returns ' or " for the kinds of quotation marks, apostrophes and
// primes, and anything else as it is.
func quotationMark(r rune) rune {
	switch r {
	case '`', '´', '‘', '’', '‚', '‛', '′', '‵', 'ʼ', 'ʹ', '‹', '›', '＇':
		return '\''
	case '“', '”', '„', '‟', '″', '‶', '«', '»', '〝', '〞', '〟', '＂':
		return '"'
	}
	return r
}

// writtenTogether reports letters of scripts that do not divide all words by
// white space, or write particles at them: a name may begin and end between two
// of their letters.
func writtenTogether(r rune) bool {
	return unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul, unicode.Thai, unicode.Lao,
		unicode.Khmer, unicode.Myanmar, unicode.Tibetan, unicode.Arabic, unicode.Hebrew)
}

// divides reports whether a word ends between two neighbours.
func divides(a, b rune) bool {
	word := func(r rune) bool { return unicode.In(r, unicode.L, unicode.N, unicode.M) }
	return !word(a) || !word(b) || writtenTogether(a) || writtenTogether(b)
}
