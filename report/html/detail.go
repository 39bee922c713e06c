package html

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	"extraction-experiment/extraction"
	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/textutil"
	"extraction-experiment/outcome"
	"extraction-experiment/report"
)

// Faults of an answer: it lacks a term or a citation, or has a forbidden term.
const (
	causeMissed    = "missed"
	causeForbidden = "forbidden"
)

// limits bounds the shown part of an item.
type limits struct {
	text int // characters of the document, and of each message and answer
	list int // rows of each table, calls, warnings
}

// Limits of the details of an item. maxText and maxList are the largest limits, minText and
// minList the smallest. Details have at most maxDetail bytes. An item may use minDetail bytes
// for each run even if its equal share is less; then less is left for later items. Details that
// do not fit are replaced by noDetail.
const (
	maxText, maxList     = 256 << 10, 4096
	minText, minList     = 256, 8
	maxDetail, minDetail = 1 << 20, 8 << 10
	noDetail             = `{"runs":[]}`
	// maxHalvings is the number of halvings from the largest to the smallest limits.
	maxHalvings = 10
)

// byteBudget shares the bytes of a page among its items. Each item may use an equal share of
// what is left, so that later items can use what small items leave.
type byteBudget struct {
	bytes, items int
	halvings     int // of the limits, for the last item
}

// fit encodes the details of an item with the largest limits for which they fit its share, and
// reports whether anything was left out. It halves the limits until the details fit. Because
// items are similar, it starts with the limits of the last item.
func (b *byteBudget) fit(row []*report.ItemView, w *writer) (raw []byte, cut bool) {
	minShare := minDetail * len(row)
	share := min(maxDetail, b.bytes, max(minShare, b.bytes/max(1, b.items)))
	b.items--
	raw, cut = []byte(noDetail), true
	if share >= minShare/2 { // hardly any item fits less
		text := min(maxText, share)
		smallest, halvings := maxHalvings+1, b.halvings
		for tooLarge := -1; tooLarge < halvings && halvings < smallest; {
			d := w.detail(row, limits{max(minText, text>>halvings), max(minList, maxList>>halvings)})
			if encoded, err := json.Marshal(d); err == nil && len(encoded) <= share {
				raw, cut, smallest = encoded, d.cut(), halvings
				halvings--
			} else {
				tooLarge = halvings
				halvings++
			}
		}
		b.halvings = min(smallest, maxHalvings)
	}
	b.bytes -= len(raw)
	return raw, cut
}

// detail holds everything that the page of an item shows, by run. A comparison has the document
// once, marked with the entities that were expected and that each run extracted.
type detail struct {
	*markedText
	Runs []*pane `json:"runs"`
}

// pane shows one item of one run, independently of the panes of other runs beside it.
type pane struct {
	markedText
	Trace         string           `json:"trace,omitempty"` // address of the trace
	Failure       *outcome.Failure `json:"failure,omitempty"`
	Scores        []scoreRow       `json:"scores"`
	Entities      []itemRow        `json:"entities"`
	Relationships []itemRow        `json:"relationships"`
	Terms         []itemRow        `json:"terms,omitempty"` // of an answer
	Calls         []call           `json:"calls"`
	Output        *excerpt         `json:"output,omitempty"`
	Warnings      []string         `json:"warnings"`
	Attempt       int              `json:"attempt,omitempty"` // empty for the first
	Shorter       bool             `json:"shorter,omitempty"` // anything but the document was cut
}

type scoreRow struct {
	Name  string   `json:"name"`
	Value *float64 `json:"value"`
	Note  string   `json:"note,omitempty"`
}

// excerpt is the beginning of a text.
type excerpt struct {
	Text string `json:"text"`
	Cut  int    `json:"cut,omitempty"` // number of omitted characters
}

func newExcerpt(s string, maxChars int) excerpt {
	_, omitted := report.FirstRunes(s, maxChars)
	return excerpt{textutil.Block(report.Brief(s, maxChars)), omitted}
}

func (w *writer) detail(views []*report.ItemView, l limits) detail {
	d := detail{Runs: make([]*pane, len(views))}
	sides := make([]*extraction.Extraction, 1+len(views)) // the expected one, then that of each run
	text := ""
	for i, v := range views {
		if v == nil {
			continue
		}
		p := newPane(v, l)
		if w.cfg.Trace != nil {
			p.Trace = w.cfg.Trace(w.runIndex[i], v.Outcome)
		}
		if !w.paired {
			p.markedText = highlight(v.Text, l.text, v.Expected, v.Extracted)
		}
		d.Runs[i], sides[i+1] = p, v.Extracted
		sides[0], text = cmp.Or(sides[0], v.Expected), cmp.Or(text, v.Text)
	}
	if w.paired {
		d.markedText = new(highlight(text, l.text, sides...))
	}
	return d
}

// cut reports whether anything was left out.
func (d detail) cut() bool {
	return d.markedText != nil && d.Cut > 0 || slices.ContainsFunc(d.Runs, func(p *pane) bool { return p != nil && (p.Cut > 0 || p.Shorter) })
}

func newPane(v *report.ItemView, l limits) *pane {
	o := v.Outcome
	p := &pane{Scores: []scoreRow{}}
	if o.Failed() {
		p.Failure = &outcome.Failure{Class: outcome.Class(clip(string(o.Class), maxRowClass))}
		if o.Failure != nil {
			p.Failure.Message = textutil.Block(report.Brief(o.Failure.Message, l.text))
		}
	}
	for _, s := range firstN(o.Scores, 60) {
		note := s.Comment
		if s.Value == nil {
			note = s.Reason
		}
		p.Scores = append(p.Scores, scoreRow{clip(s.Name, 100), s.Value, clipName(note)})
	}
	rows := rowsOf(v)
	p.Entities = limitList(p, rows["entity"], l)
	p.Relationships = limitList(p, rows["relationship"], l)
	p.Terms = limitList(p, rows["term"], l)
	p.Calls = cli.Each(limitList(p, o.Calls, l), func(c outcome.Call) call { return p.call(c, l) })
	if len(o.Output) > 0 {
		p.Output = new(p.excerpt(report.Indented(o.Output), l))
	}
	warnings := cli.Each(limitList(p, o.Warnings, l), func(s string) string { return clip(s, 2000) })
	p.Warnings = append([]string{}, warnings...)
	if o.Attempt > 1 {
		p.Attempt = o.Attempt
	}
	return p
}

// limitList shortens a list and records in p whether it was cut.
func limitList[T any](p *pane, list []T, l limits) []T {
	p.Shorter = p.Shorter || len(list) > l.list
	return firstN(list, l.list)
}

// excerpt shortens a text and records in p whether it was cut.
func (p *pane) excerpt(s string, l limits) excerpt {
	q := newExcerpt(s, l.text)
	p.Shorter = p.Shorter || q.Cut > 0
	return q
}

// call is a step of the task: the prompt of a model and its answer.
type call struct {
	Name       string    `json:"name"`
	Kind       string    `json:"kind,omitempty"`
	Model      string    `json:"model,omitempty"`
	MS         float64   `json:"ms"`
	Input      int64     `json:"input,omitempty"`  // tokens
	Output     int64     `json:"output,omitempty"` // tokens
	Cost       *float64  `json:"cost,omitempty"`
	Finish     string    `json:"finish,omitempty"`
	Attempts   int       `json:"attempts,omitempty"`
	Error      string    `json:"error,omitempty"`
	Parameters string    `json:"parameters,omitempty"`
	Messages   []message `json:"messages"`
	Answer     *excerpt  `json:"answer,omitempty"`
}

// message is a message of a prompt.
type message struct {
	Role string `json:"role,omitempty"`
	excerpt
}

func (p *pane) call(c outcome.Call, l limits) call {
	out := call{
		Name: clip(c.Name, 100), Kind: clip(c.Kind, 40), Model: clip(c.Model, 100),
		Input: c.Usage.Input, Output: c.Usage.Output, Cost: c.CostUSD,
		Finish: clip(c.Finish, 40), Attempts: c.Attempts, Error: textutil.Block(report.Brief(c.Error, 4000)),
		Parameters: clipLine(string(c.Parameters)), Messages: []message{},
	}
	if !c.Started.IsZero() && !c.Ended.Before(c.Started) {
		out.MS = float64(c.Ended.Sub(c.Started).Microseconds()) / 1000
	}
	type chatMessage struct {
		Role    string          `json:"role"`
		Content json.RawMessage `json:"content"`
	}
	var messages []chatMessage // input that is not a list of messages becomes one message
	err, isEmpty := json.Unmarshal(c.Input, &messages), func(m chatMessage) bool { return m.Role == "" && m.Content == nil }
	if len(bytes.TrimSpace(c.Input)) == 0 {
		messages = nil
	} else if err != nil || len(messages) == 0 || slices.ContainsFunc(messages, isEmpty) {
		messages = []chatMessage{{Content: c.Input}}
	}
	for _, m := range limitList(p, messages, l) {
		out.Messages = append(out.Messages, message{clip(m.Role, 40), p.excerpt(report.Indented(m.Content), l)})
	}
	if len(c.Output) > 0 {
		out.Answer = new(p.excerpt(report.Indented(c.Output), l))
	}
	return out
}

// itemRow is a row of the table of entities, of relationships or of terms: a matched pair, a
// missed and a spurious one that are one fault, a missed or spurious one alone, or one that was
// not judged.
type itemRow struct {
	State     string `json:"state"` // ok, type (a wrong one), missed, spurious, near (missed and spurious as one fault), or unjudged
	Expected  *side  `json:"expected,omitempty"`
	Extracted *side  `json:"extracted,omitempty"`
	// Kind is the kind of the match, or the cause of the fault.
	Kind       string  `json:"kind,omitempty"`
	Similarity float64 `json:"similarity,omitempty"`
	Nearest    string  `json:"nearest,omitempty"`
	Why        string  `json:"why,omitempty"`
}

// side is an entity (name and type), a relationship (source, type, target) or a term (its text).
type side struct {
	Index  int    `json:"i"`
	Name   string `json:"name"`
	Type   string `json:"type,omitempty"`
	Target string `json:"target,omitempty"`
	Plain  bool   `json:"plain,omitempty"` // a text that is not marked in the document
}

// kindOf returns the table for a kind of thing: records of the bench are entities; everything
// except entities and relationships is a term, a part of an answer.
func kindOf(what string) string {
	switch what {
	case "entity", "record":
		return "entity"
	case "relationship":
		return what
	}
	return "term"
}

// isAnswerPart reports whether a kind of thing is a part of an answer.
func isAnswerPart(what string) bool { return kindOf(what) == "term" }

// sideOf returns an entity or a relationship by its index, or a part of an answer by its text.
// It is nil if e does not have index i.
func sideOf(e *extraction.Extraction, what string, i int, text string) *side {
	switch {
	case isAnswerPart(what):
		return &side{Index: i, Name: clipName(text), Plain: true}
	case e == nil || i < 0:
		return nil
	case kindOf(what) == "entity" && i < len(e.Entities):
		return &side{Index: i, Name: clipName(e.Entities[i].Name), Type: clipName(e.Entities[i].Type)}
	case what == "relationship" && i < len(e.Relationships):
		r := e.Relationships[i]
		return &side{Index: i, Name: clipName(cmp.Or(r.Source, r.SourceRef)), Type: clipName(r.Type), Target: clipName(cmp.Or(r.Target, r.TargetRef))}
	}
	return nil
}

// rowsOf returns the rows of the entities, the relationships and the terms, by kind: the matched ones first,
// then what was missed, what is spurious, and what was not judged.
func rowsOf(v *report.ItemView) map[string][]itemRow {
	rows := map[string][]itemRow{"entity": {}, "relationship": {}}
	add := func(what string, r itemRow) { rows[kindOf(what)] = append(rows[kindOf(what)], r) }
	for _, m := range v.Matches {
		r := itemRow{State: "ok", Kind: report.Words(m.Kind),
			Expected: sideOf(v.Expected, m.What, m.ExpectedIndex, m.Expected), Extracted: sideOf(v.Extracted, m.What, m.ExtractedIndex, m.Extracted)}
		if !isAnswerPart(m.What) {
			r.Similarity = m.Similarity
		}
		if m.TypeCorrect != nil && !*m.TypeCorrect {
			r.State, r.Why = "type", "wrong type"
		}
		add(m.What, r)
	}
	type place struct {
		kind  string
		index int
	}
	missed, spurious := map[place]report.Fault{}, map[place]report.Fault{}
	for _, f := range v.Faults {
		if f.ExpectedIndex != nil {
			missed[place{kindOf(f.What), *f.ExpectedIndex}] = f
		}
		if f.ExtractedIndex != nil {
			spurious[place{kindOf(f.What), *f.ExtractedIndex}] = f
		}
	}
	for _, m := range v.Missed {
		f := missed[place{kindOf(m.What), m.Index}]
		r := missRow("missed", m, f)
		r.Expected = sideOf(v.Expected, m.What, m.Index, m.Value)
		if f.ExtractedIndex != nil {
			r.State, r.Extracted = "near", sideOf(v.Extracted, m.What, *f.ExtractedIndex, f.Extracted)
		}
		add(m.What, r)
	}
	for _, m := range v.Spurious {
		if f := spurious[place{kindOf(m.What), m.Index}]; f.ExpectedIndex == nil { // otherwise in the row of the missed one
			r := missRow("spurious", m, f)
			r.Extracted = sideOf(v.Extracted, m.What, m.Index, m.Value)
			add(m.What, r)
		}
	}
	for _, kind := range []string{"entity", "relationship"} {
		rows[kind] = append(rows[kind], unjudgedRows(v, kind, rows[kind])...)
	}
	return rows
}

// missRow returns a row of what has no match, without its sides.
func missRow(state string, m report.Miss, f report.Fault) itemRow {
	return itemRow{State: state, Kind: report.Words(cmp.Or(f.Cause, state)), Nearest: clipName(m.Nearest),
		Similarity: m.Similarity, Why: strings.ReplaceAll(clipName(m.Reason), "_", " ")}
}

// unjudgedRows returns rows of entities or relationships that are in no other row: what was
// expected of a failed item, what was extracted but is not annotated in the expected output, and
// repetitions that are not counted.
func unjudgedRows(v *report.ItemView, kind string, judged []itemRow) (list []itemRow) {
	why := ""
	switch {
	case v.Outcome.Failed():
		why = "the item failed"
	case v.Expected == nil, kind == "entity" && v.Expected.Entities == nil,
		kind == "relationship" && v.Expected.Relationships == nil:
		why = "not annotated"
	}
	for i, e := range []*extraction.Extraction{v.Expected, v.Extracted} {
		seen := map[int]bool{}
		for _, r := range judged {
			if s := []*side{r.Expected, r.Extracted}[i]; s != nil {
				seen[s.Index] = true
			}
		}
		for n, s := 0, sideOf(e, kind, 0, ""); s != nil; n, s = n+1, sideOf(e, kind, n+1, "") {
			if sides := [2]*side{}; !seen[n] {
				sides[i] = s
				list = append(list, itemRow{State: "unjudged", Kind: "not judged", Why: why, Expected: sides[0], Extracted: sides[1]})
			}
		}
	}
	return list
}
