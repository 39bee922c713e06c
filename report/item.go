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

// ItemView is one item of a run as "experiment show RUN ITEM" shows it. The
// caller fills it from the run file and the scorer's explanation.
type ItemView struct {
	Run     string `json:"run"`
	Dataset string `json:"dataset"`
	// Text is the document.
	Text string `json:"text"`
	// Sections are what Item shows in place of the document, if there are any:
	// a question, its answer, the passages that were searched.
	Sections []Section `json:"sections,omitempty"`
	// Expected is the gold; nil when there is none.
	Expected *extraction.Extraction `json:"expected"`
	// Extracted is what the extractor found; nil when there is no extraction.
	Extracted *extraction.Extraction `json:"extracted"`
	// Matches, Missed and Spurious explain the scores, entities before
	// relationships.
	Matches  []Match `json:"matches"`
	Missed   []Miss  `json:"missed"`   // expected, not extracted
	Spurious []Miss  `json:"spurious"` // extracted, not expected
	// Faults give everything that is wrong a cause.
	Faults []Fault `json:"faults"`
	// Outcome has the rest: id, scores, calls, failure, warnings, time, cost.
	Outcome outcome.Outcome `json:"outcome"`
}

// Section is a text with its title.
type Section struct {
	Title string `json:"title"`
	Text  string `json:"text"`
}

// Match is an expected and an extracted thing that were taken for the same.
type Match struct {
	What       string  `json:"what"` // "entity" or "relationship"
	Kind       string  `json:"kind"` // "exact", "fuzzy", "inverse", …
	Similarity float64 `json:"similarity"`
	Expected   string  `json:"expected"`  // as a person reads it: "Ada Lovelace (Person)"
	Extracted  string  `json:"extracted"` // likewise
	// TypeCorrect is nil where types were not judged.
	TypeCorrect *bool `json:"type_correct"`
	// The places in the lists of ItemView.Expected and ItemView.Extracted.
	ExpectedIndex  int `json:"expected_index"`
	ExtractedIndex int `json:"extracted_index"`
}

// Fault is one thing that is wrong with an item: its cause, in the words of the
// harness, and the things that are at fault, as a person reads them; "" where a
// side has no part in it.
type Fault struct {
	Cause     string `json:"cause"`
	What      string `json:"what"`
	Expected  string `json:"expected,omitempty"`
	Extracted string `json:"extracted,omitempty"`
	// The places in the lists of ItemView.Expected and ItemView.Extracted.
	ExpectedIndex  *int `json:"expected_index,omitempty"`
	ExtractedIndex *int `json:"extracted_index,omitempty"`
}

// Miss is a thing that was matched with nothing.
type Miss struct {
	What  string `json:"what"`
	Index int    `json:"index"` // its place in its list
	Value string `json:"value"`
	// Nearest is the most similar thing of the other side, if any is similar.
	Nearest    string  `json:"nearest,omitempty"`
	Similarity float64 `json:"similarity,omitempty"` // to Nearest
	Reason     string  `json:"reason,omitempty"`     // why it is not a match
}

// Item writes one item for a person at a terminal: its fate and scores, the
// document, what was expected of an item that failed, what was extracted, matches,
// what was missed and what was spurious, the calls that were made. A document longer
// than Options.Document is cut, with a note.
//
// It writes once; the error is that of the writer.
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
	if v.Outcome.Failed() { // else matches and misses have it
		p.things("Expected", v.Expected)
	}
	p.things("Extracted", v.Extracted)
	p.matches(v.Matches)
	p.table(missTable("Missed", v.Missed), missTable("Spurious", v.Spurious), callTable(v.Outcome.Calls))
	p.warnings("Warnings", v.Outcome.Warnings, messageLines)
	p.where()
	return p.writeTo(w)
}

func (p *page) itemHead(v ItemView) {
	o := v.Outcome
	p.wrapped(label(o.Item), 0, 2, p.bold)
	p.parts("run", textutil.Line(v.Run), textutil.Line(v.Dataset), when(o.Trial > 1, fmt.Sprintf("trial %d", o.Trial)),
		when(o.Attempt > 1, fmt.Sprintf("attempt %d", o.Attempt)))
	if o.Failed() {
		p.parts("failed", p.red(textutil.Line(string(o.Class))))
		if o.Failure != nil {
			p.wrapped(textutil.Line(o.Failure.Message), 10, 0, p.red)
		}
	}
	if o.Latency > 0 {
		p.parts("latency", duration(o.Latency), when(o.FromCache > 0, Counted(o.FromCache, "answer")+" from the cache"))
	}
	p.parts("tokens", tokenParts(usageSum(o.Usage))...)
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

// shortReason is how long the reason of a missing score may be to fit its table
// in any case.
const shortReason = 60

// section writes a text under its title, cut to so many characters.
func (p *page) section(title, text string) {
	if text == "" {
		return
	}
	p.title(title)
	shown, left := FirstRunes(text, p.Document)
	p.wrapped(textutil.Block(shown), 2, 0, nil)
	if left > 0 {
		p.line("  " + p.faint("… "+Counted(left, "more character")))
	}
}

// things lists the entities and relationships that were expected, or extracted.
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

// end shows the end of a relationship; one that refers to nothing is marked.
func end(name, ref string) string {
	return cmp.Or(when(name == "" && ref != "", textutil.Line(ref)+" (dangling)"), label(name))
}

// matches writes one match per line: kind, similarity, both sides (one, if
// they read the same), and whether the type is wrong.
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
		both += when(m.TypeCorrect != nil && !*m.TypeCorrect, "\nwrong type")
		p.hang(p.faint("  "+text.Pad(kind(m), kinds, ' ')+"  "+Score(&m.Similarity, 2)+"  "), both, 0, nil)
	}
}

// missTable lists what was matched with nothing, each with the nearest of the
// other side.
func missTable(title string, misses []Miss) Table {
	t := Table{Title: title, Columns: []Column{{flex: true, key: true}, {Below: true}}}
	for _, m := range misses {
		nearest := "nearest: " + textutil.Line(m.Nearest) + " (similarity " + ratio(m.Similarity) + ")"
		why := given(when(m.Nearest != "", nearest), textutil.Line(m.Reason))
		t.add(strings.TrimSpace(textutil.Line(m.What)+" "+label(m.Value)), strings.Join(why, " · "))
	}
	return t
}

func callTable(calls []outcome.Call) Table {
	t := Table{Title: "Calls", Columns: []Column{{Title: "call", Name: true, flex: true}, {Title: "kind", flex: true}, {Title: "model", flex: true},
		{Title: "time", Right: true}, {Title: "in", Right: true}, {Title: "out", Right: true}, {Title: "tries", Right: true}, {Below: true}}}
	positive := func(n int64) string { return when(n > 0, Count(n)) }
	for _, c := range calls {
		took, below := none, given(textutil.Line(c.Error))
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
