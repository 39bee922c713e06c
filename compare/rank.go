package compare

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/stats"
	"extraction-experiment/internal/textutil"
)

// Rank orders runs of the same items by the metric, and compares all pairs, with Holm's
// correction for the number of pairs. It ignores Config.Gate, Changed and Matches.
//
// Every run is streamed once. Memory grows by the ids of the items and by about 100 bytes for
// each run and item. Each pair costs the resampling of one score.
//
// Errors: those of the sources; a usage error if no item of any run has the metric, or no item of
// a run has Config.ClusterBy.
func (c Config) Rank(ctx context.Context, sources ...Source) (Leaderboard, error) {
	if len(sources) == 0 {
		return Leaderboard{}, errors.New("ranking: there are no runs")
	}
	var entries []*entry
	for _, s := range sources {
		e, err := c.readEntry(ctx, s)
		if err != nil {
			return Leaderboard{}, err
		}
		entries = append(entries, e)
	}
	out := Leaderboard{Metric: c.Metric, ClusterBy: c.ClusterBy, Seed: c.Seed, Pairs: []Pair{}}
	if !slices.ContainsFunc(entries, func(e *entry) bool { return e.Mean != nil }) {
		return out, unknownMetricError(c.Metric, scoreNames(entries[0].Summary))
	}
	slices.SortStableFunc(entries, c.compareEntries)
	var scores []*Score
	for i, first := range entries {
		for _, second := range entries[i+1:] {
			if err := ctx.Err(); err != nil {
				return out, err
			}
			pair, score := c.comparePair(first, second)
			out.Pairs, scores = append(out.Pairs, pair), append(scores, score)
		}
	}
	correctPairs(out.Pairs, scores)
	out.Runs = rankEntries(entries, out.Pairs, c.isLowerBetter(c.Metric))
	out.Warnings = rankWarnings(out)
	return out, nil
}

// entry is one run in a ranking.
type entry struct {
	Ranked
	run
	items map[string]*value // by id; nil if the outcomes do not list the metric
}

// readEntry reads a run. The first run sets the metric if the config has none.
func (c *Config) readEntry(ctx context.Context, s Source) (*entry, error) {
	opened, err := openRun(ctx, s, c.ClusterBy)
	if err = cmp.Or(err, opened.clusters.check()); err != nil {
		return nil, err
	}
	opened.hashes = nil // equal fingerprints of the datasets imply equal content
	*c = c.withDefaults(opened.header)
	e := &entry{run: opened, items: map[string]*value{}}
	for u, err := range e.runItems(ctx, c.Order) {
		if err != nil {
			return nil, err
		}
		e.items[u.id] = nil
		if v := u.find(c.Metric); v != nil {
			e.items[u.id] = new(*v)
		}
	}
	e.Side = e.side()
	var m stats.Moments
	for _, v := range e.items {
		if value, ok := v.mean(); ok {
			m.Add(value)
		}
	}
	e.N, e.Mean, e.CI95 = m.N(), m.MeanOrNil(), m.ScoreInterval95()
	e.CostPerItem, e.CostPartly = amountOf("cost_per_item", e.Summary)
	return e, nil
}

// compareEntries orders runs by mean, the better first, then by cost, then by name. Runs without
// a mean are last.
func (c Config) compareEntries(a, b *entry) int {
	sign := -1.0
	if c.isLowerBetter(c.Metric) {
		sign = 1
	}
	key := func(v *float64, sign float64) float64 {
		if v == nil {
			return math.Inf(1)
		}
		return sign * *v
	}
	return cmp.Or(cmp.Compare(key(a.Mean, sign), key(b.Mean, sign)),
		cmp.Compare(key(a.CostPerItem, 1), key(b.CostPerItem, 1)), cmp.Compare(a.header.Name, b.header.Name))
}

// Leaderboard is the result of ranking several runs over the same items. Its JSON is the output
// of --json for a sweep. Numbers are not rounded.
type Leaderboard struct {
	Metric    string   `json:"metric"`
	ClusterBy string   `json:"cluster_by"`
	Seed      uint64   `json:"seed"`
	Runs      []Ranked `json:"runs"`  // the best first
	Pairs     []Pair   `json:"pairs"` // all pairs of runs, the better ranked first
	Warnings  []string `json:"warnings"`
}

// Ranked is one run of a Leaderboard.
type Ranked struct {
	Rank int `json:"rank"` // from 1; runs of equal means share a rank; 0 without a mean
	Side
	// Mean is the mean of the metric over N items: failed items count as 0, trials are averaged
	// within the item. CI95 is its interval, calculated as for outcome.Stat.
	Mean *float64    `json:"mean"`
	CI95 *[2]float64 `json:"ci95"`
	N    int         `json:"n"`
	// CostPerItem is the cost of one item in one trial, in USD; nil is unknown. If CostPartly is
	// true, it is a lower bound.
	CostPerItem *float64 `json:"cost_per_item_usd"`
	CostPartly  bool     `json:"cost_partly_unknown"`
	// Front reports whether the run is on the Pareto front: no other run is at least as good and
	// at most as expensive, and better in one of the two. Means count as they are, without
	// intervals. Nil if mean or cost are unknown.
	Front *bool `json:"pareto_front"`
	// Tied reports whether no difference from the best run is shown, with the correction for all
	// pairs.
	Tied bool `json:"tied_with_best"`
	// Gate is the result of the rules for the run. The caller of Rank sets it; nil without rules.
	Gate *GateResult `json:"gate,omitempty"`
}

// Pair compares two runs of a Leaderboard by the metric.
type Pair struct {
	First  string `json:"first"`
	Second string `json:"second"`
	// Incompatible lists why the two cannot be compared. If it is not empty, the rest is.
	Incompatible []Mismatch  `json:"incompatible"`
	N            int         `json:"n"`
	Difference   *float64    `json:"difference"` // mean of second − first
	CI95         *[2]float64 `json:"ci95"`       // of Difference, not corrected
	P            *float64    `json:"p"`
	PHolm        *float64    `json:"p_holm"` // corrected for the number of pairs
	Wins         int         `json:"wins"`   // items for which the second is better
	Losses       int         `json:"losses"`
	Ties         int         `json:"ties"`
	// Verdict is the verdict on the second run, as in a comparison of the two; Better and Worse
	// need a PHolm of at most 0.05.
	Verdict Verdict `json:"verdict"`
}

// ToBest returns the pair of the run at index i and the best run, or the zero Pair for the best
// run itself.
func (l Leaderboard) ToBest(i int) Pair {
	if i == 0 || i > len(l.Pairs) {
		return Pair{}
	}
	return l.Pairs[i-1] // the first pairs are those of the best run
}

// Err returns nil if all runs can be compared. Otherwise it has exit code 2 and one problem for
// each run that cannot be compared with a better ranked one.
func (l Leaderboard) Err() error {
	var problems []error
	seen := map[string]bool{}
	for _, p := range l.Pairs {
		if len(p.Incompatible) > 0 && !seen[p.Second] {
			seen[p.Second] = true
			problems = append(problems, incompatibleError(p.First+" and "+p.Second+" cannot be compared", p.Reasons()))
		}
	}
	return errors.Join(problems...)
}

// Reasons lists why the two cannot be compared, in one line each.
func (p Pair) Reasons() []string {
	return cli.Each(p.Incompatible, func(m Mismatch) string { return m.text("the first", "the second") })
}

// rankEntries sets the ranks, the Pareto front, and whether a run is tied with the best.
func rankEntries(entries []*entry, pairs []Pair, lower bool) []Ranked {
	runs := make([]Ranked, len(entries))
	for i, e := range entries {
		runs[i] = e.Ranked
		r := &runs[i]
		switch {
		case r.Mean == nil:
		case i > 0 && runs[i-1].Mean != nil && *runs[i-1].Mean == *r.Mean:
			r.Rank = runs[i-1].Rank
		default:
			r.Rank = i + 1
		}
		// The pairs of the best run are the first ones.
		r.Tied = i == 0 || r.Mean != nil && len(pairs[i-1].Incompatible) == 0 && pairs[i-1].Verdict != Worse
	}
	for i, r := range runs {
		if r.hasMeanAndCost() {
			runs[i].Front = new(!slices.ContainsFunc(runs, func(other Ranked) bool { return other.dominates(r, lower) }))
		}
	}
	return runs
}

// hasMeanAndCost reports whether mean and cost are both known.
func (r Ranked) hasMeanAndCost() bool { return r.Mean != nil && r.CostPerItem != nil && !r.CostPartly }

// dominates reports whether r is at least as good as other and at most as expensive, and better
// in one of the two.
func (r Ranked) dominates(other Ranked, lower bool) bool {
	if !r.hasMeanAndCost() {
		return false
	}
	quality := *r.Mean - *other.Mean
	if lower {
		quality = -quality
	}
	saved := *other.CostPerItem - *r.CostPerItem
	return quality >= 0 && saved >= 0 && (quality > 0 || saved > 0)
}

// rankWarnings lists what makes a leaderboard weak.
func rankWarnings(l Leaderboard) []string {
	list := []string{}
	warn := func(format string, args ...any) { list = append(list, textutil.Countf(format, args...)) }
	if len(l.Runs) > 2 {
		warn("%d runs, %d pairs: p (Holm) and verdicts allow for that, intervals do not; the best of several looks better than it is: confirm it on other items", len(l.Runs), len(l.Pairs))
	}
	unknown := 0
	for _, r := range l.Runs {
		if !r.hasMeanAndCost() {
			unknown++
		}
		if f := r.Summary.Items.Failed; f > 0 {
			warn("%s: %d of %d outcomes failed, and count as 0 wherever their expected output defines the score",
				r.Summary.Run.Name, f, r.Summary.Items.Planned)
		}
	}
	if slices.ContainsFunc(l.Runs, func(r Ranked) bool { return r.N < fewItems }) {
		warn("few items: intervals are rough, and only large differences can be found")
	}
	if unknown > 0 {
		warn("the cost of %s is not known, or not of every item: not part of the Pareto front", textutil.Counted(unknown, "run"))
	}
	return list
}

// Sensitivity compares the same outputs with other ways of scoring. It shows how much the verdict
// depends on the scorer. No gate reads it.
type Sensitivity struct {
	Settings []Setting `json:"settings"`
	// Flips are the thresholds at which the other run takes the lead.
	Flips []Flip   `json:"flips"`
	Notes []string `json:"notes"`
}

// Setting is one way of scoring, and the comparison with it. Score has verdict, interval and
// p-values as from Compare, with Holm's correction over the candidates.
type Setting struct {
	What string `json:"setting"`
	// Threshold is the decimal text of the threshold, or "" if it is that of the runs.
	Threshold string `json:"threshold,omitempty"`
	// Own reports whether this is how the runs were scored.
	Own bool `json:"own,omitempty"`
	// LeftOut is the number of doubtful items that are left out.
	LeftOut int   `json:"left_out,omitempty"`
	Score   Score `json:"score"`
}

// Flip is a change of the sign of the difference from one threshold to a higher one. Between the
// two there may be thresholds without a sign.
type Flip struct {
	Below Setting `json:"below"`
	At    Setting `json:"at"`
}

// sign returns 1 if the candidate is ahead, -1 if the base is, and 0 if neither is.
func (s Setting) sign() int {
	d := s.Score.Difference
	switch {
	case d == nil || *d <= Epsilon && *d >= -Epsilon:
		return 0
	case (*d < 0) != s.Score.LowerIsBetter:
		return -1
	}
	return 1
}

// Flips returns the changes of sign between consecutive settings, ordered by threshold. Settings
// without a threshold or without a sign are ignored.
func Flips(settings []Setting) []Flip {
	at := slices.DeleteFunc(slices.Clone(settings), func(s Setting) bool { return s.Threshold == "" || s.sign() == 0 })
	slices.SortStableFunc(at, func(a, b Setting) int { return cmp.Compare(a.Threshold, b.Threshold) })
	flips := []Flip{}
	for i := 1; i < len(at); i++ {
		if at[i-1].sign() != at[i].sign() {
			flips = append(flips, Flip{at[i-1], at[i]})
		}
	}
	return flips
}

// Warning says which run is ahead on each side of the flip.
func (f Flip) Warning(base, candidate string) string {
	ahead := func(s Setting) string {
		name, claim := candidate, "no significant difference"
		if s.sign() < 0 {
			name = base
		}
		switch v := s.Score.Verdict; {
		case v == Better || v == Worse:
			claim = "a significant difference"
		case s.Score.Undecided():
			claim = "not decided"
		}
		return fmt.Sprintf("%s is ahead (%s, %s)", name, signed(*s.Score.Difference), claim)
	}
	return fmt.Sprintf("the ranking by %s flips at threshold %s: up to %s %s, from %s on %s",
		f.At.Score.Name, f.At.Threshold, f.Below.Threshold, ahead(f.Below), f.At.Threshold, ahead(f.At))
}
