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
	differs      bool // the results of an item differ or are unknown
	columns      map[string]*column
	seenClusters map[string]bool
	cost         amounts
	latency      amounts
	groups       map[[2]string]*[2]outcome.Group // by kind and name: base, candidate
	hasGroups    [2]bool                         // base, candidate: any item has counts by type
	mostChanged  *stats.Shortlist[changedItem]
	regressed    *stats.Shortlist[ItemChange]

	onlyBase, onlyCand []string // ids without an outcome in the other run
	inNeither          []string // ids without an outcome in either
	trials             [2]int   // the most trials of an item
	fewerTrials        [2]int   // number of items with fewer trials than the header says
}

func newCollector(c Config, base, cand run) *collector {
	return &collector{
		Config: c, runs: [2]run{base, cand},
		columns: map[string]*column{}, seenClusters: map[string]bool{}, groups: map[[2]string]*[2]outcome.Group{},
		// The largest changes come first, and of equal ones the losses.
		mostChanged: stats.NewShortlist(c.MaxChanged, func(a, b changedItem) int {
			return cmp.Or(cmp.Compare(math.Abs(b.Delta), math.Abs(a.Delta)), c.compareGains(a.ItemChange, b.ItemChange))
		}),
		regressed: stats.NewShortlist(MaxRegressed, c.compareGains),
	}
}

// collect reads the outcomes of both runs.
func (r *collector) collect(ctx context.Context) error {
	left, byID := maps.Clone(r.runs[0].hashes), func(a, b *runItem) int { return cmp.Compare(a.id, b.id) }
	order := r.Order
	for both, err := range stats.Merge(byID, r.runs[0].runItems(ctx, order), r.runs[1].runItems(ctx, order)) {
		if err != nil {
			return err
		}
		switch b, c := both[0], both[1]; {
		case b == nil:
			r.onlyCand = append(r.onlyCand, c.id)
		case c == nil:
			r.onlyBase = append(r.onlyBase, b.id)
		default:
			r.addItem(b, c)
		}
		delete(left, cmp.Or(both[0], both[1]).id)
	}
	r.inNeither = slices.Collect(maps.Keys(left))
	return nil
}

// addItem adds an item that has outcomes in both runs.
func (r *collector) addItem(base, cand *runItem) {
	r.items++
	for i, u := range []*runItem{base, cand} {
		r.trials[i] = max(r.trials[i], len(u.trials))
		if len(u.trials) < r.runs[i].header.Trials {
			r.fewerTrials[i]++
		}
	}
	r.differs = r.differs || !base.sameResults(cand)
	cluster := r.runs[0].clusters.byItem[base.id]
	r.seenClusters[cluster] = true
	scored := base.failed+cand.failed == 0
	for i := range base.values {
		v := &base.values[i]
		pooled := scored || v.name == outcome.ErrorScore // the only counts of failed items
		r.column(v.name).add(v, cand.find(v.name), r.items, cluster, pooled)
	}
	for i := range cand.values {
		if v := &cand.values[i]; base.find(v.name) == nil {
			r.column(v.name).add(nil, v, r.items, cluster, false)
		}
	}
	if scored {
		r.scored++
		r.addGroups(base.groups, cand.groups)
	}
	r.cost.add(base.meanCost(), cand.meanCost())
	r.latency.add(base.latency.MeanOrNil(), cand.latency.MeanOrNil())
	r.addChange(base, cand)
}

// column returns the column of a score. The first call for a score creates it.
func (r *collector) column(score string) *column {
	if r.columns[score] == nil {
		r.columns[score] = &column{clustered: r.clustered()}
	}
	return r.columns[score]
}

// find returns the value of a score, or nil.
func (u *runItem) find(name string) *value {
	if i := slices.IndexFunc(u.values, func(v value) bool { return v.name == name }); i >= 0 {
		return &u.values[i]
	}
	return nil
}

// missingOutcomes lists items without an outcome, or without one in every trial.
func (r *collector) missingOutcomes() []Mismatch {
	found := slices.Concat(
		itemMismatch(r.onlyBase, "without an outcome in the candidate"),
		itemMismatch(r.onlyCand, "without an outcome in the base"),
		itemMismatch(r.inNeither, "without an outcome in either run"))
	for i, which := range []string{"base", "candidate"} {
		if n := r.fewerTrials[i]; n > 0 {
			found = append(found, Mismatch{What: textutil.Counted(n, "item") + " not run in every trial of the " + which})
		}
	}
	return found
}

// clusters maps items to clusters.
type clusters struct {
	key           string            // Config.ClusterBy
	byItem        map[string]string // the name of the cluster by item id
	withoutValue  int               // number of items without a value
	firstMetadata json.RawMessage   // of the first item without a value
}

// add adds an item. An item without a value is a cluster of its own.
func (c *clusters) add(item Item) {
	if c.key == "" {
		return
	}
	value, ok := lookup(item.Metadata, c.key)
	if !ok {
		if c.withoutValue++; c.withoutValue == 1 {
			c.firstMetadata = item.Metadata
		}
		c.byItem[item.ID] = "item " + item.ID
		return
	}
	sum := sha256.Sum256([]byte(value)) // values may be long
	c.byItem[item.ID] = "value " + string(sum[:])
}

// missing reports whether there are items, and none has the key.
func (c *clusters) missing() bool {
	return len(c.byItem) > 0 && c.withoutValue == len(c.byItem)
}

// check returns a usage error if no item has the key, since every item would silently be a
// cluster of its own.
func (c *clusters) check() error {
	if !c.missing() {
		return nil
	}
	var object map[string]json.RawMessage
	_ = json.Unmarshal(c.firstMetadata, &object) // a value that is not an object has no keys
	known := slices.Sorted(maps.Keys(object))
	return cli.Usage("cluster-by: no item has %q in its metadata; the first has: %s", c.key, textutil.Listed(c.key, known))
}

// lookup returns the value at a path in a JSON object as text: a string as it is, other values in
// canonical form. It returns false for null and for a missing value.
func lookup(raw json.RawMessage, path string) (string, bool) {
	for value := range dataset.ValuesAt(raw, path) {
		var text *string
		if json.Unmarshal(value, &text) == nil && text != nil {
			return *text, true
		}
		if canonical, err := dataset.Canonical(value); err == nil && !textutil.AbsentJSON(canonical) {
			return string(canonical), true
		}
	}
	return "", false
}

// addGroups adds the counts by type of one item. Absurd counts are left out; the summary of the
// run reports them.
func (r *collector) addGroups(base, cand []outcome.Group) {
	for i, list := range [][]outcome.Group{base, cand} {
		r.hasGroups[i] = r.hasGroups[i] || len(list) > 0
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

// groupList sorts groups by kind, then by the most expected and extracted, then by name.
func (r *collector) groupList() []Group {
	if !r.hasGroups[0] || !r.hasGroups[1] {
		return []Group{} // a run without counts by type did not necessarily match nothing
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

// changedItem is an item on the shortlist, with the outcomes that explain the change.
type changedItem struct {
	ItemChange
	base, cand []outcome.Outcome // by trial
}

// gain returns the change of an item's primary score; below 0 is worse, also if less is better.
func (c Config) gain(item ItemChange) float64 {
	if c.isLowerBetter(c.Metric) {
		return -item.Delta
	}
	return item.Delta
}

// compareGains orders items, those that got worse first.
func (c Config) compareGains(a, b ItemChange) int {
	return cmp.Or(cmp.Compare(c.gain(a), c.gain(b)), cmp.Compare(a.Item, b.Item))
}

// addChange offers an item to the shortlists of changes and regressions.
func (r *collector) addChange(base, cand *runItem) {
	b, inBase := base.find(r.Metric).mean()
	c, inCand := cand.find(r.Metric).mean()
	if !inBase || !inCand || math.Abs(c-b) <= Epsilon {
		return
	}
	item := ItemChange{Item: base.id, Base: b, Candidate: c, Delta: c - b}
	r.mostChanged.Offer(changedItem{item, withoutOutput(base.trials), withoutOutput(cand.trials)})
	if r.gain(item) < 0 {
		r.regressed.Offer(item)
	}
}

// withoutOutput copies outcomes without their output, to be kept for their explanations.
func withoutOutput(trials []outcome.Outcome) []outcome.Outcome {
	return cli.Each(trials, func(o outcome.Outcome) outcome.Outcome {
		o.Output = nil
		return o
	})
}

// changes returns the items of the shortlist with explanations.
func (r *collector) changes() ([]Change, error) {
	list := []Change{}
	for _, item := range r.mostChanged.Values() {
		c := Change{
			ItemChange: item.ItemChange, BaseComment: r.comments(item.base), CandidateComment: r.comments(item.cand),
			BaseFailure: failureText(item.base), CandidateFailure: failureText(item.cand),
		}
		before, known, err := r.matches(item.base)
		after, knownAfter, errAfter := r.matches(item.cand)
		if err := errors.Join(err, errAfter); err != nil {
			return nil, fmt.Errorf("reading what was matched in item %q: %w", item.Item, err)
		}
		if !known || !knownAfter {
			before, after = nil, nil // everything would look lost or gained
		}
		c.Lost, c.Gained, c.Kept = compareMatches(before, after, len(item.base), len(item.cand))
		list = append(list, c)
	}
	return list, nil
}

// comments joins the distinct comments of the primary score in all trials.
func (r *collector) comments(trials []outcome.Outcome) string {
	var texts []string
	for _, o := range trials {
		if s, _ := outcome.Lookup(o.Scores, r.Metric); s.Comment != "" && !slices.Contains(texts, s.Comment) {
			texts = append(texts, s.Comment)
		}
	}
	return strings.Join(texts, " · ")
}

// matches returns the matches of all trials. known is false if a trial that did not fail has no
// explanation, as in a run that is only in Langfuse.
func (r *collector) matches(trials []outcome.Outcome) (all []string, known bool, err error) {
	known = true
	for _, o := range trials {
		if r.Matches == nil || textutil.AbsentJSON(o.Explanation) {
			known = known && o.Failed()
			continue
		}
		lines, err := r.Matches(o.Explanation)
		if err != nil {
			return nil, false, err
		}
		all = append(all, lines...)
	}
	return all, known, nil
}

// compareMatches returns the matches that the base has more often than the candidate, those that
// it has less often, and the number that both have. If a run has several trials, a match counts
// by its share of the trials, and its line gets these numbers.
func compareMatches(base, cand []string, trialsOfBase, trialsOfCand int) (lost, gained []string, kept int) {
	counts := map[string][2]int{}
	for i, lines := range [2][]string{base, cand} {
		for _, line := range lines {
			n := counts[line]
			n[i]++
			counts[line] = n
		}
	}
	lost, gained = []string{}, []string{}
	for _, line := range slices.Sorted(maps.Keys(counts)) {
		n := counts[line]
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

// failureText describes the first failed trial, and how many trials failed if not all did. It is
// "" if none failed.
func failureText(trials []outcome.Outcome) string {
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

// amounts accumulates the consumption of items in both runs, for example cost.
type amounts struct {
	difference, base, cand stats.Moments
	unknown                [2]int
}

// add adds an item; nil is unknown.
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
