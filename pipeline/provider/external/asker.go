package external

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"strconv"

	"extraction-experiment/outcome"
)

// Asker sends requests of any form to a program or an endpoint, by the same
// protocol as an Extractor: one JSON object a request, one an answer. It is safe
// for concurrent use.
type Asker struct{ extractor *Extractor }

// NewAsker makes an Asker. It sends nothing and starts nothing; errors as of
// New.
func NewAsker(cfg Config) (*Asker, error) {
	e, err := New(cfg)
	if err != nil {
		return nil, err
	}
	return &Asker{e}, nil
}

// Target says what is asked, for run metadata; secrets are masked.
func (a *Asker) Target() string { return a.extractor.Target() }

// Reached reports as that of an Extractor.
func (a *Asker) Reached() bool { return a.extractor.Reached() }

// Close ends all processes, or closes idle connections.
func (a *Asker) Close() error { return a.extractor.Close() }

// Ask sends one request, once, with an "id" added, and returns the fields of
// the answer. The calls are a span "external-ask" and those that the answer
// reports with "calls", "usage", "cost_usd" and "model", as of an Extractor; an
// "error" in the answer is an error here. Errors as of Extractor.Extract. Secrets
// of the environment that the answer repeats are masked.
func (a *Asker) Ask(ctx context.Context, request map[string]any) (map[string]json.RawMessage, []outcome.Call, error) {
	e := a.extractor
	span := outcome.Call{Name: "external-ask", Kind: "span", Provider: Name, Model: e.cfg.Model, Attempts: 1, Started: e.cfg.Now().UTC()}
	whole := map[string]any{"id": strconv.FormatInt(e.asked.Add(1), 10)}
	maps.Copy(whole, request)
	line, err := json.Marshal(whole)
	if err != nil {
		return nil, nil, fmt.Errorf("writing the request: %w", err)
	}
	raw, err := e.peer.ask(ctx, line)
	span.Ended = e.cfg.Now().UTC()
	if err != nil {
		return nil, e.failed(span, err), err
	}
	said, fields := readReport(raw, span)
	if len(said.warnings.list) > 0 {
		said.span.Warnings = said.warnings.list
	}
	if said.err != nil {
		said.span.Error = said.err.Error()
		return nil, said.all(), said.err
	}
	return fields, said.all(), nil
}
