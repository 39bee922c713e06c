package report

import (
	"fmt"
	"io"
	"strings"

	"extraction-experiment/compare"
	"extraction-experiment/internal/printable"

	"github.com/jedib0t/go-pretty/v6/text"
)

// changes lists the items that changed most, with what was matched before and
// after.
func (p *page) changes(metric string, r compare.Result) {
	if len(r.Changed) == 0 {
		return
	}
	p.title("Changed most by " + label(metric))
	for _, c := range r.Changed {
		lead := fmt.Sprintf("%s → %s  %s  ", score(&c.Base, 3), score(&c.Candidate, 3), delta(&c.Delta))
		room := p.Width - 2 - text.StringWidthWithoutEscSequences(lead)
		p.line("  " + lead + p.bold(isolate(p.snip(label(c.Item), room))))
		p.change(c)
	}
}

func (p *page) change(c compare.Change) {
	for _, side := range []struct{ name, comment, failure string }{
		{"base", c.BaseComment, c.BaseFailure}, {"candidate", c.CandidateComment, c.CandidateFailure},
	} {
		switch {
		case side.failure != "":
			p.wrapped(side.name+" failed: "+printable.Line(side.failure), 4, messageLines, p.red)
		case side.comment != "":
			p.wrapped(side.name+": "+printable.Line(side.comment), 4, messageLines, p.faint)
		}
	}
	p.matchLines("matched by the candidate only", c.Gained)
	p.matchLines("matched by the base only", c.Lost)
}

func (p *page) matchLines(what string, lines []string) {
	if len(lines) == 0 {
		return
	}
	const shown = 8
	words := make([]string, 0, shown)
	for _, line := range lines[:min(shown, len(lines))] {
		words = append(words, printable.Line(line))
	}
	tail := ""
	if more := len(lines) - shown; more > 0 {
		tail = fmt.Sprintf(" and %s more", count(more))
	}
	p.wrapped(what+": "+strings.Join(words, "; ")+tail, 4, messageLines, nil)
}

// Gate writes the rules of a gate, each with its answer and reason; nothing for
// nil. It writes once; the error is that of the writer.
func Gate(w io.Writer, g *compare.GateResult, opt Options) error {
	p := newPage(opt)
	p.gate(g)
	return p.writeTo(w)
}

// gate writes every rule with its answer and its reason.
func (p *page) gate(g *compare.GateResult) { p.gateOf("", g) }

// gateOf names whose gate it is.
func (p *page) gateOf(whose string, g *compare.GateResult) {
	if g == nil {
		return
	}
	p.title("Gate" + whose + ": " + gateWord(*g))
	for _, r := range g.Rules {
		p.line("  " + p.answer(r.Answer) + "  " + isolate(p.snip(label(r.Rule), p.Width-18)))
		p.wrapped(printable.Line(r.Reason), 6, messageLines, p.faint)
	}
}

// gateWord says what the gate comes to.
func gateWord(g compare.GateResult) string {
	switch {
	case g.Answer != compare.Inconclusive:
		return map[bool]string{true: "passed", false: "failed"}[g.Answer == compare.Pass]
	case g.ExitCode() == 0:
		return "inconclusive, counts as passed"
	case g.ExitCode() == 1:
		return "inconclusive, counts as failed"
	}
	return "inconclusive"
}

func (p *page) answer(a compare.Answer) string {
	const widest = len(compare.Inconclusive)
	word := text.Pad(string(a), widest, ' ')
	switch a {
	case compare.Pass:
		return p.cyan(word)
	case compare.Fail:
		return p.red(word)
	}
	return p.yellow(word)
}
