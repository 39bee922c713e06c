package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"extraction-experiment/internal/cli"
)

// benchCase returns a smoke case whose records require an attribute.
func benchCase(id, text, gold string) string {
	at := strings.Index(text, gold)
	return fmt.Sprintf(`{"caseId":%q,"documentText":%q,"instructions":"Extract people.","targetSchema":{"properties":{"extractionClass":{"enum":["person"]},"attributes":{"required":["role"]}},"required":["attributes"]},`+
		`"providerResponseText":"","goldSpans":[{"extractionClass":"person","quote":%q,"charStart":%d,"charEnd":%d}]}`+"\n", id, text, gold, at, at+len(gold))
}

func benchReport(t *testing.T, stdout string) (r map[string]any) {
	t.Helper()
	if err := json.Unmarshal([]byte(stdout), &r); err != nil {
		t.Fatalf("%v in %s", err, stdout)
	}
	return r
}

// TestBench_model asks a model for records with quotes and offsets and scores them. Wrong
// offsets are not corrected by a search for the quote.
func TestBench_model(t *testing.T) {
	b := newBench(t)
	must(t, os.WriteFile("case.jsonl", []byte(benchCase("one", "Mara Voss signed.", "Mara Voss")), 0o600))
	for name, c := range map[string]struct {
		answer                  string
		schema, quotes, success float64
	}{
		"right":        {`{"extractions":[{"extractionClass":"person","quote":"Mara Voss","attributes":{"role":"signer"},"span":{"offsetMode":"utf16_code_unit","charStart":0,"charEnd":9}}]}`, 1, 1, 1},
		"shifted":      {`{"extractions":[{"extractionClass":"person","quote":"Mara Voss","attributes":{"role":"signer"},"span":{"offsetMode":"utf16_code_unit","charStart":1,"charEnd":10}}]}`, 1, 0, 0},
		"no offsets":   {`{"extractions":[{"extractionClass":"person","quote":"Mara Voss","attributes":{"role":"signer"}}]}`, 1, 0, 0},
		"no attribute": {`{"extractions":[{"extractionClass":"person","quote":"Mara Voss","span":{"charStart":0,"charEnd":9}}]}`, 0, 1, 1},
		"entities":     {`{"entities":[{"name":"Mara Voss","type":"person"}],"relationships":[]}`, 1, 1, 0},
	} {
		server := newChatServer(t, c.answer)
		env := map[string]string{"OPENAI_API_KEY": "sk-test-secret", "OPENAI_BASE_URL": server.url}
		run := strings.ReplaceAll(name, " ", "-")
		code, stdout, stderr := b.with(env, "bench", "run", "--dataset", "case.jsonl", "--model", "openai/gpt-4o", "--trials", "2", "--json", "--out", run)
		if code != cli.ExitOK || len(server.bodies) != 2 {
			t.Fatalf("%s: exit %d, %d requests: %s", name, code, len(server.bodies), stderr)
		}
		r := benchReport(t, stdout)
		if r["schemaValidRate"] != c.schema || r["quoteInvariantRate"] != c.quotes || r["successRate"] != c.success {
			t.Errorf("%s: %s", name, stdout)
		}
		prompt := fmt.Sprint(server.bodies[0]["messages"])
		for _, want := range []string{"Extract people.", `"required":["role"]`, `"offsetMode": "utf16_code_unit"`, "UTF-16 code units", "Mara Voss signed."} {
			if !strings.Contains(prompt, want) {
				t.Errorf("%q is not in %s", want, prompt)
			}
		}
	}
}

// TestBench_pipeline runs a pipeline that fails at first and then answers in every supported
// form.
func TestBench_pipeline(t *testing.T) {
	b := newBench(t)
	var down atomic.Int32
	answers := map[string]string{
		"Mara": `{"extractions":[{"extractionClass":"person","quote":"Mara","attributes":{"role":"x"},"charStart":0,"charEnd":4}]}`,
		"Ines": `{"entities":[{"name":"Ines","type":"person","properties":{"role":"x"},"mentions":[{"quote":"Ines","start":0,"end":4}]}]}`,
		"Olaf": `{"entities":[{"name":"Olaf","type":"person","properties":{"role":"x"}}]}`, // without a place
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var request struct {
			Text         string          `json:"document_text"`
			Instructions string          `json:"instructions"`
			Schema       json.RawMessage `json:"target_schema"`
			Mode         string          `json:"offset_mode"`
		}
		if err := json.NewDecoder(r.Body).Decode(&request); err != nil || request.Instructions != "Extract people." || request.Mode != "utf16_code_unit" || !strings.Contains(string(request.Schema), "role") {
			t.Errorf("%v: %+v", err, request)
		}
		if name, _, _ := strings.Cut(request.Text, " "); down.Load() == 0 && name == "Mara" {
			fmt.Fprint(w, `{"error":{"class":"provider","message":"the GPU is gone"}}`)
		} else {
			fmt.Fprint(w, answers[name])
		}
	}))
	must(t, os.WriteFile("three.jsonl", []byte(benchCase("one", "Mara signed.", "Mara")+benchCase("two", "Ines signed.", "Ines")+benchCase("three", "Olaf signed.", "Olaf")), 0o600))
	args := []string{"bench", "run", "--dataset", "three.jsonl", "--pipeline", server.URL, "--trials", "2", "--out", "p", "--json"}

	code, stdout, stderr := b.experiment(args...)
	r := benchReport(t, stdout)
	if code != cli.ExitFailures || r["failedCalls"] != 2.0 || !strings.Contains(stderr, "2 of 6 calls failed") || !strings.Contains(stderr, "the GPU is gone") || !strings.Contains(stderr, "--resume --retry-failed") {
		t.Errorf("exit %d: %s\n%s", code, stderr, stdout)
	}
	down.Store(1)
	code, stdout, stderr = b.experiment(append(args, "--retry-failed")...)
	r = benchReport(t, stdout)
	// The two records of Olaf, of six, quote nothing.
	if code != cli.ExitOK || r["failedCalls"] != 0.0 || fmt.Sprintf("%.3f", r["quoteInvariantRate"]) != "0.667" || !strings.Contains(stdout, "INVALID_OFFSETS") {
		t.Errorf("exit %d: %s\n%s", code, stderr, stdout)
	}

	server.Close()
	args[len(args)-2] = "dead"
	code, stdout, stderr = b.experiment(args...)
	r = benchReport(t, stdout)
	if code != cli.ExitUnavailable || r["failedCalls"] != 6.0 || r["schemaValidRate"] != 0.0 || r["uniqueExtractionStability"] != 0.0 || !strings.Contains(stderr, "6 of 6 calls failed") || !strings.Contains(stderr, "refused") {
		t.Errorf("exit %d: %s\n%s", code, stderr, stdout)
	}
}

// TestBench_rateLimited: a rate-limited request is sent again, as in a run, and does not count
// against the model.
func TestBench_rateLimited(t *testing.T) {
	b := newBench(t)
	server, env := newLimitedServer(t)
	server.answer = `{"extractions":[{"extractionClass":"person","quote":"Mara Voss","attributes":{"role":"signer"},"charStart":0,"charEnd":9}]}`
	server.refuse = func(n int) int {
		if n <= 2 {
			return http.StatusTooManyRequests
		}
		return 0
	}
	must(t, os.WriteFile("case.jsonl", []byte(benchCase("one", "Mara Voss signed.", "Mara Voss")), 0o600))
	code, stdout, stderr := b.with(env, "bench", "run", "--dataset", "case.jsonl", "--model", "openai/gpt-test", "--trials", "2", "--json")
	if code != cli.ExitOK || server.asked != 4 || !strings.Contains(stdout, `"successRate":1`) {
		t.Errorf("exit %d after %d requests: %s%s", code, server.asked, stdout, stderr)
	}
}

// TestBenchAdd_keepsTheFile: records are added to the same file, with its mode, also through a
// symbolic link and after a last line without a newline.
func TestBenchAdd_keepsTheFile(t *testing.T) {
	b := newBench(t)
	record := func(n string) string {
		return `{"caseId":"mine--pack--` + n + `--1a2b3c4d","category":"c","documentText":"x` + n + `","instructions":"i","targetSchema":{},"providerResponseText":"",` +
			`"expected":{"emptyResultKind":"empty_by_failure","minExtractions":0,"maxExtractions":0},"sourceUrl":"https://example.org","packId":"2026-02-15--mine--1a2b3c4d"}`
	}
	must(t, os.WriteFile("real.jsonl", []byte(record("1")), 0o600))
	must(t, os.Chmod("real.jsonl", 0o640))
	must(t, os.Symlink("real.jsonl", "link.jsonl"))
	must(t, os.WriteFile("pack.jsonl", []byte(record("2")+"\n"+record("3")), 0o600))
	if code, stdout, stderr := b.experiment("bench", "add", "pack.jsonl", "--dataset", "link.jsonl"); code != 0 || stdout != "added 2 records to link.jsonl\n" {
		t.Fatalf("exit %d: %s%s", code, stdout, stderr)
	}
	link, err := os.Lstat("link.jsonl")
	must(t, err)
	file, err := os.Stat("real.jsonl")
	must(t, err)
	text, err := os.ReadFile("real.jsonl")
	must(t, err)
	if link.Mode()&os.ModeSymlink == 0 || file.Mode().Perm() != 0o640 || strings.Count(string(text), "\n") != 3 || !strings.HasPrefix(string(text), record("1")+"\n{") {
		t.Errorf("%v, %v:\n%s", link.Mode(), file.Mode(), text)
	}
}

// TestBench_usage: senseless command lines are refused before any work.
func TestBench_usage(t *testing.T) {
	b := newBench(t)
	b.succeed(nil, "bench", "run", "--out", "first")
	for want, words := range map[string]string{
		`--out: "a/b" contains a slash`:                                            "run --out a/b",
		"bench run takes no argument, got smoke.jsonl":                             "run smoke.jsonl",
		"bench add needs 1 more argument":                                          "add",
		"experiment bench run, or experiment bench score, or experiment bench add": "",
		`did you mean "run"`:                                                       "rum",
		`--trials: "soon" is not a whole number`:                                   "run --trials soon",
		"one is not enough":                                                        "run --mode variance --trials 1",
		`there is no mode "fast"`:                                                  "run --mode fast",
		"leave the model out":                                                      "run --model baseline --mode deterministic",
		"bench run has no --min-success-rate":                                      "run --min-success-rate 1",
		`--max-success-rate-stddev: "x"`:                                           "score first --max-success-rate-stddev x --min-success-rate 2",
		`--min-success-rate: "2"`:                                                  "score first --max-success-rate-stddev x --min-success-rate 2",
		"nobody":                                                                   "score nobody",
		"--resume and --retry-failed need the run: --out":                          "run --resume",
		"--model and --pipeline cannot both answer":                                "run --model baseline --pipeline x",
	} {
		code, stdout, stderr := b.experiment(append([]string{"bench"}, strings.Fields(words)...)...)
		if code != cli.ExitUsage || stdout != "" || !strings.Contains(stderr, want) {
			t.Errorf("bench %s: exit %d, %q does not say %q", words, code, stderr, want)
		}
	}
}
