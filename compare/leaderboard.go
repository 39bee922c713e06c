package compare

import (
	"errors"
	"fmt"
	"strings"
)

// Leaderboard is what ranking several runs of the same items comes to; its JSON
// is what --json prints of a sweep. Numbers are not rounded.
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
	// Front says that no other run is at least as good and at most as dear, and
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

// Err is a *PairError for runs that cannot be compared, one for every second run;
// nil if all can.
func (l Leaderboard) Err() error {
	var problems []error
	seen := map[string]bool{}
	for _, p := range l.Pairs {
		if len(p.Incompatible) > 0 && !seen[p.Second] {
			seen[p.Second] = true
			problems = append(problems, &PairError{p})
		}
	}
	return errors.Join(problems...)
}

// PairError says that two runs of a Leaderboard cannot be compared.
type PairError struct{ Pair Pair }

// Error lists everything that differs, one per line.
func (e *PairError) Error() string {
	return fmt.Sprintf("%s and %s cannot be compared:\n%s", e.Pair.First, e.Pair.Second, strings.Join(e.Pair.Reasons(), "\n"))
}

// Reasons says in one line each why the two cannot be compared.
func (p Pair) Reasons() []string {
	var lines []string
	for _, m := range p.Incompatible {
		lines = append(lines, m.between("the first", "the second"))
	}
	return lines
}

// ExitCode is that of runs that cannot be compared.
func (e *PairError) ExitCode() int { return 2 }
