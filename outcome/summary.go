package outcome

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"extraction-experiment/internal/stats"
	"extraction-experiment/internal/textutil"
)

// Unfinished is the status of a run that has no Footer: it is still going on,
// or it was killed.
const Unfinished Status = "unfinished"

// Summary sums up a run; its JSON is what --json prints. Numbers are not rounded here. A
// nil pointer is null: there is no such number.
type Summary struct {
	Run    RunInfo `json:"run"`
	Status Status  `json:"status,omitempty"` // empty for what is not a run, such as scored pairs
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
	// them; of runs of earlier versions, those of which nothing was extracted either.
	NothingToFind int `json:"nothing_to_find"`
	// FromCache counts outcomes of which a model call was answered from a
	// cache; their time is not one of the Latencies.
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

// Finish adds what the footer of a run says.
func (s *Summary) Finish(f Footer) {
	s.Status = f.Status
	s.Items.Planned = max(f.Planned, s.Items.Scored+s.Items.Failed)
	s.Run.Ended = &f.Ended
}

// Answers is the summary of a run that answered questions about a document: its
// keys are in the summary itself.
type Answers struct {
	// WeightedScore is the WeightedMean of the primary score; nil is undefined:
	// no question, or weights that sum up to 0.
	WeightedScore   *float64 `json:"weighted_score"`
	PDFSHA256       string   `json:"pdf_sha256"`
	QuestionsSHA256 string   `json:"questions_sha256"`
}

// The keys of a run's metadata that identify document and questions.
const (
	PDFSHA256       = "pdf_sha256"
	QuestionsSHA256 = "questions_sha256"
)

// answers returns nil for a run that names no document.
func (s *Summariser) answers(scores Stats) *Answers {
	pdf, ok := s.header.Metadata[PDFSHA256]
	if !ok {
		return nil
	}
	primary, _ := scores.Lookup(s.header.Scorer.Primary)
	return &Answers{primary.WeightedMean, pdf, s.header.Metadata[QuestionsSHA256]}
}

// MaxMessage bounds the message of a failure, in bytes, so that the error page of a server
// does not take a megabyte for each item.
const MaxMessage = 4 << 10

// Failure is the reason why an item failed, as a person reads it.
type Failure struct {
	Class   Class  `json:"class"`
	Message string `json:"message"`
}

// Error makes a Failure usable as an error, so that whoever knows the class can
// say it: "timeout: no answer within 30s".
func (f *Failure) Error() string { return string(f.Class) + ": " + f.Message }

// FailureOf returns the class and message of an error that failed an item.
//
// The first rule that holds decides: a *Failure anywhere in the chain gives its
// own class; context.DeadlineExceeded is a timeout; everything else has the
// class of the stage that it comes from. A Failure without a class falls
// through: a failed item must never look like a success.
//
// The message is the text of the whole chain, so that what wrappers added is
// not lost, with the class before the Failure's own message removed. It is
// valid UTF-8 (invalid bytes become U+FFFD) and at most MaxMessage bytes, cut
// at a character's border. For nil it is the zero Failure.
func FailureOf(err error, stage Class) Failure {
	if err == nil {
		return Failure{}
	}
	class, message := stage, err.Error()
	var failure *Failure
	switch {
	case errors.As(err, &failure) && failure != nil && failure.Class != OK:
		class = failure.Class
		message = strings.Replace(message, failure.Error(), failure.Message, 1)
	case errors.Is(err, context.DeadlineExceeded):
		class = Timeout
	}
	return Failure{Class: class, Message: capped(message)}
}

// capped makes a message valid UTF-8 of at most MaxMessage bytes.
func capped(message string) string {
	message = strings.ToValidUTF8(message, string(utf8.RuneError))
	if len(message) <= MaxMessage {
		return message
	}
	return textutil.Cut(message, MaxMessage-len("…"))
}

// messageLimit cuts messages and comments that a Summary keeps, in bytes.
const messageLimit = 1000

type failureTally struct {
	count int
	first *stats.Shortlist[failedAt]
}

type failedAt struct {
	FailedItem
	seq int64
}

func (s *Summariser) addFailure(o Outcome) {
	t := entry(s.failures, o.Class, func() *failureTally {
		return &failureTally{first: stats.NewShortlist(s.config.Messages, compareFailed)}
	})
	t.count++
	message := ""
	if o.Failure != nil {
		message = o.Failure.Message
	} else if score, ok := Lookup(o.Scores, ErrorScore); ok {
		message = score.Comment
	}
	item := FailedItem{ID: o.Item, Message: cut(message)}
	if s.trials != nil {
		item.Trial = o.Trial
	}
	t.first.Offer(failedAt{item, o.Seq})
}

func (s *Summariser) failureCounts() []FailureCount {
	list := make([]FailureCount, 0, len(s.failures))
	for class, t := range s.failures {
		items := []FailedItem{}
		for _, f := range t.first.Values() {
			items = append(items, f.FailedItem)
		}
		list = append(list, FailureCount{class, t.count, items})
	}
	rank := func(c Class) int { return slices.Index(append(Classes(), c), c) } // unknown ones come last
	slices.SortFunc(list, func(a, b FailureCount) int {
		return cmp.Or(cmp.Compare(rank(a.Class), rank(b.Class)), cmp.Compare(a.Class, b.Class))
	})
	return list
}

func compareFailed(a, b failedAt) int {
	return cmp.Or(cmp.Compare(a.seq, b.seq), cmp.Compare(a.ID, b.ID), cmp.Compare(a.Trial, b.Trial), cmp.Compare(a.Message, b.Message))
}

// cut shortens what a Summary keeps of a stranger's text.
func cut(message string) string { return textutil.Cut(message, messageLimit) }

// JudgingKind is the kind of the calls of judging models, and the type of
// observation that Langfuse has for them. They have the name of their score. A
// "generation" would count as a call of what is judged.
const JudgingKind = "evaluator"

// Judging is what language models took that judged an outcome, or all those of a
// run. It is not part of Usage and CostUSD, which are those of what was judged.
type Judging struct {
	Calls int   `json:"calls"`
	Usage Usage `json:"usage,omitzero"`
	// Assumed is the estimate for what was not reported, as in Call.
	Assumed Usage `json:"assumed_usage,omitzero"`
	// CostUSD sums the costs that are known; nil where none is. With CostUnknown,
	// the number of calls without one, it is a lower bound.
	CostUSD     *float64 `json:"cost_usd"`
	CostUnknown int      `json:"cost_unknown,omitempty"`
}

// JudgingOf sums the calls of judging models up; nil without any. Those that are
// marked as cached were paid for by another run.
func JudgingOf(calls []Call) *Judging {
	var sum judgingSum
	for _, c := range calls {
		if c.Cached {
			continue
		}
		one := Judging{Calls: 1, Usage: c.Usage, Assumed: c.Assumed, CostUSD: c.CostUSD}
		if c.CostUSD == nil {
			one.CostUnknown = 1
		}
		sum.add(&one)
	}
	return sum.sum()
}

// judgingSum adds up exactly, so that the order does not matter.
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
	s.total.Usage, s.total.Assumed = s.total.Usage.Add(j.Usage), s.total.Assumed.Add(j.Assumed)
	if j.CostUSD != nil && s.cost.Add(*j.CostUSD) {
		s.known = true
	}
}

func (s *judgingSum) sum() *Judging {
	if s.total.Calls == 0 {
		return nil
	}
	total := s.total
	total.CostUSD = defined(s.cost.Value(), s.known)
	return &total
}

// Bounds of the warnings of items: how many different texts are told apart, and
// how many are shown.
const (
	maxWarningTexts = 1000
	shownWarnings   = 3
)

// itemWarnings counts the items that are warned of, by text: an item counts once,
// whatever the number of its trials.
type itemWarnings struct {
	texts map[string]*warnedItems
	other int // warnings of texts beyond the bound
}

type warnedItems struct {
	count int
	// items are those of a run of several trials, nil for others, where no item
	// comes back.
	items map[string]bool
}

// add takes the warnings of one outcome of a run of so many trials.
func (w *itemWarnings) add(o Outcome, trials int) {
	for i, text := range o.Warnings {
		if slices.Contains(o.Warnings[:i], text) {
			continue
		}
		if w.texts[text] == nil && len(w.texts) == maxWarningTexts {
			w.other++
			continue
		}
		entry(w.texts, text, func() *warnedItems {
			if trials > 1 {
				return &warnedItems{items: map[string]bool{}}
			}
			return &warnedItems{}
		}).add(o.Item)
	}
}

func (w *warnedItems) add(item string) {
	if w.items[item] {
		return
	}
	w.count++
	if w.items != nil {
		w.items[item] = true
	}
}

// list returns the warnings of most items, each with how many they are.
func (w *itemWarnings) list() []string {
	texts := slices.SortedFunc(maps.Keys(w.texts), func(a, b string) int {
		return cmp.Or(cmp.Compare(w.texts[b].count, w.texts[a].count), cmp.Compare(a, b))
	})
	var list []string
	hidden := w.other
	for i, text := range texts {
		if i < shownWarnings {
			list = append(list, fmt.Sprintf("%s (%s)", text, textutil.Counted(w.texts[text].count, "item")))
		} else {
			hidden += w.texts[text].count
		}
	}
	if hidden > 0 {
		list = append(list, "and "+textutil.Counted(hidden, "other warning")+" of items")
	}
	return list
}
