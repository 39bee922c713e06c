package report

import (
	"fmt"
	"io"
	"strings"

	"extraction-experiment/internal/textutil"
	"extraction-experiment/outcome"
)

// Agreement is how far two annotators, A and B, say the same of the same items; its
// JSON is what experiment agreement prints. Numbers are not rounded.
type Agreement struct {
	A string `json:"a"` // the files
	B string `json:"b"`
	// Scorer is how they were compared.
	Scorer outcome.Scorer `json:"scorer"`
	Items  int            `json:"items"` // that both have
	OnlyA  []string       `json:"only_a"`
	OnlyB  []string       `json:"only_b"`
	// Entities and relationships are compared in the items where both annotate them.
	OneEntities      int `json:"one_annotates_entities"` // items where one does, the other not
	OneRelationships int `json:"one_annotates_relationships"`

	// BAgainstA takes A for the expected and B for the extracted; AAgainstB is the reverse.
	BAgainstA Direction `json:"b_against_a"`
	AAgainstB Direction `json:"a_against_b"`
	// SameBothWays names the scores that should not depend on the direction and have
	// the same value both ways in every item; Directed says in how many items the
	// others have not.
	SameBothWays []string       `json:"same_both_ways"`
	Directed     map[string]int `json:"not_the_same"`
	Warnings     []string       `json:"warnings"`
}

// Direction is one side of an Agreement: means over items with intervals, values
// pooled over all counts, and counts by the types of the side that is expected.
type Direction struct {
	Scores outcome.Stats       `json:"scores"`
	Groups []outcome.GroupStat `json:"groups"`
}

// Stat is the score of B against A; without a value where it is not known.
func (a *Agreement) Stat(score string) outcome.Stat {
	if a == nil {
		return outcome.Stat{}
	}
	stat, _ := a.BAgainstA.Scores.Lookup(score)
	return stat
}

// what says whose agreement it is.
func (a *Agreement) what() string {
	return fmt.Sprintf("human agreement: %s against %s, mean over %s, 95 %% interval",
		textutil.Line(a.B), textutil.Line(a.A), Counted(a.Items, "item"))
}

// AgreementText writes an agreement for a person: which items were compared, every
// score in both directions, the counts by type, and what to read with care. Lines fit
// Options.Width. It writes once; the error is that of the writer.
func AgreementText(w io.Writer, a Agreement, opt Options) error {
	p := newPage(opt)
	p.wrapped("A "+textutil.Line(a.A)+" · B "+textutil.Line(a.B)+" · "+Counted(a.Items, "item")+" in both", 0, 2, p.bold)
	p.only("only in A", a.OnlyA)
	p.only("only in B", a.OnlyB)
	for _, family := range []struct {
		name, f1 string
		one      int
	}{{"entities", "entity_f1", a.OneEntities}, {"relations", "relationship_f1", a.OneRelationships}} {
		stat, _ := a.BAgainstA.Scores.Lookup(family.f1)
		parts := []string{"annotated by both in " + Counted(stat.N, "item")}
		if stat.Vacuous > 0 {
			parts = append(parts, "both empty in "+Count(stat.Vacuous))
		}
		if family.one > 0 {
			parts = append(parts, p.yellow("by one alone in "+Count(family.one)+", left out"))
		}
		p.parts(family.name, parts...)
	}
	p.table(a.scoreTable())
	types := SummaryView{Summary: outcome.Summary{Groups: a.BAgainstA.Groups}}
	for _, t := range types.GroupTables() {
		t.Notes = []string{"expected are those of A, extracted those of B"}
		p.table(t.First(p.Groups))
	}
	p.warnings("Read with care", a.Warnings, 0)
	return p.writeTo(w)
}

// only names the first items that one file alone has.
func (p *page) only(label string, ids []string) {
	if len(ids) == 0 {
		return
	}
	var names []string
	for _, id := range ids[:min(len(ids), 10)] {
		names = append(names, textutil.Line(id))
	}
	if more := len(ids) - len(names); more > 0 {
		names = append(names, "and "+Count(more)+" more")
	}
	p.parts(label, p.yellow(Counted(len(ids), "item")), strings.Join(names, ", "))
}

func (a Agreement) scoreTable() Table {
	t := Table{Title: "Scores", Notes: []string{
		"B against A: A is taken for the gold, precision is how much of B's A has, too, recall how much of A's B has; A against B is the reverse",
		"mean over items, an item where both are empty as 1 · pooled: over the counts of all items",
	}, Columns: []Column{name("score"), number("B against A").strong(), interval(), number("pooled").wide(2),
		number("A against B").strong(), interval(), number("pooled").wide(2), number("n").wide(3)}}
	if len(a.SameBothWays) > 0 {
		t.Notes = append(t.Notes, "the same both ways in every item: "+strings.Join(a.SameBothWays, ", "))
	}
	var directed []string
	for _, b := range a.BAgainstA.Scores {
		r, _ := a.AAgainstB.Scores.Lookup(b.Name)
		if n := a.Directed[b.Name]; n > 0 {
			directed = append(directed, fmt.Sprintf("%s (in %s)", b.Name, Counted(n, "item")))
		}
		t.add(b.Name, Score(b.Mean, 3), Interval(b.CI95), Score(b.Pooled, 3), Score(r.Mean, 3), Interval(r.CI95),
			Score(r.Pooled, 3), Count(b.N))
	}
	if len(directed) > 0 {
		t.Notes = append(t.Notes, "not the same both ways, as one has aliases, or types, that the other has not: "+strings.Join(directed, ", "))
	}
	return t
}
