package compare

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"

	"extraction-experiment/internal/stats"
	"extraction-experiment/outcome"
)

// Rank puts runs of the same items in order by the metric, and compares every
// two of them, with Holm's correction for the number of pairs. Config.Gate,
// Changed and Matches are not looked at.
//
// Every run is streamed once; memory grows by the items' ids and, per run and
// item, about 100 bytes. A pair costs the resampling of one score.
//
// Errors: those of the sources; a *MetricError when no item of any run has the
// metric; a *KeyError when no item of a run has Config.ClusterBy.
func (c *Comparer) Rank(ctx context.Context, sources ...Source) (Leaderboard, error) {
	out := Leaderboard{Metric: c.config.Metric, ClusterBy: c.config.ClusterBy, Seed: c.config.Seed, Runs: []Ranked{}, Pairs: []Pair{}, Warnings: []string{}}
	if len(sources) == 0 {
		return out, errors.New("ranking: there are no runs")
	}
	var entries []*entry
	for _, s := range sources {
		e, err := c.enter(ctx, s, &out.Metric)
		if err != nil {
			return out, err
		}
		entries = append(entries, e)
	}
	if !slices.ContainsFunc(entries, func(e *entry) bool { return e.Mean != nil }) {
		return out, &MetricError{Metric: out.Metric, Known: scoreNames(entries[0].Summary)}
	}
	slices.SortStableFunc(entries, c.better(out.Metric))
	var scores []*Score
	for i, first := range entries {
		for _, second := range entries[i+1:] {
			if err := ctx.Err(); err != nil {
				return out, err
			}
			pair, score := c.pairUp(out.Metric, first, second)
			out.Pairs, scores = append(out.Pairs, pair), append(scores, score)
		}
	}
	concludePairs(out.Pairs, scores)
	out.Runs = place(entries, out.Pairs, c.config.lower(out.Metric))
	out.Warnings = rankWarnings(out)
	return out, nil
}

// entry is what is kept of one run.
type entry struct {
	Ranked
	header   outcome.Header
	problems []Mismatch // not complete
	items    map[string]*value
	clusters *clusters
}

// enter reads a run; the first one names the metric where nothing else does.
func (c *Comparer) enter(ctx context.Context, s Source, metric *string) (*entry, error) {
	header, err := s.Header(ctx)
	if err != nil {
		return nil, err
	}
	if *metric == "" {
		*metric = header.Scorer.Primary
	}
	e := &entry{header: header, items: map[string]*value{}, clusters: newClusters(c.config.ClusterBy)}
	if c.config.ClusterBy != "" {
		for item, err := range s.Items(ctx) {
			if err != nil {
				return nil, err
			}
			e.clusters.add(item)
		}
		if err := e.clusters.check(); err != nil {
			return nil, err
		}
	}
	if e.problems, err = complete(ctx, "run "+header.Name, s); err != nil {
		return nil, err
	}
	sum := outcome.NewSummariser(header, outcome.SummaryConfig{Order: c.config.Order, Worst: -1})
	for u, err := range units(ctx, s, sum.Add) {
		if err != nil {
			return nil, err
		}
		e.items[u.id] = nil
		if v := u.find(*metric); v != nil {
			one := *v
			e.items[u.id] = &one
		}
	}
	if e.Side, err = side(ctx, s, sum); err != nil {
		return nil, err
	}
	e.measure()
	return e, nil
}

// measure fills in mean and cost.
func (e *entry) measure() {
	var values []float64
	for _, id := range slices.Sorted(maps.Keys(e.items)) {
		if v, ok := e.items[id].defined(); ok {
			values = append(values, v)
		}
	}
	var m stats.Moments
	for _, v := range values {
		m.Add(v)
	}
	e.N, e.Mean = m.N(), mean(m)
	if lo, hi, ok := m.ScoreInterval95(); ok {
		e.CI95 = &[2]float64{lo, hi}
	}
	e.CostPerItem, e.CostPartly = measured("cost_per_item", e.Summary)
}

// better orders runs: by mean, then by cost, then by name; what has no mean is
// last.
func (c *Comparer) better(metric string) func(a, b *entry) int {
	sign := -1
	if c.config.lower(metric) {
		sign = 1
	}
	return func(a, b *entry) int {
		return cmp.Or(compareKnown(a.Mean, b.Mean, sign), compareKnown(a.CostPerItem, b.CostPerItem, 1), cmp.Compare(a.header.Name, b.header.Name))
	}
}

// compareKnown compares numbers; one that is not known is behind all others.
func compareKnown(a, b *float64, sign int) int {
	switch {
	case a == nil && b == nil:
		return 0
	case a == nil:
		return 1
	case b == nil:
		return -1
	}
	return sign * cmp.Compare(*a, *b)
}
