package bench

import (
	"fmt"
	"math"
	"strings"

	"extraction-experiment/internal/cli"
)

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
}

// Gates returns the gates of the specification with their limits.
func Gates() []Gate {
	return []Gate{
		{"min-success-rate", "cases that come to what is expected", 1, 1, false},
		{"min-schema-validity-rate", "records of valid shape", 1, 1, false},
		{"min-quote-invariant-pass-rate", "records that quote the document", 1, 1, false},
		{"min-coverage-rate", "gold spans that are extracted", 1, 1, false},
		{"min-stability", "extractions that the trials share, uniqueExtractionStability", 0.95, 1, false},
		{"max-extraction-count-variance", "variance of the trials' numbers of extractions", 0.25, math.MaxFloat64, false},
		{"max-success-rate-stddev", "standard deviation of the trials' success rates", 0.05, 1, false},
		{"max-case-outcome-drift-rate", "cases that differ between trials", 0.05, 1, false},
		{"min-regression-category-count", "categories of regression records", 1, math.MaxInt32, true},
		{"min-total-case-count", "cases", 1, math.MaxInt32, true},
	}
}

// gated are the values that the gates bound, in their order.
func (r Report) gated() []float64 {
	return []float64{
		r.SuccessRate, r.SchemaValidRate, r.QuoteInvariantRate, r.CoverageRate, r.UniqueExtractionStability,
		r.Variance.Variance, r.SuccessRateStdDev, r.CaseOutcomeDriftRate,
		float64(r.Breadth.RegressionCategoryCount), float64(r.Breadth.TotalCaseCount),
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

// Check returns every one of the Gates that the report does not pass.
func Check(r Report, gates []Gate) []Violation {
	violations := []Violation{}
	for i, value := range r.gated() {
		g := gates[i]
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
