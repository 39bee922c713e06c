package report

import (
	"encoding/xml"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"extraction-experiment/compare"
	"extraction-experiment/outcome"
)

// Check is what a check of a change came to, as its comment tells it.
type Check struct {
	Name      string          // of the check
	Candidate outcome.Summary // empty where there is none
	Base      string          // how old the base is, and over what; "" without one
	// Comparison has one candidate; without it NotCompared says why, and Gate has the
	// rules about the candidate alone. Where NotJudged is set nothing was judged.
	Comparison  *compare.Comparison
	NotCompared string
	NotJudged   string
	Gate        *compare.GateResult
	LeftOut     []string // rules that need a base
	Links       []Link
	Details     bool // texts of matches, comments and messages are shown, too
}

// Link is an address of the comment. It is left out unless a browser may be sent there.
type Link struct{ Title, URL string }

// What a comment shows of each list.
const (
	commentItems = 5
	commentLines = 15 // of all others
)

// Comment writes the comment on a pull request: the verdict in the first line, gate, the
// scores that moved, the items that got worse, cost and time, links; what is long is folded.
// It ends with last, a marker, and is at most limit characters long: first the folded
// tables are left out, then lines at the end. Names and all other text of strangers are in
// code spans, so that nothing in them is a link, a mention, a tag or the end of a cell. Texts
// of documents and gold are shown with Details only: else ids, counts and scores.
func (c Check) Comment(last string, limit int) string {
	text := c.comment(true)
	if utf8.RuneCountInString(text+last)+1 > limit {
		text = c.comment(false)
	}
	return cutComment(text, last+"\n", limit)
}

// cutComment keeps the lines that fit.
func cutComment(text, last string, limit int) string {
	const cut = "\nThe rest is left out: the comment was too long.\n\n"
	room := limit - utf8.RuneCountInString(last)
	if utf8.RuneCountInString(text) <= room {
		return text + last
	}
	kept, _ := FirstRunes(text, room-len(cut))
	return kept[:strings.LastIndexByte(kept, '\n')+1] + cut + last
}

func (c Check) comment(folded bool) string {
	var view ResultView
	m := &markdown{}
	compared := c.Comparison != nil && len(c.Comparison.Candidates) == 1
	if compared {
		view = ComparisonView{*c.Comparison}.Results()[0]
		compared = len(view.Incompatible) == 0
	}
	m.paragraph("### %s", c.headline(view, compared))
	m.paragraph("Check %s%s", code(c.Name), c.sides())
	for _, mismatch := range view.Incompatible[:min(commentLines, len(view.Incompatible))] {
		m.line("- %s", code(mismatch.String()))
	}
	m.table(gateTable("", c.Gate).First(commentLines))
	for _, rule := range c.LeftOut[:min(commentLines, len(c.LeftOut))] {
		m.line("- %s needs a base: not judged", code(rule))
	}
	m.line("")
	if compared {
		c.changes(m, view)
	}
	var links []string
	for _, link := range c.Links {
		if address, ok := WebLink(link.URL); ok {
			links = append(links, fmt.Sprintf("[%s](<%s>)", link.Title, address))
		}
	}
	m.note(strings.Join(links, " · "))
	if compared && folded {
		scores := view.ScoreTable()
		scores.Title, scores.folded = "All scores", true
		m.table(scores)
		m.table(view.groupTables(mostTypes)...)
		if c.Details {
			m.table(view.ChangeTable())
		}
	}
	return m.text.String()
}

// headline is the verdict.
func (c Check) headline(view ResultView, compared bool) string {
	switch {
	case c.NotJudged != "":
		return "❌ not judged: " + code(c.NotJudged)
	case c.NotCompared != "":
		return "not compared: " + code(c.NotCompared)
	case !compared:
		return "❌ cannot be compared with the base"
	}
	return view.Says() + ": " + code(view.Primary().Name) + " " + view.change()
}

// sides says what was compared.
func (c Check) sides() string {
	name, about := c.Candidate.Run.Name, SummaryView{Summary: c.Candidate}.About()
	text := " · " + code(name) + " " + code(strings.Join(append(about, Count(c.Candidate.Items.Failed)+" failed"), " · "))
	return when(name != "", text) + when(c.Base != "", " · base "+code(c.Base))
}

// changes shows what is another than in the base.
func (c Check) changes(m *markdown, view ResultView) {
	table := view.ScoreTable()
	table.Title = "Scores that moved"
	var rows []Row
	for i, row := range table.Rows {
		if d := view.Scores[i].Difference; d != nil && *d != 0 && len(rows) < commentLines {
			rows = append(rows, row)
		}
	}
	table.Rows = rows
	changed := map[string]compare.Change{}
	for _, change := range view.Changed {
		changed[change.Item] = change
	}
	worse := Table{Title: Counted(view.Regressions, "item") + " got worse", Columns: []Column{name("item"),
		number("base"), number("candidate"), number("difference"), {Title: "what changed"}}}
	for _, item := range view.Regressed[:min(commentItems, len(view.Regressed))] {
		why := c.reason(view, changed[item.Item])
		worse.add(item.Item, Score(&item.Base, 3), Score(&item.Candidate, 3), Delta(&item.Delta), why)
	}
	cost := view.ConsumptionTable()
	cost.folded = false
	m.table(table, worse, cost)
	m.note(when(len(view.Warnings) > 0, "**Read with care**"))
	m.warnings(view.Warnings[:min(commentLines, len(view.Warnings))])
}

// reason says what changed in an item: counts and classes, texts with Details.
func (c Check) reason(view ResultView, change compare.Change) string {
	if c.Details {
		return view.whatChanged(change)
	}
	class, _, _ := strings.Cut(change.CandidateFailure, ":")
	return when(class != "", "failed: "+quoted(class)+" · ") +
		fmt.Sprintf("matches: %d lost, %d gained, %d kept", len(change.Lost), len(change.Gained), change.Kept)
}

// JUnit writes the check as a suite with a case for every rule, in the form that CI
// servers read; what was not judged is a failed case. The error is that of the writer.
func (c Check) JUnit(w io.Writer) error {
	var cases []xmlElement
	failures := 0
	add := func(name string, failed bool, kind, reason string) {
		test := element("testcase", "name", name, "classname", c.Name, "time", "0")
		if failed {
			failures++
			test.Parts = append(test.Parts, element("failure", "type", kind, "message", reason))
		}
		cases = append(cases, test)
	}
	add("judged", c.NotJudged != "", "not judged", c.NotJudged)
	if gate := c.Gate; gate != nil {
		open := gate.Inconclusive != compare.InconclusivePasses
		for _, r := range gate.Rules {
			failed := r.Answer == compare.Fail || r.Answer == compare.Inconclusive && open
			add(r.Rule, failed, string(r.Answer), r.Reason)
		}
	}
	suite := junitSuite(c.Name, len(cases), failures)
	suite.Parts = cases
	return writeJUnit(w, "experiment check", len(cases), failures, func(e *xml.Encoder) error { return e.Encode(suite) })
}
