package report

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"extraction-experiment/harness/conformance"
	"extraction-experiment/internal/printable"
)

// idColumn is how wide the ids of fixtures are padded.
const idColumn = 30

// Conformance writes what a certification came to: the fixtures as a table, the
// summary, and what the runs say about the evaluator as a whole. The error is
// that of w.
func Conformance(w io.Writer, r conformance.Report) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, "  Evaluator Conformance Harness\n")
	fmt.Fprintf(&b, "  evaluator:  %s\n", printable.Line(strings.Join(r.Evaluator, " ")))
	fmt.Fprintf(&b, "  fixtures:   %d\n  runs/each:  %d\n  max-flip:   %g\n\n", r.TotalFixtures, r.Runs, r.MaxFlipRate)
	for _, f := range r.Fixtures {
		conformanceRow(&b, f)
	}
	fmt.Fprintf(&b, "\n  ── Summary ──\n")
	fmt.Fprintf(&b, "  Compatible:  %s\n  Consistent:  %s\n", tick(r.Compatible), tick(r.Consistent))
	passed := r.PassedFixtures()
	fmt.Fprintf(&b, "  Passed:      %d/%d\n  Failed:      %d/%d\n", passed, r.TotalFixtures, r.TotalFixtures-passed, r.TotalFixtures)
	conformanceStatistics(&b, r)
	for _, warning := range r.Warnings {
		fmt.Fprintf(&b, "  warning: %s\n", printable.Line(warning))
	}
	_, err := w.Write(b.Bytes())
	return err
}

// mostErrors is how many errors of a fixture are shown.
const mostErrors = 5

func conformanceRow(b *bytes.Buffer, f conformance.FixtureResult) {
	mean, variance := "–", "–"
	if f.Mean != nil {
		mean, variance = fmt.Sprintf("%.2f", *f.Mean), fmt.Sprintf("%.4f", *f.Variance)
	}
	fmt.Fprintf(b, "  %s  [%-9s] %-*s mean=%s  var=%s  flip=%.2f\n", tick(f.Passed()), strings.ToUpper(string(f.Label)),
		idColumn-1, printable.Line(f.ID), mean, variance, f.FlipRate)
	for _, reason := range f.Reasons {
		fmt.Fprintf(b, "       %s\n", reason)
	}
	for i, text := range f.Errors {
		if i == mostErrors {
			fmt.Fprintf(b, "       and %s without a valid answer\n", counted(len(f.Errors)-i, "more run"))
			break
		}
		fmt.Fprintf(b, "       %s\n", printable.Line(text))
	}
}

func conformanceStatistics(b *bytes.Buffer, r conformance.Report) {
	s := r.Statistics
	fmt.Fprintf(b, "\n  ── Trust (intervals at %.0f %%) ──\n", s.Confidence*100)
	fmt.Fprintf(b, "  Valid runs:  %d/%d%s\n", s.ValidRuns, r.TotalRuns, faultList(s.Faults))
	fmt.Fprintf(b, "  Flips:       %s of comparisons with the first run\n", s.FlipRate)
	fmt.Fprintf(b, "  Agreement:   %s\n", s.Agreement)
	fmt.Fprintf(b, "  False pass:  %s\n", s.FalsePass)
	fmt.Fprintf(b, "  False fail:  %s\n", s.FalseFail)
	fmt.Fprintf(b, "  Out of bounds: %s\n", s.BoundViolations)
	if s.CostUSD != nil {
		fmt.Fprintf(b, "  Cost:        %.4f USD\n", *s.CostUSD)
	}
	if c := s.Certification; c.FlipRate != nil {
		fmt.Fprintf(b, "  Certified:   a flip rate of at most %.1f %%\n", *c.FlipRate*100)
		for _, n := range c.Needed {
			fmt.Fprintf(b, "  for %4.3g %%:  %d comparisons without a further flip (--runs %d)\n", n.FlipRate*100, n.Comparisons, n.Runs)
		}
	}
}

func faultList(faults map[string]int) string {
	var parts []string
	for _, kind := range slices.Sorted(maps.Keys(faults)) {
		parts = append(parts, fmt.Sprintf("%s %d", kind, faults[kind]))
	}
	if len(parts) == 0 {
		return ""
	}
	return " (" + strings.Join(parts, ", ") + ")"
}

func tick(ok bool) string {
	if ok {
		return "✓"
	}
	return "✗"
}
