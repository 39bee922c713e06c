package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"

	"extraction-experiment/runstore"
)

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
	r.Run, r.Model, r.Trials, r.Mode = header.Name, header.System.Model, m.trials, header.Metadata[keyMode]
	r.Sources = header.Metadata[keySources]
	if n := header.Metadata[keyLeftOut]; n != "" {
		r.Warnings = append(r.Warnings, n+" cases expect that their stored answer fails; they were left out, as they are not about the system that answered")
	}
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

func (m *measurer) report() Report {
	m.trimCauses()
	planned := m.all.cases * m.trials
	r := Report{
		SchemaValidRate: rate(m.all.shaped, m.all.count), QuoteInvariantRate: rate(m.all.quoted, m.all.count), QuoteErrors: m.errors,
		UniqueExtractionStability: m.stability(), Variance: m.variance(),
		SuccessRate: rate(m.all.success, planned), CoverageRate: m.all.coverageRate(planned),
		Causes: append([]Cause{}, m.causes...), MoreCauses: m.more, DriftingCases: []string{}, Categories: []Category{}, Warnings: []string{},
	}
	rates := make([]float64, m.trials)
	for i, t := range m.perTrial {
		rates[i] = rate(t.success, m.all.cases)
	}
	_, variance := spread(rates)
	r.SuccessRateStdDev = math.Sqrt(variance)
	m.drift(&r)
	m.breadth(&r)
	r.failed(m.failures, m.all.outcomes)
	if missing := planned - m.all.outcomes; missing > 0 {
		r.Warnings = append(r.Warnings, fmt.Sprintf("%d of %d outcomes are missing: the run did not finish; they count as not successful", missing, planned))
	}
	return r
}

// coverageRate is the mean over so many planned outcomes, 1 for none.
func (s *sum) coverageRate(planned int) float64 {
	if planned == 0 {
		return 1
	}
	return s.coverage.Value() / float64(planned)
}

func (m *measurer) drift(r *Report) {
	for _, id := range slices.Sorted(maps.Keys(m.cases)) {
		came := map[string]bool{}
		for _, signature := range m.cases[id].signatures {
			came[signature] = true
		}
		if len(came) > 1 {
			r.DriftingCases = append(r.DriftingCases, id)
		}
	}
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
			SchemaValidRate: rate(s.shaped, s.count), QuoteInvariantRate: rate(s.quoted, s.count), CoverageRate: s.coverageRate(s.cases * m.trials),
		})
	}
}
