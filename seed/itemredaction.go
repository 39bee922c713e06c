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
	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/textutil"
)

// itemRedaction is the redaction of one item.
type itemRedaction struct {
	r            *Redaction
	masks        map[string]*mask // by text
	secrets      map[string]byte  // labels of the texts that must not occur anywhere, by folded text
	keys         map[string]bool  // keys of all objects
	gold         []*mask          // texts of the expected output
	document     *mask            // nil if the input has no text
	escaped      [][2]string      // texts in texts that hold JSON, inner ones first: decoded, and as written there
	partial      map[string]bool  // names of the rules with a match that is a part of a word
	placeholders placeholders
	work         int
}

// exemptPaths are the metadata paths that link to Langfuse, and whose reviews are compared. An
// exemptValue there is not redacted: an id of Langfuse, a hash, a time, a kind of evidence or a verdict.
// Nor is the id of the trace, which stays in the item beside its metadata, too.
var (
	exemptPaths = strings.Fields(`metadata.evidence.id metadata.evidence.time
	metadata.evidence.kind metadata.evidence.observation metadata.review.verdict metadata.review.gold
	metadata.review.findings metadata.review.at metadata.review.trace`)
	exemptValue = textutil.Pattern(`^([0-9a-f]{12,}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|c[0-9a-z]{24}|` +
		`\d{4}-\d\d-\d\dT[\d:.]+(Z|[+-][\d:]+)|` +
		`queue|annotation|correction|score|tag|unvalidated|corrected|confirmed)$`)
)

// offsetPaths are the paths of the offsets of mentions. Numbers there are moved, not redacted.
var offsetPaths = strings.Fields("expectedoutput.entities.mentions.start expectedoutput.entities.mentions.end")

// walk replaces every text and number in a value by the result of fn, which also gets the path.
// It skips an exemptValue at exemptPaths and numeric offsets of mentions, and collects the keys of all objects.
func (w *itemRedaction) walk(path []string, value any, fn func(path []string, value any) any) any {
	switch v := value.(type) {
	case []any:
		for i := range v {
			v[i] = w.walk(path, v[i], fn)
		}
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			w.keys[key] = true
			v[key] = w.walk(append(slices.Clip(path), keyPath(key)...), v[key], fn)
		}
	case string, json.Number:
		name := strings.Join(path, ".")
		_, isNumber := v.(json.Number)
		exempt := name == "metadata.source_trace_id" ||
			slices.Contains(exemptPaths, name) && exemptValue().MatchString(plainText(v))
		if !exempt && !(isNumber && slices.Contains(offsetPaths, name)) {
			return fn(path, value)
		}
	}
	return value
}

// keyPath splits a key at its dots: telemetry writes the keys of nested objects with dots between
// them.
func keyPath(key string) []string { return strings.Split(strings.ToLower(key), ".") }

// collect records all texts and keys, marks what the patterns match, and remembers matches and
// field values as secrets.
func (w *itemRedaction) collect(item map[string]any) {
	w.walk(nil, item, func(path []string, value any) any {
		text := plainText(value)
		m := w.masks[text]
		if m == nil {
			m = newMask(text)
			w.masks[text] = m
			for _, found := range placeholder().FindAllString(text, -1) {
				w.placeholders.taken[strings.ToUpper(found)] = true
			}
			w.r.matches(text, func(from, to int, label byte) {
				m.markText(from, to, label)
				w.addSecret(text[from:to], label)
				if !m.isWord(m.index(from), m.index(to)) {
					w.partial[w.r.rules[label-1].name] = true
				}
			})
		}
		w.collectInside(path, text)
		if _, isText := value.(string); isText && path[0] == "expectedoutput" {
			w.gold = append(w.gold, m)
		}
		if label := w.r.fieldLabel(path); label != 0 {
			w.addSecret(text, label)
		}
		return value
	})
}

// warnings names the rules that left the rest of a word.
func (w *itemRedaction) warnings() []string {
	return cli.Each(slices.Sorted(maps.Keys(w.partial)), func(name string) string {
		return name + ` took out a part of a word, and the rest stays: \w, \d, \b know only ASCII, [\p{L}\p{M}\p{N}_] all`
	})
}

// addSecret remembers a secret.
func (w *itemRedaction) addSecret(text string, label byte) {
	folded := newMask(text).folded
	w.secrets[folded] = minLabel(w.secrets[folded], label)
}

// markSecrets marks every occurrence of every secret, and the whole of an escaped text that hides one.
func (w *itemRedaction) markSecrets() {
	for _, e := range w.escaped {
		written, found := newMask(e[1]), byte(0)
		if w.secrets[written.folded] != 0 {
			continue // it is taken out whole already
		}
		decoded := newMask(e[0])
		for folded, label := range w.secrets {
			hidden := 0
			w.search(decoded, folded, func(int) { hidden++ })
			w.search(written, folded, func(int) { hidden-- })
			if hidden > 0 {
				found = minLabel(found, label)
			}
		}
		if found != 0 {
			w.addSecret(e[1], found)
		}
	}
	for folded, label := range w.secrets {
		for _, m := range w.masks {
			end := 0 // end of the previous occurrence
			w.search(m, folded, func(at int) {
				m.mark(max(at, end), at+len(folded), label)
				end = at + len(folded)
			})
		}
	}
}

// maxWork bounds the work on one item, in bytes searched. An item exceeds it only if its patterns
// match nearly everything nearly everywhere.
const maxWork = 20_000_000_000

var errTooMuch = errors.New("redacting: the patterns take out so much of it that it cannot be done in reasonable time: narrow them, or leave the trace out")

// search calls fn for every place where a folded text occurs, in order. A text of fewer than
// three characters must be a whole word. The search stops at maxWork.
func (w *itemRedaction) search(m *mask, text string, fn func(at int)) {
	const occurrenceCost = 1000 // work per occurrence
	w.work += 100 + len(m.folded)
	short := utf8.RuneCountInString(text) < 3
	for at := 0; text != "" && w.work < maxWork; at++ {
		next := strings.Index(m.folded[at:], text)
		if next < 0 {
			return
		}
		w.work += occurrenceCost
		if at += next; !short || m.isWord(at, at+len(text)) {
			fn(at)
		}
	}
}

// checkTexts returns an error if one of the texts, which cannot be changed, holds a secret, or if
// the work exceeded maxWork. The message gets the name of the rule that would remove the secret.
func (w *itemRedaction) checkTexts(texts []string, message string) error {
	found := byte(0)
	for _, text := range texts {
		m := newMask(text)
		w.r.matches(text, func(_, _ int, label byte) { found = minLabel(found, label) })
		for folded, label := range w.secrets {
			w.search(m, folded, func(at int) {
				if m.isWord(at, at+len(folded)) {
					found = minLabel(found, label)
				}
			})
		}
	}
	switch {
	case w.work >= maxWork:
		return errTooMuch
	case found > 0:
		return fmt.Errorf("redacting: "+message, w.r.rules[found-1].name)
	}
	return nil
}

// maxAligned bounds the length in bytes of a gold text that is searched for in the document: names
// and quotes, not pages.
const maxAligned = 2000

// align marks gold texts and their occurrences in the document alike, until nothing changes: if a
// neighbouring secret covers a part of a name at one place, that part is covered at every place.
// Occurrences have the letters of the gold text, so that a person is not taken for a part of an
// e-mail address. It stops at maxWork.
func (w *itemRedaction) align() {
	if w.document == nil {
		return
	}
	for _, gold := range w.gold {
		if gold.positions != nil || gold == w.document || len(gold.folded) > maxAligned {
			continue
		}
		w.search(w.document, gold.folded, func(at int) {
			if w.document.original(at, at+len(gold.folded)) == gold.original(0, len(gold.folded)) {
				gold.positions = append(gold.positions, at)
			}
		})
	}
	for changed := true; changed; {
		changed = false
		for _, gold := range w.gold {
			if w.work += 100 * len(gold.positions) * len(gold.labels); w.work >= maxWork {
				return
			}
			for _, at := range gold.positions {
				for i := range gold.labels {
					label := minLabel(gold.labels[i], w.document.labels[at+i])
					inGold, inDocument := gold.mark(i, i+1, label), w.document.mark(at+i, at+i+1, label)
					changed = changed || inGold || inDocument
				}
			}
		}
	}
	for _, gold := range w.gold {
		for _, at := range gold.positions {
			if gold.masked() {
				w.document.cuts[at], w.document.cuts[at+len(gold.labels)] = true, true
			}
		}
	}
	w.document.renderAll(w.placeholders.get) // gives the document the first numbers
	clear(w.placeholders.count)              // the final rendering counts again
}

// replace replaces everything that is marked.
func (w *itemRedaction) replace(item map[string]any) {
	moves := w.moveMentions(item)
	w.walk(nil, item, func(_ []string, value any) any {
		text := plainText(value)
		m := w.masks[text]
		switch {
		case !m.masked():
			return value
		case m.positions != nil: // as at its first place in the document
			return w.document.render(w.placeholders.get, m.positions[0], m.positions[0]+len(m.folded))
		}
		return m.renderAll(w.placeholders.get)
	})
	for _, move := range moves {
		move()
	}
}

// moveMentions finds where the quotes of mentions are in the redacted document. The functions that
// it returns write the new offsets and quotes.
func (w *itemRedaction) moveMentions(item map[string]any) (moves []func()) {
	found, _ := Path{steps: []step{{key: "expectedoutput"}, {key: "entities"}, {kind: stepAll}, {key: "mentions"}}}.Find(item)
	mentions, _ := found.([]any)
	if len(mentions) == 0 || w.document == nil {
		return nil
	}
	document, uncounted := w.document, w.placeholders
	uncounted.count = map[string]int{}
	offsets := extraction.NewOffsets(document.text)
	byteOffset := func(characters any) int {
		n, err := strconv.Atoi(plainText(characters))
		at, ok := offsets.Convert(n, extraction.CodePoints, extraction.Bytes)
		if err != nil || !ok {
			return -1
		}
		return at
	}
	for _, element := range mentions {
		mention, _ := element.(map[string]any)
		start, end := byteOffset(mention["start"]), byteOffset(mention["end"])
		if start < 0 || end < start || document.text[start:end] != mention["quote"] {
			continue
		}
		from, to := document.index(start), document.index(end)
		for document.continues(from) {
			from--
		}
		for document.continues(to) {
			to++
		}
		quote := document.render(uncounted.get, from, to)
		before := utf8.RuneCountInString(document.text[:document.starts[0]] + document.render(uncounted.get, 0, from))
		number := func(n int) json.Number { return json.Number(strconv.Itoa(n)) }
		moves = append(moves, func() {
			mention["quote"], mention["start"] = quote, number(before)
			mention["end"] = number(before + utf8.RuneCountInString(quote))
		})
	}
	return moves
}

// mask is a text with the labels of what to remove. Texts are compared folded: each character
// folded, one space for a run of white space, none at the ends.
type mask struct {
	text   string
	folded string
	// starts holds, for every byte of folded, where its character or run of white space begins in
	// text. One more entry holds the end of the last one.
	starts    []int32
	labels    []byte       // of every byte of folded; 0 keeps the byte
	cuts      map[int]bool // places in folded where a replacement must end
	positions []int        // of a gold text: where it occurs in the document
}

func newMask(text string) *mask {
	m := &mask{text: text, starts: make([]int32, 0, len(text)+1), cuts: map[int]bool{}}
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
			m.starts = append(m.starts, int32(space))
		}
		space = -1
		before := b.Len()
		foldRune(&b, r)
		for range b.Len() - before {
			m.starts = append(m.starts, int32(at))
		}
	}
	m.starts = append(m.starts, int32(len(strings.TrimRightFunc(text, unicode.IsSpace))))
	m.folded, m.labels = b.String(), make([]byte, b.Len())
	return m
}

// foldRune folds one character alone, so that every byte of the result belongs to one character. A
// character that folds to nothing or to white space is kept.
func foldRune(b *strings.Builder, r rune) {
	if r < utf8.RuneSelf {
		b.WriteByte(byte(unicode.ToLower(r)))
		return
	}
	b.WriteString(cmp.Or(strings.TrimSpace(textutil.FoldCase(string(r))), string(r)))
}

// minLabel returns the label of the rule that comes first in the pattern file; 0 is no label. The
// result is never higher than a, unless a is 0, so that repeating it terminates.
func minLabel(a, b byte) byte {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// original returns the text of folded[from:to] with one space for a run of white space.
func (m *mask) original(from, to int) string {
	return strings.Join(strings.Fields(m.text[m.starts[from]:m.starts[to]]), " ")
}

// index returns the first byte of folded whose character begins at or after a position of text.
func (m *mask) index(position int) int {
	return sort.Search(len(m.folded), func(i int) bool { return int(m.starts[i]) >= position })
}

// markText marks text[from:to].
func (m *mask) markText(from, to int, label byte) { m.mark(m.index(from), m.index(to), label) }

// mark marks folded[from:to], extended to whole characters, and reports whether that changed a
// mark.
func (m *mask) mark(from, to int, label byte) bool {
	for from > 0 && from < len(m.folded) && m.starts[from] == m.starts[from-1] {
		from--
	}
	for to > 0 && to < len(m.folded) && m.starts[to] == m.starts[to-1] {
		to++
	}
	changed := false
	for i := from; i < to; i++ {
		if first := minLabel(m.labels[i], label); first != m.labels[i] {
			m.labels[i], changed = first, true
		}
	}
	return changed
}

// masked reports whether anything is marked.
func (m *mask) masked() bool {
	return slices.ContainsFunc(m.labels, func(l byte) bool { return l != 0 })
}

// isWord reports whether folded[from:to] is not part of a longer word.
func (m *mask) isWord(from, to int) bool {
	first, _ := utf8.DecodeRuneInString(m.folded[from:])
	last, _ := utf8.DecodeLastRuneInString(m.folded[:to])
	before, _ := utf8.DecodeLastRuneInString(m.folded[:from])
	after, _ := utf8.DecodeRuneInString(m.folded[to:])
	return !(from > 0 && inWord(first) && inWord(before)) && !(to < len(m.folded) && inWord(last) && inWord(after))
}

func inWord(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r) }

// continues reports whether the same replacement covers the bytes before and at a position of
// folded.
func (m *mask) continues(at int) bool {
	return at > 0 && at < len(m.labels) && m.labels[at] != 0 && m.labels[at] == m.labels[at-1] && !m.cuts[at]
}

// render returns folded[from:to] after redaction; placeholder returns what stands for a removed text.
func (m *mask) render(placeholder func(label byte, folded string) string, from, to int) string {
	var b strings.Builder
	for i := from; i < to; {
		end, label := i+1, m.labels[i]
		for end < to && (m.continues(end) || label == 0 && m.labels[end] == 0) {
			end++
		}
		if label == 0 {
			b.WriteString(m.text[m.starts[i]:m.starts[end]])
		} else {
			b.WriteString(placeholder(label, m.folded[i:end]))
		}
		i = end
	}
	return b.String()
}

// renderAll returns the whole redacted text, with the white space at its ends.
func (m *mask) renderAll(placeholder func(label byte, folded string) string) string {
	return m.text[:m.starts[0]] + m.render(placeholder, 0, len(m.folded)) + m.text[m.starts[len(m.folded)]:]
}
