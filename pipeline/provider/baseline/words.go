package baseline

// maxWords bounds how many different words of a document are counted.
const maxWords = 400_000

// usage counts how a word is written in the document.
type usage struct {
	lower int // begins with a lower-case letter
	mid   int // capitalised where no sentence begins
}

// words is what one pass over the whole document teaches about its words; the
// rules for names need it, because a capital at the beginning of a sentence
// says nothing.
type words struct {
	usage    map[string]usage
	language string // "de", "en" …; "" when unknown
}

// count reads one sentence.
func (w *words) count(toks []token) {
	for i, t := range toks {
		if t.kind != word {
			continue
		}
		u, known := w.usage[t.lower]
		if !known && len(w.usage) >= maxWords {
			continue
		}
		switch {
		case !t.upper:
			u.lower++
		case i > 0 && !opensQuote(toks[i-1]):
			u.mid++
		default:
			continue
		}
		w.usage[t.lower] = u
	}
}

// settle names the language of the document: the one whose markers are most
// frequent; ties go to the name that sorts first.
func (w *words) settle(lex *lexicon) {
	votes := map[string]int{}
	for marker, language := range lex.language {
		votes[language] += w.usage[marker].lower
	}
	best := 2
	for _, language := range []string{"de", "en", "es", "fr", "nl", "ru"} {
		if votes[language] > best {
			best, w.language = votes[language], language
		}
	}
}

func opensQuote(t token) bool {
	switch t.text {
	case `"`, "“", "„", "«", "‘", "'", "(", "•", "-", "–", "—", ":", "*", "#", "|", "「", "『":
		return t.kind == mark
	}
	return false
}
