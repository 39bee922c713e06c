package compare

import "extraction-experiment/internal/stats"

// yesNo tests whether a yes/no score changed more often in one direction. A
// score is one when it says so and is 0 or 1 in every item of both runs: averages
// over trials may not be.
func yesNo(name string, c *column) YesNo {
	p, _ := stats.McNemar(c.gained, c.lost) // counts are never negative
	return YesNo{Name: name, Gained: c.gained, Lost: c.lost, Both: c.both, None: c.neither, P: p}
}
