package outcome

// Unfinished is the status of a run that has no Footer: it is still going on,
// or it was killed.
const Unfinished Status = "unfinished"

// Summary is what a run comes to; its JSON is what --json prints. Numbers are
// not rounded here. A nil pointer is null: there is no such number.
type Summary struct {
	Run    RunInfo `json:"run"`
	Status Status  `json:"status,omitempty"` // empty for what is no run, such as scored pairs
	Items  Items   `json:"items"`

	// Answers is what only runs about documents have; nil for others.
	*Answers

	Scores   Stats          `json:"scores"`
	Failures []FailureCount `json:"failures"`
	Usage    UsageSum       `json:"usage"`
	// Judging is what judging models took, all attempts together; nil without any.
	Judging   *Judging    `json:"judging,omitempty"`
	LatencyMS *Latencies  `json:"latency_ms"` // nil when no task was timed
	Groups    []GroupStat `json:"groups"`
	// Causes are the kinds of fault, the most frequent first.
	Causes    []CauseCount    `json:"causes"`
	Worst     []WorstItem     `json:"worst"`
	Published *PublishedCount `json:"published"` // nil until the caller says

	// Trials is nil for a run of one trial.
	Trials *Trials `json:"trials,omitempty"`

	// Warnings are reasons to read the numbers with care.
	Warnings []string `json:"warnings"`
}

// Items counts the outcomes of a run: items, times the trials where there are
// several.
type Items struct {
	Planned int `json:"planned"` // scored + failed unless a Footer says more
	Scored  int `json:"scored"`
	Failed  int `json:"failed"`
	// NothingToFind counts items of which nothing was expected, whatever became of
	// them; of runs of before, those of which nothing was extracted either.
	NothingToFind int `json:"nothing_to_find"`
	// FromCache counts outcomes of which a model call was answered from a
	// cache; their time is none of the Latencies.
	FromCache int `json:"from_cache,omitempty"`
}

// NotRun returns how many planned items have no outcome.
func (i Items) NotRun() int { return max(0, i.Planned-i.Scored-i.Failed) }

// Stat is one score over all items. Where there are several trials the value of
// an item is the mean over those of its trials that have one, with failed ones as
// 0 in FailuresAsZero and WeightedMean; Failed, Undefined and Vacuous then count
// items of which all trials are so, Unanswered those of which any is, and only
// Pooled is over all outcomes.
type Stat struct {
	Name string `json:"-"`
	// Mean is the mean over the N outcomes whose score has a value; nil for
	// N = 0.
	Mean *float64 `json:"mean"`
	N    int      `json:"n"`
	// CI95 is the 95 % interval of the mean, lower and upper end; nil for N < 2, and of
	// values beyond 0 and 1 where all are equal
	// (stats.Moments.ScoreInterval95).
	CI95 *[2]float64 `json:"ci95"`
	Min  *float64    `json:"min"`
	Max  *float64    `json:"max"`
	// FailuresAsZero is the sum of the values over N + Failed + Unanswered: what
	// Mean is when a failed item scores 0 wherever its expected output defines
	// the score, and an item that an evaluator did not answer for. Nil when all
	// are 0, and for a score of what was extracted alone (Scorer.OutputOnly).
	// CI95AsZero is its interval, as CI95 is that of Mean.
	FailuresAsZero *float64    `json:"mean_failures_as_zero"`
	CI95AsZero     *[2]float64 `json:"ci95_failures_as_zero"`
	// WeightedMean is Σ value·weight / Σ weight over the items whose score has a
	// weight; a failed item's value counts as 0. Nil without weights, and where
	// they sum up to 0.
	WeightedMean *float64 `json:"weighted_mean,omitempty"`
	// Pooled is the sum of numerators over the sum of denominators of the N
	// values. With nothing in any denominator it is 1 if every value is
	// Vacuous, else 0, as each of the ratios is. Nil for N = 0 and where a
	// value comes without its ratio.
	Pooled *float64 `json:"pooled"`

	Failed    int `json:"failed"`    // failed outcomes that list the score without a value
	Undefined int `json:"undefined"` // other outcomes that list it without a value
	// Unanswered counts the other outcomes of an external evaluator's score that
	// have no value: it owed one and gave none. They are not Undefined.
	Unanswered int `json:"unanswered,omitempty"`
	Vacuous    int `json:"vacuous"` // values that are 1 because there was nothing to find
}

// FailureCount is one class of failure with the first items that failed so.
type FailureCount struct {
	Class Class        `json:"class"`
	Count int          `json:"count"`
	Items []FailedItem `json:"items"`
}

// FailedItem is an item that failed, with the message of its Failure.
type FailedItem struct {
	ID      string `json:"id"`
	Trial   int    `json:"trial,omitempty"` // 0 in a run of one trial
	Message string `json:"message"`
}

// UsageSum is what a run consumed, failed items included.
type UsageSum struct {
	Input     int64 `json:"input"`
	Output    int64 `json:"output"`
	Total     int64 `json:"total"`
	Cached    int64 `json:"cached"`
	Reasoning int64 `json:"reasoning"`
	// CostUSD is the sum of the costs that are known; nil when none is.
	CostUSD *float64 `json:"cost_usd"`
	// AllCostUSD is CostUSD with the attempts that newer ones replaced; nil where
	// there is none with a known cost.
	AllCostUSD *float64 `json:"all_attempts_cost_usd,omitempty"`
	// CostUnknown counts outcomes without a known cost: when it is not 0,
	// CostUSD is a lower bound.
	CostUnknown int `json:"cost_unknown"`
}

// Latencies describes the time spent on the task in milliseconds, over the N
// outcomes whose task was begun, failed ones included, and that did not come from
// a cache. P50 and P95 are
// quantiles by linear interpolation (stats.Quantile).
type Latencies struct {
	N    int     `json:"n"`
	P50  float64 `json:"p50"`
	P95  float64 `json:"p95"`
	Mean float64 `json:"mean"`
	Max  float64 `json:"max"`
}

// GroupStat is one class of a breakdown, over the scored items: its counts,
// Precision = Matched/Extracted, Recall = Matched/Expected and F1 =
// 2·Matched/(Expected+Extracted). All in [0,1]; nil when nothing was expected
// and nothing extracted, any other 0/0 is 0.
type GroupStat struct {
	Kind      string   `json:"kind"`
	Name      string   `json:"name"`
	Expected  int64    `json:"expected"`
	Extracted int64    `json:"extracted"`
	Matched   int64    `json:"matched"`
	Precision *float64 `json:"precision"`
	Recall    *float64 `json:"recall"`
	F1        *float64 `json:"f1"`
}

// PublishedCount says how many outcomes Langfuse has acknowledged.
type PublishedCount struct {
	Outcomes int `json:"outcomes"` // link, spans and scores acknowledged
	Waiting  int `json:"waiting"`  // a part is not acknowledged
}

// Finish takes over what the footer of a run says.
func (s *Summary) Finish(f Footer) {
	s.Status = f.Status
	s.Items.Planned = max(f.Planned, s.Items.Scored+s.Items.Failed)
	s.Run.Ended = &f.Ended
}
