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

// Rank puts runs of the same items in order by the metric, and compares every
// two of them, with Holm's correction for the number of pairs. Config.Gate,
// Changed and Matches are not looked at.
//
// Every run is streamed once; memory grows by the items' ids and, per run and
// item, about 100 bytes. A pair costs the resampling of one score.
//
// Errors: those of the sources; one of usage when no item of any run has the
// metric; or when no item of a run has Config.ClusterBy.
func (c Config) Rank(ctx context.Context, sources ...Source) (Leaderboard, error) {
	if len(sources) == 0 {
		return Leaderboard{}, errors.New("ranking: there are no runs")
	}
	var entries []*entry
	for _, s := range sources {
		e, err := c.enter(ctx, s)
		if err != nil {
			return Leaderboard{}, err
		}
		entries = append(entries, e)
	}
	out := Leaderboard{Metric: c.Metric, ClusterBy: c.ClusterBy, Seed: c.Seed, Pairs: []Pair{}}
	if !slices.ContainsFunc(entries, func(e *entry) bool { return e.Mean != nil }) {
		return out, unknownMetric(c.Metric, scoreNames(entries[0].Summary))
	}
	slices.SortStableFunc(entries, c.better)
	var scores []*Score
	for i, first := range entries {
		for _, second := range entries[i+1:] {
			if err := ctx.Err(); err != nil {
				return out, err
			}
			pair, score := c.pairUp(first, second)
			out.Pairs, scores = append(out.Pairs, pair), append(scores, score)
		}
	}
	concludePairs(out.Pairs, scores)
	out.Runs = place(entries, out.Pairs, c.lower(c.Metric))
	out.Warnings = rankWarnings(out)
	return out, nil
}

// entry is what is kept of one run.
type entry struct {
	Ranked
	run
	items map[string]*value
}

// enter reads a run; the first one names the metric where nothing else does.
func (c *Config) enter(ctx context.Context, s Source) (*entry, error) {
	opened, err := open(ctx, s, c.ClusterBy)
	if err != nil {
		return nil, err
	}
	opened.hashes = nil // the fingerprints of the datasets vouch for the content
	*c = c.filled(opened.header)
	e := &entry{run: opened, items: map[string]*value{}}
	for u, err := range e.units(ctx, c.Order) {
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
		if value, ok := v.defined(); ok {
			m.Add(value)
		}
	}
	e.N, e.Mean, e.CI95 = m.N(), m.MeanOrNil(), m.ScoreInterval95()
	e.CostPerItem, e.CostPartly = measured("cost_per_item", e.Summary)
	return e, nil
}

// better orders runs: by mean, then by cost, then by name; what has no mean is
// last.
func (c Config) better(a, b *entry) int {
	sign := -1.0
	if c.lower(c.Metric) {
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

// Leaderboard is the result of ranking several runs over the same items; its JSON is what
// --json prints for a sweep. Numbers are not rounded.
type Leaderboard struct {
	Metric    string   `json:"metric"`
	ClusterBy string   `json:"cluster_by"`
	Seed      uint64   `json:"seed"`
	Runs      []Ranked `json:"runs"`  // the best first
	Pairs     []Pair   `json:"pairs"` // every two runs, the better ranked one first
	Warnings  []string `json:"warnings"`
}

// Ranked is one run of a Leaderboard.
type Ranked struct {
	Rank int `json:"rank"` // from 1; runs of the same mean share one; 0 without a mean
	Side
	// Mean is the mean of the metric over N items, failed ones as 0, trials
	// averaged within the item; CI95 is its interval, as that of outcome.Stat.
	Mean *float64    `json:"mean"`
	CI95 *[2]float64 `json:"ci95"`
	N    int         `json:"n"`
	// CostPerItem is what one item costs in one trial, in USD; nil is unknown.
	// With CostPartly it is only a lower bound.
	CostPerItem *float64 `json:"cost_per_item_usd"`
	CostPartly  bool     `json:"cost_partly_unknown"`
	// Front says that no other run is at least as good and at most as expensive, and
	// better in one of the two: by the means as they are. Nil where mean or cost
	// are not known.
	Front *bool `json:"pareto_front"`
	// Tied says that the run is not shown to differ from the best one, allowing
	// for all pairs that were compared.
	Tied bool `json:"tied_with_best"`
	// Gate is what the rules of the run come to, filled in by the caller; nil
	// without rules.
	Gate *GateResult `json:"gate,omitempty"`
}

// Pair compares two runs of a Leaderboard by the metric.
type Pair struct {
	First  string `json:"first"`
	Second string `json:"second"`
	// Incompatible lists why the two cannot be compared; the rest is then empty.
	Incompatible []Mismatch  `json:"incompatible"`
	N            int         `json:"n"`
	Difference   *float64    `json:"difference"` // mean of second − first
	CI95         *[2]float64 `json:"ci95"`       // of Difference, not corrected
	P            *float64    `json:"p"`
	PHolm        *float64    `json:"p_holm"` // corrected for the number of pairs
	Wins         int         `json:"wins"`   // items where the second is better
	Losses       int         `json:"losses"`
	Ties         int         `json:"ties"`
	// Verdict is that of the second, as in a comparison of the two, if PHolm is at
	// most 0.05 too; else Unclear.
	Verdict Verdict `json:"verdict"`
}

// ToBest compares the run at i with the best one; the zero Pair for the best one
// itself.
func (l Leaderboard) ToBest(i int) Pair {
	if i == 0 || i > len(l.Pairs) {
		return Pair{}
	}
	return l.Pairs[i-1] // the first pairs are those of the best
}

// Err is an error of exit code 2 for runs that cannot be compared, one for every second run;
// nil if all can.
func (l Leaderboard) Err() error {
	var problems []error
	seen := map[string]bool{}
	for _, p := range l.Pairs {
		if len(p.Incompatible) > 0 && !seen[p.Second] {
			seen[p.Second] = true
			problems = append(problems, incompatible(p.First+" and "+p.Second+" cannot be compared", p.Reasons()))
		}
	}
	return errors.Join(problems...)
}

// Reasons says in one line each why the two cannot be compared.
func (p Pair) Reasons() []string { return reasons(p.Incompatible, "the first", "the second") }

// reasons writes one line for each mismatch of two runs that are called so.
func reasons(mismatches []Mismatch, base, candidate string) []string {
	return cli.Each(mismatches, func(m Mismatch) string { return m.between(base, candidate) })
}

// place numbers the runs, marks the Pareto front and those that are not shown
// to differ from the best.
func place(entries []*entry, pairs []Pair, lower bool) []Ranked {
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

// hasMeanAndCost reports whether quality and cost are both known.
func (r Ranked) hasMeanAndCost() bool { return r.Mean != nil && r.CostPerItem != nil && !r.CostPartly }

// dominates reports whether r is at least as good as the other and at most as
// expensive, and better in one of the two.
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

// rankWarnings says what makes a leaderboard weak.
func rankWarnings(l Leaderboard) []string {
	list := []string{}
	warn := func(format string, args ...any) { list = append(list, fmt.Sprintf(format, args...)) }
	if len(l.Runs) > 2 {
		warn("%d runs, %d pairs: p (Holm) and verdicts allow for that, intervals do not; the best of several looks better than it is: confirm it on other items", len(l.Runs), len(l.Pairs))
	}
	unknown, few := 0, 0
	for _, r := range l.Runs {
		if !r.hasMeanAndCost() {
			unknown++
		}
		if r.N < fewItems {
			few++
		}
		if f := r.Summary.Items.Failed; f > 0 {
			warn("%s: %d of %d outcomes failed and count as 0", r.Summary.Run.Name, f, r.Summary.Items.Planned)
		}
	}
	if few > 0 {
		warn("few items: intervals are rough, and only large differences can be found")
	}
	if unknown > 0 {
		warn("the cost of %s is not known, or not of every item: not part of the Pareto front", textutil.Counted(unknown, "run"))
	}
	return list
}

// Sensitivity is the comparison of a candidate when the same outputs are scored in other
// ways: how far the verdict rests on how it was scored. No gate reads it.
type Sensitivity struct {
	Settings []Setting `json:"settings"`
	// Flips are the thresholds at which another run is ahead than below it.
	Flips []Flip   `json:"flips"`
	Notes []string `json:"notes"`
}

// Setting is one way to score, and what the comparison then says: Verdict, interval and
// p-values are those of Compare, with Holm's correction over the candidates.
type Setting struct {
	What string `json:"setting"`
	// Threshold is its decimal text; "" where it is that of the runs.
	Threshold string `json:"threshold,omitempty"`
	// Own says that the runs are scored in this way.
	Own bool `json:"own,omitempty"`
	// LeftOut counts the items that are left out as doubtful.
	LeftOut int   `json:"left_out,omitempty"`
	Score   Score `json:"score"`
}

// Flip is a change of the sign of the difference between two thresholds, steps of 0.01
// without a sign between them: the last with the one and the first with the other.
type Flip struct {
	Below Setting `json:"below"`
	At    Setting `json:"at"`
}

// sign of the difference, turned round where less is better; 0 where no run is ahead.
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

// Flips finds the changes of sign among settings, in order of their thresholds; those
// without a threshold are not looked at. A threshold without a sign ends nothing: it
// lies between the two of its neighbours.
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

// Warning says who is ahead on each side of a flip.
func (f Flip) Warning(base, candidate string) string {
	ahead := func(s Setting) string {
		name, claim := candidate, "no difference can be claimed"
		if s.sign() < 0 {
			name = base
		}
		if v := s.Score.Verdict; v == Better || v == Worse {
			claim = "a difference that can be claimed"
		}
		return fmt.Sprintf("%s is ahead (%s, %s)", name, signed(*s.Score.Difference), claim)
	}
	return fmt.Sprintf("the ranking by %s flips at threshold %s: up to %s %s, from %s on %s",
		f.At.Score.Name, f.At.Threshold, f.Below.Threshold, ahead(f.Below), f.At.Threshold, ahead(f.At))
}
