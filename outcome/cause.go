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

// CauseItem is an item with the number of its faults of one kind, in all of its
// trials together; Trial is the one with most of them, 0 in a run of one trial.
type CauseItem struct {
	ID    string `json:"id"`
	Trial int    `json:"trial,omitempty"`
	Count int64  `json:"count"`
}

type causeTally struct {
	count int64
	items int
	worst *shortlist.List[CauseItem]
	// trials has the items of a run of several trials, nil for others: their
	// faults are added up before they are put in order.
	trials map[string]*causeTrials
}

// causeTrials is an item of several trials; most is how often the fault is in the
// one that has most of it.
type causeTrials struct {
	CauseItem
	most int64
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
			if s.header.Trials > 1 {
				t.trials = map[string]*causeTrials{}
			}
			s.causes[key] = t
		}
		t.add(o, c.Count)
	}
}

func (t *causeTally) add(o Outcome, count int64) {
	t.count += count
	if t.trials == nil {
		t.items++
		t.worst.Offer(CauseItem{ID: o.Item, Count: count})
		return
	}
	item := t.trials[o.Item]
	if item == nil {
		item = &causeTrials{CauseItem: CauseItem{ID: o.Item}}
		t.trials[o.Item] = item
	}
	item.Count += count
	if count > item.most || count == item.most && o.Trial < item.Trial {
		item.most, item.Trial = count, o.Trial
	}
}

// list counts the items that have the fault, and lists those that have it most
// often.
func (t *causeTally) list(most int) (items int, worst []CauseItem) {
	if t.trials == nil {
		return t.items, t.worst.Values()
	}
	list := shortlist.New(most, compareCauseItems)
	for _, item := range t.trials {
		list.Offer(item.CauseItem)
	}
	return len(t.trials), list.Values()
}

// causeCounts puts the most frequent first.
func (s *Summariser) causeCounts() []CauseCount {
	list := make([]CauseCount, 0, len(s.causes))
	for key, t := range s.causes {
		items, worst := t.list(s.config.Worst)
		list = append(list, CauseCount{What: key.kind, Name: key.name, Count: t.count, Items: items, Worst: worst})
	}
	slices.SortFunc(list, func(a, b CauseCount) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.What, b.What), cmp.Compare(a.Name, b.Name))
	})
	return list
}

func compareCauseItems(a, b CauseItem) int {
	return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.ID, b.ID), cmp.Compare(a.Trial, b.Trial))
}
