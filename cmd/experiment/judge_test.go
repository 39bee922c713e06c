package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"extraction-experiment/internal/cli"
	"extraction-experiment/langfuse"
)

// TestConformance_modelJudge certifies a language model with a prompt from Langfuse as a judge,
// and scores a run with it.
func TestConformance_modelJudge(t *testing.T) {
	b := newBench(t)
	server := newChatServer(t, "Here you are: {\"score\": 1, \"hits\": [\"all of it\"], \"misses\": []}")
	b.prompt(langfuse.Prompt{Name: "judge", Type: langfuse.PromptText, Labels: []string{"production"},
		Prompt: json.RawMessage(`"Judge {{candidate_answer}} by {{criteria}}."`)})
	files := map[string]string{
		"fixtures.yaml": "evaluator: {model: openai/gpt-4o, prompt: judge}\nfixtures:\n- {id: a, label: pass, answer: fifty-six, criteria: the number}\n",
		"blind.yaml":    "evaluator: {model: openai/gpt-4o, prompt: nobody}\nfixtures:\n- {id: a, label: pass, answer: x}\n",
		"run.yaml":      "dataset: items.jsonl\nname: judged\nscorers: [{name: judged_by_model, model: openai/gpt-4o, prompt: judge, certificate: results.json}]\n",
		"items.jsonl":   `{"id":"a","input":{"document_text":"Ada wrote."},"expectedOutput":{"entities":[]}}` + "\n",
	}
	for name, text := range files {
		must(t, os.WriteFile(name, []byte(text), 0o600))
	}
	env := map[string]string{"OPENAI_API_KEY": "sk-test-secret", "OPENAI_BASE_URL": server.url}
	code, stdout, stderr := b.with(env, "conformance", "--runs", "3", "--output", "results.json")
	if code != cli.ExitOK || !strings.Contains(stdout, "model openai/gpt-4o prompt judge@1") || !strings.Contains(stdout, "mean=1.00") || len(server.bodies) != 3 {
		t.Fatalf("exit %d, %d requests\n%s%s", code, len(server.bodies), stdout, stderr)
	}
	if asked := fmt.Sprint(server.bodies[0]); !strings.Contains(asked, "Judge fifty-six by the number.") || server.bodies[0]["temperature"] != 0.0 {
		t.Errorf("the model was asked %s", asked)
	}
	code, stdout, stderr = b.with(env, "run", "--config", "run.yaml", "--json")
	if code != cli.ExitOK || !strings.Contains(stdout, "judged_by_model") || strings.Contains(stdout, "not certified") || strings.Contains(stdout, "gave none") {
		t.Errorf("exit %d\n%s%s", code, stdout, stderr)
	}
	if code, _, stderr = b.with(env, "conformance", "--fixture", "blind.yaml"); code != cli.ExitUsage || !strings.Contains(stderr, "nobody") {
		t.Errorf("a prompt that is not there: exit %d: %s", code, stderr)
	}
}

// TestRun_judgingModel: the tokens of a judge are counted apart from those of the judged model,
// recorded in the trace, and charged to the budget of the run.
func TestRun_judgingModel(t *testing.T) {
	b := newBench(t)
	server := newChatServer(t, `{"score": 0.5, "hits": ["a"], "misses": [], "reasoning": "half", "entities": [], "relationships": []}`)
	files := map[string]string{
		"run.yaml":    "dataset: items.jsonl\nscorers: [{name: by_model, model: openai/gpt-4o}]\n",
		"prices.yaml": "openai/gpt-4o: {input: 1, output: 5}\ngpt-test-2026: {input: 1, output: 5}\n",
		"items.jsonl": `{"id":"a","input":{"document_text":"Ada wrote."},"expectedOutput":{"entities":[]}}` + "\n" +
			`{"id":"b","input":{"document_text":"Ann wrote."},"expectedOutput":{"entities":[]}}` + "\n",
	}
	for name, text := range files {
		must(t, os.WriteFile(name, []byte(text), 0o600))
	}
	env := map[string]string{"OPENAI_API_KEY": "sk-test-secret", "OPENAI_BASE_URL": server.url}
	code, stdout, stderr := b.with(env, "run", "--config", "run.yaml", "--name", "judged", "--json")
	var sum struct {
		Usage   struct{ Total int64 } `json:"usage"`
		Judging struct {
			Calls int                           `json:"calls"`
			Usage struct{ Input, Output int64 } `json:"usage"`
		} `json:"judging"`
	}
	if err := json.Unmarshal([]byte(stdout), &sum); err != nil || code != cli.ExitOK {
		t.Fatalf("exit %d, %v: %s", code, err, stderr)
	}
	// The baseline uses no tokens; each of two judgements uses 100 input and 20 output tokens.
	if sum.Usage.Total != 0 || sum.Judging.Calls != 2 || sum.Judging.Usage.Input != 200 || sum.Judging.Usage.Output != 40 {
		t.Errorf("%+v", sum)
	}
	code, stdout, _ = b.with(env, "show", "judged", "a")
	for _, want := range []string{"judging   1 call of judging models · 100 in · 20 out", "by_model", "evaluator", "half (1 hit, 0 misses)"} {
		if code != cli.ExitOK || !strings.Contains(stdout, want) {
			t.Errorf("show does not say %q:\n%s", want, stdout)
		}
	}
	if code, stdout, stderr = b.with(env, "verify", "judged"); code != cli.ExitOK {
		t.Errorf("verify: exit %d\n%s%s", code, stdout, stderr)
	}
	// Extraction and judgement take 120 tokens each. The third of four calls does not fit: 240
	// of 300 are spent, and the largest answer is larger than the rest.
	code, _, stderr = b.with(env, "run", "--config", "run.yaml", "--name", "bounded", "--model", "openai/gpt-4o-mini", "--budget-tokens", "300", "--concurrency", "1")
	if code != cli.ExitInterrupted || !strings.Contains(stderr, "budget of 300 tokens") {
		t.Errorf("exit %d: %s", code, stderr)
	}
	// In a sweep, the baseline has only the judge: of two calls of 120 tokens the second does not fit.
	code, _, stderr = b.with(env, "run", "--config", "run.yaml", "--name", "sweep",
		"--model", "baseline,openai/gpt-4o-mini", "--budget-tokens", "150", "--concurrency", "1")
	if code != cli.ExitInterrupted || !strings.Contains(stderr, "budget of 150 tokens") ||
		strings.Contains(stderr, "run 2 of 2") {
		t.Errorf("exit %d: %s", code, stderr)
	}
}

// TestRun_movedJudge: a run whose judge has a prompt whose label has moved is resumed with prompt_version, which
// the refusal names.
func TestRun_movedJudge(t *testing.T) {
	b := newBench(t)
	server := newChatServer(t, `{"score": 0.5, "hits": ["a"], "misses": [], "entities": [], "relationships": []}`)
	config := func(prompt string) string {
		return "dataset: items.jsonl\nname: judged\nscorers: [{name: by_model, model: openai/gpt-4o, " + prompt + "}]\n"
	}
	must(t, os.WriteFile("items.jsonl", []byte(oneItem), 0o600))
	must(t, os.WriteFile("run.yaml", []byte(config("prompt: judge")), 0o600))
	env := map[string]string{"OPENAI_API_KEY": "sk-test-secret", "OPENAI_BASE_URL": server.url}
	for _, text := range []string{`"Judge {{candidate_answer}}."`, `"Judge it: {{candidate_answer}}."`} {
		b.prompt(langfuse.Prompt{Name: "judge", Type: langfuse.PromptText, Labels: []string{"production"},
			Prompt: json.RawMessage(text)})
		if len(server.bodies) == 0 {
			b.succeed(env, "run", "--config", "run.yaml")
		}
	}
	code, _, stderr := b.with(env, "run", "--config", "run.yaml", "--resume")
	if code != cli.ExitUsage || !strings.Contains(stderr, "began with model openai/gpt-4o prompt judge@1") ||
		!strings.Contains(stderr, "now model openai/gpt-4o prompt judge@2") {
		t.Errorf("exit %d, %s", code, stderr)
	}
	must(t, os.WriteFile("run.yaml", []byte(config("prompt: judge, prompt_version: 1")), 0o600))
	b.succeed(env, "run", "--config", "run.yaml", "--resume")
}
