package baseline

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxSentence bounds the tokens of one sentence: text without any full stop is
// cut there, so that the work per sentence is bounded.
const maxSentence = 300

// sentences yields a text sentence by sentence; the slice that next returns is
// overwritten by the following call.
//
// A sentence ends at a full stop, question or exclamation mark of any script
// when something follows that can begin a sentence, at an empty line, and at
// the end of a short line (a heading, a list).
type sentences struct {
	lexer   lexer
	buffer  []token
	pending token
	held    bool
}

func newSentences(text string, lex *lexicon) *sentences {
	return &sentences{lexer: lexer{text: text, lex: lex}}
}

func (s *sentences) next() ([]token, bool) {
	s.buffer = s.buffer[:0]
	if s.held {
		s.buffer = append(s.buffer, s.pending)
		s.held = false
	}
	for {
		t, ok := s.lexer.next()
		if !ok {
			return s.buffer, len(s.buffer) > 0
		}
		if len(s.buffer) > 0 && s.breaks(t) {
			s.pending, s.held = t, true
			return s.buffer, true
		}
		s.buffer = append(s.buffer, t)
	}
}

// breaks reports whether t begins a new sentence after what is in the buffer.
func (s *sentences) breaks(t token) bool {
	n := len(s.buffer)
	last := s.buffer[n-1]
	switch {
	case n >= maxSentence || t.lines > 1:
		return true
	case t.lines == 1 && s.shortLine(t):
		return true
	case last.is("。") || last.is("！") || last.is("？"):
		return !closing(t)
	case last.is(".") && n > 1 && s.ordinal(s.buffer[n-2], t):
		return false
	case !s.ended():
		return s.abbreviationEnds(last, t)
	case closing(t) && !t.space:
		return false
	}
	return t.space && begins(t)
}

// ordinal reports "3. Oktober" and "18. Jahrhundert".
func (s *sentences) ordinal(before, t token) bool {
	return before.kind == digit && dayNumber(before.text) && (s.lexer.lex.months[t.lower] > 0 || t.lower == "jahrhundert")
}

// ended looks for a full stop at the end of the buffer, behind closing signs.
func (s *sentences) ended() bool {
	for i := len(s.buffer) - 1; i >= 0 && i >= len(s.buffer)-4; i-- {
		t := s.buffer[i]
		if t.kind == mark && strings.Contains(".!?؟…", t.text) {
			return true
		}
		if !closing(t) {
			return false
		}
	}
	return false
}

// abbreviationEnds reports "… Acme Inc. The …": the abbreviation's full stop
// is the sentence's too when a word follows that is capitalised only there.
func (s *sentences) abbreviationEnds(last, t token) bool {
	lex := s.lexer.lex
	if lex.suffixes[last.lower] && strings.HasSuffix(last.text, ".") && t.space && t.upper && !lex.suffixes[t.lower] {
		return true
	}
	return last.kind == word && strings.HasSuffix(last.text, ".") && !last.initial() &&
		t.upper && lex.stops[t.lower] && !lex.titles[last.lower]
}

// shortLine reports that the line before t ended early, or that t is an item
// of a list.
func (s *sentences) shortLine(t token) bool {
	last := s.buffer[len(s.buffer)-1]
	if t.kind == mark && strings.Contains("-–•*·#|>", t.text) || last.is(":") || last.is("|") {
		return true
	}
	first := s.buffer[0]
	for i := len(s.buffer) - 1; i > 0; i-- {
		if s.buffer[i].lines > 0 {
			first = s.buffer[i]
			break
		}
	}
	return last.end()-first.start < 50
}

func closing(t token) bool {
	return t.kind == mark && strings.Contains(`"'”’»)]』」）】`, t.text)
}

// begins reports what can stand at the beginning of a sentence.
func begins(t token) bool {
	if t.kind != word {
		return true
	}
	r, _ := utf8.DecodeRuneInString(t.text)
	return !unicode.IsLower(r)
}
