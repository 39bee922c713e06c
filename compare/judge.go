package compare

import (
	"fmt"
	"math"
	"strings"

	"extraction-experiment/internal/printable"
	"extraction-experiment/internal/stats"
	"extraction-experiment/outcome"
)

// judge answers a rule for a candidate; Rule of the result is left to the caller.
func (r Rule) judge(base Side, result Result) (RuleResult, error) {
	switch {
	case r.measure():
		return r.judgeMeasure(&base.Summary, result.Candidate.Summary), nil
	case !r.Relative:
		return r.judgeRun(result.Candidate.Summary)
	}
	for _, s := range result.Scores {
		if s.Name == r.Metric {
			return r.judgeDifference(s, result), nil
		}
	}
	return RuleResult{}, r.unknown(scoreNames(result.Candidate.Summary))
}

// judgeDifference answers a rule about a score against the base by the
// interval of the difference: pass when all of it keeps the rule, fail when none
// of it does, inconclusive when it lies on both sides or there is none. Identical
// results need none: they do not differ. An answer that no difference at all would
// not get claims one, and needs the p-value too.
func (r Rule) judgeDifference(s Score, result Result) RuleResult {
	out := RuleResult{Threshold: r.Offset, Value: s.Difference, CI95: s.CI95}
	if s.Doubt != "" {
		out.Answer, out.Reason = Inconclusive, s.Name+" "+s.Doubt
		return out
	}
	if result.Identical && s.same() {
		out.CI95, out.Answer = nil, answer(r.holds(0, r.Offset))
		out.Reason = fmt.Sprintf("identical results in all %s; allowed is %s %s", printable.Counted(result.Items, "item"), r.Op, signed(r.Offset))
		return out
	}
	why := ""
	switch {
	case s.N == 0:
		why = "it is defined for no item in both runs"
	case !s.enough():
		out.CI95, why = nil, grouping(s)+" are too few to claim anything"
	case s.CI95 == nil:
		why = "it changed by the same in all of " + grouping(s) + ", which leaves no interval"
	}
	if r.Pooled {
		out.Value, out.CI95 = nil, nil
		why = "it has no pooled value"
		if p := s.Pooled; p != nil {
			out.Value, out.CI95 = &p.Difference, p.CI95
			why = fmt.Sprintf("there is no interval of a pooled value below %d items or clusters, or where nothing varies", stats.LeastResampled)
			if failed := s.N - p.N; failed > 0 {
				out.CI95, why = nil, leavesOut(failed, s.N, "item")
			}
		}
	}
	if out.Value == nil || out.CI95 == nil {
		out.Answer, out.Reason = Inconclusive, r.name()+": "+why
		return out
	}
	worst, best := out.CI95[0], out.CI95[1]
	if r.upper() {
		worst, best = best, worst
	}
	switch {
	case r.holds(worst, r.Offset):
		out.Answer = Pass
	case !r.holds(best, r.Offset):
		out.Answer = Fail
	default:
		out.Answer = Inconclusive
	}
	return r.claimed(out, s)
}

// claimed says what was found in the interval, and takes back a claim that the
// p-value does not bear.
func (r Rule) claimed(out RuleResult, s Score) RuleResult {
	out.Reason = fmt.Sprintf("%s changed by %s, 95 %% interval %s to %s; allowed is %s %s",
		r.name(), signed(*out.Value), signed(out.CI95[0]), signed(out.CI95[1]), r.Op, signed(r.Offset))
	claims := out.Answer != Inconclusive && answer(r.holds(0, r.Offset)) != out.Answer
	if claims && !r.Pooled && !s.significant() {
		out.Answer = Inconclusive
		out.Reason += "; a claim needs p (Holm) of at most " + decimal(alpha)
		if s.PHolm != nil {
			out.Reason += ", and it is " + decimal(math.Round(*s.PHolm*1e4)/1e4)
		}
	}
	return out
}

// grouping says over how much a score is compared.
func grouping(s Score) string {
	if s.Clusters > 0 && s.N >= LeastItems {
		return printable.Counted(s.Clusters, "cluster")
	}
	return printable.Counted(s.N, "item")
}

// leavesOut says why a pooled value decides nothing where something failed: it
// would favour whoever fails on what is hard.
func leavesOut(failed, all int, noun string) string {
	return fmt.Sprintf("%d of %s failed and have no counts, which a pooled value leaves out; ask for the mean, in which they count as 0", failed, printable.Counted(all, noun))
}

func (r Rule) name() string {
	if r.Pooled {
		return "pooled " + r.Metric
	}
	return r.Metric
}

// judgeRun answers a rule about a score of one run by itself. It is an error
// when the run does not have the score.
func (r Rule) judgeRun(s outcome.Summary) (RuleResult, error) {
	stat, ok := s.Scores.Lookup(r.Metric)
	if !ok {
		return RuleResult{}, r.unknown(scoreNames(s))
	}
	out := RuleResult{Threshold: r.Offset, Value: stat.FailuresAsZero, CI95: stat.CI95AsZero}
	if out.Value == nil { // a score of what was extracted alone, or of no item
		out.Value, out.CI95 = stat.Mean, stat.CI95
	}
	if r.Pooled {
		out.Value, out.CI95 = stat.Pooled, nil
	}
	if out.Value == nil {
		out.Answer, out.Reason = Inconclusive, r.name()+" is defined for no item"
		return out, nil
	}
	if stat.Unanswered > 0 { // their values could be anything
		out.Answer = Inconclusive
		out.Reason = fmt.Sprintf("%s has no value for %s: the evaluator gave none; it is %s with them as 0 and %s without them (n = %d)",
			r.name(), unanswered(stat), decimal(*out.Value), optional(stat.Mean), stat.N)
		return out, nil
	}
	failed, all, noun := stat.Failed, stat.Failed+stat.N, "item"
	if s.Trials != nil { // pooled over all outcomes, and Failed counts items of which all did
		failed, all, noun = s.Items.Failed, s.Items.Failed+s.Items.Scored, "outcome"
	}
	if r.Pooled && failed > 0 {
		out.Answer, out.Reason = Inconclusive, r.name()+": "+leavesOut(failed, all, noun)
		return out, nil
	}
	out.Answer = answer(r.holds(*out.Value, r.Offset))
	out.Reason = fmt.Sprintf("%s is %s", r.name(), decimal(*out.Value))
	return out, nil
}

// optional writes a number that may not be there.
func optional(v *float64) string {
	if v == nil {
		return "undefined"
	}
	return decimal(*v)
}

// judgeMeasure answers a rule about an observed amount. Without a base nothing
// may be relative. A cost that is only partly known is a lower bound.
func (r Rule) judgeMeasure(base *outcome.Summary, cand outcome.Summary) RuleResult {
	out := RuleResult{Threshold: r.Offset}
	value, bound := measured(r.Metric, cand)
	out.Value = value
	if r.Relative {
		of, partly := measured(r.Metric, *base)
		if of == nil || partly {
			out.Answer, out.Reason = Inconclusive, r.Metric+" of the base is not known"
			return out
		}
		out.Threshold = *of*r.Factor + r.Offset
	}
	if value == nil {
		out.Answer, out.Reason = Inconclusive, r.Metric+" is not known"
		return out
	}
	out.Answer = answer(r.holds(*value, out.Threshold))
	out.Reason = fmt.Sprintf("%s is %s; allowed is %s %s", r.Metric, r.unit(*value), r.Op, r.unit(out.Threshold))
	if bound && (out.Answer == Pass) == r.upper() {
		out.Answer = Inconclusive
		out.Reason = fmt.Sprintf("%s is at least %s and not known of every item; allowed is %s %s", r.Metric, r.unit(*value), r.Op, r.unit(out.Threshold))
	}
	return out
}

// measured returns an amount of a run; nil when it is not known. bound says
// that it is only a lower bound.
func measured(name string, s outcome.Summary) (value *float64, bound bool) {
	at := func(v float64) (*float64, bool) { return &v, false }
	switch name {
	case "coverage":
		if s.Items.Planned == 0 {
			return nil, false
		}
		return at(float64(s.Items.Scored) / float64(s.Items.Planned))
	case weightedScore:
		if s.Answers == nil {
			return nil, false
		}
		return s.WeightedScore, false
	case "failures":
		return at(float64(s.Items.Failed))
	case "cost", "cost_per_item":
		n := s.Items.Scored + s.Items.Failed
		if s.Usage.CostUSD == nil || n == 0 {
			return nil, false
		}
		cost := *s.Usage.CostUSD
		if name == "cost_per_item" {
			cost /= float64(n)
		}
		return &cost, s.Usage.CostUnknown > 0
	}
	l := s.LatencyMS
	if l == nil {
		return nil, false
	}
	return at(map[string]float64{"latency_mean": l.Mean, "latency_p50": l.P50, "latency_p95": l.P95, "latency_max": l.Max}[name])
}

func scoreNames(s outcome.Summary) []string {
	var names []string
	for _, stat := range s.Scores {
		names = append(names, stat.Name)
	}
	return names
}

// unit writes an amount with what it is measured in.
func (r Rule) unit(v float64) string {
	switch {
	case strings.HasPrefix(r.Metric, "latency_"):
		return decimal(v) + " ms"
	case strings.HasPrefix(r.Metric, "cost"):
		return "$" + decimal(v)
	}
	return decimal(v)
}
