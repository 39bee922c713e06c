package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"extraction-experiment/cmd/internal/settings"
	"extraction-experiment/configs"
	"extraction-experiment/dataset"
	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/testkit/suite"
	"extraction-experiment/langfuse"
	"extraction-experiment/langfuse/embedded"
	"extraction-experiment/outcome"
	"extraction-experiment/seed"
	"extraction-experiment/tracking"
)

// deployment is a Langfuse of one mode with the sample dataset and the built-in prompt, and a
// folder that uses it.
type deployment struct {
	bench
	env    map[string]string
	client *langfuse.Client
	server langfuse.Server
}

func newDeployment(t *testing.T, mode embedded.Mode) deployment {
	t.Helper()
	d := deployment{bench: newBench(t)}
	_, d.client = startLangfuse(t, mode, direct)
	d.env = map[string]string{
		"LANGFUSE_BASE_URL": d.client.BaseURL(), "LANGFUSE_PUBLIC_KEY": embedded.DefaultPublicKey, "LANGFUSE_SECRET_KEY": embedded.DefaultSecretKey,
	}
	var err error
	d.server, err = d.client.Probe(t.Context())
	must(t, err)
	must(t, tracking.CreateDefaultPrompt(t.Context(), d.client))
	items := func(yield func(dataset.Located, error) bool) { // a new sequence for each call
		dataset.Read(configs.OpenSample(), dataset.JSONL, configs.SampleName)(yield)
	}
	_, err = seed.File(t.Context(), d.client, items, seed.Config{Dataset: configs.SampleName})
	must(t, err)
	return d
}

// run runs a command line and checks its exit code.
func (d deployment) run(want int, args ...string) (stdout, stderr string) {
	d.t.Helper()
	code, stdout, stderr := d.with(d.env, args...)
	if code != want {
		d.t.Fatalf("%s: exit code %d, want %d\n%s%s", strings.Join(args, " "), code, want, stdout, stderr)
	}
	return stdout, stderr
}

// modesOrSample returns all modes of a server, or one of them if a sample is enough.
func modesOrSample() []embedded.Mode {
	if suite.Full() {
		return embedded.Modes()
	}
	return []embedded.Mode{embedded.ModeV4}
}

// TestModes runs the same experiments on each kind of server and reads them back through all its
// APIs: the baseline on the sample dataset, and a language model with a prompt whose first
// answers are invalid, so that its items have two attempts.
func TestModes(t *testing.T) {
	for _, mode := range modesOrSample() {
		t.Run(string(mode), func(t *testing.T) {
			d := newDeployment(t, mode)
			model := newFickleModel(t)
			maps.Copy(d.env, map[string]string{
				"OPENAI_API_KEY": "sk-test-secret", "OPENAI_BASE_URL": model.url, "EXPERIMENT_PRICES_FILE": pricesFor(t, "gpt-test-2026"),
			})
			d.run(cli.ExitOK, "--dataset", configs.SampleName, "--name", "base", "--verify", "--quiet")
			d.readBack("base", 38, false)

			llm := []string{"--dataset", configs.SampleName, "--name", "llm", "--model", "openai/gpt-test", "--limit", "5", "--quiet"}
			d.run(cli.ExitFailures, llm...)
			model.wise.Store(true)
			d.run(cli.ExitOK, append(llm, "--retry-failed", "--verify")...)
			d.readBack("llm", 5, true)
			d.testRepair("llm")

			must(t, os.RemoveAll(settings.Folder)) // as in the folder of a colleague
			_, stderr := d.run(cli.ExitUsage, "--dataset", configs.SampleName, "--name", "base")
			if !strings.Contains(stderr, "taken (in Langfuse): use --name base-2") {
				t.Errorf("a name that only Langfuse knows: %s", stderr)
			}
		})
	}
}

// fickleModel is an OpenAI-compatible server whose answers are invalid until wise is set.
type fickleModel struct {
	url  string
	wise atomic.Bool
}

func newFickleModel(t *testing.T) *fickleModel {
	m := &fickleModel{}
	hs := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := "I would rather not."
		if m.wise.Load() {
			answer = adaAnswer
		}
		writeCompletion(w, "gpt-test-2026", answer, 100, 20)
	}))
	t.Cleanup(hs.Close)
	m.url = hs.URL + "/v1"
	return m
}

// testRepair deletes and changes scores and checks that verify finds and repairs each. A score that
// another program added must stay.
func (d deployment) testRepair(name string) {
	d.t.Helper()
	_, newest, _ := d.newestOf(name)
	traces := slices.Sorted(maps.Keys(newest))
	scores := map[string]langfuse.Score{}
	for s, err := range d.client.ReadScores(d.t.Context(), d.server.Capabilities, langfuse.ScoresQuery{TraceIDs: traces[:3], Names: []string{"error"}}) {
		must(d.t, err)
		scores[s.TraceID()] = s
	}
	put := func(id, trace string, value float64) {
		like := scores[trace]
		must(d.t, d.client.CreateScore(d.t.Context(), langfuse.ScoreCreate{
			ID: id, Name: like.Name, Type: like.Type, Value: langfuse.NumberValue(value), TraceID: trace, ObservationID: like.Subject.ID, Environment: "elsewhere",
		}))
	}
	must(d.t, d.client.DeleteScore(d.t.Context(), scores[traces[0]].ID))
	put("another", traces[1], 0)
	put(scores[traces[2]].ID, traces[2], 1)
	stdout, _ := d.run(cli.ExitGate, "verify", name, "--timeout", "0s")
	d.t.Logf("\n%s", stdout)
	for _, want := range []string{"2 differences: 1 changed_score, 1 missing_score", "also there  1 score of these names", fmt.Sprint("superseded  ", len(newest), " attempts")} {
		if !strings.Contains(stdout, want) {
			d.t.Errorf("verify does not say %q:\n%s", want, stdout)
		}
	}
	d.run(cli.ExitOK, "verify", name, "--repair", "--timeout", "0s")
	stdout, _ = d.run(cli.ExitOK, "verify", name, "--timeout", "0s")
	if !strings.Contains(stdout, "also there  1 score") {
		d.t.Errorf("the score of another program is gone:\n%s", stdout)
	}
	must(d.t, d.client.DeleteScore(d.t.Context(), "another"))
	d.readBack(name, len(newest), true)
}

// TestModes_waited: a run that mostly waits for its limiter. The latency in Langfuse equals that
// of the run file, and scores are where the pages of Langfuse show them.
func TestModes_waited(t *testing.T) {
	for _, mode := range modesOrSample() {
		t.Run(string(mode), func(t *testing.T) {
			d := newDeployment(t, mode)
			model := newFickleModel(t)
			model.wise.Store(true)
			maps.Copy(d.env, map[string]string{"OPENAI_API_KEY": "sk-test-secret", "OPENAI_BASE_URL": model.url})
			d.run(cli.ExitOK, "--dataset", configs.SampleName, "--name", "paced", "--model", "openai/gpt-test", "--limit", "12", "--rpm", "1200", "-c", "8", "--quiet")
			_, newest, _ := d.newestOf("paced")
			traces := slices.Collect(maps.Keys(newest))
			var waited time.Duration
			for trace, err := range d.client.ReadTraces(t.Context(), d.server.Capabilities, traces, langfuse.TraceParts{}) {
				must(t, err)
				waited += outcome.WaitsOf(newest[trace.ID].Calls).Sum()
				d.checkLatency(trace, newest[trace.ID])
			}
			if waited < 100*time.Millisecond {
				t.Errorf("the run waited for %s: the test shows nothing", waited)
			}
			there := map[string]bool{}
			for s, err := range d.client.ReadScores(t.Context(), d.server.Capabilities, langfuse.ScoresQuery{TraceIDs: traces}) {
				must(t, err)
				there[s.TraceID()+" "+s.Name] = true
				if s.Environment != "default" {
					t.Errorf("%s is in the environment %q", s.Name, s.Environment)
				}
			}
			for id, o := range newest {
				for _, name := range []string{"entity_precision", "entity_recall", "entity_f1", "relationship_accuracy", "relationship_recall", "relationship_f1", "type_accuracy", "error"} {
					if s, _ := outcome.Lookup(o.Scores, name); (s.Value != nil) != there[id+" "+name] {
						t.Errorf("%s: %s is there: %v, and is %v in the run file", o.Item, name, there[id+" "+name], s.Value)
					}
				}
			}
		})
	}
}

// checkLatency checks that every latency of an item in Langfuse equals that of the run file and
// contains the calls.
func (d deployment) checkLatency(trace langfuse.Trace, o outcome.Outcome) {
	d.t.Helper()
	root, _ := trace.Root()
	shown := map[string]time.Duration{"its root": root.EndTime.Sub(root.StartTime)}
	if !d.server.NewReads {
		shown["its trace"] = d.traceLatency(trace.ID)
	}
	for what, took := range shown {
		if (took - o.Latency).Abs() > time.Millisecond { // servers keep milliseconds
			d.t.Errorf("%s: %s took %s, the run file says %s", o.Item, what, took, o.Latency)
		}
	}
	if len(trace.Observations) != len(o.Calls)+1 {
		d.t.Errorf("%s has %d spans and %d calls", o.Item, len(trace.Observations), len(o.Calls))
	}
	for _, span := range trace.Observations {
		if span.Environment != "sdk-experiment" || span.StartTime.Before(root.StartTime) || span.EndTime.After(root.EndTime) {
			d.t.Errorf("%s: %s in %q is not within the root: %s to %s", o.Item, span.Name, span.Environment, span.StartTime, span.EndTime)
		}
	}
}

// traceLatency returns the latency of a trace on a v3 server.
func (d deployment) traceLatency(id string) time.Duration {
	d.t.Helper()
	r, err := http.NewRequestWithContext(d.t.Context(), http.MethodGet, d.env["LANGFUSE_BASE_URL"]+"/api/public/traces/"+id, nil)
	must(d.t, err)
	r.SetBasicAuth(embedded.DefaultPublicKey, embedded.DefaultSecretKey)
	answer, err := http.DefaultClient.Do(r)
	must(d.t, err)
	var trace struct{ Latency float64 } // in seconds
	must(d.t, errors.Join(json.NewDecoder(answer.Body).Decode(&trace), answer.Body.Close()))
	return time.Duration(trace.Latency * float64(time.Second))
}
