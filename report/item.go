package report

import (
	"fmt"
	"io"

	"extraction-experiment/extraction"
	"extraction-experiment/internal/printable"
	"extraction-experiment/outcome"
)

// ItemView is one item of a run as "experiment show RUN ITEM" shows it. The
// caller fills it from the run file and the scorer's explanation.
type ItemView struct {
	Run     string `json:"run"`
	Dataset string `json:"dataset"`
	// Text is the document.
	Text string `json:"text"`
	// Sections are what Item shows in the place of the document, if there are any:
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
	Reason     string  `json:"reason,omitempty"`     // why it is no match
}

// Item writes one item for a person at a terminal: its fate and scores, the
// document, what was extracted, matches, what was missed and what was
// spurious, the calls that were made. A document longer than Options.Document
// is cut, with a note.
//
// It writes once; the error is that of the writer.
func Item(w io.Writer, v ItemView, opt Options) error {
	p := newPage(opt)
	p.itemHead(v)
	p.itemScores(v.Outcome.Scores)
	if len(v.Sections) == 0 {
		p.section("Document", v.Text)
	}
	for _, s := range v.Sections {
		p.section(s.Title, s.Text)
	}
	p.extracted(v.Extracted)
	p.matches(v.Matches)
	p.misses("Missed", v.Missed)
	p.misses("Spurious", v.Spurious)
	p.calls(v.Outcome.Calls)
	if len(v.Outcome.Warnings) > 0 {
		p.title("Warnings")
		for _, warning := range v.Outcome.Warnings {
			p.wrapped(printable.Line(warning), 2, messageLines, p.yellow)
		}
	}
	p.where()
	return p.writeTo(w)
}

func (p *page) itemHead(v ItemView) {
	o := v.Outcome
	p.wrapped(label(o.Item), 0, 2, p.bold)
	run := []string{printable.Line(v.Run), printable.Line(v.Dataset)}
	if o.Trial > 1 {
		run = append(run, fmt.Sprintf("trial %d", o.Trial))
	}
	if o.Attempt > 1 {
		run = append(run, fmt.Sprintf("attempt %d", o.Attempt))
	}
	p.parts("run", run...)
	if o.Failed() {
		p.parts("failed", p.red(printable.Line(string(o.Class))))
		if o.Failure != nil {
			p.wrapped(printable.Line(o.Failure.Message), 10, 0, p.red)
		}
	}
	if o.Latency > 0 {
		hits := ""
		if o.FromCache > 0 {
			hits = fmt.Sprintf("%s from the cache", counted(o.FromCache, "answer"))
		}
		p.parts("latency", duration(o.Latency), hits)
	}
	p.parts("tokens", tokenParts(outcome.UsageSum{Input: o.Usage.Input, Output: o.Usage.Output,
		Total: o.Usage.Total(), Cached: o.Usage.Cached, Reasoning: o.Usage.Reasoning})...)
	switch {
	case o.CostUSD != nil:
		p.parts("cost", dollars(*o.CostUSD))
	case len(o.Calls) > 0:
		p.parts("cost", "unknown")
	}
	p.parts("judging", judgingParts(o.Judging)...)
}

func (p *page) itemScores(scores []outcome.Score) {
	if len(scores) == 0 {
		return
	}
	p.title("Scores")
	g := &grid{columns: []column{{flex: true, key: true}, {paint: p.cyan}, {right: true, paint: p.bold}, {flex: true, free: true, paint: p.faint}}}
	for _, s := range scores {
		note := s.Comment
		if s.Value == nil {
			note = s.Reason
		}
		g.add(printable.Line(s.Name), bar(s.Value, 8), score(s.Value, 3), printable.Line(note))
	}
	p.grid(g)
	for _, s := range scores { // a table cuts what is longer than it is wide
		if s.Value == nil && len(s.Reason) > shortReason {
			p.wrapped(label(s.Name)+": "+printable.Line(s.Reason), 2, 0, p.faint)
		}
	}
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
	shown, left := firstRunes(text, p.Document)
	p.wrapped(printable.Block(shown), 2, 0, nil)
	if left > 0 {
		p.line("  " + p.faint("… "+counted(left, "more character")))
	}
}

// firstRunes returns the first n runes of s and how many are left; all for a
// negative n.
func firstRunes(s string, n int) (string, int) {
	if n < 0 || len(s) <= n {
		return s, 0
	}
	runes, end := 0, len(s)
	for i := range s {
		if runes == n {
			end = i
		}
		runes++
	}
	return s[:end], max(0, runes-n)
}
