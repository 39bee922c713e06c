// Package pipeline turns a document into an extraction. It holds the seam that
// everything above it talks to, the Extractor. It knows nothing of datasets,
// scores or Langfuse.
//
// An extractor is given the document and the item's schemas, never the
// expected output. It answers with what it found and with the calls it made;
// the calls come back from an extraction that fails as well, because they were
// paid for and belong on the trace.
//
//	found, calls, err := extractor.Extract(ctx, doc)
//
// An *outcome.Failure in the chain of the error says which class of failure it
// was; outcome.FailureOf reads it.
package pipeline

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"extraction-experiment/extraction"
	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/limit"
	"extraction-experiment/outcome"
	"extraction-experiment/pipeline/answer"
)

const (
	// mostRepairs is how often an invalid answer is sent back with what is wrong with it,
	// of which maxProblemsShown are said.
	mostRepairs      = 1
	maxProblemsShown = 20
	// mostRunes is the most of a document that one request holds, in code points; longer
	// ones are split so that chunks overlap, and merged.
	mostRunes, overlap = 40_000, 1_000
)

// Config says how a document becomes an extraction by asking a model. Model,
// Name and Prompt are required.
type Config struct {
	Model Model
	// Name and Provider are what calls are recorded under.
	Name, Provider string
	Prompt         Template
	// Vars are identifiers of the prompt that the item fills.
	Vars       []Var
	Parameters Parameters
	// Capabilities decide whether the schema is sent or put in words.
	Capabilities Capabilities
	// Vocabulary says which statements of different chunks are the same.
	Vocabulary Vocabulary
	// Placeholders are the messages that stand for the message placeholders of
	// the prompt, by name.
	Placeholders map[string][]Message
	// TwoStages asks for the entities first, and then for the relationships
	// between those that were found.
	TwoStages bool
	// Schema, if set, is sent in place of the one made from the item's schemas:
	// what the prompt's author stored with it. It must be a JSON object, and is
	// of no use with TwoStages.
	Schema json.RawMessage
	// Now reads the clock for the times of calls; nil means time.Now.
	Now func() time.Time
}

// Pipeline is an Extractor over a language model. It compiles the prompt for
// the document, asks, parses the answer tolerantly, checks it against the
// document's schemas and asks again where it is invalid; long documents are
// split and what their chunks gave is merged. Safe for concurrent use.
type Pipeline struct{ cfg Config }

// New checks the configuration, the prompt included, and returns every problem
// of it at once. The exit code is for the caller to say: 64, if a person chose
// what is wrong.
func New(cfg Config) (*Pipeline, error) {
	var problems []error
	if cfg.TwoStages && cfg.Schema != nil {
		problems = append(problems, errors.New("a schema of the prompt's own cannot be asked for in two stages"))
	}
	problems = append(problems, cfg.Prompt.Check(cfg.Vars, slices.Collect(maps.Keys(cfg.Placeholders))))
	trial := Request{Messages: []Message{{Role: RoleUser, Content: "x"}}, Parameters: cfg.Parameters}
	if cfg.Schema != nil {
		trial.Schema = &Schema{Name: answer.SchemaName, JSON: cfg.Schema}
	}
	problems = append(problems, cfg.Capabilities.Check(trial))
	if err := errors.Join(problems...); err != nil {
		return nil, err
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &Pipeline{cfg}, nil
}

// Extract asks the model about each chunk in turn and merges what it said. The
// first chunk without a usable answer fails the document: a part would look
// like the whole. Mentions quote the document; quotes and names that do not
// occur in it are left as they are, without a place.
func (p *Pipeline) Extract(ctx context.Context, doc extraction.Document) (extraction.Extraction, []outcome.Call, error) {
	var calls []outcome.Call
	var parts []chunkFound
	chunks := splitText(doc.Text, mostRunes, overlap)
	for i, c := range chunks {
		if strings.TrimSpace(c.Text) == "" {
			continue
		}
		piece, name := doc, "extract"
		piece.Text = c.Text
		if len(chunks) > 1 {
			name = fmt.Sprintf("extract-part-%d-of-%d", i+1, len(chunks))
		}
		found, asked, err := p.about(ctx, &piece, name)
		calls = append(calls, asked...)
		if err != nil {
			if len(chunks) > 1 {
				err = fmt.Errorf("part %d of %d of the document: %w", i+1, len(chunks), err)
			}
			return extraction.Extraction{}, calls, err
		}
		parts = append(parts, chunkFound{Extraction: found, chunk: c})
	}
	began := p.cfg.Now().UTC()
	merged, warnings := mergeChunks(parts, p.cfg.Vocabulary)
	grounded, report := doc.Index().Ground(merged)
	return answer.Normalise(grounded, doc), append(calls, outcome.Call{
		Name: "merge", Kind: "span", Started: began, Ended: p.cfg.Now().UTC(),
		Output:   encoded(merging{len(parts), report.Invented, report.Lost, warnings}),
		Warnings: warnings,
	}), nil
}

// merging is what the trace says of the last step.
type merging struct {
	Parts    int      `json:"parts"`
	Invented []string `json:"names_not_in_the_document,omitempty"`
	Lost     []string `json:"quotes_not_in_the_document,omitempty"`
	Warnings []string `json:"warnings,omitempty"`
}

// about asks about one chunk: in one stage, or for entities first and then for
// relationships between them.
func (p *Pipeline) about(ctx context.Context, piece *extraction.Document, name string) (extraction.Extraction, []outcome.Call, error) {
	q := question{pipeline: p, doc: *piece, name: name}
	if !p.cfg.TwoStages {
		found, err := q.answer(ctx)
		return found, q.calls, err
	}
	q.name, q.part = name+"-entities", answer.EntitiesOnly
	found, err := q.answer(ctx)
	if err != nil || len(found.Entities) == 0 {
		found.Relationships = []extraction.Relationship{}
		return found, q.calls, err
	}
	q.name, q.part, q.known = name+"-relationships", answer.RelationshipsOnly, found.Entities
	related, err := q.answer(ctx)
	found.Relationships = related.Relationships
	return found, q.calls, err
}

// Extractor finds entities and relationships in a document.
//
// Extract returns what was found and every call that was made on the way, in
// the order in which they began; the calls are returned with an error too. It
// stops soon after ctx is done and then returns an error that wraps ctx.Err().
// The types it returns are those of the document's schemas. An error says what
// happened in words for a person; an *outcome.Failure in its chain says how it counts. Implementations
// are safe for concurrent use.
type Extractor interface {
	Extract(ctx context.Context, doc extraction.Document) (extraction.Extraction, []outcome.Call, error)
}

// question is the conversation about one chunk: the prompt, and after an
// invalid answer what is wrong with it.
type question struct {
	pipeline *Pipeline
	doc      extraction.Document
	name     string
	part     answer.Part
	// known are the entities of the first stage, when relationships are asked for.
	known []extraction.Entity
	calls []outcome.Call
}

// answer asks until the answer is valid, or the repairs are used up. An answer
// that can be read but breaks the schemas is still the answer then, the last
// such one: what is wrong with it is a warning on its call, and for the scores
// to show.
func (q *question) answer(ctx context.Context) (extraction.Extraction, error) {
	req, err := q.request()
	if err != nil {
		return extraction.Extraction{}, err
	}
	cfg := &q.pipeline.cfg
	var readable *extraction.Extraction
	for repair := 0; ; repair++ {
		q.calls = append(q.calls, outcome.Call{})
		call := &q.calls[len(q.calls)-1]
		call.Name, call.Provider, call.Model = q.name, cfg.Provider, cfg.Name
		if repair > 0 {
			call.Name = fmt.Sprintf("%s-repair-%d", q.name, repair)
		}
		res, err := Ask(ctx, cfg.Model, req, call, cfg.Now)
		var problems []string
		if err == nil {
			var found extraction.Extraction
			if found, problems, err = q.read(res.Text); err == nil {
				readable = &found
			}
			q.warn(problems)
		}
		last := repair == mostRepairs || problems == nil
		switch {
		case err != nil && (ctx.Err() != nil || limit.StopsRun(err)), last && readable == nil:
			return extraction.Extraction{}, err
		case last:
			return *readable, nil
		}
		said := problems[:min(len(problems), maxProblemsShown)]
		complaint := "Your answer has problems:\n- " + strings.Join(said, "\n- ") +
			"\nAnswer again with the whole corrected JSON object and nothing else."
		req.Messages = append(req.Messages, Message{RoleAssistant, res.Text}, Message{RoleUser, complaint})
	}
}

// warn notes on the newest call what is wrong with its answer.
func (q *question) warn(problems []string) {
	const shown = 3
	if len(problems) == 0 {
		return
	}
	text := strings.Join(problems[:min(shown, len(problems))], "; ")
	if len(problems) > shown {
		text += fmt.Sprintf("; and %d more", len(problems)-shown)
	}
	call := &q.calls[len(q.calls)-1]
	call.Warnings = append(call.Warnings, call.Name+": the answer is not valid: "+text)
}

// request compiles the prompt for the chunk.
func (q *question) request() (Request, error) {
	cfg := q.pipeline.cfg
	vars, err := DocumentVars(q.doc, cfg.Vars...)
	var messages []Message
	if err == nil {
		vars.Messages = cfg.Placeholders
		messages, err = Compile(cfg.Prompt, vars)
	}
	if err != nil {
		return Request{}, &outcome.Failure{Class: outcome.Item, Message: err.Error()}
	}
	req := Request{Messages: messages, Parameters: cfg.Parameters}
	last := &req.Messages[len(req.Messages)-1]
	if q.part == answer.RelationshipsOnly {
		known := cli.Each(q.known, func(e extraction.Entity) map[string]string {
			return map[string]string{"name": e.Name, "type": e.Type}
		})
		last.Content += "\n\nThe entities are known. State relationships between these only:\n" + string(encoded(known))
	}
	switch {
	case !cfg.Capabilities.SendsSchema():
		last.Content += "\n\n" + answer.Instruction(q.doc, q.part)
	case cfg.Schema != nil:
		req.Schema = &Schema{Name: answer.SchemaName, JSON: cfg.Schema}
	default:
		req.Schema = &Schema{Name: answer.SchemaName, JSON: answer.Schema(q.doc, q.part)}
	}
	return req, nil
}

// read takes an answer apart; problems are what the model is told, the error is
// set where nothing of the answer can be used.
func (q *question) read(text string) (extraction.Extraction, []string, error) {
	result, err := answer.Parse(text)
	if err != nil {
		return extraction.Extraction{}, err.(*answer.Error).Problems, err // it has no other errors
	}
	checked := result.Extraction
	if q.part == answer.RelationshipsOnly {
		checked.Entities = q.known // their ends are among these
	}
	problems := answer.Validate(answer.Normalise(checked, q.doc), q.doc)
	if result.Truncated {
		problems = append(problems, "the answer ends before its JSON does")
	}
	return result.Extraction, problems, nil
}

// Ask is Record for whom an answer that is of no use, whatever it says, is an
// error: refused, cut by the limit of tokens, or empty. That is an
// *outcome.Failure of class invalid_output.
func Ask(ctx context.Context, model Model, req Request, call *outcome.Call, now func() time.Time) (res Response, err error) {
	if res, err = Record(ctx, model, req, call, now); err != nil {
		return res, err
	}
	switch {
	case res.Finish == FinishRefused && res.Text == "":
		call.Error = "the model or its content filter declined to answer, without a reason"
	case res.Finish == FinishRefused:
		call.Error = fmt.Sprintf("the model declined to answer: %.300s", res.Text)
	case res.Finish == FinishLength:
		call.Error = fmt.Sprintf("the answer was cut by the limit of tokens after %d: raise --max-tokens", res.Usage.Output)
	case strings.TrimSpace(res.Text) == "":
		call.Error = "the answer is empty"
	default:
		return res, nil
	}
	return res, &outcome.Failure{Class: outcome.InvalidOutput, Message: call.Error}
}

// Record sends one request to a model and writes down what came of it: call
// holds the name, the provider and the model's name under which that is done, now
// reads the clock. Afterwards it says what was asked, answered, used and paid,
// also where an error is returned; it begins when the last request of the model
// was sent, not while it waited. The error is that of the model.
func Record(ctx context.Context, model Model, req Request, call *outcome.Call, now func() time.Time) (res Response, err error) {
	call.Kind = "generation"
	call.Started = now().UTC()
	call.Input, req.Sent = nil, &call.Input
	res, err = model.Generate(ctx, req)
	call.Ended = now().UTC()
	call.Parameters = encoded(req.Parameters)
	if call.Input == nil {
		call.Input = AppendMessages(nil, req.Messages)
	}
	call.Started = call.Started.Add(res.Waited)
	call.Waited, call.Cached, call.Attempts = res.Waited, res.Cached, res.Attempts
	if !res.Cached {
		call.Attempts = max(1, res.Attempts)
	}
	// An answer that comes with an error was paid for all the same.
	if res.Model != "" {
		call.Model = res.Model
	}
	call.Usage, call.Assumed, call.CostUSD, call.Finish = res.Usage, res.Assumed, res.CostUSD, string(res.Finish)
	if res.Text != "" {
		call.Output = encoded(res.Text)
	}
	if res.Odd != "" {
		call.Warnings = append(call.Warnings, call.Name+": "+res.Odd)
	}
	if err != nil {
		call.Error = outcome.FailureOf(err, outcome.Provider).Message
	}
	return res, err
}

// encoded marshals what always can be marshalled.
func encoded(v any) json.RawMessage {
	raw, _ := json.Marshal(v)
	return raw
}

type trialKey struct{}

// Trial says for which answer a model is asked, where the same request is made
// several times on purpose.
type Trial struct {
	// Number counts the trials of a run; 0 means 1.
	Number int
	// Again says that an earlier answer was of no use: a cache must not give it
	// again.
	Again bool
}

// WithTrial returns a context whose calls belong to the trial.
func WithTrial(ctx context.Context, t Trial) context.Context {
	return context.WithValue(ctx, trialKey{}, t)
}

// TrialOf returns the trial of a context; the first one where none was set.
func TrialOf(ctx context.Context) Trial {
	t, _ := ctx.Value(trialKey{}).(Trial)
	t.Number = max(t.Number, 1)
	return t
}
