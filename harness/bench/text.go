package bench

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"extraction-experiment/internal/printable"
)

const (
	wide      = 80 // how long a line may be
	mostShown = 20 // causes and drifting cases
)

// page is a report for a person in the making.
type page struct{ bytes.Buffer }

// wrapped writes a text in lines that begin with an indent, and those after the
// first one with two more spaces.
func (p *page) wrapped(indent, format string, args ...any) {
	line, space := indent, ""
	for _, word := range strings.Fields(printable.Line(fmt.Sprintf(format, args...))) {
		if space != "" && utf8.RuneCountInString(line+space+word) > wide {
			p.WriteString(line + "\n")
			line = indent + " "
		}
		line, space = line+space+word, " "
	}
	p.WriteString(line + "\n")
}

// WriteText writes the report for a person, in lines of at most 80 characters
// but for words that are longer. The error is that of w.
func (r Report) WriteText(w io.Writer) error {
	var p page
	p.wrapped("", "bench %s: %s, %s, %s of %s (%d smoke, %d regression in %s)", r.Run, r.Mode, r.Model,
		printable.Counted(r.Trials, "trial"), printable.Counted(r.Breadth.TotalCaseCount, "case"), r.Breadth.SmokeCaseCount,
		r.Breadth.RegressionCaseCount, printable.Counted(r.Breadth.RegressionCategoryCount, "category"))
	if r.Sources != "" {
		p.wrapped("  ", "cases: %s", r.Sources)
	}
	p.WriteString("\n")
	switch {
	case r.answered == 0 && r.FailedCalls == 0:
		p.wrapped("  ", "no call was answered: there is nothing to measure")
	case r.answered == 0:
		p.wrapped("  ", "no call was answered (%d of %d failed): there is nothing to measure", r.FailedCalls, r.FailedCalls)
	case r.FailedCalls > 0:
		p.wrapped("  ", "%d of %d calls failed", r.FailedCalls, r.FailedCalls+r.answered)
	}
	for _, f := range r.Failures {
		p.wrapped("    ", "%d %s, such as %s: %s", f.Count, f.Class, f.CaseID, shortened(f.Message))
	}
	if r.answered > 0 {
		if r.FailedCalls > 0 {
			p.WriteString("\n")
		}
		p.metrics(r)
		p.causes(r)
	}
	for _, warning := range r.Warnings {
		p.WriteString("\n")
		p.wrapped("  ", "warning: %s", warning)
	}
	_, err := w.Write(p.Bytes())
	return err
}

func (p *page) metrics(r Report) {
	row := func(name string, value float64) { fmt.Fprintf(p, "  %-27s %.4f\n", name, value) }
	row("schemaValidRate", r.SchemaValidRate)
	row("quoteInvariantRate", r.QuoteInvariantRate)
	for _, code := range []Code{UnsupportedMode, InvalidOffsets, OutOfRange, OffsetMismatch, QuoteMismatch} {
		if n := r.QuoteErrors[code]; n > 0 {
			fmt.Fprintf(p, "    %-25s %d\n", code, n)
		}
	}
	row("uniqueExtractionStability", r.UniqueExtractionStability)
	row("successRate", r.SuccessRate)
	row("  standard deviation", r.SuccessRateStdDev)
	row("coverageRate", r.CoverageRate)
	row("caseOutcomeDriftRate", r.CaseOutcomeDriftRate)
	v := r.Variance
	fmt.Fprintf(p, "  %-27s min %d, max %d, mean %.4g,\n", "extractions per trial", v.Min, v.Max, v.Mean)
	fmt.Fprintf(p, "  %27s stability %.4f, variance %.4g\n", "", v.Stability, v.Variance)
	fmt.Fprintf(p, "\n  %-28s %5s %8s %8s %8s %8s\n", "category", "cases", "success", "schema", "quote", "coverage")
	for _, c := range r.Categories {
		fmt.Fprintf(p, "  %-28s %5d %8.4f %8.4f %8.4f %8.4f\n", printable.Brief(printable.Line(c.Name), 28),
			c.Cases, c.SuccessRate, c.SchemaValidRate, c.QuoteInvariantRate, c.CoverageRate)
	}
}

// causes writes causes, those that are the same in several trials once, and the
// cases that drift.
func (p *page) causes(r Report) {
	if len(r.Causes) > 0 {
		p.WriteString("\n  what lowered them\n")
	}
	shown := 0
	for i, n := 0, 0; i < len(r.Causes); i += n {
		if shown++; shown > mostShown {
			fmt.Fprintf(p, "  and %d more (--json)\n", len(r.Causes)-i+r.MoreCauses)
			break
		}
		c := r.Causes[i]
		when := fmt.Sprintf("trial %d", c.Trial)
		if n = alike(r.Causes[i:]); n > 1 {
			when = fmt.Sprintf("%d trials from %d on", n, c.Trial)
		}
		what := strings.TrimSpace(c.Metric + " " + string(c.Code))
		if c.Quote != "" {
			what += fmt.Sprintf(" %q", c.Quote)
		}
		p.wrapped("  ", "%s (%s): %s: %s", c.CaseID, when, what, c.Detail)
	}
	if n := len(r.DriftingCases); n > 0 {
		names := strings.Join(r.DriftingCases[:min(n, mostShown)], ", ")
		if n > mostShown {
			names += fmt.Sprintf(" and %d more", n-mostShown)
		}
		p.WriteString("\n")
		p.wrapped("  ", "%s of %d came to different things: %s", printable.Counted(n, "case"), r.Breadth.TotalCaseCount, names)
	}
}

// alike returns how many causes are the first one, each in another trial: they
// follow one another.
func alike(causes []Cause) int {
	for i, c := range causes[1:] {
		if c.Trial == causes[i].Trial {
			return i + 1
		}
		if c.Trial = causes[0].Trial; c != causes[0] {
			return i + 1
		}
	}
	return len(causes)
}
