package report

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/jedib0t/go-pretty/v6/text"

	"extraction-experiment/harness/answers/benchmark"
	"extraction-experiment/harness/conformance"
	"extraction-experiment/internal/printable"
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
	p.conformanceStatistics(r)
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

// What is shown of a fixture: cells of its id, errors, and lines of each.
const idColumn, mostErrors, errorLines = 29, 5, 4

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
	var messages []string
	runs := map[string][]string{} // that had the message; an error is "run 3: message"
	for _, e := range f.Errors {
		run, message, _ := strings.Cut(printable.Line(e), ": ")
		if runs[message] == nil {
			messages = append(messages, message)
		}
		runs[message] = append(runs[message], strings.TrimPrefix(run, "run "))
	}
	left := len(f.Errors)
	for _, message := range messages[:min(len(messages), mostErrors)] {
		list := runs[message]
		left -= len(list)
		lead := "run " + list[0]
		if n := len(list); n > 6 {
			lead = fmt.Sprintf("%d runs (%s, …)", n, strings.Join(list[:5], ", "))
		} else if n > 1 {
			lead = "runs " + strings.Join(list, ", ")
		}
		p.wrapped(lead+": "+message, 7, errorLines, nil)
	}
	if left > 0 {
		p.wrapped(fmt.Sprintf("and %s without a valid answer", counted(left, "more run")), 7, 0, nil)
	}
}

func (p *page) conformanceStatistics(r conformance.Report) {
	s := r.Statistics
	var faults []string
	for _, kind := range slices.Sorted(maps.Keys(s.Faults)) {
		faults = append(faults, fmt.Sprintf("%s %d", kind, s.Faults[kind]))
	}
	valid := fmt.Sprintf("%d/%d", s.ValidRuns, r.TotalRuns)
	if len(faults) > 0 {
		valid += " (" + strings.Join(faults, ", ") + ")"
	}
	p.line(fmt.Sprintf("\n  ── Trust (intervals at %.0f %%) ──\n  Valid runs:  %s\n  Flips:       %s of comparisons with the first run\n"+
		"  Agreement:   %s\n  False pass:  %s\n  False fail:  %s\n  Out of bounds: %s",
		s.Confidence*100, valid, s.FlipRate, s.Agreement, s.FalsePass, s.FalseFail, s.BoundViolations))
	if s.CostUSD != nil {
		p.line(fmt.Sprintf("  Cost:        %.4f USD", *s.CostUSD))
	}
	if c := s.Certification; c.FlipRate != nil {
		p.line(fmt.Sprintf("  Certified:   a flip rate of at most %.1f %%", *c.FlipRate*100))
		for _, n := range c.Needed {
			p.line(fmt.Sprintf("  for %4.3g %%:  %d comparisons without a further flip (--runs %d)", n.FlipRate*100, n.Comparisons, n.Runs))
		}
	}
}

func tick(ok bool) string { return map[bool]string{true: "✓", false: "✗"}[ok] }

// Benchmark writes a line for each dataset of a benchmark, the sums, and the
// gates. Lines fit Options.Width: what does not is left out, and named.
//
// It writes once; the error is that of the writer.
func Benchmark(w io.Writer, r benchmark.Report, opt Options) error {
	p := newPage(opt)
	t := Table{Columns: []Column{{Title: "dataset", Name: true, flex: true}, {Title: "kind", flex: true}, {Title: "weight", Right: true},
		{Title: "questions", Right: true}, {Title: "runs", Right: true}, {Title: "failed", Right: true},
		{Title: "weighted_score", Right: true, Strong: true}, {Title: "stddev", Right: true}}}
	for _, d := range r.Datasets {
		failed, questions := 0, 0
		for _, run := range d.Runs {
			failed += run.Failed
			questions = max(questions, len(run.Questions))
		}
		t.add(d.ID, printable.Line(d.Kind), fmt.Sprintf("%g", d.Weight), count(questions), strconv.Itoa(len(d.Runs)), count(failed),
			score(d.WeightedScore, 4), score(d.Stddev, 4))
	}
	p.table(t, "kind", "runs", "stddev", "questions", "weight", "failed")
	p.line("")
	p.parts("", "weighted_score "+score(r.Summary.WeightedScore, 4), "question_weighted_score "+score(r.Summary.QuestionWeightedScore, 4),
		"stddev over runs "+score(r.Summary.Stddev, 4))
	for _, gate := range r.Gates {
		p.wrapped(fmt.Sprintf("%-4s  %s: %s", gate.Word(), gate.Name, printable.Line(gate.Reason)), 0, 0, nil)
	}
	return p.writeTo(w)
}

// Estimate is what a run would take, before anything is spent. Tokens are
// estimated from bytes, three to a token, which is rather too many; the output
// is as long as what is expected.
type Estimate struct {
	Dataset string `json:"dataset"`
	Model   string `json:"model"`
	Items   int    `json:"items"`
	// Unusable items would fail before a model is asked.
	Unusable int `json:"unusable"`
	// Asks is false where no model of a known way is asked: the baseline, or a
	// team's own pipeline.
	Asks         bool  `json:"asks"`
	Stages       int   `json:"stages"`
	Trials       int   `json:"trials"` // all that follows is for all of them
	Requests     int64 `json:"requests"`
	InputTokens  int64 `json:"input_tokens"`
	OutputTokens int64 `json:"output_tokens"`
	// CostUSD is nil where the price is not known.
	CostUSD *float64 `json:"cost_usd"`
}

// Text writes the estimate for a person.
func (e Estimate) Text() string {
	var b strings.Builder
	line := func(label, text string) { fmt.Fprintf(&b, "%-9s %s\n", label, text) }
	fmt.Fprintf(&b, "%s · %s · an estimate, nothing was asked\n", printable.Line(e.Dataset), printable.Line(e.Model))
	items := count(e.Items)
	if e.Trials > 1 {
		items += " × " + counted(e.Trials, "trial")
	}
	if e.Unusable > 0 {
		items += fmt.Sprintf(" · %s of them cannot be asked about", count(e.Unusable))
	}
	line("items", items)
	if !e.Asks {
		line("cost", "nothing that is known here: no model is asked for extractions by this program")
		return b.String()
	}
	line("requests", count(e.Requests)+" · repairs and retries come on top")
	line("tokens", fmt.Sprintf("about %s in · %s out (as long as what is expected)", count(e.InputTokens), count(e.OutputTokens)))
	if e.CostUSD == nil {
		line("cost", "unknown: there is no price for "+printable.Line(e.Model))
	} else {
		line("cost", "about "+dollars(*e.CostUSD)+", by list prices")
	}
	return b.String()
}

// EstimateSum writes in one line what several runs would take together. A run of
// which the price is not known, or that asks no model that is, makes the sum one
// of the others.
func EstimateSum(list []Estimate) string {
	var requests, input, output int64
	cost, unknown := 0.0, 0
	for _, e := range list {
		if !e.Asks {
			continue
		}
		requests, input, output = requests+e.Requests, input+e.InputTokens, output+e.OutputTokens
		if e.CostUSD == nil {
			unknown++
			continue
		}
		cost += *e.CostUSD
	}
	line := fmt.Sprintf("%s together: %s, about %s tokens in and %s out, about %s", counted(len(list), "run"), counted(requests, "request"), count(input), count(output), dollars(cost))
	if unknown > 0 {
		line += ", and " + counted(unknown, "run") + " without a known price"
	}
	return line + "\n"
}
