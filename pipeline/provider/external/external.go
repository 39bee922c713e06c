package external

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"extraction-experiment/extraction"
	"extraction-experiment/internal/proc"
	"extraction-experiment/outcome"
	"extraction-experiment/pipeline"
)

// Name is the provider's name in run metadata and calls.
const Name = "external"

// Config configures an Extractor; Target is needed, every other zero value is
// usable.
type Config struct {
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
	// Client sends the requests of an endpoint; nil means one that follows the
	// usual variables for proxies and certificates. Redirects are never followed.
	Client *http.Client

	// MaxAnswer bounds an answer, in bytes; 0 means 64 MiB.
	MaxAnswer int
	// MaxFound bounds the entities of an answer, and its relationships; 0 means
	// 50,000. More of either is an answer that is refused.
	MaxFound int
	// Now reads the clock for the times of calls; nil means time.Now.
	Now func() time.Time
}

// peer is who answers: a program or an endpoint.
type peer interface {
	// ask sends one request and returns the answer, a JSON object. It masks what
	// the peer was given in confidence, in errors too.
	ask(ctx context.Context, request []byte) ([]byte, error)
	// reached is false while every connection failed.
	reached() bool
	target() string
	Close() error
}

// Extractor asks a team's own pipeline. It is safe for concurrent use.
type Extractor struct {
	cfg   Config
	peer  peer
	asked atomic.Int64
}

// New makes an Extractor. It sends nothing and starts nothing, but looks whether
// the program is there. A *ConfigError (exit code 64) joins everything that is
// wrong with the Config; a program that is not there is a *proc.StartError (69).
func New(cfg Config) (*Extractor, error) {
	var problems []error
	if cfg.Concurrency < 0 || cfg.MaxAnswer < 0 || cfg.MaxFound < 0 {
		problems = append(problems, errors.New("Concurrency, MaxAnswer and MaxFound must not be negative"))
	}
	cfg.Concurrency = cmp.Or(max(cfg.Concurrency, 0), 1)
	cfg.MaxAnswer = cmp.Or(max(cfg.MaxAnswer, 0), 64<<20)
	cfg.MaxFound = cmp.Or(max(cfg.MaxFound, 0), 50_000)
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	peer, err := connect(cfg)
	var start *proc.StartError
	if len(problems) == 0 && errors.As(err, &start) {
		return nil, fmt.Errorf("opening the pipeline: %w", err)
	}
	if problem := errors.Join(append(problems, err)...); problem != nil {
		return nil, &ConfigError{problem}
	}
	return &Extractor{cfg: cfg, peer: peer}, nil
}

func connect(cfg Config) (peer, error) {
	if isAddress(cfg.Target) {
		return newEndpoint(cfg)
	}
	return newProgram(cfg)
}

// Target says what is asked, for run metadata: the command line, or the address
// without its query; secrets are masked.
func (e *Extractor) Target() string { return e.peer.target() }

// Shown is a Config.Target as a person may be shown it: a command masked, and ***
// for what follows the path of an address.
func Shown(target string) string {
	if !isAddress(target) {
		return proc.Shown(target, os.Environ())
	}
	if end := strings.IndexAny(target, "?#"); end >= 0 {
		target = target[:end+1] + "***"
	}
	return target
}

// Reached reports whether the pipeline was ever met: false says that every
// connection to an address failed, or none was tried. A program is always there.
func (e *Extractor) Reached() bool { return e.peer.reached() }

// Close ends all processes, or closes idle connections, and Extracts under way.
// The error names processes that the system would not end.
func (e *Extractor) Close() error { return e.peer.Close() }

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
// is killed or the connection closed, and the error wraps ctx.Err().
func (e *Extractor) Extract(ctx context.Context, doc extraction.Document) (extraction.Extraction, []outcome.Call, error) {
	span := outcome.Call{Name: "external-extract", Kind: "span", Provider: Name, Model: e.cfg.Model, Attempts: 1, Started: e.cfg.Now().UTC()}
	id := strconv.FormatInt(e.asked.Add(1), 10)
	request, err := encodeRequest(id, doc, e.cfg)
	if err != nil {
		return extraction.Extraction{}, nil, err
	}
	raw, err := e.peer.ask(ctx, request)
	span.Ended = e.cfg.Now().UTC()
	if err != nil {
		return extraction.Extraction{}, e.failed(span, err), err
	}
	a := readAnswer(raw, span, e.cfg.MaxFound)
	if a.err != nil {
		a.span.Error = a.err.Error()
		return extraction.Extraction{}, a.all(), a.err
	}
	if len(a.warnings.list) > 0 {
		a.span.Warnings = a.warnings.list
	}
	a.span.Output, err = json.Marshal(map[string]any{
		"entities": len(a.found.Entities), "relationships": len(a.found.Relationships), "warnings": a.warnings.list,
	})
	return a.found, a.all(), err
}

// failed returns the calls of a request without an answer.
func (e *Extractor) failed(span outcome.Call, err error) []outcome.Call {
	span.Error = outcome.FailureOf(err, outcome.Provider).Message
	var start *proc.StartError
	if errors.As(err, &start) {
		return []outcome.Call{span}
	}
	return []outcome.Call{span, generation(span)}
}

// generation is the model call that stands for a pipeline which reports none.
func generation(span outcome.Call) outcome.Call {
	span.Name, span.Kind = "external-model", "generation"
	return span
}
