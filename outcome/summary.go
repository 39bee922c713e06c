package outcome

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"extraction-experiment/internal/stats"
	"extraction-experiment/internal/textutil"
)

// Unfinished is the status of a run without a Footer: it is still running, or was killed.
const Unfinished Status = "unfinished"

// Summary is the summary of a run; --json prints it. Numbers are not rounded. A nil pointer
// means that there is no such number; in JSON it is null.
type Summary struct {
	Run    RunInfo `json:"run"`
	Status Status  `json:"status,omitempty"` // empty for other data than runs, like scored pairs
	Items  Items   `json:"items"`

	// Answers is only set for runs that answer questions about documents.
	*Answers

	Scores   Stats          `json:"scores"`
	Failures []FailureCount `json:"failures"`
	Usage    UsageSum       `json:"usage"`
	// Judging is the usage of judging models in all attempts; nil if there were no such calls.
	Judging   *Judging    `json:"judging,omitempty"`
	LatencyMS *Latencies  `json:"latency_ms"` // nil if no task was timed
	Groups    []GroupStat `json:"groups"`
	// Causes are the kinds of fault, the most frequent first.
	Causes    []CauseCount    `json:"causes"`
	Worst     []WorstItem     `json:"worst"`
	Published *PublishedCount `json:"published"` // set by the caller

	// Trials is nil for a run of one trial.
	Trials *Trials `json:"trials,omitempty"`

	// Warnings are reasons to read the numbers with care.
	Warnings []string `json:"warnings"`
}

// Items counts the outcomes of a run: in a run of several trials, each item once for each
// trial.
type Items struct {
	Planned int `json:"planned"` // scored + failed, unless a Footer has more
	Scored  int `json:"scored"`
	Failed  int `json:"failed"`
	// NothingToFind counts outcomes of items for which nothing was expected, including failed
	// ones. In runs of earlier versions, it counts those for which nothing was extracted
	// either.
	NothingToFind int `json:"nothing_to_find"`
	// FromCache counts outcomes with a model call that was answered from a cache. They do not
	// count in the Latencies.
	FromCache int `json:"from_cache,omitempty"`
	// Retried counts outcomes of a second or later attempt, which --retry-failed makes.
	Retried int `json:"retried,omitempty"`
}

// NotRun returns the number of planned outcomes that do not exist.
func (i Items) NotRun() int { return max(0, i.Planned-i.Scored-i.Failed) }

// Stat is the statistics of one score over all items.
//
// If there are several trials, the value of an item is the mean over those of its trials that
// have one; in FailuresAsZero and WeightedMean, failed trials, and those that an evaluator gave no
// score for, count as 0. Failed, Undefined and Vacuous then count items of which all trials are so, and Unanswered those of which any is.
// Only Pooled is over all outcomes.
type Stat struct {
	Name string `json:"-"`
	// Mean is the mean over the N outcomes whose score has a value; nil if N is 0.
	Mean *float64 `json:"mean"`
	N    int      `json:"n"`
	// CI95 is the 95 % confidence interval of the mean, lower and upper end. It is nil if N <
	// 2, and for equal values outside of 0 to 1 (stats.Moments.ScoreInterval95).
	CI95 *[2]float64 `json:"ci95"`
	Min  *float64    `json:"min"`
	Max  *float64    `json:"max"`
	// FailuresAsZero is the sum of the values over N + Failed + Unanswered: the mean if failed
	// items, and items without an answer of the evaluator, score 0 wherever the expected output
	// defines the score. It is nil if this number is 0, and for a score in Scorer.OutputOnly.
	// CI95AsZero is its interval, like CI95.
	FailuresAsZero *float64    `json:"mean_failures_as_zero"`
	CI95AsZero     *[2]float64 `json:"ci95_failures_as_zero"`
	// WeightedMean is Σ value·weight / Σ weight over the items whose score has a weight; the
	// value of a failed item counts as 0. It is nil if there are no weights, or they sum to 0.
	WeightedMean *float64 `json:"weighted_mean,omitempty"`
	// Pooled is the sum of numerators over the sum of denominators of the N values. If all
	// denominators are 0, it is 1 if every value is Vacuous, otherwise 0. It is nil if N is 0
	// or a value has no usable ratio.
	Pooled *float64 `json:"pooled"`

	Failed    int `json:"failed"`    // failed outcomes with the score, without a value
	Undefined int `json:"undefined"` // other outcomes with the score, without a value
	// Unanswered counts other outcomes without a value for a score of an external evaluator,
	// which owed one. They do not count as Undefined.
	Unanswered int `json:"unanswered,omitempty"`
	Vacuous    int `json:"vacuous"` // values that are 1 because there was nothing to find
}

// FailureCount is a class of failure with the first items that failed with it.
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

// UsageSum is the usage of a run, including failed items.
type UsageSum struct {
	Input     int64 `json:"input"`
	Output    int64 `json:"output"`
	Total     int64 `json:"total"`
	Cached    int64 `json:"cached"`
	Reasoning int64 `json:"reasoning"`
	// CostUSD is the sum of the known costs; nil if none is known.
	CostUSD *float64 `json:"cost_usd"`
	// AllCostUSD is CostUSD plus the cost of attempts that newer ones replaced; nil if no such
	// cost is known.
	AllCostUSD *float64 `json:"all_attempts_cost_usd,omitempty"`
	// CostUnknown counts outcomes without a known cost. If it is not 0, CostUSD is a lower
	// bound.
	CostUnknown int `json:"cost_unknown"`
}

// Latencies describes the time spent on the task in milliseconds, over the N outcomes whose
// task was begun and that did not come from a cache, including failed ones. P50 and P95 are
// quantiles by linear interpolation (stats.Quantile).
type Latencies struct {
	N    int     `json:"n"`
	P50  float64 `json:"p50"`
	P95  float64 `json:"p95"`
	Mean float64 `json:"mean"`
	Max  float64 `json:"max"`
}

// GroupStat is one group of a breakdown over the scored items: its counts, Precision =
// Matched/Extracted, Recall = Matched/Expected and F1 = 2·Matched/(Expected+Extracted). All are
// from 0 to 1. They are nil if nothing was expected and nothing extracted; any other 0/0 is 0.
type GroupStat struct {
	Group
	Precision *float64 `json:"precision"`
	Recall    *float64 `json:"recall"`
	F1        *float64 `json:"f1"`
}

// PublishedCount is the number of outcomes that Langfuse has acknowledged.
type PublishedCount struct {
	Outcomes int `json:"outcomes"` // link, spans and scores acknowledged
	Waiting  int `json:"waiting"`  // others, and those whose previous attempt still has scores in Langfuse
}

// Finish adds the data of the footer.
func (s *Summary) Finish(f Footer) {
	s.Status = f.Status
	s.Items.Planned = max(f.Planned, s.Items.Scored+s.Items.Failed)
	s.Run.Ended = &f.Ended
}

// Answers is the part of the summary of a run that answered questions about a document. In
// JSON, its keys are in the summary itself.
type Answers struct {
	// WeightedScore is the WeightedMean of the primary score. It is nil if that is undefined:
	// there is no question, or the weights sum to 0.
	WeightedScore   *float64 `json:"weighted_score"`
	PDFSHA256       string   `json:"pdf_sha256"`
	QuestionsSHA256 string   `json:"questions_sha256"`
}

// The keys of a run's metadata that identify document and questions.
const (
	PDFSHA256       = "pdf_sha256"
	QuestionsSHA256 = "questions_sha256"
)

// answers returns the Answers, or nil for a run without a document.
func (s *Summariser) answers(scores Stats) *Answers {
	pdf, ok := s.header.Metadata[PDFSHA256]
	if !ok {
		return nil
	}
	primary, _ := scores.Lookup(s.header.Scorer.Primary)
	return &Answers{primary.WeightedMean, pdf, s.header.Metadata[QuestionsSHA256]}
}

// JudgingKind is the kind of calls of judging models, and their type of observation in
// Langfuse. The name of such a call is that of its score. The kind "generation" would count as
// a call of the task.
const JudgingKind = "evaluator"

// Judging is the usage of models that judged an outcome, or all outcomes of a run. It is not
// part of Usage and CostUSD, which are those of the task.
type Judging struct {
	Calls int   `json:"calls"`
	Usage Usage `json:"usage,omitzero"`
	// Assumed is the estimate for usage that was not reported, as in Call.
	Assumed Usage `json:"assumed_usage,omitzero"`
	// CostUSD is the sum of the known costs; nil if none is known. If CostUnknown, the number
	// of calls without a known cost, is not 0, CostUSD is a lower bound.
	CostUSD     *float64 `json:"cost_usd"`
	CostUnknown int      `json:"cost_unknown,omitempty"`
}

// JudgingOf sums up the calls of judging models; nil if there are none. Cached calls do not
// count: another run paid for them.
func JudgingOf(calls []Call) *Judging {
	var sum judgingSum
	for _, c := range calls {
		if c.Cached {
			continue
		}
		judging := Judging{Calls: 1, Usage: c.Usage, Assumed: c.Assumed, CostUSD: c.CostUSD}
		if c.CostUSD == nil {
			judging.CostUnknown = 1
		}
		sum.add(&judging)
	}
	return sum.sum()
}

// judgingSum sums exactly, so that the order does not matter.
type judgingSum struct {
	total Judging
	cost  stats.Sum
	known bool
}

func (s *judgingSum) add(j *Judging) {
	if j == nil {
		return
	}
	s.total.Calls += j.Calls
	s.total.CostUnknown += j.CostUnknown
	s.total.Usage, s.total.Assumed = s.total.Usage.Add(j.Usage.Bounded()), s.total.Assumed.Add(j.Assumed.Bounded())
	if j.CostUSD != nil && s.cost.Add(*j.CostUSD) {
		s.known = true
	}
}

func (s *judgingSum) sum() *Judging {
	if s.total.Calls == 0 {
		return nil
	}
	total := s.total
	total.CostUSD = ptrIf(s.cost.Value(), s.known)
	return &total
}

// maxWarningBytes limits the texts of the warnings that are counted, shownWarnings the number of
// those that are shown.
const (
	maxWarningBytes = 16 << 20
	shownWarnings   = 3
)

// itemWarnings counts the items with a warning, by text. An item counts once, whatever the
// number of its trials.
type itemWarnings struct {
	items   map[string]int     // by text; nil if there are too many
	bytes   int                // of the texts
	counted map[[2]string]bool // texts with items, in a run of several trials; nil for other runs
}

func newItemWarnings(trials int) itemWarnings {
	w := itemWarnings{items: map[string]int{}}
	if trials > 1 {
		w.counted = map[[2]string]bool{}
	}
	return w
}

// add adds the warnings of one outcome.
func (w *itemWarnings) add(o Outcome) {
	for i, text := range o.Warnings {
		key := [2]string{text, o.Item}
		if w.items == nil || w.counted[key] || slices.Contains(o.Warnings[:i], text) {
			continue
		}
		if w.counted != nil {
			w.counted[key] = true
		}
		if w.items[text]++; w.items[text] == 1 {
			w.bytes += len(text)
		}
		if w.bytes > maxWarningBytes {
			w.items, w.counted = nil, nil
		}
	}
}

// list returns the most frequent warnings, with the numbers of their items.
func (w *itemWarnings) list() []string {
	if w.items == nil {
		return []string{"items have too many different warnings, which are not listed"}
	}
	texts := slices.SortedFunc(maps.Keys(w.items), func(a, b string) int {
		return cmp.Or(cmp.Compare(w.items[b], w.items[a]), cmp.Compare(a, b))
	})
	var list []string
	hidden := 0
	for i, text := range texts {
		if i < shownWarnings {
			list = append(list, fmt.Sprintf("%s (%s)", text, textutil.Counted(w.items[text], "item")))
		} else {
			hidden += w.items[text]
		}
	}
	if hidden > 0 {
		list = append(list, "and "+textutil.Counted(hidden, "other warning")+" of items")
	}
	return list
}
