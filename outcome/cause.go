package outcome

import (
	"cmp"
	"slices"

	"extraction-experiment/internal/shortlist"
)

// Cause counts one kind of fault of one item, in the words of the harness:
// three entities missed.
type Cause struct {
	What  string `json:"what"` // "entity", "relationship"
	Name  string `json:"name"` // "missed", "boundary", …
	Count int64  `json:"count"`
}

// CauseCount is one kind of fault over the scored items of a run.
type CauseCount struct {
	What  string `json:"what"`
	Name  string `json:"name"`
	Count int64  `json:"count"`
	Items int    `json:"items"` // how many have it
	// Worst are the items that have it most often.
	Worst []CauseItem `json:"worst"`
}

// CauseItem is an item with the number of its faults of one kind.
type CauseItem struct {
	ID    string `json:"id"`
	Trial int    `json:"trial,omitempty"`
	Count int64  `json:"count"`
}

type causeTally struct {
	count int64
	items int
	worst *shortlist.List[CauseItem]
}

func (s *Summariser) addCauses(o Outcome) {
	for _, c := range o.Causes {
		if c.Count == 0 || !countable(c.Count) {
			continue
		}
		key := groupKey{c.What, c.Name}
		t := s.causes[key]
		if t == nil {
			t = &causeTally{worst: shortlist.New(s.config.Worst, compareCauseItems)}
			s.causes[key] = t
		}
		t.count += c.Count
		t.items++
		item := CauseItem{ID: o.Item, Count: c.Count}
		if s.header.Trials > 1 {
			item.Trial = o.Trial
		}
		t.worst.Offer(item)
	}
}

// causeCounts puts the most frequent first.
func (s *Summariser) causeCounts() []CauseCount {
	list := make([]CauseCount, 0, len(s.causes))
	for key, t := range s.causes {
		list = append(list, CauseCount{What: key.kind, Name: key.name, Count: t.count, Items: t.items, Worst: t.worst.Values()})
	}
	slices.SortFunc(list, func(a, b CauseCount) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.What, b.What), cmp.Compare(a.Name, b.Name))
	})
	return list
}

func compareCauseItems(a, b CauseItem) int {
	return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.ID, b.ID), cmp.Compare(a.Trial, b.Trial))
}
