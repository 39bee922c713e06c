package answers

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/kljensen/snowball/english"
	"github.com/kljensen/snowball/russian"

	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/textutil"
	"extraction-experiment/pipeline"
)

// Passage is a part of one page.
type Passage struct {
	Page int    `json:"page"` // from 1
	Text string `json:"text"`
	// wording is that of a sentence in an answer; its Text has headings, too.
	wording string
}

// Found is a passage with its score, which is above 0 and has no upper bound.
type Found struct {
	Passage
	Score float64 `json:"score"`
}

// The usual parameters of BM25.
const (
	k1 = 1.2
	b  = 0.75
)

// searchIndex is a searchable list of passages. It is safe for concurrent use.
type searchIndex struct {
	passages []Passage
	lengths  []float64 // number of stems by passage
	average  float64   // mean of lengths, at least 1
	postings map[string][]posting
}

// posting is the number of occurrences of a stem in a passage.
type posting struct{ passage, count int32 }

// newIndex indexes passages. Time and memory are linear in their text.
func newIndex(passages []Passage) *searchIndex {
	x := &searchIndex{passages: passages, lengths: make([]float64, len(passages)), postings: map[string][]posting{}}
	for i, p := range passages {
		list := stems(p.Text)
		for _, stem := range list {
			entries := x.postings[stem]
			if last := len(entries) - 1; last >= 0 && entries[last].passage == int32(i) {
				entries[last].count++
			} else {
				x.postings[stem] = append(entries, posting{int32(i), 1})
			}
		}
		x.lengths[i] = float64(len(list))
		x.average += x.lengths[i]
	}
	x.average = max(1, x.average/float64(max(1, len(passages))))
	return x
}

// Find returns the n best passages that share a stem with the question, best first, and equal ones
// in their order.
//
// The score is Σ idf·f·(k1+1) / (f + k1·(1−b+b·length/average)) over the distinct stems of the
// question, where f is the number of occurrences of the stem in the passage, idf = ln(1 +
// (N−n+½)/(n+½)), k1 = 1.2 and b = 0.75 (Robertson and Zaragoza 2009). Time O(N + p·log p) for p
// passages that share a stem.
func (x *searchIndex) Find(question string, n int) []Found {
	stems := stems(question)
	slices.Sort(stems)
	scores := make([]float64, len(x.passages))
	var best []int
	for _, stem := range slices.Compact(stems) {
		total, matching := float64(len(x.passages)), float64(len(x.postings[stem]))
		idf := math.Log(1 + (total-matching+0.5)/(matching+0.5))
		for _, entry := range x.postings[stem] {
			if scores[entry.passage] == 0 {
				best = append(best, int(entry.passage))
			}
			f := float64(entry.count)
			scores[entry.passage] += idf * f * (k1 + 1) / (f + k1*(1-b+b*x.lengths[entry.passage]/x.average))
		}
	}
	slices.SortFunc(best, func(i, k int) int { return cmp.Or(cmp.Compare(scores[k], scores[i]), cmp.Compare(i, k)) })
	return cli.Each(best[:min(len(best), n)], func(i int) Found { return Found{x.passages[i], scores[i]} })
}

// splitPassages cuts pages into passages of at most so many characters. Each passage repeats the
// end of the previous one, so that a text across a cut is found. Empty pages have no passages.
func splitPassages(pages []Passage, characters int) []Passage {
	var out []Passage
	for _, p := range pages {
		for _, text := range pipeline.Pieces(p.Text, characters, characters/8) {
			if text = strings.TrimSpace(text); text != "" {
				out = append(out, Passage{Page: p.Page, Text: text})
			}
		}
	}
	return out
}

// Sentences cuts a text after . ! ? and … if white space and a capital letter, a digit, a dash, an
// opening bracket or a quotation mark follow. It does not cut after a point that follows a usual
// abbreviation, a single letter or a single digit. White space collapses.
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

// abbreviations are words whose point does not end a sentence.
var abbreviations = textutil.WordSet(`
	млн млрд трлн тыс руб коп гг ул им стр рис табл гл см др пр проч напр тел кв обл р-н т.д т.п т.е т.к
mr mrs dr st no vol fig figs ch sec pp etc vs approx inc ltd co e.g i.e ca`)

func beginsSentence(word string) bool {
	first, _ := utf8.DecodeRuneInString(word)
	return unicode.IsUpper(first) || unicode.IsDigit(first) || strings.ContainsRune("«“\"(—", first)
}

// maxWord is the maximal length of a word in characters; longer words are cut.
const maxWord = 64

// stems returns the stems of the words and numbers of a text in order: in lower case, with ё as е,
// Russian and English words stemmed by Snowball's rules, without function words. Spaces in "1 234"
// and the comma in "3,5" separate numbers, in documents as in questions.
func stems(text string) []string {
	var stems []string
	for word := range strings.FieldsFuncSeq(text, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }) {
		if stem := stem(word); stem != "" {
			stems = append(stems, stem)
		}
	}
	return stems
}

// stem returns the stem of a word, or "" for a function word.
func stem(word string) string {
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

// functionWords are words without a meaning for search.
var functionWords = textutil.WordSet(`
и в во на по с со к ко у о об от до из за для при не ни но а или что как это то же ли бы был была было были есть быть
какой какая какое какие какова каков каковы кто чем чему чего где когда сколько почему зачем который которая которое которые
the a an of in on at to for with by from and or is are was were be been it its this that these those as not
what which who whom whose when where why how does do did much many`)
