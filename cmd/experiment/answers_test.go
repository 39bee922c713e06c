package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"extraction-experiment/harness/answers"
	"extraction-experiment/internal/cli"
	"extraction-experiment/langfuse"
	"extraction-experiment/langfuse/embedded"
	"extraction-experiment/outcome"
)

// samplePath returns the absolute path of a file of the sample.
func samplePath(t *testing.T, name string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("..", "..", "harness", "answers", "sample", name))
	must(t, err)
	return path
}

// TestAnswers_model: a model behind an OpenAI-compatible server receives the passages with their
// page numbers. Comparisons of runs with different answers end with all three exit codes.
func TestAnswers_model(t *testing.T) {
	pdf, questions := samplePath(t, "report.pdf"), samplePath(t, "report.jsonl")
	b := newBench(t)
	good, bad := newChatServer(t, "Чистая прибыль составила 476,5 млн рублей (стр. 3)."), newChatServer(t, "Не знаю.")
	run := func(server *chatServer, name string, more ...string) string {
		t.Helper()
		env := map[string]string{"OPENAI_API_KEY": "sk-test-secret", "OPENAI_BASE_URL": server.url}
		args := append([]string{"answers", "run", "--pdf", pdf, "--questions", questions, "--model", "openai/gpt-test", "--temperature", "0", "--json", "--out", name}, more...)
		stdout, _ := b.succeed(env, args...)
		return stdout
	}
	stdout := run(good, "good")
	var summary struct {
		WeightedScore float64 `json:"weighted_score"`
		PDF           string  `json:"pdf_sha256"`
		Run           struct {
			Model  string `json:"model"`
			Prompt string `json:"prompt_name"`
		} `json:"run"`
		Usage struct {
			Input int `json:"input"`
		} `json:"usage"`
	}
	if err := json.Unmarshal([]byte(stdout), &summary); err != nil || len(summary.PDF) != 64 || summary.Run.Model != "gpt-test" || summary.Usage.Input != 21*100 {
		t.Errorf("%v %s", err, stdout)
	}
	sent := good.last()
	raw, err := json.Marshal(sent["messages"])
	if err != nil || !strings.Contains(string(raw), "(стр. ") || sent["temperature"] != 0.0 {
		t.Errorf("sent %s, temperature %v", raw, sent["temperature"])
	}
	run(good, "again")
	run(bad, "bad")
	for name, want := range map[string]int{"again": 0, "bad": 1} {
		if code, _, stderr := b.with(nil, "compare", "good", name, "--min-delta", "0", "--max-regressions", "0"); code != want {
			t.Errorf("compare good %s: exit %d, want %d: %s", name, code, want, stderr)
		}
	}
	other := filepath.Join(t.TempDir(), "other.jsonl")
	must(t, os.WriteFile(other, []byte(`{"id":"r01","question":"Кто?"}`), 0o600))
	questions = other
	run(good, "other")
	if code, _, stderr := b.with(nil, "compare", "good", "other", "--min-delta", "0"); code != 2 || !strings.Contains(stderr, "questions_sha256") {
		t.Errorf("compare other questions: exit %d: %s", code, stderr)
	}
}

// TestAnswers_dataset: the questions come from a dataset in Langfuse, which gets each answer as
// a trace with its scores. The prompt comes from Langfuse too.
func TestAnswers_dataset(t *testing.T) {
	pdf := samplePath(t, "manual.pdf") // before the working directory changes
	b, server := newBench(t), newChatServer(t, "42 (стр. 1)")
	b.langfuse(func(client *langfuse.Client) {
		if _, err := client.UpsertDataset(t.Context(), langfuse.DatasetUpsert{Name: "asked"}); err != nil {
			t.Fatal(err)
		}
		for id, item := range map[string][2]string{
			"q1": {`{"question":"What is the rated load?"}`, `{"must_include":["42"],"require_citation":true,"weight":2}`},
			"q2": {`{"question":"Which licence?"}`, `{"must_include":["class C"]}`},
		} {
			upsert := langfuse.DatasetItem{ID: id, DatasetName: "asked", Input: json.RawMessage(item[0]), ExpectedOutput: json.RawMessage(item[1])}
			if _, err := client.UpsertDatasetItem(t.Context(), upsert); err != nil {
				t.Fatal(err)
			}
		}
	})
	b.prompt(langfuse.Prompt{Name: "ask", Type: langfuse.PromptText, Labels: []string{"production"},
		Prompt: json.RawMessage(`"Passages: {{passages}} Question: {{question}}"`), Config: json.RawMessage(`{"temperature": 0.25, "seed": 7}`)})
	env := map[string]string{"OPENAI_API_KEY": "sk-test-secret", "OPENAI_BASE_URL": server.url}
	code, stdout, stderr := b.with(env, "answers", "run", "--pdf", pdf, "--questions", "asked",
		"--model", "openai/gpt-test", "--prompt", "ask", "--seed", "8", "--out", "first", "--verify", "--json")
	if sent := server.last(); sent["temperature"] != 0.25 || sent["seed"] != 8.0 || !strings.Contains(stdout, `"temperature":0.25`) {
		t.Errorf("the config of the prompt: sent temperature %v, seed %v; %s", sent["temperature"], sent["seed"], stdout)
	}
	// (1·2 + 0.3·1)/3
	if code != 0 || !strings.Contains(stdout, `"weighted_score":0.7666666666666`) || !strings.Contains(stdout, `"prompt_name":"ask"`) {
		t.Errorf("exit %d: %s\n%s", code, stderr, stdout)
	}
	b.succeed(env, "verify", "first")
	// The report of a file with the same questions can be compared with the dataset.
	must(t, os.WriteFile("asked.jsonl", []byte(`{"id":"q2","question":"Which licence?","must_include":["class C"]}`+"\n"+
		`{"id":"q1","weight":2.0,"question":"What is the rated load?","require_citation":true,"must_include":["42"]}`), 0o600))
	b.succeed(env, "answers", "run", "--pdf", pdf, "--questions", "asked.jsonl", "--model", "openai/gpt-test", "--out", "file.json")
	b.succeed(env, "compare", "first", "file.json", "--min-delta", "0", "--max-regressions", "0")
	named := langfuse.Prompt{Name: "named", Type: langfuse.PromptText, Labels: []string{"production"},
		Prompt: json.RawMessage(`"{{question}} {{passages}}"`), Config: json.RawMessage(`{"model": "openai/gpt-test"}`)}
	b.prompt(named)
	b.succeed(env, "answers", "run", "--pdf", pdf, "--questions", "asked", "--prompt", "named", "--out", "named")
	named.Name, named.Config = "nameless", nil
	b.prompt(named)
	code, _, stderr = b.with(env, "answers", "run", "--pdf", pdf, "--questions", "asked",
		"--prompt", "nameless", "--out", "second")
	if code != 64 || !strings.Contains(stderr, "name a model with --model") {
		t.Errorf("a prompt whose config names no model: exit %d: %s", code, stderr)
	}
	if code, stdout, stderr := b.with(env, "answers", "run", "--pdf", pdf, "--questions", "asked",
		"--model", "openai/gpt-test", "--prompt", "none", "--out", "second"); code != 64 {
		t.Errorf("a prompt that is not there: exit %d: %s%s", code, stdout, stderr)
	}
	asked := len(server.bodies)
	for _, prompt := range [][]string{{"--temperature", "0"}, {"--prompt", "ask"}} {
		args := append([]string{"answers", "run", "--pdf", pdf, "--questions", "asked", "--model", "o3", "--out", "second"}, prompt...)
		if code, _, stderr := b.with(env, args...); code != 64 || !strings.Contains(stderr, "takes no temperature") || len(server.bodies) != asked {
			t.Errorf("%q to a model without it: exit %d after %d requests: %s", prompt, code, len(server.bodies)-asked, stderr)
		}
	}
}

// TestAnswers_takenUpAgain: the program accepts the command that a run or benchmark prints to
// continue it.
func TestAnswers_takenUpAgain(t *testing.T) {
	pdf, questions := samplePath(t, "manual.pdf"), samplePath(t, "manual.jsonl")
	b := newBench(t)
	server, env := newLimitedServer(t)
	args := []string{"answers", "run", "--pdf", pdf, "--questions", questions, "--model", "openai/gpt-test", "--quiet", "--concurrency", "1", "--max-tokens", "50"}
	code, _, stderr := b.with(env, append(args, "--budget-tokens", "1700")...)
	name := regexp.MustCompile(`--name (answers-[0-9.-]+) --budget-tokens MORE --resume`).FindStringSubmatch(stderr)
	if code != cli.ExitInterrupted || name == nil {
		t.Fatalf("a budget that is used up: exit %d: %s", code, stderr)
	}
	for _, command := range []string{"publish", "verify"} {
		code, _, stderr := b.with(env, command, name[1])
		if code != cli.ExitOK || !regexp.MustCompile(`note: the run is not finished: \d of \d+ items`).MatchString(stderr) {
			t.Errorf("%s of a run that was stopped: exit %d: %s", command, code, stderr)
		}
	}
	b.succeed(env, append(args, "--name", name[1], "--budget-tokens", "1000000", "--resume")...)

	config := "name: b\nruns: 2\ndatasets:\n  - {id: d, pdf: " + pdf + ", questions: " + questions + "}\n"
	must(t, os.WriteFile("benchmark.yaml", []byte(config), 0o600))
	bench := []string{"answers", "benchmark", "--config", "benchmark.yaml", "--model", "openai/gpt-test", "--concurrency", "1", "--max-tokens", "50", "--out", "report.json"}
	server.asked = 0
	code, _, stderr = b.with(env, append(bench, "--budget-tokens", "2500")...)
	name = regexp.MustCompile(`resume with: experiment answers benchmark .*--name (b-[0-9.-]+) --budget-tokens MORE --resume`).FindStringSubmatch(stderr)
	if code != cli.ExitInterrupted || name == nil || server.asked == 0 {
		t.Fatalf("a benchmark whose budget is used up: exit %d: %s", code, stderr)
	}
	code, stdout, stderr := b.with(env, append(bench, "--name", name[1], "--budget-tokens", "1000000", "--resume", "--json")...)
	if code != cli.ExitOK || server.asked != 2*13 || strings.Contains(stderr, "changed since") {
		t.Errorf("the command that it named: exit %d after %d requests: %s%s", code, server.asked, stderr, stdout)
	}

	reachable := env["OPENAI_BASE_URL"]
	env["OPENAI_BASE_URL"] = "http://127.0.0.1:1/v1"
	code, _, stderr = b.with(env, append(args, "--out", "r", "--retries", "0")...)
	if code != cli.ExitUnavailable || !strings.Contains(stderr, "was never reached") {
		t.Errorf("a model that is not there: exit %d: %s", code, stderr)
	}
	env["OPENAI_BASE_URL"] = reachable
	b.succeed(env, append(args, "--out", "r")...)
	env["OPENAI_BASE_URL"] = "http://127.0.0.1:1/v1"
	if code, _, stderr := b.with(env, append(args, "--out", "r", "--resume", "--retry-failed")...); code != cli.ExitUsage || !strings.Contains(stderr, "server of the model: began with 127.0.0.1:") || !strings.Contains(stderr, "now 127.0.0.1:1~") {
		t.Errorf("at another server it is another experiment: exit %d: %s", code, stderr)
	}
}

// TestAnswers_changedQuestions: a run over a dataset in Langfuse is resumed, and repeated in a benchmark, with
// the questions that it began with, whatever somebody has made of them since.
func TestAnswers_changedQuestions(t *testing.T) {
	pdf := samplePath(t, "manual.pdf")
	b := newBench(t)
	server, env := newLimitedServer(t)
	change := func(weight int) {
		b.langfuse(func(client *langfuse.Client) {
			_, err := client.UpsertDataset(t.Context(), langfuse.DatasetUpsert{Name: "asked"})
			must(t, err)
			for _, id := range []string{"one", "two", "three"} {
				_, err := client.UpsertDatasetItem(t.Context(), langfuse.DatasetItem{ID: id, DatasetName: "asked", Input: json.RawMessage(`"ok"`),
					ExpectedOutput: json.RawMessage(fmt.Sprintf(`{"must_include":["Ada"],"weight":%d}`, weight))})
				must(t, err)
			}
		})
	}
	change(1)
	keyRefused := http.StatusUnauthorized
	server.refuse = func(asked int) (status int) {
		switch asked {
		case 2:
			time.Sleep(2 * time.Millisecond) // two versions of a dataset are at least a millisecond apart
			change(2)
		case 3:
			status, keyRefused = keyRefused, 0
		}
		return status
	}
	common := []string{"--model", "openai/gpt-test", "--concurrency", "1", "--max-tokens", "50", "--quiet"}
	run := append([]string{"answers", "run", "--pdf", pdf, "--questions", "asked", "--name", "r"}, common...)
	if code, _, stderr := b.with(env, run...); code != cli.ExitUnavailable || server.asked != 3 {
		t.Fatalf("exit %d after %d requests: %s", code, server.asked, stderr)
	}
	b.succeed(env, append(run, "--resume")...)

	server.asked = 0
	change(3)
	must(t, os.WriteFile("benchmark.yaml", []byte("name: b\nruns: 2\ndatasets:\n  - {id: d, pdf: "+pdf+", questions: asked}\n"), 0o600))
	b.succeed(env, append([]string{"answers", "benchmark", "--config", "benchmark.yaml", "--name", "b", "--out", "b.json"}, common...)...)
	raw, err := os.ReadFile("b.json")
	must(t, err)
	var report answers.BenchmarkReport
	must(t, json.Unmarshal(raw, &report))
	if runs := report.Datasets[0].Runs; len(runs) != 2 || runs[0].QuestionsSHA256 != runs[1].QuestionsSHA256 {
		t.Errorf("%+v", runs)
	}
}

// TestAnswers_readFromLangfuse: runs that are only in Langfuse are compared by their weighted
// means, which include failed questions. Base: (1·1 + 1·3)/4 = 1. The candidate answers the
// question of weight 1 and fails at the other: 1/4.
func TestAnswers_readFromLangfuse(t *testing.T) {
	pdf := samplePath(t, "manual.pdf")
	b, server := newBench(t), newChatServer(t, "42")
	b.langfuse(func(client *langfuse.Client) {
		if _, err := client.UpsertDataset(t.Context(), langfuse.DatasetUpsert{Name: "asked"}); err != nil {
			t.Fatal(err)
		}
		for id, weight := range map[string]string{"light": "1", "heavy": "3"} {
			upsert := langfuse.DatasetItem{ID: id, DatasetName: "asked", Input: json.RawMessage(`"ok"`),
				ExpectedOutput: json.RawMessage(`{"must_include":["42"],"weight":` + weight + `}`)}
			if id == "heavy" {
				upsert.Input = json.RawMessage(`"fail"`)
			}
			if _, err := client.UpsertDatasetItem(t.Context(), upsert); err != nil {
				t.Fatal(err)
			}
		}
	})
	env := map[string]string{"OPENAI_API_KEY": "sk-test-secret", "OPENAI_BASE_URL": server.url}
	run := []string{"answers", "run", "--pdf", pdf, "--questions", "asked", "--quiet"}
	for _, args := range [][]string{append(run, "--model", "openai/gpt-test", "--out", "base"), append(run, "--command", "answerer", "--out", "cand", "--max-failures", "1")} {
		b.succeed(env, args...)
	}
	for _, named := range [][]string{{"langfuse:base", "langfuse:cand"}, {"base", "langfuse:cand"}, {"base", "cand"}} {
		code, stdout, stderr := b.with(nil, append([]string{"compare", "-d", "asked", "--min-delta", "-0.7", "--json"}, named...)...)
		if code != cli.ExitGate || !strings.Contains(stdout, `"difference":-0.75`) || !strings.Contains(stdout, `"harness":"answers"`) || strings.Contains(stdout, `"harness":"extraction"`) {
			t.Errorf("%q: exit %d: %s%s", named, code, stderr, stdout)
		}
	}
}

// TestAnswers_overwrite: --overwrite replaces the previous run, but never a published one.
func TestAnswers_overwrite(t *testing.T) {
	pdf, questions := samplePath(t, "manual.pdf"), samplePath(t, "manual.jsonl")
	b := newBench(t)
	night := []string{"answers", "run", "--pdf", pdf, "--questions", questions, "--out", "nightly.json", "--quiet"}
	report := func() (r struct{ Run *outcome.Header }) {
		t.Helper()
		raw, err := os.ReadFile("nightly.json")
		must(t, err)
		must(t, json.Unmarshal(raw, &r))
		return r
	}
	b.succeed(nil, append(night, "--overwrite")...)
	first := report()
	if code, _, stderr := b.with(nil, night...); code != cli.ExitUsage || !strings.Contains(stderr, "or --overwrite to replace it") || report().Run.RunUID != first.Run.RunUID {
		t.Errorf("without --overwrite: exit %d: %s", code, stderr)
	}
	if code, _, stderr := b.with(nil, append(night, "--overwrite", "--resume")...); code != cli.ExitUsage || !strings.Contains(stderr, "choose one") {
		t.Errorf("with --resume: exit %d: %s", code, stderr)
	}
	if code, _, stderr := b.with(nil, append(night, "--overwrite", "--model", "no-such-model")...); code != cli.ExitUsage {
		t.Errorf("a model that is none: exit %d: %s", code, stderr)
	}
	if code, _, stderr := b.with(nil, "verify", "nightly"); code != 0 {
		t.Errorf("a run that could not begin replaced one: exit %d: %s", code, stderr)
	}
	if code, _, stderr := b.with(nil, append(night, "--overwrite")...); code != 0 || report().Run.RunUID == first.Run.RunUID {
		t.Errorf("the second night: exit %d: %s", code, stderr)
	}
	b.succeed(nil, "verify", "nightly")

	_, client := startLangfuse(t, "", direct)
	env := map[string]string{"LANGFUSE_BASE_URL": client.BaseURL(), "LANGFUSE_PUBLIC_KEY": embedded.DefaultPublicKey, "LANGFUSE_SECRET_KEY": embedded.DefaultSecretKey}
	night = append(night, "--name", "published")
	b.succeed(env, append(night, "--overwrite")...)
	before := report().Run.RunUID
	if code, _, stderr := b.with(env, append(night, "--overwrite")...); code != cli.ExitUsage || !strings.Contains(stderr, `the run "published" is published to Langfuse (`+client.BaseURL()) || report().Run.RunUID != before {
		t.Errorf("a published run: exit %d: %s", code, stderr)
	}
}
