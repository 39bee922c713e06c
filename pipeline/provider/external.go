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

// ExternalName is the provider in run metadata and calls.
const ExternalName = "external"

// ExternalConfig configures an External. Target is required.
type ExternalConfig struct {
	// Target is a command line (split by proc.Split, no shell) or an address that begins with
	// http:// or https://.
	Target string
	// Concurrency is the most processes that run; 0 means 1. An address takes any number of requests.
	Concurrency int
	// Model and Parameters are sent in each request; the pipeline may ignore them.
	Model      string
	Parameters pipeline.Parameters

	// Env is added to the environment of the program, and Stderr receives its standard error.
	Env    []string
	Stderr io.Writer

	// Token, if not empty, is sent to an address as "Authorization: Bearer". It comes from the
	// environment and is shown nowhere.
	Token string

	// MaxAnswer is the largest answer, in bytes; 0 means 64 MiB.
	MaxAnswer int
}

// External is an extractor that asks a team's own pipeline, for extractions or anything else.
// The pipeline is a program that answers JSON lines, in as many processes as needed, or an
// address that takes the same JSON by POST. docs/pipeline-protocol.md describes the protocol.
// External is safe for concurrent use.
//
// It does not judge the result and does not repeat a request; the error says whether that may
// help. For each document it
//
//  1. writes the document, its schemas, the model and the parameters as one JSON object, never
//     the expected output,
//  2. asks the program or address,
//  3. reads the extraction, and the calls, usage, cost and warnings that the pipeline reports,
//     within limits,
//  4. returns them, with one span of its own before the calls.
//
// For example:
//
//	extractor, err := provider.NewExternal(provider.ExternalConfig{Target: "./extract --flag", Concurrency: 4})
//	defer extractor.Close()
//	found, calls, err := extractor.Extract(ctx, doc)
type External struct {
	cfg      ExternalConfig
	target   string
	pool     *proc.Pool    // for a program, or
	address  *proc.Address // for an address
	closer   io.Closer     // pool or address
	requests atomic.Int64  // number of requests
	failures atomic.Int64  // failures among the first requests
}

// firstRequests is how many failed requests at the start stop the run.
const firstRequests = 10

// NewExternal makes an External. It sends and starts nothing, but checks that the program
// exists. An error of exit code 64 joins all problems of the ExternalConfig; a missing program
// is a *proc.StartError (69).
func NewExternal(cfg ExternalConfig) (*External, error) {
	cfg.MaxAnswer = cmp.Or(cfg.MaxAnswer, 64<<20)
	e := &External{cfg: cfg}
	if err := e.open(); err != nil {
		return nil, cli.WithCode(cli.ExitUsage, fmt.Errorf("opening the pipeline: %w", err))
	}
	return e, nil
}

// open opens the program or address that the ExternalConfig names.
func (e *External) open() error {
	if isAddress(e.cfg.Target) {
		address, err := proc.NewAddress(proc.AddressConfig{URL: e.cfg.Target, Token: e.cfg.Token, MaxAnswer: e.cfg.MaxAnswer})
		if err != nil {
			return err
		}
		e.target, e.address, e.closer = address.Shown, address, address
		return nil
	}
	words, err := proc.Split(e.cfg.Target)
	if err != nil {
		return err
	}
	e.target = proc.Shown(e.cfg.Target, append(os.Environ(), e.cfg.Env...))
	e.pool, err = proc.New(proc.Config{
		Command: words, Env: e.cfg.Env, Processes: e.cfg.Concurrency,
		MaxLine: e.cfg.MaxAnswer, Accept: checkAnswer, Stderr: e.cfg.Stderr,
	})
	e.closer = e.pool
	return err
}

// ask sends one request and returns the answer, a JSON object, or with an error perhaps the body of
// an error status. Secrets that the pipeline was given are masked, in errors too.
func (e *External) ask(ctx context.Context, request []byte) ([]byte, error) {
	if e.pool != nil {
		answer, err := e.pool.Call(ctx, request)
		if err != nil {
			return nil, classify(ctx, err)
		}
		return answer, nil
	}
	answer, err := pipeline.Post(ctx, e.address, request)
	answer = bytes.TrimSpace(answer)
	if err != nil {
		return answer, err
	}
	if err := checkAnswer(request, answer); err != nil {
		return nil, externalError(outcome.InvalidOutput, false, fmt.Sprintf("%s answered %q: %v", e.target, textutil.Cut(string(answer), 500), err), err)
	}
	return answer, nil
}

// isAddress reports whether a target is an address and not a command.
func isAddress(target string) bool {
	head, _, _ := strings.Cut(strings.TrimSpace(target), " ")
	return strings.Contains(head, "://")
}

// Target returns the command line, or the address without its query, for run metadata; secrets
// are masked.
func (e *External) Target() string { return e.target }

// Reached reports whether the pipeline ever answered: false means that every connection to an
// address failed, or none was tried. It is always true for a program.
func (e *External) Reached() bool { return e.pool != nil || e.address.Reached() }

// Close ends all processes, with their requests in progress, or closes idle connections to an address.
func (e *External) Close() error { return e.closer.Close() }

// MaskTarget returns an ExternalConfig.Target for display: a command with secrets masked, or
// an address with *** after its path.
func MaskTarget(target string) string {
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
// The first call is a span "external-extract", whose output counts the results and holds the
// warnings. The calls that the pipeline reports follow. If it reports no "calls" at all, one
// generation with the reported usage and cost stands for it; a cost that is not reported is
// unknown. A failure without any report also has such a generation, because it may have cost
// something.
//
// Errors have a *pipeline.ModelError in their chain with the class, the HTTP status,
// Retry-After, and whether the same request may succeed later; the errors of package proc are
// in the chain as well. When ctx ends, the process is killed or the connection closed, and the
// error wraps ctx.Err(). If none of the first ten requests had an answer, the error is a
// *limit.TrippedError, which stops the run.
func (e *External) Extract(ctx context.Context, doc extraction.Document) (extraction.Extraction, []outcome.Call, error) {
	n := e.requests.Add(1)
	request, err := encodeRequest(strconv.FormatInt(n, 10), doc, e.cfg)
	if err != nil {
		return extraction.Extraction{}, nil, err
	}
	a := e.exchange(ctx, "external-extract", n, request)
	if a.err == nil {
		a.readExtraction()
	}
	if a.err != nil {
		return extraction.Extraction{}, a.allCalls(), a.err
	}
	a.span.Output, err = json.Marshal(map[string]any{
		"entities": len(a.extraction.Entities), "relationships": len(a.extraction.Relationships), "warnings": a.warnings,
	})
	return a.extraction, a.allCalls(), err
}

// Ask sends one request of any form, once, with an "id" added, and returns the fields of the
// answer. The calls are a span "external-ask" and those that the answer reports with "calls",
// "usage", "cost_usd" and "model", as for Extract. An "error" in the answer is returned as an
// error. Errors are those of Extract. Secrets of the environment in the answer are masked.
func (e *External) Ask(ctx context.Context, request map[string]any) (map[string]json.RawMessage, []outcome.Call, error) {
	n := e.requests.Add(1)
	withID := map[string]any{"id": strconv.FormatInt(n, 10)}
	maps.Copy(withID, request)
	line, err := json.Marshal(withID)
	if err != nil {
		return nil, nil, fmt.Errorf("writing the request: %w", err)
	}
	a := e.exchange(ctx, "external-ask", n, line)
	if a.err != nil {
		return nil, a.allCalls(), a.err
	}
	return a.fields, a.allCalls(), nil
}

// exchange sends the n-th request and reads the calls, warnings and error in the answer.
func (e *External) exchange(ctx context.Context, name string, n int64, request []byte) *externalAnswer {
	span := outcome.Call{Name: name, Kind: "span", Provider: ExternalName, Model: e.cfg.Model, Attempts: 1, Started: time.Now().UTC()}
	raw, err := e.ask(ctx, request)
	err = e.checkFirst(ctx, n, err)
	span.Ended = span.Started.Add(time.Since(span.Started)) // also if the clock was set back
	if err == nil {
		return readReport(raw, span)
	}
	if checkAnswer(request, raw) == nil { // the body of an error status, which may report calls
		if a := readReport(raw, span); a.err != nil {
			a.err = err
			return a
		}
	}
	a := &externalAnswer{span: span, err: err}
	_, notStarted := errors.AsType[*proc.StartError](err)
	if died, ok := errors.AsType[*proc.Error](err); !notStarted || ok && !died.NothingRead { // it may have paid
		a.calls = []outcome.Call{generation(span)}
		a.calls[0].Error = a.problem()
	}
	return a
}

// checkFirst turns the error of the n-th request into one that stops the run if the first
// requests all failed. Only those count, because later ones may fail at once while the first
// still wait for their answers. A pipeline that refuses a document, or asks to wait, has
// answered.
func (e *External) checkFirst(ctx context.Context, n int64, err error) error {
	if err == nil || errors.Is(ctx.Err(), context.Canceled) {
		return err
	}
	failure := outcome.FailureOf(err, outcome.Provider)
	if n <= firstRequests && failure.Class != outcome.Item && failure.Class != outcome.RateLimited {
		e.failures.Add(1)
	}
	if e.failures.Load() < firstRequests {
		return err
	}
	return &limit.TrippedError{Reason: textutil.Line(failure.Message), Why: fmt.Sprintf("the pipeline answered none of the first %d requests", firstRequests)}
}

// documentRequest is a request to a pipeline. All keys except model and parameters are always
// present.
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

// encodeRequest returns one line of JSON without its line feed; a nil list or map becomes an
// empty one.
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

// checkAnswer checks that an answer is a JSON object and, if it has an id, has that of the
// request. This keeps requests and answers of a program in step.
func checkAnswer(request, answer []byte) error {
	var want, got struct {
		ID json.RawMessage `json:"id"`
	}
	if json.Unmarshal(answer, &got) != nil || answer[0] != '{' {
		return errors.New("that is not a JSON object on one line")
	}
	_ = json.Unmarshal(request, &want) // External wrote this JSON
	if len(got.ID) > 0 && string(got.ID) != "null" && !bytes.Equal(want.ID, got.ID) {
		return fmt.Errorf("that answers request %.40s, asked was %s; repeat the id of the request or leave it out",
			got.ID, want.ID)
	}
	return nil
}

// classify gives an error of package proc its class. A program that ended may succeed next
// time; one that prints invalid output will do so again.
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
	return externalError(class, retry, err.Error(), err)
}

// externalError makes an error of a class.
func externalError(class outcome.Class, retry bool, message string, cause error) error {
	return &pipeline.ModelError{Failure: outcome.Failure{Class: class, Message: message}, Retry: retry, Err: cause}
}
