package scoring

import (
	"reflect"
	"testing"

	"extraction-experiment/internal/cli"
)

// TestMatching_solve_withoutBudget checks that a component that is too large for the best
// assignment is solved by the best pair first, in any order of its links, and is counted as
// degraded. For the first component, the best pair first gives 10 + 1, the best assignment 9 + 8.
// The second component has one link and does not change.
func TestMatching_solve_withoutBudget(t *testing.T) {
	single := func(n int) (nodes []node) {
		for i := range n {
			nodes = append(nodes, node{first: i, size: 1, pools: []pool{{0, []int{i}}}})
		}
		return nodes
	}
	links := []link{
		{expected: 0, extracted: 0, gain: gain{1, 10}}, {expected: 0, extracted: 1, gain: gain{1, 9}},
		{expected: 1, extracted: 0, gain: gain{1, 8}}, {expected: 1, extracted: 1, gain: gain{1, 1}},
		{expected: 2, extracted: 2, gain: gain{1, 5}},
	}
	for name, tt := range map[string]struct {
		budget   int64
		pairs    [][2]int
		degraded int
	}{
		"the best assignment": {assignAllowance, [][2]int{{0, 1}, {1, 0}, {2, 2}}, 0},
		"the best pair first": {0, [][2]int{{0, 0}, {1, 1}, {2, 2}}, 1},
	} {
		m := &matching{expected: single(3), extracted: single(3), links: append([]link{}, links...), transport: &transport{}}
		m.solve(&budget{tt.budget})
		got := cli.Each(m.pairs, func(p pairing) [2]int { return [2]int{p.expected, p.extracted} })
		if !reflect.DeepEqual(got, tt.pairs) || m.degraded != tt.degraded {
			t.Errorf("%s: %v, %d degraded; want %v, %d", name, got, m.degraded, tt.pairs, tt.degraded)
		}
	}
}
