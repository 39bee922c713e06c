package bench

import (
	"bytes"
	"fmt"
	"io"
	"slices"

	"extraction-experiment/internal/printable"
)

// WriteText writes the report for a person. The error is that of w.
func (r Report) WriteText(w io.Writer) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, "bench %s: %s, %s, %d trials of %d cases (%d smoke, %d regression in %d categories)\n\n",
		printable.Line(r.Run), r.Mode, printable.Line(r.Model), r.Trials, r.Breadth.TotalCaseCount, r.Breadth.SmokeCaseCount, r.Breadth.RegressionCaseCount, r.Breadth.RegressionCategoryCount)
	row := func(name string, value float64) { fmt.Fprintf(&b, "  %-27s %.4f\n", name, value) }
	row("schemaValidRate", r.SchemaValidRate)
	row("quoteInvariantRate", r.QuoteInvariantRate)
	for _, code := range Codes() {
		if n := r.QuoteErrors[code]; n > 0 {
			fmt.Fprintf(&b, "    %-25s %d\n", code, n)
		}
	}
	row("uniqueExtractionStability", r.UniqueExtractionStability)
	row("successRate", r.SuccessRate)
	row("  standard deviation", r.SuccessRateStdDev)
	row("coverageRate", r.CoverageRate)
	row("caseOutcomeDriftRate", r.CaseOutcomeDriftRate)
	v := r.Variance
	fmt.Fprintf(&b, "  %-27s min %d, max %d, mean %.4g, stability %.4f, variance %.4g\n", "extractions per trial", v.Min, v.Max, v.Mean, v.Stability, v.Variance)
	fmt.Fprintf(&b, "\n  %-28s %5s %8s %8s %8s %8s\n", "category", "cases", "success", "schema", "quote", "coverage")
	for _, c := range r.Categories {
		fmt.Fprintf(&b, "  %-28s %5d %8.4f %8.4f %8.4f %8.4f\n", printable.Line(c.Name), c.Cases, c.SuccessRate, c.SchemaValidRate, c.QuoteInvariantRate, c.CoverageRate)
	}
	r.writeCauses(&b)
	_, err := w.Write(b.Bytes())
	return err
}

// mostShown is how many causes and drifting cases are printed.
const mostShown = 20

// alike returns how many causes from the i-th on are the same one in another
// trial; they follow one another.
func (r Report) alike(i int) int {
	first, n := r.Causes[i], 1
	for i+n < len(r.Causes) {
		next := r.Causes[i+n]
		if next.Trial == first.Trial {
			break
		}
		next.Trial = first.Trial
		if next != first {
			break
		}
		n++
	}
	return n
}

func (r Report) writeCauses(b *bytes.Buffer) {
	if len(r.Causes) > 0 {
		fmt.Fprintf(b, "\n  what lowered them\n")
	}
	shown := 0
	for i := 0; i < len(r.Causes); {
		c := r.Causes[i]
		n := r.alike(i)
		if shown == mostShown {
			fmt.Fprintf(b, "  and %d more (--json)\n", len(r.Causes)-i+r.MoreCauses)
			break
		}
		shown++
		i += n
		when := fmt.Sprintf("trial %d", c.Trial)
		if n > 1 {
			when = fmt.Sprintf("%d trials from %d on", n, c.Trial)
		}
		what := c.Metric
		if c.Code != "" {
			what += " " + string(c.Code)
		}
		if c.Quote != "" {
			what += fmt.Sprintf(" %q", c.Quote)
		}
		fmt.Fprintf(b, "  %s (%s): %s: %s\n", printable.Line(c.CaseID), when, printable.Line(what), printable.Line(c.Detail))
	}
	if n := len(r.DriftingCases); n > 0 {
		shown := slices.Clone(r.DriftingCases[:min(n, mostShown)])
		fmt.Fprintf(b, "\n  %d cases differ between trials: %s\n", n, printable.Line(fmt.Sprint(shown)))
	}
	for _, warning := range r.Warnings {
		fmt.Fprintf(b, "\n  warning: %s\n", warning)
	}
}
