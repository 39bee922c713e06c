package report

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"extraction-experiment/compare"
	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/stats"
	"extraction-experiment/internal/textutil"
)

// Results returns the candidates of a comparison in order.
func Results(c compare.Comparison) []ResultView {
	return cli.Each(c.Candidates, func(r compare.Result) ResultView { return ResultView{r, c} })
}

// CandidateTable compares the candidates of a comparison with each other.
func CandidateTable(c compare.Comparison) Table {
	t := Table{Title: "Candidates by " + quoted(c.Metric), noun: "candidate", Columns: []Column{name("run"), number("mean").strong().wide(3),
		number("difference"), interval(), number("p (Holm)").wide(2).hint("corrected for the number of candidates"),
		{Title: "verdict", Pill: true}, {Title: "gate"}}}
	for _, r := range c.Candidates {
		s := r.Primary()
		says, state := verdictState(r.Verdict, s.Verdict, len(r.Incompatible) > 0)
		gate := orNone(r.Gate, func(g compare.GateResult) string { return string(g.Answer) })
		t.add(r.Candidate.Summary.Run.Name, Score(s.Candidate, 3), Delta(s.Difference), Deltas(s.CI95), pValue(s.PHolm),
			says, gate).State = state
	}
	return t
}

// ResultView provides the tables and texts of the comparison with one candidate, for all forms.
type ResultView struct {
	compare.Result
	of compare.Comparison
}

// Says returns the verdict on the primary score in words.
func (v ResultView) Says() string {
	s := v.Primary()
	return cmp.Or(textIf(s.Difference == nil, "not defined in both runs for any item"), verdictWords(s))
}

func verdictWords(s compare.Score) string {
	words := map[compare.Verdict]string{compare.Same: "the same in every item",
		compare.Better: "better", compare.Worse: "worse"}
	return cmp.Or(words[s.Verdict], textIf(s.Undecided(), "not decided"), "no significant difference")
}

// Evidence returns interval and p-value of the verdict; empty without an interval. It adds the
// corrected p-value, which decides, if it differs.
func (v ResultView) Evidence() string {
	s := v.Primary()
	corrected := s.P != nil && s.PHolm != nil && *s.P != *s.PHolm
	text := fmt.Sprintf("95 %% %s, p %s", Deltas(s.CI95), pValue(s.P))
	return textIf(s.CI95 != nil, text+textIf(corrected, ", p (Holm) "+pValue(s.PHolm)))
}

// change describes how the primary score changed, with the evidence.
func (v ResultView) change() string {
	s := v.Primary()
	text, by := Score(s.Base, 3)+" → "+Score(s.Candidate, 3)+", "+Delta(s.Difference), v.Evidence()
	return text + textIf(by != "", " ("+by+")")
}

// Notes returns remarks on the verdict.
func (v ResultView) Notes() (notes []string) {
	s := v.Primary()
	switch {
	case s.Verdict == compare.Same && v.Identical:
		failed := textIf(v.Candidate.Summary.Items.Scored == 0, ", all of which failed")
		notes = append(notes, "identical results in all "+textutil.Counted(v.Items, "item")+failed)
	case s.Verdict == compare.Same:
		notes = append(notes, "the results are not identical in every item, or not known to be")
	}
	if w := s.Weighted; w != nil {
		notes = append(notes, fmt.Sprintf("weighted %s → %s, %s", Score(&w.Base, 4), Score(&w.Candidate, 4), Delta(&w.Difference)))
	}
	if s.Clusters > 0 && s.Unclustered != nil {
		notes = append(notes, fmt.Sprintf("%s by %s; as if items were independent: %s",
			textutil.Counted(s.Clusters, "cluster"), textutil.Line(v.of.ClusterBy), Deltas(s.Unclustered)))
	}
	if s.Detectable != nil {
		text := fmt.Sprintf("minimum detectable effect %s (80 %% power)", Score(s.Detectable, 3))
		if s.Needed != nil && *s.Needed > s.N {
			text += fmt.Sprintf("; to find %s as often takes about %s", Delta(s.Difference), textutil.Counted(*s.Needed, "item"))
		}
		notes = append(notes, text)
	}
	return notes
}

// candidate is the column of the candidate's values, diff that of the differences.
func candidate() Column { return Column{Title: "cand.", Markdown: "candidate", Right: true} }
func diff() Column {
	return Column{Title: "diff.", Markdown: "difference", Right: true, Strong: true, Diff: true}
}

// ScoreTable has a row for each score of both runs.
func (v ResultView) ScoreTable() Table {
	text := func(title, hint string, order int) Column {
		return Column{Title: title, Markdown: hidden, Page: hidden, Right: true, Hint: hint, Wide: order}
	}
	p := number("p").wide(4).hint("sign flips")
	p.Markdown = hidden
	corrected := "corrected for the number of secondary scores that differ" +
		textIf(len(v.of.Candidates) > 1, ", that of the primary score for the number of candidates")
	t := Table{Title: "Scores", Notes: []string{"failed items count as 0"}, Columns: []Column{name("score"), number("base").wide(3),
		candidate().wide(2), diff(), interval(), p,
		number("p (Holm)").wide(5).hint(corrected),
		number("+/-/=").wide(6).hint("items that are better, worse, equal"), number("n").wide(7),
		text("MDE", "minimum detectable effect (80 % power)", 8), text("n needed", "items to find the difference seen as often", 9)}}
	for _, s := range v.Scores {
		row := t.add(s.Name, Score(s.Base, 3), Score(s.Candidate, 3), Delta(s.Difference), Deltas(s.CI95), pValue(s.P), pValue(s.PHolm),
			Count(s.Wins)+"/"+Count(s.Losses)+"/"+Count(s.Ties), Count(s.N), Score(s.Detectable, 3), orNone(s.Needed, Count))
		row.Primary, row.State = s.Primary, string(s.Verdict)
	}
	return t
}

// PooledTable shows the values over the counts of all items. Boolean scores are left out: their
// mean and pooled value are the same.
func (v ResultView) PooledTable() Table {
	t := Table{Title: "Pooled over the counts of " + v.counts(), folded: true, Columns: []Column{name("score"), number("base").wide(3),
		candidate().wide(2), diff(), interval(), number("n").wide(4)}}
	bootstrapped := false
	var without, alike []string
	for _, s := range v.Scores {
		switch p, name := s.Pooled, textutil.Line(s.Name); {
		case slices.ContainsFunc(v.YesNo, func(y compare.YesNo) bool { return y.Name == s.Name }):
			alike = append(alike, name)
		case p == nil:
			without = append(without, name)
		default:
			t.add(s.Name, ratio(p.Base), ratio(p.Candidate), Delta(&p.Difference), Deltas(p.CI95), Count(p.N))
			bootstrapped = bootstrapped || p.CI95 != nil
		}
	}
	t.note(!bootstrapped, fmt.Sprintf("no intervals: the bootstrap is too narrow below %d items or clusters, "+
		"and knows nothing where nothing varies", stats.LeastResampled))
	t.names("without counts, or with nothing to divide by in one of the runs", without)
	t.names("yes or no, where every item counts the same", alike)
	return t
}

// counts describes which items have counts: those that did not fail.
func (v ResultView) counts() string {
	base, cand := v.trials()
	others := cmp.Or(textIf(max(base, cand) > 1, "of the others a trial failed"), "the others failed")
	some := Count(v.Scored) + " of " + textutil.Counted(v.Items, "item") + ": " + others
	return cmp.Or(textIf(v.Scored != v.Items, some), "all items")
}

// trials returns the number of trials of each item in both runs.
func (v ResultView) trials() (base, cand int) {
	return SummaryView{Summary: v.of.Base.Summary}.trials(), SummaryView{Summary: v.Candidate.Summary}.trials()
}

// YesNoTable has a row for each boolean score.
func (v ResultView) YesNoTable() Table {
	t := Table{Title: "Yes or no", folded: true, Columns: []Column{name("score"), number("no → yes"), number("yes → no"),
		number("both").wide(1), number("neither").wide(2), number("p (McNemar)")}}
	for _, y := range v.YesNo {
		t.add(y.Name, Count(y.Gained), Count(y.Lost), Count(y.Both), Count(y.None), pValue(y.P))
	}
	if len(v.YesNo) > 0 && v.YesNo[0].P == nil { // as with clusters
		t.Columns[5].Text = hidden
	}
	return t
}

// ConsumptionTable shows cost and latency as far as both are known.
func (v ResultView) ConsumptionTable() Table {
	t := Table{Title: "Cost and latency", folded: true, Columns: []Column{{Markdown: "mean, p50 and p95 of the items", Below: true}}}
	base, cand := v.of.Base.Summary, v.Candidate.Summary
	if b, c := base.Usage.CostUSD, cand.Usage.CostUSD; b != nil && c != nil && *b+*c > 0 {
		t.add(amountLine("cost per item", v.Cost, Dollars))
	}
	if b, c := base.LatencyMS, cand.LatencyMS; b != nil && c != nil {
		t.add(amountLine("latency per item", v.Latency, Milliseconds))
		t.add(fmt.Sprintf("p50 %s → %s, p95 %s → %s", Milliseconds(b.P50), Milliseconds(c.P50), Milliseconds(b.P95), Milliseconds(c.P95)))
	}
	return t
}

func amountLine(name string, a compare.Amount, show func(float64) string) string {
	if a.Difference == nil {
		return name + ": not known for any item in both runs"
	}
	signed := func(v float64) string { return map[int]string{-1: "-", 1: "+"}[cmp.Compare(v, 0)] + show(math.Abs(v)) }
	text := fmt.Sprintf("%s %s → %s", name, show(*a.Base), show(*a.Candidate))
	text += textIf(a.Ratio != nil, " (×"+Score(a.Ratio, 2)+")") + ", " + signed(*a.Difference)
	if a.CI95 != nil {
		text += fmt.Sprintf(" (95 %% %s to %s)", signed(a.CI95[0]), signed(a.CI95[1]))
	}
	return text + ", n=" + Count(a.N)
}

// groupTables returns the counts by type, a table of at most rows rows for each kind of type.
func (v ResultView) groupTables(rows int) (tables []Table) {
	for _, list := range kinds(v.Groups, func(g compare.Group) string { return g.Kind }) {
		t := Table{Title: "By " + label(Words(list[0].Kind)), folded: true, Columns: []Column{name("type"), number("expected").wide(1),
			number("matched"), number("extracted").wide(2), number("base F1"), number("cand. F1"), diff()}}
		for _, g := range list {
			b, c := g.Base, g.Candidate
			t.add(g.Name, arrow(b.Expected, c.Expected), arrow(b.Matched, c.Matched), arrow(b.Extracted, c.Extracted),
				Score(b.F1, 3), Score(c.F1, 3), Delta(g.Difference))
		}
		t.note(v.Scored < v.Items, "over the counts of "+v.counts())
		base, cand := v.trials()
		t.note(base != cand, fmt.Sprintf("counts are of all trials: %d of the base, %d of the candidate", base, cand))
		tables = append(tables, t.First(rows))
	}
	return tables
}

// arrow formats a count before and after; once if it is the same.
func arrow(before, after int64) string {
	return textIf(before != after, Count(before)+"→") + Count(after)
}

// SensitivityTable has a row for each way to score the outputs; empty if they were not scored
// again.
func (v ResultView) SensitivityTable() Table {
	t := Table{Title: "Sensitivity", folded: true, noun: "way", Columns: []Column{name("scored"),
		{Title: "score", Name: true, flex: true, Wide: 2}, number("base").wide(5), candidate().wide(4), diff(), interval(),
		number("p (Holm)").wide(3).
			hint("corrected for the number of candidates; rows of other scores have that of the scores above"), number("n").wide(6),
		{Title: "verdict", Pill: true, flex: true}}}
	if v.Sensitivity == nil {
		return t
	}
	t.Notes = append([]string{"the same outputs, scored again in other ways, each compared as above; no gate reads it"}, v.Sensitivity.Notes...)
	for _, w := range v.Sensitivity.Settings {
		s, what := w.Score, w.What+textIf(w.LeftOut > 0, ": "+textutil.Counted(w.LeftOut, "item")+" left out")
		row := t.add(what, s.Name, Score(s.Base, 3), Score(s.Candidate, 3), Delta(s.Difference), Deltas(s.CI95),
			pValue(s.PHolm), Count(s.N), verdictWords(s))
		row.Primary, row.State = w.Own, string(s.Verdict)
	}
	return t
}

// Tables returns the tables below the scores in order, with at most groups rows for each kind of
// type.
func (v ResultView) Tables(groups int) []Table {
	list := append([]Table{v.PooledTable(), v.YesNoTable(), v.ConsumptionTable()}, v.groupTables(groups)...)
	return append(list, v.ChangeTable())
}

// Compare writes a comparison for a terminal: the runs, the verdict, every score with
// difference, interval and p-value, pooled values, boolean scores, cost and latency, the
// breakdown by type, the items that changed most, the rules of the gate, and warnings. For
// candidates that cannot be compared it says why.
func Compare(w io.Writer, c compare.Comparison, opt Options) error {
	p := newPage(opt)
	p.sideLines("base", c.Base)
	several := len(c.Candidates) > 1
	for i, r := range c.Candidates {
		p.sideLines(cmp.Or(textIf(several, fmt.Sprintf("cand. %d", i+1)), "candidate"), r.Candidate)
	}
	if several {
		p.table(CandidateTable(c))
	}
	for _, r := range Results(c) {
		if several {
			p.title("— " + label(r.Candidate.Summary.Run.Name))
			p.heading()
		}
		p.candidate(r)
	}
	p.where()
	return p.writeTo(w)
}

// sideLines describes one run.
func (p *page) sideLines(name string, s compare.Side) {
	n := s.Summary.Items.Failed
	failed := textIf(n > 0, p.red(Count(n)+" failed"))
	about := append([]string{p.bold(label(s.Summary.Run.Name)), failed}, SummaryView{Summary: s.Summary}.About()...)
	p.parts(name, append(about, textutil.Line(s.Where))...)
}

// candidate writes the comparison with one candidate.
func (p *page) candidate(r ResultView) {
	if len(r.Incompatible) > 0 {
		p.title("Cannot be compared")
		for _, m := range r.Incompatible {
			p.wrapped(textutil.Line(m.String()), 2, 0, p.red)
		}
		return
	}
	p.line("")
	p.wrapped(textutil.Line(r.Primary().Name)+" "+r.change()+": "+r.Says(), 0, 0, p.bold)
	p.notes(r.Notes()...)
	p.table(r.ScoreTable())
	p.table(r.Tables(maxTypes)...)
	p.table(r.SensitivityTable(), gateTable("", r.Gate))
	p.warnings(r.Warnings, 0)
}

// CompareMarkdown writes a comparison as GitHub-flavoured Markdown, for a comment on a pull
// request: verdict and gate first, then the scores; long tables are folded. Options are ignored.
func CompareMarkdown(w io.Writer, c compare.Comparison, _ Options) error {
	m := &markdown{}
	for _, r := range Results(c) {
		m.candidate(r)
	}
	return write(w, m.text.String())
}

func (m *markdown) candidate(r ResultView) {
	cand, base := code(r.Candidate.Summary.Run.Name), code(r.of.Base.Summary.Run.Name)
	if len(r.Incompatible) > 0 {
		m.paragraph("### %s cannot be compared with %s", cand, base)
		for _, mismatch := range r.Incompatible {
			m.line("- %s", code(mismatch.String()))
		}
		m.line("")
		return
	}
	m.paragraph("### %s against %s: %s", cand, base, r.Says())
	m.paragraph("%s %s, %s of %s", code(r.Primary().Name), r.change(), textutil.Counted(r.Items, "item"), code(r.of.Base.Summary.Run.Dataset))
	for _, note := range r.Notes() {
		m.line("- %s", code(note))
	}
	m.line("")
	m.table(gateTable("", r.Gate), r.ScoreTable())
	m.warnings(r.Warnings)
	m.table(append(r.Tables(maxTypes), r.SensitivityTable())...)
}

// shownMatches is the largest number of matches shown of an item that only one side has.
const shownMatches = 8

// ChangeTable lists the items that changed most.
func (v ResultView) ChangeTable() Table {
	t := Table{Title: "Largest changes in " + quoted(v.of.Metric), folded: true, Items: true, Columns: []Column{
		name("item"), number("base").wide(2), candidate().wide(1), diff(),
		{Markdown: "what changed", Page: "what changed", Below: true}}}
	for _, c := range v.Changed {
		t.add(c.Item, Score(&c.Base, 3), Score(&c.Candidate, 3), Delta(&c.Delta), v.whatChanged(c))
	}
	return t
}

// whatChanged explains the change of an item in lines: why a side failed, the comments on its
// score, and the matches that only one side has, or has in more trials.
func (v ResultView) whatChanged(c compare.Change) string {
	base, cand := v.trials()
	several := base > 1 || cand > 1
	var lines []string
	add := func(title string, words ...string) {
		if len(words) > 0 && words[0] != "" {
			lines = append(lines, title+": "+strings.Join(limitList(words, shownMatches, quoted), "; "))
		}
	}
	add("base failed", c.BaseFailure)
	add("base", c.BaseComment)
	add("candidate failed", c.CandidateFailure)
	add("candidate", c.CandidateComment)
	than := cmp.Or(textIf(several, "more often"), "only")
	add("matched by the candidate "+than, c.Gained...)
	add("matched by the base "+than, c.Lost...)
	return strings.Join(lines, "\n")
}

// GateWords summarises the result of a gate.
func GateWords(g compare.GateResult) string {
	words := map[compare.Answer]string{compare.Pass: "passed", compare.Fail: "failed"}[g.Answer]
	counts := map[int]string{0: ", counts as passed", 1: ", counts as failed"}[g.ExitCode()]
	return cmp.Or(words, "inconclusive"+counts)
}

// Gate writes the rules of a gate with answer and reason; nothing if the gate is nil.
func Gate(w io.Writer, g *compare.GateResult, opt Options) error {
	p := newPage(opt)
	p.table(gateTable("", g))
	return p.writeTo(w)
}

// gateTable has a row for each rule, those that did not pass first; it is empty if the gate is
// nil. whose completes the title.
func gateTable(whose string, g *compare.GateResult) Table {
	if g == nil {
		return Table{}
	}
	t := Table{Title: "Gate" + whose + ": " + GateWords(*g), noun: "rule", Columns: []Column{{Pill: true, Text: hidden},
		{Pill: true, Markdown: hidden}, {Markdown: "rule", Name: true, flex: true, key: true},
		{Markdown: "reason", Below: true}}}
	marks := map[compare.Answer]string{compare.Pass: "✅ ", compare.Fail: "❌ ", compare.Inconclusive: "❔ "}
	order := []compare.Answer{compare.Fail, compare.Inconclusive, compare.Pass}
	for _, r := range slices.SortedStableFunc(slices.Values(g.Rules), func(a, b compare.RuleResult) int {
		return slices.Index(order, a.Answer) - slices.Index(order, b.Answer)
	}) {
		t.add(marks[r.Answer]+string(r.Answer), string(r.Answer), r.Rule, quoted(r.Reason)).State = string(r.Answer)
	}
	return t
}
