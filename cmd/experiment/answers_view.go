package main

import (
	"encoding/json"
	"fmt"
	"strings"

	"extraction-experiment/harness/answers"
	"extraction-experiment/outcome"
	"extraction-experiment/report"
	"extraction-experiment/runstore"
)

// newAnswerView shows a question with its answer and the passages that were
// searched in the place of a document, the terms that were found, those that were
// not, and the forbidden ones.
func newAnswerView(h outcome.Header, item runstore.Item, o outcome.Outcome) (report.ItemView, error) {
	view := report.ItemView{Run: h.Name, Dataset: h.Dataset.Name, Outcome: o}
	if question, err := answers.DecodeInput(item.Input); err == nil {
		view.Text = question
		view.Sections = append(view.Sections, report.Section{Title: "Question", Text: question})
	}
	var output answers.Output
	if json.Unmarshal(o.Output, &output) == nil && output.Answer != "" {
		view.Text += "\n\n" + output.Answer
		view.Sections = append(view.Sections, report.Section{Title: "Answer", Text: output.Answer})
	}
	if found := answers.Passages(o.Calls); len(found) > 0 {
		var passages []string
		for _, p := range found {
			passages = append(passages, fmt.Sprintf("page %d (%.2f): %s", p.Page, p.Score, p.Text))
		}
		view.Sections = append(view.Sections, report.Section{Title: "Passages", Text: strings.Join(passages, "\n\n")})
	}
	if len(o.Explanation) == 0 {
		return view, nil
	}
	var why answers.Explanation
	if err := json.Unmarshal(o.Explanation, &why); err != nil {
		return view, fmt.Errorf("reading the terms found in item %q: %w", item.ID, err)
	}
	for i, group := range why.Groups {
		terms := strings.Join(group.Terms, " | ")
		if group.Hit == nil {
			view.Missed = append(view.Missed, report.Miss{What: "term", Index: i, Value: terms, Reason: "not in the answer"})
			continue
		}
		view.Matches = append(view.Matches, report.Match{
			What: "term", Kind: strings.ReplaceAll(group.From, "_", " "), Similarity: 1, Expected: terms, Extracted: "…" + group.Hit.Context + "…",
			ExpectedIndex: i, ExtractedIndex: i,
		})
	}
	for i, hit := range why.Forbidden {
		view.Spurious = append(view.Spurious, report.Miss{What: "term", Index: len(why.Groups) + i, Value: hit.Term, Reason: "forbidden, at character " + fmt.Sprint(hit.At)})
	}
	if why.CitationRequired && len(why.Citations) == 0 {
		view.Missed = append(view.Missed, report.Miss{What: "citation", Index: len(why.Groups), Value: "стр. N", Reason: "the answer cites no page"})
	}
	return view, nil
}

// foundTerms lists what an explanation of an answer says was found; ok is false
// for that of another harness.
func foundTerms(explanation json.RawMessage) (lines []string, ok bool) {
	var why struct {
		Groups *[]answers.GroupHit `json:"groups"`
	}
	if err := json.Unmarshal(explanation, &why); err != nil || why.Groups == nil {
		return nil, false
	}
	for _, group := range *why.Groups {
		if group.Hit != nil {
			lines = append(lines, strings.Join(group.Terms, " | "))
		}
	}
	return lines, true
}
