// Package evaluator asks external evaluators for a score: a program, an HTTP address, or a
// language model that judges. It implements the protocol, which is the same for all three, and
// contains their failures.
//
// It does not decide whether an evaluator can be trusted (package conformance does), and knows
// nothing about runs or datasets. Requests to an address or a model are sent again after 429, 5xx
// and broken connections; a program runs only once.
//
// One evaluation has these steps:
//
//  1. The Case becomes one JSON object with the names of both generations of the protocol
//     (docs/evaluators.md).
//  2. The program, address or model answers within Config.Timeout.
//  3. The answer is read strictly: one JSON object with a finite score in [0,1], and hits and misses, or
//     assertions.
//  4. Everything else is a *Fault with a kind, never a score.
//
// A short example:
//
//	judge, err := evaluator.New(evaluator.Config{Script: []string{"python3", "judge.py"}})
//	verdict, err := judge.Evaluate(ctx, evaluator.Case{Question: "7 * 8?", Reference: "56", Candidate: "56"})
package evaluator

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/limit"
	"extraction-experiment/internal/proc"
	"extraction-experiment/internal/secret"
	"extraction-experiment/internal/textutil"
	"extraction-experiment/outcome"
	"extraction-experiment/pipeline"
)

// Config configures an Evaluator. Exactly one of Script, URL and Model is required. The zero
// values of the other fields are usable.
type Config struct {
	// Script is a program and its arguments. It runs once for each case. If the name of the
	// program has a separator, it is relative to Dir.
	Script []string
	// Dir is the working directory of the program. Its environment is that of this process
	// without the variables that secret.Withhold removes, but with those that Handed names, and
	// with Env ("NAME=value"). Only a Fault shows its standard error, the last lines.
	Dir    string
	Env    []string
	Handed []string

	// URL is an address that answers a POST request with a verdict.
	URL string
	// Token, if set, is sent to the address as "Authorization: Bearer". It comes from the
	// environment and is never shown.
	Token string

	// Model judges with the Prompt. ModelName is its name in reports.
	Model      pipeline.Model
	ModelName  string
	Prompt     pipeline.Template
	Parameters pipeline.Parameters

	// Timeout bounds one evaluation, not counting waits for rate limits and pauses before a
	// request is sent again; 0 is 1 minute.
	Timeout time.Duration
	// Pause is the time before a request to an address or a model is sent again, doubled each
	// time; 0 is pipeline.DefaultRetryPause.
	Pause time.Duration
}

// Evaluator asks an external evaluator. It is safe for concurrent use. Between cases it only
// keeps the rate limits that it learned of an address or a model.
type Evaluator struct {
	cfg     Config
	limiter *limit.Limiter // nil for a program
	limited pipeline.Model // the model or address with limits; nil for a program

	address *proc.Address  // nil unless Config.URL is set
	mask    *secret.Masker // for the words of the script
	faulted atomic.Bool    // the program had a Fault
}

// New returns an Evaluator. It starts and sends nothing. The error joins all problems of the
// Config.
func New(cfg Config) (*Evaluator, error) {
	cfg.Timeout = cmp.Or(cfg.Timeout, time.Minute)
	e := &Evaluator{cfg: cfg, mask: secret.NewMasker(append(os.Environ(), cfg.Env...), cfg.Script)}
	var problems textutil.Problems
	problems.Join(e.mask.CheckArguments(cfg.Script))
	problems.Add(len(cfg.Script) > 0 && cfg.Script[0] == "", "evaluator: the script names no program")
	oneTarget := textutil.ExactlyOne(len(cfg.Script) > 0, cfg.URL != "", cfg.Model != nil)
	problems.Add(!oneTarget, "evaluator: give exactly one of a script, a URL and a model")
	model, start := cfg.Model, 0
	if cfg.Model != nil {
		known := []string{varQuestion, varCriteria, varCandidate, varReference}
		problems.Join(cfg.Prompt.CheckUse(known, varCandidate))
	} else if cfg.URL != "" {
		var err error
		e.address, err = proc.NewAddress(proc.AddressConfig{URL: cfg.URL, Token: cfg.Token, MaxAnswer: maxOutput})
		problems.Join(err)
		model, start = pipeline.ModelFunc(e.post), limit.Start // timeouts alone would never widen a window of 1
	}
	if err := errors.Join(problems...); err != nil {
		return nil, err
	}
	if model != nil {
		e.limiter = limit.New(limit.Config{MaxConcurrent: maxConcurrent, Start: start, Backoff: cfg.Pause})
		e.limited = cfg.withLimits(model, e.limiter, nil)
	}
	return e, nil
}

// Evaluate judges one case within Config.Timeout. Requests to an address or a model are sent
// again as pipeline.Limited describes. The error is a *Fault, that of ctx if it ended, or one
// that stops a run (limit.StopsRun): the budget of WithBudget is used up, or the run was stopped
// while the evaluation waited. The Verdict beside an error only has the Call of a model.
//
// A program runs in its own process group, and no process of the group is left afterwards. A
// request to an address may have been carried out even if there is an error.
func (e *Evaluator) Evaluate(ctx context.Context, c Case) (Verdict, error) {
	inner, cancel := limit.WithTimeout(ctx, e.cfg.Timeout)
	defer cancel()
	v, err := e.judge(inner, c)
	if err == nil {
		return v, nil
	}
	v = Verdict{Call: v.Call}
	switch {
	case ctx.Err() != nil:
		return Verdict{}, ctx.Err()
	case errors.Is(inner.Err(), context.DeadlineExceeded):
		err = &Fault{TimedOut, fmt.Sprintf("no answer within %s", e.cfg.Timeout), err}
	case e.limited != nil:
		return v, e.modelFault(err)
	}
	e.nameWithheld(err)
	return v, err
}

// nameWithheld adds the names of withheld variables to the first Fault of a program, since a
// missing variable may be its cause.
func (e *Evaluator) nameWithheld(err error) {
	fault, ok := errors.AsType[*Fault](err)
	if len(e.cfg.Script) == 0 || !ok || !e.faulted.CompareAndSwap(false, true) {
		return
	}
	if _, withheld := secret.Withhold(os.Environ(), e.cfg.Handed); len(withheld) > 0 {
		fault.Message = fmt.Sprintf("(withheld: %s; env: hands one on) %s", strings.Join(withheld, ", "), fault.Message)
	}
}

// Command describes the evaluator for reports: the words of the script, masked; the address
// without its query; or the model and its prompt.
func (e *Evaluator) Command() []string {
	switch {
	case len(e.cfg.Script) > 0:
		return e.mask.Arguments(e.cfg.Script)
	case e.cfg.URL != "":
		return []string{e.address.Shown}
	}
	prompt := fmt.Sprintf("prompt %s@%d", e.cfg.Prompt.Name, e.cfg.Prompt.Version)
	if e.cfg.Prompt.Name == "" {
		prompt = "prompt " + e.cfg.Prompt.SHA256()[:12]
	}
	return []string{"model", e.cfg.ModelName, prompt}
}

// Case is the input of an evaluation. Every field may be empty.
type Case struct {
	Question  string // the question to the candidate
	Criteria  string // properties of a good answer
	Candidate string // the answer to judge
	Reference string // the expected answer

	InputFiles, GuidelineFiles []string

	// Item is set if the case is an item of an experiment.
	Item *Item
}

// Item is the dataset item of a case, as JSON.
type Item struct {
	ID        string          `json:"id"`
	Input     json.RawMessage `json:"input,omitempty"`
	Expected  json.RawMessage `json:"expected,omitempty"`
	Extracted json.RawMessage `json:"extracted,omitempty"`
	Metadata  json.RawMessage `json:"metadata,omitempty"`
}

// request is the wire form. It has the field names of the first generation, then those of the
// second. An evaluator reads those that it knows.
type request struct {
	Question         string             `json:"question"`
	Criteria         string             `json:"criteria"`
	CandidateAnswer  string             `json:"candidate_answer"`
	ReferenceAnswer  string             `json:"reference_answer"`
	ExpectedMessages []pipeline.Message `json:"expected_messages"`
	InputMessages    []pipeline.Message `json:"input_messages"`
	OutputMessages   []pipeline.Message `json:"output_messages"`
	GuidelineFiles   []string           `json:"guideline_files"`
	InputFiles       []string           `json:"input_files"`

	Input          []pipeline.Message `json:"input"`
	Output         []pipeline.Message `json:"output"`
	Answer         string             `json:"answer"`
	ExpectedOutput []pipeline.Message `json:"expected_output"`

	Item *Item `json:"item,omitempty"`
}

// encode returns the case as one line of JSON that ends in a newline.
func (c Case) encode() ([]byte, error) {
	question := []pipeline.Message{{Role: "user", Content: c.Question}}
	answer := []pipeline.Message{{Role: "assistant", Content: c.Candidate}}
	reference := []pipeline.Message{}
	if c.Reference != "" {
		reference = append(reference, pipeline.Message{Role: "assistant", Content: c.Reference})
	}
	r := request{
		Question: c.Question, Criteria: c.Criteria, CandidateAnswer: c.Candidate, ReferenceAnswer: c.Reference,
		ExpectedMessages: reference, InputMessages: question, OutputMessages: answer,
		GuidelineFiles: append([]string{}, c.GuidelineFiles...), InputFiles: append([]string{}, c.InputFiles...),
		Input: question, Output: answer, Answer: c.Candidate, ExpectedOutput: reference, Item: c.Item,
	}
	line, err := textutil.MarshalJSON(r)
	return append(line, '\n'), err
}

// Verdict is the answer of an evaluator.
type Verdict struct {
	// Score is in [0,1].
	Score float64
	// Hits and Misses are what the answer does and does not do. In the second generation they are
	// the assertions that passed and those that failed.
	Hits, Misses []string
	// Reasoning may be empty.
	Reasoning string

	// Call is the request to a model, its answer, usage and cost; nil for a program or an
	// address.
	Call *outcome.Call
}

// Grade is a score in one word.
type Grade string

// Grades, see GradeOf.
const (
	Pass       Grade = "pass"
	Borderline Grade = "borderline"
	Fail       Grade = "fail"
)

// GradeOf returns Pass for a score of at least 0.8, Borderline for one of at least 0.6, otherwise
// Fail.
func GradeOf(score float64) Grade {
	switch {
	case score >= 0.8:
		return Pass
	case score >= 0.6:
		return Borderline
	}
	return Fail
}

// Limits of an answer.
const (
	maxListed = 10_000 // entries of a list
	maxShown  = 200    // bytes of an answer in a message
)

// parseVerdict reads an answer: exactly one JSON object with a finite "score" from 0 to 1, and
// "hits" and "misses", two lists of texts, or "assertions", a list of {"text", "passed",
// "evidence"?}. "reasoning" is optional, other keys are ignored. The error is a *Fault of kind
// NotJSON or BadVerdict that names all wrong fields.
func parseVerdict(raw []byte) (Verdict, error) {
	fields, err := parseObject(raw)
	if err != nil {
		return Verdict{}, &Fault{NotJSON, fmt.Sprintf("%v; the answer is %q", err, excerpt(raw)), nil}
	}
	var v Verdict
	err = v.readScore(fields["score"])
	if assertions := fields["assertions"]; !textutil.AbsentJSON(assertions) {
		err = errors.Join(err, v.readAssertions(assertions))
	} else {
		err = errors.Join(err, readTexts("hits", fields["hits"], &v.Hits), readTexts("misses", fields["misses"], &v.Misses))
	}
	if raw := fields["reasoning"]; !textutil.AbsentJSON(raw) && json.Unmarshal(raw, &v.Reasoning) != nil {
		err = errors.Join(err, fmt.Errorf("reasoning: expected a text, got %s", excerpt(raw)))
	}
	if err != nil {
		return Verdict{}, &Fault{BadVerdict, strings.ReplaceAll(err.Error(), "\n", "; "), err}
	}
	return v, nil
}

func (v *Verdict) readScore(raw json.RawMessage) error {
	switch {
	case textutil.AbsentJSON(raw):
		return errors.New("score is missing")
	case json.Unmarshal(raw, &v.Score) != nil:
		return fmt.Errorf("score: expected a number, got %s", excerpt(raw))
	case !(v.Score >= 0 && v.Score <= 1):
		return fmt.Errorf("score: %s is not from 0 to 1", excerpt(raw))
	}
	return nil
}

// readTexts reads a list of the first generation: hits or misses.
func readTexts(key string, raw json.RawMessage, into *[]string) error {
	var texts []*string // a null would read as an empty text
	switch {
	case textutil.AbsentJSON(raw):
		return fmt.Errorf("%s is missing", key)
	case json.Unmarshal(raw, &texts) != nil || len(texts) > maxListed || slices.Contains(texts, nil):
		return fmt.Errorf("%s: expected a list of at most %d texts, got %s", key, maxListed, excerpt(raw))
	}
	*into = append([]string{}, cli.Each(texts, func(text *string) string { return *text })...)
	return nil
}

// readAssertions reads assertions, the form of the second generation.
func (v *Verdict) readAssertions(raw json.RawMessage) error {
	var list []struct {
		Text     *string `json:"text"`
		Passed   *bool   `json:"passed"`
		Evidence *string `json:"evidence"` // only checked
	}
	if json.Unmarshal(raw, &list) != nil || len(list) > maxListed {
		return fmt.Errorf("assertions: expected a list of at most %d objects with text, passed and perhaps evidence, got %s",
			maxListed, excerpt(raw))
	}
	v.Hits, v.Misses = []string{}, []string{}
	for i, a := range list {
		switch {
		case a.Text == nil || a.Passed == nil:
			return fmt.Errorf("assertions[%d]: text and passed are both required", i)
		case *a.Passed:
			v.Hits = append(v.Hits, *a.Text)
		default:
			v.Misses = append(v.Misses, *a.Text)
		}
	}
	return nil
}
