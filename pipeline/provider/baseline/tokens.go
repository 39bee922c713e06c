package baseline

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// tokenKind says what a token is made of.
type tokenKind uint8

const (
	word  tokenKind = iota // letters of a script that puts spaces between words
	digit                  // begins with a digit
	han                    // a run of one script without spaces: Han, kana, Thai
	code                   // an address of the net: URL, e-mail
	mark                   // one sign
)

// token is a stretch of the document that rules look at as one.
type token struct {
	text  string // as it stands in the document
	lower string
	start int // bytes
	at    int // code points
	kind  tokenKind
	upper bool // begins with an upper-case letter
	caps  bool // two or more letters, all upper-case
	space bool // white space stands before it
	lines int  // line ends before it
}

func (t token) end() int { return t.start + len(t.text) }

func (t token) is(sign string) bool { return t.kind == mark && t.text == sign }

// initial reports a single letter with a full stop, as in "J. Smith".
func (t token) initial() bool {
	return t.kind == word && t.upper && strings.HasSuffix(t.text, ".") && utf8.RuneCountInString(t.text) == 2
}

// maxRun is the longest run without spaces in code points; what is longer is
// cut, so that rules that look through a run stay cheap.
const maxRun = 200

// lexer cuts a text into tokens, one at a time. Time is linear in the text.
type lexer struct {
	text string
	pos  int // bytes
	at   int // code points
	lex  *lexicon
}

// next returns the next token, or false at the end.
func (l *lexer) next() (token, bool) {
	t := token{}
	for l.pos < len(l.text) {
		r, size := utf8.DecodeRuneInString(l.text[l.pos:])
		if !unicode.IsSpace(r) && !invisible(r) {
			break
		}
		if r == '\n' || r == '\u2029' {
			t.lines++
		}
		t.space = t.space || unicode.IsSpace(r)
		l.pos += size
		l.at++
	}
	if l.pos >= len(l.text) {
		return token{}, false
	}
	t.start, t.at = l.pos, l.at
	size, kind := l.measure(l.text[l.pos:])
	t.kind = kind
	t.text = l.text[l.pos : l.pos+size]
	l.pos += size
	l.at += utf8.RuneCountInString(t.text)
	t.lower = t.text
	if kind == word {
		t.lower = strings.ToLower(t.text)
		first, _ := utf8.DecodeRuneInString(t.text)
		t.upper = unicode.IsUpper(first) || unicode.IsTitle(first)
		t.caps = t.upper && allCaps(t.text)
	}
	return t, true
}

// invisible reports signs that carry no text: byte order mark, joiners,
// direction marks.
func invisible(r rune) bool {
	return r == '\uFEFF' || (r >= '\u200B' && r <= '\u200F') || (r >= '\u202A' && r <= '\u202E') || (r >= '\u2066' && r <= '\u2069')
}

func allCaps(s string) bool {
	letters := 0
	for _, r := range s {
		switch {
		case unicode.IsLower(r):
			return false
		case unicode.IsLetter(r):
			letters++
		}
	}
	return letters > 1
}

// measure returns the length and kind of the token that s begins with.
func (l *lexer) measure(s string) (int, tokenKind) {
	r, size := utf8.DecodeRuneInString(s)
	switch {
	case spaceless(r):
		return runLength(s[:runePrefix(s, maxRun)], spaceless), han
	case unicode.IsDigit(r):
		return numberLength(s), digit
	case unicode.IsLetter(r):
		if n := addressLength(s); n > 0 {
			return n, code
		}
		return l.wordLength(s), word
	case r == '\'' || r == '’':
		if n := possessive(s); n > 0 {
			return n, mark
		}
	}
	return size, mark
}

// spaceless reports letters of scripts that do not put spaces between words.
// The middle dot of transliterated names and the iteration signs belong to it.
func spaceless(r rune) bool {
	return r >= 0x0E00 && (unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai) || r == 'ー' || r == '々')
}

func runLength(s string, in func(rune) bool) int {
	for i, r := range s {
		if !in(r) {
			return i
		}
	}
	return len(s)
}

// possessive measures 's and ’s at the end of a word.
func possessive(s string) int {
	_, size := utf8.DecodeRuneInString(s)
	if len(s) <= size || (s[size] != 's' && s[size] != 'S') {
		return 0
	}
	after, _ := utf8.DecodeRuneInString(s[size+1:])
	if unicode.IsLetter(after) || unicode.IsDigit(after) {
		return 0
	}
	return size + 1
}

// addressLength measures a URL or an e-mail address, up to 200 bytes.
func addressLength(s string) int {
	head := s[:min(len(s), 200)]
	if strings.HasPrefix(head, "http://") || strings.HasPrefix(head, "https://") || strings.HasPrefix(head, "www.") {
		return len(strings.TrimRight(head[:runLength(head, addressSign)], ".:!?"))
	}
	local := 0
	for local < len(head) && local < 64 && mailSign(rune(head[local])) {
		local++
	}
	if local == len(head) || head[local] != '@' {
		return 0
	}
	domain := head[local+1:]
	domain = strings.TrimRight(domain[:runLength(domain, mailSign)], ".")
	if strings.IndexByte(domain, '.') < 1 {
		return 0
	}
	return local + 1 + len(domain)
}

func addressSign(r rune) bool {
	return r > ' ' && r < unicode.MaxASCII && !strings.ContainsRune(`<>()[]{}"',;`, r)
}

func mailSign(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '.' || r == '-' || r == '_' || r == '+'
}

// numberLength measures digits with what belongs to them: separators between
// digits, and letters behind them ("18th", "5G", "1990s", "7A-22").
func numberLength(s string) int {
	i := runLength(s, unicode.IsDigit)
	for i < len(s) {
		r, size := utf8.DecodeRuneInString(s[i:])
		next, _ := utf8.DecodeRuneInString(s[i+size:])
		switch {
		case unicode.IsDigit(r):
			i += size
		case strings.ContainsRune(".,:/٫٬", r) && unicode.IsDigit(next):
			i += size
		case r == '-' && unicode.IsDigit(next) && dashedNumber(s):
			i += size
		case unicode.IsLetter(r) && !spaceless(r) && r < 0x0590:
			i += size
		default:
			return i
		}
	}
	return i
}

// dashedNumber reports digits, dash, digits, dash, digits: a date or a code,
// where one dash alone is a range.
func dashedNumber(s string) bool {
	dashes := 0
	for i := 0; i < len(s) && i < 32; i++ {
		switch {
		case s[i] == '-':
			dashes++
		case s[i] < '0' || s[i] > '9':
			return dashes >= 2
		}
	}
	return dashes >= 2
}
