package seed

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"extraction-experiment/dataset"
)

// Item returns the item without what the redaction takes out, and how many
// replacements there were by name. A text that a pattern matched anywhere in the
// item, or that a field held, is taken out wherever it stands in the item, case
// and white space aside (one of under three characters only where it is a word
// of its own). Where a gold text stands in the document, both are covered alike,
// and mentions move with the text. Ids that link to Langfuse stay as they are.
//
// The error names a key of an object that would have to be taken out: keys are
// never changed; it also says where the patterns take out more than can be done
// in a few seconds. Time is linear in the item and in the places of what is
// taken out and of the gold texts.
func (r *Redaction) Item(item dataset.Item) (dataset.Item, map[string]int, error) {
	item, w, err := r.item(item)
	return item, w.tokens.count, err
}

// item redacts one item, and says what it knows of it then.
func (r *Redaction) item(item dataset.Item) (dataset.Item, *redacting, error) {
	w := &redacting{r: r, covers: map[string]*cover{}, tokens: tokens{
		labels: r.labels, number: map[string]int{}, next: map[byte]int{}, count: map[string]int{}, taken: map[string]bool{}}}
	fields := []struct {
		name string
		raw  *json.RawMessage
	}{{"input", &item.Input}, {"expectedOutput", &item.Expected}, {"metadata", &item.Metadata}}
	values := make([]any, len(fields))
	for i, f := range fields {
		if *f.raw == nil {
			continue
		}
		var err error
		if values[i], err = dataset.Decode(*f.raw); err != nil {
			return item, w, fmt.Errorf("redacting: %s %w", f.name, err)
		}
		w.aligning = f.name == "expectedOutput"
		w.collect([]string{strings.ToLower(f.name)}, values[i])
	}
	w.findDocument(values[0])
	for _, step := range []func() error{w.spread, w.checkKeys, w.align} {
		if err := step(); err != nil {
			return item, w, fmt.Errorf("redacting: %w", err)
		}
	}
	for i, f := range fields {
		if *f.raw != nil {
			*f.raw = dataset.CanonicalValue(w.replace([]string{strings.ToLower(f.name)}, values[i]))
		}
	}
	return item, w, nil
}

// redacting is the redaction of one item.
type redacting struct {
	r        *Redaction
	covers   map[string]*cover // by text
	secrets  []secret
	keys     []string // of all objects
	gold     []string // texts of the expected output
	aligning bool

	document *cover // nil where the input has no text
	aligned  map[string]agreement
	tokens   tokens
}

// collect takes in all texts, covers what is to be taken out of them, and
// remembers it as a secret.
func (w *redacting) collect(path []string, value any) {
	w.collectKeys(value)
	walk(path, value, func(path []string, value any) any {
		text := spelled(value)
		c := w.cover(text)
		w.collectInside(path, text, c)
		if _, isText := value.(string); isText && w.aligning {
			w.gold = append(w.gold, text)
		}
		if label := w.r.fieldAround(path); label != 0 {
			w.secrets = append(w.secrets, secret{text, label})
		}
		return value
	})
}

func (w *redacting) cover(text string) *cover {
	c := w.covers[text]
	if c == nil {
		c = newCover(text)
		w.covers[text] = c
		w.tokens.take(text)
		w.r.matches(text, func(from, to int, label byte) {
			first, last := c.within(from, to)
			c.mark(first, last, label)
			w.secrets = append(w.secrets, secret{text[from:to], label})
		})
	}
	return c
}

// spread covers every secret wherever it stands.
func (w *redacting) spread() error {
	distinct := map[string]byte{}
	for _, s := range w.secrets {
		folded := newFoldedText(s.text).folded
		distinct[folded] = meet(distinct[folded], s.label)
	}
	w.secrets = w.secrets[:0]
	for _, folded := range slices.Sorted(maps.Keys(distinct)) {
		w.secrets = append(w.secrets, secret{folded, distinct[folded]})
	}
	all := newConcordance(slices.SortedFunc(maps.Values(w.covers), func(a, b *cover) int { return strings.Compare(a.text, b.text) }))
	for _, s := range w.secrets {
		var last *cover
		end := 0 // of what is marked in last
		err := all.find(s.text, func(in *cover, at int) {
			if in != last {
				last, end = in, 0
			}
			in.mark(max(at, end), at+len(s.text), s.label)
			end = at + len(s.text)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// replace writes the value with everything taken out.
func (w *redacting) replace(path []string, value any) any {
	moved := w.moveMentions(path, value)
	value = walk(path, value, func(path []string, value any) any {
		if _, isText := value.(string); isText || w.covers[spelled(value)].covered() {
			return w.text(spelled(value))
		}
		return value
	})
	for _, m := range moved {
		maps.Copy(m.mention, m.now)
	}
	return value
}

// text writes one text. A gold text that stands in the document is written as
// its first place there.
func (w *redacting) text(text string) string {
	c := w.covers[text]
	if c == nil || !c.covered() {
		return text
	}
	if a, ok := w.aligned[text]; ok {
		written, _ := w.document.render(&w.tokens, a.at[0], a.at[0]+len(c.folded))
		return written
	}
	written, _ := c.whole(&w.tokens)
	return written
}
