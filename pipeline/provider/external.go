package provider

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"extraction-experiment/extraction"
	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/limit"
	"extraction-experiment/internal/proc"
	"extraction-experiment/internal/textutil"
	"extraction-experiment/outcome"
	"extraction-experiment/pipeline"
)

// ExternalName is the provider's name in run metadata and calls.
const ExternalName = "external"

// ExternalConfig configures an External; Target is needed, every other zero value is
// usable.
type ExternalConfig struct {
	// Target is a command line (split as proc.Split says, no shell) or an
	// address that begins with http:// or https://.
	Target string
	// Concurrency is how many processes run at most, and how many connections
	// are kept open; 0 means 1.
	Concurrency int
	// Model and Parameters are handed on in each request; the pipeline may use
	// or ignore them.
	Model      string
	Parameters pipeline.Parameters

	// Dir and Env are the program's working directory and what is added to its
	// environment; Stderr is given all that it writes there.
	Dir    string
	Env    []string
	Stderr io.Writer

	// Token, if set, is sent to an endpoint as "Authorization: Bearer". It comes
	// from the environment and is shown nowhere.
	Token string

	// MaxAnswer bounds an answer, in bytes; 0 means 64 MiB.
	MaxAnswer int
	// Now reads the clock for the times of calls; nil means time.Now.
	Now func() time.Time
}

// External is an extractor that asks a team's own pipeline, for extractions or anything
// else: a program that answers JSON lines, kept running in as many processes as are
// needed, or an HTTP endpoint that is given the same JSON by POST. The protocol is
// docs/pipeline-protocol.md. It is safe for concurrent use.
//
// It does not judge what was found, and it does not repeat a request: whether
// one may be repeated is said by the error. For each document it
//
//  1. writes the document, its schemas, the model and the parameters as one JSON
//     object, never the expected output,
//  2. asks the program or endpoint,
//  3. reads the extraction, and the calls, usage, cost and warnings that the
//     pipeline reports, within limits,
//  4. returns them, with one span of its own before the calls.
//
// A short example:
//
//	extractor, err := provider.NewExternal(provider.ExternalConfig{Target: "./extract --flag", Concurrency: 4})
//	defer extractor.Close()
//	found, calls, err := extractor.Extract(ctx, doc)
type External struct {
	cfg     ExternalConfig
	target  string
	pool    *proc.Pool // of a program, or
	address *proc.Address
	closer  io.Closer // of either
	asked   atomic.Int64
	failed  atomic.Int64 // of the first requests
}

// firstRequests is how many requests decide whether others are of use.
const firstRequests = 10

// NewExternal makes an External. It sends nothing and starts nothing, but looks whether
// the program is there. An error of exit code 64 joins everything that is
// wrong with the ExternalConfig; a program that is not there is a *proc.StartError (69).
func NewExternal(cfg ExternalConfig) (*External, error) {
	cfg.MaxAnswer = cmp.Or(cfg.MaxAnswer, 64<<20)
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	e := &External{cfg: cfg}
	if err := e.open(); err != nil {
		return nil, cli.WithCode(cli.ExitUsage, fmt.Errorf("opening the pipeline: %w", err))
	}
	return e, nil
}

// open opens the program or address that the ExternalConfig names.
func (e *External) open() error {
	if isAddress(e.cfg.Target) {
		at, err := proc.NewAddress(proc.AddressConfig{URL: e.cfg.Target, Token: e.cfg.Token, MaxAnswer: e.cfg.MaxAnswer})
		if err != nil {
			return err
		}
		e.target, e.address, e.closer = at.Shown, at, at
		return nil
	}
	words, err := proc.Split(e.cfg.Target)
	if err != nil {
		return err
	}
	e.target = proc.Shown(e.cfg.Target, append(os.Environ(), e.cfg.Env...))
	e.pool, err = proc.New(proc.Config{
		Command: words, Dir: e.cfg.Dir, Env: e.cfg.Env, Processes: e.cfg.Concurrency,
		MaxLine: e.cfg.MaxAnswer, Accept: checkAnswer, Stderr: e.cfg.Stderr,
	})
	e.closer = e.pool
	return err
}

// ask sends one request and returns the answer, a JSON object. What the pipeline was given
// in confidence is masked, in errors too.
func (e *External) ask(ctx context.Context, request []byte) ([]byte, error) {
	if e.pool != nil {
		answer, err := e.pool.Call(ctx, request)
		if err != nil {
			return nil, classify(ctx, err)
		}
		return answer, nil
	}
	answer, err := pipeline.Post(ctx, e.address, request)
	if err != nil {
		return nil, err
	}
	answer = bytes.TrimSpace(answer)
	if err := checkAnswer(request, answer); err != nil {
		return nil, fail(outcome.InvalidOutput, false, fmt.Sprintf("%s answered %q: %v", e.target, textutil.Cut(string(answer), 500), err), err)
	}
	return answer, nil
}

// isAddress reports whether a target is an address rather than a command.
func isAddress(target string) bool {
	head, _, _ := strings.Cut(strings.TrimSpace(target), " ")
	return strings.Contains(head, "://")
}

// Target says what is asked, for run metadata: the command line, or the address
// without its query; secrets are masked.
func (e *External) Target() string { return e.target }

// Reached reports whether the pipeline was ever met: false says that every
// connection to an address failed, or none was tried. A program is always there.
func (e *External) Reached() bool { return e.pool != nil || e.address.Met() }

// Close ends all processes, or closes idle connections, and what is under way.
func (e *External) Close() error { return e.closer.Close() }

// ShownTarget is a ExternalConfig.Target as a person may be shown it: a command masked, and ***
// for what follows the path of an address.
func ShownTarget(target string) string {
	if !isAddress(target) {
		return proc.Shown(target, os.Environ())
	}
	if end := strings.IndexAny(target, "?#"); end >= 0 {
		target = target[:end+1] + "***"
	}
	return target
}

// Extract asks the pipeline about one document, once.
//
// The first call is a span of kind "span", "external-extract", whose output
// counts what was found and holds the warnings. The calls that the pipeline
// reports follow. If it reports none (no "calls" at all), one generation stands
// for it with the usage and cost that it states; a cost that it does not state
// is unknown. A failure of which nothing is known has such a generation too:
// something may have been paid.
//
// Errors have a *pipeline.ModelError in their chain, which says the class, the
// HTTP status, Retry-After, and whether the same request may succeed later; the
// errors of package proc are in the chain as well. When ctx ends, the process
// is killed or the connection closed, and the error wraps ctx.Err(). Where the first
// ten requests all had no answer, it is a *limit.TrippedError, which stops a run.
func (e *External) Extract(ctx context.Context, doc extraction.Document) (extraction.Extraction, []outcome.Call, error) {
	n := e.asked.Add(1)
	request, err := encodeRequest(strconv.FormatInt(n, 10), doc, e.cfg)
	if err != nil {
		return extraction.Extraction{}, nil, err
	}
	a := e.exchange(ctx, "external-extract", n, request)
	if a.err == nil {
		a.readFound()
	}
	if a.err != nil {
		return extraction.Extraction{}, a.all(), a.err
	}
	a.span.Output, err = json.Marshal(map[string]any{
		"entities": len(a.found.Entities), "relationships": len(a.found.Relationships), "warnings": a.warnings,
	})
	return a.found, a.all(), err
}

// Ask sends one request of any form, once, with an "id" added, and returns the
// fields of the answer. The calls are a span "external-ask" and those that the
// answer reports with "calls", "usage", "cost_usd" and "model", as for Extract; an
// "error" in the answer is an error here. Errors as for Extract. Secrets of the
// environment that the answer repeats are masked.
func (e *External) Ask(ctx context.Context, request map[string]any) (map[string]json.RawMessage, []outcome.Call, error) {
	n := e.asked.Add(1)
	whole := map[string]any{"id": strconv.FormatInt(n, 10)}
	maps.Copy(whole, request)
	line, err := json.Marshal(whole)
	if err != nil {
		return nil, nil, fmt.Errorf("writing the request: %w", err)
	}
	a := e.exchange(ctx, "external-ask", n, line)
	if a.err != nil {
		return nil, a.all(), a.err
	}
	return a.fields, a.all(), nil
}

// exchange sends the n-th request and reads what the answer says of itself.
func (e *External) exchange(ctx context.Context, name string, n int64, request []byte) *answer {
	span := outcome.Call{Name: name, Kind: "span", Provider: ExternalName, Model: e.cfg.Model, Attempts: 1, Started: e.cfg.Now().UTC()}
	raw, err := e.ask(ctx, request)
	err = e.stopping(ctx, n, err)
	span.Ended = e.cfg.Now().UTC()
	if err == nil {
		return readReport(raw, span)
	}
	a := &answer{span: span, err: err}
	if _, ok := errors.AsType[*proc.StartError](err); !ok {
		a.calls = []outcome.Call{generation(span)}
		a.calls[0].Error = a.problem()
	}
	return a
}

// stopping makes the error of the n-th request one that stops the run where the first requests all
// failed. Only those count: later ones may fail at once while these still wait for their answers.
// A pipeline that refuses a document, or asks to wait, has answered.
func (e *External) stopping(ctx context.Context, n int64, err error) error {
	if err == nil || errors.Is(ctx.Err(), context.Canceled) {
		return err
	}
	failure := outcome.FailureOf(err, outcome.Provider)
	if n <= firstRequests && failure.Class != outcome.Item && failure.Class != outcome.RateLimited {
		e.failed.Add(1)
	}
	if e.failed.Load() < firstRequests {
		return err
	}
	return &limit.TrippedError{Reason: textutil.Line(failure.Message), Why: fmt.Sprintf("the pipeline answered none of the first %d requests", firstRequests)}
}

// documentRequest is what a pipeline is asked. Every key but model and parameters is
// always there.
type documentRequest struct {
	ID                  string                                   `json:"id"`
	DocumentText        string                                   `json:"document_text"`
	DocumentType        string                                   `json:"document_type"`
	ObjectSchemas       map[string]extraction.ObjectSchema       `json:"object_schemas"`
	RelationshipSchemas map[string]extraction.RelationshipSchema `json:"relationship_schemas"`
	AllowedTypes        []string                                 `json:"allowed_types"`
	AvailableTags       []string                                 `json:"available_tags"`
	Model               string                                   `json:"model,omitempty"`
	Parameters          pipeline.Parameters                      `json:"parameters,omitzero"`
}

// encodeRequest writes one line of JSON without its end; a nil list or map is
// written as an empty one.
func encodeRequest(id string, doc extraction.Document, cfg ExternalConfig) ([]byte, error) {
	r := documentRequest{
		ID: id, DocumentText: doc.Text, DocumentType: doc.Type,
		ObjectSchemas: map[string]extraction.ObjectSchema{}, RelationshipSchemas: map[string]extraction.RelationshipSchema{},
		AllowedTypes: append([]string{}, doc.AllowedTypes...), AvailableTags: append([]string{}, doc.AvailableTags...),
		Model: cfg.Model, Parameters: cfg.Parameters,
	}
	maps.Copy(r.ObjectSchemas, doc.Objects)
	maps.Copy(r.RelationshipSchemas, doc.Relationships)
	return textutil.MarshalJSON(r)
}

// checkAnswer says whether an answer is a JSON object and, if it repeats an id,
// that of the request. It is what keeps a program in step.
func checkAnswer(request, answer []byte) error {
	var asked, got struct {
		ID json.RawMessage `json:"id"`
	}
	if json.Unmarshal(answer, &got) != nil || answer[0] != '{' {
		return errors.New("that is not a JSON object; the answer is one, on one line, with entities and relationships")
	}
	_ = json.Unmarshal(request, &asked) // it is our own JSON
	if len(got.ID) > 0 && string(got.ID) != "null" && !bytes.Equal(asked.ID, got.ID) {
		return fmt.Errorf("that answers request %.40s, asked was %s; repeat the id of the request or leave it out", got.ID, asked.ID)
	}
	return nil
}

// classify gives an error of package proc its class. A program that ended may
// do better next time; one that prints what it should not will do so again.
func classify(ctx context.Context, err error) error {
	class, retry := outcome.Provider, false
	switch {
	case ctx.Err() != nil && errors.Is(err, context.DeadlineExceeded):
		class, retry = outcome.Timeout, true
	case ctx.Err() != nil && errors.Is(err, ctx.Err()), proc.Is(err, proc.Died, proc.Interrupted):
		retry = true
	case proc.Is(err, proc.Flooded, proc.OutOfStep, proc.Refused):
		class = outcome.InvalidOutput
	}
	return fail(class, retry, err.Error(), err)
}

// fail makes an error of a class.
func fail(class outcome.Class, retry bool, message string, cause error) error {
	return &pipeline.ModelError{Failure: outcome.Failure{Class: class, Message: message}, Retry: retry, Err: cause}
}
