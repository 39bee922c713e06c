package compare

import (
	"context"
	"fmt"
	"iter"

	"extraction-experiment/outcome"
)

// units gathers the outcomes of a run item by item, and hands every outcome to
// each as well. It refuses a source whose outcomes are not in order.
func units(ctx context.Context, s Source, each func(outcome.Outcome)) iter.Seq2[*unit, error] {
	return func(yield func(*unit, error) bool) {
		var u *unit
		for o, err := range s.Outcomes(ctx) {
			if err == nil && u != nil && o.Item < u.id {
				err = fmt.Errorf("reading %s: item %q stands behind %q, outcomes must come in order of their ids", s.Where(), o.Item, u.id)
			}
			if err != nil {
				yield(nil, err)
				return
			}
			each(o)
			if u != nil && o.Item == u.id {
				u.add(o)
				continue
			}
			if u != nil && !yield(u, nil) {
				return
			}
			u = newUnit(o)
		}
		if u != nil {
			yield(u, nil)
		}
	}
}

// pairs goes through two runs at once. An item that has no outcome in one of
// them comes with nil there.
func pairs(base, cand iter.Seq2[*unit, error], pair func(base, cand *unit)) error {
	nextBase, stopBase := iter.Pull2(base)
	defer stopBase()
	nextCand, stopCand := iter.Pull2(cand)
	defer stopCand()
	b, err, inBase := nextBase()
	if err != nil {
		return err
	}
	c, err, inCand := nextCand()
	if err != nil {
		return err
	}
	for inBase || inCand {
		left := inBase && (!inCand || b.id <= c.id)
		right := inCand && (!inBase || c.id <= b.id)
		var ofBase, ofCand *unit
		if left {
			ofBase = b
			if b, err, inBase = nextBase(); err != nil {
				return err
			}
		}
		if right {
			ofCand = c
			if c, err, inCand = nextCand(); err != nil {
				return err
			}
		}
		pair(ofBase, ofCand)
	}
	return nil
}
