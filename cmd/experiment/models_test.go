package main

import (
	"bytes"
	"encoding/json"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"extraction-experiment/internal/cli"
	"extraction-experiment/langfuse"
	"extraction-experiment/langfuse/embedded"
)

// chatServer is an OpenAI-compatible server that stores the requests.
type chatServer struct {
	url    string
	mu     sync.Mutex
	bodies []map[string]any
}

func newChatServer(t *testing.T, answer string) *chatServer {
	t.Helper()
	s := &chatServer{}
	hs := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw, err := io.ReadAll(r.Body)
		var body map[string]any
		if err == nil {
			err = json.Unmarshal(raw, &body)
		}
		if err != nil || r.Header.Get("Authorization") != "Bearer sk-test-secret" {
			http.Error(w, "bad request", http.StatusBadRequest)
			return
		}
		s.mu.Lock()
		s.bodies = append(s.bodies, body)
		s.mu.Unlock()
		writeCompletion(w, "gpt-test-2026", answer, 100, 20)
	}))
	t.Cleanup(hs.Close)
	s.url = hs.URL + "/v1"
	return s
}

// writeCompletion writes an answer in the form of OpenAI's chat completions. If both token
// counts are 0, it has no usage.
func writeCompletion(w http.ResponseWriter, model, answer string, in, out int) {
	body := map[string]any{
		"id": "1", "object": "chat.completion", "model": model,
		"choices": []any{map[string]any{"index": 0, "finish_reason": "stop", "message": map[string]any{"role": "assistant", "content": answer}}},
	}
	if in+out > 0 {
		body["usage"] = map[string]any{"prompt_tokens": in, "completion_tokens": out, "total_tokens": in + out}
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(body) // the client may have gone away on purpose
}

func (s *chatServer) last() map[string]any {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bodies[len(s.bodies)-1]
}

// with runs a command line with environment variables.
func (b bench) with(env map[string]string, args ...string) (code int, stdout, stderr string) {
	b.t.Helper()
	var out, err bytes.Buffer
	code = Run(b.t.Context(), cli.Env{
		Args: args, Stdin: strings.NewReader(""), Stdout: &out, Stderr: &err,
		Getenv: func(name string) string { return env[name] }, Terminal: func() int { return 0 },
	})
	return code, out.String(), err.String()
}

// succeed runs a command line, which must end with exit code 0, and returns its output.
func (b bench) succeed(env map[string]string, args ...string) (stdout, stderr string) {
	b.t.Helper()
	code, stdout, stderr := b.with(env, args...)
	if code != cli.ExitOK {
		b.t.Fatalf("experiment %q: exit %d: %s%s", args, code, stdout, stderr)
	}
	return stdout, stderr
}

const adaAnswer = `{"entities":[{"name":"Ada Lovelace","type":"Person"}],"relationships":[]}`

const oneItem = `{"id":"ada","input":{"document_text":"Ada Lovelace was born in London.","object_schemas":{"Person":{"description":"a person"}}},"expectedOutput":{"entities":[{"name":"Ada Lovelace","type":"Person"}],"relationships":[]}}
`

func TestSpec_ParameterizedExperimentConfiguration(t *testing.T) {
	b, server := newBench(t), newChatServer(t, adaAnswer)
	b.seed("docs", oneItem)
	b.langfuse(func(client *langfuse.Client) {
		for label, text := range map[string]string{"production": "Plain: {{document_text}}", "staging": "Careful, with {\"a\": {\"b\": 1}}: {{ document_text }}"} {
			raw, err := json.Marshal(text)
			must(t, err)
			create := langfuse.Prompt{Name: "people", Type: langfuse.PromptText, Prompt: raw, Labels: []string{label}}
			if _, err := client.CreatePrompt(t.Context(), create); err != nil {
				t.Fatal(err)
			}
		}
	})
	env := map[string]string{"OPENAI_API_KEY": "sk-test-secret", "OPENAI_BASE_URL": server.url, "EXPERIMENT_PRICES_FILE": pricesFor(t, "gpt-test-2026")}
	stdout, stderr := b.succeed(env, "--dataset", "docs", "--name", "r1", "--model", "openai/gpt-test", "--prompt", "people",
		"--prompt-label", "staging", "--temperature", "0", "--seed", "7", "--top-p", "0.5", "--max-tokens", "300", "--json")
	body := server.last()
	messages := body["messages"].([]any)
	if got := messages[0].(map[string]any)["content"]; got != `Careful, with {"a": {"b": 1}}: Ada Lovelace was born in London.` {
		t.Errorf("the model was asked %q", got)
	}
	for key, want := range map[string]any{"model": "gpt-test", "temperature": 0.0, "seed": 7.0, "top_p": 0.5, "max_tokens": 300.0} {
		if got, sent := body[key]; !sent || got != want {
			t.Errorf("%s on the wire is %v (%v), want %v", key, got, sent, want)
		}
	}
	if format, ok := body["response_format"].(map[string]any); !ok || format["type"] != "json_schema" {
		t.Errorf("response_format on the wire is %v", body["response_format"])
	}
	s := b.stored(summaryOf(t, stdout).Run.ID)
	var metadata map[string]string
	must(t, json.Unmarshal(s.items["ada"].ExperimentFields, &metadata))
	for key, want := range map[string]string{
		"model": "gpt-test", "provider": "openai", "temperature": "0", "top_p": "0.5", "max_tokens": "300", "seed": "7",
		"prompt_name": "people", "prompt_label": "staging",
	} {
		if metadata[key] != want {
			t.Errorf("the run's %s is %q, want %q", key, metadata[key], want)
		}
	}
	b.generation(s.items["ada"].TraceID, metadata["prompt_version"])
	code, _, _ := b.with(env, "--dataset", "docs", "--name", "r2", "--model", "openai/gpt-test", "--prompt", "people", "--quiet")
	got := server.last()["messages"].([]any)[0].(map[string]any)["content"].(string)
	if _, sent := server.last()["temperature"]; code != cli.ExitOK || !strings.HasPrefix(got, "Plain:") || sent {
		t.Errorf("without a label and temperature: exit %d, asked %q, temperature sent %v", code, got, sent)
	}
	for _, text := range []string{stdout, stderr} {
		if strings.Contains(text, "sk-test-secret") {
			t.Error("the key was printed")
		}
	}
}

// generation checks the model's span of a trace as a reader of Langfuse sees it.
func (b bench) generation(traceID, promptVersion string) {
	b.t.Helper()
	b.langfuse(func(client *langfuse.Client) {
		for o, err := range client.ListObservations(b.t.Context(), langfuse.ObservationsQuery{
			TraceIDs: []string{traceID}, From: time.Unix(0, 0), TraceParts: langfuse.TraceParts{IO: true},
		}) {
			must(b.t, err)
			if o.Type != "GENERATION" {
				continue
			}
			raw, err := json.Marshal(o)
			must(b.t, err)
			for _, want := range []string{`"gpt-test-2026"`, `"people"`, promptVersion, "100", "20", `temperature`} {
				if !strings.Contains(string(raw), want) {
					b.t.Errorf("the generation has no %s: %s", want, raw)
				}
			}
			// 100 tokens at 2 USD and 20 at 8 USD a million: 0.0002 + 0.00016.
			if got := float64(o.TotalCost); math.Abs(got-0.00036) > 1e-12 {
				b.t.Errorf("the generation cost %g USD, want 0.00036", got)
			}
			return
		}
		b.t.Error("the trace has no generation")
	})
}

// pricesFor writes a file of prices: a million input tokens cost 2 USD, output tokens 8.
func pricesFor(t *testing.T, model string) string {
	t.Helper()
	text := "as_of: 2026-11-21\nsource: a test\nprices:\n  " + model + ": {input: 2, cached_input: 1, output: 8}\n"
	path := filepath.Join(t.TempDir(), "prices.yaml")
	must(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func TestModels_promptFile(t *testing.T) {
	b, server := newBench(t), newChatServer(t, adaAnswer)
	b.seed("docs", oneItem)
	env := map[string]string{"OPENAI_API_KEY": "sk-test-secret", "OPENAI_BASE_URL": server.url}
	write := func(text string) {
		must(t, os.WriteFile("p.txt", []byte(text), 0o600))
	}
	versions := []int{}
	for i, text := range []string{"One: {{document_text}}", "One: {{document_text}}", "Two: {{document_text}}", "One: {{document_text}}"} {
		write(text)
		stdout, _ := b.succeed(env, "--dataset", "docs", "--name", "r"+string(rune('1'+i)), "--model", "openai/gpt-test",
			"--prompt", "mine", "--prompt-file", "p.txt", "--json")
		versions = append(versions, summaryOf(t, stdout).Run.PromptVersion)
	}
	if versions[0] != 1 || versions[1] != 1 || versions[2] != 2 || versions[3] != 1 {
		t.Errorf("versions %v: the same text is the same version", versions)
	}
	args := []string{"--dataset", "docs", "--model", "openai/gpt-test", "--prompt", "mine", "--prompt-file", "p.txt"}
	b.succeed(env, append(args, "--name", "r2", "--resume", "--quiet")...)
	b.prompt(langfuse.Prompt{Name: "mine", Type: langfuse.PromptText, Prompt: json.RawMessage(`"Two: {{document_text}}"`)})
	write("Two: {{document_text}}")
	b.succeed(env, append(args, "--name", "r3", "--retry-failed", "--quiet")...) // keeps version 2, though 3 is equal
	for name, tt := range map[string]struct{ add, want []string }{
		"a resumed run":        {[]string{"--name", "r1", "--retry-failed"}, []string{"prompt: began with mine@1, now mine (p.txt)\n", "text of the prompt"}},
		"a name that is taken": {[]string{"--name", "r1"}, []string{"taken"}},
		"the baseline":         {[]string{"--name", "r9", "--model", "baseline"}, []string{"reads no prompt", "no limit or budget"}},
		"the parameters":       {[]string{"--name", "r9", "--model", "o3", "--temperature", "0.5"}, []string{"takes no temperature"}},
		"a sweep":              {[]string{"--name", "r9", "--model", "openai/gpt-test,o3", "--temperature", "0.5"}, []string{"takes no temperature"}},
		"two files":            {[]string{"--name", "r9", "--prompt-file", "p.txt,q.txt"}, []string{"prompt files cannot be swept", "--prompt-version"}},
	} {
		write("Three: {{document_text}}")
		code, _, stderr := b.with(env, append(args, tt.add...)...)
		for _, want := range tt.want {
			if code != cli.ExitUsage || !strings.Contains(stderr, want) {
				t.Errorf("%s: exit %d, %s", name, code, stderr)
			}
		}
	}
	if stdout, _ := b.succeed(env, "prompts", "list", "--json"); !strings.Contains(stdout, `"mine","type":"text","versions":[1,2,3]`) {
		t.Errorf("a refused command pushed a prompt: %s", stdout)
	}
	write("no document at all")
	if code, _, stderr := b.with(env, "--dataset", "docs", "--name", "r9", "--model", "openai/gpt-test", "--prompt-file", "p.txt"); code != cli.ExitUsage || !strings.Contains(stderr, "document") {
		t.Errorf("a prompt without the document: exit %d, %s", code, stderr)
	}
}

// TestModels_movedLabel: a run that is resumed keeps the version of its prompt when the label has moved
// since. Another label is another experiment.
func TestModels_movedLabel(t *testing.T) {
	b, server := newBench(t), newChatServer(t, adaAnswer)
	b.seed("docs", oneItem)
	env := map[string]string{"OPENAI_API_KEY": "sk-test-secret", "OPENAI_BASE_URL": server.url}
	args := []string{"--dataset", "docs", "--name", "r", "--model", "openai/gpt-test", "--prompt", "mine", "--quiet"}
	for _, text := range []string{`"One: {{document_text}}"`, `"Two: {{document_text}}"`} {
		version := langfuse.Prompt{Name: "mine", Type: langfuse.PromptText, Prompt: json.RawMessage(text)}
		version.Labels = []string{"production"}
		b.prompt(version)
		b.succeed(env, append(args, "--resume")...)
	}
	b.succeed(env, append(args, "--resume", "--prompt-label", "production")...)
	for _, other := range []string{"--prompt-label=latest", "--prompt-version=2"} {
		code, _, stderr := b.with(env, append(args, "--resume", other)...)
		if code != cli.ExitUsage || !strings.Contains(stderr, "prompt: began with mine@1, now mine@2\n") {
			t.Errorf("%s: exit %d, %s", other, code, stderr)
		}
	}
}

// TestModels_deletedPrompt: a run whose prompt is not in Langfuse any more goes on with the text and the
// config that it began with, whichever way the prompt is named.
func TestModels_deletedPrompt(t *testing.T) {
	b, server := newBench(t), newChatServer(t, "no answer")
	b.seed("docs", oneItem)
	env := map[string]string{"OPENAI_API_KEY": "sk-test-secret", "OPENAI_BASE_URL": server.url}
	args := []string{"--dataset", "docs", "--name", "r", "--model", "openai/gpt-test", "--prompt", "mine", "--quiet",
		"--max-failures=100%"}
	b.prompt(langfuse.Prompt{Name: "mine", Type: langfuse.PromptText, Labels: []string{"production"},
		Prompt: json.RawMessage(`"One: {{document_text}}"`), Config: json.RawMessage(`{"temperature": 0.3}`)})
	b.succeed(env, args...)
	b.langfuse(func(client *langfuse.Client) {
		r, err := http.NewRequest(http.MethodDelete, client.BaseURL()+"/api/public/v2/prompts/mine", nil)
		must(t, err)
		r.SetBasicAuth(embedded.DefaultPublicKey, embedded.DefaultSecretKey)
		response, err := http.DefaultClient.Do(r)
		if err != nil || response.Body.Close() != nil || response.StatusCode != http.StatusNoContent {
			t.Fatalf("deleting the prompt: %v, %v", response, err)
		}
	})
	must(t, os.WriteFile("p.txt", []byte("One: {{document_text}}"), 0o600))
	for _, named := range []string{"--prompt-label=production", "--prompt-version=1", "--prompt-file=p.txt"} {
		before := len(server.bodies)
		b.succeed(env, append(args, "--retry-failed", named)...)
		text, _ := json.Marshal(server.last())
		if len(server.bodies) == before || !strings.Contains(string(text), "One: Ada") ||
			server.last()["temperature"] != 0.3 {
			t.Errorf("%s: the model was asked %d times, last %s", named, len(server.bodies)-before, text)
		}
	}
	code, _, stderr := b.with(env, append(args, "--retry-failed", "--prompt-version=2")...)
	if code != cli.ExitUsage || !strings.Contains(stderr, `there is no prompt "mine"`) {
		t.Errorf("another version: exit %d, %s", code, stderr)
	}
	// An export, which nobody resumes, stays readable for programs that do not know the key.
	export, _ := b.succeed(env, "export", "r")
	if !strings.Contains(export, `"prompt":{"name":"mine"`) || strings.Contains(export, `"template"`) {
		t.Errorf("exported: %.500s", export)
	}
}

func TestModels_refusals(t *testing.T) {
	b := newBench(t)
	for name, tt := range map[string]struct {
		args []string
		want string
		code int
	}{
		"no key":                   {[]string{"--model", "openai/gpt-test"}, "OPENAI_API_KEY", cli.ExitUsage},
		"unknown model":            {[]string{"--model", "nonsense"}, "there are: baseline, openai/NAME, gemini/NAME", cli.ExitUsage},
		"unknown prompt":           {[]string{"--model", "openai/gpt-test", "--prompt", "nowhere"}, `there is no prompt "nowhere"`, cli.ExitUsage},
		"unknown label":            {[]string{"--model", "openai/gpt-test", "--prompt-label", "nolabel"}, `the prompt "extraction" has no label "nolabel"; its versions: 1; its labels: latest, production; experiment prompts label extraction VERSION nolabel sets it; --prompt-file`, cli.ExitUsage},
		"baseline with two stages": {[]string{"--two-stages"}, "name a model", cli.ExitUsage},
		"recording a pipeline":     {[]string{"--pipeline", "cat", "--record", "x"}, "leave --record", cli.ExitUsage},
		"baseline with parameters": {[]string{"--temperature", "0.5"}, "name a model", cli.ExitUsage},
		"label and version":        {[]string{"--model", "openai/x", "--prompt-label", "a", "--prompt-version", "2"}, "give one of them", cli.ExitUsage},
		"pipeline that is not":     {[]string{"--pipeline", "./nothing-there"}, "nothing-there", cli.ExitUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			env := map[string]string{"OPENAI_API_KEY": "sk-test-secret"}
			if name == "no key" {
				env = nil
			}
			code, _, stderr := b.with(env, append([]string{"--dataset", "extraction-eval", "--name", "x"}, tt.args...)...)
			if code != tt.code || !strings.Contains(stderr, tt.want) {
				t.Errorf("exit %d: %s", code, stderr)
			}
		})
	}
}

// TestModels_impossible: requests that the model does not support are refused, with the reason,
// before anything is sent.
func TestModels_impossible(t *testing.T) {
	b, server := newBench(t), newChatServer(t, adaAnswer)
	env := map[string]string{"OPENAI_API_KEY": "sk-test-secret", "OPENAI_BASE_URL": server.url}
	code, _, stderr := b.with(env, "--dataset", "extraction-eval", "--name", "x", "--model", "o3", "--temperature", "0.2")
	if code != cli.ExitUsage || !strings.Contains(stderr, "takes no temperature") || len(server.bodies) != 0 {
		t.Errorf("exit %d, %d requests: %s", code, len(server.bodies), stderr)
	}
}

func TestModels_pipelineProgram(t *testing.T) {
	b := newBench(t)
	b.seed("docs", oneItem)
	script := "#!/bin/sh\nwhile read -r line; do printf '%s\\n' '" + adaAnswer + "'; done\n"
	must(t, os.WriteFile("extract.sh", []byte(script), 0o700))
	stdout, _ := b.succeed(nil, "--dataset", "docs", "--name", "r1", "--pipeline", "./extract.sh", "--json")
	sum := summaryOf(t, stdout)
	if f1, ok := sum.Scores.Lookup("entity_f1"); !ok || *f1.Mean != 1 || sum.Run.Pipeline != "./extract.sh" {
		t.Errorf("entity_f1 %+v, pipeline %q", f1, sum.Run.Pipeline)
	}
}

// TestModels_promptConfig: the config of a prompt is used, errors in it are reported by its own
// keys, and unknown keys are recorded.
func TestModels_promptConfig(t *testing.T) {
	b, server := newBench(t), newChatServer(t, adaAnswer)
	b.seed("docs", oneItem)
	env := map[string]string{"OPENAI_API_KEY": "sk-test-secret", "OPENAI_BASE_URL": server.url}
	for name, tt := range map[string]struct {
		config string
		code   int
		want   []string
	}{
		"taken":        {`{"model":"openai/gpt-conf","temperature":0.25,"owner":"us","b":1}`, cli.ExitOK, []string{"note: the config of prompt taken@1 has keys that are not used here: b, owner"}},
		"refused":      {`{"model":"o3","temperature":0.25,"seed":7}`, cli.ExitUsage, []string{"takes no temperature", "the config of prompt refused@1 sets temperature, seed"}},
		"wrong kinds":  {`{"model":7,"temperature":"hot","max_tokens":1.5}`, cli.ExitUsage, []string{"model: a text is expected", "temperature: a number from 0 to 10", "max_tokens: a whole number"}},
		"out of range": {`{"top_p":2,"max_tokens":0,"schema":[]}`, cli.ExitUsage, []string{"top_p: a number from 0 to 1", "max_tokens: a whole number from 1 to 2147483647 is expected", "schema: a JSON Schema"}},
		"no object":    {`[1]`, cli.ExitUsage, []string{"an object with keys"}},
	} {
		t.Run(name, func(t *testing.T) {
			b.prompt(langfuse.Prompt{Name: name, Type: langfuse.PromptText, Prompt: json.RawMessage(`"{{document_text}}"`),
				Labels: []string{"production"}, Config: json.RawMessage(tt.config)})
			code, _, stderr := b.with(env, "--dataset", "docs", "--name", "run of "+name, "--prompt", name)
			if code != tt.code {
				t.Errorf("exit %d, want %d", code, tt.code)
			}
			for _, want := range tt.want {
				if !strings.Contains(stderr, want) {
					t.Errorf("%q is not in: %s", want, stderr)
				}
			}
			if code == cli.ExitOK && (server.last()["model"] != "gpt-conf" || server.last()["temperature"] != 0.25) {
				t.Errorf("asked %v at %v", server.last()["model"], server.last()["temperature"])
			}
		})
	}
}
