package report

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/jedib0t/go-pretty/v6/text"

	"extraction-experiment/bench"
	"extraction-experiment/harness/answers"
	"extraction-experiment/harness/conformance"
	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/textutil"
)

// harnessWidth is that of the lines, whatever the terminal: only an evaluator
// and what rows of numbers need may be longer.
const harnessWidth = 80

// Conformance writes what a certification came to: the fixtures as a table, the
// summary, and what the runs say about the evaluator as a whole. Lines that hold
// text are wrapped at 80 cells. The error is that of w.
func Conformance(w io.Writer, r conformance.Report) error {
	p := newPage(Options{Width: harnessWidth})
	p.line("  Evaluator Conformance Harness")
	p.line("  evaluator:  " + textutil.Line(strings.Join(r.Evaluator, " ")))
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
		p.wrapped("warning: "+textutil.Line(warning), 2, 0, nil)
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
	id := text.Pad(text.Snip(textutil.Line(f.ID), idColumn, "…"), idColumn, ' ')
	p.line(fmt.Sprintf("  %s  [%-9s] %s mean=%s  var=%s  flip=%s", tick(f.Pass), strings.ToUpper(string(f.Label)), id, mean, variance, flip))
	for _, reason := range f.Reasons {
		p.wrapped(reason, 7, 0, nil)
	}
	for _, message := range f.Errors[:min(len(f.Errors), mostErrors)] {
		p.wrapped(textutil.Line(message), 7, errorLines, nil)
	}
	if left := len(f.Errors) - mostErrors; left > 0 {
		p.wrapped(fmt.Sprintf("and %s without a valid answer", Counted(left, "more run")), 7, 0, nil)
	}
}

func (p *page) conformanceStatistics(r conformance.Report) {
	s := r.Statistics
	faults := cli.Each(slices.Sorted(maps.Keys(s.Faults)), func(kind string) string {
		return fmt.Sprintf("%s %d", kind, s.Faults[kind])
	})
	valid := fmt.Sprintf("%d/%d", s.ValidRuns, r.TotalRuns) + when(len(faults) > 0, " ("+strings.Join(faults, ", ")+")")
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
func Benchmark(w io.Writer, r answers.BenchmarkReport, opt Options) error {
	p := newPage(opt)
	t := Table{Columns: []Column{name("dataset"), {Title: "kind", flex: true, Wide: 6}, number("weight").wide(2), number("questions").wide(3),
		number("runs").wide(5), number("failed").wide(1), number("weighted_score").strong(), number("stddev").wide(4)}}
	for _, d := range r.Datasets {
		failed, questions := 0, 0
		for _, run := range d.Runs {
			failed += run.Failed
			questions = max(questions, len(run.Questions))
		}
		t.add(d.ID, textutil.Line(d.Kind), fmt.Sprintf("%g", d.Weight), Count(questions), strconv.Itoa(len(d.Runs)), Count(failed),
			Score(d.WeightedScore, 4), Score(d.Stddev, 4))
	}
	p.table(t)
	p.line("")
	p.parts("", "weighted_score "+Score(r.Summary.WeightedScore, 4), "question_weighted_score "+Score(r.Summary.QuestionWeightedScore, 4),
		"stddev over runs "+Score(r.Summary.Stddev, 4))
	for _, gate := range r.Gates {
		p.wrapped(fmt.Sprintf("%-4s  %s: %s", gate.Word(), gate.Name, textutil.Line(gate.Reason)), 0, 0, nil)
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
	// Judging is nil where no model judges.
	Judging *JudgingEstimate `json:"judging,omitempty"`
}

// JudgingEstimate counts calls of the judging models among the evaluators of a run:
// one for every trial of an item that can be asked about, and every judge.
type JudgingEstimate struct {
	Judges int   `json:"judges"`
	Calls  int64 `json:"calls"`
	// CostUSD is always nil: what a judge is told is not known before there is
	// something to judge.
	CostUSD *float64 `json:"cost_usd"`
	Note    string   `json:"note"`
}

const judgingNote = "their tokens and cost are not estimated"

// AddJudging adds the calls of so many judging models.
func (e *Estimate) AddJudging(judges int) {
	if judges > 0 {
		e.Judging = &JudgingEstimate{Judges: judges, Calls: int64(e.Items-e.Unusable) * int64(e.Trials) * int64(judges), Note: judgingNote}
	}
}

// Text writes the estimate for a person.
func (e Estimate) Text() string {
	var b strings.Builder
	line := func(label, format string, args ...any) {
		fmt.Fprintf(&b, "%-9s "+format+"\n", append([]any{label}, args...)...)
	}
	fmt.Fprintf(&b, "%s · %s · an estimate, nothing was asked\n", textutil.Line(e.Dataset), textutil.Line(e.Model))
	line("items", "%s%s%s", Count(e.Items), when(e.Trials > 1, " × "+Counted(e.Trials, "trial")),
		when(e.Unusable > 0, " · "+Count(e.Unusable)+" of them cannot be asked about"))
	if !e.Asks {
		line("cost", "nothing that is known here: no model is asked for extractions by this program")
	} else {
		line("requests", "%s · repairs and retries come on top", Count(e.Requests))
		line("tokens", "about %s in · %s out (as long as what is expected)", Count(e.InputTokens), Count(e.OutputTokens))
		cost := "unknown: there is no price for " + textutil.Line(e.Model)
		if e.CostUSD != nil {
			cost = "about " + dollars(*e.CostUSD) + ", by list prices"
		}
		line("cost", "%s", cost)
	}
	if e.Judging != nil {
		line("judging", "%s of judging models; %s", Counted(e.Judging.Calls, "call"), judgingNote)
	}
	return b.String()
}

// EstimateSum writes in one line what several runs would take together. A run of
// which the price is not known, or that asks no model that is, makes the sum one
// of the others.
func EstimateSum(list []Estimate) string {
	var requests, input, output, judging int64
	cost, unknown := 0.0, 0
	for _, e := range list {
		if e.Judging != nil {
			judging += e.Judging.Calls
		}
		if !e.Asks {
			continue
		}
		requests, input, output = requests+e.Requests, input+e.InputTokens, output+e.OutputTokens
		if e.CostUSD == nil {
			unknown++
		} else {
			cost += *e.CostUSD
		}
	}
	line := fmt.Sprintf("%s together: %s, about %s tokens in and %s out, about %s", Counted(len(list), "run"), Counted(requests, "request"), Count(input), Count(output), dollars(cost))
	return line + when(unknown > 0, ", and "+Counted(unknown, "run")+" without a known price") +
		when(judging > 0, "; and "+Counted(judging, "call")+" of judging models: "+judgingNote) + "\n"
}

// mostCauses is how many causes and drifting cases of the bench are shown.
const mostCauses = 20

// say writes one line of text, broken where it does not fit; the lines after the first
// are indented by two more.
func (p *page) say(indent int, format string, args ...any) {
	text := textutil.Line(fmt.Sprintf(format, args...))
	first := Wrap(text, p.Width-indent)[0]
	p.wrapped(first, indent, 0, nil)
	if rest := strings.TrimSpace(text[len(first):]); rest != "" {
		p.wrapped(rest, indent+2, 0, nil)
	}
}

// Bench writes what a run of the bench came to, in lines of at most 80 characters.
// It writes once; the error is that of the writer.
func Bench(w io.Writer, r bench.Report) error {
	p := newPage(Options{Width: harnessWidth})
	p.say(0, "bench %s: %s, %s, %s of %s (%d smoke, %d regression in %s)", r.Run, r.Mode, r.Model,
		textutil.Counted(r.Trials, "trial"), textutil.Counted(r.Breadth.TotalCaseCount, "case"), r.Breadth.SmokeCaseCount,
		r.Breadth.RegressionCaseCount, textutil.Counted(r.Breadth.RegressionCategoryCount, "category"))
	if r.Sources != "" {
		p.say(2, "cases: %s", r.Sources)
	}
	p.line("")
	failed := r.FailedCalls > 0
	if r.Answered == 0 {
		p.say(2, "no call was answered%s: there is nothing to measure",
			when(failed, fmt.Sprintf(" (%d of %d failed)", r.FailedCalls, r.FailedCalls)))
	} else if failed {
		p.say(2, "%d of %d calls failed", r.FailedCalls, r.FailedCalls+r.Answered)
	}
	for _, f := range r.Failures {
		p.say(4, "%d %s, such as %s: %s", f.Count, f.Class, f.CaseID, textutil.Brief(f.Message, 300))
	}
	if r.Answered > 0 {
		if failed {
			p.line("")
		}
		p.benchMetrics(r)
		p.benchCauses(r)
	}
	for _, warning := range r.Warnings {
		p.line("")
		p.say(2, "warning: %s", warning)
	}
	return p.writeTo(w)
}

func (p *page) benchMetrics(r bench.Report) {
	row := func(name string, value float64) { fmt.Fprintf(&p.text, "  %-27s %.4f\n", name, value) }
	row("schemaValidRate", r.SchemaValidRate)
	row("quoteInvariantRate", r.QuoteInvariantRate)
	for _, code := range slices.Sorted(maps.Keys(r.QuoteErrors)) {
		fmt.Fprintf(&p.text, "    %-25s %d\n", code, r.QuoteErrors[code])
	}
	row("uniqueExtractionStability", r.UniqueExtractionStability)
	row("successRate", r.SuccessRate)
	row("  standard deviation", r.SuccessRateStdDev)
	row("coverageRate", r.CoverageRate)
	row("caseOutcomeDriftRate", r.CaseOutcomeDriftRate)
	v := r.Variance
	fmt.Fprintf(&p.text, "  %-27s min %d, max %d, mean %.4g,\n", "extractions per trial", v.Min, v.Max, v.Mean)
	fmt.Fprintf(&p.text, "  %27s stability %.4f, variance %.4g\n", "", v.Stability, v.Variance)
	fmt.Fprintf(&p.text, "\n  %-28s %5s %8s %8s %8s %8s\n", "category", "cases", "success", "schema", "quote", "coverage")
	for _, c := range r.Categories {
		fmt.Fprintf(&p.text, "  %-28s %5d %8.4f %8.4f %8.4f %8.4f\n", textutil.Brief(textutil.Line(c.Name), 28),
			c.Cases, c.SuccessRate, c.SchemaValidRate, c.QuoteInvariantRate, c.CoverageRate)
	}
}

// causes writes causes, those that are the same in several trials once, and the
// cases that drift.
func (p *page) benchCauses(r bench.Report) {
	if len(r.Causes) > 0 {
		p.line("\n  what lowered them")
	}
	shown := 0
	for i, n := 0, 0; i < len(r.Causes); i += n {
		if shown++; shown > mostCauses {
			fmt.Fprintf(&p.text, "  and %d more (--json)\n", len(r.Causes)-i+r.MoreCauses)
			break
		}
		c := r.Causes[i]
		trials := fmt.Sprintf("trial %d", c.Trial)
		if n = alikeCauses(r.Causes[i:]); n > 1 {
			trials = fmt.Sprintf("%d trials from %d on", n, c.Trial)
		}
		what := strings.TrimSpace(c.Metric+" "+string(c.Code)) + when(c.Quote != "", fmt.Sprintf(" %q", c.Quote))
		p.say(2, "%s (%s): %s: %s", c.CaseID, trials, what, c.Detail)
	}
	if n := len(r.DriftingCases); n > 0 {
		names := strings.Join(r.DriftingCases[:min(n, mostCauses)], ", ") +
			when(n > mostCauses, fmt.Sprintf(" and %d more", n-mostCauses))
		p.line("")
		p.say(2, "%s of %d came to different things: %s", textutil.Counted(n, "case"), r.Breadth.TotalCaseCount, names)
	}
}

// alikeCauses returns how many causes are the first one, each in another trial: they
// follow one another.
func alikeCauses(causes []bench.Cause) int {
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
