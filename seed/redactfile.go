package seed

import (
	"errors"
	"fmt"
	"iter"

	"extraction-experiment/dataset"
)

// Counts returns how often each pattern and field took something out, so far
// never: what stays at 0 is perhaps written wrong.
func (r *Redaction) Counts() map[string]int {
	counts := map[string]int{}
	for _, name := range r.labels[1:] {
		counts[name] = 0
	}
	return counts
}

// Items returns the items of a file as Item makes them, for Check and File. One
// that cannot be redacted becomes a *dataset.SyntaxError of its line, without
// what was to be taken out; so does one whose own id holds some of it, and one
// that is the same as another once both are redacted and has no id. An id that
// was derived is derived again.
//
// The sequence can be read as often as that of the items. replaced, if not nil,
// holds the replacements by name of the last time it was read.
func (r *Redaction) Items(items iter.Seq2[dataset.Located, error], replaced map[string]int) iter.Seq2[dataset.Located, error] {
	return func(yield func(dataset.Located, error) bool) {
		clear(replaced)
		for name := range r.Counts() {
			if replaced != nil {
				replaced[name] = 0
			}
		}
		derived := map[string]int{} // line by id
		for located, err := range items {
			var syntax *dataset.SyntaxError
			if errors.As(err, &syntax) {
				told := *syntax
				told.Path, told.Msg = shownPath(told.Path), r.Text(told.Msg)
				err = &told
			}
			if err == nil {
				located, err = r.located(located, derived, replaced)
			}
			if !yield(located, err) {
				return
			}
		}
	}
}

// located redacts one item of a file.
func (r *Redaction) located(located dataset.Located, derived, replaced map[string]int) (dataset.Located, error) {
	wrong := func(format string, args ...any) (dataset.Located, error) {
		return dataset.Located{}, &dataset.SyntaxError{File: located.File, Line: located.Line, Msg: fmt.Sprintf(format, args...)}
	}
	item, w, err := r.item(located.Item)
	if err != nil {
		return wrong("%v", err)
	}
	if located.DerivedID {
		if item.ID, err = dataset.DeriveID(item); err != nil {
			return wrong("redacting: %v", err)
		}
		if first, taken := derived[item.ID]; taken {
			return wrong("redacting: has the same input as line %d once both are redacted, and no id: give both an id", first)
		}
		derived[item.ID] = located.Line
	} else if name := w.heldBy(item.ID); name != "" {
		return wrong("redacting: its id holds what %s takes out: give it another", name)
	}
	for i, warning := range located.Warnings {
		located.Warnings[i] = r.Text(warning)
	}
	for name, n := range w.tokens.count {
		if replaced != nil {
			replaced[name] += n
		}
	}
	located.Item = item
	return located, nil
}

// heldBy names what takes something out of a text that cannot be changed, or
// nothing.
func (w *redacting) heldBy(text string) string {
	found := ""
	w.r.matches(text, func(_, _ int, label byte) { found = w.r.labels[label] })
	folded := newFoldedText(text)
	all := newConcordance([]*cover{newCover(text)})
	for _, s := range w.secrets {
		err := all.find(s.text, func(_ *cover, at int) {
			if folded.isWord(at, at+len(s.text)) {
				found = w.r.labels[s.label]
			}
		})
		if err != nil { // it stands in more places than an id has
			return w.r.labels[s.label]
		}
	}
	return found
}

// Text replaces what the patterns match in a text that is no part of an item, a
// message to a person. Replacements have no number.
func (r *Redaction) Text(text string) string {
	c := newCover(text)
	r.matches(text, func(from, to int, label byte) {
		first, last := c.within(from, to)
		c.mark(first, last, label)
	})
	if !c.covered() {
		return text
	}
	written, _ := c.whole(&tokens{labels: r.labels, unnumbered: true})
	return written
}
