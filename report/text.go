package report

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"extraction-experiment/internal/printable"
	"extraction-experiment/outcome"
)

// Text writes the summary of a run for a person at a terminal: the run, its
// scores, failures, time and cost, the breakdown by type, the top causes of
// faults, the worst items and
// where to look. Lines fit Options.Width: where the table of scores does not, it
// gives intervals as ±, then does without bars, ranges and pooled values, and
// says so. A summary without a run (of scored pairs, say) is shown without the
// lines that would be empty.
//
// It writes once; the error is that of the writer.
func Text(w io.Writer, s outcome.Summary, opt Options) error {
	p := newPage(opt)
	p.runLines(s)
	p.scoreTable(s.Scores)
	p.trials(s)
	p.failures(s.Failures)
	p.breakdown(s.Groups)
	if note := groupNote(s); note != "" {
		p.wrapped(note, gap, 0, p.faint)
	}
	p.causes(s.Causes)
	p.worst(s)
	if len(s.Warnings) > 0 {
		p.title("Read with care")
		for _, warning := range s.Warnings {
			p.wrapped(printable.Line(warning), 2, 0, p.yellow)
		}
	}
	p.where()
	return p.writeTo(w)
}

// runLines writes the head: what ran, on what, how many items, how long, how
// much.
func (p *page) runLines(s outcome.Summary) {
	r := s.Run
	head := []string{}
	for _, part := range []string{r.Name, r.Dataset, r.Model} {
		if part != "" {
			head = append(head, printable.Line(part))
		}
	}
	head = append(head, plannedItems(s))
	p.wrapped(strings.Join(head, " · "), 0, 2, p.bold)
	p.parts("status", p.status(s)...)
	p.parts("system", systemParts(r)...)
	if r.Selection != "" {
		p.parts("selected", printable.Line(r.Selection))
	}
	if a := s.Answers; a != nil {
		p.parts("weighted", weightedScore(a), "document "+short(a.PDFSHA256), "questions "+short(a.QuestionsSHA256))
	}
	for _, c := range r.CustomScorers {
		if c.Certified != "" {
			p.wrapped("evaluator "+printable.Line(c.Name)+" is certified: "+printable.Line(c.Certified), 0, 0, p.faint)
		}
	}
	i := s.Items
	failed := count(i.Failed) + " failed"
	if i.Failed > 0 {
		failed = p.red(failed)
	}
	noun := outcomes(s)
	p.parts(noun+"s", count(i.Planned)+" planned", count(i.Scored)+" scored", failed,
		count(i.NothingToFind)+" with nothing to find", fromCache(i.FromCache))
	if l := s.LatencyMS; l != nil {
		p.parts("latency", "p50 "+milliseconds(l.P50), "p95 "+milliseconds(l.P95),
			"mean "+milliseconds(l.Mean), "max "+milliseconds(l.Max))
	}
	p.parts("tokens", tokenParts(s.Usage)...)
	p.parts("cost", costParts(s)...)
	p.parts("judging", judgingParts(s.Judging)...)
	if pub := s.Published; pub != nil {
		p.parts("langfuse", counted(pub.Outcomes, noun)+" published", p.waiting(pub.Waiting, noun))
	}
}

// groupNote says what the counts by type are over, where that is not every item
// once.
func groupNote(s outcome.Summary) string {
	var notes []string
	if len(s.Groups) > 0 && s.Trials != nil {
		notes = append(notes, "counts of all trials together")
	}
	if len(s.Groups) > 0 && s.Items.Failed > 0 {
		notes = append(notes, "failed "+outcomes(s)+"s have no counts by type")
	}
	return strings.Join(notes, " · ")
}

// plannedItems counts items; trials are no more of them.
func plannedItems(s outcome.Summary) string {
	if s.Trials == nil {
		return counted(s.Items.Planned, "item")
	}
	return counted(s.Items.Planned/max(1, s.Trials.Count), "item") + " × " + counted(s.Trials.Count, "trial")
}

// outcomes is the noun for what is counted of a run.
func outcomes(s outcome.Summary) string {
	if s.Trials == nil {
		return "item"
	}
	return "outcome"
}

// fromCache is empty where no item came from a cache.
func fromCache(n int) string {
	if n == 0 {
		return ""
	}
	return count(n) + " from the cache"
}

// status is empty for a run that is complete, and for what is no run.
func (p *page) status(s outcome.Summary) []string {
	if s.Status == outcome.Complete || s.Status == "" {
		return nil
	}
	parts := []string{p.yellow(printable.Line(string(s.Status)))}
	if n := s.Items.NotRun(); n > 0 {
		parts = append(parts, p.yellow(counted(n, outcomes(s))+" not run"))
	}
	return parts
}

func (p *page) waiting(n int, noun string) string {
	if n == 0 {
		return ""
	}
	return p.yellow(counted(n, noun) + " waiting to be published")
}

func systemParts(r outcome.RunInfo) []string {
	parts := []string{printable.Line(r.Provider), printable.Line(r.Pipeline)}
	if r.Temperature != nil {
		parts = append(parts, fmt.Sprintf("temperature %g", *r.Temperature))
	}
	if r.TopP != nil {
		parts = append(parts, fmt.Sprintf("top_p %g", *r.TopP))
	}
	if r.MaxTokens != nil {
		parts = append(parts, fmt.Sprintf("max_tokens %d", *r.MaxTokens))
	}
	if r.Seed != nil {
		parts = append(parts, fmt.Sprintf("seed %d", *r.Seed))
	}
	if r.PromptName != "" {
		prompt := fmt.Sprintf("prompt %s@%d", printable.Line(r.PromptName), r.PromptVersion)
		if r.PromptLabel != "" {
			prompt += " (" + printable.Line(r.PromptLabel) + ")"
		}
		parts = append(parts, prompt)
	}
	return parts
}

func tokenParts(u outcome.UsageSum) []string {
	if u.Total == 0 {
		return nil
	}
	parts := []string{count(u.Input) + " in", count(u.Output) + " out"}
	if u.Cached > 0 {
		parts = append(parts, count(u.Cached)+" of them cached")
	}
	if u.Reasoning > 0 {
		parts = append(parts, count(u.Reasoning)+" for reasoning")
	}
	return parts
}

// costParts says what is known of the cost; nothing where nothing was bought.
func costParts(s outcome.Summary) []string {
	u := s.Usage
	switch {
	case s.Run.RescoredFrom != "":
		return []string{"none: scored again, no model was asked for extractions"}
	case u.CostUSD == nil && u.Total == 0:
		return nil
	case u.CostUSD == nil:
		return append([]string{"unknown"}, allAttempts(u)...)
	case u.CostUnknown > 0:
		return append([]string{"at least " + dollars(*u.CostUSD), "unknown for " + counted(u.CostUnknown, "item")}, allAttempts(u)...)
	}
	parts, per := []string{dollars(*u.CostUSD)}, "item"
	if s.Trials != nil {
		per = "item and trial"
	}
	if n := s.Items.Scored + s.Items.Failed; n > 0 && *u.CostUSD > 0 {
		parts = append(parts, dollars(*u.CostUSD/float64(n))+" per "+per)
	}
	return append(parts, allAttempts(u)...)
}

// judgingParts says what judging models took, which is no part of the cost.
func judgingParts(j *outcome.Judging) []string {
	if j == nil {
		return nil
	}
	parts := []string{counted(j.Calls, "call") + " of judging models"}
	parts = append(parts, tokenParts(outcome.UsageSum{Input: j.Usage.Input, Output: j.Usage.Output, Total: j.Usage.Total(), Cached: j.Usage.Cached, Reasoning: j.Usage.Reasoning})...)
	switch {
	case j.CostUSD == nil:
		return append(parts, "cost unknown")
	case j.CostUnknown > 0:
		return append(parts, "at least "+dollars(*j.CostUSD), "unknown for "+counted(j.CostUnknown, "call"))
	}
	return append(parts, dollars(*j.CostUSD))
}

// allAttempts says what attempts cost that newer ones replaced; it is empty
// where they cost nothing.
func allAttempts(u outcome.UsageSum) []string {
	if u.AllCostUSD == nil || u.CostUSD != nil && *u.AllCostUSD == *u.CostUSD {
		return nil
	}
	return []string{"newest attempts; " + dollars(*u.AllCostUSD) + " in all"}
}

// weightedScore is the weighted mean of a run about a document.
func weightedScore(a *outcome.Answers) string {
	if a.WeightedScore == nil {
		return "weighted_score undefined"
	}
	return "weighted_score " + strconv.FormatFloat(*a.WeightedScore, 'f', 4, 64)
}

// short is the beginning of a hash.
func short(hash string) string {
	shown, _ := firstRunes(printable.Line(hash), 12)
	return shown
}
