package report

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"extraction-experiment/outcome"
)

// Markdown writes the summary of each run, fit for the comment of a pull
// request: scores with intervals, failures, top causes, the breakdown by type
// folded away, and the worst items. Several runs are put side by side first.
//
// Whatever strangers wrote stands in code spans: it cannot format, link, embed
// or call anybody by name. It writes once; the error is that of the writer.
func Markdown(w io.Writer, runs []Run) error {
	m := &summaryPage{}
	if len(runs) > 1 {
		m.side(runs)
	}
	for _, r := range runs {
		m.run(r)
	}
	if _, err := io.WriteString(w, m.text.String()); err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	return nil
}

// summaryPage is such a page in the making.
type summaryPage struct{ markdown }

// side shows the primary scores of several runs.
func (m *summaryPage) side(runs []Run) {
	m.line("## " + counted(len(runs), "run"))
	m.line("")
	var rows [][]string
	for _, r := range runs {
		s := r.Summary
		row := []string{code(s.Run.Name), code(s.Run.Model), code(s.Run.Primary), none, none, none}
		if stat, ok := s.Scores.Lookup(s.Run.Primary); ok {
			row[3], row[4], row[5] = "**"+score(stat.FailuresAsZero, 3)+"**", interval(stat.CI95AsZero, nil, false), score(stat.Mean, 3)
		}
		cost := none
		if parts := costParts(s); len(parts) > 0 {
			cost = noMath(parts[0])
		}
		rows = append(rows, append(row, plannedItems(s), count(s.Items.Failed), cost))
	}
	m.table([]string{"run", "model", "score", "failed as 0:", "95 % interval:", "mean of scored:", "items:", "failed:", "cost:"}, rows)
}

func (m *summaryPage) run(r Run) {
	s := r.Summary
	m.line("## " + code(s.Run.Name))
	m.line("")
	what := []string{code(s.Run.Dataset), code(s.Run.Model)}
	if s.Run.PromptName != "" {
		what = append(what, "prompt "+code(fmt.Sprintf("%s@%d", s.Run.PromptName, s.Run.PromptVersion)))
	}
	items := plannedItems(s) + ", " + count(s.Items.Failed) + " failed"
	if n := s.Items.NotRun(); n > 0 {
		items += ", **" + count(n) + " not run**"
	}
	if cost := costParts(s); len(cost) > 0 {
		what = append(what, noMath(strings.Join(cost, ", ")))
	}
	if judging := judgingParts(s.Judging); len(judging) > 0 {
		items += " · judging: " + noMath(strings.Join(judging, ", "))
	}
	m.line(strings.Join(append(what, items), " · "))
	m.line("")
	if s.Answers != nil {
		m.line("**weighted_score** " + score(s.WeightedScore, 4))
		m.line("")
	}
	m.scores(s)
	m.trials(s)
	m.failures(s)
	m.causes(s.Causes)
	m.groups(s.Groups)
	if note := groupNote(s); note != "" {
		m.line(note)
		m.line("")
	}
	m.worst(s)
	for _, warning := range s.Warnings {
		m.line("> ⚠ " + code(warning))
		m.line(">")
	}
	if link, ok := webLink(s.Run.URL); ok {
		m.line("[The run in Langfuse](<" + link + ">)")
		m.line("")
	}
}

func (m *summaryPage) scores(s outcome.Summary) {
	titles := []string{"score", "mean:", "95 % interval:", "n:", "pooled:"}
	failed := s.Scores.AnyFailed()
	if failed {
		titles = slices.Insert(titles, 3, "mean of scored:")
		titles[1] = "failed as 0:"
	}
	var rows [][]string
	for _, stat := range s.Scores {
		mean, ci := s.Scores.Lead(stat)
		row := []string{code(stat.Name), score(mean, 3), interval(ci, nil, false), count(stat.N), score(stat.Pooled, 3)}
		if stat.Name == s.Run.Primary {
			row[0], row[1] = "**"+row[0]+"**", "**"+row[1]+"**"
		}
		if failed {
			row = slices.Insert(row, 3, score(stat.Mean, 3))
		}
		rows = append(rows, row)
	}
	if len(rows) > 0 {
		m.table(titles, rows)
	}
}

// trials says how much the scores vary where nothing was changed, and which items
// vary most.
func (m *summaryPage) trials(s outcome.Summary) {
	t := s.Trials
	if t == nil {
		return
	}
	var rows [][]string
	for _, v := range t.Scores {
		means, same := spreadParts(v)
		rows = append(rows, []string{code(v.Name), means, score(v.Between, 3), score(v.Within, 3), same})
	}
	m.line("### Spread over " + counted(t.Count, "trial"))
	m.line("")
	m.table([]string{"score", "trials:", "sd of trials:", "sd within items:", "items the same:"}, rows)
	if t.Flaky == 0 {
		return
	}
	rows = nil
	for _, item := range t.FlakyItems {
		rows = append(rows, []string{code(item.ID), ratio(item.Least), ratio(item.Top), ratio(item.Mean), count(item.Failed) + "/" + count(item.Trials)})
	}
	m.folded(fmt.Sprintf("Flaky: %s of %s", count(t.Flaky), counted(t.Items, "item")), func() {
		m.table([]string{"item", "least:", "most:", "mean:", "failed:"}, rows)
	})
}

func (m *summaryPage) failures(s outcome.Summary) {
	if len(s.Failures) == 0 {
		return
	}
	m.line("### " + counted(s.Items.Failed, "failed "+outcomes(s)))
	m.line("")
	for _, f := range s.Failures {
		m.line("- **" + code(string(f.Class)) + "** " + count(f.Count))
		for _, item := range f.Items {
			m.line("  - " + code(item.ID) + ": " + code(snip(item.Message, 300)))
		}
	}
	m.line("")
}

func (m *summaryPage) causes(causes []outcome.CauseCount) {
	if len(causes) == 0 {
		return
	}
	m.line("### Top causes")
	m.line("")
	var rows [][]string
	for _, c := range causes {
		var items []string
		for _, item := range c.Worst[:min(3, len(c.Worst))] {
			items = append(items, code(item.ID)+" "+count(item.Count))
		}
		rows = append(rows, []string{code(plainWords(c.What + " " + c.Name)), count(c.Count), count(c.Items), strings.Join(items, ", ")})
	}
	m.table([]string{"cause", "faults:", "items:", "most in"}, rows)
}

func (m *summaryPage) groups(groups []outcome.GroupStat) {
	const most = 30
	for _, list := range Kinds(groups, func(g outcome.GroupStat) string { return g.Kind }) {
		var rows [][]string
		for _, g := range list[:min(len(list), most)] {
			rows = append(rows, []string{code(g.Name), count(g.Expected), count(g.Extracted), count(g.Matched), score(g.Precision, 3), score(g.Recall, 3), score(g.F1, 3)})
		}
		m.folded("By "+plainWords(list[0].Kind)+" ("+count(len(list))+")", func() {
			m.table([]string{"type", "expected:", "extracted:", "matched:", "P:", "R:", "F1:"}, rows)
			if more := len(list) - most; more > 0 {
				m.line("and " + counted(more, "more type"))
				m.line("")
			}
		})
	}
}

func (m *summaryPage) worst(s outcome.Summary) {
	if len(s.Worst) == 0 {
		return
	}
	m.line("### Lowest " + code(s.Run.Primary))
	m.line("")
	var rows [][]string
	for _, item := range s.Worst {
		id := code(item.ID)
		if item.Trial > 0 {
			id += fmt.Sprintf(" #%d", item.Trial)
		}
		rows = append(rows, []string{id, ratio(item.Score), code(item.Comment)})
	}
	m.table([]string{"item", "score:", ""}, rows)
}

// noMath keeps two amounts of money from being read as a formula between them.
func noMath(s string) string { return strings.ReplaceAll(s, "$", `\$`) }
