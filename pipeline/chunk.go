package pipeline

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"extraction-experiment/internal/cli"
)

// Long documents are cut into overlapping chunks that fit the window of a model: splitText
// cuts, Extract asks about each chunk, with offsets relative to it, and mergeChunks unites the
// results. The merge does not judge what was extracted: it only finds equal entities and
// statements in different chunks.

// chunk is a section of a document.
type chunk struct {
	Text  string
	Start int // in the document, in code points
}

// splitText cuts a text into chunks of at most size code points. The chunks are in order and
// cover the whole text. An empty text has no chunks.
//
// A chunk ends at the best border in its later part, the last one of equals: paragraph,
// sentence, line break, white space, or where it is full. The later part is the second half, or
// less if the overlap is large. White space belongs to the word before it, so that a chunk
// begins with a word.
//
// The next chunk begins at the first sentence start within the overlap, which is at most half a
// chunk. Without one, it begins at the end of the chunk before if that is a sentence end,
// because half a sentence may say the opposite of the whole. Else it begins at the first word
// within the overlap, else at the start of the overlap.
//
// A chunk may hold only white space. A byte that is not UTF-8 counts as one code point. Time
// O(len(text)), memory 16 bytes per code point of a chunk.
func splitText(text string, size, overlap int) []chunk {
	switch {
	case text == "":
		return nil
	case len(text) <= size:
		return []chunk{{Text: text}}
	}
	// Each chunk ends at least size/4 (and one) code points after the chunk before, so that the
	// time is linear.
	overlap = min(overlap, size/2)
	c := cutter{limit: size, overlap: overlap, minLength: min(max(size/2, overlap+max(1, size/4)), size)}
	s := scanner{text: text}
	var chunks []chunk
	start := 0
	for i, r := range text {
		c.borders = append(c.borders, border{i, s.border(r)})
		s.step(i, r)
		if len(c.borders) <= c.limit {
			continue
		}
		end := c.end()
		chunks = append(chunks, chunk{text[c.borders[0].offset:c.borders[end].offset], start})
		next := c.next(end)
		start += next
		c.borders = slices.Delete(c.borders, 0, next)
	}
	return append(chunks, chunk{text[c.borders[0].offset:], start})
}

// Pieces cuts a text in the way long documents are cut: into pieces of at most size code
// points, each beginning with up to overlap code points of the piece before. A size below 1 is 1,
// an overlap below 0 is 0.
func Pieces(text string, size, overlap int) []string {
	chunks := splitText(text, max(1, size), max(0, overlap))
	return cli.Each(chunks, func(c chunk) string { return c.Text })
}

// border is a place between two code points of a text.
type border struct {
	offset   int // in bytes
	strength strength
}

// cutter chooses where chunks end and begin. Its borders start at the beginning of the present
// chunk.
type cutter struct {
	borders   []border
	limit     int // code points of a chunk
	overlap   int
	minLength int // fewest code points of a chunk, except the last
}

// end returns the index of the border at which the chunk ends.
func (c *cutter) end() int {
	best := c.minLength
	for i := best + 1; i <= c.limit; i++ {
		if c.borders[i].strength >= c.borders[best].strength {
			best = i
		}
	}
	return best
}

// next returns the index of the border at which the next chunk begins, for a chunk that ends at
// end.
func (c *cutter) next(end int) int {
	for _, minimum := range []strength{sentence, space} {
		for i := end - c.overlap; i <= end; i++ {
			if c.borders[i].strength >= minimum {
				return i
			}
		}
	}
	return end - c.overlap
}

// longestAbbreviation is the longest word, in bytes, that isAbbreviation accepts.
const longestAbbreviation = 16

// isTerminator reports whether a character ends sentences, in any script.
func isTerminator(r rune) bool {
	if r < 0x80 {
		return r == '.' || r == '!' || r == '?'
	}
	return r == '…' || unicode.Is(unicode.Sentence_Terminal, r)
}

// isCloser reports whether a character may stand between the end of a sentence and the white
// space after it.
func isCloser(r rune) bool {
	return r == '"' || r == '\'' || unicode.In(r, unicode.Pe, unicode.Pf)
}

// isAbbreviation reports whether a full stop after the word probably belongs to it and does not
// end a sentence. It accepts initials ("J."), ordinals ("3."), short parts with stops between
// ("e.g.", "z.B."), and common abbreviations. A wrong yes only loses one place to cut.
func isAbbreviation(word string) bool {
	if word == "" || len(word) > longestAbbreviation {
		return false
	}
	r, size := utf8.DecodeRuneInString(word)
	if strings.Contains(word, ".") || strings.Trim(word, "0123456789") == "" || size == len(word) && unicode.IsLetter(r) {
		isLong := func(part string) bool { return utf8.RuneCountInString(part) > 2 }
		if !slices.ContainsFunc(strings.Split(word, "."), isLong) {
			return true
		}
	}
	switch strings.ToLower(word) {
	case "mr", "mrs", "ms", "dr", "prof", "st", "sr", "jr", "rev", "hon", "gen", "col", "capt", "lt", "sgt",
		"vs", "cf", "al", "fig", "figs", "eq", "no", "nos", "vol", "pp", "ed", "eds", "ch", "sec", "art", "para",
		"inc", "ltd", "co", "corp", "dept", "univ", "approx", "est", "ca", "resp", "incl", "excl",
		"jan", "feb", "mar", "apr", "jun", "jul", "aug", "sep", "sept", "oct", "nov", "dec",
		"nr", "abs", "bzw", "ggf", "evtl", "str", "hr", "fr", "geb", "gest", "inkl", "vgl", "zzgl", "abb", "bd",
		"mme", "mlle", "av", "núm", "sra", "dra", "srta", "ing", "dott", "г", "ул", "им", "тыс", "млн", "руб", "гг":
		return true
	}
	return false
}

// strength ranks the borders: the higher, the better to cut there.
type strength uint8

const (
	character strength = iota // inside a word
	space                     // between words
	line                      // between lines
	sentence                  // between sentences
	paragraph                 // between paragraphs
)

// sentenceEnd tells whether a sentence may have ended just before a place.
type sentenceEnd uint8

const (
	noEnd   sentenceEnd = iota
	softEnd             // a full stop or similar: ends a sentence only before white space
	hardEnd             // 。 or similar: ends a sentence whatever follows
)

// scanner reads a text once and keeps the state that decides on the next border.
type scanner struct {
	text        string
	wordStart   int         // byte offset of the current word
	sentenceEnd sentenceEnd // the end of a sentence, if only closing marks and white space followed
	gap         bool        // white space precedes
	newlines    int         // line breaks in that white space
}

// border returns the strength of the border before r.
func (s *scanner) border(r rune) strength {
	switch {
	case unicode.IsSpace(r):
		return character
	case s.newlines >= 2:
		return paragraph
	case s.gap && (s.sentenceEnd == hardEnd || s.sentenceEnd == softEnd && !unicode.IsLower(r)):
		return sentence
	case s.newlines == 1:
		return line
	case s.gap:
		return space
	case s.sentenceEnd == hardEnd && !isTerminator(r) && !isCloser(r):
		return sentence
	}
	return character
}

// step updates the state with r, which begins at byte i.
func (s *scanner) step(i int, r rune) {
	if unicode.IsSpace(r) {
		s.gap = true
		switch r {
		case '\n', '\u2028':
			s.newlines++
		case '\f', '\u2029': // form feed, paragraph separator
			s.newlines += 2
		}
		return
	}
	if s.gap {
		s.gap, s.newlines, s.sentenceEnd, s.wordStart = false, 0, noEnd, i
	}
	switch {
	case isTerminator(r):
		s.sentenceEnd = s.classify(i, r)
	case s.sentenceEnd != noEnd && (isCloser(r) || s.sentenceEnd == softEnd && unicode.Is(unicode.Pi, r)):
		// The end of the sentence is still here: „So.“ and (Yes!)
	default:
		s.sentenceEnd = noEnd
		if s.wordStart == i && (r == '"' || r == '\'' || unicode.In(r, unicode.Ps, unicode.Pi)) { // an opening mark
			s.wordStart = i + utf8.RuneLen(r)
		}
	}
}

// classify returns how surely the terminator r at byte i ends a sentence.
func (s *scanner) classify(i int, r rune) sentenceEnd {
	switch r {
	case '.', '．':
		if s.sentenceEnd == noEnd && isAbbreviation(s.text[s.wordStart:i]) {
			return noEnd
		}
		return max(s.sentenceEnd, softEnd)
	case '!', '?', '…', '‼', '‽', '⁇', '⁈', '⁉':
		return max(s.sentenceEnd, softEnd)
	}
	return hardEnd
}
