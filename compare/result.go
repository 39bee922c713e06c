package compare

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/textutil"
	"extraction-experiment/outcome"
)

// Comparison is the result of comparing a base with candidates. Its JSON is the output of --json.
// Numbers are not rounded. A nil pointer means that there is no such number.
type Comparison struct {
	Base       Side     `json:"base"`
	Metric     string   `json:"metric"` // the primary score
	ClusterBy  string   `json:"cluster_by"`
	Seed       uint64   `json:"seed"`
	Candidates []Result `json:"candidates"`
}

// Side is one run of a comparison.
type Side struct {
	Where   string          `json:"where"`
	Summary outcome.Summary `json:"summary"`
}

// Result is the comparison of one candidate with the base.
type Result struct {
	Candidate Side `json:"candidate"`
	// Incompatible lists why the runs cannot be compared. If it is not empty, the rest is.
	Incompatible []Mismatch `json:"incompatible"`

	// Verdict is the verdict of the primary score.
	Verdict  Verdict `json:"verdict"`
	Items    int     `json:"items"`    // compared
	Scored   int     `json:"scored"`   // items that failed in neither run; only these have counts
	Clusters int     `json:"clusters"` // 0 without ClusterBy
	// Identical reports whether in every trial of every item both runs have the same output, or
	// failed in the same way.
	Identical bool     `json:"identical"`
	Scores    []Score  `json:"scores"`
	YesNo     []YesNo  `json:"yes_no"`
	Cost      Amount   `json:"cost_usd"`   // per item
	Latency   Amount   `json:"latency_ms"` // per item
	Groups    []Group  `json:"groups"`
	Changed   []Change `json:"changed"` // those that changed most, by the primary score

	// Regressions is the number of items whose primary score became worse by more than Epsilon.
	// Regressed are the worst of them, at most MaxRegressed.
	Regressions int          `json:"regressions"`
	Regressed   []ItemChange `json:"regressed"`
	Gate        *GateResult  `json:"gate"` // nil without rules
	Warnings    []string     `json:"warnings"`

	// Sensitivity is set by callers that score the outputs again.
	Sensitivity *Sensitivity `json:"sensitivity,omitempty"`
}

// Primary returns the primary score. If the runs cannot be compared, it is empty and Unclear.
func (r Result) Primary() Score {
	if i := slices.IndexFunc(r.Scores, func(s Score) bool { return s.Primary }); i >= 0 {
		return r.Scores[i]
	}
	return Score{Verdict: Unclear}
}

// MaxRegressed is the most items in Result.Regressed.
const MaxRegressed = 50

// Verdict is the conclusion from the comparison of one score.
type Verdict string

// Verdicts of a comparison.
const (
	// Same: no item differs.
	Same Verdict = "same"
	// Better: the whole 95 % interval is on the good side of 0, and the corrected p-value (PHolm)
	// is at most 0.05. Each alone claims too often in some cases: the interval if few items
	// differ, the sign flips if a few clusters are large.
	Better Verdict = "better"
	// Worse: likewise, on the bad side.
	Worse Verdict = "worse"
	// Unclear: neither is shown, there are too few items or clusters, or there is no interval.
	Unclear Verdict = "unclear"
)

// alpha is the largest p-value of a claim.
const alpha = 0.05

// Below these numbers, nothing is claimed and rules about a difference are inconclusive: with 5
// items or clusters, even five wins have a p-value of 2/2^5 = 0.06.
const (
	LeastItems    = 6
	LeastClusters = 6
)

// Score compares one score of a candidate with the base, over the N items that have it in both
// runs. Failed items count as 0.
type Score struct {
	Name          string `json:"name"`
	Primary       bool   `json:"primary"`
	LowerIsBetter bool   `json:"lower_is_better"`
	N             int    `json:"n"`
	// Undefined counts items without the score in at least one run. UndefinedBase and
	// UndefinedCandidate count those without it in only that run.
	Undefined          int `json:"undefined"`
	UndefinedBase      int `json:"undefined_base"`
	UndefinedCandidate int `json:"undefined_candidate"`

	Base       *float64 `json:"base"`       // mean of the N items
	Candidate  *float64 `json:"candidate"`  // likewise
	Difference *float64 `json:"difference"` // mean of candidate − base
	SE         *float64 `json:"se"`         // of Difference, clustered if ClusterBy is set; nil if nothing varies
	// CI95 is the interval of Difference: Student's t with SE and DF, limited to -1 and 1 if the
	// score is in [0,1]. If all differences of such a score are -1, 0 or 1, it is stats.YesNoInterval95; with
	// ClusterBy, ± stats.UnchangedBound95 if all are 0. It is nil if N < 2, if nothing varies
	// otherwise (so its width is never 0), and if the results are identical.
	CI95     *[2]float64 `json:"ci95"`
	DF       *float64    `json:"df"`       // degrees of freedom of SE: N−1, or fewer with ClusterBy
	Clusters int         `json:"clusters"` // of these N items; 0 without ClusterBy
	// Unclustered is CI95 as if all items were independent.
	Unclustered *[2]float64 `json:"ci95_unclustered,omitempty"`

	// P is the sign-flip p-value. PExact reports whether all combinations of signs were tried.
	// PHolm is P with Holm's correction: of the primary score over the candidates, of the others
	// over the secondary scores of all candidates. Scores of a candidate that differ by the same
	// in every item count once, those without any difference do not count. Verdict and Gate use
	// PHolm.
	P      *float64 `json:"p"`
	PExact bool     `json:"p_exact"`
	PHolm  *float64 `json:"p_holm"`
	// Repeats is the name of the first score of the candidate whose differences are the same in
	// every item, or the same with the other sign; "" if no earlier score is.
	Repeats string `json:"repeats,omitempty"`

	Pooled *Pooled `json:"pooled"` // nil if a value has no ratio

	// Weighted is nil if the items have no weights.
	Weighted *Weighted `json:"weighted,omitempty"`

	Wins   int `json:"wins"` // items for which the candidate is better
	Losses int `json:"losses"`
	Ties   int `json:"ties"`

	// Detectable is the least true difference that such a comparison finds 80 times of 100.
	// Needed is the number of items with which a difference as large as Difference is found as
	// often. Both are nil if fewer than LeastItems differ or there are fewer than LeastClusters.
	Detectable *float64 `json:"minimum_detectable_effect"`
	Needed     *int     `json:"needed_items"`

	// Incomparable is why Difference tells nothing about the runs, as a text to follow Name; or
	// "". If it is set, Verdict is Unclear, and rules about the score are inconclusive.
	Incomparable string  `json:"doubt,omitempty"`
	Verdict      Verdict `json:"verdict"`
}

// Pooled compares a score over the counts of all items together: Σ numerators / Σ denominators.
// Items that failed in either run are left out, since they have no counts; error has counts for
// failed items, too.
type Pooled struct {
	N          int         `json:"n"`
	Base       float64     `json:"base"`
	Candidate  float64     `json:"candidate"`
	Difference float64     `json:"difference"`
	CI95       *[2]float64 `json:"ci95"` // by paired bootstrap; nil below 60 items or clusters, or if nothing varies
}

// Weighted compares the weighted means Σ value·weight / Σ weight, with failed items as 0.
// Gate.MinDelta uses it if it is not nil. Interval and p-value of the Score are those of the
// plain mean.
type Weighted struct {
	Base       float64 `json:"base"`
	Candidate  float64 `json:"candidate"`
	Difference float64 `json:"difference"`
}

// YesNo compares a yes/no score by McNemar's exact test.
type YesNo struct {
	Name   string   `json:"name"`
	Gained int      `json:"gained"` // no in the base, yes in the candidate
	Lost   int      `json:"lost"`   // yes in the base, no in the candidate
	Both   int      `json:"both"`
	None   int      `json:"none"`
	P      *float64 `json:"p"` // nil if ClusterBy is set, since the test needs independent items
}

// Amount compares the consumption per item. N is the number of items for which it is known in
// both runs.
type Amount struct {
	N          int         `json:"n"`
	Base       *float64    `json:"base"`
	Candidate  *float64    `json:"candidate"`
	Difference *float64    `json:"difference"`
	CI95       *[2]float64 `json:"ci95"`  // by Student's t; nil if ClusterBy is set
	Ratio      *float64    `json:"ratio"` // Candidate / Base; nil if Base is 0
}

// Group compares one type, over the items that failed in neither run. Difference is that of F1;
// it is nil if either run has nothing expected and nothing extracted.
type Group struct {
	Kind       string            `json:"kind"`
	Name       string            `json:"name"`
	Base       outcome.GroupStat `json:"base"`
	Candidate  outcome.GroupStat `json:"candidate"`
	Difference *float64          `json:"difference"`
}

// ItemChange is an item and its primary score in both runs; Delta is Candidate − Base.
type ItemChange struct {
	Item      string  `json:"item"`
	Base      float64 `json:"base"`
	Candidate float64 `json:"candidate"`
	Delta     float64 `json:"delta"`
}

// Change is an ItemChange with possible reasons. If a run has several trials, comments are those
// of all trials, and Gained and Lost are matches that a larger share of the trials of one run
// has, like "Ada (2/3 → 0/2)".
type Change struct {
	ItemChange
	BaseComment      string   `json:"base_comment"`
	CandidateComment string   `json:"candidate_comment"`
	BaseFailure      string   `json:"base_failure,omitempty"`
	CandidateFailure string   `json:"candidate_failure,omitempty"`
	Gained           []string `json:"gained"` // matched by the candidate only
	Lost             []string `json:"lost"`   // matched by the base only
	Kept             int      `json:"kept"`   // matched by both
}

// Below these numbers, a comparison has a warning.
const (
	fewItems    = 20
	fewClusters = 10
)

// warnings lists what makes the numbers of a comparison weak.
func (r *collector) warnings(out Result, base, cand Side) []string {
	list := []string{}
	warn := func(format string, args ...any) { list = append(list, textutil.Countf(format, args...)) }
	if uid := base.Summary.Run.UID; uid != "" && uid == cand.Summary.Run.UID {
		warn("base and candidate are the same run")
	}
	primary := out.Primary()
	switch {
	case primary.N < LeastItems:
		warn("%s with %s: too few to claim anything", textutil.Counted(primary.N, "item"), primary.Name)
	case primary.N < fewItems:
		warn("few items (%d): the interval is rough, and only large differences can be found", primary.N)
	}
	switch ties := primary.Ties; {
	case ties < primary.N && 2*ties > primary.N:
		warn("%d of %d items tie: the difference rests on the other %d", ties, primary.N, primary.N-ties)
	case primary.hasEnough() && primary.CI95 == nil && ties < primary.N:
		warn("%s changed by the same in all of %s: nothing is known of how it varies, so that there is no interval, and nothing can be claimed", primary.Name, sampleText(primary))
	}
	r.warnOfClusters(primary, warn)
	if scores := oppositeScores(out.Scores); len(scores) > 0 {
		warn("the mean and the pooled value changed in opposite directions: %s; items with large counts went the other way than most, so say which of the two decides", strings.Join(scores, ", "))
	}
	for _, s := range out.Scores {
		if s.Incomparable != "" {
			warn("%s %s", s.Name, s.Incomparable)
		}
	}
	warnOfEvaluators(base.Summary.Run.CustomScorers, cand.Summary.Run.CustomScorers, warn)
	noun := "item"
	if base.Summary.Trials != nil || cand.Summary.Trials != nil {
		noun = "outcome"
	}
	warnOfAsking(base.Summary, cand.Summary, noun, warn)
	if b, c := base.Summary.Items.Failed, cand.Summary.Items.Failed; b > 0 || c > 0 {
		warn("%s failed in the base, %d in the candidate: they count as 0 wherever their expected output defines the score, "+
			"and are left out of pooled values and types", textutil.Counted(b, noun), c)
	}
	for _, s := range out.Scores {
		if b, c := s.UndefinedBase, s.UndefinedCandidate; b+c > 0 {
			warn("different coverage: %s is undefined in %s of one run only (base %d, candidate %d), left out of its comparison",
				s.Name, textutil.Counted(b+c, "item"), b, c)
		}
	}
	if r.trials[0] != r.trials[1] {
		warn("the base has %s, the candidate %d: averages over more trials vary less", textutil.Counted(r.trials[0], "trial"), r.trials[1])
	}
	if b, c := r.cost.unknown[0], r.cost.unknown[1]; b != c && out.Cost.N > 0 {
		warn("the cost of %s of the base and %d of the candidate is unknown", textutil.Counted(b, "item"), c)
	}
	return list
}

// warnOfAsking warns if one run was asked more often than the other, or paid for fewer answers.
func warnOfAsking(base, cand outcome.Summary, noun string, warn func(format string, args ...any)) {
	b, c := base.Items, cand.Items
	both := func(text string, ofCand, ofBase int) {
		warn(text, ofCand, textutil.Counted(c.Scored+c.Failed, noun), ofBase, b.Scored+b.Failed)
	}
	if b.Retried != c.Retried {
		both("%d of %s of the candidate are second or later attempts, %d of %d of the base: "+
			"compare runs that were asked equally often", c.Retried, b.Retried)
	}
	paid := func(u outcome.UsageSum) bool { return u.CostUSD != nil && *u.CostUSD > 0 }
	// Beside an unknown cost, a cost of 0 may be that of the cache alone.
	oneUnknown := (base.Usage.CostUSD == nil) != (cand.Usage.CostUSD == nil)
	if b.FromCache+c.FromCache > 0 && (paid(base.Usage) || paid(cand.Usage) || oneUnknown) {
		both("%d of %s of the candidate came from the cache, %d of %d of the base: "+
			"cost is what was paid, and answers from there cost nothing", c.FromCache, b.FromCache)
	}
}

// oppositeScores lists the scores whose mean rose while their pooled value fell, or the reverse, if
// the interval of neither contains 0. A pooled value without an interval is taken to have one as wide
// as that of the mean.
func oppositeScores(scores []Score) []string {
	var list []string
	for _, s := range scores {
		if s.CI95 == nil || s.Pooled == nil {
			continue
		}
		mean, difference, note := *s.CI95, s.Pooled.Difference, " without an interval"
		half := (mean[1] - mean[0]) / 2
		pooled := [2]float64{difference - half, difference + half}
		if s.Pooled.CI95 != nil {
			pooled, note = *s.Pooled.CI95, ""
		}
		if mean[0] > 0 && pooled[1] < 0 || mean[1] < 0 && pooled[0] > 0 {
			list = append(list, fmt.Sprintf("%s (mean %s, pooled %s%s)", s.Name, signed(*s.Difference), signed(difference), note))
		}
	}
	return list
}

// warnOfEvaluators warns of scores that come in both runs from the same external evaluator if
// that is not certified. Score.Incomparable covers different evaluators.
func warnOfEvaluators(base, cand []outcome.CustomScorer, warn func(format string, args ...any)) {
	for _, b := range base {
		for _, c := range cand {
			if b.Name == c.Name && b.Same(c) && b.Uncertified+c.Uncertified != "" {
				warn("%s comes from an evaluator that is not certified: %s", b.Name, cmp.Or(b.Uncertified, c.Uncertified))
			}
		}
	}
}

func (r *collector) warnOfClusters(primary Score, warn func(format string, args ...any)) {
	c := r.runs[0].clusters
	if c.key == "" {
		return
	}
	if c.withoutValue > 0 {
		warn("%s without %s in the metadata: each is a cluster of its own", textutil.Counted(c.withoutValue, "item"), c.key)
	}
	switch n := primary.Clusters; {
	case n < LeastClusters:
		warn("%s: too few to claim anything", textutil.Counted(n, "cluster"))
	case n < fewClusters:
		warn("few clusters (%d): only large differences can be found", n)
	}
	if df := primary.DF; df != nil && *df < float64(primary.Clusters-1)/2 {
		warn("the clusters are of very different sizes: together they tell as much as %.1f of one size", *df+1)
	}
}

// Err returns nil if all candidates can be compared and pass their gates. Otherwise it joins the
// problems, with exit code 2 for candidates that cannot be compared, and 1 or 6 for gates.
func (c Comparison) Err() error {
	var problems []error
	for _, r := range c.Candidates {
		name := r.Candidate.Summary.Run.Name
		if len(r.Incompatible) > 0 {
			problems = append(problems, incompatibleError(name+" cannot be compared with the base", cli.Each(r.Incompatible, Mismatch.String)))
			continue
		}
		problems = append(problems, r.Gate.Err(name))
	}
	return errors.Join(problems...)
}

// unknownMetricError is a usage error for a score that no outcome has. It lists the known scores.
func unknownMetricError(metric string, known []string) error {
	return cli.Usage("no item of the runs has a score %q; there are: %s", metric, textutil.Listed(metric, known))
}

// incompatibleError lists why two runs cannot be compared.
func incompatibleError(runs string, reasons []string) error {
	return cli.Errorf(cli.ExitIncompatible, "%s:\n%s", runs, strings.Join(reasons, "\n"))
}
