package report

import (
	"io"

	"github.com/jedib0t/go-pretty/v6/text"

	"extraction-experiment/compare"
	"extraction-experiment/internal/textutil"
)

// GateWords says what a gate comes to.
func GateWords(g compare.GateResult) string {
	switch {
	case g.Answer == compare.Pass:
		return "passed"
	case g.Answer == compare.Fail:
		return "failed"
	case g.ExitCode() == 0:
		return "inconclusive, counts as passed"
	case g.ExitCode() == 1:
		return "inconclusive, counts as failed"
	}
	return "inconclusive"
}

// Gate writes the rules of a gate, each with its answer and reason; nothing for
// nil. It writes once; the error is that of the writer.
func Gate(w io.Writer, g *compare.GateResult, opt Options) error {
	p := newPage(opt)
	p.gate("", g)
	return p.writeTo(w)
}

// gate writes every rule with its answer and its reason, under a title that may
// say whose gate it is.
func (p *page) gate(whose string, g *compare.GateResult) {
	if g == nil {
		return
	}
	p.title("Gate" + whose + ": " + GateWords(*g))
	for _, r := range g.Rules {
		paint := map[compare.Answer]func(string) string{compare.Pass: p.cyan, compare.Fail: p.red, compare.Inconclusive: p.yellow}[r.Answer]
		answer := paint(text.Pad(string(r.Answer), len(compare.Inconclusive), ' '))
		p.line("  " + answer + "  " + isolate(p.snip(label(r.Rule), p.Width-18)))
		p.wrapped(textutil.Line(r.Reason), 6, messageLines, p.faint)
	}
}

func (m *markdown) gate(g *compare.GateResult) {
	if g == nil {
		return
	}
	m.paragraph("**Gate: %s**", GateWords(*g))
	t := Table{Columns: []Column{{}, {Title: "rule", Name: true}, {Title: "reason", Name: true}}}
	for _, r := range g.Rules {
		mark := map[compare.Answer]string{compare.Pass: "✅", compare.Fail: "❌", compare.Inconclusive: "❔"}[r.Answer]
		t.add(mark+" "+string(r.Answer), r.Rule, r.Reason)
	}
	m.table(t, nil)
}
