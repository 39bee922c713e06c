package outcome

import (
	"cmp"
	"slices"

	"extraction-experiment/internal/stats"
)

// Cause counts one kind of fault of one item, in terms of the harness, for example three
// entities missed.
type Cause struct {
	What  string `json:"what"` // "entity", "relationship"
	Name  string `json:"name"` // "missed", "boundary", …
	Count int64  `json:"count"`
}

// CauseCount counts one kind of fault over the scored items of a run.
type CauseCount struct {
	Cause
	Items int `json:"items"` // number of items with the fault
	// Worst are the items with the highest counts.
	Worst []CauseItem `json:"worst"`
}

// CauseItem is an item with the number of its faults of one kind, summed over all trials. Trial
// is the trial with most of them, or 0 in a run of one trial.
type CauseItem struct {
	ID    string `json:"id"`
	Trial int    `json:"-"` // Count is not that of this trial
	Count int64  `json:"count"`
}

type causeTally struct {
	count int64
	items int
	worst *stats.Shortlist[CauseItem]
}

// causeTrials is an item of several trials, whose faults are summed before sorting. most is the
// count of the trial with most faults.
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
		t := getOrCreate(s.causes, key, func() *causeTally {
			return &causeTally{worst: stats.NewShortlist(s.config.Worst, compareCauseItems)}
		})
		t.count += c.Count
		item := CauseItem{ID: o.Item, Count: c.Count}
		if s.trials == nil {
			t.items++
		} else {
			sum := getOrCreate(s.trials.items[o.Item].causes, key, func() *causeTrials {
				t.items++
				return &causeTrials{CauseItem: CauseItem{ID: o.Item}}
			})
			sum.Count += c.Count
			if c.Count > sum.most || c.Count == sum.most && o.Trial < sum.Trial {
				sum.most, sum.Trial = c.Count, o.Trial
			}
			item = sum.CauseItem
		}
		t.worst.Replace(item, func(other CauseItem) bool { return other.ID == item.ID })
	}
}

// causeCounts returns the causes, the most frequent first.
func (s *Summariser) causeCounts() []CauseCount {
	list := make([]CauseCount, 0, len(s.causes))
	for key, t := range s.causes {
		list = append(list, CauseCount{Cause{key.kind, key.name, t.count}, t.items, t.worst.Values()})
	}
	slices.SortFunc(list, func(a, b CauseCount) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.What, b.What), cmp.Compare(a.Name, b.Name))
	})
	return list
}

func compareCauseItems(a, b CauseItem) int {
	return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.ID, b.ID), cmp.Compare(a.Trial, b.Trial))
}
