package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"extraction-experiment/internal/stats"
	"extraction-experiment/outcome"
	"extraction-experiment/runstore"
)

// mostCauses is how many causes a report keeps.
const mostCauses = 100

// Measure makes the report of a run of this harness from its file alone. The
// error has exit code 64 where the run is of another harness. Memory is
// proportional to the number of distinct extractions.
func Measure(ctx context.Context, run *runstore.Reader) (Report, error) {
	header, err := run.Header(ctx)
	if err != nil {
		return Report{}, err
	}
	if header.Harness != Name {
		return Report{}, &WrongRunError{header.Name, header.Harness}
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
	r.Run, r.Model, r.Trials, r.Mode = header.Name, header.System.Model, m.trials, header.Metadata["mode"]
	return r, nil
}

// WrongRunError says that a run is not one of the bench.
type WrongRunError struct{ Run, Harness string }

// Error names the run and its harness.
func (e *WrongRunError) Error() string {
	return fmt.Sprintf("the run %q is of the harness %s: experiment bench run makes runs of the bench", e.Run, e.Harness)
}

// ExitCode returns 64.
func (e *WrongRunError) ExitCode() int { return 64 }

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

// trial is one pass over the cases.
type trial struct {
	sum
	keys map[string]bool
}

// measured is a case with what it came to in each trial.
type measured struct {
	gold       gold
	signatures map[int]string
}

type measurer struct {
	trials     int
	perTrial   []trial
	cases      map[string]*measured
	categories map[string]*sum
	all        sum
	errors     map[Code]int
	causes     []Cause
	more       int
}

func newMeasurer(trials int) *measurer {
	m := &measurer{trials: trials, perTrial: make([]trial, trials), cases: map[string]*measured{}, categories: map[string]*sum{}, errors: map[Code]int{}}
	for i := range m.perTrial {
		m.perTrial[i].keys = map[string]bool{}
	}
	return m
}

func (m *measurer) addCase(id string, g gold) {
	m.cases[id] = &measured{g, map[int]string{}}
	category := m.category(g)
	category.cases++
	m.all.cases++
}

// category returns the sum of the category of a case; smoke cases without one
// are their own.
func (m *measurer) category(g gold) *sum {
	name := g.Category
	if name == "" {
		name = "smoke"
	}
	if m.categories[name] == nil {
		m.categories[name] = &sum{}
	}
	return m.categories[name]
}

// add takes the outcome of a case in one trial.
func (m *measurer) add(o outcome.Outcome) {
	c := m.cases[o.Item]
	if c == nil || o.Trial < 1 || o.Trial > m.trials {
		return
	}
	a := answerOf(o)
	r := c.gold.judge(a)
	t := &m.perTrial[o.Trial-1]
	for _, s := range []*sum{&m.all, &t.sum, m.category(c.gold)} {
		s.add(r)
	}
	var keys []string
	for _, rec := range a.Records {
		key := rec.key(o.Item)
		t.keys[key] = true
		keys = append(keys, key)
		m.explain(o, rec)
	}
	if !r.success {
		m.cause(Cause{CaseID: o.Item, Trial: o.Trial, Metric: "successRate", Detail: r.why})
	}
	slices.Sort(keys)
	c.signatures[o.Trial] = fmt.Sprint(a.Kind, len(a.Failures) > 0, slices.Compact(keys))
}

// answerOf returns the answer of an outcome; a case that failed has none.
func answerOf(o outcome.Outcome) Answer {
	var a Answer
	if o.Failed() || json.Unmarshal(o.Output, &a) != nil {
		message := "the output is no answer"
		if o.Failure != nil {
			message = o.Failure.Error()
		}
		return newAnswer(nil, 0, Failure{string(o.Class), message})
	}
	return a
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
		c.Metric, c.Code, c.Detail = "quoteInvariantRate", rec.Code, fmt.Sprintf("at %s to %s (%s)", number(rec.Start), number(rec.End), rec.Mode)
		m.cause(c)
	}
}

func (m *measurer) cause(c Cause) {
	m.causes = append(m.causes, c)
	if len(m.causes) >= 2*mostCauses {
		m.trimCauses()
	}
}

// trimCauses keeps the first by case and trial, whatever order they came in.
func (m *measurer) trimCauses() {
	slices.SortFunc(m.causes, compareCauses)
	if extra := len(m.causes) - mostCauses; extra > 0 {
		m.causes, m.more = m.causes[:mostCauses], m.more+extra
	}
}

func compareCauses(a, b Cause) int {
	for _, c := range []int{strings.Compare(a.CaseID, b.CaseID), a.Trial - b.Trial, strings.Compare(a.Metric, b.Metric), strings.Compare(string(a.Code), string(b.Code)),
		strings.Compare(a.Quote, b.Quote), strings.Compare(a.Class, b.Class), strings.Compare(a.Detail, b.Detail)} {
		if c != 0 {
			return c
		}
	}
	return 0
}

func (m *measurer) report() Report {
	m.trimCauses()
	planned := m.all.cases * m.trials
	r := Report{
		SchemaValidRate: rate(m.all.shaped, m.all.count), QuoteInvariantRate: rate(m.all.quoted, m.all.count), QuoteErrors: m.errors,
		UniqueExtractionStability: m.stability(), Variance: m.variance(),
		SuccessRate: rate(m.all.success, planned), CoverageRate: m.coverage(m.all, planned),
		Causes: append([]Cause{}, m.causes...), MoreCauses: m.more, DriftingCases: []string{}, Categories: []Category{}, Warnings: []string{},
	}
	rates := make([]float64, m.trials)
	for i, t := range m.perTrial {
		rates[i] = rate(t.success, m.all.cases)
	}
	_, r.SuccessRateStdDev = spread(rates)
	m.drift(&r)
	m.breadth(&r)
	if missing := planned - m.all.outcomes; missing > 0 {
		r.Warnings = append(r.Warnings, fmt.Sprintf("%d of %d outcomes are missing: the run did not finish; they count as not successful", missing, planned))
	}
	return r
}

func (m *measurer) coverage(s sum, planned int) float64 {
	if planned == 0 {
		return 1
	}
	return s.coverage.Value() / float64(planned)
}

func (m *measurer) drift(r *Report) {
	for _, id := range slices.Sorted(maps.Keys(m.cases)) {
		first, ok := m.cases[id].signatures[1]
		for t := 2; t <= m.trials; t++ {
			if other, there := m.cases[id].signatures[t]; other != first || there != ok {
				r.DriftingCases = append(r.DriftingCases, id)
				break
			}
		}
	}
	r.CaseOutcomeDriftRate = 0
	if n := len(m.cases); n > 0 {
		r.CaseOutcomeDriftRate = float64(len(r.DriftingCases)) / float64(n)
	}
}

func (m *measurer) breadth(r *Report) {
	regression := map[string]bool{}
	r.Breadth.TotalCaseCount = m.all.cases
	for _, c := range m.cases {
		if c.gold.Expected == nil {
			r.Breadth.SmokeCaseCount++
			continue
		}
		r.Breadth.RegressionCaseCount++
		regression[c.gold.Category] = true
	}
	r.Breadth.RegressionCategoryCount = len(regression)
	for _, name := range slices.Sorted(maps.Keys(m.categories)) {
		s := m.categories[name]
		r.Categories = append(r.Categories, Category{
			Name: name, Cases: s.cases, Extractions: s.count, SuccessRate: rate(s.success, s.cases*m.trials),
			SchemaValidRate: rate(s.shaped, s.count), QuoteInvariantRate: rate(s.quoted, s.count), CoverageRate: m.coverage(*s, s.cases*m.trials),
		})
	}
}
