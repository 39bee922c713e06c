package search

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Split cuts pages into passages of about so many characters, at the ends of
// lines, and of sentences where a line is longer. Passages of a page share a
// line, so that what stands across a cut is found. Empty pages have none.
func Split(pages []Passage, characters int) []Passage {
	var out []Passage
	for _, p := range pages {
		var now []string
		size := 0
		flush := func() {
			if text := strings.TrimSpace(strings.Join(now, "\n")); text != "" {
				out = append(out, Passage{p.Page, text})
			}
		}
		for _, line := range pieces(p.Text, characters) {
			n := utf8.RuneCountInString(line)
			if size > 0 && size+n > characters {
				flush()
				last := now[len(now)-1]
				now, size = nil, 0
				if overlap := utf8.RuneCountInString(last); overlap+n <= characters {
					now, size = []string{last}, overlap
				}
			}
			now, size = append(now, line), size+n
		}
		flush()
	}
	return out
}

// pieces are the lines of a text, long ones cut into sentences, and those, if
// they must be, anywhere.
func pieces(text string, most int) []string {
	var out []string
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\r\n")
		if utf8.RuneCountInString(line) <= most {
			out = append(out, line)
			continue
		}
		for _, sentence := range Sentences(line) {
			runes := []rune(sentence)
			for len(runes) > most {
				out = append(out, string(runes[:most]))
				runes = runes[most:]
			}
			out = append(out, string(runes))
		}
	}
	return out
}

// Sentences cuts a text behind . ! ? and …, where white space and a capital
// letter, a digit or a quotation mark follow, and no abbreviation stands before:
// a usual one, a single letter, or a single digit. White space collapses.
func Sentences(text string) []string {
	words := strings.Fields(text)
	var out []string
	start := 0
	for i, word := range words {
		if i+1 < len(words) && (!endsSentence(word) || !beginsSentence(words[i+1])) {
			continue
		}
		out = append(out, strings.Join(words[start:i+1], " "))
		start = i + 1
	}
	return out
}

func endsSentence(word string) bool {
	bare := strings.TrimRight(word, "»”\")")
	last, _ := utf8.DecodeLastRuneInString(bare)
	if last != '.' {
		return last == '!' || last == '?' || last == '…'
	}
	head := strings.ToLower(strings.TrimLeft(strings.TrimSuffix(bare, "."), "«“\"("))
	if runes := []rune(head); len(runes) < 2 {
		return len(runes) == 1 && !unicode.IsLetter(runes[0]) && !unicode.IsDigit(runes[0])
	}
	return !abbreviations[head]
}

// abbreviations end in a point that ends no sentence.
var abbreviations = func() map[string]bool {
	words := map[string]bool{}
	for word := range strings.FieldsSeq(`млн млрд трлн тыс руб коп гг ул им стр рис табл гл см др пр проч напр тел кв обл р-н т.д т.п т.е т.к
mr mrs dr st no vol fig figs ch sec pp etc vs approx inc ltd co e.g i.e ca`) {
		words[word] = true
	}
	return words
}()

func beginsSentence(word string) bool {
	first, _ := utf8.DecodeRuneInString(word)
	return unicode.IsUpper(first) || unicode.IsDigit(first) || strings.ContainsRune("«“\"(—", first)
}
