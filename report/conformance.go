package report

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"extraction-experiment/harness/conformance"
	"extraction-experiment/internal/printable"

	"github.com/jedib0t/go-pretty/v6/text"
)

// conformanceWidth is that of the lines, whatever the terminal: only the evaluator
// and what its rows of numbers need may be longer.
const conformanceWidth = 80

// Conformance writes what a certification came to: the fixtures as a table, the
// summary, and what the runs say about the evaluator as a whole. Lines that hold
// text are wrapped at 80 cells. The error is that of w.
func Conformance(w io.Writer, r conformance.Report) error {
	p := newPage(Options{Width: conformanceWidth})
	p.line("  Evaluator Conformance Harness")
	p.line("  evaluator:  " + printable.Line(strings.Join(r.Evaluator, " ")))
	p.line(fmt.Sprintf("  fixtures:   %d\n  runs/each:  %d\n  max-flip:   %g\n", r.TotalFixtures, r.Runs, r.MaxFlipRate))
	for _, f := range r.Fixtures {
		p.conformanceRow(f)
	}
	p.line("\n  ── Summary ──")
	p.line(fmt.Sprintf("  Compatible:  %s\n  Consistent:  %s", tick(r.Compatible), tick(r.Consistent)))
	passed := r.PassedFixtures()
	p.line(fmt.Sprintf("  Passed:      %d/%d\n  Failed:      %d/%d", passed, r.TotalFixtures, r.TotalFixtures-passed, r.TotalFixtures))
	conformanceStatistics(&p.text, r)
	if r.Passed() {
		for _, weak := range r.Weak() {
			p.wrapped("with care: "+weak, 2, 0, nil)
		}
	}
	for _, warning := range r.Warnings {
		p.wrapped("warning: "+printable.Line(warning), 2, 0, nil)
	}
	return p.writeTo(w)
}

const (
	// idColumn is how many cells of an id are shown.
	idColumn = 29
	// mostErrors is how many errors of a fixture are shown, errorLines how long
	// each may be.
	mostErrors, errorLines = 5, 4
)

func (p *page) conformanceRow(f conformance.FixtureResult) {
	mean, variance, flip := none, none, none
	if f.Mean != nil {
		mean, variance, flip = fmt.Sprintf("%.2f", *f.Mean), fmt.Sprintf("%.4f", *f.Variance), fmt.Sprintf("%.2f", *f.FlipRate)
	}
	id := text.Pad(text.Snip(printable.Line(f.ID), idColumn, "…"), idColumn, ' ')
	p.line(fmt.Sprintf("  %s  [%-9s] %s mean=%s  var=%s  flip=%s", tick(f.Pass), strings.ToUpper(string(f.Label)), id, mean, variance, flip))
	for _, reason := range f.Reasons {
		p.wrapped(reason, 7, 0, nil)
	}
	alike := errorsAlike(f.Errors)
	for i, e := range alike {
		if i == mostErrors {
			p.wrapped(fmt.Sprintf("and %s without a valid answer", counted(len(f.Errors)-shownErrors(alike[:i]), "more run")), 7, 0, nil)
			break
		}
		p.wrapped(e.String(), 7, errorLines, nil)
	}
}

// alikeErrors is one message with the runs that had it.
type alikeErrors struct {
	runs []string
	text string
}

// String is the message behind its runs: "runs 1, 2, 5: …".
func (a alikeErrors) String() string {
	switch n := len(a.runs); {
	case n == 0:
		return a.text
	case n == 1:
		return "run " + a.runs[0] + ": " + a.text
	case n > 6:
		return fmt.Sprintf("%d runs (%s, …): %s", n, strings.Join(a.runs[:5], ", "), a.text)
	}
	return "runs " + strings.Join(a.runs, ", ") + ": " + a.text
}

func shownErrors(list []alikeErrors) int {
	n := 0
	for _, a := range list {
		n += max(1, len(a.runs))
	}
	return n
}

// errorsAlike puts errors of the form "run 3: …" with the same text together, in
// the order of the first.
func errorsAlike(errors []string) []alikeErrors {
	var list []alikeErrors
	for _, e := range errors {
		e = printable.Line(e)
		run, said, ok := strings.Cut(strings.TrimPrefix(e, "run "), ": ")
		if !ok || !strings.HasPrefix(e, "run ") {
			list = append(list, alikeErrors{text: e})
			continue
		}
		i := slices.IndexFunc(list, func(a alikeErrors) bool { return len(a.runs) > 0 && a.text == said })
		if i < 0 {
			i, list = len(list), append(list, alikeErrors{text: said})
		}
		list[i].runs = append(list[i].runs, run)
	}
	return list
}

func conformanceStatistics(b *strings.Builder, r conformance.Report) {
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
