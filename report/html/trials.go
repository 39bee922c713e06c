package html

import (
	"fmt"

	"extraction-experiment/internal/printable"
	"extraction-experiment/outcome"
	"extraction-experiment/report"
)

// trialsPart is what the repetitions of a run say.
type trialsPart struct {
	Primary string
	Runs    []trialLine
	Uneven  string
	Spread  []spreadLine
	Flaky   string // how many items vary; empty for none
	Items   []flakyLine
	More    string
}

type trialLine struct{ Trial, Name, Scored, Failed, Mean string }

// spreadLine is how much one score varies.
type spreadLine struct{ Name, Means, Between, Within, Same string }

type flakyLine struct {
	itemLink
	Least, Top, Mean, Failed string
}

// newTrialsPart is nil for a run of one trial.
func newTrialsPart(s outcome.Summary) *trialsPart {
	t := s.Trials
	if t == nil {
		return nil
	}
	part := &trialsPart{Primary: named(s.Run.Primary)}
	for _, run := range t.Runs[:min(len(t.Runs), 10*mostLines)] {
		part.Runs = append(part.Runs, trialLine{fmt.Sprint(run.Trial), printable.Line(cutTo(run.Name, rowID)), report.FormatCount(run.Scored), report.FormatCount(run.Failed), report.FormatScore(run.Mean, 3)})
	}
	if t.Uneven > 0 {
		part.Uneven = report.FormatCounted(t.Uneven, "item") + " not run in every trial"
	}
	for _, score := range t.Scores[:min(len(t.Scores), mostLines)] {
		part.Spread = append(part.Spread, newSpreadLine(score))
	}
	if t.Flaky == 0 {
		return part
	}
	part.Flaky = report.FormatCount(t.Flaky) + " of " + report.FormatCounted(t.Items, "item")
	for _, item := range t.FlakyItems[:min(len(t.FlakyItems), mostLines)] {
		part.Items = append(part.Items, flakyLine{link(item.ID, 1), report.FormatScore(&item.Least, 3), report.FormatScore(&item.Top, 3), report.FormatScore(&item.Mean, 3),
			report.FormatCount(item.Failed) + "/" + report.FormatCount(item.Trials)})
	}
	if more := t.Flaky - len(part.Items); more > 0 {
		part.More = "and " + report.FormatCounted(more, "more item")
	}
	return part
}

func newSpreadLine(s outcome.Spread) spreadLine {
	means, same := report.FormatSpread(s)
	return spreadLine{Name: named(s.Name), Means: means, Between: report.FormatScore(s.Between, 3), Within: report.FormatScore(s.Within, 3), Same: same}
}
