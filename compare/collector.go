package compare

import (
	"cmp"
	"context"

	"extraction-experiment/internal/printable"
	"extraction-experiment/internal/shortlist"
	"extraction-experiment/outcome"
)

// collector keeps what a comparison needs of the items of two runs.
type collector struct {
	config *Comparer
	known  known

	base, cand   *outcome.Summariser
	items        int
	scored       int  // items that failed in neither run
	differs      bool // the results of an item do, or are not known
	columns      map[string]*column
	seenClusters map[int]bool
	cost         amounts
	latency      amounts
	groups       map[groupKey]*bothGroups
	grouped      [2]bool // base, candidate: there are counts by type
	changed      *shortlist.List[changed]
	regressed    *shortlist.List[ItemChange]

	onlyBase, onlyCand []string // ids without an outcome in the other run
	without            []string // ids without an outcome in either
	trials             [2]int   // most trials of an item
	uneven             [2]int   // items with fewer trials than the header says
	planned            [2]int   // trials by the headers
}

func newCollector(c *Comparer, base known, cand outcome.Header) *collector {
	summary := outcome.SummaryConfig{Order: c.config.Order, Worst: -1}
	return &collector{
		config: c, known: base,
		base: outcome.NewSummariser(base.header, summary), cand: outcome.NewSummariser(cand, summary),
		columns: map[string]*column{}, seenClusters: map[int]bool{}, groups: map[groupKey]*bothGroups{},
		changed:   shortlist.New(c.config.Changed, compareChanged),
		regressed: shortlist.New(MaxRegressed, compareRegressed),
		planned:   [2]int{max(1, base.header.Trials), max(1, cand.Trials)},
	}
}

// collect streams both runs.
func (r *collector) collect(ctx context.Context, base, cand Source) error {
	met := 0
	err := pairs(units(ctx, base, r.base.Add), units(ctx, cand, r.cand.Add), func(b, c *unit) {
		switch {
		case b == nil:
			r.onlyCand = append(r.onlyCand, c.id)
		case c == nil:
			r.onlyBase = append(r.onlyBase, b.id)
		default:
			r.pair(b, c)
		}
		met++
	})
	if err != nil || met >= len(r.known.items) {
		return err
	}
	return r.findWithout(ctx, base, cand)
}

// findWithout lists the items that were run in neither.
func (r *collector) findWithout(ctx context.Context, sources ...Source) error {
	run := map[string]bool{}
	for _, s := range sources {
		for o, err := range s.Outcomes(ctx) {
			if err != nil {
				return err
			}
			run[o.Item] = true
		}
	}
	for id := range r.known.items {
		if !run[id] {
			r.without = append(r.without, id)
		}
	}
	return nil
}

// pair takes one item into account.
func (r *collector) pair(base, cand *unit) {
	r.items++
	for i, u := range []*unit{base, cand} {
		r.trials[i] = max(r.trials[i], u.trials)
		if u.trials < r.planned[i] {
			r.uneven[i]++
		}
	}
	r.differs = r.differs || !base.sameResults(cand)
	cluster := r.known.clusters.of[base.id]
	r.seenClusters[cluster] = true
	scored := base.failed+cand.failed == 0
	for _, name := range names(base, cand) {
		col := r.columns[name]
		if col == nil {
			col = &column{}
			r.columns[name] = col
		}
		col.add(base.find(name), cand.find(name), r.items, cluster, scored)
	}
	if scored {
		r.scored++
		r.addGroups(base.groups, cand.groups)
	}
	r.cost.add(base.cost, cand.cost, base.trials, cand.trials)
	r.latency.add(base.latency, cand.latency, base.latency.n, cand.latency.n)
	r.change(base, cand)
}

func names(base, cand *unit) []string {
	list := make([]string, 0, len(base.values))
	for _, v := range base.values {
		list = append(list, v.name)
	}
	for _, v := range cand.values {
		if base.find(v.name) == nil {
			list = append(list, v.name)
		}
	}
	return list
}

func (u *unit) find(name string) *value {
	for i := range u.values {
		if u.values[i].name == name {
			return &u.values[i]
		}
	}
	return nil
}

// missing lists items that were not run, or not in every trial.
func (r *collector) missing() []Mismatch {
	var found []Mismatch
	for _, m := range []struct {
		ids  []string
		what string
	}{{r.onlyBase, "without an outcome in the candidate"}, {r.onlyCand, "without an outcome in the base"}, {r.without, "without an outcome in either run"}} {
		if len(m.ids) > 0 {
			found = append(found, affected(m.ids, m.what))
		}
	}
	for i, which := range []string{"base", "candidate"} {
		if n := r.uneven[i]; n > 0 {
			found = append(found, Mismatch{What: printable.Counted(n, "item") + " not run in every trial of the " + which})
		}
	}
	return found
}

func compareRegressed(a, b ItemChange) int {
	return cmp.Or(cmp.Compare(a.Delta, b.Delta), cmp.Compare(a.Item, b.Item))
}
