package report

import (
	"fmt"
	"io"
	"strings"

	"extraction-experiment/compare"
)

// CompareMarkdown writes a comparison as GitHub-flavoured Markdown, fit for a
// comment on a pull request: verdict and gate first, then the scores; what is
// long is folded. Names, comments and messages stand in code spans, so that
// nothing in them is a link, a mention, a tag or the end of a cell. Of the
// options only Groups counts.
//
// It writes once; the error is that of the writer.
func CompareMarkdown(w io.Writer, c compare.Comparison, opt Options) error {
	m := &comparePage{opt: opt.filled()}
	for _, r := range c.Candidates {
		m.candidate(c, r)
	}
	if _, err := io.WriteString(w, m.text.String()); err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	return nil
}

// comparePage is such a page in the making.
type comparePage struct {
	markdown
	opt Options
}

func (m *comparePage) linef(format string, args ...any) { m.line(fmt.Sprintf(format, args...)) }

func (m *comparePage) candidate(c compare.Comparison, r compare.Result) {
	cand, base := code(r.Candidate.Summary.Run.Name), code(c.Base.Summary.Run.Name)
	if len(r.Incompatible) > 0 {
		m.linef("### %s cannot be compared with %s\n", cand, base)
		for _, mismatch := range r.Incompatible {
			m.linef("- %s", code(mismatch.String()))
		}
		m.linef("")
		return
	}
	s := r.Primary()
	m.linef("### %s against %s: %s\n", cand, base, verdict(s))
	difference := delta(s.Difference)
	if e := evidence(s); e != "" {
		difference += " (" + e + ")"
	}
	m.linef("%s **%s → %s**, %s, %s of %s\n", code(s.Name), score(s.Base, 3), score(s.Candidate, 3),
		difference, counted(r.Items, "item"), code(c.Base.Summary.Run.Dataset))
	if s.Verdict == compare.Same {
		m.linef("%s\n", alike(r))
	}
	if w := s.Weighted; w != nil {
		m.linef("Weighted: %s\n", weightedChange(*w))
	}
	m.gate(r.Gate)
	m.scores(r)
	for _, warning := range r.Warnings {
		m.linef("> ⚠️ %s", code(warning))
	}
	if len(r.Warnings) > 0 {
		m.linef("")
	}
	m.groups(r)
	m.changes(r.Changed)
}

func (m *comparePage) gate(g *compare.GateResult) {
	if g == nil {
		return
	}
	m.linef("**Gate: %s**\n", gateWord(*g))
	var rows [][]string
	for _, r := range g.Rules {
		rows = append(rows, []string{answerMark(r.Answer) + " " + string(r.Answer), excerpt(r.Rule), excerpt(r.Reason)})
	}
	m.table([]string{"", "rule", "reason"}, rows)
}

func answerMark(a compare.Answer) string {
	switch a {
	case compare.Pass:
		return "✅"
	case compare.Fail:
		return "❌"
	}
	return "❔"
}

func (m *comparePage) scores(r compare.Result) {
	var rows [][]string
	for _, s := range r.Scores {
		rows = append(rows, []string{excerpt(s.Name), score(s.Base, 3), score(s.Candidate, 3), "**" + delta(s.Difference) + "**", deltas(s.CI95), pValue(s.PHolm),
			fmt.Sprintf("%s / %s / %s", count(s.Wins), count(s.Losses), count(s.Ties)), count(s.N)})
	}
	m.table([]string{"score", "base:", "candidate:", "difference:", "95 % interval:", "p (Holm):", "better / worse / equal:", "n:"}, rows)
}

// groups folds the breakdown away.
func (m *comparePage) groups(r compare.Result) {
	if len(r.Groups) == 0 {
		return
	}
	var rows [][]string
	for _, list := range Kinds(r.Groups, func(g compare.Group) string { return g.Kind }) {
		if m.opt.Groups >= 0 {
			list = list[:min(len(list), m.opt.Groups)]
		}
		for _, g := range list {
			rows = append(rows, []string{excerpt(g.Kind), excerpt(g.Name), count(g.Candidate.Expected), arrow(g.Base.Matched, g.Candidate.Matched),
				arrow(g.Base.Extracted, g.Candidate.Extracted), score(g.Base.F1, 3), score(g.Candidate.F1, 3), delta(g.Difference)})
		}
	}
	m.folded("By type, over the counts of "+counts(r), func() {
		m.table([]string{"kind", "type", "expected:", "matched:", "extracted:", "base F1:", "candidate F1:", "difference:"}, rows)
	})
}

func (m *comparePage) changes(list []compare.Change) {
	if len(list) == 0 {
		return
	}
	var rows [][]string
	for _, c := range list {
		base, cand := score(&c.Base, 3), score(&c.Candidate, 3)
		if c.BaseFailure != "" {
			base = "failed: " + excerpt(c.BaseFailure)
		}
		if c.CandidateFailure != "" {
			cand = "failed: " + excerpt(c.CandidateFailure)
		}
		rows = append(rows, []string{excerpt(c.Item), base, cand, delta(&c.Delta), excerpts(c.Gained), excerpts(c.Lost)})
	}
	m.folded("Items that changed most", func() {
		m.table([]string{"item", "base:", "candidate:", "difference:", "matched by the candidate only", "matched by the base only"}, rows)
	})
}

// excerpts lists the first words of a list, each a code span.
func excerpts(words []string) string {
	const shown = 8
	var list []string
	for _, w := range words[:min(shown, len(words))] {
		list = append(list, excerpt(w))
	}
	if more := len(words) - shown; more > 0 {
		list = append(list, "and "+count(more)+" more")
	}
	return strings.Join(list, ", ")
}

// excerpt is the beginning of a stranger's text as a code span.
func excerpt(s string) string { return code(snip(s, 300)) }
