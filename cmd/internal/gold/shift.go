package gold

import (
	"context"

	"extraction-experiment/compare"
	"extraction-experiment/report"
)

// Shift completes a result with what other gold changes between runs: their ranks, and
// the verdicts and gates of all against the first. before and after are the same runs in
// the same order.
func Shift(ctx context.Context, r *report.Regold, cfg compare.Config, before, after []compare.Source) error {
	comparer, err := compare.New(cfg)
	if err != nil {
		return err
	}
	var ranks [2]compare.Leaderboard
	var against [2]compare.Comparison
	for i, sources := range [][]compare.Source{before, after} {
		if ranks[i], err = comparer.Rank(ctx, sources...); err != nil {
			return err
		}
		if len(sources) < 2 {
			continue
		}
		if against[i], err = comparer.Compare(ctx, sources[0], sources[1:]...); err != nil {
			return err
		}
	}
	r.Metric = ranks[1].Metric
	for _, moves := range r.Runs {
		shift := report.RankShift{Run: moves.From.Name, Rescored: moves.Name}
		for _, of := range ranks[0].Runs {
			if of.Summary.Run.Name == moves.From.Name {
				shift.Before, shift.RankBefore = of.Mean, of.Rank
			}
		}
		for _, of := range ranks[1].Runs {
			if of.Summary.Run.Name == moves.Name {
				shift.After, shift.RankAfter = of.Mean, of.Rank
			}
		}
		r.Ranks = append(r.Ranks, shift)
	}
	for i := range against[1].Candidates {
		was, is := against[0].Candidates[i], against[1].Candidates[i]
		verdict := report.VerdictShift{Base: r.Runs[0].From.Name, Candidate: r.Runs[i+1].From.Name, Before: was.Verdict, After: is.Verdict, Incomparable: len(was.Incompatible) > 0}
		r.Verdicts = append(r.Verdicts, verdict)
		if was.Gate == nil || is.Gate == nil {
			continue
		}
		for k, rule := range is.Gate.Rules {
			r.Gates = append(r.Gates, report.GateShift{Candidate: verdict.Candidate, Rule: rule.Rule, Before: was.Gate.Rules[k].Answer, After: rule.Answer})
		}
	}
	return nil
}
