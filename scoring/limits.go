package scoring

// The allowances of one call, in steps of very roughly one nanosecond. They
// are counted, not timed, and spent in an order that depends on content only,
// so that the same lists always stop at the same place.
const (
	// searchAllowance bounds the search for similar names, per family. About
	// 30,000 names against 30,000 without any equal ones fit.
	searchAllowance = 1_000_000_000
	// editCost is charged for each step of an edit distance.
	editCost = 3
	// edgeCost is charged for each pair found, which bounds their memory: at
	// most two million of them.
	edgeCost = 500
	// assignAllowance bounds the assignment, per family.
	assignAllowance = 500_000_000
	// arcLimit bounds the memory of one assignment.
	arcLimit = 2_000_000
	// unitLimit keeps the digits of a gain apart, see gain.
	unitLimit = 1 << 17
	// nearestEdits is how many edits away the nearest miss may be.
	nearestEdits = 200
	// nearestAllowance bounds the search for the nearest misses, which
	// explain and never count.
	nearestAllowance = 50_000_000
)

// budget is an allowance that is being spent.
type budget struct{ left int64 }

// spend takes n steps and reports whether the allowance covered them.
func (b *budget) spend(n int) bool {
	b.left -= int64(n)
	return b.left >= 0
}

func (b *budget) exhausted() bool { return b.left < 0 }

// covers reports whether an edit distance within limit is covered, and uses
// the allowance up if it is not.
func (b *budget) covers(limit int) bool {
	if int64(limit)*int64(limit) <= b.left {
		return true
	}
	b.left = -1
	return false
}
