package html

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"extraction-experiment/compare"
	"extraction-experiment/extraction"
	"extraction-experiment/outcome"
	"extraction-experiment/report"
)

// hostile tries to escape from every context. Everything that it executes
// sets window.pwned or asks for a picture.
const hostile = `</script><script>window.pwned=1</script>"></style><img src="http://192.0.2.1/x.png" onerror="window.pwned=1"><!--<script>` + "\u2028`${window.pwned=1}`'\"&amp;{{.}} </title><svg onload=window.pwned=1>"

// newRun returns a run of n items with scores from 0 to 1. Of every seven items the fourth
// fails.
func newRun(name string, n int, change func(i int, v *report.ItemView)) report.Run {
	header := outcome.Header{
		Name: name, Harness: "extraction", Trials: 1, Started: time.Date(2026, 11, 21, 9, 30, 0, 0, time.UTC),
		Dataset: outcome.Dataset{Name: "contracts", Fingerprint: "0123456789abcdef"},
		System:  outcome.System{Model: "gpt-4o-mini", Provider: "openai", Prompt: outcome.Prompt{Name: "extract", Version: 3}},
		Scorer:  outcome.Scorer{Version: "1", Primary: "entity_f1"},
	}
	var views []report.ItemView
	sum := outcome.NewSummariser(header, outcome.SummaryConfig{Order: []string{"entity_f1", "entity_precision", "error"}})
	for i := range n {
		v := newView(name, i, n)
		if change != nil {
			change(i, &v)
		}
		views = append(views, v)
		sum.Add(v.Outcome)
	}
	s := sum.Summary()
	s.Finish(outcome.Footer{Status: outcome.Complete, Planned: n, Ended: header.Started.Add(time.Minute)})
	slices.SortFunc(views, func(a, b report.ItemView) int { return strings.Compare(a.Outcome.Item, b.Outcome.Item) })
	return report.Run{Summary: s, Items: each(views)}
}

func each(views []report.ItemView) iter.Seq2[*report.ItemView, error] {
	return func(yield func(*report.ItemView, error) bool) {
		for _, v := range views {
			if !yield(&v, nil) {
				return
			}
		}
	}
}

func newView(run string, i, n int) report.ItemView {
	id := fmt.Sprintf("doc-%04d", i)
	text := fmt.Sprintf("Ada Lovelace of London wrote letter %d to Charles Babbage about the Analytical Engine.\n\nBabbage answered from the University of London.", i)
	one, two := 0, 1
	gold := extraction.Extraction{
		Entities: []extraction.Entity{{Name: "Ada Lovelace", Type: "Person"}, {Name: "Charles Babbage", Type: "Person"},
			{Name: "University of London", Type: "Organisation"}},
		Relationships: []extraction.Relationship{{Source: "Ada Lovelace", Type: "wrote_to", Target: "Charles Babbage"}},
	}
	found := extraction.Extraction{
		Entities:      []extraction.Entity{{Name: "Ada Lovelace", Type: "Person"}, {Name: "London", Type: "Place"}, {Name: "Babbage", Type: "Person"}},
		Relationships: []extraction.Relationship{{Source: "Charles Babbage", Type: "wrote_to", Target: "Ada Lovelace"}},
	}
	value, zero, correct := float64(i)/float64(max(1, n-1)), 0.0, true
	v := report.ItemView{Run: run, Dataset: "contracts", Text: text, Expected: &gold, Extracted: &found}
	v.Matches = []report.Match{{What: "entity", Kind: "exact", Similarity: 1, Expected: "Ada Lovelace (Person)", Extracted: "Ada Lovelace (Person)", TypeCorrect: &correct}}
	v.Missed = []report.Miss{{What: "entity", Index: 1, Value: "Charles Babbage (Person)", Nearest: "Babbage (Person)", Similarity: 7.0 / 15, Reason: "under threshold"},
		{What: "entity", Index: 2, Value: "University of London (Organisation)", Reason: "nothing similar"},
		{What: "relationship", Value: "Ada Lovelace – wrote_to → Charles Babbage", Reason: "wrong direction"}}
	v.Spurious = []report.Miss{{What: "entity", Index: 1, Value: "London (Place)", Reason: "nothing similar"},
		{What: "entity", Index: 2, Value: "Babbage (Person)", Reason: "under threshold"},
		{What: "relationship", Value: "Charles Babbage – wrote_to → Ada Lovelace", Reason: "wrong direction"}}
	three := 2
	v.Faults = []report.Fault{{Cause: "boundary", What: "entity", ExpectedIndex: &two, ExtractedIndex: &three}, {Cause: "missed", What: "entity", ExpectedIndex: &three},
		{Cause: "spurious", What: "entity", ExtractedIndex: &two}, {Cause: "swapped_direction", What: "relationship", ExpectedIndex: &one, ExtractedIndex: &one}}
	started := time.Date(2026, 11, 21, 9, 30, 0, 0, time.UTC)
	v.Outcome = outcome.Outcome{
		Item: id, Trial: 1, Attempt: 1, Seq: int64(i + 1), Started: started, Latency: time.Duration(100+i) * time.Millisecond,
		Usage: outcome.Usage{Input: 900, Output: 120}, CostUSD: &value,
		Scores: []outcome.Score{{Name: "entity_f1", Value: &value, Comment: "2 matched of 3 expected and 3 extracted"}, {Name: "entity_precision", Value: &value}, {Name: "error", Value: &zero, Boolean: true}},
		Detail: outcome.Detail{
			Output: json.RawMessage(`{"entities":[{"name":"Ada Lovelace","type":"Person"}]}`),
			Causes: []outcome.Cause{{What: "entity", Name: "missed", Count: 1}, {What: "entity", Name: "boundary", Count: 1}, {What: "relationship", Name: "swapped_direction", Count: 1}},
			Calls: []outcome.Call{{Name: "extract", Kind: "generation", Model: "gpt-4o-mini", Started: started, Ended: started.Add(90 * time.Millisecond),
				Usage: outcome.Usage{Input: 900, Output: 120}, Parameters: json.RawMessage(`{"temperature":0}`),
				Input:  mustJSON([]map[string]string{{"role": "system", "content": "You extract entities."}, {"role": "user", "content": text}}),
				Output: mustJSON("```json\n{\"entities\": []}\n```")}},
			Groups: []outcome.Group{{Kind: "entity_type", Name: "person", Expected: 2, Extracted: 2, Matched: 1}, {Kind: "relationship_type", Name: "wrote_to", Expected: 1, Extracted: 1}},
		},
	}
	if i%7 == 3 {
		fail(&v, "timeout", "no answer within 30s")
	}
	return v
}

func fail(v *report.ItemView, class outcome.Class, message string) {
	one := 1.0
	v.Extracted, v.Matches, v.Missed, v.Spurious, v.Faults = nil, nil, nil, nil, nil
	v.Outcome.Class, v.Outcome.Failure = class, &outcome.Failure{Class: class, Message: message}
	v.Outcome.Scores = []outcome.Score{{Name: "entity_f1"}, {Name: "error", Value: &one, Boolean: true, Comment: message}}
	v.Outcome.Output, v.Outcome.Causes, v.Outcome.Groups = nil, nil, nil
}

// poison replaces the texts of one in ten items by hostile text.
func poison(i int, v *report.ItemView) {
	if i%10 != 1 {
		return
	}
	v.Text, v.Outcome.Item = hostile+" Ada Lovelace "+hostile, fmt.Sprintf("doc-%04d ", i)+hostile
	for _, e := range []*extraction.Extraction{v.Expected, v.Extracted} {
		if e == nil {
			continue
		}
		for j := range e.Entities {
			e.Entities[j].Name, e.Entities[j].Type = hostile, hostile
		}
		for j := range e.Relationships {
			e.Relationships[j] = extraction.Relationship{Source: hostile, Type: hostile, Target: hostile}
		}
	}
	for j := range v.Missed {
		v.Missed[j].Value, v.Missed[j].Nearest, v.Missed[j].Reason = hostile, hostile, hostile
	}
	o := &v.Outcome
	o.Warnings = []string{hostile}
	o.Output, o.Calls[0].Output = mustJSON(hostile), mustJSON(hostile)
	o.Calls[0].Input = mustJSON([]map[string]string{{"role": hostile, "content": hostile}})
	o.Calls[0].Name, o.Calls[0].Model, o.Calls[0].Error, o.Calls[0].Finish = hostile, hostile, hostile, hostile
	o.Causes = append(o.Causes, outcome.Cause{What: hostile, Name: hostile, Count: 3})
	o.Groups = append(o.Groups, outcome.Group{Kind: hostile, Name: hostile, Expected: 1})
	o.Scores[0].Comment = hostile
	o.Scores = append(o.Scores, outcome.Score{Name: hostile, Value: o.Scores[len(o.Scores)-1].Value})
	if i%20 == 1 {
		fail(v, outcome.Class(hostile), hostile)
	}
}

func mustJSON(v any) json.RawMessage {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return raw
}

func page(t *testing.T, runs []report.Run, cfg Config) string {
	t.Helper()
	return written(t, func(w io.Writer) error { return Write(w, runs, cfg) })
}

// written returns what write writes.
func written(t *testing.T, write func(io.Writer) error) string {
	t.Helper()
	var b strings.Builder
	if err := write(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// wantTexts checks that the page has all of the texts.
func wantTexts(t *testing.T, page string, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if !strings.Contains(page, text) {
			t.Errorf("the page has no %s", text)
		}
	}
}

// wantValid checks that no untrusted text became markup, and that the JSON blocks are valid and
// not too large.
func wantValid(t *testing.T, page string) {
	t.Helper()
	if n := strings.Count(page, "<script"); n != 4 { // rows, details, metadata, and the script
		t.Errorf("%d scripts", n)
	}
	for id, raw := range jsonBlocks(t, page) {
		if !json.Valid(raw) || strings.HasPrefix(id, "detail") && len(raw) > 20_000 {
			t.Errorf("%s: %d bytes", id, len(raw))
		}
	}
	wantNoTags(t, page)
}

func wantNoTags(t *testing.T, page string) {
	t.Helper()
	for _, tag := range []string{"<img", "<iframe", "<link", "<object", "<base", "<svg onload", `href="javascript:`} {
		if strings.Contains(strings.ToLower(page), tag) {
			t.Errorf("the page has %s", tag)
		}
	}
}

// source is a run as a compare.Source.
type source struct {
	run report.Run
	// threshold is a scoring option.
	threshold string
}

func (s source) Where() string { return "runs/" + s.run.Summary.Run.Name + ".run" }

func (s source) Header(context.Context) (outcome.Header, error) {
	r := s.run.Summary.Run
	return outcome.Header{Name: r.Name, Harness: "extraction", Trials: 1, Started: r.Started,
		Dataset: outcome.Dataset{Name: r.Dataset, Fingerprint: "0123456789abcdef"}, System: outcome.System{Model: r.Model},
		Scorer: outcome.Scorer{Version: "1", Primary: r.Primary, Options: []byte(`{"threshold":` + s.threshold + `}`)}}, nil
}

func (s source) Footer(context.Context) (outcome.Footer, bool, error) {
	return outcome.Footer{Status: outcome.Complete, Planned: s.run.Summary.Items.Planned}, true, nil
}

func (s source) Items(context.Context) iter.Seq2[compare.Item, error] {
	return func(yield func(compare.Item, error) bool) {
		for v, err := range s.run.Items {
			if !yield(compare.Item{ID: v.Outcome.Item, Hash: "same"}, err) {
				return
			}
		}
	}
}

func (s source) Outcomes(context.Context) iter.Seq2[outcome.Outcome, error] {
	return func(yield func(outcome.Outcome, error) bool) {
		for v, err := range s.run.Items {
			v.Outcome.Explanation = []byte("{}")
			if !yield(v.Outcome, err) {
				return
			}
		}
	}
}

// compareRuns compares the first run with each of the others.
func compareRuns(t *testing.T, runs []report.Run, cfg compare.Config, thresholds ...string) compare.Comparison {
	t.Helper()
	var sources []compare.Source
	for i, r := range runs {
		s := source{r, "0.8"}
		if i < len(thresholds) {
			s.threshold = thresholds[i]
		}
		sources = append(sources, s)
	}
	c, err := cfg.Compare(t.Context(), sources[0], sources[1:]...)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// improve changes the items of a candidate: in odd items it finds Charles Babbage by his full
// name and not London, three items are worse, and doc-0005 fails.
func improve(i int, v *report.ItemView) {
	if v.Outcome.Failed() {
		return
	}
	value := *v.Outcome.Scores[0].Value
	switch {
	case i == 5:
		fail(v, "rate_limited", "asked too often")
		return
	case i == 4 || i == 8 || i == 12:
		value = max(0, value-0.1)
		v.Extracted = &extraction.Extraction{Entities: v.Extracted.Entities[1:], Relationships: v.Extracted.Relationships}
		v.Missed = append([]report.Miss{{What: "entity", Index: 0, Value: "Ada Lovelace (Person)", Reason: "nothing similar"}}, v.Missed...)
		v.Matches, v.Faults = nil, nil
		v.Spurious[0].Index, v.Spurious[1].Index = 0, 1
	case i%2 == 1:
		value = min(1, value+0.2)
		yes := true
		found := *v.Extracted
		found.Entities = []extraction.Entity{found.Entities[0], {Name: "Charles Babbage", Type: "Person"}, {Name: "Analytical Engine", Type: "Thing"}}
		v.Extracted = &found
		v.Matches = append(v.Matches, report.Match{What: "entity", Kind: "exact", Similarity: 1, ExpectedIndex: 1, ExtractedIndex: 1, TypeCorrect: &yes})
		v.Missed = v.Missed[1:]
		v.Spurious = []report.Miss{{What: "entity", Index: 2, Value: "Analytical Engine (Thing)"}, v.Spurious[2]}
		v.Faults = v.Faults[3:]
	}
	v.Outcome.Scores[0].Value = &value
}

func comparePage(t *testing.T, c compare.Comparison, runs []report.Run, cfg Config) string {
	t.Helper()
	return written(t, func(w io.Writer) error { return Compare(w, c, runs, cfg) })
}

// gateConfig has a gate of one rule that holds and one that does not.
func gateConfig(t *testing.T) compare.Config {
	t.Helper()
	var cfg compare.Config
	for _, text := range []string{"entity_f1 >= base - 0.05", "failures <= 2"} {
		rule, err := compare.ParseRule(text)
		if err != nil {
			t.Fatal(err)
		}
		cfg.Gate.Rules = append(cfg.Gate.Rules, rule)
	}
	return cfg
}

func newPair(t *testing.T, n int, change func(int, *report.ItemView)) []report.Run {
	t.Helper()
	return []report.Run{newRun("base", n, change), newRun("candidate", n, func(i int, v *report.ItemView) {
		improve(i, v)
		if change != nil {
			change(i, v)
		}
	})}
}
