package outcome

import (
	"cmp"
	"fmt"
	"maps"
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

// Summariser computes the Summary of a run from its outcomes, one by one.
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
	latencies    []float64 // milliseconds
	worst        *stats.Shortlist[WorstItem]
	trials       *trials // nil for a run of one trial
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

// AddReplaced takes into account the cost of an attempt that was replaced by a newer one.
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
		Worst:     s.worst.Values(),
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
		t := entry(s.scores, score.Name, func() *tally {
			return &tally{external: scorer.External(score.Name), outputOnly: slices.Contains(scorer.OutputOnly, score.Name)}
		})
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
	}
	s.worst.Replace(w, func(other WorstItem) bool { return other.ID == w.ID }) // each by its worst trial
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

// Add adds the counts of h to those of g. If they are negative or absurdly large, nothing
// changes and the result is false.
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
