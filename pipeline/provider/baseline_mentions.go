package provider

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"extraction-experiment/extraction"
)

// mention is a section of a sentence that names an entity.
type mention struct {
	from, to int // token indexes, to is exclusive
	entity   *entity
}

// entity is a named thing with the evidence for each kind.
type entity struct {
	name      string
	aliases   []string
	mentions  []extraction.Span
	evidence  evidence
	words     []string // words of the name and beside its mentions, in lower case
	typeIndex int
}

// mentions finds the names of a sentence, in order.
func (d *document) mentions(s *sentence) []mention {
	var found []mention
	add := func(p pattern, from, to int) bool {
		if !standsAlone(s.text, from, to) {
			return false
		}
		first, last, ok := s.claim(from, to)
		if ok && d.usedKinds[p.kind] {
			var ev evidence
			ev[p.kind] = 4
			found = append(found, mention{from: first, to: last, entity: d.addMention(s, from, to, ev)})
		}
		return ok
	}
	ascii := !strings.ContainsFunc(s.text, func(r rune) bool { return r >= utf8.RuneSelf })
	for _, p := range d.patterns {
		noMatch := ascii && p.hint != "" && p.hint[0] >= utf8.RuneSelf
		if p.kind == role && !d.usedKinds[role] || noMatch || p.hint != "" && !strings.ContainsAny(s.text, p.hint) {
			continue
		}
		for _, at := range p.re.FindAllStringSubmatchIndex(s.text, -1) {
			add(p, at[len(at)-2], at[len(at)-1]) // the name is the group, if there is one
		}
	}
	for i, t := range s.tokens {
		if t.kind != number && !d.months[strings.ToLower(t.text)] || s.tokens[i].inMention {
			continue
		}
		rest := s.text[t.from:min(len(s.text), t.from+80)]
		for _, p := range d.tokenPatterns {
			if at := p.re.FindStringIndex(rest); at != nil && add(p, t.from, t.from+at[1]) {
				break
			}
		}
	}
	found = append(found, d.names(s)...)
	found = slices.DeleteFunc(found, func(m mention) bool { return m.entity == nil })
	slices.SortFunc(found, func(a, b mention) int { return a.from - b.from })
	return found
}

// standsAlone reports whether no letter or digit is directly beside a section.
func standsAlone(text string, from, to int) bool {
	before, _ := utf8.DecodeLastRuneInString(text[:from])
	after, _ := utf8.DecodeRuneInString(text[to:])
	letter := func(r rune) bool {
		return r != utf8.RuneError && (unicode.IsLetter(r) || unicode.IsDigit(r)) && !unicode.Is(unicode.Han, r)
	}
	return !letter(before) && !letter(after)
}

// claim marks the tokens of a section as part of a mention. It fails if one of them already is.
func (s *sentence) claim(from, to int) (first, last int, ok bool) {
	first, _ = slices.BinarySearchFunc(s.tokens, from, func(t token, at int) int { return t.to - at - 1 })
	for last = first; last < len(s.tokens) && s.tokens[last].from < to; last++ {
		if s.tokens[last].inMention {
			return 0, 0, false
		}
	}
	for i := first; i < last; i++ {
		s.tokens[i].inMention = true
	}
	return first, last, last > first
}

// names finds runs of at most 12 capitalised words, which a few small words may join.
func (d *document) names(s *sentence) []mention {
	var found []mention
	toks := s.tokens
	for i := 0; i < len(toks); i++ {
		if toks[i].kind != upperWord || toks[i].inMention {
			continue
		}
		end := i + 1
		for end < len(toks) && end < i+12 {
			next := end
			for next < len(toks) && next < end+2 && (d.continuesName(toks[i:end], toks[next].text) || toks[next].text == "." && toks[next].from == toks[next-1].to && isAbbreviation(toks[next-1].text)) {
				next++
			}
			joins := next < len(toks) && !toks[next].inMention && (toks[next].kind == upperWord || next == end && toks[next].kind == number && len(toks[next].text) < 5)
			if !joins || strings.ContainsRune(s.text[toks[next-1].to:toks[next].from], '\n') && next > end || d.titles[strings.ToLower(toks[next].text)] {
				break
			}
			end = next + 1
		}
		if end < len(toks) && toks[end].kind == lowerWord && toks[end].text[0] >= utf8.RuneSelf && d.nameKinds[toks[end].text] > 0 {
			end++ // Московский университет
		}
		if m := d.newMention(s, i, end); m.entity != nil {
			found = append(found, m)
		}
		i = end - 1
	}
	return found
}

// continuesName reports whether a small word continues a name; "of" and "the" do so only after a word
// of an institution.
func (d *document) continuesName(run []token, word string) bool {
	if word != "of" && word != "the" {
		return d.connectors[word]
	}
	return slices.ContainsFunc(run, func(t token) bool { return d.nameKinds[strings.ToLower(t.text)] > 0 })
}

// trimRun returns a run without a title or article before it, and without words that are only
// capitalised at the start of a sentence. atStart is true if the run begins a sentence, and ev
// is the evidence of the title.
func (d *document) trimRun(toks []token, from, to int) (first, last int, atStart bool, ev evidence) {
	atStart = from == 0 || from == 1 && toks[0].kind == mark
	for from < to {
		word := strings.ToLower(toks[from].text)
		if d.titles[word] {
			if from++; from < to && toks[from].text == "." {
				from++
			}
			ev[person], atStart = 3, false
			continue
		}
		if !d.stopWords[word] && !(atStart && d.lowerWords[word] && d.evidenceOf(word) == (evidence{})) {
			break
		}
		from++
		atStart = atStart && d.stopWords[word]
		for from < to && d.connectors[toks[from].text] {
			from++
		}
	}
	for to > from && (d.connectors[toks[to-1].text] || d.stopWords[strings.ToLower(toks[to-1].text)]) {
		to--
	}
	return from, to, atStart, ev
}

// newMention makes a mention from a run. Its entity is nil if the run is not a name.
func (d *document) newMention(s *sentence, from, to int) mention {
	toks := s.tokens
	from, to, atStart, ev := d.trimRun(toks, from, to)
	if from >= to || toks[from].inMention {
		return mention{}
	}
	words := to - from
	word := strings.ToLower(toks[from].text)
	known := d.byName[strings.ToLower(s.text[toks[from].from:toks[to-1].to])] != nil
	before := ""
	if from > 0 {
		before = strings.ToLower(toks[from-1].text)
	}
	common := utf8.RuneCountInString(word) < 2 || d.lowerWords[word] && !isAllCapitals(toks[from].text) ||
		atStart && (to < len(toks) && toks[to].inMention || strings.HasSuffix(word, "ing") || strings.HasSuffix(word, "ly")) ||
		d.german && (atStart || d.germanArticles[before] || !d.places[before] && ev[person] == 0 && d.evidenceOf(word) == (evidence{}))
	if words == 1 && !known && common {
		return mention{}
	}
	if d.places[before] {
		ev[place] += 2
	}
	after := ""
	if to < len(toks) {
		after = strings.ToLower(toks[to].text)
		if after == "." && words > 1 && isAbbreviation(toks[to-1].text) {
			to++ // Inc.
		}
	}
	for i := from; i < to; i++ {
		toks[i].inMention = true
		ev.add(d.evidenceOf(strings.ToLower(toks[i].text)))
	}
	if ev[org] == 0 && words >= 2 && words <= 4 && !strings.ContainsAny(s.text[toks[from].from:toks[to-1].to], "0123456789&") {
		ev[person] += 1.5
	}
	ev[org]++
	ev[place] += 0.9
	ev[thing] += 0.5
	if words == 1 && isAllCapitals(toks[from].text) {
		ev[org]++
	}
	e := d.addMention(s, toks[from].from, toks[to-1].to, ev)
	if e != nil && len(e.words) < 32 {
		e.words = append(e.words, before, after)
	}
	return mention{from, to, e}
}

// addMention adds a mention to the entity of its name: a new one, one of which it is an alias,
// or one whose short form in brackets it is. It returns nil if there are too many entities.
func (d *document) addMention(s *sentence, from, to int, ev evidence) *entity {
	d.counts.Mentions++
	name := strings.Join(strings.Fields(s.text[from:to]), " ")
	key := strings.ToLower(name)
	e := d.byName[key]
	if e == nil {
		if len(d.entities) >= maxEntities || name == "" {
			return nil
		}
		if e = d.longForm(s, name, from); e != nil {
			e.aliases = append(e.aliases, name)
		} else {
			e = &entity{name: name, words: strings.Fields(key)}
			d.entities = append(d.entities, e)
			d.addAlias(e, ev)
		}
		d.byName[key] = e
	}
	if len(e.mentions) < maxMentions {
		start := s.offset + utf8.RuneCountInString(s.text[:from])
		e.mentions = append(e.mentions, extraction.Span{Quote: s.text[from:to], Start: start, End: start + utf8.RuneCountInString(s.text[from:to]), LookedUp: true})
		e.evidence.add(ev)
	}
	return e
}

// addAlias makes the last word of the name of a person, and the name of a company without its
// legal form, stand for the whole name.
func (d *document) addAlias(e *entity, ev evidence) {
	words := strings.Fields(e.name)
	short := words[len(words)-1]
	if d.companies[strings.Trim(strings.ToLower(short), ".")] {
		short = strings.Join(words[:len(words)-1], " ")
	} else if ev[person] <= ev[org] || len(words) > 3 {
		return
	}
	if key := "\x00" + strings.ToLower(short); len(words) > 1 && d.byName[key] == nil {
		d.byName[key] = e
	}
}

// longForm returns the entity of which a name is the short form, or nil.
func (d *document) longForm(s *sentence, name string, from int) *entity {
	if e := d.byName["\x00"+strings.ToLower(name)]; e != nil {
		return e
	}
	if from == 0 || s.text[from-1] != '(' || !isAllCapitals(name) || len(d.entities) == 0 {
		return nil
	}
	previous, initials := d.entities[len(d.entities)-1], ""
	for word := range strings.FieldsSeq(previous.name) {
		initials += word[:1]
	}
	if initials != name {
		return nil
	}
	return previous
}

func isAllCapitals(word string) bool {
	return utf8.RuneCountInString(word) > 1 && !strings.ContainsFunc(word, unicode.IsLower) && strings.ContainsFunc(word, unicode.IsUpper)
}

// tokenKind is the form of a token.
type tokenKind uint8

const (
	lowerWord tokenKind = iota
	upperWord           // begins with a capital letter
	otherWord           // in a script without capitals
	number
	mark
)

// token is a word, a number or a mark of a sentence; from and to count bytes.
type token struct {
	text      string
	kind      tokenKind
	from, to  int
	inMention bool // part of a mention
}

// sentence is a section of the text with its tokens. It is reused for the next sentence.
type sentence struct {
	text   string
	tokens []token
	offset int // code points before the sentence
}

// maxSentence is the longest sentence, in bytes, because a text may have no full stop.
const maxSentence = 4 << 10

// eachSentence calls do with every sentence of a text, and stops when ctx is done. A sentence
// ends at its full stop, at a blank line, and at the end of a line that is too short to be
// wrapped.
func eachSentence(ctx context.Context, text string, do func(*sentence)) error {
	s := &sentence{}
	for n := 0; len(text) > 0; n++ {
		if n%64 == 0 && ctx.Err() != nil {
			return fmt.Errorf("extracting with the baseline: sentence %d: %w", n+1, ctx.Err())
		}
		end := sentenceEnd(text)
		s.text, s.tokens = text[:end], s.tokens[:0]
		s.tokenize()
		do(s)
		s.offset += utf8.RuneCountInString(s.text)
		text = text[end:]
	}
	return nil
}

func sentenceEnd(text string) int {
	line := 0 // start of the line
	for i, end := 0, 0; i < len(text); i = end {
		r, size := utf8.DecodeRuneInString(text[i:])
		end = i + size
		next := text[end:]
		switch {
		case r == '。' || r == '！' || r == '？' || i > maxSentence:
			return end
		case r == '\n':
			first, _ := utf8.DecodeRuneInString(next)
			if i-line < 56 || !unicode.IsLetter(first) { // not a wrapped line
				return end
			}
			line = end
		case strings.ContainsRune("!?؟", r), r == '.' && !isAbbreviation(text[:i]):
			if after, _ := utf8.DecodeRuneInString(next); next == "" || unicode.IsSpace(after) || strings.ContainsRune("\")”»", after) {
				return end
			}
		}
	}
	return len(text)
}

// isAbbreviation reports whether a full stop belongs to the word before it: a single letter, a
// number before a month, or a short title.
func isAbbreviation(before string) bool {
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

// tokenize cuts the sentence into tokens. An apostrophe, a hyphen or a full stop between two
// letters belongs to the word; the ending 's does not.
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

// wordEnd returns the end of the word that continues at byte i.
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
