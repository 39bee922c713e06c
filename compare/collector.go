package compare

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"math"
	"slices"

	"extraction-experiment/dataset"
	"extraction-experiment/internal/stats"
	"extraction-experiment/internal/textutil"
	"extraction-experiment/outcome"
)

// clusters numbers the clusters of items. The zero value knows no clusters.
type clusters struct {
	key     string // "" takes every item for itself
	of      map[string]int
	numbers map[string]int
	keys    map[string]bool // of items that have no value
	without int             // items that have no value
	next    int
}

func newClusters(key string) *clusters {
	return &clusters{key: key, of: map[string]int{}, numbers: map[string]int{}, keys: map[string]bool{}}
}

// add takes an item into account. One without a value is a cluster of its own.
func (c *clusters) add(item Item) {
	if c.key == "" {
		return
	}
	value, ok := lookup(item.Metadata, c.key)
	number, known := c.numbers[value]
	if !ok || !known {
		number = c.next
		c.next++
	}
	if ok {
		c.numbers[value] = number
	} else {
		c.without++
		c.note(item.Metadata, "")
	}
	c.of[item.ID] = number
}

// check is a *KeyError where no item has the key: each would silently stand for
// itself.
func (c *clusters) check() error {
	if c.key == "" || len(c.of) == 0 || c.without < len(c.of) {
		return nil
	}
	return &KeyError{Key: c.key, Known: slices.Sorted(maps.Keys(c.keys))}
}

// mostKeys bounds the keys that are listed for a person.
const mostKeys = 50

// note lists the keys of an item, those of nested objects with dots.
func (c *clusters) note(raw json.RawMessage, prefix string) {
	var object map[string]json.RawMessage
	if len(prefix) > maxRule || json.Unmarshal(raw, &object) != nil {
		return
	}
	for _, key := range slices.Sorted(maps.Keys(object)) {
		value := object[key]
		if len(value) > 0 && value[0] == '{' {
			c.note(value, prefix+key+".")
			continue
		}
		if len(c.keys) < mostKeys {
			c.keys[prefix+key] = true
		}
	}
}

// lookup returns the value at a path below a JSON object as text: a string as
// it is, anything else in canonical form. Null is no value.
func lookup(raw json.RawMessage, path string) (string, bool) {
	for value := range dataset.ValuesAt(raw, path) {
		if text, ok := scalar(value); ok {
			return text, true
		}
	}
	return "", false
}

func scalar(raw json.RawMessage) (string, bool) {
	var text *string
	if json.Unmarshal(raw, &text) == nil {
		if text == nil {
			return "", false
		}
		return *text, true
	}
	canonical, err := dataset.Canonical(raw)
	return string(canonical), err == nil
}

type groupKey struct{ kind, name string }

// bothGroups are the counts of one class in both runs.
type bothGroups struct{ base, cand outcome.Group }

// addGroups adds what one item counts for each type, in both runs.
func (r *collector) addGroups(base, cand []outcome.Group) {
	r.grouped[0], r.grouped[1] = r.grouped[0] || len(base) > 0, r.grouped[1] || len(cand) > 0
	for _, g := range base {
		r.group(g).base.Add(g) // absurd counts are left out, and the run's summary says so
	}
	for _, g := range cand {
		r.group(g).cand.Add(g)
	}
}

func (r *collector) group(g outcome.Group) *bothGroups {
	key := groupKey{g.Kind, g.Name}
	if r.groups[key] == nil {
		none := outcome.Group{Kind: g.Kind, Name: g.Name}
		r.groups[key] = &bothGroups{none, none}
	}
	return r.groups[key]
}

// groupList sorts by kind, then the most expected first, then by name.
func (r *collector) groupList() []Group {
	if !r.grouped[0] || !r.grouped[1] {
		return []Group{} // a run without counts by type is not one that matched nothing
	}
	list := make([]Group, 0, len(r.groups))
	for key, both := range r.groups {
		g := Group{Kind: key.kind, Name: key.name, Base: both.base.Stat(), Candidate: both.cand.Stat()}
		if g.Base.F1 != nil && g.Candidate.F1 != nil {
			g.Difference = new(*g.Candidate.F1 - *g.Base.F1)
		}
		list = append(list, g)
	}
	slices.SortFunc(list, func(a, b Group) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind),
			cmp.Compare(b.Base.Expected+b.Candidate.Expected, a.Base.Expected+a.Candidate.Expected),
			cmp.Compare(b.Base.Extracted+b.Candidate.Extracted, a.Base.Extracted+a.Candidate.Extracted),
			cmp.Compare(a.Name, b.Name))
	})
	return list
}

// weights sums the values of both runs by the weights of their items.
type weights struct {
	items             int // that have a weight in both runs
	total, base, cand stats.Sum
}

// add takes an item into account that has the same weight in both runs. One
// whose products cannot be summed counts as one without a weight.
func (w *weights) add(base, cand *value, b, d float64) {
	if base.weight == nil || cand.weight == nil || *base.weight != *cand.weight {
		return
	}
	if w.total.Add(*base.weight) && w.base.Add(b**base.weight) && w.cand.Add(d**base.weight) {
		w.items++
	}
}

// mean returns the weighted means; nil unless each of the n items has a weight
// and they do not sum up to 0.
func (w *weights) mean(n int) *Weighted {
	total := w.total.Value()
	if n == 0 || w.items < n || total <= 0 {
		return nil
	}
	out := &Weighted{Base: w.base.Value() / total, Candidate: w.cand.Value() / total}
	out.Difference = out.Candidate - out.Base
	return out
}

// column is one score over the items of both runs: all that is kept of them.
type column struct {
	differences []float64
	items       []int32 // the number of each
	clusters    []int32
	base, cand  stats.Moments
	wins        int // differences above 0
	losses      int // below

	weights weights // of those items that have one

	ratios        []stats.PairedRatio
	ratioClusters []int32
	noRatio       int // scored items without

	undefined, undefinedBase, undefinedCand int

	boolean, between            bool // values mean no or yes; one is neither 0 nor 1
	gained, lost, both, neither int
}

// add takes the score of one item into account; nil is a run whose outcome does
// not list it.
func (c *column) add(base, cand *value, item, cluster int, scored bool) {
	b, inBase := base.defined()
	d, inCand := cand.defined()
	if !inBase || !inCand {
		c.undefined++
		switch {
		case inCand:
			c.undefinedBase++
		case inBase:
			c.undefinedCand++
		}
		return
	}
	difference := d - b
	switch {
	case difference > Epsilon:
		c.wins++
	case difference < -Epsilon:
		c.losses++
	default:
		difference = 0
	}
	c.base.Add(b)
	c.cand.Add(d)
	c.differences = append(c.differences, difference)
	c.items = append(c.items, int32(item))
	c.clusters = append(c.clusters, int32(cluster))
	c.weights.add(base, cand, b, d)
	c.boolean = c.boolean || base.boolean || cand.boolean
	c.countYesNo(b, d)
	c.ratio(base, cand, cluster, scored)
}

func (v *value) defined() (float64, bool) {
	if v == nil {
		return 0, false
	}
	return v.mean()
}

func (c *column) countYesNo(b, d float64) {
	switch [2]float64{b, d} {
	case [2]float64{0, 0}:
		c.neither++
	case [2]float64{1, 1}:
		c.both++
	case [2]float64{0, 1}:
		c.gained++
	case [2]float64{1, 0}:
		c.lost++
	default:
		c.between = true
	}
}

// ratio keeps the counts of an item; one that failed has those of error alone.
func (c *column) ratio(base, cand *value, cluster int, scored bool) {
	if base.ratios < base.n || cand.ratios < cand.n {
		if scored {
			c.noRatio++
		}
		return
	}
	c.ratios = append(c.ratios, stats.PairedRatio{BaseNum: base.num, BaseDen: base.den, CandNum: cand.num, CandDen: cand.den})
	c.ratioClusters = append(c.ratioClusters, int32(cluster))
}

// clusterNumbers returns the cluster of every difference.
func clusterNumbers(list []int32) (numbers []int, different int) {
	seen := map[int32]bool{}
	numbers = make([]int, len(list))
	for i, n := range list {
		numbers[i] = int(n)
		seen[n] = true
	}
	return numbers, len(seen)
}

// bounded reports whether all values of both runs lie in [0,1], and differences in
// [-1,1] therefore.
func (c *column) bounded() bool {
	for _, m := range []stats.Moments{c.base, c.cand} {
		if least, top, ok := m.Range(); ok && (least < 0 || top > 1) {
			return false
		}
	}
	return true
}

// whole reports whether every difference is −1, 0 or 1, of values from 0 to 1: that
// of a yes/no score, or of any score of which no item differs.
func (c *column) whole() bool { return c.bounded() && c.wins+c.losses == c.gained+c.lost }

// repeats reports whether d differs as c does: over the same items by the same, or by
// the same with the other sign. What does not differ repeats nothing.
func (c *column) repeats(d *column) bool {
	if c.wins+c.losses == 0 || !slices.Equal(c.items, d.items) {
		return false
	}
	for _, sign := range []float64{1, -1} {
		if slices.EqualFunc(c.differences, d.differences, func(a, b float64) bool { return math.Abs(a-sign*b) <= Epsilon }) {
			return true
		}
	}
	return false
}

// clusterRatios adds the counts of each cluster together.
func clusterRatios(ratios []stats.PairedRatio, cluster []int32) []stats.PairedRatio {
	at := map[int32]int{}
	var sums []stats.PairedRatio
	for i, r := range ratios {
		j, known := at[cluster[i]]
		if !known {
			j = len(sums)
			at[cluster[i]] = j
			sums = append(sums, stats.PairedRatio{})
		}
		sums[j] = sums[j].Plus(r)
	}
	return sums
}

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

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
	changed      *stats.Shortlist[changed]
	regressed    *stats.Shortlist[ItemChange]

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
		changed:   stats.NewShortlist(c.config.Changed, compareChanged),
		regressed: stats.NewShortlist(MaxRegressed, compareRegressed),
		planned:   [2]int{max(1, base.header.Trials), max(1, cand.Trials)},
	}
}

// collect streams both runs.
func (r *collector) collect(ctx context.Context, base, cand Source) error {
	met, byID := 0, func(a, b *unit) int { return cmp.Compare(a.id, b.id) }
	for both, err := range stats.Merge(byID, units(ctx, base, r.base.Add), units(ctx, cand, r.cand.Add)) {
		if err != nil {
			return err
		}
		switch b, c := both[0], both[1]; {
		case b == nil:
			r.onlyCand = append(r.onlyCand, c.id)
		case c == nil:
			r.onlyBase = append(r.onlyBase, b.id)
		default:
			r.pair(b, c)
		}
		met++
	}
	if met >= len(r.known.items) {
		return nil
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
	found := slices.Concat(
		affected(r.onlyBase, "without an outcome in the candidate"),
		affected(r.onlyCand, "without an outcome in the base"),
		affected(r.without, "without an outcome in either run"))
	for i, which := range []string{"base", "candidate"} {
		if n := r.uneven[i]; n > 0 {
			found = append(found, Mismatch{What: textutil.Counted(n, "item") + " not run in every trial of the " + which})
		}
	}
	return found
}

func compareRegressed(a, b ItemChange) int {
	return cmp.Or(cmp.Compare(a.Delta, b.Delta), cmp.Compare(a.Item, b.Item))
}
