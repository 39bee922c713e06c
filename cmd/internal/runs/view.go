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

// Whole is a run as reports take it, its items with what documents, matches and misses
// there are, or without, in a third of the time. The items are read while they are
// written, one at a time, so the run must stay open.
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
	view := func(o outcome.Outcome) (report.ItemView, error) {
		if !documents {
			return report.ItemView{Run: header.Name, Dataset: header.Dataset.Name, Outcome: o}, nil
		}
		item, err := run.Item(ctx, o.Item)
		if err != nil {
			return report.ItemView{}, err
		}
		return itemView(&decoder, header, item, o)
	}
	outcomes := run.Outcomes(ctx, runstore.Query{Newest: true, Detail: true})
	return report.Run{Summary: summary, Items: stats.Parallel(0, outcomes, view)}, nil
}

// Item gathers what is known of one item: its newest attempt. Where there is none, the
// error says which may be meant.
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
	for o, err := range run.Outcomes(ctx, runstore.Query{Newest: true, Detail: true, Item: id, Trial: trial}) {
		if err != nil {
			return report.ItemView{}, err
		}
		return itemView(new(extraction.Decoder), header, item, o)
	}
	return itemView(new(extraction.Decoder), header, item, outcome.Outcome{Item: id, Trial: trial})
}

// nearestItem proposes an id for a mistyped one.
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

// itemView puts together what is known of an item for a person to read.
// What cannot be decoded any more is left out: the raw values are in the
// outcome.
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
		match.TypeCorrect = new(m.Type == scoring.TypeCorrect)
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

// newBenchView shows a case of the bench: its document, the records with their
// quotes and places, what is wrong with them, and the gold spans that no record
// quotes.
func newBenchView(view report.ItemView, item runstore.Item) (report.ItemView, error) {
	output := view.Outcome.Output
	seen, err := benches.See(item.Input, item.Expected, output)
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
			view.Spurious = append(view.Spurious, report.Miss{What: scoring.AnEntity, Index: i, Value: r.String(), Reason: why})
			continue
		}
		match := report.Match{What: "record", Kind: "quoted", Similarity: 1, Expected: r.String(), Extracted: r.String(), ExpectedIndex: -1, ExtractedIndex: i}
		if span := slices.Index(seen.Covered, i); span >= 0 {
			match.What, match.Kind, match.ExpectedIndex = scoring.AnEntity, "gold span", span
		}
		view.Matches = append(view.Matches, match)
	}
	for i, span := range seen.Gold {
		if view.Expected == nil {
			view.Expected = &extraction.Extraction{}
		}
		view.Expected.Entities = append(view.Expected.Entities, recordEntity(span))
		if seen.Covered[i] < 0 {
			view.Missed = append(view.Missed, report.Miss{What: scoring.AnEntity, Index: i, Value: span.String(), Reason: "no record quotes it there"})
		}
	}
	return view, nil
}

// recordEntity is a record with its quote as the name and its class as the type, and
// with the stretch of the document that it names.
func recordEntity(r benches.Record) extraction.Entity {
	e := extraction.Entity{Name: r.Quote, Type: r.Class}
	if r.Spans != nil {
		e.Mentions = []extraction.Span{{Start: r.Spans.Rune[0], End: r.Spans.Rune[1]}}
	}
	return e
}

// newAnswerView shows a question with its answer and the passages that were
// searched in place of a document, the terms that were found, those that were
// not, and the forbidden ones.
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

// Summarise sums a stored run up.
func Summarise(ctx context.Context, run *runstore.Reader) (outcome.Summary, error) {
	s, err := experiment.Summarise(ctx, run, ScoreOrder())
	if err != nil {
		return s, err
	}
	header, err := run.Header(ctx)
	s.Warnings = append(s.Warnings, answers.DocumentWarnings(header)...)
	return s, err
}

// ScoreOrder is the order in which scores are shown: those of extractions, then of
// answers.
func ScoreOrder() []string {
	return slices.Concat(ExtractionScores(), answers.ScoreOrder(), []string{outcome.ErrorScore})
}

// ExtractionScores are those of the catalogue, then grounding.
func ExtractionScores() []string {
	return append(cli.Each(scoring.Catalog(), func(d scoring.Definition) string { return d.Name }), harness.GroundedRate)
}

// Comparison is how runs are compared without flags.
func Comparison() compare.Config {
	return compare.Config{
		Order: ScoreOrder(), LowerIsBetter: []string{harness.InventedRate, answers.CitationPenalty}, Matches: matchedLines,
	}
}

// matchedLines lists what an outcome's explanation says was matched, as a person
// reads it: the terms of an answer, or what was extracted, where another name is the same
// match.
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
		cli.Each(why.Entities, func(m scoring.EntityMatch) string { return typed(m.Expected, m.ExpectedType) }),
		cli.Each(why.Relationships, func(m scoring.RelationshipMatch) string { return stated(m.Expected) }),
	), nil
}

// CanWritePage finds out before anything is compared.
func CanWritePage(path string) error {
	switch path {
	case "":
		return nil
	case "-":
		return cli.Usage("--html takes a file: the report on standard output is the one for people, --json or --markdown")
	}
	return cli.CanWrite(path)
}

// WriteComparison writes the page of a comparison to a file, if one is named:
// also of runs that cannot be compared, and where the gate is not passed.
func WriteComparison(ctx context.Context, path string, result compare.Comparison, sources []compare.Source) error {
	if path == "" {
		return nil
	}
	return cli.WriteFile(path, func(w io.Writer) error {
		return cli.Written(comparisonPage(ctx, w, result, sources, html.Config{}))
	})
}

// comparisonPage writes the page of a comparison: sources are the base and the
// candidates, which are read once more for their items.
func comparisonPage(ctx context.Context, w io.Writer, result compare.Comparison, sources []compare.Source, cfg html.Config) error {
	var runs []report.Run
	for i, source := range sources {
		side := result.Base
		if i > 0 {
			side = result.Candidates[i-1].Candidate
		}
		run, err := wholeSource(ctx, source, side)
		if err != nil {
			return err
		}
		runs = append(runs, run)
	}
	return html.Compare(w, result, runs, cfg)
}

// wholeSource is a compared run as reports take it. One that is only in Langfuse
// has outcomes, and no documents.
func wholeSource(ctx context.Context, source compare.Source, side compare.Side) (report.Run, error) {
	if local, ok := source.(Source); ok {
		whole, err := Whole(ctx, local.Reader, true)
		whole.Items = Watched(ctx, &local.status, local.Reader, 0, whole.Items)
		return whole, err
	}
	run := side.Summary.Run
	items := mapped(source.Outcomes(ctx), func(o outcome.Outcome) (report.ItemView, error) {
		return report.ItemView{Run: run.Name, Dataset: run.Dataset, Outcome: o}, nil
	})
	return report.Run{Summary: side.Summary, Items: items}, nil
}
