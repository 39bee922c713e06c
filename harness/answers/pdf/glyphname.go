package pdf

import (
	"encoding/hex"
	"strconv"
	"strings"

	"golang.org/x/text/unicode/norm"
)

// textOfGlyph returns the text of a glyph's name, as the Adobe Glyph List and
// its rules give it: uniXXXX and uXXXXXX, names joined by _, a suffix behind a
// point, Latin letters with accents, Cyrillic by afii numbers. Not every one of
// the list's 4,000 names is known: those that encodings of European text use.
func textOfGlyph(name string) (string, bool) {
	name, _, _ = strings.Cut(name, ".")
	if name == "" || len(name) > 100 {
		return "", false
	}
	if strings.Contains(name, "_") {
		whole := ""
		for part := range strings.SplitSeq(name, "_") {
			text, ok := textOfGlyph(part)
			if !ok {
				return "", false
			}
			whole += text
		}
		return whole, true
	}
	if len(name) == 1 {
		return name, true
	}
	if text, ok := glyphNames[name]; ok {
		return text, true
	}
	if text, ok := cyrillicGlyph(name); ok {
		return text, true
	}
	if text, ok := hexGlyph(name); ok {
		return text, true
	}
	return accented(name)
}

func hexGlyph(name string) (string, bool) {
	digits, ok := strings.CutPrefix(name, "uni")
	if units, err := hex.DecodeString(digits); ok && err == nil && len(units)%2 == 0 && len(units) > 0 {
		return textOfUnits(unitsOf(String(units)))
	}
	digits, ok = strings.CutPrefix(name, "u")
	if code, err := strconv.ParseUint(digits, 16, 32); ok && err == nil && len(digits) >= 4 && len(digits) <= 6 && code <= 0x10ffff {
		return string(rune(code)), true
	}
	return "", false
}

// cyrillic letters by their afii numbers, from 10017 and from 10065 on.
var afiiUpper, afiiLower = []rune("АБВГДЕЁЖЗИЙКЛМНОПРСТУФХЦЧШЩЪЫЬЭЮЯҐЂЃЄЅІЇЈЉЊЋЌЎ"), []rune("абвгдеёжзийклмнопрстуфхцчшщъыьэюяґђѓєѕіїјљњћќў")

// cyrillicGlyph knows the afii numbers of the Russian alphabet and of the
// letters of its neighbours.
func cyrillicGlyph(name string) (string, bool) {
	digits, ok := strings.CutPrefix(name, "afii")
	n, err := strconv.Atoi(digits)
	switch {
	case !ok || err != nil:
		return "", false
	case n >= 10017 && n < 10017+len(afiiUpper):
		return string(afiiUpper[n-10017]), true
	case n >= 10065 && n < 10065+len(afiiLower):
		return string(afiiLower[n-10065]), true
	}
	text, ok := map[int]string{10145: "Џ", 10193: "џ", 61352: "№", 208: "―", 8208: "―", 301: "", 299: "", 57636: "₪"}[n]
	return text, ok
}

// accented composes a letter and the name of its accent: "eacute" is é.
func accented(name string) (string, bool) {
	for _, mark := range accents {
		letter, ok := strings.CutSuffix(name, mark.name)
		if !ok || letter == "" {
			continue
		}
		if text, known := glyphNames[letter]; known {
			letter = text
		}
		if len([]rune(letter)) != 1 {
			continue
		}
		if composed := norm.NFC.String(letter + mark.combining); len([]rune(composed)) == 1 {
			return composed, true
		}
	}
	return "", false
}

// accents are the endings of names, longer ones first where one ends another.
var accents = []struct{ name, combining string }{
	{"hungarumlaut", "\u030b"}, {"dieresistonos", "\u0308\u0301"}, {"tonos", "\u0301"}, {"circumflex", "\u0302"}, {"dotaccent", "\u0307"}, {"commaaccent", "\u0327"},
	{"dieresis", "\u0308"}, {"cedilla", "\u0327"}, {"macron", "\u0304"}, {"ogonek", "\u0328"},
	{"grave", "\u0300"}, {"acute", "\u0301"}, {"tilde", "\u0303"}, {"caron", "\u030c"}, {"breve", "\u0306"}, {"ring", "\u030a"},
}

// glyphNames are names that no rule gives.
var glyphNames = func() map[string]string {
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
fi fi fl fl ff ff ffi ffi ffl ffl numero № checkmark ✓
infinity ∞ lessequal ≤ greaterequal ≥ notequal ≠ approxequal ≈ summation ∑ product ∏ radical √ integral ∫ partialdiff ∂ Delta Δ Omega Ω pi π arrowright → arrowleft ← lozenge ◊
Alpha Α Beta Β Gamma Γ Theta Θ Lambda Λ Pi Π Sigma Σ Phi Φ Psi Ψ alpha α beta β gamma γ delta δ epsilon ε zeta ζ eta η theta θ iota ι kappa κ lambda λ nu ν xi ξ omicron ο rho ρ sigma σ tau τ upsilon υ phi φ chi χ psi ψ omega ω`, "\n") {
		words := strings.Split(line, " ")
		for i := 0; i+1 < len(words); i += 2 {
			names[words[i]] = words[i+1]
		}
	}
	names["space"], names["nbspace"], names["nonbreakingspace"] = " ", " ", " "
	names["softhyphen"], names["sfthyphen"] = "\u00ad", "\u00ad"
	return names
}()
