package pipeline

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"extraction-experiment/internal/cli"
)

// Long documents are cut into overlapping chunks that fit a model's window: splitText
// cuts, somebody extracts from each chunk with offsets relative to it, and mergeChunks
// unites the results. Neither judges what was extracted: it is only said which entities
// and statements of different chunks are the same one.

// chunk is a stretch of a document.
type chunk struct {
	Text string
	// Start and End say where the text is in the document, in code points;
	// End is exclusive.
	Start, End int
}

// splitText cuts a text into chunks of at most so many code points that cover it
// from the first code point to the last, in order. An empty text has no chunks.
//
// A chunk ends at the last paragraph border of its later part, else at the last
// sentence end, line break or white space there, else where it is full. The later part
// is the second half, or begins later where a large overlap needs it. White space
// belongs to what precedes it, so that a chunk begins with a word.
//
// The next chunk begins at the earliest sentence start within the overlap, at most half
// of a chunk, before that end. Without one it begins at the end itself if that is a
// sentence end, for half a sentence may say the opposite of the whole; otherwise at the
// earliest word within the overlap, else as early as the overlap allows.
//
// A chunk may hold white space only. A byte that is not UTF-8 counts as one code
// point. Time O(len(text)), memory 16 bytes per code point of a chunk.
func splitText(text string, most, overlap int) []chunk {
	switch {
	case text == "":
		return nil
	case len(text) <= most:
		return []chunk{{Text: text, End: utf8.RuneCountInString(text)}}
	}
	// Every chunk ends at least a quarter of the most (and one code point) after the one
	// before: this makes it linear.
	overlap = min(overlap, most/2)
	c := cutter{limit: most, overlap: overlap, earliest: min(max(most/2, overlap+max(1, most/4)), most)}
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
		chunks = append(chunks, chunk{Text: text[c.borders[0].offset:c.borders[end].offset], Start: start, End: start + end})
		next := c.next(end)
		start += next
		c.borders = slices.Delete(c.borders, 0, next)
	}
	return append(chunks, chunk{Text: text[c.borders[0].offset:], Start: start, End: start + len(c.borders)})
}

// Pieces cuts a text as long documents are cut: into pieces of at most so many code points, of
// which each begins with up to overlap of the one before.
func Pieces(text string, most, overlap int) []string {
	chunks := splitText(text, most, overlap)
	return cli.Each(chunks, func(c chunk) string { return c.Text })
}

// border stands between two code points of a text.
type border struct {
	offset   int // in bytes
	strength strength
}

// cutter chooses among the borders from the beginning of a chunk on.
type cutter struct {
	borders  []border
	limit    int // code points of a chunk
	overlap  int
	earliest int // fewest code points of a chunk that is not the last
}

// end returns where a chunk ends.
func (c *cutter) end() int {
	best := c.earliest
	for at := best + 1; at <= c.limit; at++ {
		if c.borders[at].strength >= c.borders[best].strength {
			best = at
		}
	}
	return best
}

// next returns where the chunk after the one that ends at end begins.
func (c *cutter) next(end int) int {
	for _, least := range []strength{sentence, space} {
		for at := end - c.overlap; at <= end; at++ {
			if c.borders[at].strength >= least {
				return at
			}
		}
	}
	return end - c.overlap
}

// longestAbbreviation bounds in bytes what is looked up before a full stop.
const longestAbbreviation = 16

// isTerminator reports characters that end sentences, in any script.
func isTerminator(r rune) bool {
	if r < 0x80 {
		return r == '.' || r == '!' || r == '?'
	}
	return r == '…' || unicode.Is(unicode.Sentence_Terminal, r)
}

// isCloser reports characters that may be between the end of a sentence and
// the white space after it.
func isCloser(r rune) bool {
	return r == '"' || r == '\'' || unicode.In(r, unicode.Pe, unicode.Pf)
}

// abbreviates reports whether a full stop after the word is more likely part of
// it than the end of a sentence. A wrong yes only loses a place to cut, so it is
// given freely: to initials ("J."), ordinals ("3."), short parts with stops
// between ("e.g.", "z.B."), and common abbreviations.
func abbreviates(word string) bool {
	if word == "" || len(word) > longestAbbreviation {
		return false
	}
	for part := range strings.SplitSeq(word, ".") {
		if utf8.RuneCountInString(part) > 2 {
			return isAbbreviation(strings.ToLower(word))
		}
	}
	if strings.Contains(word, ".") || strings.Trim(word, "0123456789") == "" {
		return true
	}
	r, size := utf8.DecodeRuneInString(word)
	return size == len(word) && unicode.IsLetter(r) || isAbbreviation(strings.ToLower(word))
}

func isAbbreviation(word string) bool {
	switch word {
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

// strength says how good a place between two code points is for a cut.
type strength uint8

const (
	character strength = iota // inside a word
	space                     // between words
	line                      // between lines
	sentence                  // between sentences
	paragraph                 // between paragraphs
)

// ending says whether a sentence may have ended just before.
type ending uint8

const (
	none ending = iota
	soft        // a full stop and the like: only before white space
	hard        // 。 and the like: whatever follows
)

// scanner reads a text once and remembers what decides about the next border.
type scanner struct {
	text     string
	word     int    // byte offset of the current word
	end      ending // of the last sentence, while only closing marks and white space follow
	gap      bool   // white space comes before
	newlines int    // in it
}

// border returns the strength of the border before r.
func (s *scanner) border(r rune) strength {
	switch {
	case unicode.IsSpace(r):
		return character
	case s.newlines >= 2:
		return paragraph
	case s.gap && (s.end == hard || s.end == soft && !unicode.IsLower(r)):
		return sentence
	case s.newlines == 1:
		return line
	case s.gap:
		return space
	case s.end == hard && !isTerminator(r) && !isCloser(r):
		return sentence
	}
	return character
}

// step takes r, which begins at byte i, into account.
func (s *scanner) step(i int, r rune) {
	if unicode.IsSpace(r) {
		s.gap = true
		switch r {
		case '\n', '\u2028':
			s.newlines++
		case '\f', '\u2029': // a page or a paragraph ends
			s.newlines += 2
		}
		return
	}
	if s.gap {
		s.gap, s.newlines, s.end, s.word = false, 0, none, i
	}
	switch {
	case isTerminator(r):
		s.end = s.ending(i, r)
	case s.end != none && (isCloser(r) || s.end == soft && unicode.Is(unicode.Pi, r)):
		// The sentence still ends here: „So.“ and (Yes!)
	default:
		s.end = none
		if s.word == i && (r == '"' || r == '\'' || unicode.In(r, unicode.Ps, unicode.Pi)) { // it opens
			s.word = i + utf8.RuneLen(r)
		}
	}
}

// ending returns how firmly the terminator r at byte i ends a sentence.
func (s *scanner) ending(i int, r rune) ending {
	switch r {
	case '.', '．':
		if s.end == none && abbreviates(s.text[s.word:i]) {
			return none
		}
		return max(s.end, soft)
	case '!', '?', '…', '‼', '‽', '⁇', '⁈', '⁉':
		return max(s.end, soft)
	}
	return hard
}
