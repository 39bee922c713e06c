package report

import (
	"encoding/xml"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"extraction-experiment/compare"
	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/textutil"
	"extraction-experiment/outcome"
)

// Check is the result of a check of a change, for the comment on its pull request.
type Check struct {
	Name      string          // of the check
	Candidate outcome.Summary // zero if there is no candidate
	Base      string          // describes age and extent of the base; empty without one
	Commit    string          // of the candidate in a CI job
	// Comparison has one candidate. Without it, NotCompared says why, and Gate holds the rules
	// about the candidate alone. If NotJudged is set, nothing was judged.
	Comparison  *compare.Comparison
	NotCompared string
	NotJudged   string
	RunFailed   string // why the check fails whatever was judged; empty if it need not
	Gate        *compare.GateResult
	LeftOut     []string // rules that need a base
	Links       []Link
	Details     bool // also show texts of matches, comments and messages
}

// Link is a link in the comment. It is left out unless WebLink accepts it.
type Link struct{ Title, URL string }

// Limits of the lists in a comment.
const (
	commentItems = 5
	commentLines = 15 // of all others
)

// Comment writes the comment on a pull request: the verdict in the first line, then the gate,
// the scores that moved, the items that got worse, cost and time, and links. Long tables are
// folded. The comment ends with the marker last and has at most limit characters: to fit,
// Comment leaves out the folded tables first, then lines at the end. Texts of documents and gold
// are shown only with Details.
func (c Check) Comment(last string, limit int) string {
	const cut = "\nThe rest is left out: the comment was too long.\n\n"
	last += "\n"
	room := limit - utf8.RuneCountInString(last)
	text := c.comment(true)
	if utf8.RuneCountInString(text) > room {
		text = c.comment(false)
	}
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
		view = Results(*c.Comparison)[0]
		compared = len(view.Incompatible) == 0
	}
	m.paragraph("### %s", c.headline(view, compared))
	m.paragraph("Check %s%s", code(c.Name), c.sides())
	m.note(textIf(c.RunFailed != "", "❌ "+code(c.RunFailed)))
	for _, line := range limitList(cli.Each(view.Incompatible, compare.Mismatch.String), commentLines, code) {
		m.line("- %s", line)
	}
	m.table(gateTable("", c.Gate).First(commentLines))
	for _, line := range limitList(c.LeftOut, commentLines, func(rule string) string { return code(rule) + " needs a base: not judged" }) {
		m.line("- %s", line)
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
		m.table(view.groupTables(maxTypes)...)
		if c.Details {
			m.table(view.ChangeTable())
		}
	}
	return m.text.String()
}

// headline returns the verdict.
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

// sides describes what was compared.
func (c Check) sides() string {
	name, about := c.Candidate.Run.Name, SummaryView{Summary: c.Candidate}.About()
	text := " · " + code(name) + " " + code(strings.Join(append(about, Count(c.Candidate.Items.Failed)+" failed"), " · "))
	base := c.Base
	if c.Comparison != nil {
		if system := systemOf(c.Comparison.Base.Summary); system != systemOf(c.Candidate) {
			base += textIf(system != "", ", of another system: "+system)
		}
	}
	return textIf(name != "", text) + textIf(base != "", " · base "+code(base)) +
		textIf(c.Commit != "", " · commit "+code(c.Commit[:min(12, len(c.Commit))]))
}

// systemOf describes the system of a run. The label of a prompt is not part of it.
func systemOf(s outcome.Summary) string {
	s.Run.PromptLabel = ""
	parts := append(nonEmpty(textutil.Line(s.Run.Model)), SummaryView{Summary: s}.system()...)
	return strings.Join(slices.Compact(parts), " · ")
}

// changes lists what differs from the base.
func (c Check) changes(m *markdown, view ResultView) {
	table := view.ScoreTable()
	table.Title = "Changed scores"
	var rows []Row
	for i, row := range table.Rows {
		if d := view.Scores[i].Difference; d != nil && *d != 0 {
			rows = append(rows, row)
		}
	}
	table.Rows = rows
	changed := map[string]compare.Change{}
	for _, change := range view.Changed {
		changed[change.Item] = change
	}
	worse := Table{Title: textutil.Counted(view.Regressions, "item") + " got worse", Columns: []Column{name("item"),
		number("base"), number("candidate"), number("difference"), {Title: "what changed"}}}
	for _, item := range view.Regressed[:min(commentItems, len(view.Regressed))] {
		why := c.reason(view, changed[item.Item])
		worse.add(item.Item, Score(&item.Base, 3), Score(&item.Candidate, 3), Delta(&item.Delta), why)
	}
	cost := view.ConsumptionTable()
	cost.folded = false
	m.table(table.First(commentLines), worse, cost)
	m.note(textIf(len(view.Warnings) > 0, "**Warnings**"))
	m.warnings(limitList(view.Warnings, commentLines, strings.Clone))
}

// reason describes what changed in an item: classes and counts, as far as they are known, and texts
// with Details.
func (c Check) reason(view ResultView, change compare.Change) string {
	if c.Details {
		return view.whatChanged(change)
	}
	class, _, _ := strings.Cut(change.CandidateFailure, ":")
	lost, gained, kept := len(change.Lost), len(change.Gained), change.Kept
	matches := fmt.Sprintf("matches: %d lost, %d gained, %d kept", lost, gained, kept)
	return strings.Join(nonEmpty(textIf(class != "", "failed: "+quoted(class)), textIf(lost+gained+kept > 0, matches)), " · ")
}

// JUnit writes the check as a test suite with a case for each rule. If nothing was judged, the
// suite has one failed case; if the run itself failed, it has one more. The error is that of w.
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
	if c.RunFailed != "" {
		add("run", true, "run", c.RunFailed)
	}
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
