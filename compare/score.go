package compare

import (
	"cmp"

	"extraction-experiment/internal/stats"
)

// score turns a column into the comparison of one score.
func (c *Comparer) score(name string, col *column, clustered bool) Score {
	s := Score{
		Name: name, LowerIsBetter: c.config.lower(name), N: len(col.differences),
		Undefined: col.undefined, UndefinedBase: col.undefinedBase, UndefinedCandidate: col.undefinedCand,
		Wins: col.wins, Losses: col.losses, Ties: len(col.differences) - col.wins - col.losses,
		Verdict: Unclear, // until the p-values are corrected
	}
	if s.LowerIsBetter {
		s.Wins, s.Losses = s.Losses, s.Wins
	}
	s.Base, s.Candidate = mean(col.base), mean(col.cand)
	c.estimate(&s, col, clustered)
	s.Pooled = c.pooled(col, clustered)
	s.Weighted = col.weights.mean(s.N)
	return s
}

// estimate fills in what follows from the differences.
func (c *Comparer) estimate(s *Score, col *column, clustered bool) {
	var m stats.Moments
	for _, d := range col.differences {
		m.Add(d)
	}
	s.Difference = mean(m)
	plain, ok := stats.PairedMean(col.differences)
	flipped := col.differences
	if clustered && len(col.differences) > 0 {
		var numbers []int
		numbers, s.Clusters = clusterNumbers(col.clusters)
		if ok {
			s.Unclustered = &[2]float64{plain.Lo, plain.Hi}
		}
		plain, ok = stats.ClusteredMean(col.differences, numbers)
		flipped = stats.ClusterSums(col.differences, numbers)
	}
	if p, ok := stats.SignFlip(flipped, c.config.Flips, c.config.Seed); ok && s.N > 0 {
		s.P, s.PExact = &p.P, p.Exact
	}
	if ok {
		s.SE, s.DF, s.CI95 = &plain.SE, &plain.DF, &[2]float64{plain.Lo, plain.Hi}
	}
	if col.bounded() { // what is cut away holds no possible difference
		for _, ci := range []*[2]float64{s.CI95, s.Unclustered} {
			if ci != nil {
				ci[0], ci[1] = max(ci[0], -1), min(ci[1], 1)
			}
		}
	}
	if lo, hi, ok := stats.YesNoInterval95(col.gained, col.lost, s.N); ok && !clustered && s.N > 1 && col.whole() {
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
func (c *Comparer) pooled(col *column, clustered bool) *Pooled {
	if col.noRatio > 0 || len(col.ratios) == 0 {
		return nil
	}
	units := col.ratios
	if clustered {
		units = clusterRatios(col.ratios, col.ratioClusters)
	}
	p, ok := stats.PooledDifference(units, c.config.Seed)
	if !ok {
		return nil
	}
	return &Pooled{len(col.ratios), p.Base, p.Candidate, p.Difference, p.CI95}
}

// verdict claims something only if there is enough to go by. P-values are corrected
// before.
func (s Score) verdict() Verdict {
	switch {
	case s.Doubt != "":
		return Unclear
	case s.same():
		return Same
	case !s.claims() || !s.significant():
		return Unclear
	}
	lo, hi := s.CI95[0], s.CI95[1]
	if s.LowerIsBetter {
		lo, hi = -hi, -lo
	}
	switch {
	case lo > 0:
		return Better
	case hi < 0:
		return Worse
	}
	return Unclear
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

func mean(m stats.Moments) *float64 {
	if v, ok := m.Mean(); ok {
		return &v
	}
	return nil
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

// conclude says what the corrected p-values allow to, and judges the gate.
func (c *Comparer) conclude(base Side, r *Result) (err error) {
	if len(r.Incompatible) > 0 {
		return nil
	}
	for i := range r.Scores {
		r.Scores[i].Verdict = r.Scores[i].verdict()
	}
	r.Verdict = r.Primary().Verdict
	r.Gate, err = c.config.Gate.judge(base, *r)
	return err
}
