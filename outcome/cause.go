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
	// trials has the items of a run of several trials, whose faults are summed before sorting;
	// nil for other runs.
	trials map[string]*causeTrials
}

// causeTrials is an item of several trials. most is the count of the trial with most faults.
type causeTrials struct {
	CauseItem
	most int64
}

func (s *Summariser) addCauses(o Outcome) {
	for _, c := range o.Causes {
		if c.Count == 0 || !countable(c.Count) {
			continue
		}
		getOrCreate(s.causes, groupKey{c.What, c.Name}, s.newCauseTally).add(o, c.Count)
	}
}

func (s *Summariser) newCauseTally() *causeTally {
	t := &causeTally{worst: stats.NewShortlist(s.config.Worst, compareCauseItems)}
	if s.header.Trials > 1 {
		t.trials = map[string]*causeTrials{}
	}
	return t
}

func (t *causeTally) add(o Outcome, count int64) {
	t.count += count
	item := CauseItem{ID: o.Item, Count: count}
	if t.trials == nil {
		t.items++
	} else {
		sum := getOrCreate(t.trials, o.Item, func() *causeTrials { return &causeTrials{CauseItem: CauseItem{ID: o.Item}} })
		sum.Count += count
		if count > sum.most || count == sum.most && o.Trial < sum.Trial {
			sum.most, sum.Trial = count, o.Trial
		}
		item, t.items = sum.CauseItem, len(t.trials)
	}
	t.worst.Replace(item, func(other CauseItem) bool { return other.ID == item.ID })
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
