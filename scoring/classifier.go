package scoring

import (
	"cmp"
	"math"
	"slices"
)

// classifier collects the faults of one family.
type classifier struct {
	what     string
	repeated map[int]bool // extracted, by index
	joints   []joint
	faults   []Fault

	expected, extracted map[int]bool // explained already
}

func (c *classifier) propose(j joint) {
	if !c.repeated[j.extracted] {
		c.joints = append(c.joints, j)
	}
}

// join makes faults of the proposed pairs, the best first.
func (c *classifier) join() {
	c.expected, c.extracted = map[int]bool{}, map[int]bool{}
	slices.SortFunc(c.joints, joint.compare)
	for _, j := range c.joints {
		if c.expected[j.expected] || c.extracted[j.extracted] {
			continue
		}
		c.expected[j.expected], c.extracted[j.extracted] = true, true
		c.add(j.cause, &j.expected, &j.extracted)
	}
}

// left classifies what is expected and in no pair.
func (c *classifier) left(index int, reason Reason) {
	switch {
	case c.expected[index]:
	case reason == ReasonDuplicate:
		c.add(CauseDuplicate, &index, nil)
	default:
		c.add(CauseMissed, &index, nil)
	}
}

// over classifies what is extracted and in no pair.
func (c *classifier) over(index int, reason Reason, grounded func() bool) {
	cause := CauseSpurious
	switch {
	case c.extracted[index]:
		return
	case reason == ReasonDangling || reason == ReasonEmptyEnd:
		cause = CauseDangling
	case reason == ReasonDuplicate || c.repeated[index]:
		cause = CauseDuplicate
	case reason == ReasonWrongDirection:
		cause = CauseSwapped
	case reason == ReasonWrongType:
		cause = CauseWrongRelationshipType
	case !grounded():
		cause = CauseInvented
	}
	c.add(cause, nil, &index)
}

func (c *classifier) add(cause Cause, expected, extracted *int) {
	c.faults = append(c.faults, Fault{Cause: cause, What: c.what, Expected: expected, Extracted: extracted})
}

func (c *classifier) sorted() []Fault {
	place := func(index *int) int {
		if index == nil {
			return math.MaxInt
		}
		return *index
	}
	slices.SortStableFunc(c.faults, func(a, b Fault) int {
		return cmp.Or(cmp.Compare(place(a.Expected), place(b.Expected)), cmp.Compare(place(a.Extracted), place(b.Extracted)))
	})
	return c.faults
}
