package report

import (
	"fmt"
	"strings"

	"github.com/jedib0t/go-pretty/v6/text"

	"extraction-experiment/compare"
	"extraction-experiment/internal/textutil"
)

// shownMatches is how many of the matches that only one side has are shown of an
// item.
const shownMatches = 8

// changes lists the items that changed most, with what was matched before and
// after.
func (p *page) changes(r ResultView) {
	p.title("Changed most by " + label(r.of.Metric))
	for _, c := range r.Changed {
		lead := fmt.Sprintf("%s → %s  %s  ", Score(&c.Base, 3), Score(&c.Candidate, 3), Delta(&c.Delta))
		room := p.Width - 2 - text.StringWidthWithoutEscSequences(lead)
		p.line("  " + lead + p.bold(isolate(p.snip(label(c.Item), room))))
		for _, line := range ChangeLines(c) {
			words := textutil.Line(strings.Join(line.Words, "; "))
			if line.More > 0 {
				words += " and " + Count(line.More) + " more"
			}
			paint := map[string]func(string) string{"failed": p.red, "said": p.faint}[line.State]
			p.wrapped(line.Title+": "+words, 4, messageLines, paint)
		}
	}
}

// ChangeLine is why a side failed, what is said of its score, or what only it matched.
type ChangeLine struct {
	Title, State string // failed, said, gained or lost
	Words        []string
	More         int // words that are not shown
}

// ChangeLines explain an item that changed.
func ChangeLines(c compare.Change) (lines []ChangeLine) {
	add := func(title, state string, words ...string) {
		if len(words) > 0 && words[0] != "" {
			lines = append(lines, ChangeLine{title, state, words[:min(len(words), shownMatches)], max(0, len(words)-shownMatches)})
		}
	}
	for _, side := range [][3]string{{"base", c.BaseComment, c.BaseFailure}, {"candidate", c.CandidateComment, c.CandidateFailure}} {
		if side[2] != "" {
			add(side[0]+" failed", "failed", side[2])
		} else {
			add(side[0], "said", side[1])
		}
	}
	add("matched by the candidate only", "gained", c.Gained...)
	add("matched by the base only", "lost", c.Lost...)
	return lines
}

// changeTable is the table of the items that changed most, for Markdown.
func changeTable(list []compare.Change) Table {
	t := Table{Columns: []Column{{Title: "item", Name: true}, {Title: "base", Right: true}, {Title: "candidate", Right: true},
		{Title: "difference", Right: true}, {Title: "matched by the candidate only"}, {Title: "matched by the base only"}}}
	for _, c := range list {
		base, cand := Score(&c.Base, 3), Score(&c.Candidate, 3)
		if c.BaseFailure != "" {
			base = "failed: " + excerpt(c.BaseFailure)
		}
		if c.CandidateFailure != "" {
			cand = "failed: " + excerpt(c.CandidateFailure)
		}
		t.add(c.Item, base, cand, Delta(&c.Delta), firstMatches(c.Gained), firstMatches(c.Lost))
	}
	return t
}

// firstMatches are the first of those that only one side has, and how many more there are.
func firstMatches(list []string) string {
	var words []string
	for _, match := range list[:min(shownMatches, len(list))] {
		words = append(words, excerpt(match))
	}
	if more := len(list) - shownMatches; more > 0 {
		words = append(words, "and "+Count(more)+" more")
	}
	return strings.Join(words, ", ")
}
