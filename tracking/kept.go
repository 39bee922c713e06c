package tracking

import (
	"context"
	"fmt"
	"slices"
)

// keptIDs returns the ids of scores that were changed before they were sent again,
// and still are.
func (v *Verdict) keptIDs(before Verdict) []string {
	sent := map[string]bool{}
	for _, f := range before.Findings {
		if f.Kind == ChangedScore {
			sent[f.ScoreID] = true
		}
	}
	var ids []string
	for _, f := range v.Findings {
		if f.Kind == ChangedScore && sent[f.ScoreID] {
			ids = append(ids, f.ScoreID)
		}
	}
	return ids
}

// kept explains such scores.
func (v *Verdict) kept(before Verdict) {
	ids := v.keptIDs(before)
	for i, f := range v.Findings {
		if f.Kind == ChangedScore && slices.Contains(ids, f.ScoreID) {
			v.Findings[i].Detail += "; sent again, and Langfuse keeps it: it was stored as of a later time, by a clock that is ahead; its deletion shows no effect yet: repair again later, and if that changes nothing delete score " + f.ScoreID + " there"
		}
	}
}

// deleteKept deletes the scores that were sent again, and that Langfuse keeps as
// they were, and reports whether they are gone: what is sent before that would go
// with them.
func (v *verifier) deleteKept(ctx context.Context, before, after Verdict, try int) (gone bool, err error) {
	ids := after.keptIDs(before)
	if try == 0 || len(ids) == 0 {
		return true, nil
	}
	removal, err := v.cfg.Client.DeleteScores(ctx, v.cfg.Server.Capabilities, ids, v.cfg.Wait)
	if err != nil {
		return false, fmt.Errorf("deleting scores that Langfuse keeps: %w", err)
	}
	return len(removal.Left) == 0, nil
}
