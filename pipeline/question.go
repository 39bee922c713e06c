package pipeline

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"extraction-experiment/extraction"
	"extraction-experiment/internal/limit"
	"extraction-experiment/outcome"
	"extraction-experiment/pipeline/answer"
	"extraction-experiment/pipeline/prompt"
)

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
	var readable *extraction.Extraction
	for repair := 0; ; repair++ {
		text, err := q.ask(ctx, req, repair)
		var problems []string
		if err == nil {
			var found extraction.Extraction
			if found, problems, err = q.read(text); err == nil {
				readable = &found
			}
			q.warn(problems)
		}
		last := repair >= q.pipeline.cfg.Repairs || problems == nil
		switch {
		case err != nil && (ctx.Err() != nil || limit.StopsRun(err)), last && readable == nil:
			return extraction.Extraction{}, err
		case last:
			return *readable, nil
		}
		req.Messages = append(req.Messages,
			Message{Role: prompt.Assistant, Content: text},
			Message{Role: prompt.User, Content: complaint(problems)})
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
	vars, err := prompt.FromDocument(q.doc)
	if err == nil {
		err = vars.Add(prompt.Item{Input: q.doc.Input, Metadata: q.doc.Metadata}, cfg.Vars...)
	}
	if err != nil {
		return Request{}, &outcome.Failure{Class: outcome.Item, Message: err.Error()}
	}
	vars.Messages = cfg.Placeholders
	compiled, err := prompt.Compile(cfg.Prompt, vars)
	if err != nil {
		return Request{}, &outcome.Failure{Class: outcome.Item, Message: err.Error()}
	}
	req := Request{Parameters: cfg.Parameters}
	for _, m := range compiled {
		req.Messages = append(req.Messages, Message{Role: m.Role, Content: m.Content})
	}
	last := &req.Messages[len(req.Messages)-1]
	if q.part == answer.RelationshipsOnly {
		last.Content += "\n\nThe entities are known. State relationships between these only:\n" + string(encoded(names(q.known)))
	}
	options := answer.Options{Quotes: cfg.Quotes, Part: q.part}
	switch {
	case !cfg.Capabilities.SendsSchema():
		last.Content += "\n\n" + answer.Instruction(q.doc, options)
	case cfg.Schema != nil:
		req.Schema = &Schema{Name: answer.SchemaName, JSON: cfg.Schema}
	default:
		req.Schema = &Schema{Name: answer.SchemaName, JSON: answer.Schema(q.doc, options)}
	}
	return req, nil
}

// names lists entities as the second stage is told of them.
func names(entities []extraction.Entity) []map[string]string {
	list := make([]map[string]string, len(entities))
	for i, e := range entities {
		list[i] = map[string]string{"name": e.Name, "type": e.Type}
	}
	return list
}

// ask sends one request and records it as a call.
func (q *question) ask(ctx context.Context, req Request, repair int) (string, error) {
	cfg := q.pipeline.cfg
	name := q.name
	if repair > 0 {
		name = fmt.Sprintf("%s-repair-%d", q.name, repair)
	}
	res, call, err := Ask(ctx, cfg.Model, req, outcome.Call{Name: name, Provider: cfg.Provider, Model: cfg.Name}, cfg.Now)
	q.calls = append(q.calls, call)
	return res.Text, err
}

// read takes an answer apart; problems are what the model is told, the error is
// set where nothing of the answer can be used.
func (q *question) read(text string) (extraction.Extraction, []string, error) {
	result, err := answer.Parse(text)
	var broken *answer.Error
	if errors.As(err, &broken) {
		return extraction.Extraction{}, broken.Problems, err
	}
	if err != nil {
		return extraction.Extraction{}, []string{err.Error()}, err
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

// complaint asks for a corrected answer.
func complaint(problems []string) string {
	if len(problems) > maxProblemsShown {
		problems = problems[:maxProblemsShown]
	}
	return "Your answer has problems:\n- " + strings.Join(problems, "\n- ") +
		"\nAnswer again with the whole corrected JSON object and nothing else."
}
