package html

import (
	"bytes"
	"encoding/json"

	"extraction-experiment/internal/printable"
	"extraction-experiment/outcome"
)

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
		Name: printable.Line(cutTo(c.Name, 100)), Kind: printable.Line(cutTo(c.Kind, 40)), Model: printable.Line(cutTo(c.Model, 100)),
		Input: c.Usage.Input, Output: c.Usage.Output, Cost: c.CostUSD, Finish: printable.Line(cutTo(c.Finish, 40)), Attempts: c.Attempts,
		Error: printable.Block(cutTo(c.Error, 4000)), Parameters: printable.Line(cutTo(string(c.Parameters), 1000)), Messages: []message{},
	}
	if !c.Started.IsZero() && !c.Ended.Before(c.Started) {
		out.MS = float64(c.Ended.Sub(c.Started).Microseconds()) / 1000
	}
	for _, m := range bounded(p, messages(c.Input), l) {
		q := newQuote(m.content, l)
		p.Shorter = p.Shorter || q.Cut > 0
		out.Messages = append(out.Messages, message{printable.Line(cutTo(m.role, 40)), q})
	}
	if len(c.Output) > 0 {
		q := newQuote(indented(c.Output), l)
		out.Answer, p.Shorter = &q, p.Shorter || q.Cut > 0
	}
	return out
}

type spoken struct{ role, content string }

// messages reads the input of a call: a list of messages with role and content,
// or anything else as it is.
func messages(raw json.RawMessage) []spoken {
	if len(bytes.TrimSpace(raw)) == 0 {
		return nil
	}
	var list []struct {
		Role    string          `json:"role"`
		Content json.RawMessage `json:"content"`
	}
	if json.Unmarshal(raw, &list) != nil || len(list) == 0 {
		return []spoken{{"", indented(raw)}}
	}
	out := make([]spoken, 0, len(list))
	for _, m := range list {
		if m.Role == "" && m.Content == nil {
			return []spoken{{"", indented(raw)}}
		}
		out = append(out, spoken{m.Role, indented(m.Content)})
	}
	return out
}

func jsonIndent(raw []byte) []byte {
	var b bytes.Buffer
	if json.Indent(&b, raw, "", "  ") != nil {
		return raw
	}
	return b.Bytes()
}
