package compare

import (
	"math"
	"slices"

	"extraction-experiment/internal/stats"
)

// column is one score over the items of both runs: all that is kept of them.
type column struct {
	differences []float64
	items       []int32 // the number of each
	clusters    []int32
	base, cand  stats.Moments
	wins        int // differences above 0
	losses      int // below

	weights weights // of those items that have one

	ratios        []stats.PairedRatio
	ratioClusters []int32
	noRatio       int // scored items without

	undefined, undefinedBase, undefinedCand int

	boolean, between            bool // values mean no or yes; one is neither 0 nor 1
	gained, lost, both, neither int
}

// add takes the score of one item into account; nil is a run whose outcome does
// not list it.
func (c *column) add(base, cand *value, item, cluster int, scored bool) {
	b, inBase := base.defined()
	d, inCand := cand.defined()
	if !inBase || !inCand {
		c.undefined++
		switch {
		case inCand:
			c.undefinedBase++
		case inBase:
			c.undefinedCand++
		}
		return
	}
	difference := d - b
	switch {
	case difference > Epsilon:
		c.wins++
	case difference < -Epsilon:
		c.losses++
	default:
		difference = 0
	}
	c.base.Add(b)
	c.cand.Add(d)
	c.differences = append(c.differences, difference)
	c.items = append(c.items, int32(item))
	c.clusters = append(c.clusters, int32(cluster))
	c.weights.add(base, cand, b, d)
	c.boolean = c.boolean || base.boolean || cand.boolean
	c.yesNo(b, d)
	c.ratio(base, cand, cluster, scored)
}

func (v *value) defined() (float64, bool) {
	if v == nil {
		return 0, false
	}
	return v.mean()
}

func (c *column) yesNo(b, d float64) {
	switch [2]float64{b, d} {
	case [2]float64{0, 0}:
		c.neither++
	case [2]float64{1, 1}:
		c.both++
	case [2]float64{0, 1}:
		c.gained++
	case [2]float64{1, 0}:
		c.lost++
	default:
		c.between = true
	}
}

// ratio keeps the counts of an item; one that failed has those of error alone.
func (c *column) ratio(base, cand *value, cluster int, scored bool) {
	if base.ratios < base.n || cand.ratios < cand.n {
		if scored {
			c.noRatio++
		}
		return
	}
	c.ratios = append(c.ratios, stats.PairedRatio{BaseNum: base.num, BaseDen: base.den, CandNum: cand.num, CandDen: cand.den})
	c.ratioClusters = append(c.ratioClusters, int32(cluster))
}

// clusterNumbers returns the cluster of every difference.
func clusterNumbers(list []int32) (numbers []int, different int) {
	seen := map[int32]bool{}
	numbers = make([]int, len(list))
	for i, n := range list {
		numbers[i] = int(n)
		seen[n] = true
	}
	return numbers, len(seen)
}

// bounded reports whether all values of both runs lie in [0,1], and differences in
// [-1,1] therefore.
func (c *column) bounded() bool {
	for _, m := range []stats.Moments{c.base, c.cand} {
		if least, top, ok := m.Range(); ok && (least < 0 || top > 1) {
			return false
		}
	}
	return true
}

// whole reports whether every difference is −1, 0 or 1, of values from 0 to 1: that
// of a yes/no score, or of any score of which no item differs.
func (c *column) whole() bool { return c.bounded() && c.wins+c.losses == c.gained+c.lost }

// repeats reports whether d differs as c does: over the same items by the same, or by
// the same with the other sign. What does not differ repeats nothing.
func (c *column) repeats(d *column) bool {
	if c.wins+c.losses == 0 || !slices.Equal(c.items, d.items) {
		return false
	}
	for _, sign := range []float64{1, -1} {
		if slices.EqualFunc(c.differences, d.differences, func(a, b float64) bool { return math.Abs(a-sign*b) <= Epsilon }) {
			return true
		}
	}
	return false
}

// clusterRatios adds the counts of each cluster together.
func clusterRatios(ratios []stats.PairedRatio, cluster []int32) []stats.PairedRatio {
	at := map[int32]int{}
	var sums []stats.PairedRatio
	for i, r := range ratios {
		j, known := at[cluster[i]]
		if !known {
			j = len(sums)
			at[cluster[i]] = j
			sums = append(sums, stats.PairedRatio{})
		}
		sums[j] = sums[j].Plus(r)
	}
	return sums
}

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }
