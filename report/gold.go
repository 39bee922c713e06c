package report

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"extraction-experiment/compare"
	harness "extraction-experiment/harness/extraction"
	"extraction-experiment/internal/textutil"
	"extraction-experiment/outcome"
	"extraction-experiment/scoring"
)

// Agreement measures how far two annotators, A and B, agree about the same items. Its JSON form
// is the output of experiment agreement. Numbers are not rounded.
type Agreement struct {
	A string `json:"a"` // the files
	B string `json:"b"`
	// Scorer says how they were compared.
	Scorer outcome.Scorer `json:"scorer"`
	Items  int            `json:"items"` // in both files
	OnlyA  []string       `json:"only_a"`
	OnlyB  []string       `json:"only_b"`
	// Entities and relationships are compared in the items in which both annotate them.
	OneEntities      int `json:"one_annotates_entities"` // items in which only one does
	OneRelationships int `json:"one_annotates_relationships"`

	// BAgainstA scores B with A as the gold; AAgainstB is the reverse.
	BAgainstA Direction `json:"b_against_a"`
	AAgainstB Direction `json:"a_against_b"`
	// SameBothWays names the scores that do not depend on the direction and have the same value
	// both ways in every item. Directed gives for the other scores the number of items in which
	// they differ.
	SameBothWays []string       `json:"same_both_ways"`
	Directed     map[string]int `json:"not_the_same"`
	Warnings     []string       `json:"warnings"`
}

// Direction is one side of an Agreement: means over items with intervals, values pooled over all
// counts, and counts by type of the side that serves as gold.
type Direction struct {
	Scores outcome.Stats       `json:"scores"`
	Groups []outcome.GroupStat `json:"groups"`
}

// Stat returns a score of B against A; without a value if it is unknown.
func (a *Agreement) Stat(score string) outcome.Stat {
	if a == nil {
		return outcome.Stat{}
	}
	stat, _ := a.BAgainstA.Scores.Lookup(score)
	return stat
}

// what describes whose agreement it is.
func (a *Agreement) what() string {
	return fmt.Sprintf("human agreement: %s against %s, %s in both, mean and 95 %% interval",
		textutil.Line(a.B), textutil.Line(a.A), textutil.Counted(a.Items, "item"))
}

// AgreementText writes an agreement for a terminal: the compared items, every score in both
// directions, the counts by type, and warnings.
func AgreementText(w io.Writer, a Agreement, opt Options) error {
	p := newPage(opt)
	title := "A " + textutil.Line(a.A) + " · B " + textutil.Line(a.B)
	p.wrapped(title+" · "+textutil.Counted(a.Items, "item")+" in both", 0, 2, p.bold)
	p.only("only in A", a.OnlyA)
	p.only("only in B", a.OnlyB)
	for _, family := range []struct {
		name, f1 string
		one      int
	}{{"entities", "entity_f1", a.OneEntities}, {"relations", "relationship_f1", a.OneRelationships}} {
		stat, _ := a.BAgainstA.Scores.Lookup(family.f1)
		p.parts(family.name, "annotated by both in "+textutil.Counted(stat.N, "item"),
			textIf(stat.Vacuous > 0, "both empty in "+Count(stat.Vacuous)),
			textIf(family.one > 0, p.yellow("by one alone in "+Count(family.one)+", left out")))
	}
	p.table(a.scoreTable())
	types := SummaryView{Summary: outcome.Summary{Groups: a.BAgainstA.Groups}}
	for _, t := range types.GroupTables(maxTypes) {
		t.Notes = []string{"expected: A's; extracted: B's"}
		p.table(t)
	}
	p.warnings(a.Warnings, 0)
	return p.writeTo(w)
}

// only lists the first items that only one file has.
func (p *page) only(label string, ids []string) {
	if len(ids) > 0 {
		p.parts(label, p.yellow(textutil.Counted(len(ids), "item")), strings.Join(limitList(ids, 10, textutil.Line), ", "))
	}
}

func (a Agreement) scoreTable() Table {
	t := Table{Title: "Scores", Notes: []string{
		"B against A: A is the gold, precision is the share of B's that A has too, recall the share of A's that B has; A against B is the reverse",
		"mean over items, an item where both are empty as 1 · pooled: over the counts of all items",
	}, Columns: []Column{name("score"), number("B against A").strong(), interval(), number("pooled").wide(2),
		number("A against B").strong(), interval(), number("pooled").wide(2), number("n").wide(3)}}
	t.names("the same both ways in every item", a.SameBothWays)
	var directed []string
	for _, b := range a.BAgainstA.Scores {
		r, _ := a.AAgainstB.Scores.Lookup(b.Name)
		n := a.Directed[b.Name]
		text := fmt.Sprintf("%s (in %s)", b.Name, textutil.Counted(n, "item"))
		directed = append(directed, nonEmpty(textIf(n > 0, text))...)
		t.add(b.Name, Score(b.Mean, 3), Interval(b.CI95), Score(b.Pooled, 3), Score(r.Mean, 3), Interval(r.CI95),
			Score(r.Pooled, 3), strings.Join(slices.Compact([]string{Count(b.N), Count(r.N)}), " / "))
	}
	t.names("not the same both ways, since one has aliases, or types, that the other lacks", directed)
	return t
}

// Audit is the output of "experiment audit".
type Audit struct {
	Dataset string `json:"dataset"`
	harness.AuditResult
	// Outdated counts items that were left out because their document or gold in the dataset has changed
	// since the runs.
	Outdated int `json:"outdated"`
	// Judging is the result of --judge.
	Judging *Judging `json:"judging,omitempty"`
	// Queue is the result of --queue.
	Queue *Queued `json:"queue,omitempty"`
}

// Judging summarises what a model says about the findings.
type Judging struct {
	Model    string   `json:"model"`
	Wrong    int      `json:"gold_is_wrong"`
	Right    int      `json:"gold_is_right"`
	Unusable int      `json:"unusable"` // answers that could not be used
	CostUSD  *float64 `json:"cost_usd"` // nil if unknown
}

// Queued describes what was added to an annotation queue.
type Queued struct {
	Name    string `json:"name"`
	Created bool   `json:"created"`
	Run     string `json:"run"` // the run of the traces, or several with commas between them
	Added   int    `json:"added"`
	// Reopened counts completed traces with findings that were not there when they were completed.
	Reopened int `json:"reopened"`
	// Existing counts the other traces that were in the queue already, completed or not.
	Existing int `json:"there"`
	Failed   int `json:"failed"`
}

// AuditText writes an audit for a terminal: the systems and their reliability, the findings
// ordered by doubt, and the reason of each.
func AuditText(w io.Writer, a Audit, opt Options) error {
	p := newPage(opt)
	p.wrapped(fmt.Sprintf("%s · %s · %s", textutil.Line(a.Dataset), textutil.Counted(a.Items, "item"), textutil.Counted(a.Total, "finding")), 0, 2, p.bold)
	systems := Table{Title: "Systems", Columns: []Column{name("system"), number("finds"), number("shared errors").wide(3), number("type right").wide(1),
		number("rel. finds"), number("rel. shared errors").wide(4), number("rel. right").wide(2)}}
	for _, s := range a.Systems {
		e, r := s.Entities, s.Relationships
		systems.add(s.Name, rate(e.Found), rate(e.Shared), rate(e.Right), rate(r.Found), rate(r.Shared), rate(r.Right))
	}
	p.table(systems)
	p.notes(fmt.Sprintf("together they count for %s (entities) and %s (relationships) "+
		"of as many independent systems", rate(a.Weight.Entities), rate(a.Weight.Relationships)))
	p.title("Findings")
	for _, d := range a.Findings {
		p.heading()
		p.wrapped(fmt.Sprintf("%s  %s · %s · %s", rate(d.Doubt), d.Kind, textutil.Line(d.Item), d.Key), 0, 0, p.bold)
		p.wrapped(d.Change(), 6, 0, nil)
		p.wrapped(textutil.Line(d.Reason), 6, 0, p.faint)
		if j := d.Judged; j != nil {
			p.wrapped(textutil.Line(j.Model)+": "+j.Verdict()+": "+textutil.Line(j.Reason), 6, 0, nil)
		}
	}
	more := a.Total - len(a.Findings)
	p.notes(textIf(more > 0, textutil.Counted(more, "finding")+" with less doubt; --top shows more"))
	p.table(a.Moves())
	p.notes(textIf(a.Confirmed > 0, textutil.Counted(a.Confirmed, "finding")+" left out: people confirmed the gold"),
		textIf(a.Outdated > 0, textutil.Counted(a.Outdated, "item")+
			" left out: document or gold has changed in the dataset; "+
			"experiment rescore --dataset "+textutil.Line(a.Dataset)+"@now RUN… scores against it"),
		textIf(a.Skipped > 0, textutil.Counted(a.Skipped, "item")+" without gold, or without the output of two systems"))
	if j := a.Judging; j != nil {
		p.notes(fmt.Sprintf("%s: gold is wrong in %d, right in %d, no usable answer in %d; cost %s",
			textutil.Line(j.Model), j.Wrong, j.Right, j.Unusable, costParts(j.CostUSD, 0, "item")[0]))
	}
	if q := a.Queue; q != nil {
		p.notes(fmt.Sprintf("queue %s: %s%s added, %s%d there already, %d failed",
			textutil.Line(q.Name), textutil.Counted(q.Added, "trace"), textIf(q.Run != "", " of "+textutil.Line(q.Run)),
			textIf(q.Reopened > 0, fmt.Sprintf("%d with new findings opened again, ", q.Reopened)), q.Existing, q.Failed))
	}
	return p.writeTo(w)
}

// Moves shows how the mean of each run would change if all shown findings were right.
func (a Audit) Moves() Table {
	t := Table{Title: "If all of these were right", Columns: []Column{name("system"), number(scoring.EntityF1), number(scoring.RelationshipF1)}}
	for _, s := range a.Systems {
		if len(s.Moves) > 0 {
			t.add(s.Name, Delta(new(s.Moves[scoring.EntityF1])), Delta(new(s.Moves[scoring.RelationshipF1])))
		}
	}
	return t
}

func rate(v float64) string { return Score(&v, 2) }

// Regold is the result of scoring runs against other gold. Its JSON form is the output of
// experiment rescore --dataset NAME@now.
type Regold struct {
	Metric string                `json:"metric"`
	Runs   []compare.MovesResult `json:"runs"`
	Ranks  []RankShift           `json:"ranks"`
	// Verdicts and Gates compare with the first run.
	Verdicts []VerdictShift `json:"verdicts"`
	Gates    []GateShift    `json:"gates"`
}

// RankShift is the rank of a run by the mean of the metric, with failed items as 0.
type RankShift struct {
	Run        string   `json:"run"`
	Rescored   string   `json:"rescored"`
	Before     *float64 `json:"before"`
	After      *float64 `json:"after"`
	RankBefore int      `json:"rank_before"` // 0 without a mean
	RankAfter  int      `json:"rank_after"`
}

// VerdictShift is the verdict of a comparison before and after.
type VerdictShift struct {
	Base      string          `json:"base"`
	Candidate string          `json:"candidate"`
	Before    compare.Verdict `json:"before"`
	After     compare.Verdict `json:"after"`
	// Incomparable says that the runs could not be compared before.
	Incomparable bool `json:"incomparable_before"`
}

// GateShift is the answer of a rule before and after.
type GateShift struct {
	Candidate string         `json:"candidate"`
	Rule      string         `json:"rule"`
	Before    compare.Answer `json:"before"`
	After     compare.Answer `json:"after"`
}

// RegoldText writes the effects of other gold: ranks, verdicts, gates, and the scores and items
// that moved in each run.
func RegoldText(w io.Writer, r Regold, opt Options) error {
	p := newPage(opt)
	ranks := Table{Title: "Ranks by " + textutil.Line(r.Metric), Columns: []Column{name("run"), number("rank"),
		number("before"), number("after"), number("difference"), name("new run")}}
	for _, s := range r.Ranks {
		ranks.add(s.Run, beforeAfter(Count(s.RankBefore), Count(s.RankAfter)), Score(s.Before, 3), Score(s.After, 3), difference(s.Before, s.After), s.Rescored)
	}
	newTable := func(title, about string) Table {
		return Table{Title: title, Columns: []Column{name("candidate"), name(about), {Title: "says"}}}
	}
	verdicts, gates := newTable("Verdicts", "against"), newTable("Gates", "rule")
	for _, v := range r.Verdicts {
		before := cmp.Or(textIf(v.Incomparable, "not comparable"), string(v.Before))
		verdicts.add(v.Candidate, v.Base, beforeAfter(before, string(v.After)))
	}
	for _, g := range r.Gates {
		gates.add(g.Candidate, g.Rule, beforeAfter(string(g.Before), string(g.After)))
	}
	p.table(ranks, verdicts, gates)
	for _, m := range r.Runs {
		t := movedTable(m)
		t.Title += " · " + textutil.Line(m.From.Name)
		p.table(t)
	}
	p.notes("the new runs are in Langfuse once experiment publish RUN has sent each")
	return p.writeTo(w)
}

// beforeAfter joins two texts with an arrow; a single text if they are equal.
func beforeAfter(before, after string) string {
	return textIf(before != after, before+" → ") + after
}
