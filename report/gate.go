package report

import (
	"io"
	"slices"

	"extraction-experiment/compare"
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
	p.table(gateTable("", g))
	return p.writeTo(w)
}

// gateTable has a row for each rule, those that did not pass first, under a title that may say whose gate it is; it is
// empty for nil.
func gateTable(whose string, g *compare.GateResult) Table {
	if g == nil {
		return Table{}
	}
	t := Table{Title: "Gate" + whose + ": " + GateWords(*g), noun: "rule", Columns: []Column{{Pill: true, Text: no},
		{Pill: true, Markdown: no}, {Markdown: "rule", Name: true, flex: true, key: true}, {Markdown: "reason", Below: true}}}
	marks := map[compare.Answer]string{compare.Pass: "✅ ", compare.Fail: "❌ ", compare.Inconclusive: "❔ "}
	order := []compare.Answer{compare.Fail, compare.Inconclusive, compare.Pass}
	for _, r := range slices.SortedStableFunc(slices.Values(g.Rules), func(a, b compare.RuleResult) int {
		return slices.Index(order, a.Answer) - slices.Index(order, b.Answer)
	}) {
		t.add(marks[r.Answer]+string(r.Answer), string(r.Answer), r.Rule, quoted(r.Reason)).State = string(r.Answer)
	}
	return t
}
