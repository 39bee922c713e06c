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

// Report holds the metrics of a run. Rates are in [0,1], and 1 if there is nothing to count.
type Report struct {
	Run    string `json:"run"`
	Mode   string `json:"mode"`
	Model  string `json:"model"`
	Trials int    `json:"trials"`
	// Sources gives the number of cases by file; empty for runs of earlier versions.
	Sources string `json:"cases"`

	// FailedCalls counts the cases and trials without an answer, Failures counts them by class.
	// They have no success and no coverage, whatever the case expects. If nothing was answered,
	// SchemaValidRate, QuoteInvariantRate and UniqueExtractionStability are 0.
	FailedCalls int           `json:"failedCalls"`
	Failures    []FailedCalls `json:"failures"`

	// SchemaValidRate is valid records / records, QuoteInvariantRate is records that quote the
	// document / records, over all trials.
	SchemaValidRate    float64      `json:"schemaValidRate"`
	QuoteInvariantRate float64      `json:"quoteInvariantRate"`
	QuoteErrors        map[Code]int `json:"quoteErrors"`
	// UniqueExtractionStability is the mean over all pairs of trials of the Jaccard index,
	// shared / all, of their extractions (case, class, offsets, quote), over the cases with an
	// outcome in both; 1 for two empty sets and for a single trial.
	UniqueExtractionStability float64  `json:"uniqueExtractionStability"`
	Variance                  Variance `json:"variance"`

	// SuccessRate and CoverageRate are means over cases and trials. A case without an outcome
	// counts as not successful.
	SuccessRate  float64 `json:"successRate"`
	CoverageRate float64 `json:"coverageRate"`
	// SuccessRateStdDev is the population standard deviation of the success rates of the trials.
	SuccessRateStdDev float64 `json:"successRateStdDev"`
	// CaseOutcomeDriftRate is the share of cases whose trials differ in the kind of result, in
	// failing, or in their extractions.
	CaseOutcomeDriftRate float64  `json:"caseOutcomeDriftRate"`
	DriftingCases        []string `json:"driftingCases"`

	Breadth    Breadth    `json:"breadth"`
	Categories []Category `json:"categories"`
	// Causes are the first hundred records and cases that lowered a rate, ordered by case and
	// metric; MoreCauses counts the rest.
	Causes     []Cause  `json:"causes"`
	MoreCauses int      `json:"moreCauses"`
	Warnings   []string `json:"warnings"`

	// Answered counts the cases and trials with an answer.
	Answered int `json:"-"`
}

// FailedCalls counts the calls that failed with one class: the system could not be asked, or
// reported a failure. An answer that cannot be used is not a failed call.
type FailedCalls struct {
	Class outcome.Class `json:"class"`
	Count int           `json:"count"`
	// CaseID and Message are those of the first failed call, by case and trial.
	CaseID  string `json:"caseId"`
	Message string `json:"message"`
}

// Variance describes how the number of extractions varies between trials.
type Variance struct {
	RunCount         int     `json:"runCount"`
	ExtractionCounts []int   `json:"extractionCounts"`
	Min              int     `json:"min"`
	Max              int     `json:"max"`
	Mean             float64 `json:"mean"`
	// Stability is Min / Max, or 1 if nothing was extracted.
	Stability float64 `json:"stability"`
	// Variance and StdDev are those of the population.
	Variance float64 `json:"extractionCountVariance"`
	StdDev   float64 `json:"extractionCountStdDev"`
}

// Breadth counts the cases.
type Breadth struct {
	TotalCaseCount          int `json:"totalCaseCount"`
	SmokeCaseCount          int `json:"smokeCaseCount"`
	RegressionCaseCount     int `json:"regressionCaseCount"`
	RegressionCategoryCount int `json:"regressionCategoryCount"`
}

// Category holds the metrics of one category over all trials.
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
	// Code, Class and Quote identify the record, if a record is the cause.
	Code   Code   `json:"code,omitempty"`
	Class  string `json:"class,omitempty"`
	Quote  string `json:"quote,omitempty"`
	Detail string `json:"detail"`
}

// Err returns nil if every call was answered. Otherwise its exit code is 70 for a bug of this
// program, 69 if nothing was answered because the system could not be reached or refused, else
// 4.
func (r Report) Err() error {
	if r.FailedCalls == 0 {
		return nil
	}
	code, unreached := cli.ExitFailures, r.Answered == 0
	passing := []outcome.Class{outcome.Provider, outcome.RateLimited, outcome.Timeout}
	for _, f := range r.Failures {
		unreached = unreached && slices.Contains(passing, f.Class)
		if f.Class == outcome.Internal {
			code = cli.ExitBug
		}
	}
	if unreached {
		code = cli.ExitUnavailable
	}
	example := r.Failures[0]
	return cli.Errorf(code, "%d of %d calls failed, for example (%s, case %s): %s",
		r.FailedCalls, r.FailedCalls+r.Answered, example.Class, example.CaseID, example.Message)
}

// Measure computes the report of a run of this harness from its run file. If the run is of
// another harness, the error has exit code 64. Memory is proportional to the number of cases and
// of different extractions in each trial.
func Measure(ctx context.Context, run *runstore.Reader) (Report, error) {
	header, err := run.Header(ctx)
	if err != nil {
		return Report{}, err
	}
	if header.Harness != Name {
		return Report{}, cli.Usage("the run %q is of the harness %s: experiment bench run makes runs of the bench",
			header.Name, header.Harness)
	}
	about := header.Metadata
	m := measurer{
		Report: Report{
			Run: header.Name, Mode: about[keyMode], Model: header.System.Model, Trials: max(1, header.Trials),
			Sources: about[keySources], Failures: []FailedCalls{}, QuoteErrors: map[Code]int{},
			DriftingCases: []string{}, Categories: []Category{}, Warnings: []string{},
		},
		cases: map[string]gold{}, categories: map[string]*Category{}, regressions: set{},
		causes: stats.NewShortlist(maxCauses, compareCauses),
	}
	m.trials, m.keys = make([]Category, m.Trials), make([]map[string]set, m.Trials)
	for item, err := range run.Items(ctx) {
		if err != nil {
			return Report{}, err
		}
		var g gold
		if err := json.Unmarshal(item.Expected, &g); err != nil {
			return Report{}, fmt.Errorf("reading the run: case %s: %w", item.ID, err)
		}
		g.Category = cmp.Or(g.Category, "smoke") // for smoke cases without one
		m.cases[item.ID] = g
		m.countCase(g)
	}
	for o, err := range run.Outcomes(ctx, runstore.Query{Newest: true, Depth: runstore.Full}) {
		if err != nil {
			return Report{}, err
		}
		if _, known := m.cases[o.Item]; known && o.Trial >= 1 && o.Trial <= m.Trials {
			m.judge(o)
		}
	}
	m.finish()
	if n := about[keyLeftOut]; n != "" {
		m.Warnings = append(m.Warnings, n+" cases expect that their stored answer fails; "+
			"they were left out, as they are not about the system that answered")
	}
	return m.Report, nil
}

// add adds a result to the sums, which divide turns into rates.
func (c *Category) add(r judgement) {
	c.Extractions += r.count
	c.SuccessRate += float64(toInt(r.why == ""))
	c.SchemaValidRate += float64(r.shaped)
	c.QuoteInvariantRate += float64(r.quoted)
	c.CoverageRate += rate(r.covered, r.wanted)
}

// divide turns the sums over a number of trials into rates.
func (c *Category) divide(trials int) {
	planned := c.Cases * trials
	c.SuccessRate, c.CoverageRate = rate(c.SuccessRate, planned), rate(c.CoverageRate, planned)
	c.SchemaValidRate = rate(c.SchemaValidRate, c.Extractions)
	c.QuoteInvariantRate = rate(c.QuoteInvariantRate, c.Extractions)
}

// set is a set of keys.
type set map[string]bool

// maxCauses is the largest number of causes in a report.
const maxCauses = 100

// measurer builds a report from outcomes.
type measurer struct {
	Report
	cases        map[string]gold
	categories   map[string]*Category
	regressions  set // categories with regression records
	all          Category
	trials       []Category
	keys         []map[string]set // of the extractions, by trial and case
	causes       *stats.Shortlist[Cause]
	item, result string // case and result of the last outcome, to find cases whose trials differ
}

// countCase counts a case, in all and by category.
func (m *measurer) countCase(g gold) {
	if m.categories[g.Category] == nil {
		m.categories[g.Category] = &Category{Name: g.Category}
	}
	m.categories[g.Category].Cases++
	m.all.Cases++
	m.Breadth.TotalCaseCount++
	if g.Expected == nil {
		m.Breadth.SmokeCaseCount++
		return
	}
	m.Breadth.RegressionCaseCount++
	m.regressions[g.Category] = true
	m.Breadth.RegressionCategoryCount = len(m.regressions)
}

// judge adds the outcome of a case. Outcomes arrive ordered by case and trial.
func (m *measurer) judge(o outcome.Outcome) {
	a := failedAnswer(string(o.Class), "the output is not an answer")
	if !o.Failed() {
		_ = json.Unmarshal(o.Output, &a) // on an error, a stays a failed answer
	}
	g := m.cases[o.Item]
	r, keys := g.judge(a), set{}
	if o.Failed() { // whatever the case expects, even an empty result
		r.why = "there is no answer: " + m.failed(o)
		r.covered, r.wanted = 0, 1
	} else {
		m.Answered++
	}
	for _, rec := range a.Records {
		keys[rec.key()] = true
		c := Cause{CaseID: o.Item, Trial: o.Trial, Class: shorten(rec.Class), Quote: shorten(rec.Quote)}
		if rec.Shape != "" {
			c.Metric, c.Detail = "schemaValidRate", rec.Shape
			m.cause(c)
		}
		if rec.Code != "" {
			m.QuoteErrors[rec.Code]++
			c.Metric, c.Code, c.Detail = "quoteInvariantRate", rec.Code, rec.place()
			m.cause(c)
		}
	}
	if r.why != "" {
		m.cause(Cause{CaseID: o.Item, Trial: o.Trial, Metric: "successRate", Detail: r.why})
	}
	for _, t := range []*Category{&m.all, m.categories[g.Category], &m.trials[o.Trial-1]} {
		t.add(r)
	}
	if m.keys[o.Trial-1] == nil {
		m.keys[o.Trial-1] = map[string]set{}
	}
	m.keys[o.Trial-1][o.Item] = keys
	result := fmt.Sprint(a.Kind, len(a.Failures) > 0, slices.Sorted(maps.Keys(keys)))
	if o.Item == m.item && result != m.result {
		m.DriftingCases = append(m.DriftingCases, o.Item)
	}
	m.item, m.result = o.Item, result
}

// failed counts a failed call and returns its error.
func (m *measurer) failed(o outcome.Outcome) string {
	why := cmp.Or(o.Failure, &outcome.Failure{Class: o.Class, Message: string(o.Class)})
	i := slices.IndexFunc(m.Failures, func(f FailedCalls) bool { return f.Class == o.Class })
	if i < 0 {
		i, m.Failures = len(m.Failures), append(m.Failures, FailedCalls{Class: o.Class, CaseID: o.Item, Message: why.Message})
	}
	m.Failures[i].Count++
	m.FailedCalls++
	return why.Error()
}

func (m *measurer) cause(c Cause) {
	m.MoreCauses++
	m.causes.Offer(c)
}

func compareCauses(a, b Cause) int {
	return cmp.Or(strings.Compare(a.CaseID, b.CaseID), strings.Compare(a.Metric, b.Metric), cmp.Compare(a.Code, b.Code),
		strings.Compare(a.Quote, b.Quote), strings.Compare(a.Class, b.Class), strings.Compare(a.Detail, b.Detail), a.Trial-b.Trial)
}

// finish computes the metrics over all outcomes.
func (m *measurer) finish() {
	m.Causes = m.causes.Values()
	m.MoreCauses -= len(m.Causes)
	slices.SortFunc(m.Failures, func(a, b FailedCalls) int { return cmp.Compare(a.Class, b.Class) })
	m.all.divide(m.Trials)
	m.SchemaValidRate, m.QuoteInvariantRate = m.all.SchemaValidRate, m.all.QuoteInvariantRate
	m.SuccessRate, m.CoverageRate = m.all.SuccessRate, m.all.CoverageRate
	for _, name := range slices.Sorted(maps.Keys(m.categories)) {
		m.categories[name].divide(m.Trials)
		m.Categories = append(m.Categories, *m.categories[name])
	}
	// Differences between trials.
	m.DriftingCases = slices.Compact(m.DriftingCases)
	m.CaseOutcomeDriftRate = float64(len(m.DriftingCases)) / float64(max(1, len(m.cases)))
	v := &m.Variance
	var counts, rates, shared stats.Moments
	for i, t := range m.trials {
		v.ExtractionCounts = append(v.ExtractionCounts, t.Extractions)
		counts.Add(float64(t.Extractions))
		rates.Add(rate(t.SuccessRate, len(m.cases)))
		for j := range i {
			if value, both := jaccard(m.keys[i], m.keys[j]); both {
				shared.Add(value)
			}
		}
	}
	v.RunCount, v.Min, v.Max = m.Trials, slices.Min(v.ExtractionCounts), slices.Max(v.ExtractionCounts)
	v.Stability = rate(v.Min, v.Max)
	v.Mean, _ = counts.Mean()
	v.Variance, _ = counts.PopulationVariance()
	v.StdDev = math.Sqrt(v.Variance)
	variance, _ := rates.PopulationVariance()
	m.SuccessRateStdDev = math.Sqrt(variance)
	m.UniqueExtractionStability = *cmp.Or(shared.MeanOrNil(), new(1.0)) // 1 if there are not two trials of any case
	// A system that never answered is not flawless.
	if m.Answered == 0 {
		m.SchemaValidRate, m.QuoteInvariantRate, m.UniqueExtractionStability = 0, 0, 0
	}
	if planned, seen := len(m.cases)*m.Trials, m.Answered+m.FailedCalls; seen < planned {
		m.Warnings = append(m.Warnings, fmt.Sprintf(
			"%d of %d outcomes are missing: the run did not finish; they count as not successful", planned-seen, planned))
	}
}

// jaccard returns shared / all for the extractions of two trials, over the cases with an outcome
// in both; 1 for two empty sets. both is false if no case has one in both.
func jaccard(a, b map[string]set) (value float64, both bool) {
	shared, sum := 0, 0
	for id, keys := range a {
		if other, ok := b[id]; ok {
			both = true
			sum += len(keys) + len(other)
			for key := range keys {
				shared += toInt(other[key])
			}
		}
	}
	return rate(shared, sum-shared), both
}
