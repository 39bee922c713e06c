package bench

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/stats"
	"extraction-experiment/outcome"
	"extraction-experiment/runstore"
)

// Report is what a run comes to. Rates are in [0,1] and 1 where there is nothing
// to count.
type Report struct {
	Run    string `json:"run"`
	Mode   string `json:"mode"`
	Model  string `json:"model"`
	Trials int    `json:"trials"`
	// Sources says how many cases were read from where; runs of before have none.
	Sources string `json:"cases"`

	// FailedCalls counts the cases and trials that nobody answered, Failures says
	// why, by class. They are no successes and cover nothing, whatever was
	// expected. Where nobody answered anything, the rates of records and the
	// stability are 0.
	FailedCalls int           `json:"failedCalls"`
	Failures    []FailedCalls `json:"failures"`

	// SchemaValidRate is records of valid shape / records, QuoteInvariantRate
	// records that quote the document / records, over all trials.
	SchemaValidRate    float64      `json:"schemaValidRate"`
	QuoteInvariantRate float64      `json:"quoteInvariantRate"`
	QuoteErrors        map[Code]int `json:"quoteErrors"`
	// UniqueExtractionStability is the mean, over all pairs of trials, of the
	// Jaccard index of their sets of keys (case, class, offsets, quote): shared
	// / all; 1 for two empty sets and for a single trial. Cases count that have
	// an outcome in both.
	UniqueExtractionStability float64  `json:"uniqueExtractionStability"`
	Variance                  Variance `json:"variance"`

	// SuccessRate and CoverageRate are means over the cases and trials; a case
	// without an outcome did not succeed.
	SuccessRate  float64 `json:"successRate"`
	CoverageRate float64 `json:"coverageRate"`
	// SuccessRateStdDev is that of the trials' success rates (of a population).
	SuccessRateStdDev float64 `json:"successRateStdDev"`
	// CaseOutcomeDriftRate is the share of cases that did not come to the same
	// in every trial that has them: kind of emptiness, failure, and set of keys.
	CaseOutcomeDriftRate float64  `json:"caseOutcomeDriftRate"`
	DriftingCases        []string `json:"driftingCases"`

	Breadth    Breadth    `json:"breadth"`
	Categories []Category `json:"categories"`
	// Causes are the records and cases that lowered a rate, the first hundred in
	// the order of case, cause and trial; MoreCauses counts the others.
	Causes     []Cause  `json:"causes"`
	MoreCauses int      `json:"moreCauses"`
	Warnings   []string `json:"warnings"`

	// Answered counts the others; where there are none, there is nothing to measure.
	Answered int `json:"-"`
}

// FailedCalls are cases of one class of failure that nobody answered: the system
// could not be asked, or said that it failed. An answer that cannot be used is
// none of them.
type FailedCalls struct {
	Class outcome.Class `json:"class"`
	Count int           `json:"count"`
	// CaseID and Message are those of the first, by case and trial.
	CaseID  string `json:"caseId"`
	Message string `json:"message"`

	trial int
}

// Variance describes the numbers of extractions of the trials.
type Variance struct {
	RunCount         int     `json:"runCount"`
	ExtractionCounts []int   `json:"extractionCounts"`
	Min              int     `json:"min"`
	Max              int     `json:"max"`
	Mean             float64 `json:"mean"`
	// Stability is Min / Max, 1 where nothing was extracted at all.
	Stability float64 `json:"stability"`
	// Variance and StdDev are those of a population.
	Variance float64 `json:"extractionCountVariance"`
	StdDev   float64 `json:"extractionCountStdDev"`
}

// Breadth says how much was looked at.
type Breadth struct {
	TotalCaseCount          int `json:"totalCaseCount"`
	SmokeCaseCount          int `json:"smokeCaseCount"`
	RegressionCaseCount     int `json:"regressionCaseCount"`
	RegressionCategoryCount int `json:"regressionCategoryCount"`
}

// Category is what the cases of one category come to, over all trials.
type Category struct {
	Name               string  `json:"category"`
	Cases              int     `json:"cases"`
	Extractions        int     `json:"extractions"`
	SuccessRate        float64 `json:"successRate"`
	SchemaValidRate    float64 `json:"schemaValidRate"`
	QuoteInvariantRate float64 `json:"quoteInvariantRate"`
	CoverageRate       float64 `json:"coverageRate"`
}

// Cause is a reason why a rate is below 1.
type Cause struct {
	CaseID string `json:"caseId"`
	Trial  int    `json:"trial"`
	Metric string `json:"metric"`
	// Code, Class and Quote say which record it was, where it was one.
	Code   Code   `json:"code,omitempty"`
	Class  string `json:"class,omitempty"`
	Quote  string `json:"quote,omitempty"`
	Detail string `json:"detail"`
}

// Err returns nil where every call was answered. Its exit code is 69 where
// nothing was answered because the system could not be reached or refused, 70
// where this program is at fault, else 4.
func (r Report) Err() error {
	if r.FailedCalls == 0 {
		return nil
	}
	code, unreached := cli.ExitFailures, r.Answered == 0
	for _, f := range r.Failures {
		switch f.Class {
		case outcome.Internal:
			code = cli.ExitBug
		case outcome.Provider, outcome.RateLimited, outcome.Timeout:
			continue
		}
		unreached = false
	}
	if unreached {
		code = cli.ExitUnavailable
	}
	first := r.Failures[0]
	return cli.Errorf(code, "%d of %d calls failed; the first (%s, case %s): %s",
		r.FailedCalls, r.FailedCalls+r.Answered, first.Class, first.CaseID, first.Message)
}

// Measure makes the report of a run of this harness from its file alone. The
// error has exit code 64 where the run is of another harness. Memory is
// proportional to the number of distinct extractions.
func Measure(ctx context.Context, run *runstore.Reader) (Report, error) {
	header, err := run.Header(ctx)
	if err != nil {
		return Report{}, err
	}
	if header.Harness != Name {
		return Report{}, wrongRun(header)
	}
	m := newMeasurer(max(1, header.Trials))
	for item, err := range run.Items(ctx) {
		if err != nil {
			return Report{}, err
		}
		var g gold
		if err := json.Unmarshal(item.Expected, &g); err != nil {
			return Report{}, fmt.Errorf("reading the run: case %s: %w", item.ID, err)
		}
		m.addCase(item.ID, g)
	}
	for o, err := range run.Outcomes(ctx, runstore.Query{Newest: true, Detail: true}) {
		if err != nil {
			return Report{}, err
		}
		m.add(o)
	}
	r := m.report()
	about := header.Metadata
	r.Run, r.Model, r.Mode, r.Sources = header.Name, header.System.Model, about[keyMode], about[keySources]
	if n := about[keyLeftOut]; n != "" {
		r.Warnings = append(r.Warnings, n+" cases expect that their stored answer fails; "+
			"they were left out, as they are not about the system that answered")
	}
	return r, nil
}

// wrongRun is the error of a run that is not one of the bench.
func wrongRun(h outcome.Header) error {
	return cli.Usage("the run %q is of the harness %s: experiment bench run makes runs of the bench", h.Name, h.Harness)
}

// sum adds judgements up.
type sum struct {
	cases, outcomes, success int
	count, shaped, quoted    int
	coverage                 stats.Sum
}

func (s *sum) add(r judgement) {
	s.outcomes++
	s.success += toInt(r.success)
	s.count += r.count
	s.shaped += r.shaped
	s.quoted += r.quoted
	s.coverage.Add(rate(r.covered, r.wanted))
}

// category is what the cases come to in so many trials.
func (s *sum) category(name string, trials int) Category {
	planned := s.cases * trials
	c := Category{
		Name: name, Cases: s.cases, Extractions: s.count, SuccessRate: rate(s.success, planned),
		SchemaValidRate: rate(s.shaped, s.count), QuoteInvariantRate: rate(s.quoted, s.count), CoverageRate: 1,
	}
	if planned > 0 {
		c.CoverageRate = s.coverage.Value() / float64(planned)
	}
	return c
}

// set is a set of keys or other texts.
type set map[string]bool

// trial is one pass over the cases. Its keys are those of what was extracted, by
// case; a case without an outcome has no entry.
type trial struct {
	sum
	keys map[string]set
}

// measured is a case with what it came to, in any trial.
type measured struct {
	gold gold
	came set
}

type measurer struct {
	trials     []trial
	cases      map[string]measured
	all        sum
	categories map[string]*sum
	errors     map[Code]int
	failures   map[outcome.Class]FailedCalls
	causes     *stats.Shortlist[Cause]
	noted      int // causes
}

// mostCauses is how many causes a report keeps.
const mostCauses = 100

func newMeasurer(trials int) *measurer {
	m := &measurer{
		trials: make([]trial, trials), cases: map[string]measured{}, categories: map[string]*sum{},
		errors: map[Code]int{}, failures: map[outcome.Class]FailedCalls{}, causes: stats.NewShortlist(mostCauses, compareCauses),
	}
	for i := range m.trials {
		m.trials[i].keys = map[string]set{}
	}
	return m
}

func (m *measurer) addCase(id string, g gold) {
	g.Category = cmp.Or(g.Category, "smoke") // where a smoke case has none
	m.cases[id] = measured{g, set{}}
	if m.categories[g.Category] == nil {
		m.categories[g.Category] = &sum{}
	}
	m.categories[g.Category].cases++
	m.all.cases++
}

// add takes the outcome of a case in one trial.
func (m *measurer) add(o outcome.Outcome) {
	c, known := m.cases[o.Item]
	if !known || o.Trial < 1 || o.Trial > len(m.trials) {
		return
	}
	a := answerOf(o)
	r := c.gold.judge(a)
	if o.Failed() { // whatever is expected: nobody answered, not even that there is nothing
		r.success, r.why = false, "there is no answer: "+a.Failures[0].Message
		r.covered, r.wanted = 0, 1
		m.failed(o)
	}
	t := &m.trials[o.Trial-1]
	for _, s := range []*sum{&m.all, &t.sum, m.categories[c.gold.Category]} {
		s.add(r)
	}
	keys := set{}
	for _, rec := range a.Records {
		keys[rec.key()] = true
		m.explain(o, rec)
	}
	t.keys[o.Item] = keys
	if !r.success {
		m.cause(Cause{CaseID: o.Item, Trial: o.Trial, Metric: "successRate", Detail: r.why})
	}
	c.came[fmt.Sprint(a.Kind, len(a.Failures) > 0, slices.Sorted(maps.Keys(keys)))] = true
}

// answerOf returns the answer of an outcome; a case that failed has none.
func answerOf(o outcome.Outcome) (a Answer) {
	switch {
	case o.Failure != nil:
		return failedAnswer(0, string(o.Class), o.Failure.Error())
	case o.Failed() || json.Unmarshal(o.Output, &a) != nil:
		return failedAnswer(0, string(o.Class), "the output is no answer")
	}
	return a
}

// failed counts a case that nobody answered; the message that is kept is the
// first by case and trial.
func (m *measurer) failed(o outcome.Outcome) {
	f, there := m.failures[o.Class]
	if !there || cmp.Or(cmp.Compare(o.Item, f.CaseID), cmp.Compare(o.Trial, f.trial)) < 0 {
		f.Class, f.CaseID, f.trial, f.Message = o.Class, o.Item, o.Trial, string(o.Class)
		if o.Failure != nil {
			f.Message = o.Failure.Message
		}
	}
	f.Count++
	m.failures[o.Class] = f
}

// explain notes what is wrong with a record.
func (m *measurer) explain(o outcome.Outcome, rec Record) {
	c := Cause{CaseID: o.Item, Trial: o.Trial, Class: shortened(rec.Class), Quote: shortened(rec.Quote)}
	if rec.Shape != "" {
		c.Metric, c.Detail = "schemaValidRate", rec.Shape
		m.cause(c)
	}
	if rec.Code != "" {
		m.errors[rec.Code]++
		c.Metric, c.Code, c.Detail = "quoteInvariantRate", rec.Code, rec.place()
		m.cause(c)
	}
}

func (m *measurer) cause(c Cause) {
	m.noted++
	m.causes.Offer(c)
}

func compareCauses(a, b Cause) int {
	return cmp.Or(strings.Compare(a.CaseID, b.CaseID), strings.Compare(a.Metric, b.Metric), cmp.Compare(a.Code, b.Code),
		strings.Compare(a.Quote, b.Quote), strings.Compare(a.Class, b.Class), strings.Compare(a.Detail, b.Detail), a.Trial-b.Trial)
}

func (m *measurer) report() Report {
	all, causes := m.all.category("", len(m.trials)), m.causes.Values()
	r := Report{
		Trials: len(m.trials), Failures: []FailedCalls{}, QuoteErrors: m.errors, DriftingCases: []string{}, Categories: []Category{},
		SchemaValidRate: all.SchemaValidRate, QuoteInvariantRate: all.QuoteInvariantRate, UniqueExtractionStability: m.stability(),
		SuccessRate: all.SuccessRate, CoverageRate: all.CoverageRate, Variance: m.variance(),
		Causes: causes, MoreCauses: m.noted - len(causes), Warnings: []string{},
	}
	var rates stats.Moments
	for _, t := range m.trials {
		rates.Add(rate(t.success, m.all.cases))
	}
	r.SuccessRateStdDev, _ = rates.PopulationVariance()
	r.SuccessRateStdDev = math.Sqrt(r.SuccessRateStdDev)
	for _, name := range slices.Sorted(maps.Keys(m.categories)) {
		r.Categories = append(r.Categories, m.categories[name].category(name, len(m.trials)))
	}
	m.compareTrials(&r)
	for _, class := range slices.Sorted(maps.Keys(m.failures)) {
		r.Failures = append(r.Failures, m.failures[class])
		r.FailedCalls += m.failures[class].Count
	}
	r.Answered = m.all.outcomes - r.FailedCalls
	if r.Answered == 0 { // a system that is dead is not without faults
		r.SchemaValidRate, r.QuoteInvariantRate, r.UniqueExtractionStability = 0, 0, 0
	}
	planned := m.all.cases * len(m.trials)
	if missing := planned - m.all.outcomes; missing > 0 {
		r.Warnings = append(r.Warnings, fmt.Sprintf(
			"%d of %d outcomes are missing: the run did not finish; they count as not successful", missing, planned))
	}
	return r
}

// compareTrials counts the cases, and those that did not come to the same in all
// trials.
func (m *measurer) compareTrials(r *Report) {
	categories := set{}
	for _, id := range slices.Sorted(maps.Keys(m.cases)) {
		c := m.cases[id]
		if c.gold.Expected == nil {
			r.Breadth.SmokeCaseCount++
		} else {
			r.Breadth.RegressionCaseCount++
			categories[c.gold.Category] = true
		}
		if len(c.came) > 1 {
			r.DriftingCases = append(r.DriftingCases, id)
		}
	}
	r.Breadth.TotalCaseCount, r.Breadth.RegressionCategoryCount = len(m.cases), len(categories)
	r.CaseOutcomeDriftRate = float64(len(r.DriftingCases)) / float64(max(1, len(m.cases)))
}

// stability is the mean Jaccard index of all pairs of trials, over the cases that
// have an outcome in both.
func (m *measurer) stability() float64 {
	var all stats.Sum
	pairs := 0
	for i := range m.trials {
		for j := range i {
			all.Add(jaccard(m.trials[i].keys, m.trials[j].keys))
			pairs++
		}
	}
	if pairs == 0 {
		return 1
	}
	return all.Value() / float64(pairs)
}

// jaccard is shared / all of the keys of two trials, 1 for two empty sets.
func jaccard(a, b map[string]set) float64 {
	shared, all := 0, 0
	for id, keys := range a {
		other, both := b[id]
		if !both {
			continue
		}
		all += len(other)
		for key := range keys {
			shared += toInt(other[key])
			all += toInt(!other[key])
		}
	}
	return rate(shared, all)
}

func (m *measurer) variance() Variance {
	v := Variance{RunCount: len(m.trials)}
	var counts stats.Moments
	for _, t := range m.trials {
		v.ExtractionCounts = append(v.ExtractionCounts, t.count)
		counts.Add(float64(t.count))
	}
	v.Min, v.Max = slices.Min(v.ExtractionCounts), slices.Max(v.ExtractionCounts)
	v.Stability = rate(v.Min, v.Max)
	v.Mean, _ = counts.Mean()
	v.Variance, _ = counts.PopulationVariance()
	v.StdDev = math.Sqrt(v.Variance)
	return v
}

// Gate is the least or the greatest value that a report may have. A value exactly
// at its gate passes.
type Gate struct {
	Name  string // that of its flag: min- or max- and the metric
	About string // what the metric is
	Limit float64
	// Highest is the greatest limit that makes sense; Count says that a limit is a
	// whole number.
	Highest float64
	Count   bool
	value   func(Report) float64
}

// Gates returns the gates of the specification with their limits.
func Gates() []Gate {
	const any = math.MaxInt32
	return []Gate{
		{"min-success-rate", "cases that come to what is expected", 1, 1, false,
			func(r Report) float64 { return r.SuccessRate }},
		{"min-schema-validity-rate", "records of valid shape", 1, 1, false,
			func(r Report) float64 { return r.SchemaValidRate }},
		{"min-quote-invariant-pass-rate", "records that quote the document", 1, 1, false,
			func(r Report) float64 { return r.QuoteInvariantRate }},
		{"min-coverage-rate", "gold spans that are extracted", 1, 1, false,
			func(r Report) float64 { return r.CoverageRate }},
		{"min-stability", "extractions that the trials share, uniqueExtractionStability", 0.95, 1, false,
			func(r Report) float64 { return r.UniqueExtractionStability }},
		{"max-extraction-count-variance", "variance of the trials' numbers of extractions", 0.25, math.MaxFloat64, false,
			func(r Report) float64 { return r.Variance.Variance }},
		{"max-success-rate-stddev", "standard deviation of the trials' success rates", 0.05, 1, false,
			func(r Report) float64 { return r.SuccessRateStdDev }},
		{"max-case-outcome-drift-rate", "cases that differ between trials", 0.05, 1, false,
			func(r Report) float64 { return r.CaseOutcomeDriftRate }},
		{"min-regression-category-count", "categories of regression records", 1, any, true,
			func(r Report) float64 { return float64(r.Breadth.RegressionCategoryCount) }},
		{"min-total-case-count", "cases", 1, any, true,
			func(r Report) float64 { return float64(r.Breadth.TotalCaseCount) }},
	}
}

// Violation is a gate that does not hold.
type Violation struct {
	Gate  string  `json:"gate"`
	Limit float64 `json:"limit"`
	Value float64 `json:"value"`
}

// gateSlack forgives the last bits of a mean or root.
const gateSlack = 1e-12

// Check returns every gate that the report does not pass, in the order of the
// gates.
func Check(r Report, gates []Gate) []Violation {
	violations := []Violation{}
	for _, g := range gates {
		value := g.value(r)
		short := g.Limit - value // of what it should be
		if strings.HasPrefix(g.Name, "max-") {
			short = value - g.Limit
		}
		if math.IsNaN(value) || short > gateSlack {
			violations = append(violations, Violation{g.Name, g.Limit, value})
		}
	}
	return violations
}

// Verdict says in one line whether so many gates hold. The error is nil where they
// do; else it has exit code 1 and lists the violations.
func Verdict(gates int, violations []Violation) (line string, err error) {
	if len(violations) == 0 {
		return fmt.Sprintf("all %d gates hold", gates), nil
	}
	line = fmt.Sprintf("%d of %d gates do not hold", len(violations), gates)
	list := line + ":"
	for _, v := range violations {
		list += fmt.Sprintf("\n%.6g is not within --%s %g", v.Value, v.Gate, v.Limit)
	}
	return line, cli.Errorf(cli.ExitGate, "%s", list)
}
