package compare

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"

	"extraction-experiment/internal/stats"
	"extraction-experiment/internal/textutil"
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
	if s.Incomparable != "" {
		out.Answer, out.Reason = Inconclusive, s.Name+" "+s.Incomparable
		return out
	}
	if result.Identical && s.same() {
		out.CI95, out.Answer = nil, answer(r.holds(0, r.Offset))
		out.Reason = fmt.Sprintf("identical results in all %s; allowed is %s %s", textutil.Counted(result.Items, "item"), r.Op, signed(r.Offset))
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
		return textutil.Counted(s.Clusters, "cluster")
	}
	return textutil.Counted(s.N, "item")
}

// leavesOut says why a pooled value decides nothing where something failed: it
// would favour whoever fails on what is hard.
func leavesOut(failed, all int, noun string) string {
	return fmt.Sprintf("%d of %s failed and have no counts, which a pooled value leaves out; ask for the mean, in which they count as 0", failed, textutil.Counted(all, noun))
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

// score turns a column into the comparison of one score.
func (c *Comparer) score(name string, col *column, clustered bool) Score {
	s := Score{
		Name: name, LowerIsBetter: c.config.lower(name), N: len(col.differences),
		Undefined: col.undefined, UndefinedBase: col.undefinedBase, UndefinedCandidate: col.undefinedCand,
		Wins: col.wins, Losses: col.losses, Ties: len(col.differences) - col.wins - col.losses,
		Verdict: Unclear, // until the p-values are corrected
	}
	if s.LowerIsBetter {
		s.Wins, s.Losses = s.Losses, s.Wins
	}
	s.Base, s.Candidate = mean(col.base), mean(col.cand)
	c.estimate(&s, col, clustered)
	s.Pooled = c.pooled(col, clustered)
	s.Weighted = col.weights.mean(s.N)
	return s
}

// estimate fills in what follows from the differences.
func (c *Comparer) estimate(s *Score, col *column, clustered bool) {
	var m stats.Moments
	for _, d := range col.differences {
		m.Add(d)
	}
	s.Difference = mean(m)
	plain, ok := stats.PairedMean(col.differences)
	flipped := col.differences
	if clustered && len(col.differences) > 0 {
		var numbers []int
		numbers, s.Clusters = clusterNumbers(col.clusters)
		if ok {
			s.Unclustered = &[2]float64{plain.Lo, plain.Hi}
		}
		plain, ok = stats.ClusteredMean(col.differences, numbers)
		flipped = stats.ClusterSums(col.differences, numbers)
	}
	if p, ok := stats.SignFlip(flipped, c.config.Flips, c.config.Seed); ok && s.N > 0 {
		s.P, s.PExact = &p.P, p.Exact
	}
	if ok {
		s.SE, s.DF, s.CI95 = &plain.SE, &plain.DF, &[2]float64{plain.Lo, plain.Hi}
	}
	if col.bounded() { // what is cut away holds no possible difference
		for _, ci := range []*[2]float64{s.CI95, s.Unclustered} {
			if ci != nil {
				ci[0], ci[1] = max(ci[0], -1), min(ci[1], 1)
			}
		}
	}
	if lo, hi, ok := stats.YesNoInterval95(col.gained, col.lost, s.N); ok && !clustered && s.N > 1 && col.whole() {
		s.CI95 = &[2]float64{lo, hi}
	}
	if !s.claims() || s.N-s.Ties < LeastItems { // of fewer that differ nothing would ever be claimed
		return
	}
	if effect, ok := stats.DetectableDifference(plain); ok {
		s.Detectable = &effect
	}
	if n, ok := stats.NeededPairs(s.N, plain); ok {
		s.Needed = &n
	}
}

// pooled is nil where an item was scored without counts.
func (c *Comparer) pooled(col *column, clustered bool) *Pooled {
	if col.noRatio > 0 || len(col.ratios) == 0 {
		return nil
	}
	units := col.ratios
	if clustered {
		units = clusterRatios(col.ratios, col.ratioClusters)
	}
	p, ok := stats.PooledDifference(units, c.config.Seed)
	if !ok {
		return nil
	}
	return &Pooled{len(col.ratios), p.Base, p.Candidate, p.Difference, p.CI95}
}

// verdict claims something only if there is enough to go by. P-values are corrected
// before.
func (s Score) verdict() Verdict {
	switch {
	case s.Incomparable != "":
		return Unclear
	case s.same():
		return Same
	case !s.claims() || !s.significant():
		return Unclear
	}
	lo, hi := s.CI95[0], s.CI95[1]
	if s.LowerIsBetter {
		lo, hi = -hi, -lo
	}
	switch {
	case lo > 0:
		return Better
	case hi < 0:
		return Worse
	}
	return Unclear
}

// same reports whether no item differs.
func (s Score) same() bool { return s.N > 0 && s.Ties == s.N }

// significant reports whether the corrected p-value allows to claim a difference.
func (s Score) significant() bool { return s.PHolm != nil && *s.PHolm <= alpha }

// claims reports whether there are enough items and clusters to claim anything.
func (s Score) claims() bool { return s.CI95 != nil && s.enough() }

func (s Score) enough() bool {
	return s.N >= LeastItems && (s.Clusters == 0 || s.Clusters >= LeastClusters)
}

func mean(m stats.Moments) *float64 {
	if v, ok := m.Mean(); ok {
		return &v
	}
	return nil
}

// correct fills in Holm's correction: for the primary score over the candidates,
// for all others over the secondary scores of all candidates. Scores of a candidate
// that differ alike (Score.Repeats) count once, those without any difference not at
// all: there is nothing that could be claimed of them.
func correct(results []Result) {
	var primary, secondary [][]*Score
	for i := range results {
		at := map[string]int{} // where the scores that differ alike stand
		for j := range results[i].Scores {
			s := &results[i].Scores[j]
			first := cmp.Or(s.Repeats, s.Name)
			switch set, known := at[first]; {
			case s.P == nil:
			case s.same():
				s.PHolm = s.P
			case s.Primary:
				primary = append(primary, []*Score{s})
			case known:
				secondary[set] = append(secondary[set], s)
			default:
				at[first] = len(secondary)
				secondary = append(secondary, []*Score{s})
			}
		}
	}
	holm(primary)
	holm(secondary)
}

// holm corrects the p-values of sets of scores, of which those of one set are equal.
func holm(sets [][]*Score) {
	p := make([]float64, len(sets))
	for i, set := range sets {
		p[i] = *set[0].P
	}
	for i, corrected := range stats.Holm(p) {
		for _, s := range sets[i] {
			s.PHolm = &corrected
		}
	}
}

// conclude says what the corrected p-values allow to, and judges the gate.
func (c *Comparer) conclude(base Side, r *Result) (err error) {
	if len(r.Incompatible) > 0 {
		return nil
	}
	for i := range r.Scores {
		r.Scores[i].Verdict = r.Scores[i].verdict()
	}
	r.Verdict = r.Primary().Verdict
	r.Gate, err = c.config.Gate.judge(base, *r)
	return err
}

// changed is an item on the shortlist, with the outcomes that explain it.
type changed struct {
	ItemChange
	base, cand outcome.Outcome
}

// change offers an item to the lists of those that changed most. Delta is
// turned round where less is better, so that below 0 is always worse.
func (r *collector) change(base, cand *unit) {
	b, inBase := base.find(r.known.metric).defined()
	c, inCand := cand.find(r.known.metric).defined()
	if !inBase || !inCand || math.Abs(c-b) <= Epsilon {
		return
	}
	item := ItemChange{Item: base.id, Base: b, Candidate: c, Delta: c - b}
	r.changed.Offer(changed{item, base.first, cand.first})
	worse := item
	if r.config.config.lower(r.known.metric) {
		worse.Delta = -worse.Delta
	}
	if worse.Delta < -Epsilon {
		r.regressed.Offer(worse)
	}
}

// compareChanged puts the largest changes first, of equal ones the losses.
func compareChanged(a, b changed) int {
	return cmp.Or(cmp.Compare(math.Abs(b.Delta), math.Abs(a.Delta)), cmp.Compare(a.Delta, b.Delta), cmp.Compare(a.Item, b.Item))
}

// changes explains the items of the shortlist.
func (r *collector) changes() ([]Change, error) {
	list := []Change{}
	for _, item := range r.changed.Values() {
		c := Change{
			ItemChange:       item.ItemChange,
			BaseComment:      comment(item.base, r.known.metric),
			CandidateComment: comment(item.cand, r.known.metric),
			BaseFailure:      failure(item.base),
			CandidateFailure: failure(item.cand),
		}
		before, err := r.matches(item.base)
		if err != nil {
			return nil, fmt.Errorf("reading what the base matched in item %q: %w", item.Item, err)
		}
		after, err := r.matches(item.cand)
		if err != nil {
			return nil, fmt.Errorf("reading what the candidate matched in item %q: %w", item.Item, err)
		}
		c.Lost, c.Gained, c.Kept = without(before, after), without(after, before), len(before)
		c.Kept -= len(c.Lost)
		list = append(list, c)
	}
	return list, nil
}

func (r *collector) matches(o outcome.Outcome) ([]string, error) {
	if r.config.config.Matches == nil || !isValue(o.Explanation) {
		return nil, nil
	}
	return r.config.config.Matches(o.Explanation)
}

// without returns the lines of a that b does not have, each as often as a has
// it more.
func without(a, b []string) []string {
	left := slices.Clone(b)
	rest := []string{}
	for _, line := range a {
		if i := slices.Index(left, line); i >= 0 {
			left = slices.Delete(left, i, i+1)
			continue
		}
		rest = append(rest, line)
	}
	return rest
}

func comment(o outcome.Outcome, metric string) string {
	s, _ := outcome.Lookup(o.Scores, metric)
	return s.Comment
}

func failure(o outcome.Outcome) string {
	switch {
	case !o.Failed():
		return ""
	case o.Failure != nil:
		return o.Failure.Error()
	}
	return string(o.Class)
}

func isValue(raw json.RawMessage) bool { return len(raw) > 0 && string(raw) != "null" }

// amounts accumulates something consumed per item.
type amounts struct {
	differences []float64
	base, cand  stats.Moments
	unknown     [2]int
}

func (a *amounts) add(base, cand amount, baseTrials, candTrials int) {
	b, inBase := base.mean(baseTrials)
	c, inCand := cand.mean(candTrials)
	if !inBase {
		a.unknown[0]++
	}
	if !inCand {
		a.unknown[1]++
	}
	if inBase && inCand {
		a.base.Add(b)
		a.cand.Add(c)
		a.differences = append(a.differences, c-b)
	}
}

func (a *amounts) amount() Amount {
	out := Amount{N: len(a.differences), Base: mean(a.base), Candidate: mean(a.cand)}
	var m stats.Moments
	for _, d := range a.differences {
		m.Add(d)
	}
	out.Difference = mean(m)
	if e, ok := stats.PairedMean(a.differences); ok {
		out.CI95 = &[2]float64{e.Lo, e.Hi}
	}
	if out.Base != nil && *out.Base > 0 {
		if ratio := *out.Candidate / *out.Base; finite(ratio) {
			out.Ratio = &ratio
		}
	}
	return out
}

// amount is something consumed by an item, over its trials.
type amount struct {
	sum float64
	n   int
}

func (a amount) mean(trials int) (float64, bool) {
	if a.n == 0 || a.n < trials {
		return 0, false
	}
	return a.sum / float64(a.n), true
}

// mcNemar tests whether a yes/no score changed more often in one direction. A
// score is one when it says so and is 0 or 1 in every item of both runs: averages
// over trials may not be. Items of a cluster are not independent, as the test takes
// them to be: with clusters there is no p-value but the score's own.
func mcNemar(name string, c *column, clustered bool) YesNo {
	y := YesNo{Name: name, Gained: c.gained, Lost: c.lost, Both: c.both, None: c.neither}
	if p, ok := stats.McNemar(c.gained, c.lost); ok && !clustered {
		y.P = &p
	}
	return y
}
