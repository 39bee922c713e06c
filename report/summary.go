package report

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/jedib0t/go-pretty/v6/text"

	"extraction-experiment/compare"
	"extraction-experiment/internal/textutil"
	"extraction-experiment/outcome"
)

// SummaryView is what a run comes to, in the tables and words in which text,
// Markdown and pages show it.
type SummaryView struct {
	outcome.Summary
	Ceiling *Agreement // of people about the same items; nil where it is not known
}

// Planned counts items; trials are no more of them.
func (v SummaryView) Planned() string {
	if v.Trials == nil {
		return Counted(v.Items.Planned, "item")
	}
	return Counted(v.Items.Planned/max(1, v.Trials.Count), "item") + " × " + Counted(v.Trials.Count, "trial")
}

// Noun is that of what is counted: items, or outcomes where there are several
// trials.
func (v SummaryView) Noun() string {
	if v.Trials == nil {
		return "item"
	}
	return "outcome"
}

// About says what a run is: its dataset and model, and what was measured besides.
func (v SummaryView) About() []string {
	r := v.Run
	all := slices.Concat(given(textutil.Line(r.Dataset), textutil.Line(r.Model)), v.system(), given(textutil.Line(r.Selection), v.Planned()))
	return slices.Compact(all) // a baseline has the name of its provider
}

// Origin says when a run began, and of which versions scorer and dataset were.
func (v SummaryView) Origin() []string {
	started := ""
	if !v.Run.Started.IsZero() {
		started = v.Run.Started.UTC().Format("2006-01-02 15:04 UTC")
	}
	return given(started, short("scorer ", v.Run.ScorerVersion), short("dataset ", v.Run.DatasetFingerprint))
}

// system lists provider, parameters and prompt.
func (v SummaryView) system() []string {
	r, prompt := v.Run, ""
	if r.PromptName != "" {
		prompt = fmt.Sprintf("prompt %s@%d", textutil.Line(r.PromptName), r.PromptVersion)
		if r.PromptLabel != "" {
			prompt += " (" + textutil.Line(r.PromptLabel) + ")"
		}
	}
	return given(textutil.Line(r.Provider), textutil.Line(r.Pipeline), shownAs("temperature %g", r.Temperature), shownAs("top_p %g", r.TopP),
		shownAs("max_tokens %d", r.MaxTokens), shownAs("seed %d", r.Seed), prompt)
}

// shownAs writes a setting that was made; "" otherwise.
func shownAs[T any](format string, v *T) string {
	if v == nil {
		return ""
	}
	return fmt.Sprintf(format, *v)
}

// given are the parts that are not empty.
func given(parts ...string) []string {
	return slices.DeleteFunc(parts, func(s string) bool { return s == "" })
}

func tokenParts(u outcome.UsageSum) []string {
	if u.Total == 0 {
		return nil
	}
	parts := []string{Count(u.Input) + " in", Count(u.Output) + " out"}
	if u.Cached > 0 {
		parts = append(parts, Count(u.Cached)+" of them cached")
	}
	if u.Reasoning > 0 {
		parts = append(parts, Count(u.Reasoning)+" for reasoning")
	}
	return parts
}

// usageSum is the usage of one item as that of many.
func usageSum(u outcome.Usage) outcome.UsageSum {
	return outcome.UsageSum{Input: u.Input, Output: u.Output, Total: u.Total(), Cached: u.Cached, Reasoning: u.Reasoning}
}

// cost says what is known of it; nothing where nothing was bought.
func (v SummaryView) cost() []string {
	u := v.Usage
	var parts []string
	switch {
	case v.Run.RescoredFrom != "":
		return []string{"none: scored again, no model was asked for extractions"}
	case u.CostUSD == nil && u.Total == 0:
		return nil
	case u.CostUSD == nil:
		parts = []string{"unknown"}
	case u.CostUnknown > 0:
		parts = []string{"at least " + dollars(*u.CostUSD), "unknown for " + Counted(u.CostUnknown, "item")}
	default:
		parts = []string{dollars(*u.CostUSD)}
		if n := v.Items.Scored + v.Items.Failed; n > 0 && *u.CostUSD > 0 {
			per := dollars(*u.CostUSD/float64(n)) + " per item"
			if v.Trials != nil {
				per += " and trial"
			}
			parts = append(parts, per)
		}
	}
	if all := u.AllCostUSD; all != nil && (u.CostUSD == nil || *all != *u.CostUSD) {
		parts = append(parts, "newest attempts; "+dollars(*all)+" in all")
	}
	return parts
}

// judgingParts say what judging models took, which is no part of the cost; nothing
// without any.
func judgingParts(j *outcome.Judging) []string {
	if j == nil {
		return nil
	}
	parts := append([]string{Counted(j.Calls, "call") + " of judging models"}, tokenParts(usageSum(j.Usage))...)
	switch {
	case j.CostUSD == nil:
		return append(parts, "cost unknown")
	case j.CostUnknown > 0:
		return append(parts, "at least "+dollars(*j.CostUSD), "unknown for "+Counted(j.CostUnknown, "call"))
	}
	return append(parts, dollars(*j.CostUSD))
}

// ofScored is the title over means of items that did not fail.
const ofScored = "of scored"

// ScoreTable has a row for each score.
func (v SummaryView) ScoreTable() Table {
	only := func(shown bool) string { return map[bool]string{false: no}[shown] }
	mean, scored := number("mean").strong(), number(no).wide(2)
	if v.Scores.AnyFailed() {
		mean.Markdown, mean.Page, mean.Hint = "failed as 0", "failed as 0", "failed items count as 0"
		if slices.ContainsFunc(v.Scores, func(s outcome.Stat) bool { return s.Unanswered > 0 }) {
			mean.Hint += ", and those that an evaluator gave no score for"
		}
		scored.Text, scored.Title, scored.Hint = ofScored, "mean of scored", "the mean of the others, n of them"
	}
	pooled := slices.ContainsFunc(v.Scores, func(s outcome.Stat) bool { return s.Pooled != nil })
	people := only(v.Ceiling != nil)
	t := Table{Title: "Scores", Columns: []Column{name("score"), {Markdown: no, Page: no, cyan: true, Wide: 5}, mean, interval(), scored,
		{Title: "range", Markdown: no, Page: no, Right: true, Wide: 4}, number("n"),
		{Title: "pooled", Text: only(pooled), Right: true, Wide: 3, Hint: "over the counts of all scored items"},
		{Title: "human agreement", Text: people, Markdown: people, Page: people, Right: true}}}
	if v.Ceiling != nil {
		t.Notes = []string{v.Ceiling.what()}
	}
	for _, s := range v.Scores {
		mean, ci := v.Scores.Lead(s)
		row := t.add(s.Name, bar(mean, 24), Score(mean, 3), Interval(ci), Score(s.Mean, 3),
			span(s.Min, s.Max), Count(s.N), Score(s.Pooled, 3), v.people(s.Name))
		row.Primary = s.Name == v.Run.Primary
	}
	return t
}

// people is the agreement of people by a score, with the way to the farther end of its
// interval: the nearer one may be cut at a bound of the score.
func (v SummaryView) people(score string) string {
	stat := v.Ceiling.Stat(score)
	if stat.CI95 == nil {
		return Score(stat.Mean, 3)
	}
	return Score(stat.Mean, 3) + " ±" + ratio(max(stat.CI95[1]-*stat.Mean, *stat.Mean-stat.CI95[0]))
}

// Interval shows both ends.
func Interval(ci *[2]float64) string {
	if ci == nil {
		return none
	}
	return ends(Score(&ci[0], 3), Score(&ci[1], 3))
}

// span shows the least and the largest value.
func span(least, top *float64) string {
	if least == nil || top == nil {
		return none
	}
	return ends(Score(least, 2), Score(top, 2))
}

// ends joins two numbers with a dash; a minus sign would run into it.
func ends(from, to string) string {
	if strings.HasPrefix(to, "-") {
		return from + " to " + to
	}
	return from + "–" + to
}

// GroupTables break the counts down, a table for each kind of type.
func (v SummaryView) GroupTables() (tables []Table) {
	for _, list := range kinds(v.Groups, func(g outcome.GroupStat) string { return g.Kind }) {
		t := Table{Title: "By " + label(Words(list[0].Kind)), folded: true, Columns: []Column{name("type"), number("expected"),
			number("extracted").wide(2), number("matched").wide(1), number("P"), number("R"), number("F1").strong()}}
		for _, g := range list {
			t.add(g.Name, Count(g.Expected), Count(g.Extracted), Count(g.Matched), Score(g.Precision, 3), Score(g.Recall, 3), Score(g.F1, 3))
		}
		tables = append(tables, t)
	}
	if len(tables) > 0 && v.Trials != nil {
		tables[0].Notes = append(tables[0].Notes, "counts of all trials together")
	}
	if len(tables) > 0 && v.Items.Failed > 0 {
		tables[0].Notes = append(tables[0].Notes, "failed "+v.Noun()+"s have no counts by type")
	}
	return tables
}

// mostKinds is how many kinds of type are shown.
const mostKinds = 20

// kinds divides groups that are sorted by their kind into one list for each.
func kinds[G any](groups []G, kind func(G) string) (lists [][]G) {
	begin := 0
	for i := range groups {
		if i+1 == len(groups) || kind(groups[i+1]) != kind(groups[begin]) {
			lists = append(lists, groups[begin:i+1])
			begin = i + 1
		}
	}
	return lists[:min(len(lists), mostKinds)]
}

// failureTable lists the classes of failures, with the first items of each.
func (v SummaryView) failureTable() Table {
	t := Table{Title: "Failures", Columns: []Column{{Markdown: "class", Name: true, flex: true, Pill: true}, {Markdown: "failed", Right: true},
		{Markdown: "items", Below: true}}}
	for _, f := range v.Failures {
		var items []string
		for _, item := range f.Items {
			items = append(items, quoted(item.ID)+": "+quoted(item.Message))
		}
		if more := f.Count - len(f.Items); more > 0 && len(items) > 0 {
			items = append(items, "and "+Count(more)+" more")
		}
		t.add(string(f.Class), Count(f.Count), strings.Join(items, "\n")).State = string(compare.Fail)
	}
	return t
}

// causeTable lists what is wrong most often, with the items that have most of it.
func (v SummaryView) causeTable() Table {
	t := Table{Title: "Top causes", Columns: []Column{{Title: "cause", Name: true, flex: true}, {Title: "faults", Right: true, Strong: true},
		{Title: "items", Right: true}, {Title: "most in", flex: true, free: true, faint: true}}}
	for _, c := range v.Causes {
		var most []string
		for _, item := range c.Worst[:min(3, len(c.Worst))] {
			most = append(most, quoted(item.ID)+" "+Count(item.Count))
		}
		t.add(Words(c.What+" "+c.Name), Count(c.Count), Count(c.Items), strings.Join(most, ", "))
	}
	return t
}

func (v SummaryView) worstTable() Table {
	t := Table{Title: "Lowest " + quoted(v.Run.Primary), Columns: []Column{{Markdown: "item", Name: true, flex: true, key: true},
		{Markdown: "score", Right: true, Strong: true}, {Markdown: "comment", flex: true, free: true, faint: true}}}
	for _, item := range v.Worst {
		comment := ""
		if item.Comment != "" {
			comment = quoted(item.Comment)
		}
		t.add(item.ID, ratio(item.Score), comment).Trial = item.Trial
	}
	return t
}

// tables are those of a run in their order, of each kind of type so many rows.
func (v SummaryView) tables(groups int) []Table {
	list := []Table{v.ScoreTable()}
	if v.Trials != nil {
		list = append(list, v.TrialTable(), v.SpreadTable(), v.FlakyTable())
	}
	list = append(list, v.failureTable())
	for _, t := range v.GroupTables() {
		list = append(list, t.First(groups))
	}
	return append(list, v.causeTable(), v.worstTable())
}

// Text writes the summary of a run for a person at a terminal: the run, its
// scores, failures, time and cost, the breakdown by type, the top causes of
// faults, the worst items and where to look. Lines fit Options.Width: where the
// table of scores does not, it does without bars, ranges and pooled values. A summary without a run (of scored pairs, say) is
// shown without the lines that would be empty.
//
// It writes once; the error is that of the writer.
func Text(w io.Writer, s outcome.Summary, opt Options) error {
	p, v := newPage(opt), SummaryView{s, opt.Ceiling}
	p.wrapped(strings.Join(given(textutil.Line(s.Run.Name), textutil.Line(s.Run.Dataset), textutil.Line(s.Run.Model), v.Planned()), " · "), 0, 2, p.bold)
	p.parts("system", v.system()...)
	p.parts("selected", textutil.Line(s.Run.Selection))
	for _, f := range v.Facts() {
		paint := map[string]func(string) string{"": p.faint, "warn": p.yellow, "bad": p.red}[f.State]
		p.parts(paint(f.Label), f.Parts...)
	}
	for _, t := range v.tables(p.Groups) {
		p.table(t)
	}
	p.warnings("Read with care", s.Warnings, 0)
	p.where()
	return p.writeTo(w)
}

// Fact is a line about a run as a whole, or a tile of its page.
type Fact struct {
	Label string
	State string // "warn" or "bad", if it is not well
	Parts []string
}

// Facts say how a run went: how many items, how long, how much.
func (v SummaryView) Facts() (list []Fact) {
	add := func(label, state string, parts ...string) {
		if parts = given(parts...); len(parts) > 0 {
			list = append(list, Fact{label, state, parts})
		}
	}
	counted := func(n int, text string) string { return map[bool]string{true: Counted(n, v.Noun()) + text}[n > 0] }
	if v.Status != outcome.Complete && v.Status != "" { // what is no run has none
		add("status", "warn", textutil.Line(string(v.Status)), counted(v.Items.NotRun(), " not run"))
	}
	if a := v.Answers; a != nil {
		add("weighted", "", "weighted_score "+Score(a.WeightedScore, 4), short("document ", a.PDFSHA256), short("questions ", a.QuestionsSHA256))
	}
	i, state, cached := v.Items, "", ""
	if i.Failed > 0 {
		state = "bad"
	}
	if i.FromCache > 0 {
		cached = Count(i.FromCache) + " from the cache"
	}
	add(v.Noun()+"s", state, Count(i.Planned)+" planned", Count(i.Scored)+" scored", Count(i.Failed)+" failed",
		Count(i.NothingToFind)+" with nothing to find", cached)
	if l := v.LatencyMS; l != nil {
		add("latency", "", "p50 "+Milliseconds(l.P50), "p95 "+Milliseconds(l.P95), "mean "+Milliseconds(l.Mean), "max "+Milliseconds(l.Max))
	}
	add("tokens", "", tokenParts(v.Usage)...)
	add("cost", "", v.cost()...)
	add("judging", "", judgingParts(v.Judging)...)
	if sent := v.Published; sent != nil {
		state = map[bool]string{true: "warn"}[sent.Waiting > 0]
		add("langfuse", state, Counted(sent.Outcomes, v.Noun())+" published", counted(sent.Waiting, " waiting to be published"))
	}
	for _, c := range v.Run.CustomScorers {
		if c.Certified != "" {
			add("evaluator", "", textutil.Line(c.Name)+" is certified: "+textutil.Line(c.Certified))
		}
	}
	return list
}

// short is the beginning of a hash or a version, after what it is.
func short(what, hash string) string {
	shown, _ := FirstRunes(textutil.Line(hash), 12)
	return map[bool]string{true: what + shown}[shown != ""]
}

// Markdown writes the summary of each run, fit for the comment of a pull
// request: scores with intervals, failures, top causes, the breakdown by type
// folded away, and the worst items.
//
// Whatever strangers wrote stands in code spans: it cannot format, link, embed
// or call anybody by name. It writes once; the error is that of the writer.
func Markdown(w io.Writer, runs []Run) error {
	m := &markdown{}
	for _, r := range runs {
		m.summary(SummaryView{r.Summary, r.Ceiling})
	}
	return m.writeTo(w)
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
	m.table(v.tables(30)...)
	m.warnings(v.Warnings)
	if link, ok := WebLink(v.Run.URL); ok {
		m.paragraph("[The run in Langfuse](<%s>)", link)
	}
}

// TrialTable has a row for each trial.
func (v SummaryView) TrialTable() Table {
	primary := label(v.Run.Primary)
	t := Table{Title: "Trials", Columns: []Column{number("trial"), {Title: "run", flex: true, key: true}, number("scored").wide(1), number("failed"),
		{Title: primary, Text: text.Snip(primary, 20, "…"), Right: true, Strong: true}}}
	if uneven := v.Trials.Uneven; uneven > 0 {
		t.Notes = append(t.Notes, Counted(uneven, "item")+" not run in every trial")
	}
	for _, run := range v.Trials.Runs {
		t.add(strconv.Itoa(run.Trial), textutil.Line(run.Name), Count(run.Scored), Count(run.Failed), Score(run.Mean, 3))
	}
	return t
}

// SpreadTable says how much each score varies where nothing was changed.
func (v SummaryView) SpreadTable() Table {
	t := Table{Title: "Spread where nothing was changed", Columns: []Column{name("score"),
		number("trials").wide(2).hint("least and largest mean of a trial"),
		number("sd of trials").strong().hint("standard deviation of the means of the trials"),
		number("sd within items").wide(1).hint("how much one item varies between its trials"), number("items the same")},
		Notes: []string{"failed trials count as 0 · an item's value is the mean over its trials · the difference of two trials has the sd of trials times √2"}}
	for _, s := range v.Trials.Scores {
		means, same := none, none
		if s.Least != nil && s.Top != nil {
			means = ends(Score(s.Least, 3), Score(s.Top, 3))
		}
		if s.N > 0 {
			same = Count(s.Consistent) + "/" + Count(s.N)
		}
		t.add(s.Name, means, Score(s.Between, 3), Score(s.Within, 3), same)
	}
	return t
}

// FlakyTable lists the items that vary most between trials.
func (v SummaryView) FlakyTable() Table {
	t := Table{Title: "Flaky by " + quoted(v.Run.Primary) + ": " + Count(v.Trials.Flaky) + " of " +
		Counted(v.Trials.Items, "item"), folded: true, Items: true,
		Columns: []Column{name("item"), number("least"), number("most"), number("mean").strong(), number("failed")}}
	for _, item := range v.Trials.FlakyItems {
		t.add(item.ID, ratio(item.Least), ratio(item.Top), ratio(item.Mean), Count(item.Failed)+"/"+Count(item.Trials))
	}
	if more := v.Trials.Flaky - len(v.Trials.FlakyItems); more > 0 {
		t.More = "and " + Counted(more, "more item")
	}
	return t
}
