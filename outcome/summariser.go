package outcome

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"extraction-experiment/internal/stats"
	"extraction-experiment/internal/textutil"
)

// SummaryConfig configures a Summariser. The zero value is usable.
type SummaryConfig struct {
	// Order lists score names in the order in which they are shown. Other scores follow in
	// alphabetical order.
	Order []string
	// Worst is the number of worst items that are kept, for the run and for each cause; 0 means
	// 5, and a negative number none.
	Worst int
	// Messages is the number of failed items that are kept for each class, the first by order
	// of arrival; 0 means 3, and a negative number none.
	Messages int
}

// Summariser computes the Summary of a run from its outcomes, one by one.
//
// The order of Add does not change the Summary in any digit: sums are exact (stats.Sum), and
// lists are sorted without ties. Memory is bounded by the number of score names, groups, causes,
// failure classes and workers, by the items kept, by 8 bytes per timed outcome, and by the texts of
// different warnings, 16 MiB at most. A run of several trials also needs about 100 bytes for each
// score of each item, 8 for each trial of it, and about 50 for each warning of it. A Summariser is
// not safe for concurrent use.
type Summariser struct {
	header Header
	config SummaryConfig

	items         Items
	scores        map[string]*scoreTally
	failures      map[Class]*failureTally
	byWorker      map[string]int // outcomes
	groups        map[groupKey]Group
	invalidGroups int
	notCounted    int // failed outcomes without the primary score
	// withoutPrimary counts other outcomes without a value of it; whyWithout is the reason that sorts
	// first, whatever the order of the outcomes.
	withoutPrimary int
	whyWithout     string
	causes         map[groupKey]*causeTally

	itemWarnings  itemWarnings
	judging       judgingSum
	usage         Usage
	cost          stats.Sum
	costKnown     int
	allCost       stats.Sum // with that of attempts that newer ones replaced
	replacedKnown bool      // the cost of such an attempt is known
	latencies     []float64 // milliseconds
	worst         *stats.Shortlist[WorstItem]
	trials        *trials // nil for a run of one trial
}

// NewSummariser returns a Summariser for the run that h describes.
func NewSummariser(h Header, cfg SummaryConfig) *Summariser {
	cfg.Worst, cfg.Messages = cmp.Or(cfg.Worst, 5), cmp.Or(cfg.Messages, 3)
	s := &Summariser{
		header: h, config: cfg,
		scores:       map[string]*scoreTally{},
		failures:     map[Class]*failureTally{},
		byWorker:     map[string]int{},
		groups:       map[groupKey]Group{},
		causes:       map[groupKey]*causeTally{},
		itemWarnings: newItemWarnings(h.Trials),
		worst:        stats.NewShortlist(cfg.Worst, compareWorst),
	}
	if h.Trials > 1 {
		s.trials = &trials{
			items: map[string]*trialItem{}, scores: map[string]map[string]*trialValues{}, runs: map[int]*trialRun{},
		}
	}
	return s
}

// Add adds an outcome. Each outcome must be added once, and only the newest attempt of an item.
// Of the Detail, only Failure, NothingExpected, Groups, Causes, FromCache, Judging, Worker and
// Warnings are used. Without Failure, the message is the comment of the error score.
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
	}
	s.byWorker[o.Worker]++
	primary, defined := Lookup(o.Scores, s.header.Scorer.Primary)
	switch {
	case s.header.Scorer.Primary == "":
	case o.Failed():
		if !defined {
			s.notCounted++
		}
	case primary.Value != nil:
		s.addWorst(o, primary)
	default:
		s.withoutPrimary++
		why := cmp.Or(primary.Reason, "their expected output is missing or says nothing of it")
		s.whyWithout = min(cmp.Or(s.whyWithout, why), why)
	}
	if o.NothingExpected || primary.Vacuous && !slices.ContainsFunc(o.Scores, Score.counts) {
		s.items.NothingToFind++
	}
	if o.Attempt > 1 {
		s.items.Retried++
	}
	s.addScores(o)
	s.itemWarnings.add(o)
	s.judging.add(o.Judging)
	s.usage = s.usage.Add(o.Usage.Bounded())
	if o.CostUSD != nil && s.cost.Add(*o.CostUSD) {
		s.allCost.Add(*o.CostUSD)
		s.costKnown++
	}
	if o.FromCache > 0 {
		s.items.FromCache++
	} else if o.Latency > 0 {
		s.latencies = append(s.latencies, float64(o.Latency)/float64(time.Millisecond))
	}
}

// counts reports whether the score is a share of something. In outcomes of earlier versions, which do not say that
// nothing was expected, no score is if nothing was.
func (s Score) counts() bool { return !s.Boolean && s.Ratio.Usable() && s.Ratio.Den > 0 }

// AddReplaced adds the cost of an attempt that a newer one replaced.
func (s *Summariser) AddReplaced(o Outcome) {
	s.judging.add(o.Judging)
	if o.CostUSD != nil && s.allCost.Add(*o.CostUSD) {
		s.replacedKnown = true
	}
}

// Summary returns the summary of the outcomes so far; more may be added afterwards. Status is
// Unfinished until Summary.Finish is called. Time: O(n log n) for n latencies, which are
// sorted.
func (s *Summariser) Summary() Summary {
	scores := s.scoreStats()
	sum := Summary{
		Run:       runInfo(s.header),
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
		Worst:     s.worst.Values(),
		Warnings:  s.warnings(),
	}
	sum.Items.Planned = s.items.Scored + s.items.Failed
	if s.trials != nil {
		sum.Trials = s.trials.summary(s.header.Trials, s.header.Scorer.Primary, scores)
	}
	return sum
}

func (s *Summariser) addScores(o Outcome) {
	ordinal := s.items.Scored + s.items.Failed
	scorer := &s.header.Scorer
	for _, score := range o.Scores {
		t := getOrCreate(s.scores, score.Name, func() *scoreTally {
			return &scoreTally{external: scorer.External(score.Name), outputOnly: slices.Contains(scorer.OutputOnly, score.Name)}
		})
		if t.lastOutcome == ordinal {
			continue // repeated name: the first counts, as in Lookup
		}
		t.lastOutcome = ordinal
		t.add(score, o.Failed())
		if s.trials != nil {
			s.trials.addScore(o, score, t.external)
		}
	}
}

// getOrCreate returns the value of a key, which create makes if the map has none.
func getOrCreate[K comparable, V any](m map[K]*V, key K, create func() *V) *V {
	value := m[key]
	if value == nil {
		value = create()
		m[key] = value
	}
	return value
}

func (s *Summariser) scoreStats() Stats {
	list := make(Stats, 0, len(s.scores))
	for _, name := range OrderedNames(s.scores, s.config.Order) {
		stat := s.scores[name].stat(name)
		if s.trials != nil {
			stat = s.trials.stat(stat, s.scores[name].outputOnly)
		}
		list = append(list, stat)
	}
	return list
}

// OrderedNames returns the names that a map has, each once: first those of order, then the others sorted.
func OrderedNames[V any](m map[string]V, order []string) (names []string) {
	for _, name := range slices.Concat(order, slices.Sorted(maps.Keys(m))) {
		if _, known := m[name]; known && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

func (s *Summariser) warnings() []string {
	list := []string{}
	warn := func(condition bool, format string, args ...any) {
		if condition {
			list = append(list, textutil.Countf(format, args...))
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
		n := s.scores[name].notFinite
		warn(n > 0, "%s: not finite or too large, and taken for undefined: %s", name, textutil.Counted(n, "value"))
	}
	warn(s.notCounted > 0, "no %s, not even 0, for %d of %s: their expected output is missing or cannot be used",
		s.header.Scorer.Primary, s.notCounted, textutil.Counted(s.items.Failed, "failed outcome"))
	warn(s.withoutPrimary > 0, "no %s for %d of %d outcomes that did not fail: %s",
		s.header.Scorer.Primary, s.withoutPrimary, s.items.Scored, s.whyWithout)
	rows := textutil.Counted(s.invalidGroups, "row")
	warn(s.invalidGroups > 0, "left out of the breakdown by type: %s with a negative or absurd count", rows)
	return append(append(list, s.workerWarnings()...), s.itemWarnings.list()...)
}

// WorstItem is a scored item with a low primary score.
type WorstItem struct {
	ID      string  `json:"id"`
	Trial   int     `json:"trial,omitempty"`
	Score   float64 `json:"score"`
	Comment string  `json:"comment,omitempty"`
}

func (s *Summariser) addWorst(o Outcome, primary Score) {
	value := *primary.Value
	if !(value < 1 && value >= -stats.Limit) {
		return // perfect, or not a usable number
	}
	w := WorstItem{ID: o.Item, Score: value, Comment: shorten(primary.Comment)}
	if s.trials != nil {
		w.Trial = o.Trial
	}
	s.worst.Replace(w, func(other WorstItem) bool { return other.ID == w.ID }) // the worst trial of each item
}

func compareWorst(a, b WorstItem) int {
	return cmp.Or(cmp.Compare(a.Score, b.Score), cmp.Compare(a.ID, b.ID), cmp.Compare(a.Trial, b.Trial), cmp.Compare(a.Comment, b.Comment))
}

func (s *Summariser) usageSum() UsageSum {
	u := s.usage
	sum := UsageSum{Input: u.Input, Output: u.Output, Total: u.Total(), Cached: u.Cached, Reasoning: u.Reasoning}
	sum.CostUnknown = s.items.Scored + s.items.Failed - s.costKnown
	sum.CostUSD = ptrIf(s.cost.Value(), s.costKnown > 0)
	sum.AllCostUSD = ptrIf(s.allCost.Value(), s.replacedKnown)
	return sum
}

func (s *Summariser) latencySummary() *Latencies {
	if len(s.latencies) == 0 {
		return nil
	}
	sorted := slices.Sorted(slices.Values(s.latencies))
	m, _ := stats.MomentsOf(sorted)
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
			s.invalidGroups++
			continue
		}
		sum.Kind, sum.Name = g.Kind, g.Name
		s.groups[key] = sum
	}
}

// Add adds the counts of h to those of g. If a count of h is negative or absurdly large, Add
// changes nothing and returns false.
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
	s := GroupStat{Group: g}
	if g.Expected+g.Extracted > 0 {
		s.Precision = new(quotient(g.Matched, g.Extracted, false))
		s.Recall = new(quotient(g.Matched, g.Expected, false))
		s.F1 = new(quotient(2*g.Matched, g.Expected+g.Extracted, false))
	}
	return s
}

// groupStats returns the groups by kind, then the most frequent first, then by name.
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
