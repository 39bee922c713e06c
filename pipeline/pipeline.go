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
	"extraction-experiment/outcome"
	"extraction-experiment/pipeline/answer"
	"extraction-experiment/pipeline/chunk"
	"extraction-experiment/pipeline/ground"
	"extraction-experiment/pipeline/prompt"
)

// The values that zero fields of Config stand for.
const (
	DefaultRepairs   = 1
	DefaultMaxRunes  = 40_000
	DefaultOverlap   = 1_000
	maxRepairs       = 5
	maxProblemsShown = 20
)

// Config says how a document becomes an extraction by asking a model. Model,
// Name and Prompt are required.
type Config struct {
	Model Model
	// Name and Provider are what calls are recorded under.
	Name, Provider string
	Prompt         prompt.Template
	// Vars are identifiers of the prompt that the item fills.
	Vars       []prompt.Var
	Parameters Parameters
	// Capabilities decide whether the schema is sent or put in words.
	Capabilities Capabilities
	// Repairs is how often an invalid answer is sent back with what is wrong
	// with it; 0 means DefaultRepairs, negative never.
	Repairs int
	// MaxRunes is the most of a document that one request holds, in code points;
	// longer ones are split with Overlap and merged. 0 means DefaultMaxRunes
	// and DefaultOverlap, negative never splits.
	MaxRunes, Overlap int
	// Vocabulary says which statements of different chunks are the same.
	Vocabulary chunk.Vocabulary
	// Placeholders are the messages that stand for the message placeholders of
	// the prompt, by name.
	Placeholders map[string][]prompt.Message
	// TwoStages asks for the entities first, and then for the relationships
	// between those that were found.
	TwoStages bool
	// Schema, if set, is sent in place of the one made from the item's schemas:
	// what the prompt's author stored with it. It must be a JSON object, and is
	// of no use with TwoStages.
	Schema json.RawMessage
	// Quotes asks the model to quote the document for every entity.
	Quotes bool
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
	if cfg.Model == nil {
		problems = append(problems, errors.New("pipeline: Config.Model is missing"))
	}
	if cfg.Name == "" {
		problems = append(problems, errors.New("pipeline: Config.Name is missing"))
	}
	if cfg.TwoStages && cfg.Schema != nil {
		problems = append(problems, errors.New("a schema of the prompt's own cannot be asked for in two stages"))
	}
	if cfg.Repairs > maxRepairs {
		problems = append(problems, fmt.Errorf("pipeline: an answer is repaired at most %d times", maxRepairs))
	}
	problems = append(problems, cfg.Prompt.Check(cfg.Vars, slices.Collect(maps.Keys(cfg.Placeholders))))
	trial := Request{Messages: []Message{{Role: prompt.User, Content: "x"}}, Parameters: cfg.Parameters}
	if cfg.Schema != nil {
		trial.Schema = &Schema{Name: answer.SchemaName, JSON: cfg.Schema}
	}
	problems = append(problems, cfg.Capabilities.Check(trial))
	if err := errors.Join(problems...); err != nil {
		return nil, err
	}
	if cfg.Repairs == 0 {
		cfg.Repairs = DefaultRepairs
	}
	if cfg.MaxRunes == 0 {
		cfg.MaxRunes, cfg.Overlap = DefaultMaxRunes, DefaultOverlap
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
	var parts []chunk.Part
	chunks := chunk.Split(doc.Text, chunk.Config{MaxRunes: max(0, p.cfg.MaxRunes), Overlap: p.cfg.Overlap})
	for i, c := range chunks {
		if strings.TrimSpace(c.Text) == "" {
			continue
		}
		piece := doc
		piece.Text = c.Text
		found, asked, err := p.about(ctx, piece, callName(i, len(chunks)))
		calls = append(calls, asked...)
		if err != nil {
			if len(chunks) > 1 {
				err = fmt.Errorf("part %d of %d of the document: %w", i+1, len(chunks), err)
			}
			return extraction.Extraction{}, calls, err
		}
		parts = append(parts, chunk.Part{Extraction: found, Chunk: c})
	}
	began := p.cfg.Now().UTC()
	merged, warnings := chunk.Merge(parts, p.cfg.Vocabulary)
	grounded, report := ground.Ground(merged, doc.Text)
	calls = append(calls, outcome.Call{
		Name: "merge", Kind: "span", Started: began, Ended: p.cfg.Now().UTC(),
		Output:   encoded(merging{len(parts), report.Invented, report.Lost, warnings}),
		Warnings: warnings,
	})
	return answer.Normalise(grounded, doc), calls, nil
}

// merging is what the trace says of the last step.
type merging struct {
	Parts    int      `json:"parts"`
	Invented []string `json:"names_not_in_the_document,omitempty"`
	Lost     []string `json:"quotes_not_in_the_document,omitempty"`
	Warnings []string `json:"warnings,omitempty"`
}

// about asks about one chunk, in one stage or two.
func (p *Pipeline) about(ctx context.Context, piece extraction.Document, name string) (extraction.Extraction, []outcome.Call, error) {
	if !p.cfg.TwoStages {
		q := question{pipeline: p, doc: piece, name: name}
		found, err := q.answer(ctx)
		return found, q.calls, err
	}
	first := question{pipeline: p, doc: piece, name: name + "-entities", part: answer.EntitiesOnly}
	found, err := first.answer(ctx)
	if err != nil || len(found.Entities) == 0 {
		found.Relationships = []extraction.Relationship{}
		return found, first.calls, err
	}
	second := question{pipeline: p, doc: piece, name: name + "-relationships", part: answer.RelationshipsOnly, known: found.Entities}
	related, err := second.answer(ctx)
	found.Relationships = related.Relationships
	return found, append(first.calls, second.calls...), err
}

// callName is what the trace calls the request for a chunk.
func callName(i, n int) string {
	if n == 1 {
		return "extract"
	}
	return fmt.Sprintf("extract-part-%d-of-%d", i+1, n)
}
