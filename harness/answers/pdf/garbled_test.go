package pdf_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode"

	"golang.org/x/text/encoding/charmap"

	"extraction-experiment/harness/answers/pdf"
)

const englishProse = "The harbour was built in the last century by people who had come from the north, and its old cranes still " +
	"lift timber, coal and containers. In winter two ships keep the way through the ice open. The company reached its best " +
	"year when the second berth was finished, because larger vessels could be loaded without waiting for the tide."

const russianProse = "Порт был построен в прошлом веке, и его старые краны до сих пор поднимают лес, уголь и контейнеры. Зимой два " +
	"ледокола держат открытым проход через льды. Лучшим годом компании стал тот, когда закончили второй причал: большие " +
	"суда теперь загружают, не дожидаясь прилива, а очередь на рейде почти исчезла."

// readText writes a page that shows text in lines of words, and reads it.
func readText(t *testing.T, text string) pdf.Page {
	t.Helper()
	var content strings.Builder
	content.WriteString("BT /F 9 Tf 9 790 Td 11 TL ")
	runes := []rune(text)
	for len(runes) > 0 {
		n := min(70, len(runes))
		for n < len(runes) && n > 1 && strings.ContainsRune(text, ' ') && runes[n-1] != ' ' {
			n--
		}
		if n == 1 {
			n = min(70, len(runes))
		}
		fmt.Fprintf(&content, "<%s> Tj T* ", hexUTF16(string(runes[:n])))
		runes = runes[n:]
	}
	file := buildFile("/Resources<</Font<</F<</Subtype/Type0/Encoding/UniGB-UTF16-H/DescendantFonts[<</DW 500>>]>>>>>>", content.String()+"ET")
	return read(t, file, pdf.Options{}).Pages[0]
}

// replaceLetters replaces each letter of from by the one at the same index of to.
func replaceLetters(text string, from, to []rune) string {
	letters := map[rune]rune{}
	for i, r := range from {
		letters[r], letters[unicode.ToUpper(r)] = to[i], unicode.ToUpper(to[i])
	}
	return strings.Map(func(r rune) rune {
		if other, ok := letters[r]; ok {
			return other
		}
		return r
	}, text)
}

// garbledTexts returns texts as they look with wrong font maps, by the kind of damage.
func garbledTexts(t *testing.T) map[string]string {
	list := map[string]string{}
	for text, first := range map[string]rune{englishProse: 'a', russianProse: 'а'} {
		letters := []rune("abcdefghijklmnopqrstuvwxyz")
		if first == 'а' {
			letters = []rune("абвгдежзийклмнопрстуфхцчшщъыьэюя")
		}
		for by := 1; by < len(letters); by++ {
			list[fmt.Sprintf("%c + %d", first, by)] = replaceLetters(text, letters, append(letters[by:len(letters):len(letters)], letters[:by]...))
		}
		for seed := range uint64(20) {
			other := append([]rune{}, letters...)
			rand.New(rand.NewPCG(seed, 8)).Shuffle(len(other), func(i, j int) { other[i], other[j] = other[j], other[i] })
			list[fmt.Sprintf("%c shuffled by %d", first, seed)] = replaceLetters(text, letters, other)
		}
		list[string(first)+" without spaces"] = strings.ReplaceAll(text, " ", "")
	}
	list["glyph numbers for codes"] = strings.Map(func(r rune) rune {
		if r == ' ' {
			return r
		}
		return r - 29
	}, englishProse)
	coded, err := charmap.Windows1251.NewEncoder().String(russianProse)
	if err != nil {
		t.Fatal(err)
	}
	for name, other := range map[string]*charmap.Charmap{"KOI8-R": charmap.KOI8R, "code page 866": charmap.CodePage866, "Latin-1": charmap.ISO8859_1, "Mac": charmap.Macintosh} {
		if list["Windows-1251 as "+name], err = other.NewDecoder().String(coded); err != nil {
			t.Fatal(err)
		}
	}
	if list["UTF-8 as Windows-1252"], err = charmap.Windows1252.NewDecoder().String(russianProse); err != nil {
		t.Fatal(err)
	}
	return list
}

// TestJudge_garbled checks that text garbled by a broken font map is unreadable.
func TestJudge_garbled(t *testing.T) {
	list := garbledTexts(t)
	if len(list) != 25+31+2*21+6 {
		t.Fatalf("%d garbled texts", len(list))
	}
	for name, text := range list {
		if p := readText(t, text); p.Kind != pdf.Unreadable {
			t.Errorf("%s: %s\n%s", name, p.Kind, p.Text)
		}
	}
	if p := readText(t, strings.ReplaceAll(englishProse, " ", "")); !strings.Contains(p.Problem, "spaces are lost") {
		t.Errorf("without spaces: %q", p.Problem)
	}
}

// TestJudge_unusual checks that text is readable even if little of it is English or Russian
// prose.
func TestJudge_unusual(t *testing.T) {
	for _, text := range []string{
		englishProse, russianProse, "стр. 7", "HX-40", "Приложение № 3",
		"ГОСТ СНГ ФЗ РФ МВД ФСБ ЦБ НДС ОКПО ОГРН ИНН КПП БИК ЕГРЮЛ ОКВЭД СНИП ОСТ ТУ МРОТ НДФЛ ЕСН ФСС ПФР ФНС МЧС",
		"1 420 905 398 311 180 2 480 2 795 3 214 812 866 943 21,3 % 11,5 % 4 128,9 3 405,2 2 914,6",
		"Kurt Schwarz, Łukasz Szczepański, Björn Åkesson, Nguyễn Văn Thành, Þórður Jónsson, Ömer Yıldız, Иван Щедрин",
		"Artikelnummer GX-2291-QZ, Rechtsschutzversicherung, Geschwindigkeitsbegrenzung, Straßenverkehrsordnung, Kraftfahrzeug",
		"Chrząszcz brzmi w trzcinie w Szczebrzeszynie, a gżegżółka siedzi na gałęzi i patrzy na rzekę, która płynie przez łąkę",
		"Порт був побудований у минулому столітті, і його старі крани досі піднімають ліс, вугілля та контейнери через кригу",
		"Cảng được xây dựng vào thế kỷ trước bởi những người đến từ phương bắc, và các cần cẩu cũ vẫn nâng gỗ, than và thùng hàng",
		"labelRefresh, labelFloppy, labelHarddisk, setBrightnessDown, getCurrentValue, XMLHttpRequest, maxLineLength, paperSizeA",
		"25 °C, 690 V, 50 Hz, 310 kW, 22 m/min, −30 to +45 °C, HVLP 46, LGX-2, W9, E01, E14, E22, E37, m²·K/W, 5 µm ± 0.1, ≤ 2.5 €",
	} {
		if p := readText(t, text); p.Kind != pdf.Readable {
			t.Errorf("%s %s: %s", p.Kind, p.Problem, text)
		}
	}
}
