package pdf

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// Kind says what a page is.
type Kind string

// The kinds of pages.
const (
	Readable   Kind = "text"
	Blank      Kind = "blank"      // nothing on it
	Scan       Kind = "scan"       // a picture without text
	Unreadable Kind = "unreadable" // text that nobody can make out
)

// From these on a page is no longer text; found by looking at real files and
// at broken ones, see judge_test.go.
const (
	mostUnknown  = 0.10 // of its glyphs
	mostNonsense = 0.35 // of the letters in words that are judged
	fewLetters   = 20
	chance       = 8  // letters that a name or two may have
	leastJudged  = 20 // letters
	longestWord  = 24 // letters; few are longer, even in German
)

// judge says what a page is, and why if it is not text. covered is the share of
// the page under pictures.
func judge(text string, covered float64) (kind Kind, problem string) {
	letters, shown := count(text, unicode.IsLetter), count(text, func(r rune) bool { return !unicode.IsSpace(r) })
	unknown := torn(text) + strings.Count(text, string(unicode.ReplacementChar))
	switch {
	case shown == 0 && covered < 0.02:
		return Blank, "the page is blank"
	case shown == 0, letters < fewLetters && covered > 0.5:
		return Scan, "the page is a picture without text: it needs OCR"
	case float64(unknown) > mostUnknown*float64(shown):
		return Unreadable, fmt.Sprintf("%d of %d characters have no meaning: the map of a font is missing or broken", min(unknown, shown), shown)
	}
	judged, nonsense, joined := spelling(text)
	most := mostNonsense*float64(judged) + chance
	switch {
	case judged < leastJudged:
	case float64(joined) > most:
		return Unreadable, fmt.Sprintf("%d of %d letters are in words that run into one another: the spaces are lost", joined, judged)
	case float64(nonsense+joined) > most:
		return Unreadable, fmt.Sprintf("%d of %d letters are in words that no language has: the map of a font is broken", nonsense+joined, judged)
	}
	return Readable, ""
}

// count returns how many characters of a text are of a kind.
func count(text string, is func(rune) bool) int {
	n := 0
	for _, r := range text {
		if is(r) {
			n++
		}
	}
	return n
}

// torn counts signs that are not letters between two letters, as where one
// encoding was read for another: т╨▓о, Ð¾Ñ€.
func torn(text string) (n int) {
	isSign := func(r rune) bool { return unicode.In(r, unicode.So, unicode.Sk, unicode.Sc) }
	for word := range strings.FieldsFuncSeq(text, func(r rune) bool { return !unicode.IsLetter(r) && !isSign(r) }) {
		n += count(strings.TrimFunc(word, isSign), isSign)
	}
	return n
}

// spelling counts letters of words in Latin and Cyrillic that can be judged: of four
// letters and more, and no abbreviations in capitals; those in words that no language
// has; and those in words that are too long for one.
func spelling(text string) (judged, nonsense, joined int) {
	ends := func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsMark(r) }
	for word := range strings.FieldsFuncSeq(text, ends) {
		latins := count(word, func(r rune) bool { return unicode.Is(unicode.Latin, r) })
		cyrillics := count(word, func(r rune) bool { return unicode.Is(unicode.Cyrillic, r) })
		capitals, n := count(word, unicode.IsUpper), utf8.RuneCountInString(word)
		if n < 4 || n < 6 && capitals == n || latins+cyrillics < n-1 {
			continue
		}
		alphabet := latin
		if cyrillics > latins {
			alphabet = cyrillic
		}
		judged += n
		switch {
		case n > longestWord:
			joined += n
		case latins > 1 && cyrillics > 1 || isMojibake(word, n) || !alphabet.likely(word):
			nonsense += n
		}
	}
	return judged, nonsense, joined
}

// isMojibake recognises Cyrillic that was read as Latin-1: nearly all letters have
// accents.
func isMojibake(word string, runes int) bool {
	return count(word, func(r rune) bool { return r >= 0xc0 && r <= 0xff })*3 > runes*2
}

// mostBits is what a pair of letters costs on average, above which a word is
// none. Words of four letters and more cost 3.8 ± 0.4 in English and 3.7 ± 0.4 in
// Russian, with shuffled alphabets 5.8 ± 0.8 and 6.3 ± 0.9; 1 % of the former are
// above the limit, 80 % and more of the latter.
const mostBits = 5.0

// alphabet is how letters of a script follow one another in the languages that
// are written in it: pairs[i][j]-'0' is -log₂ of the probability that letter j
// comes after letter i, rounded, 9 for all that is rarer. The first letter is the
// edge of a word.
type alphabet struct {
	first rune // the others follow it in Unicode
	pairs []string
}

// latin was counted in messages of programs in 26 languages: a quarter English,
// the rest German, French, Spanish, Italian, Portuguese, Dutch, Polish, Czech,
// the Nordic, Baltic and Uralic ones, Romanian, Turkish, Croatian and others.
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

// cyrillic was counted likewise: half Russian, the rest Ukrainian, Belarusian,
// Bulgarian, Serbian, Macedonian, Kazakh, Kyrgyz, Tajik and Mongolian.
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

// likely tells words of some language from letters by chance: a word costs at
// most mostBits for each pair of its letters, with its edges. Letters that the
// alphabet does not have count for nothing.
func (a alphabet) likely(word string) bool {
	bits, pairs, last := 0, 0, 0
	add := func(at int) {
		if last >= 0 && at >= 0 {
			bits += int(a.pairs[last][at] - '0')
			pairs++
		}
		last = at
	}
	for _, r := range word {
		add(a.index(r))
	}
	add(0)
	return float64(bits) <= mostBits*float64(pairs)
}

// index is the row of a letter; -1 for none.
func (a alphabet) index(r rune) int {
	r = plain(r)
	if !a.has(r) {
		return -1
	}
	return int(r-a.first) + 1
}

func (a alphabet) has(r rune) bool { return r >= a.first && int(r-a.first) < len(a.pairs)-1 }

// plain is a letter in lower case and without its accents.
func plain(r rune) rune {
	r = unicode.ToLower(r)
	if latin.has(r) || cyrillic.has(r) {
		return r
	}
	if letter, ok := plainLetters[r]; ok {
		return letter
	}
	return []rune(norm.NFD.String(string(r)))[0]
}

// plainLetters are those of other languages, as the pairs were counted.
var plainLetters = map[rune]rune{
	'ß': 's', 'ø': 'o', 'đ': 'd', 'ł': 'l', 'ı': 'i', 'æ': 'a', 'ə': 'a', 'œ': 'o', 'þ': 't', 'ð': 'd',
	'ё': 'е', 'є': 'е', 'ѐ': 'е', 'і': 'и', 'ї': 'и', 'ѝ': 'и', 'ў': 'у', 'ј': 'й', 'љ': 'л', 'њ': 'н', 'ћ': 'ч', 'ђ': 'д',
	'џ': 'ц', 'ѓ': 'г', 'ґ': 'г', 'ғ': 'г', 'ќ': 'к', 'қ': 'к', 'ѕ': 'з', 'ө': 'о', 'ү': 'у', 'ұ': 'у', 'ң': 'н', 'ә': 'а',
	'һ': 'х', 'ҳ': 'х', 'ҷ': 'ч',
}
