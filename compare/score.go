package compare

import "extraction-experiment/internal/stats"

// score turns a column into the comparison of one score.
func (c *Comparer) score(name string, col *column, clustered bool) Score {
	s := Score{
		Name: name, LowerIsBetter: c.config.lower(name), N: len(col.differences),
		Undefined: col.undefined, UndefinedBase: col.undefinedBase, UndefinedCandidate: col.undefinedCand,
		Wins: col.wins, Losses: col.losses, Ties: len(col.differences) - col.wins - col.losses,
		Verdict: Unclear,
	}
	if s.LowerIsBetter {
		s.Wins, s.Losses = s.Losses, s.Wins
	}
	s.Base, s.Candidate = mean(col.base), mean(col.cand)
	c.estimate(&s, col, clustered)
	s.Pooled = c.pooled(col, clustered)
	s.Weighted = col.weights.mean(s.N)
	s.Verdict = verdict(s, col.sameEverywhere())
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
	if !ok {
		return
	}
	s.SE, s.DF, s.CI95 = &plain.SE, &plain.DF, &[2]float64{plain.Lo, plain.Hi}
	if col.bounded() { // by the same reason as stats.Moments.ScoreInterval95
		for _, ci := range []*[2]float64{s.CI95, s.Unclustered} {
			if ci != nil {
				ci[0], ci[1] = max(ci[0], -1), min(ci[1], 1)
			}
		}
	}
	if effect, ok := stats.DetectableDifference(plain.SE); ok {
		s.Detectable = &effect
	}
	if n, ok := stats.NeededPairs(s.N, plain.SE, plain.Mean); ok {
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

// verdict claims something only if there is enough to go by.
func verdict(s Score, same bool) Verdict {
	switch {
	case same:
		return Same
	case !s.claims():
		return Unclear
	}
	lo, hi := s.CI95[0], s.CI95[1]
	if s.LowerIsBetter {
		lo, hi = -hi, -lo
	}
	switch {
	case !s.significant():
		return Unclear
	case lo > 0:
		return Better
	case hi < 0:
		return Worse
	}
	return Unclear
}

// significant reports whether the p-value allows to claim a difference.
func (s Score) significant() bool { return s.P != nil && *s.P <= alpha }

// claims reports whether there are enough items and clusters to claim anything.
func (s Score) claims() bool {
	return s.CI95 != nil && s.N >= LeastItems && (s.Clusters == 0 || s.Clusters >= LeastClusters)
}

func mean(m stats.Moments) *float64 {
	if v, ok := m.Mean(); ok {
		return &v
	}
	return nil
}

// correct fills in Holm's correction: over the secondary scores of each
// candidate, and over the candidates for the primary score.
func correct(results []Result) {
	var primary []*Score
	for i := range results {
		var secondary []*Score
		for j := range results[i].Scores {
			s := &results[i].Scores[j]
			switch {
			case s.P == nil:
			case s.Primary:
				primary = append(primary, s)
			default:
				secondary = append(secondary, s)
			}
		}
		holm(secondary)
	}
	holm(primary)
}

func holm(scores []*Score) {
	p := make([]float64, len(scores))
	for i, s := range scores {
		p[i] = *s.P
	}
	for i, corrected := range stats.Holm(p) {
		scores[i].PHolm = &corrected
	}
}
