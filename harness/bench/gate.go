package bench

import (
	"fmt"
	"math"
	"strings"
)

// Gates are the least and greatest values that a report may have. A value
// exactly at its gate passes.
type Gates struct {
	MinSuccessRate             float64 `json:"min-success-rate"`
	MinSchemaValidityRate      float64 `json:"min-schema-validity-rate"`
	MinQuoteInvariantPassRate  float64 `json:"min-quote-invariant-pass-rate"`
	MinCoverageRate            float64 `json:"min-coverage-rate"`
	MinStability               float64 `json:"min-stability"` // of UniqueExtractionStability
	MaxExtractionCountVariance float64 `json:"max-extraction-count-variance"`
	MaxSuccessRateStdDev       float64 `json:"max-success-rate-stddev"`
	MaxCaseOutcomeDriftRate    float64 `json:"max-case-outcome-drift-rate"`
	MinRegressionCategoryCount int     `json:"min-regression-category-count"`
	MinTotalCaseCount          int     `json:"min-total-case-count"`
}

// DefaultGates returns the gates of the specification.
func DefaultGates() Gates {
	return Gates{
		MinSuccessRate: 1, MinSchemaValidityRate: 1, MinQuoteInvariantPassRate: 1, MinCoverageRate: 1, MinStability: 0.95,
		MaxExtractionCountVariance: 0.25, MaxSuccessRateStdDev: 0.05, MaxCaseOutcomeDriftRate: 0.05,
		MinRegressionCategoryCount: 1, MinTotalCaseCount: 1,
	}
}

// gateSlack forgives the last bits of a mean or root.
const gateSlack = 1e-12

// Violation is a gate that does not hold.
type Violation struct {
	Gate  string  `json:"gate"`
	Limit float64 `json:"limit"`
	Value float64 `json:"value"`
}

// String says what is wrong: "0.9 is not within --min-success-rate 1".
func (v Violation) String() string {
	return fmt.Sprintf("%.6g is not within --%s %g", v.Value, v.Gate, v.Limit)
}

// Check returns every gate that the report does not pass, in the order of the
// fields.
func (g Gates) Check(r Report) []Violation {
	violations := []Violation{}
	for _, c := range g.checks(r) {
		if math.IsNaN(c.Value) || c.least && c.Value < c.Limit-gateSlack || !c.least && c.Value > c.Limit+gateSlack {
			violations = append(violations, c.Violation)
		}
	}
	return violations
}

type check struct {
	Violation
	least bool
}

func (g Gates) checks(r Report) []check {
	return []check{
		{Violation{"min-success-rate", g.MinSuccessRate, r.SuccessRate}, true},
		{Violation{"min-schema-validity-rate", g.MinSchemaValidityRate, r.SchemaValidRate}, true},
		{Violation{"min-quote-invariant-pass-rate", g.MinQuoteInvariantPassRate, r.QuoteInvariantRate}, true},
		{Violation{"min-coverage-rate", g.MinCoverageRate, r.CoverageRate}, true},
		{Violation{"min-stability", g.MinStability, r.UniqueExtractionStability}, true},
		{Violation{"max-extraction-count-variance", g.MaxExtractionCountVariance, r.Variance.Variance}, false},
		{Violation{"max-success-rate-stddev", g.MaxSuccessRateStdDev, r.SuccessRateStdDev}, false},
		{Violation{"max-case-outcome-drift-rate", g.MaxCaseOutcomeDriftRate, r.CaseOutcomeDriftRate}, false},
		{Violation{"min-regression-category-count", float64(g.MinRegressionCategoryCount), float64(r.Breadth.RegressionCategoryCount)}, true},
		{Violation{"min-total-case-count", float64(g.MinTotalCaseCount), float64(r.Breadth.TotalCaseCount)}, true},
	}
}

// Verdict returns nil where no gate is violated, else an error of exit code 1
// that lists all of them.
func Verdict(violations []Violation) error {
	if len(violations) == 0 {
		return nil
	}
	var lines []string
	for _, v := range violations {
		lines = append(lines, v.String())
	}
	return &gateError{fmt.Errorf("%s:\n%s", VerdictLine(violations), strings.Join(lines, "\n"))}
}

// VerdictLine says in one line whether the gates hold.
func VerdictLine(violations []Violation) string {
	all := len(Gates{}.checks(Report{}))
	if len(violations) == 0 {
		return fmt.Sprintf("all %d gates hold", all)
	}
	return fmt.Sprintf("%d of %d gates do not hold", len(violations), all)
}

type gateError struct{ error }

// ExitCode is that of a failed gate.
func (*gateError) ExitCode() int { return 1 }
