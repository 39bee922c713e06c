package search

import (
	"strings"
	"unicode"

	"github.com/kljensen/snowball/english"
	"github.com/kljensen/snowball/russian"
)

// maxWord bounds what counts as a word, in characters; longer ones are cut.
const maxWord = 64

// Stems returns the stems of the words and the numbers of a text, in order:
// lower case, ё as е, Russian and English words stemmed by Snowball's rules,
// function words left out. The spaces inside "1 234" and the comma of "3,5"
// divide numbers; both sides do so alike.
func Stems(text string) []string {
	var stems []string
	for word := range strings.FieldsFuncSeq(text, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }) {
		if stem := stemOf(word); stem != "" {
			stems = append(stems, stem)
		}
	}
	return stems
}

// stemOf returns "" for a word that says nothing.
func stemOf(word string) string {
	runes := []rune(strings.ReplaceAll(strings.ToLower(word), "ё", "е"))
	word = string(runes[:min(len(runes), maxWord)])
	if functionWords[word] {
		return ""
	}
	for _, r := range word {
		switch {
		case unicode.Is(unicode.Cyrillic, r):
			return russian.Stem(word, false)
		case unicode.Is(unicode.Latin, r):
			return english.Stem(word, false)
		}
	}
	return word
}

// functionWords hold sentences together and tell nothing about them.
var functionWords = func() map[string]bool {
	words := map[string]bool{}
	for word := range strings.FieldsSeq(`
и в во на по с со к ко у о об от до из за для при не ни но а или что как это то же ли бы был была было были есть быть
какой какая какое какие какова каков каковы кто чем чему чего где когда сколько почему зачем который которая которое которые
the a an of in on at to for with by from and or is are was were be been it its this that these those as not
what which who whom whose when where why how does do did much many`) {
		words[word] = true
	}
	return words
}()
