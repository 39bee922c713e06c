package html

import (
	"encoding/json"

	"extraction-experiment/internal/printable"
	"extraction-experiment/outcome"
	"extraction-experiment/report"
)

// detail is everything that the page of an item shows, by run.
type detail struct {
	Runs []*pane `json:"runs"`
}

// pane is one item of one run. It stands for itself, so that panes of several
// runs can be put side by side.
type pane struct {
	shownText
	Trace         string     `json:"trace,omitempty"` // address of its trace
	Failure       *failure   `json:"failure,omitempty"`
	Scores        []scoreRow `json:"scores"`
	Entities      []thing    `json:"entities"`
	Relationships []thing    `json:"relationships"`
	Calls         []call     `json:"calls"`
	Output        *quote     `json:"output,omitempty"`
	Warnings      []string   `json:"warnings"`
	Attempt       int        `json:"attempt,omitempty"` // from 2
	Shorter       bool       `json:"shorter,omitempty"` // something else was left out
}

// shownText is a document with the places that are marked in it.
type shownText struct {
	Document []segment `json:"document"`
	Cut      int       `json:"cut,omitempty"` // characters that are left out
}

type failure struct {
	Class   string `json:"class"`
	Message string `json:"message"`
}

type scoreRow struct {
	Name  string   `json:"name"`
	Value *float64 `json:"value"`
	Note  string   `json:"note,omitempty"`
}

// quote is a text of which the end may be missing.
type quote struct {
	Text string `json:"text"`
	Cut  int    `json:"cut,omitempty"` // characters left out
}

func newQuote(s string, l limits) quote {
	return quote{printable.Block(cutTo(s, l.text)), charactersAfter(s, l.text)}
}

func (w *writer) detail(row merging, l limits) shortened {
	d := detail{Runs: make([]*pane, len(row.views))}
	for i, v := range row.views {
		if v != nil {
			d.Runs[i] = newPane(*v, l)
			d.Runs[i].shownText = highlighted(v.Text, l, v.Expected, v.Extracted)
			d.Runs[i].Trace = w.trace(i, v.Outcome)
		}
	}
	return d
}

func (d detail) cut() bool { return anyCut(d.Runs) }

func anyCut(panes []*pane) bool {
	for _, p := range panes {
		if p != nil && (p.Cut > 0 || p.Shorter) {
			return true
		}
	}
	return false
}

// trace is the address of the trace of an outcome, where it is known.
func (w *writer) trace(run int, o outcome.Outcome) string {
	if w.cfg.Trace == nil {
		return ""
	}
	return w.cfg.Trace(run, o)
}

func newPane(v report.ItemView, l limits) *pane {
	o := v.Outcome
	p := &pane{Warnings: []string{}}
	if o.Failed() {
		p.Failure = &failure{Class: printable.Line(cutTo(string(o.Class), rowClass))}
		if o.Failure != nil {
			p.Failure.Message = printable.Block(cutTo(o.Failure.Message, l.text))
		}
	}
	p.Scores = scoreRows(o.Scores)
	p.Entities = bounded(p, entityThings(v), l)
	p.Relationships = bounded(p, relationshipThings(v), l)
	for _, c := range bounded(p, o.Calls, l) {
		p.Calls = append(p.Calls, p.call(c, l))
	}
	if len(o.Output) > 0 {
		output := newQuote(indented(o.Output), l)
		p.Output, p.Shorter = &output, p.Shorter || output.Cut > 0
	}
	for _, warning := range bounded(p, o.Warnings, l) {
		p.Warnings = append(p.Warnings, printable.Line(cutTo(warning, 2000)))
	}
	if o.Attempt > 1 {
		p.Attempt = o.Attempt
	}
	return p
}

// bounded cuts a list and remembers that it was cut.
func bounded[T any](p *pane, list []T, l limits) []T {
	if len(list) > l.list {
		p.Shorter = true
		return list[:l.list]
	}
	return list
}

func scoreRows(scores []outcome.Score) []scoreRow {
	rows := []scoreRow{}
	for _, s := range scores[:min(len(scores), 60)] {
		note := s.Comment
		if s.Value == nil {
			note = s.Reason
		}
		rows = append(rows, scoreRow{printable.Line(cutTo(s.Name, 100)), s.Value, printable.Line(cutTo(note, 300))})
	}
	return rows
}

// indented spreads JSON over lines; what is none stays as it is.
func indented(raw json.RawMessage) string {
	var v any
	if json.Unmarshal(raw, &v) != nil {
		return string(raw)
	}
	if s, ok := v.(string); ok {
		return s
	}
	return string(jsonIndent(raw))
}
