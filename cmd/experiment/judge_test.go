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

// TestConformance_modelJudge certifies a language model that judges by a prompt
// from Langfuse, and scores a run with it.
func TestConformance_modelJudge(t *testing.T) {
	b := newBench(t)
	server := newChatServer(t, "Here you are: {\"score\": 1, \"hits\": [\"all of it\"], \"misses\": []}")
	b.prompt(langfuse.PromptCreate{Name: "judge", Type: langfuse.PromptText, Labels: []string{"production"},
		Prompt: json.RawMessage(`"Judge {{candidate_answer}} by {{criteria}}."`)})
	files := map[string]string{
		"fixtures.yaml": "evaluator: {model: openai/gpt-4o, prompt: judge}\nfixtures:\n- {id: a, label: pass, answer: fifty-six, criteria: the number}\n",
		"blind.yaml":    "evaluator: {model: openai/gpt-4o, prompt: nobody}\nfixtures:\n- {id: a, label: pass, answer: x}\n",
		"run.yaml":      "dataset: items.jsonl\nname: judged\nscorers: [{name: judged_by_model, model: openai/gpt-4o, prompt: judge, certificate: results.json}]\n",
		"items.jsonl":   `{"id":"a","input":{"document_text":"Ada wrote."},"expectedOutput":{"entities":[]}}` + "\n",
	}
	for name, text := range files {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
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
