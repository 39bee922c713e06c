// Package compare says whether a candidate run is better than a base run over the same
// items, by how much, and whether that can be trusted.
//
// It is pure: runs come in as streams of outcomes through a Source, and results go out as
// data (Comparison); nothing is printed or opened. It knows no harness: the caller turns
// matches into words.
//
// One comparison goes through these steps:
//
//  1. check that the runs can be compared at all: same items with the same
//     content, same scorer and options, both complete. Otherwise the Result
//     holds every Mismatch and nothing else.
//  2. go through both runs item by item, in order of their ids, and keep of each
//     only the difference of each score; a failed item counts as 0 wherever its
//     expected output defines the score, trials are averaged within the item;
//  3. estimate: paired difference with its interval, clustered if asked for,
//     sign-flip p-value, Holm's correction over the secondary scores, pooled
//     difference by paired bootstrap, McNemar on yes/no results;
//  4. warn of what makes the numbers weak;
//  5. judge the rules of a Gate: pass, fail or inconclusive, each with its reason.
//
// Rank compares every two of several runs in the same way and puts them in order
// (Leaderboard); Gate.JudgeRun asks the rules of one run by itself.
//
// The formulas are in package stats. Exchanging base and candidate negates
// every difference and leaves every p-value.
//
//	result, err := compare.Config{Gate: gate}.Compare(ctx, base, candidate)
//	os.Exit(cli.ExitCode(result.Err()))
package compare

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"

	"extraction-experiment/internal/stats"
	"extraction-experiment/outcome"
)

// conclude says what the corrected p-values allow to, and judges the gate.
func (c Config) conclude(base Side, r *Result) (err error) {
	if len(r.Incompatible) > 0 {
		return nil
	}
	for i := range r.Scores {
		r.Scores[i].Verdict = r.Scores[i].verdict()
	}
	r.Verdict = r.Primary().Verdict
	r.Gate, err = c.Gate.judge(base, *r)
	return err
}

// Compare compares every candidate with the base, in the order given. What
// cannot be compared is a Result with its Incompatible filled in, not an error.
//
// Both runs are streamed: memory grows by the items' ids and, per item and
// score, about 50 bytes. Measured on two busy cores: 2,000 items of 12 scores and
// 10 KB in 1 s, 20,000 in 12 s with 30 MB, most of it spent on resampling.
//
// Errors: those of the sources, and of Gate.Check; one of usage when no item has the primary
// score, or a rule names a score that is not there; or when no item of
// the base has Config.ClusterBy.
func (c Config) Compare(ctx context.Context, base Source, candidates ...Source) (Comparison, error) {
	if len(candidates) == 0 {
		return Comparison{}, errors.New("comparing: there is no candidate")
	}
	if err := c.Gate.Check(); err != nil {
		return Comparison{}, err
	}
	opened, err := open(ctx, base, c.ClusterBy)
	if err != nil {
		return Comparison{}, err
	}
	c = c.filled(opened.header)
	if c.Metric == "" {
		return Comparison{}, errors.New("comparing: the base names no primary score: name one")
	}
	out := Comparison{Metric: c.Metric, ClusterBy: c.ClusterBy, Seed: c.Seed, Candidates: []Result{}}
	for _, cand := range candidates {
		result, side, err := c.compareOne(ctx, opened, cand)
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

// run is what is read of a run before its outcomes are.
type run struct {
	Source
	header   outcome.Header
	footer   outcome.Footer
	ended    bool              // there is a footer
	hashes   map[string]string // of the items, by their ids
	clusters *clusters
	sum      *outcome.Summariser // of the outcomes that were read
}

// open reads a run, and the clusters of its items where a key is given.
func open(ctx context.Context, s Source, clusterBy string) (r run, err error) {
	r = run{Source: s, hashes: map[string]string{}, clusters: newClusters(clusterBy)}
	if r.header, err = s.Header(ctx); err != nil {
		return r, err
	}
	for item, err := range s.Items(ctx) {
		if err != nil {
			return r, err
		}
		r.hashes[item.ID] = item.Hash
		r.clusters.add(item)
	}
	if err := r.clusters.check(); err != nil {
		return r, err
	}
	r.footer, r.ended, err = s.Footer(ctx)
	return r, err
}

// unfinished returns a Mismatch for a run that is not complete.
func (r run) unfinished(called string) []Mismatch {
	if r.ended && r.footer.Status == outcome.Complete {
		return nil
	}
	status := cmp.Or(r.footer.Status, outcome.Unfinished) // going on, or killed
	return []Mismatch{{What: fmt.Sprintf("the %s is not complete (%s); finish it with --resume", called, status)}}
}

// side sums up the run, of which all outcomes were read.
func (r run) side() Side {
	out := Side{Where: r.Where(), Summary: r.sum.Summary()}
	if r.ended {
		out.Summary.Finish(r.footer)
	}
	return out
}

// compareOne compares one candidate, and sums the base up beside it.
func (c Config) compareOne(ctx context.Context, base run, candidate Source) (Result, Side, error) {
	cand, err := open(ctx, candidate, "")
	if err != nil {
		return Result{}, Side{}, err
	}
	both := newCollector(c, base, cand)
	if err := both.collect(ctx); err != nil {
		return Result{}, Side{}, err
	}
	different := compareItems(base.hashes, cand.hashes)
	if len(different) == 0 {
		different = both.missing()
	}
	ofBase, ofCand := both.runs[0].side(), both.runs[1].side()
	problems := slices.Concat(compareHeaders(base.header, cand.header),
		base.unfinished("base"), cand.unfinished("candidate"), different)
	if len(problems) > 0 {
		out := newResult(ofCand)
		out.Incompatible = problems
		return out, ofBase, nil
	}
	result, err := both.result(ctx, ofBase, ofCand)
	result.Warnings = append(result.Warnings, unchecked(base.Source, candidate)...)
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
	if r.clustered() {
		out.Clusters = len(r.seenClusters)
	}
	if r.columns[r.Metric] == nil {
		return out, unknownMetric(r.Metric, slices.Sorted(maps.Keys(r.columns)))
	}
	order := r.order()
	names := func(yield func(string, error) bool) {
		for _, name := range order {
			if !yield(name, ctx.Err()) {
				return
			}
		}
	}
	score := func(name string) (Score, error) { return r.score(name, r.columns[name]), nil }
	for s, err := range stats.Parallel(0, names, score) {
		if err != nil {
			return out, err
		}
		name, i := s.Name, len(out.Scores)
		s.Incomparable = incomparable(name, base.Summary, cand.Summary)
		if out.Identical && s.same() {
			s.CI95, s.Unclustered = nil, nil // there is nothing that chance may hide
		}
		if s.Primary = name == r.Metric; s.Primary {
			out.Regressions = s.Losses
		}
		if at := slices.IndexFunc(order[:i], func(before string) bool { return r.columns[before].repeats(r.columns[name]) }); at >= 0 {
			s.Repeats = order[at]
		}
		out.Scores = append(out.Scores, s)
		if col := r.columns[name]; col.boolean && !col.between {
			out.YesNo = append(out.YesNo, r.mcNemar(name, col))
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
	for _, name := range slices.Concat([]string{r.Metric}, r.Order, slices.Sorted(maps.Keys(r.columns))) {
		if r.columns[name] != nil && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// Epsilon is the size up to which a difference counts as none: a regression is a difference
// of an item below −Epsilon, and a value this close to a threshold is at it.
const Epsilon = 1e-9

// Config says how runs are compared. The zero value is usable. Safe for concurrent use if
// Matches is.
type Config struct {
	// Metric is the primary score, the one that decides; "" is the primary
	// score of the base.
	Metric string
	// ClusterBy is a key of the items' metadata, with dots between nested
	// keys. Items of equal value share a source and are not independent. ""
	// takes every item for itself.
	ClusterBy string
	// Seed drives the permutation test and the bootstrap; 0 is 1.
	Seed uint64
	// Flips is how many combinations of signs are drawn where there are too
	// many for all; 0 is 10,000.
	Flips int
	// Changed is how many of the items that changed most are kept; 0 is 10,
	// negative none.
	Changed int
	// Order lists score names in the order in which they are shown; scores
	// that it does not name follow in alphabetical order.
	Order []string
	// LowerIsBetter names scores of which less is better; outcome.ErrorScore
	// always is.
	LowerIsBetter []string
	// Matches lists what an explanation says was matched, one line each; nil
	// leaves matches out. Lines that say the same are the same match.
	Matches func(explanation json.RawMessage) ([]string, error)
	// Gate is judged for every candidate; the zero value judges nothing.
	Gate Gate
}

// filled has the defaults, the first run's primary score among them.
func (c Config) filled(first outcome.Header) Config {
	c.Metric = cmp.Or(c.Metric, first.Scorer.Primary)
	c.Seed, c.Flips, c.Changed = cmp.Or(c.Seed, 1), cmp.Or(c.Flips, 10_000), cmp.Or(c.Changed, 10)
	return c
}

// clustered reports whether items are taken by clusters.
func (c Config) clustered() bool { return c.ClusterBy != "" }

// lower reports whether less of a score is better.
func (c Config) lower(score string) bool {
	return score == outcome.ErrorScore || slices.Contains(c.LowerIsBetter, score)
}

// Source is one run, wherever it lies. It is read from the start several times
// when there are several candidates. After an error a sequence ends.
type Source interface {
	// Where says where the run is from, for the report: a file's path, or
	// that the run was read from Langfuse.
	Where() string
	Header(ctx context.Context) (outcome.Header, error)
	// Footer returns ok == false while the run is not finished.
	Footer(ctx context.Context) (f outcome.Footer, ok bool, err error)
	// Items returns every item of the run once, in any order.
	Items(ctx context.Context) iter.Seq2[Item, error]
	// Outcomes returns the newest attempt of every item and trial, ordered by
	// the bytes of the item id, then by trial. Groups, comments of scores and
	// explanations may be missing, and so are then the breakdown by type and
	// what was matched.
	Outcomes(ctx context.Context) iter.Seq2[outcome.Outcome, error]
}

// Cautious is a Source that knows what cannot be checked about it; a comparison with it
// says so.
type Cautious interface {
	Unchecked() []string
}

// Item is what is compared of an item before its outcome is.
type Item struct {
	ID string
	// Hash is that of input and expected output; "" is unknown, and then only
	// the fingerprint of the dataset vouches for the content.
	Hash string
	// Metadata is looked at only with Config.ClusterBy.
	Metadata json.RawMessage
}

// decimal writes a number for a reason, with at most six significant digits.
func decimal(v float64) string { return digits(v, 6) }

// signed writes a difference with its sign, with at most four significant digits.
func signed(v float64) string {
	if v > 0 {
		return "+" + digits(v, 4)
	}
	return digits(v, 4)
}

// digits writes a number with so many significant digits, and no exponent.
func digits(v float64, significant int) string {
	rounded, _ := strconv.ParseFloat(strconv.FormatFloat(v, 'g', significant, 64), 64) // what was written can be read
	return strconv.FormatFloat(rounded+0, 'f', -1, 64)                                 // no "-0"
}

// list joins the first of total words.
func list(shown []string, total int) string {
	text := strings.Join(shown, ", ")
	if more := total - len(shown); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
