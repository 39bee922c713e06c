package outcome

import (
	"cmp"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"math"
	"slices"
	"time"

	"extraction-experiment/internal/stats"
	"extraction-experiment/internal/textutil"
)

// SummaryConfig says what a Summariser keeps. The zero value is usable.
type SummaryConfig struct {
	// Order lists score names in the order in which they are shown; scores
	// that it does not name follow in alphabetical order.
	Order []string
	// Worst is how many of the worst items are kept, of the run and of each
	// cause; 0 is 5, negative none.
	Worst int
	// Messages is how many failed items are kept per class, the first by order
	// of arrival; 0 is 3, negative none.
	Messages int
}

// Summariser makes the Summary of a run from its outcomes, one by one.
//
// The order of Add changes no digit of the Summary: sums are exact
// (stats.Sum), lists are sorted by rules without ties. Memory is bounded by
// the number of score names, groups, causes and failure classes, the items kept, and 8
// bytes per timed outcome; a run of several trials also keeps each score of each
// item, about 100 bytes and 8 a trial, and which items each warning is of. Not safe for concurrent use.
type Summariser struct {
	header Header
	config SummaryConfig

	items     Items
	scores    map[string]*tally
	failures  map[Class]*failureTally
	groups    map[groupKey]Group
	oddGroups int
	causes    map[groupKey]*causeTally

	itemWarnings itemWarnings
	judging      judgingSum
	usage        Usage
	cost         stats.Sum
	costKnown    int
	replaced     stats.Sum // the cost of attempts that newer ones replaced
	anyReplaced  bool
	latencies    []float64                   // milliseconds
	worst        *stats.Shortlist[WorstItem] // of a run of one trial
	trials       *trials                     // nil for a run of one trial
}

// NewSummariser returns a Summariser for the run that h describes.
func NewSummariser(h Header, cfg SummaryConfig) *Summariser {
	if cfg.Worst == 0 {
		cfg.Worst = 5
	}
	if cfg.Messages == 0 {
		cfg.Messages = 3
	}
	s := &Summariser{
		header: h, config: cfg,
		scores:       map[string]*tally{},
		failures:     map[Class]*failureTally{},
		groups:       map[groupKey]Group{},
		causes:       map[groupKey]*causeTally{},
		itemWarnings: itemWarnings{texts: map[string]*warnedItems{}},
		worst:        stats.NewShortlist(cfg.Worst, compareWorst),
	}
	if h.Trials > 1 {
		s.trials = &trials{items: map[string]*trialItem{}, runs: map[int]*trialRun{}, scorer: h.Scorer}
	}
	return s
}

// Add takes one outcome into account. Of an item that was run again only the
// newest attempt must be added, and each outcome once. Of the Detail only
// Failure, NothingExpected, Groups, Causes, FromCache, Judging and Warnings are looked
// at; without Failure the comment of the error score is the message.
func (s *Summariser) Add(o Outcome) {
	if s.trials != nil {
		s.trials.add(o)
	}
	if o.Failed() {
		s.items.Failed++
		s.addFailure(o)
	} else {
		s.items.Scored++
		s.addGroups(o.Groups)
		s.addCauses(o)
		s.addPrimary(o)
	}
	primary, _ := Lookup(o.Scores, s.header.Scorer.Primary)
	if o.NothingExpected || primary.Vacuous {
		s.items.NothingToFind++
	}
	s.addScores(o)
	s.itemWarnings.add(o, s.header.Trials)
	s.judging.add(o.Judging)
	s.usage = s.usage.Add(o.Usage.bounded())
	if o.CostUSD != nil && s.cost.Add(*o.CostUSD) {
		s.costKnown++
	}
	if o.FromCache > 0 {
		s.items.FromCache++
	} else if o.Latency > 0 {
		s.latencies = append(s.latencies, float64(o.Latency)/float64(time.Millisecond))
	}
}

// AddReplaced takes into account what an attempt cost that a newer one
// replaced.
func (s *Summariser) AddReplaced(o Outcome) {
	s.judging.add(o.Judging)
	if o.CostUSD != nil && s.replaced.Add(*o.CostUSD) {
		s.anyReplaced = true
	}
}

// Summary returns what was added so far; more may be added afterwards. Status
// is Unfinished until Summary.Finish is given the footer. It sorts the
// latencies: O(n log n).
func (s *Summariser) Summary() Summary {
	scores := s.scoreStats()
	out := Summary{
		Run:       describe(s.header),
		Status:    Unfinished,
		Items:     s.items,
		Answers:   s.answers(scores),
		Scores:    scores,
		Failures:  s.failureCounts(),
		Usage:     s.usageSum(),
		Judging:   s.judging.sum(),
		LatencyMS: s.latencySummary(),
		Groups:    s.groupStats(),
		Causes:    s.causeCounts(),
		Worst:     s.worstItems(),
		Warnings:  s.warnings(),
	}
	out.Items.Planned = s.items.Scored + s.items.Failed
	if s.trials != nil {
		out.Trials = s.trials.summary(s.header.Trials, s.header.Scorer.Primary, scores)
	}
	return out
}

func (s *Summariser) addScores(o Outcome) {
	ordinal := s.items.Scored + s.items.Failed
	scorer := &s.header.Scorer
	for _, score := range o.Scores {
		t := s.scores[score.Name]
		if t == nil {
			t = &tally{external: scorer.External(score.Name), outputOnly: slices.Contains(scorer.OutputOnly, score.Name)}
			s.scores[score.Name] = t
		}
		if t.last == ordinal {
			continue // named twice in one outcome: the first counts, as in Lookup
		}
		t.last = ordinal
		t.add(score, o.Failed())
	}
}

// entry returns what a map has under a key, made where there is nothing.
func entry[K comparable, V any](m map[K]*V, key K, make func() *V) *V {
	value := m[key]
	if value == nil {
		value = make()
		m[key] = value
	}
	return value
}

func (s *Summariser) scoreStats() Stats {
	list := make(Stats, 0, len(s.scores))
	names := slices.Concat(s.config.Order, slices.Sorted(maps.Keys(s.scores)))
	done := map[string]bool{}
	for _, name := range names {
		if t := s.scores[name]; t != nil && !done[name] {
			done[name] = true
			stat := t.stat(name)
			if s.trials != nil {
				stat = s.trials.stat(stat, t.outputOnly)
			}
			list = append(list, stat)
		}
	}
	return list
}

func (s *Summariser) warnings() []string {
	list := []string{}
	warn := func(there bool, format string, args ...any) {
		if there {
			list = append(list, fmt.Sprintf(format, args...))
		}
	}
	const external = "%s comes from an external evaluator "
	for _, c := range s.header.Scorer.Custom {
		warn(c.Uncertified != "", external+"that is not certified (%s): %s", c.Name, c.Evaluator, c.Uncertified)
		warn(c.Weak != "", external+"whose certificate says little (%s): %s", c.Name, c.Evaluator, c.Weak)
		warn(c.Carried != "", "%s was taken over from the run %s: the evaluator was not asked again", c.Name, c.Carried)
		if t := s.scores[c.Name]; t != nil {
			warn(t.unanswered > 0, "%s has no value for %d of %d outcomes, which count as 0: "+
				"the evaluator gave none; experiment show says why", c.Name, t.unanswered, s.items.Scored)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.scores)) {
		n := s.scores[name].refused
		warn(n > 0, "%s: not finite, and taken for undefined: %s", name, textutil.Counted(n, "value"))
	}
	odd := textutil.Counted(s.oddGroups, "row")
	warn(s.oddGroups > 0, "left out of the breakdown by type: %s of which a count is negative or absurd", odd)
	return append(list, s.itemWarnings.list()...)
}

// Stats is the list of a run's scores. In JSON it is one object, name to
// values, whose keys keep the order of the list.
type Stats []Stat

// Lookup returns the values of the score of that name.
func (s Stats) Lookup(name string) (Stat, bool) {
	for _, stat := range s {
		if stat.Name == name {
			return stat, true
		}
	}
	return Stat{}, false
}

// AnyFailed reports whether an outcome owes a value of a score: it failed, or an
// evaluator gave none.
func (s Stats) AnyFailed() bool {
	return slices.ContainsFunc(s, func(stat Stat) bool {
		zero := stat.FailuresAsZero
		return stat.Failed+stat.Unanswered > 0 || zero != nil && stat.Mean != nil && *zero != *stat.Mean // one trial of several
	})
}

// Lead returns the mean of one of the scores that a summary leads with, and its
// interval: the one with failures as zero where AnyFailed, else the plain one.
func (s Stats) Lead(stat Stat) (mean *float64, ci95 *[2]float64) {
	if s.AnyFailed() {
		return stat.FailuresAsZero, stat.CI95AsZero
	}
	return stat.Mean, stat.CI95
}

// MarshalJSON writes the object in the order of the list.
func (s Stats) MarshalJSON() ([]byte, error) {
	w := textutil.JSONWriter{B: []byte{'{'}}
	for _, stat := range s {
		w.Value(stat.Name, stat)
	}
	w.Close()
	return w.B, w.Err
}

// UnmarshalJSON reads the object and keeps the order of its keys.
func (s *Stats) UnmarshalJSON(raw []byte) error {
	if *s = nil; string(raw) == "null" {
		return nil
	}
	if raw[0] != '{' {
		return fmt.Errorf("scores: an object is expected, not %s", textutil.Brief(string(raw), 20))
	}
	*s = Stats{}
	for name, value := range textutil.JSONMembers(raw) {
		stat := Stat{Name: name}
		if err := json.Unmarshal(value, &stat); err != nil {
			return fmt.Errorf("score %q: %w", name, err)
		}
		*s = append(*s, stat)
	}
	return nil
}

// largestCount bounds the integers that are taken from outcomes; with fewer
// than 2³¹ outcomes no sum of such can overflow.
const largestCount = 1 << 31

// presence counts how often a score has no value, by what became of it, and how often one
// that says nothing.
type presence struct{ failed, undefined, unanswered, vacuous int }

// add takes a score into account, of which a value was taken or not; external says that
// an evaluator owes it for every output.
func (p *presence) add(taken, vacuous, failed, external bool) {
	switch {
	case taken && vacuous:
		p.vacuous++
	case taken:
	case failed:
		p.failed++
	case external:
		p.unanswered++
	default:
		p.undefined++
	}
}

// tally accumulates one score.
type tally struct {
	presence
	moments    stats.Moments
	external   bool // an evaluator owes a value for every output
	outputOnly bool
	ratios     int // values that came with a usable ratio
	num, den   int64
	weighted   weightedSum
	refused    int // values that are no finite number
	last       int // ordinal of the outcome that was added last
}

func (t *tally) add(s Score, failed bool) {
	taken := s.Value != nil && t.moments.Add(*s.Value)
	t.presence.add(taken, s.Vacuous, failed, t.external)
	if s.Value != nil && !taken {
		t.refused++
	}
	switch {
	case taken:
		t.weighted.add(*s.Value, usable(s.Weight))
		if r := s.Ratio; r.Usable() {
			t.ratios++
			t.num += r.Num
			t.den += r.Den
		}
	case failed:
		t.weighted.add(0, usable(s.Weight))
	}
}

func countable(n int64) bool { return n >= 0 && n <= largestCount }

func (t *tally) stat(name string) Stat {
	s := Stat{Name: name, Failed: t.failed, Undefined: t.undefined, Unanswered: t.unanswered, Vacuous: t.vacuous}
	var owed stats.Moments
	owed.Merge(t.moments)
	for range t.failed + t.unanswered {
		owed.Add(0)
	}
	s.describe(t.moments, owed, t.outputOnly)
	s.WeightedMean = t.weighted.mean()
	if s.N > 0 && t.ratios == s.N {
		s.Pooled = new(quotient(t.num, t.den, t.vacuous == s.N))
	}
	return s
}

// describe fills in what follows from the values; owed has those with a 0 for
// each that is owed.
func (s *Stat) describe(values, owed stats.Moments, outputOnly bool) {
	s.N, s.Mean, s.CI95 = values.N(), values.MeanOrNil(), values.ScoreInterval95()
	if least, top, ok := values.Range(); ok {
		s.Min, s.Max = &least, &top
	}
	if !outputOnly {
		s.FailuresAsZero, s.CI95AsZero = owed.MeanOrNil(), owed.ScoreInterval95()
	}
}

// defined returns a number, or nil where it is none.
func defined(value float64, ok bool) *float64 {
	if !ok {
		return nil
	}
	return &value
}

// quotient is num/den; 0/0 is 1 where there was nothing to find, else 0.
func quotient(num, den int64, nothing bool) float64 {
	switch {
	case den > 0:
		return float64(num) / float64(den)
	case nothing:
		return 1
	default:
		return 0
	}
}

// Trials is what the repetitions of a run come to. A trial is no more items: an
// item's value is the mean over its trials. Here, a failed trial counts as 0
// wherever the expected output defines the score, so that every trial is over
// the same items.
type Trials struct {
	Count  int     `json:"count"`
	Items  int     `json:"items"`  // with an outcome in any trial
	Uneven int     `json:"uneven"` // of them, those without one in some trial
	Runs   []Trial `json:"runs"`
	// Scores says how much each score varies, in the order of Summary.Scores.
	Scores []Spread `json:"scores"`
	// Flaky counts the items whose primary score is not the same in all their
	// trials; FlakyItems are those that vary most, at most 10.
	Flaky      int         `json:"flaky"`
	FlakyItems []FlakyItem `json:"flaky_items"`
}

// Trial is one repetition, a run of its own in Langfuse.
type Trial struct {
	Trial  int      `json:"trial"`
	Name   string   `json:"name"` // in Langfuse; it, ID and URL are filled in by the caller
	ID     string   `json:"id"`
	URL    string   `json:"url"`
	Scored int      `json:"scored"`
	Failed int      `json:"failed"`
	Mean   *float64 `json:"mean"` // of the primary score
}

// Spread is how much one score varies where nothing was changed.
type Spread struct {
	Name string `json:"name"`
	// Least and Top are the lowest and the highest mean of a trial, Between the
	// standard deviation of these means (K−1): what the mean of one trial is
	// worth. Nil for fewer than 2 trials with the score.
	Least   *float64 `json:"lowest_trial"`
	Top     *float64 `json:"highest_trial"`
	Between *float64 `json:"sd_between_trials"`
	// Within is √(mean over the N items of the sample variance over an item's
	// trials): how much one item varies. Nil for N = 0.
	Within *float64 `json:"sd_within_items"`
	// Consistent counts those of the N items that have the same value, up to
	// 1e-9, in all their trials. N counts items with the score in 2 or more.
	Consistent int `json:"consistent"`
	N          int `json:"n"`
}

// FlakyItem is an item whose primary score varies.
type FlakyItem struct {
	ID     string  `json:"id"`
	Trials int     `json:"trials"`
	Failed int     `json:"failed"` // trials that failed
	Least  float64 `json:"least"`
	Top    float64 `json:"top"`
	Mean   float64 `json:"mean"`
}

// mostFlaky bounds Trials.FlakyItems.
const mostFlaky = 10

// same is up to what difference two values of a score are one.
const same = 1e-9

func compareFlaky(a, b FlakyItem) int {
	return cmp.Or(cmp.Compare(b.Top-b.Least, a.Top-a.Least), cmp.Compare(a.ID, b.ID))
}

// trials gathers the outcomes of a run of several trials by item.
type trials struct {
	items  map[string]*trialItem
	runs   map[int]*trialRun
	scorer Scorer
}

type trialItem struct {
	outcomes, failed int
	scores           map[string]*trialValues
	worst            *WorstItem
}

// trialValues is one score of one item over its trials.
type trialValues struct {
	presence
	values []float64
	weight *float64 // nil is none; all trials have the same
}

type trialRun struct {
	scored, failed int
	means          map[string]*stats.Moments // failures as 0
}

// add takes an outcome into account, all but its place among the worst.
func (t *trials) add(o Outcome) {
	item := entry(t.items, o.Item, func() *trialItem { return &trialItem{scores: map[string]*trialValues{}} })
	run := entry(t.runs, o.Trial, func() *trialRun { return &trialRun{means: map[string]*stats.Moments{}} })
	item.outcomes++
	if o.Failed() {
		item.failed++
		run.failed++
	} else {
		run.scored++
	}
	for i, s := range o.Scores {
		if _, twice := Lookup(o.Scores[:i], s.Name); twice {
			continue // named twice in one outcome: the first counts, as in Lookup
		}
		v := entry(item.scores, s.Name, func() *trialValues { return &trialValues{} })
		m := entry(run.means, s.Name, func() *stats.Moments { return &stats.Moments{} })
		v.add(s, o.Failed(), t.scorer.External(s.Name), m)
	}
}

func (v *trialValues) add(s Score, failed, external bool, run *stats.Moments) {
	if w := usable(s.Weight); w != nil && (v.weight == nil || *w < *v.weight) {
		v.weight = w // of different ones, which a stranger wrote, the least in any order
	}
	taken := s.Value != nil && math.Abs(*s.Value) <= stats.Limit
	v.presence.add(taken, s.Vacuous, failed, external)
	if taken {
		v.values = append(v.values, *s.Value)
		run.Add(*s.Value)
	} else if failed {
		run.Add(0)
	}
}

// with are the moments of the trials that have a value, and of so many zeros.
func (v *trialValues) with(zeros int) (m stats.Moments) {
	for _, x := range v.values {
		m.Add(x)
	}
	for range zeros {
		m.Add(0)
	}
	return m
}

// of gives a score of each item that has it.
func (t *trials) of(score string) iter.Seq[*trialValues] {
	return func(yield func(*trialValues) bool) {
		for _, item := range t.items {
			if v := item.scores[score]; v != nil && !yield(v) {
				return
			}
		}
	}
}

// worse keeps the worst trial of each item.
func (t *trials) worse(w WorstItem) {
	item := t.items[w.ID]
	if item.worst == nil || compareWorst(w, *item.worst) < 0 {
		item.worst = &w
	}
}

// stat sums a score up over the items. Only the pooled value is that of all
// outcomes, as s has it.
func (t *trials) stat(s Stat, outputOnly bool) Stat {
	out := Stat{Name: s.Name, Pooled: s.Pooled}
	var means, zeros stats.Moments
	var weighted weightedSum
	for v := range t.of(s.Name) {
		if mean, ok := v.with(0).Mean(); ok {
			means.Add(mean)
		}
		if mean, ok := v.with(v.failed + v.unanswered).Mean(); ok {
			zeros.Add(mean)
			weighted.add(mean, v.weight)
		}
		if v.unanswered > 0 {
			out.Unanswered++
		}
		switch {
		case len(v.values) > 0 && v.vacuous == len(v.values):
			out.Vacuous++
		case len(v.values) > 0:
		case v.failed > 0:
			out.Failed++
		case v.unanswered > 0:
		default:
			out.Undefined++
		}
	}
	out.describe(means, zeros, outputOnly)
	out.WeightedMean = weighted.mean()
	return out
}

// heaviest bounds weights and what they are multiplied with, so that sums of
// products are exact to the last digits.
const heaviest = 1e12

// usable returns a weight, nil where it cannot be used.
func usable(weight *float64) *float64 {
	if weight == nil || !(*weight >= 0 && *weight <= heaviest) {
		return nil
	}
	return weight
}

// weightedSum accumulates Σ value·weight and Σ weight.
type weightedSum struct{ products, weights stats.Sum }

// add takes a value into account; without a weight it counts for nothing.
func (w *weightedSum) add(value float64, weight *float64) {
	if weight == nil || math.Abs(value) > heaviest {
		return
	}
	w.products.Add(value * *weight)
	w.weights.Add(*weight)
}

// mean is nil where the weights sum up to 0.
func (w weightedSum) mean() *float64 {
	weights := w.weights.Value()
	return defined(w.products.Value()/weights, weights > 0)
}

// WorstItem is a scored item with a low primary score.
type WorstItem struct {
	ID      string  `json:"id"`
	Trial   int     `json:"trial,omitempty"`
	Score   float64 `json:"score"`
	Comment string  `json:"comment,omitempty"`
}

func (s *Summariser) addPrimary(o Outcome) {
	score, ok := Lookup(o.Scores, s.header.Scorer.Primary)
	if !ok || score.Value == nil {
		return
	}
	value := *score.Value
	if !(value < 1 && value >= -stats.Limit) {
		return // perfect, or no number
	}
	w := WorstItem{ID: o.Item, Score: value, Comment: cut(score.Comment)}
	if s.trials != nil {
		w.Trial = o.Trial
		s.trials.worse(w)
		return
	}
	s.worst.Offer(w)
}

// worstItems lists the worst items, each by its worst trial.
func (s *Summariser) worstItems() []WorstItem {
	if s.trials == nil {
		return s.worst.Values()
	}
	list := stats.NewShortlist(s.config.Worst, compareWorst)
	for _, item := range s.trials.items {
		if item.worst != nil {
			list.Offer(*item.worst)
		}
	}
	return list.Values()
}

func compareWorst(a, b WorstItem) int {
	return cmp.Or(cmp.Compare(a.Score, b.Score), cmp.Compare(a.ID, b.ID), cmp.Compare(a.Trial, b.Trial), cmp.Compare(a.Comment, b.Comment))
}

func (s *Summariser) usageSum() UsageSum {
	u := s.usage
	sum := UsageSum{Input: u.Input, Output: u.Output, Total: u.Total(), Cached: u.Cached, Reasoning: u.Reasoning}
	sum.CostUnknown = s.items.Scored + s.items.Failed - s.costKnown
	sum.CostUSD = defined(s.cost.Value(), s.costKnown > 0)
	if s.anyReplaced {
		var all stats.Sum
		all.Merge(s.cost)
		all.Merge(s.replaced)
		sum.AllCostUSD = new(all.Value())
	}
	return sum
}

func (s *Summariser) latencySummary() *Latencies {
	if len(s.latencies) == 0 {
		return nil
	}
	sorted := slices.Sorted(slices.Values(s.latencies))
	var m stats.Moments
	for _, ms := range sorted {
		m.Add(ms)
	}
	l := Latencies{N: len(sorted), Max: sorted[len(sorted)-1]}
	l.P50, _ = stats.Quantile(sorted, 0.5)
	l.P95, _ = stats.Quantile(sorted, 0.95)
	l.Mean, _ = m.Mean()
	return &l
}

type groupKey struct{ kind, name string }

func (s *Summariser) addGroups(groups []Group) {
	for _, g := range groups {
		key := groupKey{g.Kind, g.Name}
		sum := s.groups[key]
		if !sum.Add(g) {
			s.oddGroups++
			continue
		}
		sum.Kind, sum.Name = g.Kind, g.Name
		s.groups[key] = sum
	}
}

// Add adds the counts of h to those of g. Negative and absurd ones are refused:
// nothing changes and the result is false.
func (g *Group) Add(h Group) bool {
	if !countable(h.Expected) || !countable(h.Extracted) || !countable(h.Matched) {
		return false
	}
	g.Expected += h.Expected
	g.Extracted += h.Extracted
	g.Matched += h.Matched
	return true
}

// Stat returns the counts with their ratios.
func (g Group) Stat() GroupStat {
	s := GroupStat{Kind: g.Kind, Name: g.Name, Expected: g.Expected, Extracted: g.Extracted, Matched: g.Matched}
	if g.Expected+g.Extracted > 0 {
		s.Precision = new(quotient(g.Matched, g.Extracted, false))
		s.Recall = new(quotient(g.Matched, g.Expected, false))
		s.F1 = new(quotient(2*g.Matched, g.Expected+g.Extracted, false))
	}
	return s
}

// groupStats sorts by kind, then the most frequent first, then by name.
func (s *Summariser) groupStats() []GroupStat {
	list := make([]GroupStat, 0, len(s.groups))
	for _, g := range s.groups {
		list = append(list, g.Stat())
	}
	slices.SortFunc(list, func(a, b GroupStat) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(b.Expected, a.Expected),
			cmp.Compare(b.Extracted, a.Extracted), cmp.Compare(a.Name, b.Name))
	})
	return list
}

// summary says what the trials come to; planned is how many there are.
func (t *trials) summary(planned int, primary string, scores Stats) *Trials {
	out := &Trials{Count: planned, Items: len(t.items), Runs: []Trial{}, Scores: []Spread{}}
	flaky := stats.NewShortlist(mostFlaky, compareFlaky)
	for id, item := range t.items {
		if item.outcomes < planned {
			out.Uneven++
		}
		if f, ok := item.flaky(id, primary); ok {
			out.Flaky++
			flaky.Offer(f)
		}
	}
	out.FlakyItems = flaky.Values()
	for _, n := range slices.Sorted(maps.Keys(t.runs)) {
		run := t.runs[n]
		trial := Trial{Trial: n, Scored: run.scored, Failed: run.failed}
		if m := run.means[primary]; m != nil {
			trial.Mean = m.MeanOrNil()
		}
		out.Runs = append(out.Runs, trial)
	}
	for _, s := range scores {
		out.Scores = append(out.Scores, t.spread(s.Name))
	}
	return out
}

// flaky describes an item whose primary score varies.
func (i *trialItem) flaky(id, primary string) (FlakyItem, bool) {
	v := i.scores[primary]
	if v == nil {
		return FlakyItem{}, false
	}
	m := v.with(v.failed)
	least, top, ok := m.Range()
	if !ok || top-least <= same {
		return FlakyItem{}, false
	}
	mean, _ := m.Mean()
	return FlakyItem{ID: id, Trials: i.outcomes, Failed: i.failed, Least: least, Top: top, Mean: mean}, true
}

// spread says how much a score varies between trials and within items.
func (t *trials) spread(score string) Spread {
	out := Spread{Name: score}
	var runs, within stats.Moments
	for _, run := range t.runs {
		if m := run.means[score]; m != nil && m.N() > 0 {
			mean, _ := m.Mean()
			runs.Add(mean)
		}
	}
	if sd, ok := runs.SD(); ok {
		least, top, _ := runs.Range()
		out.Least, out.Top, out.Between = &least, &top, &sd
	}
	for v := range t.of(score) {
		m := v.with(v.failed)
		if variance, ok := m.Variance(); ok {
			within.Add(variance)
			if least, top, _ := m.Range(); top-least <= same {
				out.Consistent++
			}
		}
	}
	out.N = within.N()
	mean, ok := within.Mean()
	out.Within = defined(math.Sqrt(mean), ok)
	return out
}
