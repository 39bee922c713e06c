package pdf

import (
	"cmp"
	"encoding/hex"
	"strconv"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// glyphText returns the text of the name of a glyph by the Adobe Glyph List and its rules:
// uniXXXX and uXXXXXX, parts joined by _, suffixes after a point, accented Latin letters,
// Cyrillic afii numbers. It is "" for unknown names. Of the 4,000 names of the list, it knows
// those that encodings of European text use.
func glyphText(name string) string {
	name, _, _ = strings.Cut(name, ".")
	if len(name) > 100 {
		return ""
	}
	whole := ""
	for part := range strings.SplitSeq(name, "_") {
		text := part
		if len(part) != 1 {
			text = cmp.Or(glyphNames()[part], hexGlyph(part), composeAccent(part))
		}
		if text == "" {
			return ""
		}
		whole += text
	}
	return whole
}

// hexGlyph decodes names like uni00410042 and u1F600.
func hexGlyph(name string) string {
	digits, ok := strings.CutPrefix(name, "uni")
	if units, err := hex.DecodeString(digits); ok && err == nil && len(units)%2 == 0 && len(units) > 0 {
		return decodeUTF16(utf16Units(String(units)))
	}
	digits, ok = strings.CutPrefix(name, "u")
	code, err := strconv.ParseUint(digits, 16, 21)
	if ok && err == nil && len(digits) >= 4 && code <= unicode.MaxRune {
		return string(rune(code))
	}
	return ""
}

// composeAccent composes a letter and an accent: "eacute" is é.
func composeAccent(name string) string {
	for _, mark := range accents {
		letter, ok := strings.CutSuffix(name, mark.name)
		if letter = cmp.Or(glyphNames()[letter], letter); !ok || utf8.RuneCountInString(letter) != 1 {
			continue
		}
		if composed := norm.NFC.String(letter + mark.combining); utf8.RuneCountInString(composed) == 1 {
			return composed
		}
	}
	return ""
}

// accents are suffixes of names. A suffix that ends with another one comes before it.
var accents = []struct{ name, combining string }{
	{"hungarumlaut", "\u030b"}, {"dieresistonos", "\u0308\u0301"}, {"tonos", "\u0301"},
	{"circumflex", "\u0302"}, {"dotaccent", "\u0307"}, {"commaaccent", "\u0327"},
	{"dieresis", "\u0308"}, {"cedilla", "\u0327"}, {"macron", "\u0304"}, {"ogonek", "\u0328"},
	{"grave", "\u0300"}, {"acute", "\u0301"}, {"tilde", "\u0303"}, {"caron", "\u030c"}, {"breve", "\u0306"}, {"ring", "\u030a"},
}

// Cyrillic letters in the order of their afii numbers, from afii10017 and afii10065 on.
const (
	afiiUpper = "АБВГДЕЁЖЗИЙКЛМНОПРСТУФХЦЧШЩЪЫЬЭЮЯҐЂЃЄЅІЇЈЉЊЋЌЎ"
	afiiLower = "абвгдеёжзийклмнопрстуфхцчшщъыьэюяґђѓєѕіїјљњћќў"
)

// glyphNames maps names that no rule covers to text.
var glyphNames = sync.OnceValue(func() map[string]string {
	names := map[string]string{}
	for line := range strings.SplitSeq(`exclam ! quotedbl " numbersign # dollar $ percent % ampersand & quotesingle ' parenleft ( parenright )
asterisk * plus + comma , hyphen - period . slash / zero 0 one 1 two 2 three 3 four 4 five 5 six 6 seven 7 eight 8 nine 9
colon : semicolon ; less < equal = greater > question ? at @ bracketleft [ backslash \ bracketright ] asciicircum ^ underscore _ grave `+"`"+`
braceleft { bar | braceright } asciitilde ~ exclamdown ¡ cent ¢ sterling £ currency ¤ yen ¥ brokenbar ¦ section § dieresis ¨ copyright ©
ordfeminine ª guillemotleft « logicalnot ¬ registered ® macron ¯ degree ° plusminus ± twosuperior ² threesuperior ³ acute ´ mu µ mu1 µ
paragraph ¶ periodcentered · middot · cedilla ¸ onesuperior ¹ ordmasculine º guillemotright » onequarter ¼ onehalf ½ threequarters ¾ questiondown ¿
AE Æ ae æ Eth Ð eth ð Thorn Þ thorn þ germandbls ß Oslash Ø oslash ø multiply × divide ÷ Lslash Ł lslash ł OE Œ oe œ dotlessi ı dotlessj ȷ Dcroat Đ dcroat đ
quoteleft ‘ quoteright ’ quotesinglbase ‚ quotedblleft “ quotedblright ” quotedblbase „ dagger † daggerdbl ‡ bullet • ellipsis … perthousand ‰
guilsinglleft ‹ guilsinglright › fraction ⁄ endash – emdash — minus − Euro € euro € trademark ™ florin ƒ circumflex ˆ tilde ˜ breve ˘ dotaccent ˙ ring ˚ ogonek ˛ caron ˇ hungarumlaut ˝
afii10145 Џ afii10193 џ afii61352 № afii00208 ― afii57636 ₪
fi fi fl fl ff ff ffi ffi ffl ffl numero № checkmark ✓
infinity ∞ lessequal ≤ greaterequal ≥ notequal ≠ approxequal ≈ summation ∑ product ∏ radical √ integral ∫ partialdiff ∂ Delta Δ Omega Ω pi π arrowright → arrowleft ← lozenge ◊
Alpha Α Beta Β Gamma Γ Theta Θ Lambda Λ Pi Π Sigma Σ Phi Φ Psi Ψ alpha α beta β gamma γ delta δ epsilon ε zeta ζ eta η theta θ iota ι kappa κ lambda λ nu ν xi ξ omicron ο rho ρ sigma σ tau τ upsilon υ phi φ chi χ psi ψ omega ω`, "\n") {
		words := strings.Split(line, " ")
		for i := 0; i+1 < len(words); i += 2 {
			names[words[i]] = words[i+1]
		}
	}
	for first, letters := range map[int]string{10017: afiiUpper, 10065: afiiLower} {
		for i, letter := range []rune(letters) {
			names["afii"+strconv.Itoa(first+i)] = string(letter)
		}
	}
	names["space"], names["nbspace"], names["nonbreakingspace"] = " ", " ", " "
	names["softhyphen"], names["sfthyphen"] = "\u00ad", "\u00ad"
	return names
})
