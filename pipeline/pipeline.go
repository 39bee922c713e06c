// Package pipeline turns a document into an extraction. Its central interface is the Extractor.
// It knows nothing of datasets, scores or Langfuse.
//
// An extractor gets the document and the schemas of the item, never the expected output. It
// returns what it found and the calls that it made. It returns the calls with an error too,
// because they were paid for and belong to the trace.
//
//	found, calls, err := extractor.Extract(ctx, doc)
//
// An *outcome.Failure in the chain of the error gives the class of the failure;
// outcome.FailureOf reads it.
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
	"extraction-experiment/internal/textutil"
	"extraction-experiment/outcome"
	"extraction-experiment/pipeline/answer"
)

const (
	// maxRepairs is how often an invalid answer is sent back with its problems, of which at
	// most maxProblemsShown are listed.
	maxRepairs       = 1
	maxProblemsShown = 20
	// maxRunes is the most code points of a document in one request. Longer documents are split
	// into chunks with this overlap, and the results are merged.
	maxRunes, overlap = 40_000, 1_000
)

// Config configures a Pipeline. Model, Name and Prompt are required.
type Config struct {
	Model Model
	// Name and Provider are the names in the recorded calls.
	Name, Provider string
	Prompt         Template
	// Vars are identifiers of the prompt whose values come from the item.
	Vars       []Var
	Parameters Parameters
	// Capabilities decide whether the schema is sent or described in the prompt.
	Capabilities Capabilities
	// Vocabulary says which statements of different chunks are the same.
	Vocabulary extraction.Vocabulary
	// Placeholders are the messages for the message placeholders of the prompt, by name.
	Placeholders map[string][]Message
	// TwoStages asks for the entities first, and then for the relationships between them.
	TwoStages bool
	// Schema, if not nil, is sent instead of the schema made from the item: the author of the
	// prompt stored it with the prompt. It must be a JSON object, and excludes TwoStages.
	Schema json.RawMessage
}

// Pipeline is an Extractor that asks a language model. It compiles the prompt for the document,
// asks, parses the answer tolerantly, checks it against the schemas of the document and asks
// again if it is invalid. It splits long documents and merges the results of the chunks. Safe
// for concurrent use.
type Pipeline struct{ cfg Config }

// New checks the configuration, the prompt included, and returns every problem at once.
// Problems of the prompt and of the parameters have exit code 64; the caller sets it for
// others.
func New(cfg Config) (*Pipeline, error) {
	var problems textutil.Problems
	problems.Add(cfg.Model == nil || cfg.Name == "", "the configuration of a pipeline needs a Model and its Name")
	problems.Add(cfg.TwoStages && cfg.Schema != nil, "a schema of the prompt's own cannot be asked for in two stages")
	probe := Request{Messages: []Message{{Role: RoleUser, Content: "x"}}, Parameters: cfg.Parameters}
	if cfg.Schema != nil {
		probe.Schema = &Schema{Name: answer.SchemaName, JSON: cfg.Schema}
	}
	placeholders := slices.Collect(maps.Keys(cfg.Placeholders))
	problems.Join(cfg.Prompt.Check(cfg.Vars, placeholders), cfg.Capabilities.Check(probe))
	if err := errors.Join(problems...); err != nil {
		return nil, err
	}
	return &Pipeline{cfg}, nil
}

// Extract asks the model about each chunk in turn and merges the results. If one chunk gets no
// usable answer, the document fails, because a part would look like the whole. Mentions quote
// the document; quotes and names that do not occur in it are left unchanged, without a place.
func (p *Pipeline) Extract(ctx context.Context, doc extraction.Document) (extraction.Extraction, []outcome.Call, error) {
	var calls []outcome.Call
	var parts []chunkResult
	chunks := splitText(doc.Text, maxRunes, overlap)
	for i, c := range chunks {
		if strings.TrimSpace(c.Text) == "" {
			continue
		}
		part, name := doc, "extract"
		part.Text = c.Text
		if len(chunks) > 1 {
			name = fmt.Sprintf("extract-part-%d-of-%d", i+1, len(chunks))
		}
		found, chunkCalls, err := p.extractChunk(ctx, &part, name)
		calls = append(calls, chunkCalls...)
		if err != nil {
			if len(chunks) > 1 {
				err = fmt.Errorf("part %d of %d of the document: %w", i+1, len(chunks), err)
			}
			return extraction.Extraction{}, calls, err
		}
		parts = append(parts, chunkResult{Extraction: answer.Normalise(found, doc), chunk: c})
	}
	started := time.Now().UTC()
	merged, warnings := mergeChunks(parts, p.cfg.Vocabulary)
	grounded, unfoundNames, unfoundQuotes := doc.Index().Ground(merged)
	return grounded, append(calls, outcome.Call{
		Name: "merge", Kind: "span", Started: started, Ended: time.Now().UTC(),
		Output:   marshal(mergeReport{len(parts), unfoundNames, unfoundQuotes, warnings}),
		Warnings: warnings,
	}), nil
}

// mergeReport is the output of the last call, "merge", in the trace.
type mergeReport struct {
	Parts    int      `json:"parts"`
	Invented []string `json:"names_not_in_the_document,omitempty"`
	Lost     []string `json:"quotes_not_in_the_document,omitempty"`
	Warnings []string `json:"warnings,omitempty"`
}

// extractChunk asks about one chunk: in one stage, or for entities first and then for
// relationships between them.
func (p *Pipeline) extractChunk(ctx context.Context, part *extraction.Document, name string) (extraction.Extraction, []outcome.Call, error) {
	c := conversation{pipeline: p, doc: *part, name: name}
	if !p.cfg.TwoStages {
		found, err := c.ask(ctx)
		return found, c.calls, err
	}
	c.name, c.part = name+"-entities", answer.EntitiesOnly
	found, err := c.ask(ctx)
	if err != nil || len(found.Entities) == 0 {
		found.Relationships = []extraction.Relationship{}
		return found, c.calls, err
	}
	c.name, c.part, c.entities = name+"-relationships", answer.RelationshipsOnly, found.Entities
	related, err := c.ask(ctx)
	found.Relationships = related.Relationships
	return found, c.calls, err
}

// Extractor finds entities and relationships in a document.
//
// Extract returns what it found and every call that it made, in the order in which the calls
// began, also with an error. It stops soon after ctx is done and then returns an error that
// wraps ctx.Err(). The types in the result are those of the document's schemas. The text of an
// error is for a person; an *outcome.Failure in its chain says how it counts. Implementations
// are safe for concurrent use.
type Extractor interface {
	Extract(ctx context.Context, doc extraction.Document) (extraction.Extraction, []outcome.Call, error)
}

// conversation is the conversation about one chunk: the prompt, and after an invalid answer its
// problems.
type conversation struct {
	pipeline *Pipeline
	doc      extraction.Document
	name     string
	part     answer.Part
	// entities are the entities of the first stage, while asking for relationships.
	entities []extraction.Entity
	calls    []outcome.Call
}

// ask asks until the answer is valid or the repairs are used up. It then returns the last
// answer that could be read, even if it breaks the schemas: the call has a warning with the
// problems, and the scores show them.
func (c *conversation) ask(ctx context.Context) (extraction.Extraction, error) {
	req, err := c.request()
	if err != nil {
		return extraction.Extraction{}, err
	}
	cfg := &c.pipeline.cfg
	var lastReadable *extraction.Extraction
	for repair := 0; ; repair++ {
		c.calls = append(c.calls, outcome.Call{})
		call := &c.calls[len(c.calls)-1]
		call.Name, call.Provider, call.Model = c.name, cfg.Provider, cfg.Name
		if repair > 0 {
			call.Name = fmt.Sprintf("%s-repair-%d", c.name, repair)
		}
		res, err := Ask(ctx, cfg.Model, req, call)
		var problems []string
		if err == nil {
			var found extraction.Extraction
			if found, problems, err = c.read(res.Text); err == nil {
				lastReadable = &found
			}
			c.warn(problems)
		}
		last := repair == maxRepairs || problems == nil
		switch {
		case err != nil && (ctx.Err() != nil || limit.StopsRun(err)), last && lastReadable == nil:
			return extraction.Extraction{}, err
		case last:
			return *lastReadable, nil
		}
		call.Warnings = append(call.Warnings, "an answer was not valid, and the model was asked again") // summaries count it
		listed := problems[:min(len(problems), maxProblemsShown)]
		repairRequest := "Your answer has problems:\n- " + strings.Join(listed, "\n- ") +
			"\nAnswer again with the whole corrected JSON object and nothing else."
		req.Messages = append(req.Messages, Message{RoleAssistant, res.Text}, Message{RoleUser, repairRequest})
	}
}

// warn adds the problems of the newest answer to its call.
func (c *conversation) warn(problems []string) {
	const maxShown = 3
	if len(problems) == 0 {
		return
	}
	text := strings.Join(problems[:min(maxShown, len(problems))], "; ")
	if len(problems) > maxShown {
		text += fmt.Sprintf("; and %d more", len(problems)-maxShown)
	}
	call := &c.calls[len(c.calls)-1]
	call.Warnings = append(call.Warnings, call.Name+": the answer is not valid: "+text)
}

// request compiles the prompt for the chunk.
func (c *conversation) request() (Request, error) {
	cfg := c.pipeline.cfg
	vars, err := DocumentVars(c.doc, cfg.Vars...)
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
	if c.part == answer.RelationshipsOnly {
		known := cli.Each(c.entities, func(e extraction.Entity) map[string]string {
			return map[string]string{"name": e.Name, "type": e.Type}
		})
		last.Content += "\n\nThe entities are known. State relationships between these only:\n" + string(marshal(known))
	}
	switch {
	case cfg.Capabilities.NoSchema:
		last.Content += "\n\n" + answer.Instruction(c.doc, c.part)
	case cfg.Schema != nil:
		req.Schema = &Schema{Name: answer.SchemaName, JSON: cfg.Schema}
	default:
		req.Schema = &Schema{Name: answer.SchemaName, JSON: answer.Schema(c.doc, c.part)}
	}
	return req, nil
}

// read parses an answer. The problems are for the model; the error is not nil if nothing of the
// answer is usable.
func (c *conversation) read(text string) (extraction.Extraction, []string, error) {
	result, err := answer.Parse(text)
	if err != nil {
		return extraction.Extraction{}, err.(*answer.Error).Problems, err // Parse returns no other errors
	}
	call := &c.calls[len(c.calls)-1]
	for _, warning := range result.Unread {
		call.Warnings = append(call.Warnings, call.Name+": "+warning)
	}
	checked := result.Extraction
	if c.part == answer.RelationshipsOnly {
		checked.Entities = c.entities // the ends of relationships are among them
	}
	problems := answer.Validate(answer.Normalise(checked, c.doc), c.doc, c.part)
	if result.Truncated {
		problems = append(problems, "the answer ends before its JSON does")
	}
	return result.Extraction, problems, nil
}

// Ask calls Record, and returns an *outcome.Failure of class invalid_output for a useless
// answer: refused, cut by the limit of tokens, or empty.
func Ask(ctx context.Context, model Model, req Request, call *outcome.Call) (res Response, err error) {
	if res, err = Record(ctx, model, req, call); err != nil {
		return res, err
	}
	switch {
	case res.Finish == FinishRefused && res.Text == "":
		call.Error = "the model or its content filter declined to answer, without a reason"
	case res.Finish == FinishRefused:
		call.Error = fmt.Sprintf("the model declined to answer: %.300s", res.Text)
	case res.Finish == FinishLength:
		after := strings.TrimSuffix(fmt.Sprintf(" after %d", res.Usage.Output), " after 0") // 0 is not reported
		call.Error = "the answer was cut by the limit of tokens" + after + ": raise --max-tokens"
	case strings.TrimSpace(res.Text) == "":
		call.Error = "the answer is empty"
	default:
		return res, nil
	}
	return res, &outcome.Failure{Class: outcome.InvalidOutput, Message: call.Error}
}

// Record sends one request to a model and records it in call, whose name, provider and model
// the caller has set. Afterwards call holds what was asked, answered, used
// and paid, also if Record returns an error. It starts when the last request of the model was
// sent, without the waiting before. The error is that of the model.
func Record(ctx context.Context, model Model, req Request, call *outcome.Call) (res Response, err error) {
	call.Kind = "generation"
	call.Started = time.Now().UTC()
	call.Input, req.Sent = nil, &call.Input
	res, err = model.Generate(ctx, req)
	call.Ended = call.Started.Add(time.Since(call.Started)) // also if the clock was set back
	call.Parameters = marshal(req.Parameters)
	if call.Input == nil {
		call.Input = AppendMessages(nil, req.Messages)
	}
	call.Started = call.Started.Add(res.Waited)
	call.Waited, call.Cached, call.Attempts = res.Waited, res.Cached, res.Attempts
	if !res.Cached {
		call.Attempts = max(1, res.Attempts)
	}
	// An answer with an error was paid for too.
	if res.Model != "" {
		call.Model = res.Model
	}
	call.Usage, call.Assumed, call.CostUSD, call.Finish = res.Usage, res.Assumed, res.CostUSD, string(res.Finish)
	if res.Text != "" {
		call.Output = marshal(res.Text)
	}
	if res.UsageProblem != "" {
		call.Warnings = append(call.Warnings, call.Name+": "+res.UsageProblem)
	}
	if err != nil {
		call.Error = outcome.FailureOf(err, outcome.Provider).Message
	}
	return res, err
}

// marshal returns the JSON of a value that can always be marshalled.
func marshal(v any) json.RawMessage {
	raw, _ := json.Marshal(v)
	return raw
}

type trialKey struct{}

// Trial tells calls apart that repeat the same request on purpose.
type Trial struct {
	// Number is the number of the trial in its run; 0 means 1.
	Number int
	// SkipCache means that an earlier answer was of no use, so that a cache must not return it.
	SkipCache bool
}

// WithTrial returns a context for the calls of a trial.
func WithTrial(ctx context.Context, t Trial) context.Context {
	return context.WithValue(ctx, trialKey{}, t)
}

// TrialOf returns the trial of a context, or the first trial if none is set.
func TrialOf(ctx context.Context) Trial {
	t, _ := ctx.Value(trialKey{}).(Trial)
	t.Number = max(t.Number, 1)
	return t
}
