package compare

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"extraction-experiment/dataset"
	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/stats"
	"extraction-experiment/internal/textutil"
	"extraction-experiment/outcome"
)

// comparePair compares two runs. The p-value is not yet corrected for the number of pairs;
// correctPairs needs the Score for that.
func (c Config) comparePair(first, second *entry) (Pair, *Score) {
	p := Pair{First: first.header.Name, Second: second.header.Name, Verdict: Unclear, Incompatible: []Mismatch{}}
	problems := slices.Concat(CompareHeaders(first.header, second.header),
		first.checkFinished("run "+p.First), second.checkFinished("run "+p.Second))
	if len(problems) == 0 {
		problems = slices.Concat(itemMismatch(onlyIn(first.items, second.items), "without an outcome in "+p.Second),
			itemMismatch(onlyIn(second.items, first.items), "without an outcome in "+p.First))
	}
	if len(problems) > 0 {
		p.Incompatible = problems
		return p, &Score{Verdict: Unclear}
	}
	col := &column{clustered: c.clustered()}
	for i, id := range slices.Sorted(maps.Keys(first.items)) {
		col.add(first.items[id], second.items[id], i, first.clusters.byItem[id], false)
	}
	s := c.score(c.Metric, col)
	s.Incomparable = incomparableReason(c.Metric, first.Summary, second.Summary)
	if !s.same() && !s.canClaim() || s.Incomparable != "" {
		s.P = nil // no significant difference
	}
	p.N, p.Difference, p.CI95, p.P = s.N, s.Difference, s.CI95, s.P
	p.Wins, p.Losses, p.Ties = s.Wins, s.Losses, s.Ties
	return p, &s
}

// onlyIn returns the ids that are in one, but not in other.
func onlyIn[V any](one, other map[string]V) []string {
	return slices.DeleteFunc(slices.Collect(maps.Keys(one)), func(id string) bool {
		_, known := other[id]
		return known
	})
}

// correctPairs corrects the p-values for the number of pairs, and sets the verdicts.
func correctPairs(pairs []Pair, scores []*Score) {
	holm(cli.Each(scores, func(s *Score) []*Score { return []*Score{s} }))
	for i, s := range scores {
		pairs[i].PHolm, pairs[i].Verdict = s.PHolm, s.verdict()
	}
}

// runItems yields the items of a run with their outcomes, in the order of their ids, and adds the
// outcomes to r.summariser. order is the order of the scores in the summary. A source whose
// outcomes are not in order, or that has one twice, is an error.
func (r *run) runItems(ctx context.Context, order []string) iter.Seq2[*runItem, error] {
	r.summariser = outcome.NewSummariser(r.header, outcome.SummaryConfig{Order: order, Worst: -1})
	return func(yield func(*runItem, error) bool) {
		var u *runItem
		for o, err := range r.Outcomes(ctx) {
			if err == nil && u != nil && (o.Item < u.id || o.Item == u.id && o.Trial <= u.trials[len(u.trials)-1].Trial) {
				err = fmt.Errorf("reading %s: item %q (trial %d) comes after %q, outcomes must come once, in order of their ids",
					r.Where(), o.Item, o.Trial, u.id)
			}
			if err != nil {
				yield(nil, err)
				return
			}
			r.summariser.Add(o)
			if u == nil || o.Item != u.id {
				if u != nil && !yield(u, nil) {
					return
				}
				u = &runItem{id: o.Item}
			}
			u.add(o)
		}
		if u != nil {
			yield(u, nil)
		}
	}
}

// runItem is one item of one run, with its trials averaged.
type runItem struct {
	id      string
	failed  int
	values  []value
	groups  []outcome.Group
	cost    stats.Moments     // of the trials with a known cost
	latency stats.Moments     // in milliseconds
	trials  []outcome.Outcome // without their calls, groups and warnings
}

// sameResults reports whether every trial has the same known output in both runs, or failed in
// the same way.
func (u *runItem) sameResults(v *runItem) bool {
	return slices.EqualFunc(u.trials, v.trials, func(a, b outcome.Outcome) bool {
		return a.Class == b.Class && (a.Class != outcome.OK || !textutil.AbsentJSON(a.Output)) && sameJSON(a.Output, b.Output)
	})
}

// sameJSON reports whether two JSON values are equal, in any spelling.
func sameJSON(a, b json.RawMessage) bool {
	if bytes.Equal(a, b) {
		return true
	}
	x, errX := dataset.Canonical(a)
	y, _ := dataset.Canonical(b) // without an error, it is not empty
	return errX == nil && bytes.Equal(x, y)
}

// value is one score of an item, summed over its trials.
type value struct {
	name     string
	sum      float64
	n        int // trials that count; failed ones add 0
	num, den int64
	ratios   int  // trials with a usable ratio
	boolean  bool // the values mean no or yes
	weight   *float64
}

func (u *runItem) add(o outcome.Outcome) {
	if o.Failed() {
		u.failed++
	}
	for i, s := range o.Scores {
		if _, duplicate := outcome.Lookup(o.Scores[:i], s.Name); duplicate {
			continue // the first of a name counts
		}
		if u.find(s.Name) == nil {
			u.values = append(u.values, value{name: s.Name})
		}
		u.find(s.Name).add(s, o.Failed())
	}
	u.groups = append(u.groups, o.Groups...)
	if o.CostUSD != nil && usable(*o.CostUSD) {
		u.cost.Add(*o.CostUSD)
	}
	if o.Latency > 0 && o.FromCache == 0 { // a cache hit tells nothing about the model
		u.latency.Add(float64(o.Latency) / float64(time.Millisecond))
	}
	o.Calls, o.Groups, o.Warnings = nil, nil, nil
	u.trials = append(u.trials, o)
}

// meanCost returns the mean cost of a trial, or nil if it is unknown for any.
func (u *runItem) meanCost() *float64 {
	if u.cost.N() < len(u.trials) {
		return nil
	}
	return u.cost.MeanOrNil()
}

// add adds the score of one trial. If the item failed, a score without a value counts as 0:
// failed outcomes list only scores that the expected output defines.
func (v *value) add(s outcome.Score, failed bool) {
	if v.weight == nil && s.Weight != nil && *s.Weight >= 0 && usable(*s.Weight) {
		v.weight = s.Weight
	}
	switch {
	case s.Value != nil && usable(*s.Value):
		v.sum += *s.Value
		v.n++
		v.boolean = v.boolean || s.Boolean
		if r := s.Ratio; r.Usable() {
			v.num += r.Num
			v.den += r.Den
			v.ratios++
		}
	case failed:
		v.n++
	}
}

// mean returns the mean of the trials, and false if none has a value.
func (v *value) mean() (float64, bool) {
	if v == nil || v.n == 0 {
		return 0, false
	}
	return v.sum / float64(v.n), true
}

// usable reports whether differences of such values can be summed. NaN is not usable.
func usable(v float64) bool { return math.Abs(v) <= stats.Limit/4 }

// Mismatch is a reason why two runs cannot be compared.
type Mismatch struct {
	What      string `json:"what"`
	Base      string `json:"base"`
	Candidate string `json:"candidate"`
	Advice    string `json:"advice,omitempty"` // how to make the runs comparable
}

// String describes the mismatch in one line.
func (m Mismatch) String() string { return m.text("the base", "the candidate") }

func (m Mismatch) text(base, candidate string) string {
	text := m.What
	if m.Base != "" || m.Candidate != "" {
		text += fmt.Sprintf(": %s in %s, %s in %s", m.Base, base, m.Candidate, candidate)
	}
	if m.Advice != "" {
		text += "; " + m.Advice
	}
	return text
}

// OtherItems is Mismatch.What for runs over other items, or other content of them.
const OtherItems = "fingerprint of the dataset"

// valueMismatch returns a Mismatch of two different values; an empty value is unknown.
func valueMismatch(what, base, cand string) Mismatch {
	return Mismatch{What: what, Base: cmp.Or(base, "unknown"), Candidate: cmp.Or(cand, "unknown")}
}

// CompareHeaders lists the differences between the headers of two runs that make them
// incomparable. A missing hash never equals another.
func CompareHeaders(base, cand outcome.Header) []Mismatch {
	var list []Mismatch
	check := func(equal bool, what, b, c string) {
		if !equal {
			list = append(list, valueMismatch(what, b, c))
		}
	}
	b, c := base.Dataset, cand.Dataset
	sameData := b.Fingerprint == c.Fingerprint && b.Fingerprint != ""
	check(base.Harness == cand.Harness, "harness", base.Harness, cand.Harness)
	check(sameData, OtherItems, b.Fingerprint, c.Fingerprint)
	if b.Fingerprint != c.Fingerprint && b.Selection != c.Selection {
		other := valueMismatch("selection of items", cmp.Or(b.Selection, "all"), cmp.Or(c.Selection, "all"))
		other.Advice = "run both with the same --limit, --item and --filter"
		list = append(list, other)
	}
	scorers := CompareScorers(base.Scorer, cand.Scorer)
	if b, c := base.Scorer.Version, cand.Scorer.Version; b != c && b != "" && c != "" && base.Harness == "extraction" {
		scorers[0].Advice = "experiment rescore scores the results of the older run again, without the model"
	}
	list = append(list, scorers...)
	for _, key := range []string{outcome.PDFSHA256, outcome.QuestionsSHA256} {
		b, c := base.Metadata[key], cand.Metadata[key]
		unknown := base.Harness == "answers" && b == ""
		// Earlier versions hashed the same questions in another form.
		otherForm := sameData && key == outcome.QuestionsSHA256 && b != "" && c != ""
		check(b == c && !unknown || otherForm, key, b, c)
	}
	return list
}

// CompareScorers lists the differences between two scorers: the version first, then each option.
// A missing version never equals another.
func CompareScorers(base, cand outcome.Scorer) (list []Mismatch) {
	if b, c := base.Version, cand.Version; b != c || b == "" {
		list = append(list, valueMismatch("scorer version", b, c))
	}
	return append(list, compareOptions(base.Options, cand.Options)...)
}

// compareOptions lists the scoring options that differ.
func compareOptions(base, cand json.RawMessage) (list []Mismatch) {
	if bytes.Equal(base, cand) {
		return nil
	}
	var b, c map[string]json.RawMessage
	if len(base) > 0 && json.Unmarshal(base, &b) != nil || len(cand) > 0 && json.Unmarshal(cand, &c) != nil {
		return []Mismatch{valueMismatch("scoring options", string(base), string(cand))}
	}
	both := map[string]json.RawMessage{}
	maps.Copy(both, b)
	maps.Copy(both, c)
	for _, key := range slices.Sorted(maps.Keys(both)) {
		if !sameJSON(b[key], c[key]) {
			list = append(list, valueMismatch("scoring option "+key, string(b[key]), string(c[key])))
		}
	}
	return list
}

// compareItems lists the items that are in one run only, and those with different hashes.
func compareItems(base, cand run) []Mismatch {
	var changed []string
	for id, hash := range cand.hashes {
		if was := base.hashes[id]; was != "" && hash != "" && was != hash {
			changed = append(changed, id)
		}
	}
	other := itemMismatch(changed, "with other content")
	for i := range other {
		other[i].Advice = RescoreAdvice(base.header, cand.header)
	}
	return slices.Concat(itemMismatch(onlyIn(base.hashes, cand.hashes), "only in the base"),
		itemMismatch(onlyIn(cand.hashes, base.hashes), "only in the candidate"), other)
}

// RescoreAdvice returns what makes runs over two versions of a dataset comparable, or "".
func RescoreAdvice(base, cand outcome.Header) string {
	if base.Dataset.Name != cand.Dataset.Name || base.Harness != "extraction" || cand.Harness != base.Harness {
		return ""
	}
	return fmt.Sprintf("experiment rescore --dataset %s@now %s scores both against the current gold",
		cli.Quote(base.Dataset.Name), cli.Arguments(base.Name, cand.Name))
}

// itemMismatch returns a Mismatch that names the first of these items, or nothing if there are
// none.
func itemMismatch(ids []string, what string) []Mismatch {
	if len(ids) == 0 {
		return nil
	}
	slices.Sort(ids)
	return []Mismatch{{What: fmt.Sprintf("%s %s: %s", textutil.Counted(len(ids), "item"), what, textutil.First(ids, 5))}}
}

// incomparableReason returns why the difference of a score tells nothing about the runs, as a
// text to follow the name of the score; or "". It concerns scores of external evaluators: both
// runs must have asked the same evaluator, and it must have answered for every output.
func incomparableReason(name string, base, cand outcome.Summary) string {
	b, inBase := customScorer(name, base)
	c, inCand := customScorer(name, cand)
	if inBase && inCand && !b.Same(c) {
		return "comes from another evaluator, or one that has changed: its difference says nothing about the runs"
	}
	var missing []string
	for i, side := range []outcome.Summary{base, cand} {
		if stat, ok := side.Scores.Lookup(name); ok && stat.Unanswered > 0 {
			missing = append(missing, unansweredText(stat, side)+[]string{" of the base", " of the candidate"}[i])
		}
	}
	if len(missing) == 0 {
		return ""
	}
	return fmt.Sprintf("has no value for %s: the evaluator gave none", strings.Join(missing, " and "))
}

func customScorer(name string, s outcome.Summary) (outcome.CustomScorer, bool) {
	for _, c := range s.Run.CustomScorers {
		if c.Name == name {
			return c, true
		}
	}
	return outcome.CustomScorer{}, false
}

// unansweredText says for how many items an evaluator gave no score, with trials in any of them.
func unansweredText(s outcome.Stat, run outcome.Summary) string {
	items := s.N + s.Failed + s.Unanswered
	if run.Trials != nil { // an item without a score in one trial may have one in another
		items = run.Trials.Items
	}
	return textutil.Countf("%d of %s", s.Unanswered, textutil.Counted(items, "item"))
}
