package report

import (
	"strings"

	"extraction-experiment/compare"
)

// shownMatches is how many of the matches that only one side has are shown of an
// item.
const shownMatches = 8

// ChangeTable lists the items that changed most.
func (v ResultView) ChangeTable() Table {
	t := Table{Title: "Changed most by " + quoted(v.of.Metric), folded: true, Items: true, Columns: []Column{
		name("item"), number("base").wide(2), candidate().wide(1), diff(),
		{Markdown: "what changed", Page: "what changed", Below: true}}}
	for _, c := range v.Changed {
		state := compare.Better
		if (c.Delta < 0) != v.Primary().LowerIsBetter {
			state = compare.Worse
		}
		t.add(c.Item, Score(&c.Base, 3), Score(&c.Candidate, 3), Delta(&c.Delta), whatChanged(c)).State = string(state)
	}
	return t
}

// whatChanged explains an item in lines: why a side failed or what is said of its score,
// and what only one side matched.
func whatChanged(c compare.Change) string {
	var lines []string
	add := func(title string, words ...string) {
		var shown []string
		for _, word := range words[:min(len(words), shownMatches)] {
			shown = append(shown, quoted(word))
		}
		if more := len(words) - shownMatches; more > 0 {
			shown = append(shown, "and "+Count(more)+" more")
		}
		if len(words) > 0 && words[0] != "" {
			lines = append(lines, title+": "+strings.Join(shown, "; "))
		}
	}
	for _, side := range [][3]string{{"base", c.BaseComment, c.BaseFailure}, {"candidate", c.CandidateComment, c.CandidateFailure}} {
		if side[2] != "" {
			add(side[0]+" failed", side[2])
		} else {
			add(side[0], side[1])
		}
	}
	add("matched by the candidate only", c.Gained...)
	add("matched by the base only", c.Lost...)
	return strings.Join(lines, "\n")
}
