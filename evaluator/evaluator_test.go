package evaluator_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"extraction-experiment/evaluator"
	"extraction-experiment/internal/testkit/suite"
	"extraction-experiment/outcome"
	"extraction-experiment/pipeline"
)

// childEnv is the variable of the environment that makes this test binary an evaluator with that
// behaviour.
const childEnv = "EVALUATOR_TEST_CHILD"

func TestMain(m *testing.M) {
	if behaviour := os.Getenv(childEnv); behaviour != "" {
		os.Exit(runChild(behaviour))
	}
	if err := suite.SetParallel(4); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

const goodVerdict = `{"score":1,"hits":["h"],"misses":[]}`

// runChild acts as an evaluator and returns its exit status. An unknown behaviour is a text to
// print.
func runChild(behaviour string) int {
	if behaviour == "deaf" {
		fmt.Println(goodVerdict)
		return 0
	}
	raw, err := io.ReadAll(os.Stdin)
	if err != nil {
		return 1
	}
	switch behaviour {
	case "echo": // returns the request as reasoning
		fmt.Printf(`{"score":0.5,"hits":[],"misses":[],"reasoning":%q}`, raw)
	case "hang":
		time.Sleep(time.Minute)
	case "exit":
		fmt.Println(goodVerdict)
		fmt.Fprintln(os.Stderr, "no model")
		return 3
	case "flood":
		for {
			if _, err := os.Stdout.WriteString(strings.Repeat("x", 1<<16)); err != nil {
				return 1
			}
		}
	case "fork":
		other := exec.Command(os.Args[0])
		other.Env = append(os.Environ(), childEnv+"=hang")
		stdin, err := other.StdinPipe()
		if err != nil || other.Start() != nil {
			return 1
		}
		defer stdin.Close()
		fmt.Println(goodVerdict)
	default:
		fmt.Println(behaviour)
	}
	return 0
}

func newEvaluator(t *testing.T, cfg evaluator.Config) *evaluator.Evaluator {
	t.Helper()
	e, err := evaluator.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func scriptEvaluator(t *testing.T, behaviour string, timeout time.Duration) *evaluator.Evaluator {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return newEvaluator(t, evaluator.Config{Script: []string{self}, Env: []string{childEnv + "=" + behaviour}, Timeout: timeout})
}

var question = evaluator.Case{Question: "7 * 8?", Criteria: "the number", Candidate: "56 </b>", Reference: "56"}

func TestEvaluate_program(t *testing.T) {
	v, err := scriptEvaluator(t, "echo", 0).Evaluate(t.Context(), question)
	if err != nil || v.Score != 0.5 {
		t.Fatalf("%+v, %v", v, err)
	}
	var sent map[string]any
	if err := json.Unmarshal([]byte(v.Reasoning), &sent); err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]string{ // the names of both generations
		"question": "7 * 8?", "criteria": "the number", "candidate_answer": "56 </b>", "reference_answer": "56", "answer": "56 </b>",
		"expected_messages": "[map[content:56 role:assistant]]", "input_messages": "[map[content:7 * 8? role:user]]", "output_messages": "[map[content:56 </b> role:assistant]]",
		"guideline_files": "[]", "input_files": "[]", "input": "[map[content:7 * 8? role:user]]", "output": "[map[content:56 </b> role:assistant]]", "expected_output": "[map[content:56 role:assistant]]",
	} {
		if got := fmt.Sprint(sent[key]); got != want {
			t.Errorf("%s is %s, want %s", key, got, want)
		}
	}
}

func TestEvaluate_faults(t *testing.T) {
	t.Parallel()
	for behaviour, want := range map[string]evaluator.Kind{
		"hang": evaluator.TimedOut, "exit": evaluator.Exited, "flood": evaluator.Flooded, "deaf": evaluator.Unread, "fork": evaluator.Strayed,
		`{"score":1.5,"hits":[],"misses":[]}`: evaluator.BadVerdict, `{"score":1}`: evaluator.BadVerdict, `{"score":NaN}`: evaluator.NotJSON, "{\"score\":1,\"hits\":[\"\xff\"],\"misses\":[]}": evaluator.NotJSON, goodVerdict + goodVerdict: evaluator.NotJSON, "hello": evaluator.NotJSON,
	} {
		timeout := 10 * time.Second
		if behaviour == "hang" {
			timeout = 200 * time.Millisecond
		}
		began := time.Now()
		_, err := scriptEvaluator(t, behaviour, timeout).Evaluate(t.Context(), question)
		var fault *evaluator.Fault
		if !errors.As(err, &fault) || fault.Kind != want || fault.Unavailable() {
			t.Errorf("%s: %v, want %s", behaviour, err, want)
		}
		if took := time.Since(began); took > 8*time.Second {
			t.Errorf("%s took %s", behaviour, took)
		}
	}
	none := newEvaluator(t, evaluator.Config{Script: []string{"./no-such-judge"}})
	_, err := none.Evaluate(t.Context(), question)
	var fault *evaluator.Fault
	if !errors.As(err, &fault) || !fault.Unavailable() || fault.ExitCode() != 69 {
		t.Errorf("no such program: %v", err)
	}
}

// TestEvaluate_withheld checks that the first fault of a program names the withheld variables,
// that messages show no secret, and that a secret in the command line is refused or masked.
func TestEvaluate_withheld(t *testing.T) {
	t.Setenv("JUDGE_HEADERS", `{"X-Key":"UNIQ1"}`)
	t.Setenv("OTHER_PAT", "other-1234")
	t.Setenv("EXPERIMENT_UNKNOWN", "1")
	e := newEvaluator(t, evaluator.Config{
		Script: []string{"/bin/sh", "-c", `cat >/dev/null; echo "$JUDGE_HEADERS|$OTHER_PAT|$EXPERIMENT_UNKNOWN" >&2; exit 3`, "sh", "--api-key=X"},
		Handed: []string{"JUDGE_HEADERS"},
	})
	if got := strings.Join(e.Command(), " "); !strings.HasSuffix(got, "sh --api-key=***") {
		t.Errorf("it is shown as %s", got)
	}
	var messages []string
	for range 2 {
		_, err := e.Evaluate(t.Context(), question)
		messages = append(messages, fmt.Sprint(err))
	}
	named, _, _ := strings.Cut(messages[0], ")")
	if !strings.Contains(named, "EXPERIMENT_UNKNOWN") || !strings.Contains(named, "OTHER_PAT") || strings.Contains(named, "JUDGE_HEADERS") || !strings.HasSuffix(messages[0], "\n***||") {
		t.Errorf("the first: %s", messages[0])
	}
	if want := "exit_status: /bin/sh ended with exit status 3; standard error ends with:\n***||"; messages[1] != want {
		t.Errorf("the second: %s", messages[1])
	}
	_, err := evaluator.New(evaluator.Config{Script: []string{"judge", "other-1234"}})
	if err == nil || !strings.Contains(err.Error(), "argument 1 of the command holds the value of OTHER_PAT") {
		t.Errorf("got %v", err)
	}
}

func TestEvaluate_cancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := scriptEvaluator(t, goodVerdict, 0).Evaluate(ctx, question); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v: the end of the caller's context is not a fault of the evaluator", err)
	}
}

func TestEvaluate_endpoint(t *testing.T) {
	answers := map[string]func(http.ResponseWriter){
		"/good":     func(w http.ResponseWriter) { fmt.Fprint(w, goodVerdict) },
		"/busy":     func(w http.ResponseWriter) { http.Error(w, "busy", 503) },
		"/closed":   func(w http.ResponseWriter) { http.Error(w, "who?", 401) },
		"/moved":    func(w http.ResponseWriter) { w.Header().Set("Location", "/good"); w.WriteHeader(302) },
		"/flood":    func(w http.ResponseWriter) { fmt.Fprint(w, strings.Repeat("x", 1<<21)) },
		"/text":     func(w http.ResponseWriter) { fmt.Fprint(w, "hello") },
		"/outrange": func(w http.ResponseWriter) { fmt.Fprint(w, `{"score":2,"hits":[],"misses":[]}`) },
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if r.URL.Path == "/slow" { // the server notices the end of a request only after reading its body
			<-r.Context().Done()
			return
		}
		if err != nil || !strings.Contains(string(body), `"candidate_answer":"56 </b>"`) || r.Header.Get("Authorization") != "Bearer s3cr3t-token" {
			http.Error(w, "not what was expected", 400)
			return
		}
		answers[r.URL.Path](w)
	}))
	defer server.Close()
	for path, want := range map[string]evaluator.Kind{
		"/good": "", "/busy": evaluator.Status, "/closed": evaluator.Unreachable, "/moved": evaluator.Status, "/flood": evaluator.Flooded,
		"/text": evaluator.NotJSON, "/outrange": evaluator.BadVerdict, "/slow": evaluator.TimedOut,
	} {
		timeout := 10 * time.Second
		if path == "/slow" {
			timeout = 50 * time.Millisecond
		}
		e := newEvaluator(t, evaluator.Config{URL: server.URL + path + "?key=hidden", Token: "s3cr3t-token", Timeout: timeout, Pause: time.Millisecond})
		v, err := e.Evaluate(t.Context(), question)
		var fault *evaluator.Fault
		switch {
		case want == "" && (err != nil || v.Score != 1):
			t.Errorf("%s: %+v, %v", path, v, err)
		case want != "" && (!errors.As(err, &fault) || fault.Kind != want):
			t.Errorf("%s: %v, want %s", path, err, want)
		case err != nil && strings.Contains(err.Error(), "hidden"):
			t.Errorf("%s: the message shows the query: %v", path, err)
		}
	}
}

// modelFunc is a pipeline.Model that ignores the context.
type modelFunc func(pipeline.Request) (pipeline.Response, error)

func (m modelFunc) Generate(_ context.Context, req pipeline.Request) (pipeline.Response, error) {
	return m(req)
}

func TestEvaluate_model(t *testing.T) {
	cost := 0.25
	var asked string
	m := modelFunc(func(req pipeline.Request) (pipeline.Response, error) {
		asked = req.Messages[0].Content
		return pipeline.Response{Text: "Sure:\n```json\n" + goodVerdict + "\n```", CostUSD: &cost, Usage: outcome.Usage{Input: 7}}, nil
	})
	e := newEvaluator(t, evaluator.Config{Model: m, ModelName: "openai/x", Prompt: evaluator.DefaultPrompt()})
	v, err := e.Evaluate(t.Context(), question)
	if err != nil || v.Score != 1 || *v.Call.CostUSD != cost || v.Call.Usage.Input != 7 {
		t.Errorf("%+v, %v", v, err)
	}
	if !strings.Contains(asked, "<candidate_answer>56 </b></candidate_answer>") {
		t.Errorf("the model was asked %s", asked)
	}
	refuses := modelFunc(func(pipeline.Request) (pipeline.Response, error) {
		return pipeline.Response{Text: "I cannot say."}, nil
	})
	e = newEvaluator(t, evaluator.Config{Model: refuses, Prompt: evaluator.DefaultPrompt()})
	var fault *evaluator.Fault
	if _, err := e.Evaluate(t.Context(), question); !errors.As(err, &fault) || fault.Kind != evaluator.NotJSON ||
		!strings.Contains(err.Error(), `a program prints all else to standard error; the answer is "I cannot say."`) {
		t.Errorf("a model without a verdict: %v", err)
	}
}

func TestNew_problems(t *testing.T) {
	silent := modelFunc(func(pipeline.Request) (pipeline.Response, error) { return pipeline.Response{}, nil })
	for name, c := range map[string]struct {
		cfg  evaluator.Config
		want []string
	}{
		"nothing":       {evaluator.Config{}, []string{"exactly one"}},
		"two, and more": {evaluator.Config{Script: []string{"a"}, URL: "ftp://x", Timeout: time.Second}, []string{"exactly one", "must be an address"}},
		"password":      {evaluator.Config{URL: "http://a:b@host/"}, []string{"holds a password"}},
		"no program":    {evaluator.Config{Script: []string{""}}, []string{"names no program"}},
		"no prompt":     {evaluator.Config{Model: silent}, []string{"never shows {{candidate_answer}}"}},
		"blind prompt":  {evaluator.Config{Model: silent, Prompt: pipeline.ParseText("hi")}, []string{"never shows {{candidate_answer}}"}},
		"odd prompt":    {evaluator.Config{Model: silent, Prompt: pipeline.ParseText("{{candidate_answer}} {{document_text}}")}, []string{"{{document_text}}"}},
	} {
		_, err := evaluator.New(c.cfg)
		for _, want := range c.want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v does not say %q", name, err, want)
			}
		}
	}
}

func TestFingerprint(t *testing.T) {
	dir := t.TempDir()
	print := func(script ...string) string {
		e := newEvaluator(t, evaluator.Config{Script: script, Dir: dir})
		sum, err := e.Fingerprint()
		if err != nil || len(sum) != 64 {
			t.Fatalf("%q, %v", sum, err)
		}
		return sum
	}
	write := func(text string) {
		if err := os.WriteFile(dir+"/judge.py", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("one")
	first := print("python3", "judge.py")
	if first != print("python3", "judge.py") || first == print("python3", "judge.py", "-v") {
		t.Error("the fingerprint must follow the words")
	}
	write("two")
	if first == print("python3", "judge.py") {
		t.Error("the fingerprint must follow the file")
	}
}
