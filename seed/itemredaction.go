package seed

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sort"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"extraction-experiment/extraction"
	"extraction-experiment/internal/textutil"
)

// itemRedaction is the redaction of one item.
type itemRedaction struct {
	r            *Redaction
	masks        map[string]*mask // by text
	secrets      map[string]byte  // texts that must not occur anywhere, folded, and their labels
	keys         map[string]bool  // of all objects
	gold         []*mask          // texts of the expected output
	document     *mask            // nil where the input has no text
	placeholders placeholders
	work         int
}

// exempt are the paths of metadata that link to Langfuse, and the places of
// mentions in the gold, which move with the text instead where they are numbers.
var exempt = strings.Fields(`metadata.source_trace_id metadata.evidence.id metadata.evidence.time metadata.evidence.kind
	metadata.evidence.observation`)

var offsets = strings.Fields("expectedoutput.entities.mentions.start expectedoutput.entities.mentions.end")

// walk goes through a value; give gets every text and number with its path.
func (w *itemRedaction) walk(path []string, value any, give func(path []string, value any) any) any {
	switch v := value.(type) {
	case []any:
		for i := range v {
			v[i] = w.walk(path, v[i], give)
		}
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			w.keys[key] = true
			v[key] = w.walk(append(slices.Clip(path), keyPath(key)...), v[key], give)
		}
	case string, json.Number:
		place := strings.Join(path, ".")
		_, isNumber := v.(json.Number)
		if !slices.Contains(exempt, place) && !(isNumber && slices.Contains(offsets, place)) {
			return give(path, value)
		}
	}
	return value
}

// keyPath is a key as a part of a path: telemetry writes the keys of nested
// objects with dots between them.
func keyPath(key string) []string { return strings.Split(strings.ToLower(key), ".") }

// collect takes in all texts and keys, marks what is to be taken out of the
// texts, and remembers it as a secret.
func (w *itemRedaction) collect(item map[string]any) {
	w.walk(nil, item, func(path []string, value any) any {
		text := spelled(value)
		m := w.masks[text]
		if m == nil {
			m = newMask(text)
			w.masks[text] = m
			w.placeholders.reserve(text)
			w.r.matches(text, func(from, to int, label byte) {
				m.take(from, to, label)
				w.keep(text[from:to], label)
			})
		}
		w.collectInside(path, text)
		if _, isText := value.(string); isText && path[0] == "expectedoutput" {
			w.gold = append(w.gold, m)
		}
		if label := w.r.fieldAround(path); label != 0 {
			w.keep(text, label)
		}
		return value
	})
}

// keep remembers a secret.
func (w *itemRedaction) keep(text string, label byte) {
	folded := newMask(text).folded
	w.secrets[folded] = firstOf(w.secrets[folded], label)
}

// spread marks every secret wherever it stands.
func (w *itemRedaction) spread() {
	for folded, label := range w.secrets {
		for _, in := range w.masks {
			end := 0 // of what is marked
			w.search(in, folded, func(at int) {
				in.mark(max(at, end), at+len(folded), label)
				end = at + len(folded)
			})
		}
	}
}

// maxWork bounds the work on one item, in bytes that are looked at: beyond it a
// document and patterns are such that everything is found everywhere.
const maxWork = 20_000_000_000

var errTooMuch = errors.New("redacting: the patterns take out so much of it that it cannot be done in reasonable time: narrow them, or leave the trace out")

// search gives every place where a folded text stands, in order; a short one must
// be a word of its own. It ends where the work would be too much.
func (w *itemRedaction) search(in *mask, text string, give func(at int)) {
	const place = 1000 // what one costs
	w.work += 100 + len(in.folded)
	short := utf8.RuneCountInString(text) < 3
	for at := 0; text != "" && w.work < maxWork; at++ {
		next := strings.Index(in.folded[at:], text)
		if next < 0 {
			return
		}
		w.work += place
		if at += next; !short || in.isWord(at, at+len(text)) {
			give(at)
		}
	}
}

// checkKeys refuses an item whose keys hold a secret.
func (w *itemRedaction) checkKeys() error {
	for _, key := range wireKeys {
		delete(w.keys, key)
	}
	return w.check(slices.Collect(maps.Keys(w.keys)),
		"a key of an object holds what %s takes out, and keys are not changed: rename it, or leave that object out")
}

// check refuses an item whose texts that cannot be changed hold a secret, by the message
// that names what takes it out; and one with which there was too much work.
func (w *itemRedaction) check(texts []string, message string) error {
	first := byte(0)
	for _, text := range texts {
		in := newMask(text)
		w.r.matches(text, func(_, _ int, label byte) { first = firstOf(first, label) })
		for folded, label := range w.secrets {
			w.search(in, folded, func(at int) {
				if in.isWord(at, at+len(folded)) {
					first = firstOf(first, label)
				}
			})
		}
	}
	switch {
	case w.work >= maxWork:
		return errTooMuch
	case first > 0:
		return fmt.Errorf("redacting: "+message, w.r.rules[first-1].name)
	}
	return nil
}

// maxAligned bounds the gold texts that are looked for in the document, in
// bytes: names and quotes, not pages.
const maxAligned = 2000

// align marks gold texts and their places in the document alike, until nothing
// changes: a name that is taken out in one place for what is beside it is then
// taken out in every place. It ends where the work would be too much.
func (w *itemRedaction) align() {
	if w.document == nil {
		return
	}
	for _, gold := range w.gold {
		if gold.places != nil || gold == w.document || len(gold.folded) > maxAligned {
			continue
		}
		w.search(w.document, gold.folded, func(at int) { gold.places = append(gold.places, at) })
	}
	for changed := true; changed; {
		changed = false
		for _, gold := range w.gold {
			if w.work += 100 * len(gold.places) * len(gold.label); w.work >= maxWork {
				return
			}
			for _, at := range gold.places {
				changed = alignAt(gold, w.document, at) || changed
			}
		}
	}
	for _, gold := range w.gold {
		for _, at := range gold.places {
			if gold.masked() {
				w.document.cuts[at], w.document.cuts[at+len(gold.label)] = true, true
			}
		}
	}
	w.document.whole(&w.placeholders) // the document has the first numbers
	clear(w.placeholders.count)       // it is written again, and counted then
}

// alignAt marks a gold text and one of its places alike, and reports whether
// that was new.
func alignAt(gold, document *mask, at int) bool {
	changed := false
	for i := range gold.label {
		if label := firstOf(gold.label[i], document.label[at+i]); label != 0 {
			inGold, inDocument := gold.mark(i, i+1, label), document.mark(at+i, at+i+1, label)
			changed = changed || inGold || inDocument
		}
	}
	return changed
}

// replace takes everything out.
func (w *itemRedaction) replace(item map[string]any) {
	moves := w.moveMentions(item)
	w.walk(nil, item, func(_ []string, value any) any {
		text := spelled(value)
		m := w.masks[text]
		switch {
		case !m.masked():
			return value
		case m.places != nil: // written as its first place in the document
			return w.document.render(&w.placeholders, m.places[0], m.places[0]+len(m.folded))
		}
		return m.whole(&w.placeholders)
	})
	for _, move := range moves {
		move()
	}
}

// moveMentions finds where the quotes of mentions are in the new document: after
// what the text before them becomes. What it returns writes that down.
func (w *itemRedaction) moveMentions(item map[string]any) (moves []func()) {
	found, _ := Path{steps: []step{{key: "expectedoutput"}, {key: "entities"}, {kind: stepAll}, {key: "mentions"}}}.Find(item)
	mentions, _ := found.([]any)
	if len(mentions) == 0 || w.document == nil {
		return nil
	}
	m, uncounted := w.document, w.placeholders
	uncounted.count = map[string]int{}
	offsets := extraction.NewOffsets(m.text)
	place := func(characters any) int {
		n, err := strconv.Atoi(spelled(characters))
		at, ok := offsets.Convert(n, extraction.CodePoints, extraction.Bytes)
		if err != nil || !ok {
			return -1
		}
		return at
	}
	for _, one := range mentions {
		mention, _ := one.(map[string]any)
		start, end := place(mention["start"]), place(mention["end"])
		if start < 0 || end < start || m.text[start:end] != mention["quote"] {
			continue
		}
		from, to := m.at(start), m.at(end)
		for m.continues(from) {
			from--
		}
		for m.continues(to) {
			to++
		}
		quote := m.render(&uncounted, from, to)
		before := utf8.RuneCountInString(m.text[:m.from[0]] + m.render(&uncounted, 0, from))
		number := func(n int) json.Number { return json.Number(strconv.Itoa(n)) }
		moves = append(moves, func() {
			mention["quote"], mention["start"] = quote, number(before)
			mention["end"] = number(before + utf8.RuneCountInString(quote))
		})
	}
	return moves
}

// mask is a text with what is taken out of it. Texts are compared folded: each
// character folded, one space for a run of white space, none at the ends.
type mask struct {
	text   string
	folded string
	// from holds for every byte of folded where its character, or its run of
	// white space, begins in text; one more entry says where the last one ends.
	from   []int32
	label  []byte       // of every byte of folded; 0 stays
	cuts   map[int]bool // places where a replacement must end and another begin
	places []int        // of a gold text, in the document
}

func newMask(text string) *mask {
	m := &mask{text: text, from: make([]int32, 0, len(text)+1), cuts: map[int]bool{}}
	var b strings.Builder
	b.Grow(len(text))
	space := -1
	for at, r := range text {
		if unicode.IsSpace(r) {
			if space < 0 {
				space = at
			}
			continue
		}
		if space >= 0 && b.Len() > 0 {
			b.WriteByte(' ')
			m.from = append(m.from, int32(space))
		}
		space = -1
		before := b.Len()
		foldRune(&b, r)
		for range b.Len() - before {
			m.from = append(m.from, int32(at))
		}
	}
	m.from = append(m.from, int32(len(strings.TrimRightFunc(text, unicode.IsSpace))))
	m.folded, m.label = b.String(), make([]byte, b.Len())
	return m
}

// foldRune folds one character by itself, so that every byte of the result has
// one place. What folding would remove is kept.
func foldRune(b *strings.Builder, r rune) {
	if r < utf8.RuneSelf {
		b.WriteByte(byte(unicode.ToLower(r)))
		return
	}
	b.WriteString(cmp.Or(strings.TrimSpace(textutil.FoldCase(string(r))), string(r)))
}

// firstOf combines two labels: the one that is first in the pattern file
// wins. It only ever lowers, which is why repeating it ends.
func firstOf(a, b byte) byte {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// at returns the first byte of folded whose character begins at or after a place
// of text.
func (m *mask) at(place int) int {
	return sort.Search(len(m.folded), func(i int) bool { return int(m.from[i]) >= place })
}

// take marks text[from:to].
func (m *mask) take(from, to int, label byte) { m.mark(m.at(from), m.at(to), label) }

// mark marks folded[from:to], whole characters, and reports whether that was new.
func (m *mask) mark(from, to int, label byte) bool {
	for from > 0 && from < len(m.folded) && m.from[from] == m.from[from-1] {
		from--
	}
	for to > 0 && to < len(m.folded) && m.from[to] == m.from[to-1] {
		to++
	}
	changed := false
	for i := from; i < to; i++ {
		if first := firstOf(m.label[i], label); first != m.label[i] {
			m.label[i], changed = first, true
		}
	}
	return changed
}

// masked reports whether anything is taken out.
func (m *mask) masked() bool {
	return slices.ContainsFunc(m.label, func(l byte) bool { return l != 0 })
}

// isWord reports whether folded[from:to] is no part of a longer word.
func (m *mask) isWord(from, to int) bool {
	first, _ := utf8.DecodeRuneInString(m.folded[from:])
	last, _ := utf8.DecodeLastRuneInString(m.folded[:to])
	before, _ := utf8.DecodeLastRuneInString(m.folded[:from])
	after, _ := utf8.DecodeRuneInString(m.folded[to:])
	return !(from > 0 && inWord(first) && inWord(before)) && !(to < len(m.folded) && inWord(last) && inWord(after))
}

func inWord(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r) }

// continues reports whether one replacement stands for the bytes before and at a
// place of folded.
func (m *mask) continues(at int) bool {
	return at > 0 && at < len(m.label) && m.label[at] != 0 && m.label[at] == m.label[at-1] && !m.cuts[at]
}

// render writes folded[from:to] as it is after redaction.
func (m *mask) render(p *placeholders, from, to int) string {
	var b strings.Builder
	for i := from; i < to; {
		end, label := i+1, m.label[i]
		for end < to && (m.continues(end) || label == 0 && m.label[end] == 0) {
			end++
		}
		if label == 0 {
			b.WriteString(m.text[m.from[i]:m.from[end]])
		} else {
			b.WriteString(p.of(label, m.folded[i:end]))
		}
		i = end
	}
	return b.String()
}

// whole renders all of the text; white space at its ends stays.
func (m *mask) whole(p *placeholders) string {
	return m.text[:m.from[0]] + m.render(p, 0, len(m.folded)) + m.text[m.from[len(m.folded)]:]
}
