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
	m := measurer{trials: max(1, header.Trials), cases: map[string]gold{}, failures: map[outcome.Class]FailedCalls{},
		errors: map[Code]int{}, causes: stats.NewShortlist(mostCauses, compareCauses)}
	for item, err := range run.Items(ctx) {
		if err != nil {
			return Report{}, err
		}
		var g gold
		if err := json.Unmarshal(item.Expected, &g); err != nil {
			return Report{}, fmt.Errorf("reading the run: case %s: %w", item.ID, err)
		}
		g.Category = cmp.Or(g.Category, "smoke") // where a smoke case has none
		m.cases[item.ID] = g
	}
	for o, err := range run.Outcomes(ctx, runstore.Query{Newest: true, Detail: true}) {
		if err != nil {
			return Report{}, err
		}
		if _, known := m.cases[o.Item]; known && o.Trial >= 1 && o.Trial <= m.trials {
			m.results = append(m.results, m.judge(o))
		}
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

// set is a set of keys.
type set map[string]bool

// result is what a case came to in one trial.
type result struct {
	judgement
	item  string
	trial int
	keys  set    // of what was extracted
	came  string // what is the same in every trial of a case that does not drift
}

// mostCauses is how many causes a report keeps.
const mostCauses = 100

// measurer takes results and makes a report of them.
type measurer struct {
	trials   int
	cases    map[string]gold
	results  []result
	errors   map[Code]int
	failures map[outcome.Class]FailedCalls
	causes   *stats.Shortlist[Cause]
	noted    int // causes
}

// judge judges the outcome of a case, and notes what is wrong with it.
func (m *measurer) judge(o outcome.Outcome) result {
	a := answerOf(o)
	r := result{judgement: m.cases[o.Item].judge(a), item: o.Item, trial: o.Trial, keys: set{}}
	if o.Failed() { // whatever is expected: nobody answered, not even that there is nothing
		r.success, r.why = false, "there is no answer: "+a.Failures[0].Message
		r.covered, r.wanted = 0, 1
		m.failed(o)
	}
	for _, rec := range a.Records {
		r.keys[rec.key()] = true
		m.explain(o, rec)
	}
	if !r.success {
		m.cause(Cause{CaseID: o.Item, Trial: o.Trial, Metric: "successRate", Detail: r.why})
	}
	r.came = fmt.Sprint(a.Kind, len(a.Failures) > 0, slices.Sorted(maps.Keys(r.keys)))
	return r
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
	r := Report{
		Trials: m.trials, Breadth: Breadth{TotalCaseCount: len(m.cases)}, QuoteErrors: m.errors, Failures: []FailedCalls{},
		DriftingCases: []string{}, Categories: []Category{}, Causes: m.causes.Values(), Warnings: []string{},
	}
	r.MoreCauses = m.noted - len(r.Causes)
	for _, class := range slices.Sorted(maps.Keys(m.failures)) {
		r.Failures = append(r.Failures, m.failures[class])
		r.FailedCalls += m.failures[class].Count
	}
	r.Answered = len(m.results) - r.FailedCalls
	m.compareCategories(&r)
	m.compareTrials(&r)
	if r.Answered == 0 { // a system that is dead is not without faults
		r.SchemaValidRate, r.QuoteInvariantRate, r.UniqueExtractionStability = 0, 0, 0
	}
	planned := len(m.cases) * m.trials
	if missing := planned - len(m.results); missing > 0 {
		r.Warnings = append(r.Warnings, fmt.Sprintf(
			"%d of %d outcomes are missing: the run did not finish; they count as not successful", missing, planned))
	}
	return r
}

// total is what results come to, of so many cases.
func (m *measurer) total(name string, cases int, results []result) Category {
	var success, shaped, quoted int
	var coverage stats.Sum
	c := Category{Name: name, Cases: cases, CoverageRate: 1}
	for _, r := range results {
		success += toInt(r.success)
		shaped += r.shaped
		quoted += r.quoted
		c.Extractions += r.count
		coverage.Add(rate(r.covered, r.wanted))
	}
	c.SchemaValidRate, c.QuoteInvariantRate = rate(shaped, c.Extractions), rate(quoted, c.Extractions)
	planned := cases * m.trials
	c.SuccessRate = rate(success, planned)
	if planned > 0 {
		c.CoverageRate = coverage.Value() / float64(planned)
	}
	return c
}

// compareCategories fills in what the cases of each category come to, and all.
func (m *measurer) compareCategories(r *Report) {
	all := m.total("", len(m.cases), m.results)
	r.SchemaValidRate, r.QuoteInvariantRate = all.SchemaValidRate, all.QuoteInvariantRate
	r.SuccessRate, r.CoverageRate = all.SuccessRate, all.CoverageRate
	cases, results, regression := map[string]int{}, map[string][]result{}, set{}
	for _, g := range m.cases {
		cases[g.Category]++
		if g.Expected != nil {
			r.Breadth.RegressionCaseCount++
			regression[g.Category] = true
		}
	}
	r.Breadth.SmokeCaseCount, r.Breadth.RegressionCategoryCount = len(m.cases)-r.Breadth.RegressionCaseCount, len(regression)
	for _, x := range m.results {
		name := m.cases[x.item].Category
		results[name] = append(results[name], x)
	}
	for _, name := range slices.Sorted(maps.Keys(cases)) {
		r.Categories = append(r.Categories, m.total(name, cases[name], results[name]))
	}
}

// compareTrials fills in how much the trials differ.
func (m *measurer) compareTrials(r *Report) {
	v, success := &r.Variance, make([]int, m.trials)
	v.RunCount, v.ExtractionCounts = m.trials, make([]int, m.trials)
	keys, came := make([]map[string]set, m.trials), map[string]set{}
	for _, x := range m.results {
		i := x.trial - 1
		v.ExtractionCounts[i] += x.count
		success[i] += toInt(x.success)
		if keys[i] == nil {
			keys[i] = map[string]set{}
		}
		if came[x.item] == nil {
			came[x.item] = set{}
		}
		keys[i][x.item], came[x.item][x.came] = x.keys, true
	}
	for _, id := range slices.Sorted(maps.Keys(came)) {
		if len(came[id]) > 1 {
			r.DriftingCases = append(r.DriftingCases, id)
		}
	}
	r.CaseOutcomeDriftRate = float64(len(r.DriftingCases)) / float64(max(1, len(m.cases)))
	var counts, rates, shared stats.Moments
	for i, n := range v.ExtractionCounts {
		counts.Add(float64(n))
		rates.Add(rate(success[i], len(m.cases)))
		for j := range i {
			shared.Add(jaccard(keys[i], keys[j]))
		}
	}
	v.Min, v.Max = slices.Min(v.ExtractionCounts), slices.Max(v.ExtractionCounts)
	v.Stability = rate(v.Min, v.Max)
	v.Mean, _ = counts.Mean()
	v.Variance, _ = counts.PopulationVariance()
	v.StdDev = math.Sqrt(v.Variance)
	variance, _ := rates.PopulationVariance()
	r.SuccessRateStdDev = math.Sqrt(variance)
	r.UniqueExtractionStability = 1 // of a single trial
	if mean, pairs := shared.Mean(); pairs {
		r.UniqueExtractionStability = mean
	}
}

// jaccard is shared / all of the keys of two trials, by case, over the cases that
// have an outcome in both; 1 for two empty sets.
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
