package compare

import "extraction-experiment/internal/stats"

// yesNo tests whether a yes/no score changed more often in one direction. A
// score is one when it says so and is 0 or 1 in every item of both runs: averages
// over trials may not be. Items of a cluster are not independent, as the test takes
// them to be: with clusters there is no p-value but the score's own.
func yesNo(name string, c *column, clustered bool) YesNo {
	y := YesNo{Name: name, Gained: c.gained, Lost: c.lost, Both: c.both, None: c.neither}
	if p, ok := stats.McNemar(c.gained, c.lost); ok && !clustered {
		y.P = &p
	}
	return y
}
