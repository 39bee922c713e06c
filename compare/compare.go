package compare

import (
	"context"
	"errors"
	"maps"
	"slices"

	"extraction-experiment/outcome"
)

// Compare compares every candidate with the base, in the order given. What
// cannot be compared is a Result with its Incompatible filled in, not an error.
//
// Both runs are streamed: memory grows by the items' ids and, per item and
// score, about 50 bytes. Measured on two busy cores: 2,000 items of 12 scores and
// 10 KB in 1 s, 20,000 in 12 s with 30 MB, most of it spent on resampling.
//
// Errors: those of the sources; a *MetricError when no item has the primary
// score, or a rule names a score that is not there; a *KeyError when no item of
// the base has Config.ClusterBy.
func (c *Comparer) Compare(ctx context.Context, base Source, candidates ...Source) (Comparison, error) {
	if len(candidates) == 0 {
		return Comparison{}, errors.New("comparing: there is no candidate")
	}
	header, err := base.Header(ctx)
	if err != nil {
		return Comparison{}, err
	}
	known, err := c.readBase(ctx, base, header)
	if err != nil {
		return Comparison{}, err
	}
	out := Comparison{Metric: known.metric, ClusterBy: c.config.ClusterBy, Seed: c.config.Seed, Candidates: []Result{}}
	for _, cand := range candidates {
		result, side, err := c.compareOne(ctx, known, cand)
		if err != nil {
			return Comparison{}, err
		}
		out.Base = side
		out.Candidates = append(out.Candidates, result)
	}
	correct(out.Candidates)
	for i := range out.Candidates {
		if err := c.conclude(out.Base, &out.Candidates[i]); err != nil {
			return Comparison{}, err
		}
	}
	c.warnOfMany(out.Candidates)
	return out, nil
}

// known is what is read of the base once.
type known struct {
	source   Source
	header   outcome.Header
	metric   string
	items    itemSet
	clusters *clusters
	problems []Mismatch
}

func (c *Comparer) readBase(ctx context.Context, base Source, header outcome.Header) (known, error) {
	k := known{source: base, header: header, metric: c.config.Metric, items: itemSet{}, clusters: newClusters(c.config.ClusterBy)}
	if k.metric == "" {
		k.metric = header.Scorer.Primary
	}
	if k.metric == "" {
		return k, errors.New("comparing: the base names no primary score: name one")
	}
	for item, err := range base.Items(ctx) {
		if err != nil {
			return k, err
		}
		k.items[item.ID] = item.Hash
		k.clusters.add(item)
	}
	if err := k.clusters.check(); err != nil {
		return k, err
	}
	var err error
	k.problems, err = complete(ctx, "base", base)
	return k, err
}

// compareOne compares one candidate, and sums the base up beside it.
func (c *Comparer) compareOne(ctx context.Context, base known, cand Source) (Result, Side, error) {
	header, err := cand.Header(ctx)
	if err != nil {
		return Result{}, Side{}, err
	}
	problems := append(c.compareHeaders(base.header, header), base.problems...)
	unfinished, err := complete(ctx, "candidate", cand)
	if err != nil {
		return Result{}, Side{}, err
	}
	different, err := base.items.compareItems(ctx, cand)
	if err != nil {
		return Result{}, Side{}, err
	}
	problems = append(append(problems, unfinished...), different...)

	run := newCollector(c, base, header)
	if err := run.collect(ctx, base.source, cand); err != nil {
		return Result{}, Side{}, err
	}
	if len(different) == 0 {
		problems = append(problems, run.missing()...)
	}
	ofBase, err := side(ctx, base.source, run.base)
	if err != nil {
		return Result{}, Side{}, err
	}
	ofCand, err := side(ctx, cand, run.cand)
	if err != nil {
		return Result{}, Side{}, err
	}
	if len(problems) > 0 {
		out := newResult(ofCand)
		out.Incompatible = problems
		return out, ofBase, nil
	}
	result, err := run.result(ctx, ofBase, ofCand)
	result.Warnings = append(result.Warnings, unchecked(base.source, cand)...)
	return result, ofBase, err
}

// unchecked says what cannot be checked of the two runs.
func unchecked(base, cand Source) (warnings []string) {
	for i, s := range []Source{base, cand} {
		if cautious, ok := s.(Cautious); ok {
			for _, text := range cautious.Unchecked() {
				warnings = append(warnings, []string{"the base", "the candidate"}[i]+": "+text)
			}
		}
	}
	return warnings
}

func side(ctx context.Context, s Source, sum *outcome.Summariser) (Side, error) {
	out := Side{Where: s.Where(), Summary: sum.Summary()}
	f, ok, err := s.Footer(ctx)
	if ok {
		out.Summary.Finish(f)
	}
	return out, err
}

// newResult has no null where a list belongs.
func newResult(cand Side) Result {
	return Result{
		Candidate: cand, Verdict: Unclear, Incompatible: []Mismatch{}, Scores: []Score{}, YesNo: []YesNo{},
		Groups: []Group{}, Changed: []Change{}, Regressed: []ItemChange{}, Warnings: []string{},
	}
}

// result computes everything from what was collected.
func (r *collector) result(ctx context.Context, base, cand Side) (Result, error) {
	out := newResult(cand)
	out.Items, out.Scored, out.Identical = r.items, r.scored, r.items > 0 && !r.differs
	clustered := r.known.clusters.key != ""
	if clustered {
		out.Clusters = len(r.seenClusters)
	}
	if r.columns[r.known.metric] == nil {
		return out, &MetricError{Metric: r.known.metric, Known: slices.Sorted(maps.Keys(r.columns))}
	}
	order := r.order()
	for i, name := range order {
		if err := ctx.Err(); err != nil {
			return out, err
		}
		s := r.config.score(name, r.columns[name], clustered)
		s.Doubt = doubt(name, base.Summary, cand.Summary)
		if out.Identical && s.same() {
			s.CI95, s.Unclustered = nil, nil // there is nothing that chance may hide
		}
		if s.Primary = name == r.known.metric; s.Primary {
			out.Regressions = s.Losses
		}
		if at := slices.IndexFunc(order[:i], func(before string) bool { return r.columns[before].repeats(r.columns[name]) }); at >= 0 {
			s.Repeats = order[at]
		}
		out.Scores = append(out.Scores, s)
		if col := r.columns[name]; col.boolean && !col.between {
			out.YesNo = append(out.YesNo, yesNo(name, col, clustered))
		}
	}
	var err error
	if out.Changed, err = r.changes(); err != nil {
		return out, err
	}
	out.Cost, out.Latency = r.cost.amount(), r.latency.amount()
	out.Groups = r.groupList()
	out.Regressed = r.regressed.Values()
	out.Warnings = r.warnings(out, base, cand)
	return out, nil
}

// order lists the scores: the primary one, those of Config.Order, the rest.
func (r *collector) order() []string {
	var names []string
	for _, name := range slices.Concat([]string{r.known.metric}, r.config.config.Order, slices.Sorted(maps.Keys(r.columns))) {
		if r.columns[name] != nil && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}
