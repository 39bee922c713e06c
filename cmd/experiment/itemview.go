package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"

	"extraction-experiment/extraction"
	"extraction-experiment/harness/answers"
	benches "extraction-experiment/harness/bench"
	harness "extraction-experiment/harness/extraction"
	"extraction-experiment/outcome"
	"extraction-experiment/report"
	"extraction-experiment/runstore"
	"extraction-experiment/scoring"
)

// newItemView puts together what is known of an item for a person to read.
// What cannot be decoded any more is left out: the raw values are in the
// outcome.
func newItemView(h outcome.Header, item runstore.Item, o outcome.Outcome) (report.ItemView, error) {
	if h.Harness == answers.Name {
		return newAnswerView(h, item, o)
	}
	if h.Harness == benches.Name {
		return newBenchView(h, item, o)
	}
	view := report.ItemView{Run: h.Name, Dataset: h.Dataset.Name, Outcome: o}
	if doc, _, err := extraction.DecodeDocument(item.Input); err == nil {
		view.Text = doc.Text
	}
	if gold, _, err := extraction.DecodeExtraction(item.Expected); err == nil && len(item.Expected) > 0 {
		view.Expected = &gold
	}
	if found, _, err := extraction.DecodeExtraction(o.Output); err == nil {
		view.Extracted = &found
	}
	if len(o.Explanation) == 0 {
		return view, nil
	}
	var why harness.Explanation
	if err := json.Unmarshal(o.Explanation, &why); err != nil {
		return view, fmt.Errorf("reading the matches of item %q: %w", item.ID, err)
	}
	for _, m := range why.Entities {
		view.Matches = append(view.Matches, entityMatch(m))
	}
	for _, m := range why.Relationships {
		view.Matches = append(view.Matches, relationshipMatch(m))
	}
	view.Missed = misses(why.MissedEntities, why.MissedRelationships)
	view.Spurious = misses(why.SpuriousEntities, why.SpuriousRelationships)
	for _, f := range why.Faults {
		view.Faults = append(view.Faults, report.Fault{
			Cause: string(f.Cause), What: f.What,
			Expected: shown(view.Expected, f.What, f.Expected), Extracted: shown(view.Extracted, f.What, f.Extracted),
			ExpectedIndex: f.Expected, ExtractedIndex: f.Extracted,
		})
	}
	return view, nil
}

func entityMatch(m scoring.EntityMatch) report.Match {
	match := report.Match{
		What: scoring.AnEntity, Kind: string(m.Kind), Similarity: m.Similarity,
		Expected: typed(m.Expected, m.ExpectedType), Extracted: typed(m.Extracted, m.ExtractedType),
		ExpectedIndex: m.ExpectedIndex, ExtractedIndex: m.ExtractedIndex,
	}
	if m.Type != scoring.TypeUnjudged {
		correct := m.Type == scoring.TypeCorrect
		match.TypeCorrect = &correct
	}
	return match
}

func relationshipMatch(m scoring.RelationshipMatch) report.Match {
	return report.Match{
		What: scoring.ARelationship, Kind: string(m.MatchType), Similarity: min(m.SourceSimilarity, m.TargetSimilarity),
		Expected: stated(m.Expected), Extracted: stated(m.Extracted),
		ExpectedIndex: m.ExpectedIndex, ExtractedIndex: m.ExtractedIndex,
	}
}

func misses(entities []scoring.EntityMiss, relationships []scoring.RelationshipMiss) []report.Miss {
	var list []report.Miss
	for _, m := range entities {
		miss := report.Miss{What: scoring.AnEntity, Index: m.Index, Value: typed(m.Name, m.Type), Reason: reason(m.Reason)}
		if n := m.Nearest; n != nil {
			miss.Nearest, miss.Similarity = typed(n.Name, n.Type), n.Similarity
		}
		list = append(list, miss)
	}
	for _, m := range relationships {
		miss := report.Miss{What: scoring.ARelationship, Index: m.Index, Value: stated(m.Statement), Reason: reason(m.Reason)}
		if n := m.Nearest; n != nil {
			miss.Nearest, miss.Similarity = stated(n.Statement), min(n.SourceSimilarity, n.TargetSimilarity)
		}
		list = append(list, miss)
	}
	return list
}

// shown is the thing at a place of a list, as a person reads it.
func shown(e *extraction.Extraction, what string, at *int) string {
	switch {
	case e == nil || at == nil || *at < 0:
		return ""
	case what == scoring.AnEntity && *at < len(e.Entities):
		return typed(e.Entities[*at].Name, e.Entities[*at].Type)
	case what == scoring.ARelationship && *at < len(e.Relationships):
		r := e.Relationships[*at]
		return stated(scoring.Statement{Source: cmp.Or(r.Source, r.SourceRef), Type: r.Type, Target: cmp.Or(r.Target, r.TargetRef)})
	}
	return ""
}

func reason(r scoring.Reason) string { return strings.ReplaceAll(string(r), "_", " ") }

func typed(name, kind string) string {
	if kind == "" {
		return name
	}
	return name + " (" + kind + ")"
}

func stated(s scoring.Statement) string { return s.Source + " – " + s.Type + " → " + s.Target }
