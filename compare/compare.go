// Package compare tells whether a candidate run is better than a base run over the same items, by
// how much, and whether that can be trusted.
//
// It is pure: runs are streams of outcomes from a Source (experiment.OpenRun opens a file), results
// are data (Comparison); it prints and opens nothing. It knows no harness: the caller's
// Config.Matches reads explanations.
//
// One comparison has these steps:
//
//  1. Check that the runs can be compared: the same items with the same content, the same scorer and
//     options, both complete. Otherwise the Result has every Mismatch and nothing else.
//  2. Read both runs item by item, in the order of their ids, and keep only the difference of each score. A
//     failed item counts as 0 if its expected output defines the score; trials are averaged within the item.
//  3. Estimate: the paired difference with its interval, clustered if Config.ClusterBy is set, the sign-flip
//     p-value, Holm's correction over the secondary scores, the pooled difference by paired bootstrap, and
//     McNemar's test on yes/no results.
//  4. Warn of everything that makes the numbers weak.
//  5. Judge the rules of a Gate: pass, fail or inconclusive, each with its reason.
//
// Rank compares all pairs of several runs in the same way and orders the runs (Leaderboard).
// Gate.JudgeRun judges the rules of a single run.
//
// The formulas are in package stats. Exchanging base and candidate negates every difference and
// changes no p-value.
//
//	result, err := compare.Config{Gate: gate}.Compare(ctx, base, candidate)
//	if err = cmp.Or(err, result.Err()); err != nil {
//		code := 1
//		if failed := (interface{ ExitCode() int })(nil); errors.As(err, &failed) {
//			code = failed.ExitCode()
//		}
//		os.Exit(code)
//	}
package compare

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math"
	"slices"
	"strconv"

	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/stats"
	"extraction-experiment/outcome"
)

// Compare compares every candidate with the base, in the given order. If a candidate cannot be
// compared, its Result has Incompatible, and there is no error.
//
// Both runs are streamed. Memory grows by the ids of the items and by about 50 bytes for each
// item and score. Measured on two busy cores: 2,000 items of 12 scores and 10 KB in 1 s, 20,000
// in 12 s with 30 MB; most of the time is resampling.
//
// Errors: those of the sources and of Gate.Check; a usage error if no item has the primary score,
// a rule names an unknown score, or no item of base or candidate has Config.ClusterBy.
func (c Config) Compare(ctx context.Context, base Source, candidates ...Source) (Comparison, error) {
	if len(candidates) == 0 {
		return Comparison{}, errors.New("comparing: there is no candidate")
	}
	if err := c.Gate.Check(); err != nil {
		return Comparison{}, err
	}
	opened, err := openRun(ctx, base, c.ClusterBy)
	if err != nil {
		return Comparison{}, err
	}
	if c, err = c.withBase(opened.header); err != nil {
		return Comparison{}, err
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
	if err := c.judge(out); err != nil {
		return Comparison{}, err
	}
	return out, nil
}

// ComparePlanned tells whether Compare could compare two runs, before the candidate has outcomes. The Comparison
// has Incompatible, and of the runs their names and the number of items. Errors: those of the sources; a usage
// error if there is no primary score.
func (c Config) ComparePlanned(ctx context.Context, base, candidate Source) (Comparison, error) {
	b, err := openRun(ctx, base, "")
	if err == nil {
		c, err = c.withBase(b.header)
	}
	if err != nil {
		return Comparison{}, err
	}
	cand, err := openRun(ctx, candidate, "")
	if err != nil {
		return Comparison{}, err
	}
	result := newResult(cand.planned())
	result.Incompatible = append(CompareHeaders(b.header, cand.header), compareItems(b, cand)...)
	return Comparison{Metric: c.Metric, Base: b.planned(), Candidates: []Result{result}}, nil
}

// planned returns the side of a run whose outcomes are not read.
func (r run) planned() Side {
	out := Side{Where: r.Where()}
	out.Summary.Run.Name, out.Summary.Items.Planned = r.header.Name, len(r.hashes)
	return out
}

// judge sets everything that depends on all candidates: the corrected p-values, the verdicts, the gates and a
// warning.
func (c Config) judge(out Comparison) (err error) {
	correctPValues(out.Candidates)
	for i := range out.Candidates {
		r := &out.Candidates[i]
		if len(r.Incompatible) > 0 {
			continue
		}
		for j := range r.Scores {
			r.Scores[j].Verdict = r.Scores[j].verdict()
		}
		r.Verdict = r.Primary().Verdict
		if r.Gate, err = c.Gate.judge(out.Base, *r); err != nil {
			return err
		}
		if n := len(out.Candidates); n > 1 {
			r.Warnings = append(r.Warnings, fmt.Sprintf("%d candidates were compared: p (Holm) allows for that, and so do verdicts and rules that claim a difference; intervals, and rules that allow for a margin, do not", n))
		}
	}
	return nil
}

// run is the part of a run that Compare and Rank read before its outcomes.
type run struct {
	Source
	header     outcome.Header
	footer     outcome.Footer
	ended      bool              // the run has a footer
	hashes     map[string]string // of the items, by id
	clusters   *clusters
	summariser *outcome.Summariser // of the outcomes that were read
}

// openRun reads header, items and footer of a run, and the clusters of its items if clusterBy is
// not "".
func openRun(ctx context.Context, s Source, clusterBy string) (r run, err error) {
	r = run{Source: s, hashes: map[string]string{}, clusters: &clusters{key: clusterBy, byItem: map[string]string{}}}
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
	r.footer, r.ended, err = s.Footer(ctx)
	return r, err
}

// CheckClusters returns a usage error if no item of the runs has ClusterBy.
func (c Config) CheckClusters(ctx context.Context, runs ...Source) (err error) {
	for _, s := range runs {
		r, openErr := openRun(ctx, s, c.ClusterBy)
		if openErr != nil || !r.clusters.missing() {
			return openErr
		}
		err = cmp.Or(err, r.clusters.check())
	}
	return err
}

// checkFinished returns a Mismatch if the run is not complete. name is that of the side, for the
// message.
func (r run) checkFinished(name string) []Mismatch {
	if r.ended && r.footer.Status == outcome.Complete {
		return nil
	}
	status := cmp.Or(r.footer.Status, outcome.Unfinished) // without a footer, the run still runs or was killed
	return []Mismatch{{What: fmt.Sprintf("the %s is not complete (%s); %s", name, status, FinishAdvice(status))}}
}

// FinishAdvice says how to finish a run that is not complete. A run that was read from Langfuse has
// a status of its own, and cannot be resumed.
func FinishAdvice(status outcome.Status) string {
	if status == outcome.Interrupted || status == outcome.Unfinished {
		return "finish it with --resume"
	}
	return "where its run file is, finish or publish it"
}

// side returns the summary of the run. All outcomes must have been read.
func (r run) side() Side {
	out := Side{Where: r.Where(), Summary: r.summariser.Summary()}
	if r.ended {
		out.Summary.Finish(r.footer)
	}
	return out
}

// compareOne compares one candidate with the base, and returns the summary of the base, too.
func (c Config) compareOne(ctx context.Context, base run, candidate Source) (Result, Side, error) {
	key := ""
	if base.clusters.missing() { // runs in Langfuse do not have the metadata of items
		key = c.ClusterBy
	}
	cand, err := openRun(ctx, candidate, key)
	if key != "" && (!cand.clusters.missing() || base.clusters.firstMetadata == nil) {
		base.clusters = cand.clusters
	}
	if err = cmp.Or(err, base.clusters.check()); err != nil {
		return Result{}, Side{}, err
	}
	collected := newCollector(c, base, cand)
	if err := collected.collect(ctx); err != nil {
		return Result{}, Side{}, err
	}
	mismatches := compareItems(base, cand)
	if len(mismatches) == 0 {
		mismatches = collected.missingOutcomes()
	}
	baseSide, candSide := collected.runs[0].side(), collected.runs[1].side()
	problems := slices.Concat(CompareHeaders(base.header, cand.header),
		base.checkFinished("base"), cand.checkFinished("candidate"), mismatches)
	if len(problems) > 0 {
		out := newResult(candSide)
		out.Incompatible = problems
		return out, baseSide, nil
	}
	result, err := collected.result(ctx, baseSide, candSide)
	result.Warnings = append(result.Warnings, uncheckedWarnings(base.Source, candidate)...)
	return result, baseSide, err
}

// uncheckedWarnings returns what could not be checked about the two runs.
func uncheckedWarnings(base, cand Source) (warnings []string) {
	for i, s := range []Source{base, cand} {
		if cautious, ok := s.(UncheckedSource); ok {
			for _, text := range cautious.Unchecked() {
				warnings = append(warnings, []string{"the base", "the candidate"}[i]+": "+text)
			}
		}
	}
	return warnings
}

// newResult returns a Result whose lists are empty, since nil would be null in JSON.
func newResult(cand Side) Result {
	return Result{
		Candidate: cand, Verdict: Unclear, Incompatible: []Mismatch{}, Scores: []Score{}, YesNo: []YesNo{},
		Groups: []Group{}, Changed: []Change{}, Regressed: []ItemChange{}, Warnings: []string{},
	}
}

// result calculates the Result from the collected items.
func (r *collector) result(ctx context.Context, base, cand Side) (Result, error) {
	out := newResult(cand)
	out.Items, out.Scored, out.Identical = r.items, r.scored, r.items > 0 && !r.differs
	if r.clustered() {
		out.Clusters = len(r.seenClusters)
	}
	if r.columns[r.Metric] == nil {
		return out, unknownMetricError(r.Metric, slices.Sorted(maps.Keys(r.columns)))
	}
	order := outcome.OrderedNames(r.columns, append([]string{r.Metric}, r.Order...))
	score := func(name string) (Score, error) {
		col := r.columns[name]
		s := r.score(name, col)
		s.Undefined, s.Pooled, s.Weighted = r.items-s.N, r.pooled(col), col.weights.mean(s.N)
		return s, ctx.Err()
	}
	for s, err := range stats.Parallel(0, stats.Values(order), score) {
		if err != nil {
			return out, err
		}
		name, i, col := s.Name, len(out.Scores), r.columns[s.Name]
		s.Incomparable = incomparableReason(name, base.Summary, cand.Summary)
		if out.Identical && s.same() {
			s.CI95, s.Unclustered = nil, nil // identical outputs leave nothing to chance
		}
		if s.Primary = name == r.Metric; s.Primary {
			out.Regressions = s.Losses
		}
		if at := slices.IndexFunc(order[:i], func(before string) bool { return r.columns[before].repeats(col) }); at >= 0 {
			s.Repeats = order[at]
		}
		out.Scores = append(out.Scores, s)
		// Means over trials may be neither 0 nor 1.
		if y := col.yesNo; col.boolean && y.Gained+y.Lost+y.Both+y.None == s.N {
			y.Name = name
			if p, ok := stats.McNemar(y.Gained, y.Lost); ok && !r.clustered() { // it assumes independent items
				y.P = &p
			}
			out.YesNo = append(out.YesNo, y)
		}
	}
	var err error
	if out.Changed, err = r.changes(); err != nil {
		return out, err
	}
	out.Cost, out.Latency = r.cost.amount(), r.latency.amount()
	if r.clustered() { // the intervals assume independent items
		out.Cost.CI95, out.Latency.CI95 = nil, nil
	}
	out.Groups = r.groupList()
	out.Regressed = r.regressed.Values()
	out.Warnings = r.warnings(out, base, cand)
	return out, nil
}

// Epsilon is the largest difference that counts as none. A regression is a difference of an item
// below −Epsilon, and a value this close to a threshold equals it.
const Epsilon = 1e-9

// Config has the settings of a comparison. The zero value is usable. A Config is safe for
// concurrent use if Matches is.
type Config struct {
	// Metric is the primary score, which decides; "" is the primary score of the base.
	Metric string
	// ClusterBy is a key of the items' metadata; dots separate nested keys. Items with equal
	// values have the same source and are not independent. If it is "", every item is
	// independent.
	ClusterBy string
	// Seed is the seed of the permutation test and the bootstrap; 0 is 1.
	Seed uint64
	// Flips is the number of sign combinations to draw if there are too many to try all; 0 is
	// 10,000.
	Flips int
	// MaxChanged is the number of items to keep of those that changed most; 0 is 10, negative none.
	MaxChanged int
	// Order lists score names in the order in which they are shown. Other scores follow
	// alphabetically.
	Order []string
	// LowerIsBetter names scores for which less is better. outcome.ErrorScore always is one.
	LowerIsBetter []string
	// Matches returns the matches in an explanation, one line each; nil lists none. Equal lines
	// are the same match.
	Matches func(explanation json.RawMessage) ([]string, error)
	// Gate is judged for every candidate; the zero value has no rules.
	Gate Gate
}

// withDefaults returns the config with its defaults, which include the primary score of the first
// run.
func (c Config) withDefaults(first outcome.Header) Config {
	c.Metric = cmp.Or(c.Metric, first.Scorer.Primary)
	c.Seed, c.Flips, c.MaxChanged = cmp.Or(c.Seed, 1), cmp.Or(c.Flips, 10_000), cmp.Or(c.MaxChanged, 10)
	return c
}

// withBase is withDefaults for a base, which must have a primary score if Metric is "".
func (c Config) withBase(base outcome.Header) (Config, error) {
	if c = c.withDefaults(base); c.Metric == "" {
		return c, cli.Usage("comparing: the base names no primary score: choose one with --metric")
	}
	return c, nil
}

// clustered reports whether items are grouped into clusters.
func (c Config) clustered() bool { return c.ClusterBy != "" }

// isLowerBetter reports whether less of a score is better.
func (c Config) isLowerBetter(score string) bool {
	return score == outcome.ErrorScore || slices.Contains(c.LowerIsBetter, score)
}

// Source is one run, in any storage. With several candidates it is read from the start several
// times. A sequence ends after an error.
type Source interface {
	// Where describes the origin of the run for reports: the path of a file, or Langfuse.
	Where() string
	// Header returns the header of the run. Its Dataset.Fingerprint must not be empty.
	Header(ctx context.Context) (outcome.Header, error)
	// Footer returns ok == false if the run is not finished.
	Footer(ctx context.Context) (f outcome.Footer, ok bool, err error)
	// Items yields every item of the run once, in any order.
	Items(ctx context.Context) iter.Seq2[Item, error]
	// Outcomes yields the newest attempt of every item and trial, ordered by the bytes of the
	// item id, then by trial. If groups, comments of scores or explanations are missing, so are
	// the breakdown by type and the matches in the result.
	Outcomes(ctx context.Context) iter.Seq2[outcome.Outcome, error]
}

// UncheckedSource is a Source with properties that cannot be checked. Comparisons have what Unchecked
// returns as warnings.
type UncheckedSource interface {
	Unchecked() []string
}

// Item is the part of an item that a comparison reads before its outcome.
type Item struct {
	ID string
	// Hash is the hash of input and expected output. If it is "", only the fingerprint of the
	// dataset shows that the content is the same.
	Hash string
	// Metadata is only read if Config.ClusterBy is set.
	Metadata json.RawMessage
}

// decimal formats a number for a reason, with at most six significant digits. If it would read
// like a bound from which it differs, it has more.
func decimal(v float64, bound ...float64) string { return digits(v, 6, bound...) }

// signed formats a difference with its sign, like decimal with at most four significant digits.
func signed(v float64, bound ...float64) string {
	text := digits(v, 4, bound...)
	if v > 0 {
		return "+" + text
	}
	return text
}

// digits formats a number with at most this many significant digits, but for bounds, and without
// an exponent.
func digits(v float64, significant int, bounds ...float64) string {
	for _, bound := range bounds {
		for math.Abs(v-bound) > Epsilon && digits(v, significant) == digits(bound, significant) {
			significant++
		}
	}
	rounded, _ := strconv.ParseFloat(strconv.FormatFloat(v, 'g', significant, 64), 64) // always valid
	return strconv.FormatFloat(rounded+0, 'f', -1, 64)                                 // no "-0"
}
