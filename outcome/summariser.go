package outcome

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"extraction-experiment/internal/printable"
	"extraction-experiment/internal/shortlist"
	"extraction-experiment/internal/stats"
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
	latencies    []float64                  // milliseconds
	worst        *shortlist.List[WorstItem] // of a run of one trial
	trials       *trials                    // nil for a run of one trial
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
		scores:   map[string]*tally{},
		failures: map[Class]*failureTally{},
		groups:   map[groupKey]Group{},
		causes:   map[groupKey]*causeTally{},
		worst:    shortlist.New(cfg.Worst, compareWorst),
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
	for _, score := range o.Scores {
		t := s.scores[score.Name]
		if t == nil {
			t = &tally{external: s.header.Scorer.External(score.Name), outputOnly: slices.Contains(s.header.Scorer.OutputOnly, score.Name)}
			s.scores[score.Name] = t
		}
		if t.last == ordinal {
			continue // named twice in one outcome: the first counts, as in Lookup
		}
		t.last = ordinal
		t.add(score, o.Failed())
	}
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
	for _, c := range s.header.Scorer.Custom {
		if c.Uncertified != "" {
			list = append(list, fmt.Sprintf("%s comes from an external evaluator that is not certified (%s): %s", c.Name, c.Evaluator, c.Uncertified))
		}
		if c.Weak != "" {
			list = append(list, fmt.Sprintf("%s comes from an external evaluator whose certificate says little (%s): %s", c.Name, c.Evaluator, c.Weak))
		}
		if c.Carried != "" {
			list = append(list, fmt.Sprintf("%s was taken over from the run %s: the evaluator was not asked again", c.Name, c.Carried))
		}
		if t := s.scores[c.Name]; t != nil && t.unanswered > 0 {
			list = append(list, fmt.Sprintf("%s has no value for %d of %d outcomes, which count as 0: the evaluator gave none; experiment show says why", c.Name, t.unanswered, s.items.Scored))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.scores)) {
		if n := s.scores[name].refused; n > 0 {
			list = append(list, fmt.Sprintf("%s: not finite, and taken for undefined: %s", name, printable.Counted(n, "value")))
		}
	}
	if s.oddGroups > 0 {
		list = append(list, fmt.Sprintf("left out of the breakdown by type: %s of which a count is negative or absurd", printable.Counted(s.oddGroups, "row")))
	}
	return append(list, s.itemWarnings.list()...)
}
