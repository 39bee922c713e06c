package outcome

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"extraction-experiment/internal/printable"
)

// Bounds of the warnings of items: how many different texts are told apart, and
// how many are shown.
const (
	maxWarningTexts = 1000
	shownWarnings   = 3
)

// itemWarnings counts the items that are warned of, by text: an item counts once,
// whatever the number of its trials.
type itemWarnings struct {
	texts map[string]*warnedItems
	other int // warnings of texts beyond the bound
}

type warnedItems struct {
	count int
	last  string // the item that was warned of last
	// items are those of a run of several trials, nil for others, where no item
	// comes back.
	items map[string]bool
}

// add takes the warnings of one outcome of a run of so many trials.
func (w *itemWarnings) add(o Outcome, trials int) {
	for _, text := range o.Warnings {
		warned := w.texts[text]
		if warned == nil && len(w.texts) == maxWarningTexts {
			w.other++
			continue
		}
		if warned == nil {
			warned = &warnedItems{}
			if trials > 1 {
				warned.items = map[string]bool{}
			}
			if w.texts == nil {
				w.texts = map[string]*warnedItems{}
			}
			w.texts[text] = warned
		}
		warned.add(o.Item)
	}
}

func (w *warnedItems) add(item string) {
	if w.count > 0 && w.last == item || w.items[item] {
		return
	}
	w.count, w.last = w.count+1, item
	if w.items != nil {
		w.items[item] = true
	}
}

// list returns the warnings of most items, each with how many they are.
func (w *itemWarnings) list() []string {
	texts := slices.SortedFunc(maps.Keys(w.texts), func(a, b string) int {
		return cmp.Or(cmp.Compare(w.texts[b].count, w.texts[a].count), cmp.Compare(a, b))
	})
	var list []string
	hidden := w.other
	for i, text := range texts {
		if i < shownWarnings {
			list = append(list, fmt.Sprintf("%s (%s)", text, printable.Counted(w.texts[text].count, "item")))
		} else {
			hidden += w.texts[text].count
		}
	}
	if hidden > 0 {
		list = append(list, "and "+printable.Counted(hidden, "other warning")+" of items")
	}
	return list
}
