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

// The faults of an answer: it lacks a term or a citation, or has a forbidden term.
const (
	causeMissed    = "missed"
	causeForbidden = "forbidden"
)

// limits say how much of an item is shown.
type limits struct {
	text int // characters of the document, and of each message and answer
	list int // rows of each table, calls, warnings
}

// The most that any item shows; the least, under which only a notice is left; the
// most bytes of the detail of an item, however few there are; what a run's part may have
// where a fair share is less, which then the last items pay for; and that notice.
const (
	mostText, mostList      = 256 << 10, 4096
	leastText, leastList    = 256, 8
	mostDetail, leastDetail = 1 << 20, 8 << 10
	nothing                 = `{"runs":[]}`
	// mostHalved is how often limits are halved from the most to the least.
	mostHalved = 10
)

// byteBudget shares the bytes of a page among its items: each may use an equal
// share of what is left, so that what small items leave over is there for later
// ones.
type byteBudget struct {
	bytes, items int
	halved       int // how often the limits of the last item were
}

// fit encodes as much of an item as its share allows, and says whether anything
// was left out: limits are halved as often as it is too large. As items are much alike,
// it is tried first with what was right for the last one.
func (b *byteBudget) fit(row []*report.ItemView, w *writer) (raw []byte, cut bool) {
	least := leastDetail * len(row)
	share := min(mostDetail, b.bytes, max(least, b.bytes/max(1, b.items)))
	b.items--
	raw, cut = []byte(nothing), true
	if share >= least/2 { // hardly an item has less
		text := min(mostText, share)
		fits, at := mostHalved+1, b.halved
		for tooLarge := -1; tooLarge < at && at < fits; {
			d := w.detail(row, limits{max(leastText, text>>at), max(leastList, mostList>>at)})
			if encoded, err := json.Marshal(d); err == nil && len(encoded) <= share {
				raw, cut, fits = encoded, d.cut(), at
				at--
			} else {
				tooLarge = at
				at++
			}
		}
		b.halved = min(fits, mostHalved)
	}
	b.bytes -= len(raw)
	return raw, cut
}

// detail is everything that the page of an item shows, by run. A comparison has its
// document once, with the places of what was expected and of what each run
// extracted.
type detail struct {
	*shownText
	Runs []*pane `json:"runs"`
}

// pane is one item of one run. It stands for itself, so that panes of several
// runs can be put side by side.
type pane struct {
	shownText
	Trace         string           `json:"trace,omitempty"` // address of its trace
	Failure       *outcome.Failure `json:"failure,omitempty"`
	Scores        []scoreRow       `json:"scores"`
	Entities      []itemRow        `json:"entities"`
	Relationships []itemRow        `json:"relationships"`
	Terms         []itemRow        `json:"terms,omitempty"` // of an answer
	Calls         []call           `json:"calls"`
	Output        *quote           `json:"output,omitempty"`
	Warnings      []string         `json:"warnings"`
	Attempt       int              `json:"attempt,omitempty"` // from 2
	Shorter       bool             `json:"shorter,omitempty"` // something else was left out
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

func newQuote(s string, most int) quote {
	_, left := report.FirstRunes(s, most)
	return quote{textutil.Block(report.Brief(s, most)), left}
}

func (w *writer) detail(views []*report.ItemView, l limits) detail {
	d := detail{Runs: make([]*pane, len(views))}
	sides := make([]*extraction.Extraction, 1+len(views)) // what was expected, and what each run extracted
	text := ""
	for i, v := range views {
		if v == nil {
			continue
		}
		p := newPane(*v, l)
		if w.cfg.Trace != nil {
			p.Trace = w.cfg.Trace(w.places[i], v.Outcome)
		}
		if !w.paired {
			p.shownText = highlighted(v.Text, l.text, v.Expected, v.Extracted)
		}
		d.Runs[i], sides[i+1] = p, v.Extracted
		sides[0], text = cmp.Or(sides[0], v.Expected), cmp.Or(text, v.Text)
	}
	if w.paired {
		d.shownText = new(highlighted(text, l.text, sides...))
	}
	return d
}

// cut reports whether anything was left out.
func (d detail) cut() bool {
	return d.shownText != nil && d.Cut > 0 || slices.ContainsFunc(d.Runs, func(p *pane) bool { return p != nil && (p.Cut > 0 || p.Shorter) })
}

func newPane(v report.ItemView, l limits) *pane {
	o := v.Outcome
	p := &pane{Scores: []scoreRow{}, Warnings: []string{}}
	if o.Failed() {
		p.Failure = &outcome.Failure{Class: outcome.Class(short(string(o.Class), rowClass))}
		if o.Failure != nil {
			p.Failure.Message = textutil.Block(report.Brief(o.Failure.Message, l.text))
		}
	}
	for _, s := range first(o.Scores, 60) {
		note := s.Comment
		if s.Value == nil {
			note = s.Reason
		}
		p.Scores = append(p.Scores, scoreRow{short(s.Name, 100), s.Value, named(note)})
	}
	p.Entities = bounded(p, rowsOf(v, "entity"), l)
	p.Relationships = bounded(p, rowsOf(v, "relationship"), l)
	p.Terms = bounded(p, rowsOf(v, "term"), l)
	p.Calls = cli.Each(bounded(p, o.Calls, l), func(c outcome.Call) call { return p.call(c, l) })
	if len(o.Output) > 0 {
		p.Output = new(p.quote(report.Indented(o.Output), l))
	}
	for _, warning := range bounded(p, o.Warnings, l) {
		p.Warnings = append(p.Warnings, short(warning, 2000))
	}
	if o.Attempt > 1 {
		p.Attempt = o.Attempt
	}
	return p
}

// bounded cuts a list and remembers that it was cut.
func bounded[T any](p *pane, list []T, l limits) []T {
	p.Shorter = p.Shorter || len(list) > l.list
	return first(list, l.list)
}

// quote cuts a text and remembers that it was cut.
func (p *pane) quote(s string, l limits) quote {
	q := newQuote(s, l.text)
	p.Shorter = p.Shorter || q.Cut > 0
	return q
}

// call is a step that the task took: the prompt of a model and its answer.
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
	Answer     *quote    `json:"answer,omitempty"`
}

// message is a part of a prompt.
type message struct {
	Role string `json:"role,omitempty"`
	quote
}

func (p *pane) call(c outcome.Call, l limits) call {
	out := call{
		Name: short(c.Name, 100), Kind: short(c.Kind, 40), Model: short(c.Model, 100),
		Input: c.Usage.Input, Output: c.Usage.Output, Cost: c.CostUSD,
		Finish: short(c.Finish, 40), Attempts: c.Attempts, Error: textutil.Block(report.Brief(c.Error, 4000)),
		Parameters: long(string(c.Parameters)), Messages: []message{},
	}
	if !c.Started.IsZero() && !c.Ended.Before(c.Started) {
		out.MS = float64(c.Ended.Sub(c.Started).Microseconds()) / 1000
	}
	type spoken struct {
		Role    string          `json:"role"`
		Content json.RawMessage `json:"content"`
	}
	var said []spoken // a list of messages, or anything else as it is
	err, empty := json.Unmarshal(c.Input, &said), func(m spoken) bool { return m.Role == "" && m.Content == nil }
	if len(bytes.TrimSpace(c.Input)) == 0 {
		said = nil
	} else if err != nil || len(said) == 0 || slices.ContainsFunc(said, empty) {
		said = []spoken{{Content: c.Input}}
	}
	for _, m := range bounded(p, said, l) {
		out.Messages = append(out.Messages, message{short(m.Role, 40), p.quote(report.Indented(m.Content), l)})
	}
	if len(c.Output) > 0 {
		out.Answer = new(p.quote(report.Indented(c.Output), l))
	}
	return out
}

// itemRow is a row of the table of entities, of relationships or of terms: a
// matched pair, a missed and a spurious one that are at fault together, one that
// was matched with nothing, or one that nobody judged.
type itemRow struct {
	State     string `json:"state"` // ok, type (the wrong one), missed, spurious, near: both, as one fault, or unjudged
	Expected  *side  `json:"expected,omitempty"`
	Extracted *side  `json:"extracted,omitempty"`
	// Kind of the match, or the cause of the fault.
	Kind       string  `json:"kind,omitempty"`
	Similarity float64 `json:"similarity,omitempty"`
	Nearest    string  `json:"nearest,omitempty"`
	Why        string  `json:"why,omitempty"`
}

// side is an entity (name and type), or a relationship (source, type, target).
type side struct {
	Index  int    `json:"i"`
	Name   string `json:"name"`
	Type   string `json:"type,omitempty"`
	Target string `json:"target,omitempty"`
	Plain  bool   `json:"plain,omitempty"` // a text that is marked nowhere
}

// kindOf is the table in which a thing stands: a record of the bench is an entity, what is no entity
// and no relationship a term, as a part of an answer.
func kindOf(what string) string {
	switch what {
	case "entity", "record":
		return "entity"
	case "relationship":
		return what
	}
	return "term"
}

// ofAnswer reports whether what was expected or found is a part of an answer.
func ofAnswer(what string) bool { return kindOf(what) == "term" }

// sideOf is a thing by its place, or by its text where it is a part of an answer; nil for
// no thing.
func sideOf(e *extraction.Extraction, what string, i int, text string) *side {
	switch {
	case ofAnswer(what):
		return &side{Index: i, Name: named(text), Plain: true}
	case e == nil || i < 0:
		return nil
	case kindOf(what) == "entity" && i < len(e.Entities):
		return &side{Index: i, Name: named(e.Entities[i].Name), Type: named(e.Entities[i].Type)}
	case what == "relationship" && i < len(e.Relationships):
		r := e.Relationships[i]
		return &side{Index: i, Name: named(cmp.Or(r.Source, r.SourceRef)), Type: named(r.Type), Target: named(cmp.Or(r.Target, r.TargetRef))}
	}
	return nil
}

// rowsOf lists the entities or the relationships, or else what an answer should have and
// should not have: the matched ones first, then what was missed and what is spurious.
func rowsOf(v report.ItemView, kind string) []itemRow {
	is := func(what string) bool { return kindOf(what) == kind }
	list := []itemRow{}
	for _, m := range v.Matches {
		if !is(m.What) {
			continue
		}
		r := itemRow{State: "ok", Kind: report.Words(m.Kind),
			Expected: sideOf(v.Expected, m.What, m.ExpectedIndex, m.Expected), Extracted: sideOf(v.Extracted, m.What, m.ExtractedIndex, m.Extracted)}
		if !ofAnswer(m.What) {
			r.Similarity = m.Similarity
		}
		if m.TypeCorrect != nil && !*m.TypeCorrect {
			r.State, r.Why = "type", "wrong type"
		}
		list = append(list, r)
	}
	missed, spurious := map[int]report.Fault{}, map[int]report.Fault{} // by the places of the things
	for _, f := range v.Faults {
		if is(f.What) && f.ExpectedIndex != nil {
			missed[*f.ExpectedIndex] = f
		}
		if is(f.What) && f.ExtractedIndex != nil {
			spurious[*f.ExtractedIndex] = f
		}
	}
	for i, m := range slices.Concat(v.Missed, v.Spurious) {
		state, f := "missed", missed[m.Index]
		if i >= len(v.Missed) {
			state, f = "spurious", spurious[m.Index]
		}
		if !is(m.What) || state == "spurious" && f.ExpectedIndex != nil {
			continue // the row of the missed one shows it
		}
		r := itemRow{State: state, Kind: report.Words(cmp.Or(f.Cause, state)),
			Nearest: named(m.Nearest), Similarity: m.Similarity, Why: strings.ReplaceAll(named(m.Reason), "_", " ")}
		if state == "spurious" {
			r.Extracted = sideOf(v.Extracted, m.What, m.Index, m.Value)
		} else {
			r.Expected = sideOf(v.Expected, m.What, m.Index, m.Value)
		}
		if state == "missed" && f.ExtractedIndex != nil {
			r.State, r.Extracted = "near", sideOf(v.Extracted, m.What, *f.ExtractedIndex, f.Extracted)
		}
		list = append(list, r)
	}
	if ofAnswer(kind) {
		return list
	}
	return append(list, unjudged(v, kind, list)...)
}

// unjudged are rows of what the others do not have: what was expected of an item that failed, what
// was extracted where the expected output does not annotate it, a repetition that counts nowhere.
func unjudged(v report.ItemView, kind string, judged []itemRow) (list []itemRow) {
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
