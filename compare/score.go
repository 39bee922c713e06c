package compare

import (
	"cmp"
	"math"
	"slices"

	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/stats"
)

// weights sums the weighted values of both runs.
type weights struct {
	items             int // number of items with the same weight in both runs
	total, base, cand stats.Sum
}

// add adds an item with values b and d if it has the same weight in both runs. An item whose
// products cannot be summed counts as one without a weight.
func (w *weights) add(base, cand *value, b, d float64) {
	if base.weight == nil || cand.weight == nil || *base.weight != *cand.weight {
		return
	}
	if w.total.Add(*base.weight) && w.base.Add(b**base.weight) && w.cand.Add(d**base.weight) {
		w.items++
	}
}

// mean returns the weighted means, or nil unless each of the n items has a weight and the sum of
// the weights is above 0.
func (w *weights) mean(n int) *Weighted {
	total := w.total.Value()
	if n == 0 || w.items < n || total <= 0 {
		return nil
	}
	out := &Weighted{Base: w.base.Value() / total, Candidate: w.cand.Value() / total}
	out.Difference = out.Candidate - out.Base
	return out
}

// column has the values of one score for the items of both runs.
type column struct {
	score       Score // only its counts of items; a win is a difference above 0
	yesNo       YesNo
	differences []float64
	items       []int32 // the number of the item of each difference
	clusters    []string
	base, cand  stats.Moments
	weights     weights

	ratios        []stats.PairedRatio
	ratioClusters []string
	clustered     bool // clusters are recorded
	withoutRatio  int  // items that should have one, but do not

	boolean    bool // values mean no or yes
	outOfRange bool // one lies outside of [0,1], and differences may outside of [-1,1]
}

// add adds the values of one item; nil if the outcome does not list the score. pooled reports
// whether its counts belong to the pooled values.
func (c *column) add(base, cand *value, item int, cluster string, pooled bool) {
	b, inBase := base.mean()
	d, inCand := cand.mean()
	if !inBase || !inCand {
		switch {
		case inCand:
			c.score.UndefinedBase++
		case inBase:
			c.score.UndefinedCandidate++
		}
		return
	}
	difference := d - b
	switch {
	case difference > Epsilon:
		c.score.Wins++
	case difference < -Epsilon:
		c.score.Losses++
	default:
		c.score.Ties++
		difference = 0
	}
	c.score.N++
	c.base.Add(b)
	c.cand.Add(d)
	c.differences = append(c.differences, difference)
	c.items = append(c.items, int32(item))
	if c.clustered {
		c.clusters = append(c.clusters, cluster)
	}
	c.weights.add(base, cand, b, d)
	c.boolean = c.boolean || base.boolean || cand.boolean
	c.outOfRange = c.outOfRange || min(b, d) < 0 || max(b, d) > 1
	c.countYesNo(b, d)
	if pooled {
		c.addRatio(base, cand, cluster)
	}
}

func (c *column) countYesNo(b, d float64) {
	switch [2]float64{b, d} {
	case [2]float64{0, 0}:
		c.yesNo.None++
	case [2]float64{1, 1}:
		c.yesNo.Both++
	case [2]float64{0, 1}:
		c.yesNo.Gained++
	case [2]float64{1, 0}:
		c.yesNo.Lost++
	}
}

// addRatio adds the counts of an item.
func (c *column) addRatio(base, cand *value, cluster string) {
	if base.ratios < base.n || cand.ratios < cand.n {
		c.withoutRatio++
		return
	}
	c.ratios = append(c.ratios, stats.PairedRatio{BaseNum: base.num, BaseDen: base.den, CandNum: cand.num, CandDen: cand.den})
	if c.clustered {
		c.ratioClusters = append(c.ratioClusters, cluster)
	}
}

// repeats reports whether d has the same items as c, and in all of them the same differences, or
// all with the other sign. A column without differences is never repeated.
func (c *column) repeats(d *column) bool {
	if c.score.Wins+c.score.Losses == 0 || !slices.Equal(c.items, d.items) {
		return false
	}
	for _, sign := range []float64{1, -1} {
		if slices.EqualFunc(c.differences, d.differences, func(a, b float64) bool { return math.Abs(a-sign*b) <= Epsilon }) {
			return true
		}
	}
	return false
}

// score calculates the comparison of one score from its column, without Undefined, Pooled and Weighted.
func (c Config) score(name string, col *column) Score {
	s := col.score
	s.Name, s.Verdict = name, Unclear // judge sets the verdict when the p-values are corrected
	if s.LowerIsBetter = c.isLowerBetter(name); s.LowerIsBetter {
		s.Wins, s.Losses = s.Losses, s.Wins
	}
	s.Base, s.Candidate = col.base.MeanOrNil(), col.cand.MeanOrNil()
	c.estimate(&s, col)
	return s
}

// estimate sets the results that depend on the differences.
func (c Config) estimate(s *Score, col *column) {
	m, _ := stats.MomentsOf(col.differences)
	s.Difference = m.MeanOrNil()
	plain, ok := m.Estimate()
	flipUnits := col.differences
	if c.clustered() && s.N > 0 {
		s.Unclustered = plain.CI95
		plain, ok = stats.ClusteredMean(col.differences, col.clusters)
		flipUnits = stats.ClusterSums(col.differences, col.clusters)
		s.Clusters = len(flipUnits)
	}
	if p, ok := stats.SignFlip(flipUnits, c.Flips, c.Seed); ok && s.N > 0 {
		s.P, s.PExact = &p.P, p.Exact
	}
	if ok {
		s.SE, s.DF, s.CI95 = &plain.SE, &plain.DF, plain.CI95
	}
	if !col.outOfRange { // no difference is outside of [-1,1]
		for _, ci := range []*[2]float64{s.CI95, s.Unclustered} {
			if ci != nil {
				ci[0], ci[1] = max(ci[0], -1), min(ci[1], 1)
			}
		}
	}
	// All values are in [0,1] and all differences −1, 0 or 1. That holds for a yes/no score, for any score that
	// differs in no item, and for others by chance.
	isYesNo := !col.outOfRange && s.N-s.Ties == col.yesNo.Gained+col.yesNo.Lost
	lo, hi, ok := stats.YesNoInterval95(col.yesNo.Gained, col.yesNo.Lost, s.N)
	if c.clustered() { // an interval is known only if nothing changed
		sizes := stats.Grouped(col.differences, col.clusters, func(size *int, _ float64) { *size++ })
		hi, ok = stats.UnchangedBound95(sizes)
		lo, ok = -hi, ok && s.same()
	}
	if ok && isYesNo && s.N > 1 {
		s.CI95 = &[2]float64{lo, hi}
	}
	if !s.canClaim() || s.N-s.Ties < LeastItems { // if fewer differ, nothing can be claimed
		return
	}
	if effect, ok := stats.DetectableDifference(plain); ok {
		s.Detectable = &effect
	}
	if n, ok := stats.NeededPairs(s.N, plain); ok {
		s.Needed = new(max(n, LeastItems))
	}
}

// pooled returns the pooled difference, or nil if an item that belongs to it has no counts.
func (c Config) pooled(col *column) *Pooled {
	if col.withoutRatio > 0 || len(col.ratios) == 0 {
		return nil
	}
	units := col.ratios
	if c.clustered() {
		units = stats.Grouped(col.ratios, col.ratioClusters, func(sum *stats.PairedRatio, r stats.PairedRatio) { *sum = sum.Plus(r) })
	}
	p, ok := stats.PooledDifference(units, c.Seed)
	if !ok {
		return nil
	}
	return &Pooled{len(col.ratios), p.Base, p.Candidate, p.Difference, p.CI95}
}

// verdict returns the conclusion from the corrected p-value and the interval.
func (s Score) verdict() Verdict {
	switch {
	case s.Incomparable != "":
		return Unclear
	case s.same():
		return Same
	case !s.canClaim() || !s.significant():
		return Unclear
	}
	switch lo, hi := s.CI95[0], s.CI95[1]; {
	case lo <= 0 && hi >= 0:
		return Unclear
	case (lo > 0) != s.LowerIsBetter:
		return Better
	}
	return Worse
}

// Undecided reports whether nothing can be said of a difference: it has no interval, or tells nothing about the runs.
func (s Score) Undecided() bool { return s.CI95 == nil || s.Incomparable != "" }

// same reports whether no item differs.
func (s Score) same() bool { return s.N > 0 && s.Ties == s.N }

// significant reports whether the corrected p-value is small enough to claim a difference.
func (s Score) significant() bool { return s.PHolm != nil && *s.PHolm <= alpha }

// canClaim reports whether there is an interval, and enough items and clusters to claim anything.
func (s Score) canClaim() bool { return s.CI95 != nil && s.hasEnough() }

func (s Score) hasEnough() bool {
	return s.N >= LeastItems && (s.Clusters == 0 || s.Clusters >= LeastClusters)
}

// correctPValues sets PHolm: Holm's correction for the primary score over the candidates, and for
// all others over the secondary scores of all candidates. Scores of a candidate that repeat each
// other count once. Scores without any difference do not count, since nothing could be claimed
// about them.
func correctPValues(results []Result) {
	var primary, secondary [][]*Score
	for i := range results {
		at := map[string]int{} // index into secondary, by the name of the first of the scores that repeat each other
		for j := range results[i].Scores {
			s := &results[i].Scores[j]
			first := cmp.Or(s.Repeats, s.Name)
			switch set, known := at[first]; {
			case s.same():
				s.PHolm = s.P
			case s.Primary:
				primary = append(primary, []*Score{s})
			case known:
				secondary[set] = append(secondary[set], s)
			default:
				at[first] = len(secondary)
				secondary = append(secondary, []*Score{s})
			}
		}
	}
	holm(primary)
	holm(secondary)
}

// holm corrects the p-values of sets of scores. The scores of a set have equal p-values, which
// count once, or none.
func holm(sets [][]*Score) {
	sets = slices.DeleteFunc(sets, func(set []*Score) bool { return set[0].P == nil })
	for i, corrected := range stats.Holm(cli.Each(sets, func(set []*Score) float64 { return *set[0].P })) {
		for _, s := range sets[i] {
			s.PHolm = &corrected
		}
	}
}
