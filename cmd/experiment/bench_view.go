package main

import (
	"fmt"

	"extraction-experiment/extraction"
	benches "extraction-experiment/harness/bench"
	"extraction-experiment/outcome"
	"extraction-experiment/report"
	"extraction-experiment/runstore"
	"extraction-experiment/scoring"
)

// newBenchView shows a case of the bench: its document, the records with their
// quotes and places, what is wrong with them, and the gold spans that no record
// quotes.
func newBenchView(h outcome.Header, item runstore.Item, o outcome.Outcome) (report.ItemView, error) {
	view := report.ItemView{Run: h.Name, Dataset: h.Dataset.Name, Outcome: o}
	seen, err := benches.See(item.Input, item.Expected, o.Output)
	if err != nil {
		return view, fmt.Errorf("reading case %q: %w", item.ID, err)
	}
	view.Text = seen.DocumentText
	if seen.Gold != nil {
		view.Expected = &extraction.Extraction{Entities: seen.Gold}
	}
	if len(o.Output) > 0 {
		view.Extracted = &extraction.Extraction{Entities: seen.Extracted}
	}
	for _, r := range seen.Quoted {
		match := report.Match{What: "record", Kind: "quoted", Similarity: 1, Expected: r.Text, Extracted: r.Text, ExpectedIndex: -1, ExtractedIndex: r.Index}
		if r.Gold >= 0 {
			match.What, match.Kind, match.ExpectedIndex = scoring.AnEntity, "gold span", r.Gold
		}
		view.Matches = append(view.Matches, match)
	}
	for _, r := range seen.Missed {
		view.Missed = append(view.Missed, report.Miss{What: scoring.AnEntity, Index: r.Index, Value: r.Text, Reason: "no record quotes it there"})
	}
	for _, r := range seen.Faulty {
		view.Spurious = append(view.Spurious, report.Miss{What: scoring.AnEntity, Index: r.Index, Value: r.Text, Reason: r.Why})
	}
	return view, nil
}
