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
	"extraction-experiment/compare"
	"extraction-experiment/harness/answers"
	"extraction-experiment/harness/conformance"
	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/textutil"
)

// harnessWidth is the width of lines on every terminal. Only the evaluator's command and rows of
// numbers may be longer.
const harnessWidth = 80

// Conformance writes the result of a certification: a table of fixtures, the summary, and
// statistics about the evaluator. Text is wrapped at 80 cells.
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

// Limits of what is shown of a fixture: cells of its id, errors, and lines of each error.
const idColumn, maxErrors, errorLines = 29, 5, 4

func (p *page) conformanceRow(f conformance.FixtureResult) {
	mean, variance, flip := none, none, none
	if f.Mean != nil {
		mean, variance, flip = Score(f.Mean, 2), fmt.Sprintf("%.4f", *f.Variance), Score(f.FlipRate, 2)
	}
	id := text.Pad(text.Snip(textutil.Line(f.ID), idColumn, "…"), idColumn, ' ')
	p.line(fmt.Sprintf("  %s  [%-9s] %s mean=%s  var=%s  flip=%s", tick(f.Pass), strings.ToUpper(string(f.Label)), id, mean, variance, flip))
	for _, reason := range f.Reasons {
		p.wrapped(reason, 7, 0, nil)
	}
	for _, message := range f.Errors[:min(len(f.Errors), maxErrors)] {
		p.wrapped(textutil.Line(message), 7, errorLines, nil)
	}
	if left := len(f.Errors) - maxErrors; left > 0 {
		p.wrapped(fmt.Sprintf("and %s without a valid answer", textutil.Counted(left, "more run")), 7, 0, nil)
	}
}

func (p *page) conformanceStatistics(r conformance.Report) {
	s := r.Statistics
	faults := cli.Each(slices.Sorted(maps.Keys(s.Faults)), func(kind string) string {
		return fmt.Sprintf("%s %d", kind, s.Faults[kind])
	})
	valid := fmt.Sprintf("%d/%d", s.ValidRuns, r.TotalRuns) + textIf(len(faults) > 0, " ("+strings.Join(faults, ", ")+")")
	p.line(fmt.Sprintf("\n  ── Trust (intervals at %.0f %%) ──\n  Valid runs:  %s\n  Flips:       %s of comparisons with the first run\n"+
		"  Agreement:   %s\n  False pass:  %s\n  False fail:  %s\n  Out of bounds: %s",
		s.Confidence*100, valid, s.FlipRate, s.Agreement, s.FalsePass, s.FalseFail, s.BoundViolations))
	if s.CostUSD != nil {
		p.line("  Cost:        " + Dollars(*s.CostUSD))
	}
	if c := s.Certification; c.FlipRate != nil {
		p.line(fmt.Sprintf("  Certified:   a flip rate of at most %.1f %%", *c.FlipRate*100))
		for _, n := range c.Needed {
			p.line(fmt.Sprintf("  for %4.3g %%:  %d comparisons without a further flip (--runs %d)", n.FlipRate*100, n.Comparisons, n.Runs))
		}
	}
}

func tick(ok bool) string { return map[bool]string{true: "✓", false: "✗"}[ok] }

// Benchmark writes a row for each dataset of a benchmark, the totals, and the gates.
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

// Estimate is what a run would take, before anything is spent. It assumes three bytes per token,
// which is rather too few, and output as long as the expected output.
type Estimate struct {
	Run     string `json:"run,omitempty"` // its name; only of the runs of a sweep
	Dataset string `json:"dataset"`
	Model   string `json:"model"`
	Items   int    `json:"items"`
	// Unusable counts items that would fail before a model is asked.
	Unusable int `json:"unusable"`
	// Asks is false if no known model is asked: for the baseline, a recording, a team's own pipeline.
	Asks         bool  `json:"asks"`
	Stages       int   `json:"stages"`
	Trials       int   `json:"trials"` // the following fields cover all trials
	Requests     int64 `json:"requests"`
	InputTokens  int64 `json:"input_tokens"`
	OutputTokens int64 `json:"output_tokens"`
	// CostUSD is nil if the price is unknown.
	CostUSD *float64 `json:"cost_usd"`
	// Judging is nil if no model judges.
	Judging *JudgingEstimate `json:"judging,omitempty"`
}

// JudgingEstimate counts the calls of judging models among the evaluators of a run: one for each
// judge and each trial of a usable item.
type JudgingEstimate struct {
	Judges int   `json:"judges"`
	Calls  int64 `json:"calls"`
	// CostUSD is always nil, because the prompts of a judge depend on the output.
	CostUSD *float64 `json:"cost_usd"`
	Note    string   `json:"note"`
}

const judgingNote = "their tokens and cost are not estimated"

// AddJudging adds the calls of a number of judging models.
func (e *Estimate) AddJudging(judges int) {
	if judges > 0 {
		e.Judging = &JudgingEstimate{Judges: judges, Calls: int64(e.Items-e.Unusable) * int64(e.Trials) * int64(judges), Note: judgingNote}
	}
}

// Text returns the estimate as text for a person.
func (e Estimate) Text() string {
	var b strings.Builder
	line := func(label, format string, args ...any) {
		fmt.Fprintf(&b, "%-9s "+format+"\n", append([]any{label}, args...)...)
	}
	fmt.Fprintf(&b, "%s%s · %s · an estimate, nothing was asked\n", textIf(e.Run != "", e.Run+" · "), textutil.Line(e.Dataset), textutil.Line(e.Model))
	line("items", "%s%s%s", Count(e.Items), textIf(e.Trials > 1, " × "+textutil.Counted(e.Trials, "trial")),
		textIf(e.Unusable > 0, " · "+Count(e.Unusable)+" of them cannot be asked about"))
	if !e.Asks {
		line("cost", "nothing that is known here: no model is asked for extractions by this program")
	} else {
		line("requests", "%s · repairs and retries come on top", Count(e.Requests))
		line("tokens", "about %s in · %s out (as long as what is expected, within --max-tokens)", Count(e.InputTokens), Count(e.OutputTokens))
		cost := "unknown: there is no price for " + textutil.Line(e.Model) + " (EXPERIMENT_PRICES_FILE adds one)"
		if e.CostUSD != nil {
			cost = "about " + Dollars(*e.CostUSD) + ", by list prices"
		}
		line("cost", "%s", cost)
	}
	if e.Judging != nil {
		line("judging", "%s of judging models; %s", textutil.Counted(e.Judging.Calls, "call"), judgingNote)
	}
	return b.String()
}

// EstimateSum returns the sum of several estimates in one line. Runs that ask no model are left
// out, and runs without a known price are counted.
func EstimateSum(list []Estimate) string {
	var requests, input, output, judging int64
	cost, unknown, asking := 0.0, 0, 0
	for _, e := range list {
		if e.Judging != nil {
			judging += e.Judging.Calls
		}
		if !e.Asks {
			continue
		}
		asking++
		requests, input, output = requests+e.Requests, input+e.InputTokens, output+e.OutputTokens
		if e.CostUSD == nil {
			unknown++
		} else {
			cost += *e.CostUSD
		}
	}
	line := textutil.Counted(len(list), "run") + " together: "
	if asking == 0 {
		line += "nothing that is known here"
	} else {
		line += fmt.Sprintf("%s, about %s tokens in and %s out, about %s", textutil.Counted(requests, "request"), Count(input), Count(output), Dollars(cost))
	}
	return line + textIf(unknown > 0, ", and "+textutil.Counted(unknown, "run")+" without a known price") +
		textIf(judging > 0, "; and "+textutil.Counted(judging, "call")+" of judging models: "+judgingNote) + "\n"
}

// maxShownCauses is the number of causes and drifting cases to show.
const maxShownCauses = 20

// Bench writes the report of a bench run: its metrics, those of each category, the causes that
// lowered them, and the drifting cases.
func Bench(w io.Writer, r bench.Report, opt Options) error {
	p, b := newPage(opt), r.Breadth
	p.wrapped(textutil.Line(fmt.Sprintf("bench %s: %s, %s, %s of %s", r.Run, r.Mode, r.Model,
		textutil.Counted(r.Trials, "trial"), textutil.Counted(b.TotalCaseCount, "case"))), 0, 2, p.bold)
	p.parts("cases", textutil.Line(r.Sources), Count(b.SmokeCaseCount)+" smoke",
		Count(b.RegressionCaseCount)+" regression in "+textutil.Counted(b.RegressionCategoryCount, "category"))
	p.parts("calls", Count(r.Answered)+" answered", textIf(r.FailedCalls > 0, p.red(Count(r.FailedCalls)+" failed")),
		textIf(r.Answered == 0, "there is nothing to measure"))
	failures := Table{Title: "Failed calls", Columns: []Column{{Title: "class", Name: true, Pill: true}, number("calls"),
		name("such as"), {Below: true}}}
	for _, f := range r.Failures {
		failures.add(string(f.Class), Count(f.Count), f.CaseID, quoted(f.Message)).State = string(compare.Fail)
	}
	p.table(failures)
	if r.Answered > 0 {
		p.table(benchMetrics(r), benchCategories(r), benchCauses(r))
		drifting := strings.Join(limitList(r.DriftingCases, maxShownCauses, textutil.Line), ", ")
		p.notes(textIf(drifting != "", textutil.Counted(len(r.DriftingCases), "case")+" differed between trials: "+drifting))
	}
	p.warnings(r.Warnings, 0)
	return p.writeTo(w)
}

func benchMetrics(r bench.Report) Table {
	t := Table{Title: "Metrics", Columns: []Column{{}, {Right: true, Strong: true}}}
	row := func(name string, value float64) { t.add(name, Score(&value, 4)) }
	row("schemaValidRate", r.SchemaValidRate)
	row("quoteInvariantRate", r.QuoteInvariantRate)
	for _, code := range slices.Sorted(maps.Keys(r.QuoteErrors)) {
		t.add("  "+string(code), Count(r.QuoteErrors[code]))
	}
	row("uniqueExtractionStability", r.UniqueExtractionStability)
	row("successRate", r.SuccessRate)
	row("  standard deviation", r.SuccessRateStdDev)
	row("coverageRate", r.CoverageRate)
	row("caseOutcomeDriftRate", r.CaseOutcomeDriftRate)
	v := r.Variance
	t.Notes = []string{fmt.Sprintf("extractions per trial: min %d, max %d, mean %s, stability %.4f, variance %s",
		v.Min, v.Max, Score(&v.Mean, 1), v.Stability, Score(&v.Variance, 4))}
	return t
}

func benchCategories(r bench.Report) Table {
	t := Table{Title: "Categories", Columns: []Column{name("category"), number("cases"), number("success"),
		number("schema"), number("quote"), number("coverage")}}
	for _, c := range r.Categories {
		t.add(c.Name, Count(c.Cases), Score(&c.SuccessRate, 4), Score(&c.SchemaValidRate, 4), Score(&c.QuoteInvariantRate, 4),
			Score(&c.CoverageRate, 4))
	}
	return t
}

// benchCauses has a row for each run of causes that differ only in the trial.
func benchCauses(r bench.Report) Table {
	t := Table{Title: "What lowered the metrics", noun: "cause", Columns: []Column{name("case"), {Title: "metric"},
		{Title: "code"}, number("times"), number("first trial").wide(1), {Below: true}}}
	for i, n := 0, 0; i < len(r.Causes); i += n {
		c := r.Causes[i]
		for n = 1; i+n < len(r.Causes) && sameCause(c, r.Causes[i+n]); n++ {
		}
		why := textIf(c.Quote != "", quoted(c.Quote)+": ") + quoted(c.Detail)
		t.add(c.CaseID, c.Metric, string(c.Code), Count(n), Count(c.Trial), why)
	}
	t = t.First(maxShownCauses)
	t.note(r.MoreCauses > 0, Count(r.MoreCauses)+" more than these are not kept")
	return t
}

// sameCause reports whether two causes are the same apart from the trial.
func sameCause(a, b bench.Cause) bool {
	b.Trial = a.Trial
	return a == b
}
