package report

import (
	"fmt"
	"io"
	"strings"

	"extraction-experiment/compare"
	"extraction-experiment/internal/printable"
)

// Compare writes a comparison for a person at a terminal: what was compared,
// the verdict, every score with its difference, interval and p-value, pooled
// values, yes/no results, cost and latency, the breakdown by type, the items
// that changed most, the rules of the gate and what to read with care. Of
// candidates that cannot be compared it says why. Lines fit Options.Width: what
// does not is left out, and named; see Options.Whole.
//
// It writes once; the error is that of the writer.
func Compare(w io.Writer, c compare.Comparison, opt Options) error {
	p := newPage(opt)
	p.sideLines("base", c.Base)
	for i, r := range c.Candidates {
		name := "candidate"
		if len(c.Candidates) > 1 {
			name = fmt.Sprintf("cand. %d", i+1)
		}
		p.sideLines(name, r.Candidate)
	}
	if len(c.Candidates) > 1 {
		p.overview(c)
	}
	for _, r := range c.Candidates {
		if len(c.Candidates) > 1 {
			p.title("— " + label(r.Candidate.Summary.Run.Name))
		}
		p.candidate(c, r)
	}
	p.where()
	return p.writeTo(w)
}

// candidate writes everything about one candidate.
func (p *page) candidate(c compare.Comparison, r compare.Result) {
	if len(r.Incompatible) > 0 {
		p.title("Cannot be compared")
		for _, m := range r.Incompatible {
			p.wrapped(printable.Line(m.String()), 2, 0, p.red)
		}
		return
	}
	p.headline(c, r)
	p.differences(r)
	p.pooled(r)
	p.yesNo(r.YesNo)
	p.consumption(c.Base.Summary, r)
	p.groupChanges(r)
	p.changes(c.Metric, r)
	p.gate(r.Gate)
	if len(r.Warnings) > 0 {
		p.title("Read with care")
		for _, warning := range r.Warnings {
			p.wrapped(printable.Line(warning), 2, 0, p.yellow)
		}
	}
}

// sideLines says what a run is.
func (p *page) sideLines(name string, s compare.Side) {
	r, items := s.Summary.Run, s.Summary.Items
	failed := ""
	if items.Failed > 0 {
		failed = p.red(count(items.Failed) + " failed")
	}
	prompt := ""
	if r.PromptName != "" {
		prompt = fmt.Sprintf("%s@%d", printable.Line(r.PromptName), r.PromptVersion)
	}
	p.parts(name, p.bold(label(r.Name)), printable.Line(r.Dataset), printable.Line(r.Model), prompt,
		plannedItems(s.Summary), failed, printable.Line(s.Where))
}

// FormatWeighted shows the change of a weighted mean.
func FormatWeighted(w compare.Weighted) string { return weightedChange(w) }

// weightedChange is the change of a weighted mean.
func weightedChange(w compare.Weighted) string {
	return fmt.Sprintf("%s → %s, %s", score(&w.Base, 4), score(&w.Candidate, 4), delta(&w.Difference))
}

// headline says what the primary score comes to.
func (p *page) headline(c compare.Comparison, r compare.Result) {
	s := r.Primary()
	if s.Difference == nil {
		return
	}
	text := fmt.Sprintf("%s %s → %s, %s", printable.Line(s.Name), score(s.Base, 3), score(s.Candidate, 3), delta(s.Difference))
	if e := evidence(s); e != "" {
		text += " (" + e + ")"
	}
	p.line("")
	p.wrapped(text+": "+verdict(s), 0, 0, p.bold)
	if s.Verdict == compare.Same {
		p.wrapped(alike(r), 2, 0, p.faint)
	}
	if w := s.Weighted; w != nil {
		p.wrapped("weighted "+weightedChange(*w), 2, 0, p.faint)
	}
	if s.Clusters > 0 && s.Unclustered != nil {
		p.wrapped(fmt.Sprintf("%s by %s; as if items were independent: %s", counted(s.Clusters, "cluster"), printable.Line(c.ClusterBy), deltas(s.Unclustered)), 2, 0, p.faint)
	}
	if s.Detectable != nil {
		text := fmt.Sprintf("a true difference of %s would be found 4 times of 5", score(s.Detectable, 3))
		if s.Needed != nil && *s.Needed > s.N {
			text += fmt.Sprintf("; to find one of %s it takes about %s", delta(s.Difference), counted(*s.Needed, "item"))
		}
		p.wrapped(text, 2, 0, p.faint)
	}
}

// evidence says what a verdict goes by; "" without an interval. The corrected
// p-value, which decides, stands there where it is another one.
func evidence(s compare.Score) string {
	if s.CI95 == nil {
		return ""
	}
	text := fmt.Sprintf("95 %% %s, p %s", deltas(s.CI95), pValue(s.P))
	if s.P != nil && s.PHolm != nil && *s.P != *s.PHolm {
		text += ", p (Holm) " + pValue(s.PHolm)
	}
	return text
}

// alike says whether more than the score is the same.
func alike(r compare.Result) string {
	if r.Identical {
		return "identical results in all " + counted(r.Items, "item")
	}
	return "the results are not identical in every item, or not known to be"
}

// verdict says a verdict in words.
func verdict(s compare.Score) string {
	switch s.Verdict {
	case compare.Same:
		return "the same in every item"
	case compare.Better:
		return "better"
	case compare.Worse:
		return "worse"
	}
	return "no difference can be claimed"
}

// overview compares the candidates with each other at a glance.
func (p *page) overview(c compare.Comparison) {
	p.title("Candidates by " + label(c.Metric))
	g := &grid{columns: []column{{title: "run", flex: true, key: true}, {title: "mean", right: true, paint: p.bold},
		{title: "difference", right: true}, {title: intervals, right: true}, {title: "p (Holm)", right: true}, {title: "verdict"}, {title: "gate"}}}
	for _, r := range c.Candidates {
		s, says, gate := r.Primary(), string(r.Verdict), none
		if len(r.Incompatible) > 0 {
			says = "incompatible"
		}
		if r.Gate != nil {
			gate = string(r.Gate.Answer)
		}
		g.add(label(r.Candidate.Summary.Run.Name), score(s.Candidate, 3), delta(s.Difference), deltas(s.CI95), pValue(s.PHolm), says, gate)
	}
	p.narrow(g, "mean", "p (Holm)")
}

// delta shows a difference with its sign; what is not 0 never looks so.
func delta(v *float64) string {
	text := score(v, 3)
	if v != nil && *v > 0 && strings.ContainsAny(text, "123456789") {
		return "+" + text
	}
	return text
}

// deltas shows both ends of an interval of a difference.
func deltas(ci *[2]float64) string {
	if ci == nil {
		return none
	}
	return delta(&ci[0]) + " to " + delta(&ci[1])
}

// pValue shows a p-value; below 0.001 only that.
func pValue(p *float64) string {
	switch {
	case p == nil:
		return none
	case *p < 0.001:
		return "<0.001"
	}
	return score(p, 3)
}
