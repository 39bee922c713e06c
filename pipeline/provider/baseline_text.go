package provider

import (
	"context"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// tokenKind says how a token is written.
type tokenKind uint8

const (
	lowerWord tokenKind = iota
	upperWord           // begins with a capital letter
	otherWord           // of a script without capitals
	number
	mark
)

// token is a word, a number or a mark of a sentence; from and to count bytes.
type token struct {
	text     string
	kind     tokenKind
	from, to int
	taken    bool // by a mention
}

// sentence is a stretch of the text with its tokens. It is reused for the next.
type sentence struct {
	text   string
	tokens []token
	at     int // code points before it
}

// maxSentence bounds a sentence, in bytes: a text may have no full stop.
const maxSentence = 4 << 10

// sentences calls do with every sentence of a text, and stops when ctx is done.
// A sentence ends at its full stop, at a blank line, and at the end of a line
// that is too short to be wrapped.
func sentences(ctx context.Context, text string, do func(*sentence)) error {
	s := &sentence{}
	for n := 0; len(text) > 0; n++ {
		if n%64 == 0 && ctx.Err() != nil {
			return fmt.Errorf("extracting with the baseline: sentence %d: %w", n+1, ctx.Err())
		}
		end := sentenceEnd(text)
		s.text, s.tokens = text[:end], s.tokens[:0]
		s.tokenize()
		do(s)
		s.at += utf8.RuneCountInString(s.text)
		text = text[end:]
	}
	return nil
}

func sentenceEnd(text string) int {
	line := 0 // where the line begins
	for i, end := 0, 0; i < len(text); i = end {
		r, size := utf8.DecodeRuneInString(text[i:])
		end = i + size
		next := text[end:]
		switch {
		case r == '。' || r == '！' || r == '？' || i > maxSentence:
			return end
		case r == '\n':
			first, _ := utf8.DecodeRuneInString(next)
			if i-line < 56 || !unicode.IsLetter(first) { // not a line that is wrapped
				return end
			}
			line = end
		case strings.ContainsRune("!?؟", r), r == '.' && !abbreviated(text[:i]):
			if after, _ := utf8.DecodeRuneInString(next); next == "" || unicode.IsSpace(after) || strings.ContainsRune("\")”»", after) {
				return end
			}
		}
	}
	return len(text)
}

// abbreviated reports whether the word before a full stop is one that such a
// stop belongs to: a single letter, a number before a month, or a short title.
func abbreviated(before string) bool {
	word := before[strings.LastIndexAny(before, " \n\t(\"“«.")+1:]
	if len(word) > 0 && len(word) <= 2 && word[0] >= '0' && word[0] <= '9' {
		return true
	}
	switch strings.ToLower(word) {
	case "mr", "mrs", "ms", "dr", "prof", "st", "jr", "sr", "inc", "ltd", "co", "corp", "no", "nr", "vs", "hr", "fr", "e.g", "i.e", "ca", "bzw", "г", "ул", "им":
		return true
	}
	return utf8.RuneCountInString(word) == 1
}

// tokenize cuts the sentence. An apostrophe, a hyphen or a full stop between two
// letters belongs to the word, the ending 's does not.
func (s *sentence) tokenize() {
	text := s.text
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRuneInString(text[i:])
		from := i
		i += size
		switch {
		case unicode.IsSpace(r):
			continue
		case unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana):
		case unicode.IsLetter(r) || unicode.IsDigit(r):
			i = wordEnd(text, i)
		}
		t := token{text: text[from:i], from: from, to: i}
		switch {
		case unicode.IsUpper(r) || unicode.IsTitle(r):
			t.kind = upperWord
		case unicode.IsLower(r):
			t.kind = lowerWord
		case unicode.IsDigit(r):
			t.kind = number
		case unicode.IsLetter(r):
			t.kind = otherWord
		default:
			t.kind = mark
		}
		s.tokens = append(s.tokens, t)
	}
}

// wordEnd returns where the word ends that goes on at byte i.
func wordEnd(text string, i int) int {
	for i < len(text) {
		r, size := utf8.DecodeRuneInString(text[i:])
		switch {
		case unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana):
			return i
		case unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r):
			i += size
		case strings.ContainsRune("-'’.&", r):
			next, more := utf8.DecodeRuneInString(text[i+size:])
			end := i + size + more
			after, _ := utf8.DecodeRuneInString(text[end:])
			if !unicode.IsLetter(next) && !unicode.IsDigit(next) || r == '.' && unicode.IsLower(next) || next == 's' && r != '-' && !unicode.IsLetter(after) {
				return i
			}
			i = end
		default:
			return i
		}
	}
	return i
}
