package report

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/jedib0t/go-pretty/v6/text"

	"extraction-experiment/compare"
	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/textutil"
	"extraction-experiment/outcome"
)

// SummaryView provides the tables and texts of a summary, for all forms.
type SummaryView struct {
	outcome.Summary
	Ceiling *Agreement // human agreement about the same items; nil if unknown
}

// Planned returns the number of items, not counting trials.
func (v SummaryView) Planned() string {
	n := v.trials()
	return textutil.Counted(v.Items.Planned/n, "item") + textIf(v.Trials != nil, " × "+textutil.Counted(n, "trial"))
}

// trials returns the number of trials of each item.
func (v SummaryView) trials() int {
	if v.Trials == nil {
		return 1
	}
	return max(1, v.Trials.Count)
}

// Noun returns the name of what is counted: items, or outcomes if there are several trials.
func (v SummaryView) Noun() string {
	return cmp.Or(textIf(v.Trials == nil, "item"), "outcome")
}

// About describes a run: dataset, model, and what else was measured.
func (v SummaryView) About() []string {
	r := v.Run
	all := slices.Concat(nonEmpty(textutil.Line(r.Dataset), textutil.Line(r.Model)), v.system(), nonEmpty(textutil.Line(r.Selection), v.Planned()))
	return slices.Compact(all) // a baseline has the name of its provider
}

// Origin describes the start of a run and the versions of scorer and dataset.
func (v SummaryView) Origin() []string {
	started := textIf(!v.Run.Started.IsZero(), v.Run.Started.UTC().Format("2006-01-02 15:04 UTC"))
	return nonEmpty(started, labelledHash("scorer ", v.Run.ScorerVersion),
		labelledHash("dataset ", v.Run.DatasetFingerprint))
}

// system lists provider, parameters and prompt.
func (v SummaryView) system() []string {
	r := v.Run
	prompt := fmt.Sprintf("prompt %s@%d", textutil.Line(r.PromptName), r.PromptVersion) +
		textIf(r.PromptLabel != "", " ("+textutil.Line(r.PromptLabel)+")")
	parts := []string{textutil.Line(r.Provider), textutil.Line(r.Pipeline)}
	parameters := outcome.Parameters(r.ReportedParameters)
	for _, p := range parameters.List() {
		parts = append(parts, textIf(p.Text() != "", p.Name+" "+p.Text()))
	}
	return nonEmpty(append(parts, textIf(r.PromptName != "", prompt))...)
}

// nonEmpty returns the parts that are not empty.
func nonEmpty(parts ...string) []string {
	return slices.DeleteFunc(parts, func(s string) bool { return s == "" })
}

func tokenParts(u outcome.Usage) []string {
	if u.Total() == 0 {
		return nil
	}
	return nonEmpty(Count(u.Input)+" in", Count(u.Output)+" out", textIf(u.Cached > 0, Count(u.Cached)+" of them cached"),
		textIf(u.Reasoning > 0, Count(u.Reasoning)+" for reasoning"))
}

// cost describes the cost; nil if there was none.
func (v SummaryView) cost() []string {
	u := v.Usage
	switch {
	case v.Run.RescoredFrom != "":
		return []string{"none: scored again, no model was asked for extractions"}
	case u.CostUSD == nil && u.Total == 0 && (u.CostUnknown == 0 || v.Run.Model == ""):
		return nil // as of pairs that were scored
	}
	parts := costParts(u.CostUSD, u.CostUnknown, v.Noun())
	if n := v.Items.Scored + v.Items.Failed; n > 0 && u.CostUSD != nil && u.CostUnknown == 0 && *u.CostUSD > 0 {
		parts = append(parts, Dollars(*u.CostUSD/float64(n))+" per item"+textIf(v.Trials != nil, " and trial"))
	}
	if all := u.AllCostUSD; all != nil && (u.CostUSD == nil || *all != *u.CostUSD) {
		parts = append(parts, "newest attempts; "+Dollars(*all)+" in all")
	}
	return parts
}

// costParts describes a cost that is unknown for some of the things that noun names.
func costParts[N int | int64](cost *float64, unknown N, noun string) []string {
	switch {
	case cost == nil:
		return []string{"unknown"}
	case unknown > 0:
		return []string{"at least " + Dollars(*cost), "unknown for " + textutil.Counted(unknown, noun)}
	}
	return []string{Dollars(*cost)}
}

// judgingParts describes the use of judging models, which is not part of the cost; nil if there
// was none.
func judgingParts(j *outcome.Judging) []string {
	if j == nil {
		return nil
	}
	parts := append([]string{textutil.Counted(j.Calls, "call") + " of judging models"}, tokenParts(j.Usage)...)
	if j.CostUSD == nil {
		return append(parts, "cost unknown")
	}
	return append(parts, costParts(j.CostUSD, j.CostUnknown, "call")...)
}

// ofScored is the title of means over the items that did not fail.
const ofScored = "of scored"

// ScoreTable has a row for each score.
func (v SummaryView) ScoreTable() Table {
	mean, scored, theirs := number("mean").strong(), number(hidden).wide(2), ""
	if v.Scores.AnyFailed() {
		mean.Markdown, mean.Page, mean.Hint = "failed as 0", "failed as 0", "failed items count as 0"
		mean.Hint += textIf(v.anyUnanswered(), ", and those that an evaluator gave no score for")
		scored.Text, scored.Title, scored.Hint = ofScored, "mean of scored", "the mean of the others, n of them"
		theirs = "their least and largest value"
	}
	pooled := slices.ContainsFunc(v.Scores, func(s outcome.Stat) bool { return s.Pooled != nil })
	people := textIf(v.Ceiling == nil, hidden)
	t := Table{Title: "Scores", Columns: []Column{name("score"), {Markdown: hidden, Page: hidden, cyan: true, Wide: 5}, mean, interval(), scored,
		{Title: "range", Markdown: hidden, Page: hidden, Right: true, Wide: 4, Hint: theirs}, number("n"),
		{Title: "pooled", Text: textIf(!pooled, hidden), Right: true, Wide: 3, Hint: "over the counts of all scored items"},
		{Title: "human agreement", Text: people, Markdown: people, Page: people, Right: true}}}
	if v.Ceiling != nil {
		t.Notes = []string{v.Ceiling.what()}
	}
	for _, s := range v.Scores {
		mean, ci := v.Scores.Lead(s)
		row := t.add(s.Name, bar(mean, 24), Score(mean, 3), Interval(ci), Score(s.Mean, 3),
			minMax(s.Min, s.Max, 2), Count(s.N), Score(s.Pooled, 3), v.humanAgreement(s.Name))
		row.Primary = s.Name == v.Run.Primary
	}
	t.Notes = append(t.Notes, v.nothingToFind()...)
	return t
}

// nothingToFind returns notes about means that are inflated because a tenth of the values or
// more are 1 only because there is nothing to count, such as items without expected and
// extracted entities.
func (v SummaryView) nothingToFind() (notes []string) {
	others := map[string][]string{} // means of the other values, by the share of such values
	var order []string
	for _, s := range v.Scores {
		if s.Vacuous == 0 || s.Vacuous*10 < s.N {
			continue
		}
		mean := (*s.Mean*float64(s.N) - float64(s.Vacuous)) / float64(s.N-s.Vacuous) // NaN if no value is left
		if *s.Mean-mean < 0.0005 {
			continue
		}
		often := Count(s.Vacuous) + " of " + textutil.Counted(s.N, "item")
		if others[often] == nil {
			order = append(order, often)
		}
		others[often] = append(others[often], textutil.Line(s.Name)+" "+Score(&mean, 3))
	}
	for _, often := range order {
		what := "as there is nothing to count; the mean of the others" + textIf(v.Scores.AnyFailed(), " scored")
		notes = append(notes, "value 1 in "+often+", "+what+": "+strings.Join(others[often], ", "))
	}
	return notes
}

// humanAgreement formats the human agreement by a score, with its interval.
func (v SummaryView) humanAgreement(score string) string {
	stat := v.Ceiling.Stat(score)
	return Score(stat.Mean, 3) + textIf(stat.CI95 != nil, " ("+Interval(stat.CI95)+")")
}

// Interval formats an interval.
func Interval(ci *[2]float64) string {
	return orNone(ci, func(ci [2]float64) string { return rangeText(ratio(ci[0]), ratio(ci[1])) })
}

// minMax formats the smallest and the largest value.
func minMax(least, top *float64, decimals int) string {
	if least == nil || top == nil {
		return none
	}
	return rangeText(Score(least, decimals), Score(top, decimals))
}

// rangeText joins two numbers with a dash, or with "to" before a minus sign.
func rangeText(from, to string) string {
	return from + cmp.Or(textIf(strings.HasPrefix(to, "-"), " to "), "–") + to
}

// GroupTables returns the counts by type, a table of at most rows rows, or of all if rows is
// negative, for each kind of type.
func (v SummaryView) GroupTables(rows int) (tables []Table) {
	for _, list := range kinds(v.Groups, func(g outcome.GroupStat) string { return g.Kind }) {
		t := Table{Title: "By " + label(Words(list[0].Kind)), folded: true, Columns: []Column{name("type"), number("expected"),
			number("extracted").wide(2), number("matched").wide(1), number("P"), number("R"), number("F1").strong()}}
		for _, g := range list {
			t.add(g.Name, Count(g.Expected), Count(g.Extracted), Count(g.Matched), Score(g.Precision, 3), Score(g.Recall, 3), Score(g.F1, 3))
		}
		tables = append(tables, t.First(rows))
	}
	if len(tables) > 0 {
		tables[0].note(true, "extracted: inverses, and matches of gold without a type, count under the expected type")
		tables[0].note(v.Trials != nil, "counts of all trials together")
		tables[0].note(v.Items.Failed > 0, "failed "+v.Noun()+"s have no counts by type")
	}
	return tables
}

// maxKinds is the number of kinds of type shown, maxTypes the number of types of each. Pages
// show more.
const maxKinds, maxTypes = 20, 15

// kinds splits groups, sorted by kind, into one list for each kind.
func kinds[G any](groups []G, kind func(G) string) (lists [][]G) {
	for i, g := range groups {
		if i == 0 || kind(g) != kind(groups[i-1]) {
			lists = append(lists, nil)
		}
		last := &lists[len(lists)-1]
		*last = append(*last, g)
	}
	return lists[:min(len(lists), maxKinds)]
}

// failureTable lists the classes of failures with the first items of each.
func (v SummaryView) failureTable() Table {
	t := Table{Title: "Failures", Columns: []Column{{Markdown: "class", Name: true, flex: true, Pill: true}, {Markdown: "failed", Right: true},
		{Markdown: "items", Below: true}}}
	for _, f := range v.Failures {
		items := cli.Each(f.Items, func(item outcome.FailedItem) string {
			return quoted(item.ID) + trialMark(item.Trial) + ": " + quoted(item.Message)
		})
		more := f.Count - len(f.Items)
		items = append(items, nonEmpty(textIf(more > 0 && len(items) > 0, "and "+Count(more)+" more"))...)
		t.add(string(f.Class), Count(f.Count), strings.Join(items, "\n")).State = string(compare.Fail)
	}
	return t
}

// causeTable lists the most frequent faults with the items that have most of them.
func (v SummaryView) causeTable() Table {
	t := Table{Title: "Top causes", Columns: []Column{{Title: "cause", Name: true, flex: true}, {Title: "faults", Right: true, Strong: true},
		{Title: "items", Right: true}, {Title: "most in", flex: true, free: true, faint: true}}}
	for _, c := range v.Causes {
		most := cli.Each(c.Worst[:min(3, len(c.Worst))], func(item outcome.CauseItem) string {
			return quoted(item.ID) + " " + Count(item.Count)
		})
		t.add(Words(c.What+" "+c.Name), Count(c.Count), Count(c.Items), strings.Join(most, ", "))
	}
	return t
}

func (v SummaryView) worstTable() Table {
	t := Table{Title: "Lowest " + quoted(v.Run.Primary), Columns: []Column{{Markdown: "item", Name: true, flex: true, key: true},
		{Markdown: "score", Right: true, Strong: true}, {Markdown: "comment", flex: true, free: true, faint: true}}}
	for _, item := range v.Worst {
		t.add(item.ID, ratio(item.Score), textIf(item.Comment != "", quoted(item.Comment))).Trial = item.Trial
	}
	return t
}

// tables returns all tables of a run in order.
func (v SummaryView) tables() []Table {
	list := []Table{v.ScoreTable()}
	if v.Trials != nil {
		list = append(list, v.TrialTable(), v.SpreadTable(), v.FlakyTable())
	}
	list = append(append(list, v.failureTable()), v.GroupTables(maxTypes)...)
	return append(list, v.causeTable(), v.worstTable())
}

// Text writes the summary of a run for a terminal: the run, its scores, failures, time and cost,
// the breakdown by type, the top causes of faults, the worst items and where to look further.
// The table of scores drops bars, ranges and pooled values first. For a summary without a run,
// such as that of scored pairs, the lines about a run are left out.
func Text(w io.Writer, s outcome.Summary, opt Options) error {
	p, v := newPage(opt), SummaryView{s, opt.Ceiling}
	p.wrapped(strings.Join(nonEmpty(textutil.Line(s.Run.Name), textutil.Line(s.Run.Dataset), textutil.Line(s.Run.Model), v.Planned()), " · "), 0, 2, p.bold)
	p.parts("system", v.system()...)
	p.parts("selected", textutil.Line(s.Run.Selection))
	for _, f := range v.Facts() {
		paint := map[string]func(string) string{"": p.faint, "warn": p.yellow, "bad": p.red}[f.State]
		p.parts(paint(f.Label), f.Parts...)
	}
	p.table(v.tables()...)
	p.warnings(s.Warnings, 0)
	p.where()
	return p.writeTo(w)
}

// Fact is a line about a run as a whole, or a tile on its page.
type Fact struct {
	Label string
	State string // "warn", "bad" or empty
	Parts []string
}

// Facts describes how a run went: items, time, cost.
func (v SummaryView) Facts() (list []Fact) {
	add := func(label, state string, parts ...string) {
		if parts = nonEmpty(parts...); len(parts) > 0 {
			list = append(list, Fact{label, state, parts})
		}
	}
	counted := func(n int, text string) string { return textIf(n > 0, textutil.Counted(n, v.Noun())+text) }
	if v.Status != outcome.Complete && v.Status != "" { // empty without a run
		add("status", "warn", textutil.Line(string(v.Status)), counted(v.Items.NotRun(), " not run"))
	}
	if a := v.Answers; a != nil {
		add("weighted", "", "weighted_score "+Score(a.WeightedScore, 4), labelledHash("document ", a.PDFSHA256), labelledHash("questions ", a.QuestionsSHA256))
	}
	i := v.Items
	add(v.Noun()+"s", textIf(i.Failed > 0, "bad"), Count(i.Planned)+" planned", Count(i.Scored)+" scored",
		Count(i.Failed)+" failed", Count(i.NothingToFind)+" with nothing to find",
		textIf(i.FromCache > 0, Count(i.FromCache)+" from the cache"), textIf(i.Retried > 0, Count(i.Retried)+" retried"))
	if l := v.LatencyMS; l != nil {
		add("latency", "", "p50 "+Milliseconds(l.P50), "p95 "+Milliseconds(l.P95), "mean "+Milliseconds(l.Mean), "max "+Milliseconds(l.Max))
	}
	u := v.Usage
	add("tokens", "", tokenParts(outcome.Usage{Input: u.Input, Output: u.Output, Cached: u.Cached, Reasoning: u.Reasoning})...)
	add("cost", "", v.cost()...)
	add("judging", "", judgingParts(v.Judging)...)
	if sent := v.Published; sent != nil {
		add("langfuse", textIf(sent.Waiting > 0, "warn"), textutil.Counted(sent.Outcomes, v.Noun())+" published",
			counted(sent.Waiting, " waiting to be published"))
	}
	for _, c := range v.Run.CustomScorers {
		if c.Certified != "" {
			terms := strings.Split(textutil.Line(c.Certified), "; ")
			add("evaluator", "", append([]string{textutil.Line(c.Name) + " is certified"}, terms...)...)
		}
	}
	return list
}

// labelledHash returns a label with the beginning of a hash or version.
func labelledHash(what, hash string) string {
	shown, _ := FirstRunes(textutil.Line(hash), 12)
	return textIf(shown != "", what+shown)
}

// Markdown writes the summary of each run, for the comment of a pull request: scores with
// intervals, failures, top causes, the folded breakdown by type, and the worst items.
func Markdown(w io.Writer, runs []Run) error {
	m := &markdown{}
	for _, r := range runs {
		m.summary(SummaryView{r.Summary, r.Ceiling})
	}
	return write(w, m.text.String())
}

func (m *markdown) summary(v SummaryView) {
	m.paragraph("## %s", code(v.Run.Name))
	m.paragraph("%s", code(strings.Join(v.About(), " · ")))
	for _, f := range v.Facts() {
		m.line("- %s: %s", f.Label, code(strings.Join(f.Parts, ", ")))
	}
	m.line("")
	if v.Answers != nil {
		m.paragraph("**weighted_score** %s", Score(v.WeightedScore, 4))
	}
	m.table(v.tables()...)
	m.warnings(v.Warnings)
	if link, ok := WebLink(v.Run.URL); ok {
		m.paragraph("[The run in Langfuse](<%s>)", link)
	}
}

// anyUnanswered reports whether an evaluator gave no score for some item.
func (v SummaryView) anyUnanswered() bool {
	return slices.ContainsFunc(v.Scores, func(s outcome.Stat) bool { return s.Unanswered > 0 })
}

// TrialTable has a row for each trial.
func (v SummaryView) TrialTable() Table {
	primary := label(v.Run.Primary)
	inLangfuse := slices.ContainsFunc(v.Trials.Runs, func(t outcome.Trial) bool { return t.Name != "" })
	names := textIf(!inLangfuse, hidden)
	t := Table{Title: "Trials", Columns: []Column{number("trial"),
		{Title: "run", Text: names, Markdown: names, Page: names, flex: true, key: true}, number("scored").wide(1), number("failed"),
		{Title: primary, Text: text.Snip(primary, 20, "…"), Markdown: code(primary), Right: true, Strong: true}}}
	t.note(v.Trials.Uneven > 0, textutil.Counted(v.Trials.Uneven, "item")+" not run in every trial")
	for _, run := range v.Trials.Runs {
		t.add(strconv.Itoa(run.Trial), textIf(run.Name != "", quoted(run.Name)), Count(run.Scored), Count(run.Failed), Score(run.Mean, 3))
	}
	return t
}

// SpreadTable shows how much each score varies between trials of the same configuration.
func (v SummaryView) SpreadTable() Table {
	t := Table{Title: "Variation between trials", Columns: []Column{name("score"),
		number("trials").wide(2).hint("least and largest mean of a trial"),
		number("sd of trials").strong().hint("standard deviation of the means of the trials"),
		number("sd within items").wide(1).hint("how much one item varies between its trials"), number("same in all trials")},
		Notes: []string{"failed trials" + textIf(v.anyUnanswered(), ", and those that an evaluator gave no score for,") +
			" count as 0 · an item's value is the mean over its trials · the difference of two trials has the sd of trials times √2"}}
	for _, s := range v.Trials.Scores {
		t.add(s.Name, minMax(s.Least, s.Top, 3), Score(s.Between, 3), Score(s.Within, 3),
			cmp.Or(textIf(s.N > 0, Count(s.Consistent)+"/"+Count(s.N)), none))
	}
	return t
}

// FlakyTable lists the items that vary most between trials.
func (v SummaryView) FlakyTable() Table {
	t := Table{Title: "Flaky by " + quoted(v.Run.Primary) + ": " + Count(v.Trials.Flaky) + " of " +
		textutil.Counted(v.Trials.Items, "item"), folded: true, Items: true,
		Columns: []Column{name("item"), number("least"), number("most"), number("mean").strong(), number("failed")}}
	for _, item := range v.Trials.FlakyItems {
		t.add(item.ID, ratio(item.Least), ratio(item.Top), ratio(item.Mean), Count(item.Failed)+"/"+Count(item.Trials))
	}
	more := v.Trials.Flaky - len(v.Trials.FlakyItems)
	t.More = textIf(more > 0, "and "+textutil.Counted(more, "more item"))
	return t
}
