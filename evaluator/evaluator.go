// Package evaluator asks external evaluators for a score: a program, an HTTP
// endpoint, or a language model that judges. It holds the protocol, which is
// the same for all three, and contains what misbehaves.
//
// It does not say whether an evaluator can be trusted (that is the conformance
// harness), and it knows nothing of runs or datasets. An address or a model is
// asked again after 429, 5xx and broken connections; a program never is.
//
// One question goes through these steps:
//
//  1. the Case is written as one JSON object that carries the names of both
//     generations of the protocol (docs/evaluators.md);
//  2. the program, endpoint or model answers within Config.Timeout;
//  3. the answer is read strictly: one JSON object with a finite score in
//     [0,1], and hits and misses, or assertions;
//  4. whatever is not that is a *Fault with a kind, never a score.
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

// Config configures an Evaluator. Exactly one of Script, URL and Model is
// needed; every other zero value is usable.
type Config struct {
	// Script is a program and its arguments, run once for each case. A program
	// with a separator in its name is looked for relative to Dir.
	Script []string
	// Dir is the program's working directory. Its environment is that of this
	// process without what secret.Withhold keeps back, but for the variables that
	// Handed names; Env ("NAME=value") is added. What it writes to standard error
	// is shown by a Fault alone, the last lines.
	Dir    string
	Env    []string
	Handed []string

	// URL is an address that answers a POST of the request with a verdict.
	URL string
	// Token, if set, is sent to the address as "Authorization: Bearer". It comes
	// from the environment and is shown nowhere.
	Token string

	// Model judges by the Prompt; ModelName stands for it in reports.
	Model      pipeline.Model
	ModelName  string
	Prompt     pipeline.Template
	Parameters pipeline.Parameters

	// Timeout bounds one evaluation, but for what is waited for limits and before
	// a request is sent again; 0 means 1 minute.
	Timeout time.Duration
	// Pause is the time before a request to an address or a model is sent again, doubled
	// each time; 0 is pipeline.DefaultRetryPause.
	Pause time.Duration
}

// Evaluator asks an external evaluator. It is safe for concurrent use and keeps
// nothing between two cases but what it learned of the limits of an address or a
// model.
type Evaluator struct {
	cfg     Config
	limiter *limit.Limiter // nil for a program, as
	asked   pipeline.Model // what is asked within it

	address *proc.Address  // where it is one
	mask    *secret.Masker // of a program
	failed  atomic.Bool    // a program, at least once
}

// New makes an Evaluator. It starts and sends nothing. The error joins
// everything that is wrong with the Config.
func New(cfg Config) (*Evaluator, error) {
	cfg.Timeout = cmp.Or(cfg.Timeout, time.Minute)
	e := &Evaluator{cfg: cfg, mask: secret.NewMasker(append(os.Environ(), cfg.Env...), cfg.Script)}
	problems := []error{e.mask.CheckArguments(cfg.Script)}
	wrong := func(text string) { problems = append(problems, errors.New("evaluator: "+text)) }
	model, named := cfg.Model, 0
	if len(cfg.Script) > 0 {
		named++
		if cfg.Script[0] == "" {
			wrong("the script names no program")
		}
	}
	if cfg.URL != "" {
		named++
		at, err := proc.NewAddress(proc.AddressConfig{URL: cfg.URL, Token: cfg.Token, MaxAnswer: maxOutput})
		problems = append(problems, err)
		e.address, model = at, address{at}
	}
	if cfg.Model != nil {
		named++
		if len(cfg.Prompt.Messages) == 0 {
			wrong("the judge has no prompt")
		}
		problems = append(problems, cfg.Prompt.CheckUse([]string{varQuestion, varCriteria, varCandidate, varReference}, varCandidate))
	}
	if named != 1 {
		wrong("give exactly one of a script, a URL and a model")
	}
	if model != nil {
		e.limiter = limit.New(limit.Config{Most: mostAtOnce, Backoff: cfg.Pause})
		e.asked = cfg.within(model, e.limiter, nil)
	}
	if err := errors.Join(problems...); err != nil {
		return nil, err
	}
	return e, nil
}

// Evaluate asks once, within Config.Timeout; an address or a model is asked again
// where that may help, see pipeline.Limited. The error is a *Fault, or that of
// ctx when it ended, or one that stops a run (limit.StopsRun): the budget of
// Within is used up, or the run was stopped while the evaluation waited. The
// verdict beside an error holds what a model took and its Call, nothing else.
//
// A program is run with a process group of its own, of which nothing is left
// afterwards; a request to an endpoint may have been carried out even if there
// was an error.
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
	case e.asked != nil:
		return v, e.notAnswered(err)
	}
	e.nameWithheld(err)
	return v, err
}

// nameWithheld has the first fault of a program name the variables that are kept
// from it: that may be why.
func (e *Evaluator) nameWithheld(err error) {
	var fault *Fault
	if len(e.cfg.Script) == 0 || !errors.As(err, &fault) || !e.failed.CompareAndSwap(false, true) {
		return
	}
	if _, withheld := secret.Withhold(os.Environ(), e.cfg.Handed); len(withheld) > 0 {
		fault.Message = fmt.Sprintf("(withheld: %s; env: hands one on) %s", strings.Join(withheld, ", "), fault.Message)
	}
}

// Command says who is asked, for reports: the words of the script, masked, the
// address without its query, or the model.
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

// Case is what an evaluator judges. Every field may be empty.
type Case struct {
	Question  string // what was asked
	Criteria  string // what a good answer does
	Candidate string // the answer that is judged
	Reference string // the answer that is expected

	InputFiles, GuidelineFiles []string

	// Item is set where the case is an item of an experiment.
	Item *Item
}

// Item is the dataset item behind a case, as JSON.
type Item struct {
	ID        string          `json:"id"`
	Input     json.RawMessage `json:"input,omitempty"`
	Expected  json.RawMessage `json:"expected,omitempty"`
	Extracted json.RawMessage `json:"extracted,omitempty"`
	Metadata  json.RawMessage `json:"metadata,omitempty"`
}

type message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// request is the wire form: the names of the first generation, then those of
// the second; an evaluator reads the ones it knows.
type request struct {
	Question         string    `json:"question"`
	Criteria         string    `json:"criteria"`
	CandidateAnswer  string    `json:"candidate_answer"`
	ReferenceAnswer  string    `json:"reference_answer"`
	ExpectedMessages []message `json:"expected_messages"`
	InputMessages    []message `json:"input_messages"`
	OutputMessages   []message `json:"output_messages"`
	GuidelineFiles   []string  `json:"guideline_files"`
	InputFiles       []string  `json:"input_files"`

	Input          []message `json:"input"`
	Output         []message `json:"output"`
	Answer         string    `json:"answer"`
	ExpectedOutput []message `json:"expected_output"`

	Item *Item `json:"item,omitempty"`
}

// encode writes the case as one line of JSON with its end.
func (c Case) encode() ([]byte, error) {
	asked := []message{{"user", c.Question}}
	answered := []message{{"assistant", c.Candidate}}
	expected := []message{}
	if c.Reference != "" {
		expected = append(expected, message{"assistant", c.Reference})
	}
	r := request{
		Question: c.Question, Criteria: c.Criteria, CandidateAnswer: c.Candidate, ReferenceAnswer: c.Reference,
		ExpectedMessages: expected, InputMessages: asked, OutputMessages: answered,
		GuidelineFiles: append([]string{}, c.GuidelineFiles...), InputFiles: append([]string{}, c.InputFiles...),
		Input: asked, Output: answered, Answer: c.Candidate, ExpectedOutput: expected, Item: c.Item,
	}
	line, err := textutil.MarshalJSON(r)
	return append(line, '\n'), err
}

// Verdict is what an evaluator says of a case.
type Verdict struct {
	// Score is in [0,1].
	Score float64
	// Hits and Misses are what the answer does and does not do. In the second
	// generation they are the assertions that passed and that did not.
	Hits, Misses []string
	// Reasoning may be empty.
	Reasoning string

	// Call is what a model was asked and answered, with what that took; nil of others.
	Call *outcome.Call
}

// Grade is a verdict in one word.
type Grade string

// The grades.
const (
	Pass       Grade = "pass"
	Borderline Grade = "borderline"
	Fail       Grade = "fail"
)

// GradeOf returns Pass for a score of at least 0.8, Borderline for one of at
// least 0.6, else Fail.
func GradeOf(score float64) Grade {
	switch {
	case score >= 0.8:
		return Pass
	case score >= 0.6:
		return Borderline
	}
	return Fail
}

// The limits of an answer, beyond which it is refused.
const (
	maxListed = 10_000
	maxShown  = 200 // bytes of an answer in a message
)

// parseVerdict reads an answer: exactly one JSON object with a finite "score"
// from 0 to 1, and "hits" and "misses", two lists of texts, or "assertions", a
// list of {"text", "passed", "evidence"?}; "reasoning" is optional, other keys
// are ignored. The error is a *Fault of kind NotJSON or BadVerdict that says
// every field that is wrong.
func parseVerdict(raw []byte) (Verdict, error) {
	fields, err := oneObject(raw)
	if err != nil {
		return Verdict{}, &Fault{NotJSON, fmt.Sprintf("%v; it printed %q", err, excerpt(raw)), nil}
	}
	var v Verdict
	problems := []error{v.readScore(fields["score"])}
	if given(fields["assertions"]) {
		problems = append(problems, v.readAssertions(fields["assertions"]))
	} else {
		problems = append(problems, v.readLists(fields))
	}
	if raw := fields["reasoning"]; given(raw) && json.Unmarshal(raw, &v.Reasoning) != nil {
		problems = append(problems, fmt.Errorf("reasoning: expected a text, got %s", excerpt(raw)))
	}
	if err := errors.Join(problems...); err != nil {
		return Verdict{}, &Fault{BadVerdict, strings.ReplaceAll(err.Error(), "\n", "; "), err}
	}
	return v, nil
}

func (v *Verdict) readScore(raw json.RawMessage) error {
	switch {
	case !given(raw):
		return errors.New("score is missing")
	case json.Unmarshal(raw, &v.Score) != nil:
		return fmt.Errorf("score: expected a number, got %s", excerpt(raw))
	case !(v.Score >= 0 && v.Score <= 1):
		return fmt.Errorf("score: %s is not from 0 to 1", excerpt(raw))
	}
	return nil
}

// readLists reads the first generation.
func (v *Verdict) readLists(fields map[string]json.RawMessage) error {
	var problems []error
	for _, list := range []struct {
		key string
		to  *[]string
	}{{"hits", &v.Hits}, {"misses", &v.Misses}} {
		raw := fields[list.key]
		var texts []*string // a null would read as an empty text
		switch {
		case !given(raw):
			problems = append(problems, fmt.Errorf("%s is missing", list.key))
		case json.Unmarshal(raw, &texts) != nil || len(texts) > maxListed || slices.Contains(texts, nil):
			problems = append(problems, fmt.Errorf("%s: expected a list of at most %d texts, got %s", list.key, maxListed, excerpt(raw)))
		default:
			*list.to = append([]string{}, cli.Each(texts, func(text *string) string { return *text })...)
		}
	}
	return errors.Join(problems...)
}

// readAssertions reads the second generation.
func (v *Verdict) readAssertions(raw json.RawMessage) error {
	var list []struct {
		Text   *string `json:"text"`
		Passed *bool   `json:"passed"`
	}
	if json.Unmarshal(raw, &list) != nil || len(list) > maxListed {
		return fmt.Errorf("assertions: expected a list of at most %d objects with text and passed, got %s", maxListed, excerpt(raw))
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
