package outcome

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
)

// Bounds of the warnings of items: how many different texts are told apart, and
// how many are shown.
const (
	maxWarningTexts = 1000
	shownWarnings   = 3
)

// itemWarnings counts what outcomes warn of, by text.
type itemWarnings struct {
	texts map[string]int
	other int // of texts beyond the bound
}

func (w *itemWarnings) add(warnings []string) {
	for _, text := range warnings {
		if _, known := w.texts[text]; !known && len(w.texts) == maxWarningTexts {
			w.other++
			continue
		}
		if w.texts == nil {
			w.texts = map[string]int{}
		}
		w.texts[text]++
	}
}

// list returns the most frequent warnings, each with how often it was given.
func (w *itemWarnings) list() []string {
	texts := slices.SortedFunc(maps.Keys(w.texts), func(a, b string) int {
		return cmp.Or(cmp.Compare(w.texts[b], w.texts[a]), cmp.Compare(a, b))
	})
	var list []string
	hidden := w.other
	for i, text := range texts {
		if i < shownWarnings {
			list = append(list, fmt.Sprintf("%s (%s)", text, counted(w.texts[text], "item")))
		} else {
			hidden += w.texts[text]
		}
	}
	if hidden > 0 {
		list = append(list, "and "+counted(hidden, "other warning")+" of items")
	}
	return list
}

// counted is a number with its noun.
func counted(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
