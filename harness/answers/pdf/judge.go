package pdf

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// Kind classifies a page.
type Kind string

// The kinds of pages.
const (
	Readable   Kind = "text"
	Blank      Kind = "blank"      // an empty page
	Scan       Kind = "scan"       // a picture without text
	Unreadable Kind = "unreadable" // text without a meaning
)

// Limits of readable text, derived from real and from broken files (judge_test.go).
const (
	maxUnknown  = 0.10 // of the glyphs
	maxNonsense = 0.35 // of the letters in judged words
	scanLetters = 20
	tolerance   = 8  // letters of a few names
	minJudged   = 20 // letters
	maxWord     = 24 // letters; few words are longer, even in German
)

// judge classifies a page, and describes the problem if it is not readable. imageShare is the
// share of the page that pictures cover.
func judge(text string, imageShare float64) (kind Kind, problem string) {
	letters, shown := countRunes(text, unicode.IsLetter), countRunes(text, func(r rune) bool { return !unicode.IsSpace(r) })
	unknown := signsInWords(text) + strings.Count(text, string(unicode.ReplacementChar))
	switch {
	case shown == 0 && imageShare < 0.02:
		return Blank, "the page is blank"
	case shown == 0, letters < scanLetters && imageShare > 0.5:
		return Scan, "the page is a picture without text: it needs OCR"
	case float64(unknown) > maxUnknown*float64(shown):
		return Unreadable, fmt.Sprintf("%d of %d characters have no meaning: the map of a font is missing or broken", min(unknown, shown), shown)
	}
	judged, nonsense, joined := checkSpelling(text)
	limit := maxNonsense*float64(judged) + tolerance
	switch {
	case judged < minJudged:
	case float64(joined) > limit:
		return Unreadable, fmt.Sprintf("%d of %d letters are in words that run into one another: the spaces are lost", joined, judged)
	case float64(nonsense+joined) > limit:
		return Unreadable, fmt.Sprintf("%d of %d letters are in words that no language has: the map of a font is broken", nonsense+joined, judged)
	}
	return Readable, ""
}

// countRunes returns the number of characters of text for which is returns true.
func countRunes(text string, is func(rune) bool) int {
	n := 0
	for _, r := range text {
		if is(r) {
			n++
		}
	}
	return n
}

// signsInWords counts signs between letters, which occur when text is decoded with a wrong
// encoding: т╨▓о, Ð¾Ñ€.
func signsInWords(text string) (n int) {
	isSign := func(r rune) bool { return unicode.In(r, unicode.So, unicode.Sk, unicode.Sc) }
	for word := range strings.FieldsFuncSeq(text, func(r rune) bool { return !unicode.IsLetter(r) && !isSign(r) }) {
		n += countRunes(strings.TrimFunc(word, isSign), isSign)
	}
	return n
}

// checkSpelling counts the letters of Latin and Cyrillic words that can be judged (four letters
// or more, no abbreviations in capitals), of those that no language has, and of those that are
// too long for one word.
func checkSpelling(text string) (judged, nonsense, joined int) {
	isSeparator := func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsMark(r) }
	for word := range strings.FieldsFuncSeq(text, isSeparator) {
		latins := countRunes(word, func(r rune) bool { return unicode.Is(unicode.Latin, r) })
		cyrillics := countRunes(word, func(r rune) bool { return unicode.Is(unicode.Cyrillic, r) })
		capitals, n := countRunes(word, unicode.IsUpper), utf8.RuneCountInString(word)
		if n < 4 || n < 6 && capitals == n || latins+cyrillics < n-1 {
			continue
		}
		alphabet := latin
		if cyrillics > latins {
			alphabet = cyrillic
		}
		judged += n
		switch {
		case n > maxWord:
			joined += n
		case latins > 1 && cyrillics > 1 || isMojibake(word, n) || !alphabet.isLikely(word):
			nonsense += n
		}
	}
	return judged, nonsense, joined
}

// isMojibake reports whether a word is Cyrillic decoded as Latin-1: nearly all of its letters
// have accents.
func isMojibake(word string, runes int) bool {
	return countRunes(word, func(r rune) bool { return r >= 0xc0 && r <= 0xff })*3 > runes*2
}

// maxBits is the largest average cost of the pairs of letters of a word. Words of four letters
// and more cost 3.8 ± 0.4 in English and 3.7 ± 0.4 in Russian; with shuffled alphabets they cost
// 5.8 ± 0.8 and 6.3 ± 0.9. Of the former 1 % exceed the limit, of the latter 80 % and more.
const maxBits = 5.0

// alphabet holds the probabilities of pairs of letters in the languages of a script:
// pairs[i][j]-'0' is -log₂ of the probability that letter j follows letter i, rounded, or 9 if
// it is rarer. Index 0 is the edge of a word.
type alphabet struct {
	first rune // the others follow in Unicode order
	pairs []string
}

// latin was counted in messages of programs in 26 languages: a quarter English, the rest German,
// French, Spanish, Italian, Portuguese, Dutch, Polish, Czech, the Nordic, Baltic and Uralic
// languages, Romanian, Turkish, Croatian and others.
var latin = alphabet{'a', []string{
	"945444466475554448544556986", // edge
	"365559768575353769343668976", // a
	"537992999359387399467499959", // b
	"539693993375698399574599976", // c
	"238962989398786389567589977", // d
	"267556668686453979344778687", // e
	"339984599299598299565499979", // f
	"249972966378685489455499969", // g
	"339982998388677399684578979", // h
	"356454659865453469534759896", // i
	"429961999497576499856489988", // j
	"338793987495596389544489979", // k
	"338952878377477489965589969", // l
	"325992999398756449868599989", // m
	"249543648476795489953569969", // n
	"376557658676443659344555996", // o
	"439673977498498359365499989", // p
	"599995999789599989997095999", // q
	"238652868386756489555568967", // r
	"249593996395687559953588966", // s
	"239893994398888489465588968", // t
	"356664668575443659433779986", // u
	"529992999399796399678699959", // v
	"339873984298794489559799948", // w
	"246583798398889639882799768", // x
	"246565777676545449644776987", // y
	"327762978396664479876566956", // z
}}

// cyrillic was counted in the same way: half Russian, the rest Ukrainian, Belarusian, Bulgarian,
// Serbian, Macedonian, Kazakh, Kyrgyz, Tajik and Mongolian.
var cyrillic = alphabet{'а', []string{
	"955464774484753435455567679999798", // edge
	"286565675845453964537976679999986", // а
	"629899498485485393793977996549897", // б
	"429797399395575385665979799749997", // в
	"439885599399575293873998699969599", // г
	"428686377496475375685999999859699", // д
	"297664866764443763548997768999999", // е
	"537994299296793599995999999969699", // ж
	"426474599497743376984989999968896", // з
	"276575595545544765449666669999974", // и
	"149765499696374897546988999989999", // й
	"429899599399496295444996999879999", // к
	"437966369396985399875999799963754", // л
	"337598289497866369995999999959895", // м
	"429975399397994399756899999947885", // н
	"395354655655444754448988669999998", // о
	"539999399497698282875996999879999", // п
	"429666369397866398654969879959697", // р
	"548689499494476447625987989765894", // с
	"339599399396895394585999999954799", // т
	"387464566954444954445789566989959", // у
	"719999599399599295954799999999999", // ф
	"139778689399896295874999999989498", // х
	"539699399198999597996995999943586", // ц
	"429789299295794599955999999959599", // ч
	"439798399294795585944899599949899", // ш
	"639999199299998499996999999996999", // щ
	"788584374695456553439989795999996", // ъ
	"296467496935444955548746769999995", // ы
	"199997893995973799569997969999979", // ь
	"598535979965343994439848779999499", // э
	"197697799899888998639996293999979", // ю
	"199575596995665987747977888999977", // я
}}

// isLikely reports whether a word may belong to a language: it costs at most maxBits for each
// pair of letters, including its edges. Pairs with letters outside the alphabet are ignored.
func (a alphabet) isLikely(word string) bool {
	bits, pairs, previous := 0, 0, 0
	addPair := func(row int) {
		if previous >= 0 && row >= 0 {
			bits += int(a.pairs[previous][row] - '0')
			pairs++
		}
		previous = row
	}
	for _, r := range word {
		addPair(a.row(baseLetter(r)))
	}
	addPair(0)
	return float64(bits) <= maxBits*float64(pairs)
}

// row returns the row of a letter, or -1 if it is not in the alphabet.
func (a alphabet) row(r rune) int {
	if row := int(r-a.first) + 1; row > 0 && row < len(a.pairs) {
		return row
	}
	return -1
}

// baseLetter returns a letter in lower case and without accents.
func baseLetter(r rune) rune {
	r = unicode.ToLower(r)
	if latin.row(r) > 0 || cyrillic.row(r) > 0 {
		return r
	}
	if letter, ok := baseLetters[r]; ok {
		return letter
	}
	return []rune(norm.NFD.String(string(r)))[0]
}

// baseLetters are the letters of other languages, replaced as in the counted texts.
var baseLetters = map[rune]rune{
	'ß': 's', 'ø': 'o', 'đ': 'd', 'ł': 'l', 'ı': 'i', 'æ': 'a', 'ə': 'a', 'œ': 'o', 'þ': 't', 'ð': 'd',
	'ё': 'е', 'є': 'е', 'ѐ': 'е', 'і': 'и', 'ї': 'и', 'ѝ': 'и', 'ў': 'у', 'ј': 'й', 'љ': 'л', 'њ': 'н', 'ћ': 'ч', 'ђ': 'д',
	'џ': 'ц', 'ѓ': 'г', 'ґ': 'г', 'ғ': 'г', 'ќ': 'к', 'қ': 'к', 'ѕ': 'з', 'ө': 'о', 'ү': 'у', 'ұ': 'у', 'ң': 'н', 'ә': 'а',
	'һ': 'х', 'ҳ': 'х', 'ҷ': 'ч',
}
