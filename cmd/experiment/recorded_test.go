package main

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"extraction-experiment/internal/cli"
)

// TestModels_recorded records a run and replays it without a network. The exports are equal
// apart from times and identifiers of the run.
func TestModels_recorded(t *testing.T) {
	b, server := newBench(t), newChatServer(t, adaAnswer)
	b.seed("docs", twoItems)
	env := map[string]string{"OPENAI_API_KEY": "sk-test-secret", "OPENAI_BASE_URL": server.url}
	b.succeed(env, "--dataset", "docs", "--name", "live", "--model", "openai/gpt-4o", "--record", "tape.jsonl", "--output", "live.jsonl", "--quiet")
	requests := len(server.bodies)
	code, _, stderr := b.with(nil, "--dataset", "docs", "--name", "replay", "--model", "recorded/tape.jsonl", "--output", "replay.jsonl", "--quiet")
	if code != cli.ExitOK || len(server.bodies) != requests || requests != 2 {
		t.Fatalf("exit %d, %d requests, then %d: %s", code, requests, len(server.bodies), stderr)
	}
	live, replay := normalizedExport(t, "live.jsonl"), normalizedExport(t, "replay.jsonl")
	if live != replay || !strings.Contains(live, "Ada Lovelace") {
		t.Errorf("live:\n%s\nreplayed:\n%s", live, replay)
	}
	tape, err := os.ReadFile("tape.jsonl")
	if err != nil || bytes.Contains(tape, []byte("sk-test-secret")) {
		t.Errorf("the cassette holds the key (%v)", err)
	}
	code, stdout, _ := b.with(nil, "show", "replay", "--json")
	if cost := summaryOf(t, stdout).Usage.CostUSD; code != cli.ExitOK || cost == nil || *cost <= 0 {
		t.Errorf("the cost of a known model is %v", cost)
	}
	code, _, stderr = b.with(nil, "--dataset", "extraction-eval", "--name", "other", "--model", "recorded/tape.jsonl", "--limit", "1", "--quiet")
	if code != cli.ExitFailures || !strings.Contains(stderr, "1 of 1 items failed") {
		t.Errorf("a request that was not recorded: exit %d: %s", code, stderr)
	}
}

// normalizedExport reads an export without values that differ between runs.
func normalizedExport(t *testing.T, path string) string {
	t.Helper()
	raw, err := os.ReadFile(path)
	must(t, err)
	var out strings.Builder
	for line := range strings.Lines(string(raw)) {
		var value map[string]any
		must(t, json.Unmarshal([]byte(line), &value))
		if value["kind"] == "experiment" {
			continue
		}
		if dataset, ok := value["dataset"].(map[string]any); ok {
			delete(dataset, "version") // the time when the version was fixed
		}
		text, err := json.Marshal(withoutKeys(value, "started", "ended", "latency_ns", "waited_ns", "run_uid", "name", "pipeline", "endpoint"))
		must(t, err)
		out.Write(append(text, '\n'))
	}
	return out.String()
}

// withoutKeys removes keys from a value at every depth, except the name of an entity, which has a
// type.
func withoutKeys(value any, keys ...string) any {
	switch v := value.(type) {
	case []any:
		for i := range v {
			v[i] = withoutKeys(v[i], keys...)
		}
	case map[string]any:
		_, entity := v["type"]
		for _, key := range keys {
			if key != "name" || !entity {
				delete(v, key)
			}
		}
		for key := range v {
			v[key] = withoutKeys(v[key], keys...)
		}
	}
	return value
}
