package runs

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	benches "extraction-experiment/bench"
	"extraction-experiment/compare"
	"extraction-experiment/experiment"
	"extraction-experiment/extraction"
	"extraction-experiment/harness/answers"
	harness "extraction-experiment/harness/extraction"
	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/stats"
	"extraction-experiment/internal/textutil"
	"extraction-experiment/outcome"
	"extraction-experiment/report"
	"extraction-experiment/report/html"
	"extraction-experiment/runstore"
	"extraction-experiment/scoring"
)

// Whole returns a run for a report. documents selects items with documents, matches and
// misses; without them it takes a third of the time. The report reads the items while it is
// written, so the run must stay open.
func Whole(ctx context.Context, run *runstore.Reader, documents bool) (report.Run, error) {
	header, err := run.Header(ctx)
	if err != nil {
		return report.Run{}, err
	}
	summary, err := Summarise(ctx, run)
	if err != nil {
		return report.Run{}, err
	}
	var decoder extraction.Decoder
	view := func(o outcome.Outcome) (*report.ItemView, error) {
		if !documents {
			return &report.ItemView{Run: header.Name, Dataset: header.Dataset.Name, Outcome: o}, nil
		}
		item, err := run.Item(ctx, o.Item)
		if err != nil {
			return nil, err
		}
		view, err := itemView(&decoder, header, item, o)
		return &view, err
	}
	outcomes := run.Outcomes(ctx, runstore.Query{Newest: true, Depth: runstore.Full})
	return report.Run{Summary: summary, Items: stats.Parallel(0, outcomes, view)}, nil
}

// Item returns the view of one item in a trial, with its newest attempt. If the run has no
// such item, the error suggests similar ids.
func Item(ctx context.Context, run *runstore.Reader, id string, trial int) (report.ItemView, error) {
	header, err := run.Header(ctx)
	if err != nil {
		return report.ItemView{}, err
	}
	if most := max(1, header.Trials); trial < 1 || trial > most {
		return report.ItemView{}, cli.Usage("there is no trial %d: the run has %s", trial, textutil.Counted(most, "trial"))
	}
	item, err := run.Item(ctx, id)
	if errors.Is(err, runstore.ErrUnknown) {
		return report.ItemView{}, cli.Usage("the run has no item %q%s", id, nearestItem(ctx, run, id))
	}
	if err != nil {
		return report.ItemView{}, err
	}
	found := outcome.Outcome{Item: id, Trial: trial}
	for found, err = range run.Outcomes(ctx, runstore.Query{Newest: true, Depth: runstore.Full, Item: id, Trial: trial}) {
		if err != nil {
			return report.ItemView{}, err
		}
	}
	return itemView(new(extraction.Decoder), header, item, found)
}

// nearestItem returns a hint with ids that are similar to a mistyped one. It looks at 10,000
// items at most.
func nearestItem(ctx context.Context, run *runstore.Reader, id string) string {
	var ids []string
	for item, err := range run.Hashes(ctx) {
		if err != nil || len(ids) == 10_000 {
			break
		}
		ids = append(ids, item.ID)
	}
	return textutil.Hint(id, ids)
}

// itemView returns the view of an item for a report. It leaves out documents and extractions
// that cannot be decoded; their raw values are in the outcome.
func itemView(in *extraction.Decoder, h outcome.Header, item runstore.Item, o outcome.Outcome) (report.ItemView, error) {
	view := report.ItemView{Run: h.Name, Dataset: h.Dataset.Name, Outcome: o}
	switch h.Harness {
	case answers.Name:
		return newAnswerView(view, item)
	case benches.Name:
		return newBenchView(view, item)
	}
	if doc, _, err := in.Document(item.Input); err == nil {
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
	var why scoring.Explanation
	if err := json.Unmarshal(o.Explanation, &why); err != nil {
		return view, fmt.Errorf("reading the matches of item %q: %w", item.ID, err)
	}
	view.Matches = append(cli.Each(why.Entities, entityMatch), cli.Each(why.Relationships, relationshipMatch)...)
	view.Missed = append(cli.Each(why.MissedEntities, entityMiss), cli.Each(why.MissedRelationships, relationshipMiss)...)
	view.Spurious = append(cli.Each(why.SpuriousEntities, entityMiss),
		cli.Each(why.SpuriousRelationships, relationshipMiss)...)
	for _, f := range why.Faults {
		view.Faults = append(view.Faults, report.Fault{
			Cause: string(f.Cause), What: f.What,
			Expected:      elementText(view.Expected, f.What, f.Expected),
			Extracted:     elementText(view.Extracted, f.What, f.Extracted),
			ExpectedIndex: f.Expected, ExtractedIndex: f.Extracted,
		})
	}
	return view, nil
}

func entityMatch(m scoring.EntityMatch) report.Match {
	match := report.Match{
		What: scoring.FaultEntity, Kind: string(m.Kind), Similarity: m.Similarity,
		Expected: entityText(m.Expected, m.ExpectedType), Extracted: entityText(m.Extracted, m.ExtractedType),
		ExpectedIndex: m.ExpectedIndex, ExtractedIndex: m.ExtractedIndex,
	}
	if m.Type != scoring.TypeUnjudged {
		match.TypeCorrect = new(m.Type == scoring.TypeCorrect)
	}
	return match
}

func relationshipMatch(m scoring.RelationshipMatch) report.Match {
	return report.Match{
		What: scoring.FaultRelationship, Kind: string(m.MatchType), Similarity: min(m.SourceSimilarity, m.TargetSimilarity),
		Expected: statementText(m.Expected), Extracted: statementText(m.Extracted),
		ExpectedIndex: m.ExpectedIndex, ExtractedIndex: m.ExtractedIndex,
	}
}

func entityMiss(m scoring.EntityMiss) report.Miss {
	miss := report.Miss{What: scoring.FaultEntity, Index: m.Index, Value: entityText(m.Name, m.Type),
		Reason: reason(m.Reason)}
	if n := m.Nearest; n != nil {
		miss.Nearest, miss.Similarity = entityText(n.Name, n.Type), n.Similarity
	}
	return miss
}

func relationshipMiss(m scoring.RelationshipMiss) report.Miss {
	miss := report.Miss{What: scoring.FaultRelationship, Index: m.Index, Value: statementText(m.Statement),
		Reason: reason(m.Reason)}
	if n := m.Nearest; n != nil {
		miss.Nearest, miss.Similarity = statementText(n.Statement), min(n.SourceSimilarity, n.TargetSimilarity)
	}
	return miss
}

// elementText formats the entity or relationship at an index, depending on what; "" if there
// is none.
func elementText(e *extraction.Extraction, what string, index *int) string {
	switch {
	case e == nil || index == nil || *index < 0:
		return ""
	case what == scoring.FaultEntity && *index < len(e.Entities):
		return entityText(e.Entities[*index].Name, e.Entities[*index].Type)
	case what == scoring.FaultRelationship && *index < len(e.Relationships):
		r := e.Relationships[*index]
		return statementText(scoring.Statement{Source: cmp.Or(r.Source, r.SourceRef), Type: r.Type, Target: cmp.Or(r.Target, r.TargetRef)})
	}
	return ""
}

func reason(r scoring.Reason) string { return strings.ReplaceAll(string(r), "_", " ") }

func entityText(name, kind string) string {
	if kind == "" {
		return name
	}
	return name + " (" + kind + ")"
}

func statementText(s scoring.Statement) string {
	return s.Source + " – " + s.Type + " → " + s.Target
}

// newBenchView completes the view of a case of the bench: its document, the records with
// their quotes, places and faults, and the gold spans that no record quotes.
func newBenchView(view report.ItemView, item runstore.Item) (report.ItemView, error) {
	output := view.Outcome.Output
	seen, err := benches.DecodeItem(item.Input, item.Expected, output)
	if err != nil {
		return view, fmt.Errorf("reading case %q: %w", item.ID, err)
	}
	view.Text = seen.DocumentText
	if len(output) > 0 {
		view.Extracted = &extraction.Extraction{}
	}
	for i, r := range seen.Records {
		view.Extracted.Entities = append(view.Extracted.Entities, recordEntity(r))
		if why := r.Fault(); why != "" {
			view.Spurious = append(view.Spurious, report.Miss{What: scoring.FaultEntity, Index: i, Value: r.String(), Reason: why})
			continue
		}
		match := report.Match{What: "record", Kind: "quoted", Similarity: 1, Expected: r.String(), Extracted: r.String(), ExpectedIndex: -1, ExtractedIndex: i}
		if span := slices.Index(seen.Covered, i); span >= 0 {
			match.What, match.Kind, match.ExpectedIndex = scoring.FaultEntity, "gold span", span
		}
		view.Matches = append(view.Matches, match)
	}
	for i, span := range seen.Gold {
		if view.Expected == nil {
			view.Expected = &extraction.Extraction{}
		}
		view.Expected.Entities = append(view.Expected.Entities, recordEntity(span))
		if seen.Covered[i] < 0 {
			view.Missed = append(view.Missed, report.Miss{What: scoring.FaultEntity, Index: i, Value: span.String(), Reason: "no record quotes it there"})
		}
	}
	return view, nil
}

// recordEntity converts a record to an entity: its quote is the name, its class the type,
// and its span of the document the mention.
func recordEntity(r benches.Record) extraction.Entity {
	e := extraction.Entity{Name: r.Quote, Type: r.Class}
	if r.Spans != nil {
		e.Mentions = []extraction.Span{{Start: r.Spans.Rune[0], End: r.Spans.Rune[1]}}
	}
	return e
}

// newAnswerView completes the view of a question: the question with its answer as the text,
// the passages that the model got, and the found, the missing and the forbidden terms.
func newAnswerView(view report.ItemView, item runstore.Item) (report.ItemView, error) {
	o := view.Outcome
	section := func(title, text string) {
		if text != "" {
			view.Sections = append(view.Sections, report.Section{Title: title, Text: text})
		}
	}
	if question, err := answers.DecodeInput(item.Input); err == nil {
		view.Text = question
		section("Question", question)
	}
	var output answers.Answer
	if json.Unmarshal(o.Output, &output) == nil && output.Text != "" {
		view.Text += "\n\n" + output.Text
		section("Answer", output.Text)
	}
	passages := cli.Each(answers.Passages(o.Calls), func(p answers.Found) string {
		return fmt.Sprintf("page %d (%.2f): %s", p.Page, p.Score, p.Text)
	})
	section("Passages", strings.Join(passages, "\n\n"))
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
	if n := len(why.Groups); why.CitationRequired && len(why.Citations) == 0 {
		view.Missed = append(view.Missed, report.Miss{What: "citation", Index: n, Value: "стр. N", Reason: "the answer cites no page"})
	} else if why.CitationRequired {
		view.Matches = append(view.Matches, report.Match{What: "citation", Kind: "citation", Similarity: 1, Expected: "стр. N", Extracted: "a page is cited",
			ExpectedIndex: n, ExtractedIndex: n})
	}
	return view, nil
}

// Summarise returns the summary of a stored run, with warnings about its document.
func Summarise(ctx context.Context, run *runstore.Reader) (outcome.Summary, error) {
	s, err := experiment.Summarise(ctx, run, ScoreOrder(), runstore.Brief)
	if err != nil {
		return s, err
	}
	header, err := run.Header(ctx)
	s.Warnings = append(s.Warnings, answers.DocumentWarnings(header)...)
	return s, err
}

// UnansweredError returns an error of exit code 4 if an evaluator that was asked gave no score at all.
func UnansweredError(s outcome.Summary) error {
	var silent []string
	for _, c := range s.Run.CustomScorers {
		stat, _ := s.Scores.Lookup(c.Name)
		if c.Carried == "" && stat.N == 0 && stat.Unanswered > 0 {
			silent = append(silent, c.Name)
		}
	}
	if silent == nil {
		return nil
	}
	return cli.Errorf(cli.ExitFailures, "no item has a score of the evaluator %s; experiment show %s ITEM says why",
		strings.Join(silent, ", "), cli.Arguments(s.Run.Name))
}

// ScoreOrder returns the names of all scores in the order in which they are shown.
func ScoreOrder() []string {
	return slices.Concat(ExtractionScores(), answers.ScoreOrder(), []string{outcome.ErrorScore})
}

// ExtractionScores returns the names of the scores of extractions: those of the catalogue,
// then grounding.
func ExtractionScores() []string {
	return append(cli.Each(scoring.Catalog(), func(d scoring.Definition) string { return d.Name }), scoring.GroundedRate)
}

// Comparison returns the configuration of a comparison without flags.
func Comparison() compare.Config {
	return compare.Config{
		Order: ScoreOrder(), LowerIsBetter: []string{harness.InventedRate, answers.CitationPenalty}, Matches: matchedLines,
	}
}

// matchedLines returns the matches in an outcome's explanation as text: the terms of an
// answer, or the expected entities and relationships. Extracted names do not appear, so
// that a match under another name is the same match.
func matchedLines(explanation json.RawMessage) (lines []string, err error) {
	var why struct {
		scoring.Explanation
		Groups []answers.GroupHit `json:"groups"`
	}
	if err := json.Unmarshal(explanation, &why); err != nil {
		return nil, fmt.Errorf("the explanation was not written by this program: %w", err)
	}
	for _, group := range why.Groups {
		if group.Hit != nil {
			lines = append(lines, strings.Join(group.Terms, " | "))
		}
	}
	return slices.Concat(lines,
		cli.Each(why.Entities, func(m scoring.EntityMatch) string { return entityText(m.Expected, m.ExpectedType) }),
		cli.Each(why.Relationships, func(m scoring.RelationshipMatch) string { return statementText(m.Expected) }),
	), nil
}

// WriteComparison writes the page of a comparison to a file, unless path is "". The runs may
// be incompatible and the gate failed.
func WriteComparison(ctx context.Context, path string, result compare.Comparison, sources []compare.Source) error {
	return cli.WriteFile(path, func(w io.Writer) error { return comparisonPage(ctx, w, result, sources, html.Config{}) })
}

// comparisonPage writes the page of a comparison. sources are the base and the candidates,
// whose items it reads again.
func comparisonPage(ctx context.Context, w io.Writer, result compare.Comparison, sources []compare.Source, cfg html.Config) error {
	var runs []report.Run
	for i, source := range sources {
		side := result.Base
		if i > 0 {
			side = result.Candidates[i-1].Candidate
		}
		run, err := reportRun(ctx, source, side)
		if err != nil {
			return err
		}
		runs = append(runs, run)
	}
	return html.Compare(w, result, runs, cfg)
}

// reportRun returns a compared run for a report. A run that is only in Langfuse has
// outcomes, but no documents.
func reportRun(ctx context.Context, source compare.Source, side compare.Side) (report.Run, error) {
	if local, ok := source.(Source); ok {
		whole, err := Whole(ctx, local.Reader, true)
		whole.Items = Watched(ctx, &local.status, local.Reader, 0, whole.Items)
		return whole, err
	}
	run := side.Summary.Run
	items := stats.Parallel(1, source.Outcomes(ctx), func(o outcome.Outcome) (*report.ItemView, error) {
		return &report.ItemView{Run: run.Name, Dataset: run.Dataset, Outcome: o}, nil
	})
	return report.Run{Summary: side.Summary, Items: items}, nil
}
