package report

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"github.com/jedib0t/go-pretty/v6/text"

	"extraction-experiment/extraction"
	"extraction-experiment/internal/textutil"
	"extraction-experiment/outcome"
)

// ItemView is one item of a run as "experiment show RUN ITEM" shows it. The caller fills it from
// the run file and the scorer's explanation.
type ItemView struct {
	Run     string `json:"run"`
	Dataset string `json:"dataset"`
	// Text is the document.
	Text string `json:"text"`
	// Sections, if any, are shown instead of the document: a question, its answer, the passages
	// that were searched.
	Sections []Section `json:"sections,omitempty"`
	// Expected is the gold; may be nil.
	Expected *extraction.Extraction `json:"expected"`
	// Extracted is the extraction; may be nil.
	Extracted *extraction.Extraction `json:"extracted"`
	// Matches, Missed and Spurious explain the scores, entities before relationships.
	Matches  []Match `json:"matches"`
	Missed   []Miss  `json:"missed"`   // expected, not extracted
	Spurious []Miss  `json:"spurious"` // extracted, not expected
	// Faults gives the cause of everything that is wrong.
	Faults []Fault `json:"faults"`
	// Outcome holds everything else: id, scores, calls, failure, warnings, time, cost.
	Outcome outcome.Outcome `json:"outcome"`
}

// Section is a text with its title.
type Section struct {
	Title string `json:"title"`
	Text  string `json:"text"`
}

// Match is a pair of an expected and an extracted entity or relationship.
type Match struct {
	What       string  `json:"what"` // "entity" or "relationship"
	Kind       string  `json:"kind"` // "exact", "fuzzy", "inverse", …
	Similarity float64 `json:"similarity"`
	Expected   string  `json:"expected"`  // for display: "Ada Lovelace (Person)"
	Extracted  string  `json:"extracted"` // likewise
	// TypeCorrect is nil if types were not judged.
	TypeCorrect *bool `json:"type_correct"`
	// Indexes in ItemView.Expected and ItemView.Extracted.
	ExpectedIndex  int `json:"expected_index"`
	ExtractedIndex int `json:"extracted_index"`
}

// Fault is one thing that is wrong with an item: its cause, in the terms of the harness, and the
// expected and extracted values for display, empty if a side is not involved.
type Fault struct {
	Cause     string `json:"cause"`
	What      string `json:"what"`
	Expected  string `json:"expected,omitempty"`
	Extracted string `json:"extracted,omitempty"`
	// Indexes in ItemView.Expected and ItemView.Extracted.
	ExpectedIndex  *int `json:"expected_index,omitempty"`
	ExtractedIndex *int `json:"extracted_index,omitempty"`
}

// Miss is an entity or relationship without a match.
type Miss struct {
	What  string `json:"what"`
	Index int    `json:"index"` // in its list
	Value string `json:"value"`
	// Nearest is the most similar one of the other side, if any is similar.
	Nearest    string  `json:"nearest,omitempty"`
	Similarity float64 `json:"similarity,omitempty"` // to Nearest
	Reason     string  `json:"reason,omitempty"`     // why it is not a match
}

// Item writes one item for a terminal: its result and scores, the document, the gold if the item
// failed, the extraction, matches, missed and spurious ones, and calls. A document longer than
// Options.Document is cut, with a note.
func Item(w io.Writer, v ItemView, opt Options) error {
	p := newPage(opt)
	p.itemHead(v)
	p.table(itemScores(v.Outcome.Scores))
	if len(v.Sections) == 0 {
		v.Sections = []Section{{"Document", v.Text}}
	}
	for _, s := range v.Sections {
		p.section(s.Title, s.Text)
	}
	if v.Outcome.Failed() { // otherwise the matches and misses show it
		p.things("Expected", v.Expected)
	}
	p.things("Extracted", v.Extracted)
	p.matches(v.Matches)
	p.table(missTable("Missed", v.Missed), missTable("Spurious", v.Spurious), callTable(v.Outcome.Calls))
	p.warnings(v.Outcome.Warnings, messageLines)
	p.where()
	return p.writeTo(w)
}

func (p *page) itemHead(v ItemView) {
	o := v.Outcome
	p.wrapped(label(o.Item), 0, 2, p.bold)
	p.parts("run", textutil.Line(v.Run), textutil.Line(v.Dataset), textIf(o.Trial > 1, fmt.Sprintf("trial %d", o.Trial)),
		textIf(o.Attempt > 1, fmt.Sprintf("attempt %d", o.Attempt)))
	if o.Failed() {
		p.parts("failed", p.red(textutil.Line(string(o.Class))))
		if o.Failure != nil {
			p.wrapped(textutil.Line(o.Failure.Message), 10, 0, p.red)
		}
	}
	if o.Latency > 0 {
		p.parts("latency", duration(o.Latency),
			textIf(o.FromCache > 0, textutil.Counted(o.FromCache, "answer")+" from the cache"))
	}
	p.parts("worker", textutil.Line(o.Worker))
	p.parts("tokens", tokenParts(o.Usage)...)
	if o.CostUSD != nil || len(o.Calls) > 0 {
		p.parts("cost", costParts(o.CostUSD, 0, "item")...)
	}
	p.parts("judging", judgingParts(o.Judging)...)
}

func itemScores(scores []outcome.Score) Table {
	t := Table{Title: "Scores", Columns: []Column{{flex: true, key: true}, {cyan: true}, {Right: true, Strong: true},
		{flex: true, free: true, faint: true}, {Below: true}}}
	for _, s := range scores {
		note, reason := textutil.Line(s.Comment), ""
		if s.Value == nil {
			note = textutil.Line(s.Reason)
			if len(s.Reason) > shortReason { // a column would cut it
				note, reason = "", note
			}
		}
		t.add(textutil.Line(s.Name), bar(s.Value, 8), Score(s.Value, 3), note, reason)
	}
	return t
}

// shortReason is the longest reason of a missing score, in bytes, that always fits a column.
const shortReason = 60

// section writes a titled text, cut to Options.Document characters.
func (p *page) section(title, text string) {
	if text == "" {
		return
	}
	p.title(title)
	shown, left := FirstRunes(text, p.Document)
	p.wrapped(textutil.Block(shown), 2, 0, nil)
	if left > 0 {
		p.line("  " + p.faint("… "+textutil.Counted(left, "more character")))
	}
}

// things lists entities and relationships.
func (p *page) things(title string, e *extraction.Extraction) {
	if e == nil {
		return
	}
	p.title(title)
	if len(e.Entities)+len(e.Relationships) == 0 {
		p.line("  " + p.faint("nothing"))
		return
	}
	free, faint := Column{Name: true, flex: true, free: true}, Column{flex: true, free: true, faint: true}
	entities, relationships := Table{Columns: []Column{free, faint}}, Table{Columns: []Column{free, faint, free}}
	for _, entity := range e.Entities {
		entities.add(entity.Name, textutil.Line(entity.Type))
	}
	for _, r := range e.Relationships {
		relationships.add(end(r.Source, r.SourceRef), textutil.Line(r.Type), end(r.Target, r.TargetRef))
	}
	p.table(entities, relationships)
}

// end formats an end of a relationship, and marks a dangling reference.
func end(name, ref string) string {
	return cmp.Or(textIf(name == "" && ref != "", textutil.Line(ref)+" (dangling)"), label(name))
}

// matches writes a line for each match: kind, similarity, both sides (one if they read the
// same), and whether the type is wrong.
func (p *page) matches(matches []Match) {
	p.title("Matched")
	kinds := 0
	kind := func(m Match) string { return text.Snip(label(m.Kind), 16, "…") }
	for _, m := range matches {
		kinds = max(kinds, text.StringWidthWithoutEscSequences(kind(m)))
	}
	for _, m := range matches {
		both := label(m.Expected)
		if extracted := label(m.Extracted); extracted != both {
			both += " ~ " + extracted
		}
		both += textIf(m.TypeCorrect != nil && !*m.TypeCorrect, "\nwrong type")
		p.hang(p.faint("  "+text.Pad(kind(m), kinds, ' ')+"  "+Score(&m.Similarity, 2)+"  "), both, 0, nil)
	}
}

// missTable lists entities and relationships without a match, each with the nearest of the other
// side.
func missTable(title string, misses []Miss) Table {
	t := Table{Title: title, Columns: []Column{{flex: true, key: true}, {Below: true}}}
	for _, m := range misses {
		nearest := "nearest: " + textutil.Line(m.Nearest) + " (similarity " + ratio(m.Similarity) + ")"
		why := nonEmpty(textIf(m.Nearest != "", nearest), textutil.Line(m.Reason))
		t.add(strings.TrimSpace(textutil.Line(m.What)+" "+label(m.Value)), strings.Join(why, " · "))
	}
	return t
}

func callTable(calls []outcome.Call) Table {
	t := Table{Title: "Calls", Columns: []Column{{Title: "call", Name: true, flex: true}, {Title: "kind", flex: true}, {Title: "model", flex: true},
		{Title: "time", Right: true}, {Title: "in", Right: true}, {Title: "out", Right: true}, {Title: "tries", Right: true}, {Below: true}}}
	positive := func(n int64) string { return textIf(n > 0, Count(n)) }
	for _, c := range calls {
		took, below := none, nonEmpty(textutil.Line(c.Error))
		if !c.Started.IsZero() && !c.Ended.Before(c.Started) {
			took = duration(c.Ended.Sub(c.Started))
		}
		if (c.Error != "" || len(c.Warnings) > 0) && len(c.Output) > 0 {
			below = append(below, "answered: "+textutil.Line(Indented(c.Output)))
		}
		t.add(c.Name, textutil.Line(c.Kind), textutil.Line(c.Model), took, positive(c.Usage.Input), positive(c.Usage.Output),
			positive(int64(c.Attempts)), strings.Join(below, "\n"))
	}
	return t
}
