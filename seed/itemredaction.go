package seed

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// secret is a text that must not stand anywhere in the item.
type secret struct {
	text  string
	label byte
}

// itemRedaction is the redaction of one item.
type itemRedaction struct {
	r            *Redaction
	masks        map[string]*mask // by text
	secrets      []secret
	keys         map[string]bool // of all objects
	gold         []string        // texts of the expected output
	document     *mask           // nil where the input has no text
	aligned      map[string][]int
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
		w.collectInside(path, text, w.mask(text))
		if _, isText := value.(string); isText && path[0] == "expectedoutput" {
			w.gold = append(w.gold, text)
		}
		if label := w.r.fieldAround(path); label != 0 {
			w.secrets = append(w.secrets, secret{text, label})
		}
		return value
	})
}

func (w *itemRedaction) mask(text string) *mask {
	m := w.masks[text]
	if m == nil {
		m = newMask(text)
		w.masks[text] = m
		w.placeholders.reserve(text)
		w.r.matches(text, func(from, to int, label byte) {
			m.take(from, to, label)
			w.secrets = append(w.secrets, secret{text[from:to], label})
		})
	}
	return m
}

// collectInside looks for fields inside a text that holds JSON, as metadata
// does on some servers, and for what the patterns match once its escapes are
// read. What it finds is marked in place and becomes a secret. It returns the
// label of one of them, or 0.
func (w *itemRedaction) collectInside(path []string, text string, m *mask) (any byte) {
	for _, one := range scanJSON(text) {
		full := slices.Concat(path, one.path)
		raw := text[one.from:one.to]
		label := w.r.fieldAround(full)
		if label != 0 {
			w.secrets = append(w.secrets, secret{one.text, label}, secret{raw, label})
		}
		if one.text != raw { // it has escapes
			w.r.matches(one.text, func(from, to int, matched byte) {
				w.secrets = append(w.secrets, secret{one.text[from:to], matched})
				label = firstOf(label, matched)
			})
		}
		if label = firstOf(label, w.collectInside(full, one.text, newMask(one.text))); label != 0 {
			m.take(one.from, one.to, label)
			any = firstOf(any, label)
		}
	}
	return any
}

// literal is a text or number inside a text that holds JSON.
type literal struct {
	path     []string // of lower-case keys, below that of the text
	text     string   // what it says
	from, to int      // where it stands, without the quotes of a text
}

// scanJSON finds the texts and numbers of a text that holds a JSON object or
// list; in any other text there is nothing. Time is linear in the text.
func scanJSON(text string) (list []literal) {
	if _, isText := opened(text).(string); isText {
		return nil
	}
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	var read func(path []string)
	read = func(path []string) {
		from := int(decoder.InputOffset())
		token, _ := decoder.Token() // it is valid
		to := int(decoder.InputOffset())
		switch v := token.(type) {
		case json.Delim:
			for decoder.More() {
				inner := path
				if v == '{' {
					token, _ := decoder.Token()
					inner = slices.Concat(path, keyPath(token.(string)))
				}
				read(inner)
			}
			_, _ = decoder.Token() // its end
		case string, json.Number:
			from += len(text[from:to]) - len(strings.TrimLeft(text[from:to], " \t\r\n,:"))
			if text[from] == '"' {
				from, to = from+1, to-1
			}
			list = append(list, literal{path, spelled(v), from, to})
		}
	}
	read(nil)
	return list
}

// spread marks every secret wherever it stands.
func (w *itemRedaction) spread() error {
	distinct := map[string]byte{}
	for _, s := range w.secrets {
		folded := newMask(s.text).folded
		distinct[folded] = firstOf(distinct[folded], s.label)
	}
	w.secrets = w.secrets[:0]
	for _, folded := range slices.Sorted(maps.Keys(distinct)) {
		w.secrets = append(w.secrets, secret{folded, distinct[folded]})
	}
	for _, s := range w.secrets {
		for _, in := range w.masks {
			end := 0 // of what is marked
			err := w.search(in, s.text, func(at int) {
				in.mark(max(at, end), at+len(s.text), s.label)
				end = at + len(s.text)
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// maxWork bounds the work on one item, in bytes that are looked at: beyond it a
// document and patterns are such that everything is found everywhere.
const maxWork = 20_000_000_000

var errTooMuch = errors.New("the patterns take out so much of it that it cannot be done in reasonable time: narrow them, or leave the trace out")

// search gives every place where a folded text stands, in order; a short one must
// be a word of its own. The error says that there are too many.
func (w *itemRedaction) search(in *mask, text string, give func(at int)) error {
	const place = 1000 // what one costs
	w.work += 100 + len(in.folded)
	for at := 0; text != "" && w.work < maxWork; at++ {
		next := strings.Index(in.folded[at:], text)
		if next < 0 {
			return nil
		}
		w.work += place
		if at += next; utf8.RuneCountInString(text) > 2 || in.isWord(at, at+len(text)) {
			give(at)
		}
	}
	if w.work >= maxWork {
		return errTooMuch
	}
	return nil
}

// checkKeys refuses an item whose keys hold a secret.
func (w *itemRedaction) checkKeys() error {
	for _, key := range wireKeys {
		delete(w.keys, key)
	}
	name, err := w.holds(slices.Collect(maps.Keys(w.keys)))
	if err == nil && name != "" {
		err = fmt.Errorf("a key of an object holds what %s takes out, and keys are not changed: leave that object out of the mapping", name)
	}
	return err
}

// holds names what takes something out of texts that cannot be changed, or
// nothing.
func (w *itemRedaction) holds(texts []string) (name string, err error) {
	for _, text := range texts {
		in := newMask(text)
		w.r.matches(text, func(_, _ int, label byte) { name = w.r.labels[label] })
		for _, s := range w.secrets {
			err = errors.Join(err, w.search(in, s.text, func(at int) {
				if in.isWord(at, at+len(s.text)) {
					name = w.r.labels[s.label]
				}
			}))
		}
	}
	return name, err
}

// maxAligned bounds the gold texts that are looked for in the document, in
// bytes: names and quotes, not pages.
const maxAligned = 2000

// align marks gold texts and their places in the document alike, until nothing
// changes: a name that is taken out in one place for what stands beside it is then
// taken out in every place. The error says that it would take too long.
func (w *itemRedaction) align() error {
	if w.document == nil {
		return nil
	}
	for _, text := range w.gold {
		gold := w.masks[text]
		if w.aligned[text] != nil || gold == w.document || len(gold.folded) > maxAligned {
			continue
		}
		var places []int
		if err := w.search(w.document, gold.folded, func(at int) { places = append(places, at) }); err != nil {
			return err
		}
		if len(places) > 0 {
			w.aligned[text] = places
		}
	}
	for changed := true; changed; {
		changed = false
		for _, text := range slices.Sorted(maps.Keys(w.aligned)) {
			gold := w.masks[text]
			if w.work += 100 * len(w.aligned[text]) * len(gold.label); w.work > maxWork {
				return errTooMuch
			}
			for _, at := range w.aligned[text] {
				changed = alignAt(gold, w.document, at) || changed
			}
		}
	}
	for text, places := range w.aligned {
		for _, at := range places {
			if gold := w.masks[text]; gold.masked() {
				w.document.cuts[at], w.document.cuts[at+len(gold.label)] = true, true
			}
		}
	}
	w.document.whole(&w.placeholders) // the document has the first numbers
	clear(w.placeholders.count)       // it is written again, and counted then
	return nil
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
	mentions := w.moveMentions(item)
	w.walk(nil, item, func(_ []string, value any) any {
		text := spelled(value)
		m, places := w.masks[text], w.aligned[text]
		switch {
		case !m.masked():
			return value
		case places != nil: // written as its first place in the document
			return w.document.render(&w.placeholders, places[0], places[0]+len(m.folded))
		}
		return m.whole(&w.placeholders)
	})
	for _, m := range mentions {
		maps.Copy(m.mention, m.now)
	}
}

// movedMention is a mention and what it is in the new document.
type movedMention struct{ mention, now map[string]any }

// moveMentions finds where the quotes of mentions are in the new document: behind
// what the text before them becomes.
func (w *itemRedaction) moveMentions(item map[string]any) (moved []movedMention) {
	found, _ := Path{steps: []step{{key: "expectedoutput"}, {key: "entities"}, {kind: stepAll}, {key: "mentions"}}}.Find(item)
	mentions, _ := found.([]any)
	if len(mentions) == 0 || w.document == nil {
		return nil
	}
	m, uncounted := w.document, w.placeholders
	uncounted.count = map[string]int{}
	var starts []int // of the characters
	for at := range m.text + "." {
		starts = append(starts, at)
	}
	place := func(characters any) int {
		n, err := strconv.Atoi(spelled(characters))
		if err != nil || n < 0 || n >= len(starts) {
			return -1
		}
		return starts[n]
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
		moved = append(moved, movedMention{mention, map[string]any{
			"quote": quote, "start": number(before), "end": number(before + utf8.RuneCountInString(quote))}})
	}
	return moved
}
