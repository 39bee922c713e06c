package bench

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"extraction-experiment/internal/printable"
)

// WriteText writes the report for a person, in lines of at most 80 characters
// but for words that are longer. The error is that of w.
func (r Report) WriteText(w io.Writer) error {
	var b bytes.Buffer
	wrapped(&b, "", fmt.Sprintf("bench %s: %s, %s, %s of %s (%d smoke, %d regression in %s)",
		printable.Line(r.Run), r.Mode, printable.Line(r.Model), printable.Counted(r.Trials, "trial"), printable.Counted(r.Breadth.TotalCaseCount, "case"),
		r.Breadth.SmokeCaseCount, r.Breadth.RegressionCaseCount, printable.Counted(r.Breadth.RegressionCategoryCount, "category")))
	if r.Sources != "" {
		wrapped(&b, "  ", "cases: "+printable.Line(r.Sources))
	}
	b.WriteString("\n")
	r.writeFailures(&b)
	if r.answered > 0 {
		r.writeMetrics(&b)
		r.writeCauses(&b)
	}
	for _, warning := range r.Warnings {
		b.WriteString("\n")
		wrapped(&b, "  ", "warning: "+warning)
	}
	_, err := w.Write(b.Bytes())
	return err
}

// writeFailures tells what nobody answered.
func (r Report) writeFailures(b *bytes.Buffer) {
	switch {
	case r.answered == 0 && r.FailedCalls == 0:
		wrapped(b, "  ", "no call was answered: there is nothing to measure")
	case r.answered == 0:
		wrapped(b, "  ", fmt.Sprintf("no call was answered (%d of %d failed): there is nothing to measure", r.FailedCalls, r.FailedCalls))
	case r.FailedCalls == 0:
		return
	default:
		wrapped(b, "  ", fmt.Sprintf("%d of %d calls failed", r.FailedCalls, r.FailedCalls+r.answered))
	}
	for _, f := range r.Failures {
		wrapped(b, "    ", fmt.Sprintf("%d %s, such as %s: %s", f.Count, f.Class, printable.Line(f.CaseID), printable.Line(shortened(f.Message))))
	}
	if r.answered > 0 {
		b.WriteString("\n")
	}
}

func (r Report) writeMetrics(b *bytes.Buffer) {
	row := func(name string, value float64) { fmt.Fprintf(b, "  %-27s %.4f\n", name, value) }
	row("schemaValidRate", r.SchemaValidRate)
	row("quoteInvariantRate", r.QuoteInvariantRate)
	for _, code := range Codes() {
		if n := r.QuoteErrors[code]; n > 0 {
			fmt.Fprintf(b, "    %-25s %d\n", code, n)
		}
	}
	row("uniqueExtractionStability", r.UniqueExtractionStability)
	row("successRate", r.SuccessRate)
	row("  standard deviation", r.SuccessRateStdDev)
	row("coverageRate", r.CoverageRate)
	row("caseOutcomeDriftRate", r.CaseOutcomeDriftRate)
	v := r.Variance
	fmt.Fprintf(b, "  %-27s min %d, max %d, mean %.4g,\n  %27s stability %.4f, variance %.4g\n", "extractions per trial", v.Min, v.Max, v.Mean, "", v.Stability, v.Variance)
	fmt.Fprintf(b, "\n  %-28s %5s %8s %8s %8s %8s\n", "category", "cases", "success", "schema", "quote", "coverage")
	for _, c := range r.Categories {
		fmt.Fprintf(b, "  %-28s %5d %8.4f %8.4f %8.4f %8.4f\n", printable.Brief(printable.Line(c.Name), 28), c.Cases, c.SuccessRate, c.SchemaValidRate, c.QuoteInvariantRate, c.CoverageRate)
	}
}

// wide is how long a line may be.
const wide = 80

// wrapped writes a text in lines that begin with an indent, and those after the
// first one with two more spaces.
func wrapped(b *bytes.Buffer, indent, text string) {
	line := indent
	for i, word := range strings.Fields(text) {
		switch {
		case i == 0:
			line += word
			continue
		case utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > wide:
			b.WriteString(line + "\n")
			line = indent + "  " + word
			continue
		}
		line += " " + word
	}
	b.WriteString(line + "\n")
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
		wrapped(b, "  ", fmt.Sprintf("%s (%s): %s: %s", printable.Line(c.CaseID), when, printable.Line(what), printable.Line(c.Detail)))
	}
	if n := len(r.DriftingCases); n > 0 {
		names := strings.Join(r.DriftingCases[:min(n, mostShown)], ", ")
		if n > mostShown {
			names += fmt.Sprintf(" and %d more", n-mostShown)
		}
		b.WriteString("\n")
		wrapped(b, "  ", fmt.Sprintf("%s of %d came to different things: %s", printable.Counted(n, "case"), r.Breadth.TotalCaseCount, printable.Line(names)))
	}
}
