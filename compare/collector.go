package compare

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"extraction-experiment/dataset"
	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/stats"
	"extraction-experiment/internal/textutil"
	"extraction-experiment/outcome"
)

// collector keeps what a comparison needs of the items of two runs.
type collector struct {
	Config
	runs [2]run // base, candidate

	items        int
	scored       int  // items that failed in neither run
	differs      bool // the results of an item do, or are not known
	columns      map[string]*column
	seenClusters map[string]bool
	cost         amounts
	latency      amounts
	groups       map[[2]string]*[2]outcome.Group // by kind and name: base, candidate
	grouped      [2]bool                         // base, candidate: there are counts by type
	most         *stats.Shortlist[changed]
	regressed    *stats.Shortlist[ItemChange]

	onlyBase, onlyCand []string // ids without an outcome in the other run
	without            []string // ids without an outcome in either
	trials             [2]int   // most trials of an item
	uneven             [2]int   // items with fewer trials than the header says
}

func newCollector(c Config, base, cand run) *collector {
	return &collector{
		Config: c, runs: [2]run{base, cand},
		columns: map[string]*column{}, seenClusters: map[string]bool{}, groups: map[[2]string]*[2]outcome.Group{},
		most:      stats.NewShortlist(c.Changed, compareChanged),
		regressed: stats.NewShortlist(MaxRegressed, compareRegressed),
	}
}

// collect streams both runs.
func (r *collector) collect(ctx context.Context) error {
	left, byID := maps.Clone(r.runs[0].hashes), func(a, b *unit) int { return cmp.Compare(a.id, b.id) }
	order := r.Order
	for both, err := range stats.Merge(byID, r.runs[0].units(ctx, order), r.runs[1].units(ctx, order)) {
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
		delete(left, cmp.Or(both[0], both[1]).id)
	}
	r.without = slices.Collect(maps.Keys(left))
	return nil
}

// pair takes one item into account.
func (r *collector) pair(base, cand *unit) {
	r.items++
	for i, u := range []*unit{base, cand} {
		r.trials[i] = max(r.trials[i], len(u.trials))
		if len(u.trials) < r.runs[i].header.Trials {
			r.uneven[i]++
		}
	}
	r.differs = r.differs || !base.sameResults(cand)
	cluster := r.runs[0].clusters.of[base.id]
	r.seenClusters[cluster] = true
	scored := base.failed+cand.failed == 0
	for i := range base.values {
		v := &base.values[i]
		r.column(v.name).add(v, cand.find(v.name), r.items, cluster, scored)
	}
	for i := range cand.values {
		if v := &cand.values[i]; base.find(v.name) == nil {
			r.column(v.name).add(nil, v, r.items, cluster, scored)
		}
	}
	if scored {
		r.scored++
		r.addGroups(base.groups, cand.groups)
	}
	r.cost.add(base.meanCost(), cand.meanCost())
	r.latency.add(base.latency.MeanOrNil(), cand.latency.MeanOrNil())
	r.change(base, cand)
}

// column returns that of a score, a new one at first.
func (r *collector) column(score string) *column {
	if r.columns[score] == nil {
		r.columns[score] = &column{clustered: r.clustered()}
	}
	return r.columns[score]
}

func (u *unit) find(name string) *value {
	if i := slices.IndexFunc(u.values, func(v value) bool { return v.name == name }); i >= 0 {
		return &u.values[i]
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

// clusters knows the clusters of items.
type clusters struct {
	key     string            // "" takes every item for itself
	of      map[string]string // by item, what is its cluster's alone
	without int               // items that have no value
	bare    json.RawMessage   // the metadata of the first of them
}

func newClusters(key string) *clusters { return &clusters{key: key, of: map[string]string{}} }

// add takes an item into account. One without a value is a cluster of its own.
func (c *clusters) add(item Item) {
	if c.key == "" {
		return
	}
	value, ok := lookup(item.Metadata, c.key)
	if !ok {
		if c.without++; c.without == 1 {
			c.bare = item.Metadata
		}
		c.of[item.ID] = "item " + item.ID
		return
	}
	sum := sha256.Sum256([]byte(value)) // which may be long
	c.of[item.ID] = "value " + string(sum[:])
}

// check is an error of usage where no item has the key: each would silently stand for
// itself.
func (c *clusters) check() error {
	if c.key == "" || len(c.of) == 0 || c.without < len(c.of) {
		return nil
	}
	var object map[string]json.RawMessage
	_ = json.Unmarshal(c.bare, &object) // what is not an object has no keys
	known := slices.Sorted(maps.Keys(object))
	return cli.Usage("cluster-by: no item has %q in its metadata; the first has: %s", c.key, textutil.Listed(c.key, known))
}

// lookup returns the value at a path below a JSON object as text: a string as
// it is, anything else in canonical form. Null is not a value.
func lookup(raw json.RawMessage, path string) (string, bool) {
	for value := range dataset.ValuesAt(raw, path) {
		var text *string
		if json.Unmarshal(value, &text) == nil && text != nil {
			return *text, true
		}
		if canonical, err := dataset.Canonical(value); err == nil && isValue(canonical) {
			return string(canonical), true
		}
	}
	return "", false
}

// addGroups adds what one item counts for each type, in both runs. Absurd counts are left
// out, and the run's summary says so.
func (r *collector) addGroups(base, cand []outcome.Group) {
	for i, list := range [][]outcome.Group{base, cand} {
		r.grouped[i] = r.grouped[i] || len(list) > 0
		for _, g := range list {
			key := [2]string{g.Kind, g.Name}
			if r.groups[key] == nil {
				none := outcome.Group{Kind: g.Kind, Name: g.Name}
				r.groups[key] = &[2]outcome.Group{none, none}
			}
			r.groups[key][i].Add(g)
		}
	}
}

// groupList sorts by kind, then the most expected first, then by name.
func (r *collector) groupList() []Group {
	if !r.grouped[0] || !r.grouped[1] {
		return []Group{} // a run without counts by type is not one that matched nothing
	}
	list := make([]Group, 0, len(r.groups))
	for key, both := range r.groups {
		g := Group{Kind: key[0], Name: key[1], Base: both[0].Stat(), Candidate: both[1].Stat()}
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

// changed is an item on the shortlist, with the outcomes that explain it.
type changed struct {
	ItemChange
	base, cand []outcome.Outcome // by trial
}

// change offers an item to the lists of those that changed most. Delta is
// turned round where less is better, so that below 0 is always worse.
func (r *collector) change(base, cand *unit) {
	b, inBase := base.find(r.Metric).defined()
	c, inCand := cand.find(r.Metric).defined()
	if !inBase || !inCand || math.Abs(c-b) <= Epsilon {
		return
	}
	item := ItemChange{Item: base.id, Base: b, Candidate: c, Delta: c - b}
	r.most.Offer(changed{item, withoutOutput(base.trials), withoutOutput(cand.trials)})
	worse := item
	if r.lower(r.Metric) {
		worse.Delta = -worse.Delta
	}
	if worse.Delta < -Epsilon {
		r.regressed.Offer(worse)
	}
}

// withoutOutput copies outcomes that are kept for their explanations.
func withoutOutput(trials []outcome.Outcome) []outcome.Outcome {
	return cli.Each(trials, func(o outcome.Outcome) outcome.Outcome {
		o.Output = nil
		return o
	})
}

// compareChanged puts the largest changes first, of equal ones the losses.
func compareChanged(a, b changed) int {
	return cmp.Or(cmp.Compare(math.Abs(b.Delta), math.Abs(a.Delta)), cmp.Compare(a.Delta, b.Delta), cmp.Compare(a.Item, b.Item))
}

// changes explains the items of the shortlist.
func (r *collector) changes() ([]Change, error) {
	list := []Change{}
	for _, item := range r.most.Values() {
		c := Change{
			ItemChange: item.ItemChange, BaseComment: r.comments(item.base), CandidateComment: r.comments(item.cand),
			BaseFailure: failure(item.base), CandidateFailure: failure(item.cand),
		}
		before, err := r.matches(item.base)
		after, errAfter := r.matches(item.cand)
		if err := errors.Join(err, errAfter); err != nil {
			return nil, fmt.Errorf("reading what was matched in item %q: %w", item.Item, err)
		}
		c.Lost, c.Gained, c.Kept = movedMatches(before, after, len(item.base), len(item.cand))
		list = append(list, c)
	}
	return list, nil
}

// comments is what the trials say of the primary score, each thing once.
func (r *collector) comments(trials []outcome.Outcome) string {
	var said []string
	for _, o := range trials {
		if s, _ := outcome.Lookup(o.Scores, r.Metric); s.Comment != "" && !slices.Contains(said, s.Comment) {
			said = append(said, s.Comment)
		}
	}
	return strings.Join(said, " · ")
}

// matches are those of all trials, one after the other.
func (r *collector) matches(trials []outcome.Outcome) (all []string, err error) {
	for _, o := range trials {
		if r.Matches == nil || !isValue(o.Explanation) {
			continue
		}
		lines, err := r.Matches(o.Explanation)
		if err != nil {
			return nil, err
		}
		all = append(all, lines...)
	}
	return all, nil
}

// movedMatches returns what the base matched more often than the candidate, what it matched less
// often, and how many it matched as often. Of several trials a match counts by how often a trial has
// it, and that stands with it.
func movedMatches(base, cand []string, trialsOfBase, trialsOfCand int) (lost, gained []string, kept int) {
	times := map[string][2]int{}
	for i, lines := range [2][]string{base, cand} {
		for _, line := range lines {
			n := times[line]
			n[i]++
			times[line] = n
		}
	}
	lost, gained = []string{}, []string{}
	for _, line := range slices.Sorted(maps.Keys(times)) {
		n := times[line]
		more, same := n[0]-n[1], min(n[0], n[1])
		if trialsOfBase > 1 || trialsOfCand > 1 {
			if more, same = cmp.Compare(n[0]*trialsOfCand, n[1]*trialsOfBase), 0; more == 0 {
				same = 1
			}
			line = fmt.Sprintf("%s (%d/%d → %d/%d)", line, n[0], trialsOfBase, n[1], trialsOfCand)
		}
		lost = append(lost, slices.Repeat([]string{line}, max(0, more))...)
		gained = append(gained, slices.Repeat([]string{line}, max(0, -more))...)
		kept += same
	}
	return lost, gained, kept
}

// failure is that of the first trial that failed, with how many did; "" where none did.
func failure(trials []outcome.Outcome) string {
	failed := slices.DeleteFunc(slices.Clone(trials), func(o outcome.Outcome) bool { return !o.Failed() })
	if len(failed) == 0 {
		return ""
	}
	text := string(failed[0].Class)
	if len(failed) < len(trials) {
		text += fmt.Sprintf(" in %d of %d trials", len(failed), len(trials))
	}
	if why := failed[0].Failure; why != nil {
		text += ": " + why.Message
	}
	return text
}

func isValue(raw json.RawMessage) bool { return len(raw) > 0 && string(raw) != "null" }

// amounts accumulates something consumed per item.
type amounts struct {
	difference, base, cand stats.Moments
	unknown                [2]int
}

// add takes an item into account; nil is not known.
func (a *amounts) add(base, cand *float64) {
	for i, known := range []*float64{base, cand} {
		if known == nil {
			a.unknown[i]++
		}
	}
	if base != nil && cand != nil {
		a.base.Add(*base)
		a.cand.Add(*cand)
		a.difference.Add(*cand - *base)
	}
}

func (a *amounts) amount() Amount {
	e, _ := a.difference.Estimate()
	out := Amount{
		N: a.difference.N(), Base: a.base.MeanOrNil(), Candidate: a.cand.MeanOrNil(),
		Difference: a.difference.MeanOrNil(), CI95: e.CI95,
	}
	if out.Base != nil && *out.Base > 0 {
		if ratio := *out.Candidate / *out.Base; usable(ratio) {
			out.Ratio = &ratio
		}
	}
	return out
}
