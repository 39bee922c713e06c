package compare

import (
	"cmp"
	"math"
	"slices"

	"extraction-experiment/internal/stats"
)

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
	score       Score // its counts of items; a win is a difference above 0
	yesNo       YesNo
	differences []float64
	items       []int32 // the number of each
	clusters    []string
	base, cand  stats.Moments
	weights     weights // of those items that have one

	ratios        []stats.PairedRatio
	ratioClusters []string
	clustered     bool // clusters are kept
	noRatio       int  // scored items without

	boolean, between bool // values mean no or yes; one is neither 0 nor 1
	beyond           bool // one lies outside of [0,1], and differences may outside of [-1,1]
}

// add takes the score of one item into account; nil is a run whose outcome does
// not list it.
func (c *column) add(base, cand *value, item int, cluster string, scored bool) {
	b, inBase := base.defined()
	d, inCand := cand.defined()
	if !inBase || !inCand {
		c.score.Undefined++
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
	c.beyond = c.beyond || min(b, d) < 0 || max(b, d) > 1
	c.countYesNo(b, d)
	c.ratio(base, cand, cluster, scored)
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
	default:
		c.between = true
	}
}

// ratio keeps the counts of an item; one that failed has those of error alone.
func (c *column) ratio(base, cand *value, cluster string, scored bool) {
	if base.ratios < base.n || cand.ratios < cand.n {
		if scored {
			c.noRatio++
		}
		return
	}
	c.ratios = append(c.ratios, stats.PairedRatio{BaseNum: base.num, BaseDen: base.den, CandNum: cand.num, CandDen: cand.den})
	if c.clustered {
		c.ratioClusters = append(c.ratioClusters, cluster)
	}
}

// whole reports whether every difference is −1, 0 or 1, of values from 0 to 1: that
// of a yes/no score, or of any score of which no item differs.
func (c *column) whole() bool {
	return !c.beyond && c.score.Wins+c.score.Losses == c.yesNo.Gained+c.yesNo.Lost
}

// repeats reports whether d differs as c does: over the same items by the same, or by
// the same with the other sign. What does not differ repeats nothing.
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

// score turns a column into the comparison of one score.
func (c Config) score(name string, col *column) Score {
	s := col.score
	s.Name, s.Verdict = name, Unclear // until the p-values are corrected
	if s.LowerIsBetter = c.lower(name); s.LowerIsBetter {
		s.Wins, s.Losses = s.Losses, s.Wins
	}
	s.Base, s.Candidate = col.base.MeanOrNil(), col.cand.MeanOrNil()
	c.estimate(&s, col)
	s.Pooled = c.pooled(col)
	s.Weighted = col.weights.mean(s.N)
	return s
}

// estimate fills in what follows from the differences.
func (c Config) estimate(s *Score, col *column) {
	m, _ := stats.MomentsOf(col.differences)
	s.Difference = m.MeanOrNil()
	plain, ok := m.Estimate()
	flipped := col.differences
	if c.clustered() && s.N > 0 {
		s.Unclustered = plain.CI95
		plain, ok = stats.ClusteredMean(col.differences, col.clusters)
		flipped = stats.ClusterSums(col.differences, col.clusters)
		s.Clusters = len(flipped)
	}
	if p, ok := stats.SignFlip(flipped, c.Flips, c.Seed); ok && s.N > 0 {
		s.P, s.PExact = &p.P, p.Exact
	}
	if ok {
		s.SE, s.DF, s.CI95 = &plain.SE, &plain.DF, plain.CI95
	}
	if !col.beyond { // what is cut away holds no possible difference
		for _, ci := range []*[2]float64{s.CI95, s.Unclustered} {
			if ci != nil {
				ci[0], ci[1] = max(ci[0], -1), min(ci[1], 1)
			}
		}
	}
	if lo, hi, ok := stats.YesNoInterval95(col.yesNo.Gained, col.yesNo.Lost, s.N); ok && !c.clustered() && s.N > 1 && col.whole() {
		s.CI95 = &[2]float64{lo, hi}
	}
	if !s.claims() || s.N-s.Ties < LeastItems { // of fewer that differ nothing would ever be claimed
		return
	}
	if effect, ok := stats.DetectableDifference(plain); ok {
		s.Detectable = &effect
	}
	if n, ok := stats.NeededPairs(s.N, plain); ok {
		s.Needed = &n
	}
}

// pooled is nil where an item was scored without counts.
func (c Config) pooled(col *column) *Pooled {
	if col.noRatio > 0 || len(col.ratios) == 0 {
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

// verdict claims something only if there is enough to go by. P-values are corrected
// before.
func (s Score) verdict() Verdict {
	switch {
	case s.Incomparable != "":
		return Unclear
	case s.same():
		return Same
	case !s.claims() || !s.significant():
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

// same reports whether no item differs.
func (s Score) same() bool { return s.N > 0 && s.Ties == s.N }

// significant reports whether the corrected p-value allows to claim a difference.
func (s Score) significant() bool { return s.PHolm != nil && *s.PHolm <= alpha }

// claims reports whether there are enough items and clusters to claim anything.
func (s Score) claims() bool { return s.CI95 != nil && s.enough() }

func (s Score) enough() bool {
	return s.N >= LeastItems && (s.Clusters == 0 || s.Clusters >= LeastClusters)
}

// correct fills in Holm's correction: for the primary score over the candidates,
// for all others over the secondary scores of all candidates. Scores of a candidate
// that differ alike (Score.Repeats) count once, those without any difference not at
// all: there is nothing that could be claimed of them.
func correct(results []Result) {
	var primary, secondary [][]*Score
	for i := range results {
		at := map[string]int{} // where the scores that differ alike stand
		for j := range results[i].Scores {
			s := &results[i].Scores[j]
			first := cmp.Or(s.Repeats, s.Name)
			switch set, known := at[first]; {
			case s.P == nil:
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

// holm corrects the p-values of sets of scores, of which those of one set are equal.
func holm(sets [][]*Score) {
	p := make([]float64, len(sets))
	for i, set := range sets {
		p[i] = *set[0].P
	}
	for i, corrected := range stats.Holm(p) {
		for _, s := range sets[i] {
			s.PHolm = &corrected
		}
	}
}

// mcNemar tests whether a yes/no score changed more often in one direction. A
// score is one when it says so and is 0 or 1 in every item of both runs: averages
// over trials may not be. Items of a cluster are not independent, as the test takes
// them to be: with clusters there is no p-value but the score's own.
func (c Config) mcNemar(name string, col *column) YesNo {
	y := col.yesNo
	y.Name = name
	if p, ok := stats.McNemar(y.Gained, y.Lost); ok && !c.clustered() {
		y.P = &p
	}
	return y
}
