package report

import (
	"strconv"

	"github.com/jedib0t/go-pretty/v6/text"

	"extraction-experiment/internal/textutil"
)

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
