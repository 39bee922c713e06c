package report

import (
	"fmt"
	"io"
	"strings"

	"extraction-experiment/compare"
	"extraction-experiment/internal/printable"
)

// CompareMarkdown writes a comparison as GitHub-flavoured Markdown, fit for a
// comment on a pull request: verdict and gate first, then the scores; what is
// long is folded. Names, comments and messages stand in code spans, so that
// nothing in them is a link, a mention, a tag or the end of a cell. Of the
// options only Groups counts.
//
// It writes once; the error is that of the writer.
func CompareMarkdown(w io.Writer, c compare.Comparison, opt Options) error {
	m := &markdown{opt: opt.filled()}
	for _, r := range c.Candidates {
		m.candidate(c, r)
	}
	if _, err := io.WriteString(w, m.text.String()); err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	return nil
}

// markdown is a page of Markdown in the making.
type markdown struct {
	opt  Options
	text strings.Builder
}

func (m *markdown) line(format string, args ...any) {
	fmt.Fprintf(&m.text, format+"\n", args...)
}

func (m *markdown) candidate(c compare.Comparison, r compare.Result) {
	cand, base := code(r.Candidate.Summary.Run.Name), code(c.Base.Summary.Run.Name)
	if len(r.Incompatible) > 0 {
		m.line("### %s cannot be compared with %s\n", cand, base)
		for _, mismatch := range r.Incompatible {
			m.line("- %s", code(mismatch.String()))
		}
		m.line("")
		return
	}
	s := primary(r)
	m.line("### %s against %s: %s\n", cand, base, verdict(s))
	m.line("%s **%s → %s**, %s (95 %% %s, p %s), %s of %s\n", code(s.Name), score(s.Base, 3), score(s.Candidate, 3),
		delta(s.Difference), deltas(s.CI95), pValue(s.P), counted(r.Items, "item"), code(c.Base.Summary.Run.Dataset))
	m.gate(r.Gate)
	m.scores(r)
	for _, warning := range r.Warnings {
		m.line("> ⚠️ %s", code(warning))
	}
	if len(r.Warnings) > 0 {
		m.line("")
	}
	m.groups(r.Groups)
	m.changes(r.Changed)
}

func (m *markdown) gate(g *compare.GateResult) {
	if g == nil {
		return
	}
	m.line("**Gate: %s**\n", gateWord(*g))
	m.row("", "rule", "reason")
	m.row("---", "---", "---")
	for _, r := range g.Rules {
		m.row(answerMark(r.Answer)+" "+string(r.Answer), cell(r.Rule), cell(r.Reason))
	}
	m.line("")
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

func (m *markdown) scores(r compare.Result) {
	m.row("score", "base", "candidate", "difference", "95 % interval", "p (Holm)", "better / worse / equal", "n")
	m.row("---", "---:", "---:", "---:", "---:", "---:", "---:", "---:")
	for _, s := range r.Scores {
		m.row(cell(s.Name), score(s.Base, 3), score(s.Candidate, 3), "**"+delta(s.Difference)+"**", deltas(s.CI95), pValue(s.PHolm),
			fmt.Sprintf("%s / %s / %s", count(s.Wins), count(s.Losses), count(s.Ties)), count(s.N))
	}
	m.line("")
}

// groups folds the breakdown away.
func (m *markdown) groups(groups []compare.Group) {
	if len(groups) == 0 {
		return
	}
	m.line("<details><summary>By type</summary>\n")
	m.row("kind", "type", "expected", "base F1", "candidate F1", "difference")
	m.row("---", "---", "---:", "---:", "---:", "---:")
	shown := map[string]int{}
	for _, g := range groups {
		if shown[g.Kind]++; m.opt.Groups >= 0 && shown[g.Kind] > m.opt.Groups {
			continue
		}
		m.row(cell(g.Kind), cell(g.Name), count(g.Candidate.Expected), ratio(g.Base.F1), ratio(g.Candidate.F1), delta(&g.Difference))
	}
	m.line("\n</details>\n")
}

func (m *markdown) changes(list []compare.Change) {
	if len(list) == 0 {
		return
	}
	m.line("<details><summary>Items that changed most</summary>\n")
	m.row("item", "base", "candidate", "difference", "matched by the candidate only", "matched by the base only")
	m.row("---", "---:", "---:", "---:", "---", "---")
	for _, c := range list {
		base, cand := score(&c.Base, 3), score(&c.Candidate, 3)
		if c.BaseFailure != "" {
			base = "failed: " + cell(c.BaseFailure)
		}
		if c.CandidateFailure != "" {
			cand = "failed: " + cell(c.CandidateFailure)
		}
		m.row(cell(c.Item), base, cand, delta(&c.Delta), cells(c.Gained), cells(c.Lost))
	}
	m.line("\n</details>\n")
}

func (m *markdown) row(cells ...string) { m.line("| %s |", strings.Join(cells, " | ")) }

// cells lists the first words of a list, each a code span.
func cells(words []string) string {
	const shown = 8
	var list []string
	for _, w := range words[:min(shown, len(words))] {
		list = append(list, cell(w))
	}
	if more := len(words) - shown; more > 0 {
		list = append(list, "and "+count(more)+" more")
	}
	return strings.Join(list, ", ")
}

// cell is a code span within a table, where a bar would end the cell even
// inside of code, and an escaped one too if a backslash stands before it. It is
// shown as a broken bar.
func cell(s string) string { return strings.ReplaceAll(code(s), "|", "¦") }

// code makes a code span of a stranger's words: between more backticks than
// stand in them, where nothing has a meaning.
func code(s string) string {
	const longest = 300
	s = label(s)
	if cut := []rune(s); len(cut) > longest {
		s = printable.Line(string(cut[:longest])) + "…"
	}
	fence, run := 1, 0
	for _, r := range s {
		if r != '`' {
			run = 0
			continue
		}
		run++
		fence = max(fence, run+1)
	}
	ticks := strings.Repeat("`", fence)
	if fence > 1 {
		return ticks + " " + s + " " + ticks
	}
	return ticks + s + ticks
}
