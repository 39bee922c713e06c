package tracking

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"extraction-experiment/internal/cli"
	"extraction-experiment/langfuse"
	"extraction-experiment/runstore"
)

// Repair verifies a run, repairs the differences, and verifies it again. It returns the
// verifications before and after.
//
// Repair sends missing or different parts again with the same ids and times. A changed score
// gets a later timestamp, because Langfuse keeps the score with the latest one; if Langfuse
// still keeps the changed score, because the clock of its writer was ahead, Repair deletes it
// and sends it once more. Repair deletes doubled scores if the run derives their id or if
// their value equals that of the run's own score. It does not touch findings with
// NeedsDecision. It records in the run file what to send again before it sends it.
//
// If Langfuse is still working after half of the time until a deadline of ctx, Repair changes
// nothing. At the deadline it returns the last verifications, or an *UnpublishedError. Its errors
// are those of Verify and Publish. If the run belongs to another server, or if its dataset was
// deleted and created again, Repair reads nothing back and writes nothing. If Langfuse refuses
// some parts for good, Repair repairs the rest, and returns complete verifications together with an
// *UnpublishedError.
func Repair(ctx context.Context, cfg VerifyConfig, publish Config) (before, after Verification, err error) {
	cfg.Run = publish.Run.Reader
	v, err := openVerifier(ctx, cfg)
	if err == nil {
		err = cfg.checkDataset(ctx, v.header)
	}
	if err != nil {
		return before, after, err
	}
	firstCtx := ctx
	if deadline, ok := ctx.Deadline(); ok {
		half, cancel := context.WithTimeout(ctx, time.Until(deadline)/2)
		defer cancel()
		firstCtx = half
	}
	if before, err = v.poll(firstCtx); err != nil || before.Pending || before.Repairable() == 0 {
		return before, before, err
	}
	after, err = v.repair(ctx, before, publish)
	if unpublished, ok := errors.AsType[*UnpublishedError](err); ok {
		after.Pending = !unpublished.Refused // the rest can be sent later
	} else if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		after.Pending, err = true, nil
	}
	return before, after, err
}

// repair repairs the findings of before, and returns the verification after that.
func (v *verifier) repair(ctx context.Context, before Verification, publish Config) (after Verification, err error) {
	after = before
	ended := make(chan struct{})
	close(ended)
	// The first repair may require a second one: a deleted run gets another id when its
	// items are linked again, and a score that Langfuse keeps must be deleted first.
	var refused *UnpublishedError
	for try := 0; try < 2 && after.Repairable() > 0 && refused == nil; try++ {
		v.publish = &publish
		if gone, err := v.deleteUnchanged(ctx, before, after, try); err != nil || !gone {
			after.explainUnchanged(before)
			return after, err
		}
		if err := v.compareAll(ctx); err != nil {
			return after, err
		}
		if err := Publish(ctx, publish, ended); err != nil && (!errors.As(err, &refused) || !refused.Refused) {
			return after, err
		}
		v = newVerifier(v.cfg, v.header)
		v.sent = true
		verification, err := v.poll(ctx)
		if err != nil {
			return after, err
		}
		after = verification
	}
	after.explainUnchanged(before)
	if refused != nil {
		return after, refused
	}
	return after, nil
}

// repairs collects the changes that would repair the differences of a page.
type repairs struct {
	resets  []runstore.Reset
	deletes []string // ids of scores
}

// resend schedules parts of an outcome to be sent again, unchanged.
func (r *repairs) resend(oid int64, part runstore.Published) {
	r.resets = append(r.resets, runstore.Reset{OID: oid, Bits: part})
}

// apply writes the repairs into the run file, where the publisher finds them, deletes
// doubled scores, and empties r. If v.publish is nil it only empties r.
func (r *repairs) apply(ctx context.Context, v *verifier) error {
	pending := *r
	*r = repairs{}
	if v.publish == nil {
		return nil
	}
	if err := v.publish.Run.Reset(ctx, pending.resets...); err != nil {
		return err
	}
	// Langfuse showed each of these scores, so it has stored them and will not lose the
	// deletion. The next verification shows whether they are gone.
	if err := v.cfg.deleteScores(ctx, pending.deletes); err != nil {
		return fmt.Errorf("deleting doubled scores: %w", err)
	}
	return nil
}

// deleteUnchanged deletes the scores that were sent again without effect, and reports whether
// they are gone. The caller must not send them again before that, because the deletion would
// remove the new score too.
func (v *verifier) deleteUnchanged(ctx context.Context, before, after Verification, try int) (gone bool, err error) {
	ids := cli.Each(after.stillChanged(before), func(f *Finding) string { return f.ScoreID })
	if try == 0 || len(ids) == 0 {
		return true, nil
	}
	// Langfuse showed each of these scores, so no deletion can come before its score.
	if err := v.cfg.deleteScores(ctx, ids); err != nil {
		return false, fmt.Errorf("deleting scores that Langfuse keeps: %w", err)
	}
	err = v.cfg.Wait.Until(ctx, func(ctx context.Context) (bool, error) {
		left, err := v.cfg.readableScores(ctx, ids)
		gone = len(left) == 0
		return gone, err
	})
	if _, late := errors.AsType[*langfuse.NotYetError](err); late {
		err = nil
	}
	return gone, err
}

// resetRunScores schedules the run scores of a trial to be sent again, with a timestamp of at
// least at, or with their old timestamp if at is zero. If v.publish is nil it does nothing.
func (v *verifier) resetRunScores(ctx context.Context, trial int, at time.Time) error {
	if v.publish == nil {
		return nil
	}
	scores, known, err := v.publish.Run.RunScores(ctx, trial)
	if err != nil || !known {
		return err // without stored scores the publisher sends them anyway
	}
	scores.Acknowledged = false
	if !at.IsZero() {
		scores.At = latest(at, scores.At.Add(time.Millisecond))
	}
	return v.publish.Run.SetRunScores(ctx, scores)
}

// stillChanged returns the findings of changed scores that were in the verification before they
// were sent again, too.
func (v *Verification) stillChanged(before Verification) []*Finding {
	var findings []*Finding
	for i := range v.Findings {
		f := &v.Findings[i]
		same := func(b Finding) bool { return b.Kind == ChangedScore && b.ScoreID == f.ScoreID }
		if f.Kind == ChangedScore && slices.ContainsFunc(before.Findings, same) {
			findings = append(findings, f)
		}
	}
	return findings
}

// explainUnchanged adds an explanation to the findings of stillChanged.
func (v *Verification) explainUnchanged(before Verification) {
	for _, f := range v.stillChanged(before) {
		f.Detail += "; sent again, and Langfuse keeps it: it was stored with a later time, by a clock that is ahead; " +
			"its deletion shows no effect yet: repair again later, and if that changes nothing delete score " + f.ScoreID + " there"
	}
}
