package main

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"extraction-experiment/cmd/internal/settings"
	"extraction-experiment/dataset"
	"extraction-experiment/internal/cli"
	"extraction-experiment/langfuse"
	"extraction-experiment/outcome"
	"extraction-experiment/scoring"
	"extraction-experiment/seed"
)

// This file tests the scenarios of the specification that a command shows, by name. Package
// scoring tests those of scoring. docs/specification.md lists all of them.

// bench is an empty folder with its embedded Langfuse, and the program.
type bench struct{ t *testing.T }

func newBench(t *testing.T) bench {
	t.Chdir(t.TempDir())
	return bench{t}
}

// experiment runs a command line and returns its exit code and output.
func (b bench) experiment(args ...string) (code int, stdout, stderr string) {
	b.t.Helper()
	return b.with(nil, args...)
}

// langfuse calls f with a connection to the folder's Langfuse.
func (b bench) langfuse(use func(client *langfuse.Client)) {
	b.t.Helper()
	lf, err := settings.Connect(b.t.Context(), cli.Env{Getenv: func(string) string { return "" }})
	must(b.t, err)
	use(lf.Client)
	must(b.t, lf.Close())
}

// seed puts items into a dataset.
func (b bench) seed(name, lines string) {
	b.t.Helper()
	b.langfuse(func(client *langfuse.Client) {
		items := func(yield func(dataset.Located, error) bool) {
			dataset.Read(strings.NewReader(lines), dataset.JSONL, "items.jsonl")(yield)
		}
		if _, err := seed.File(b.t.Context(), client, items, seed.Config{Dataset: name}); err != nil {
			b.t.Fatal(err)
		}
	})
}

// stored is a run in Langfuse.
type stored struct {
	items  map[string]langfuse.ExperimentItem   // by dataset item
	scores map[string]map[string]langfuse.Score // by dataset item and name
}

// stored reads a run through the API. Duplicates fail the test.
func (b bench) stored(id string) stored {
	b.t.Helper()
	s := stored{map[string]langfuse.ExperimentItem{}, map[string]map[string]langfuse.Score{}}
	b.langfuse(func(client *langfuse.Client) {
		traces := map[string]string{}
		for item, err := range client.ListExperimentItems(b.t.Context(), time.Unix(0, 0), id) {
			must(b.t, err)
			if _, duplicate := s.items[item.ItemID]; duplicate {
				b.t.Errorf("item %s is there twice", item.ItemID)
			}
			s.items[item.ItemID], traces[item.TraceID] = item, item.ItemID
			s.scores[item.ItemID] = map[string]langfuse.Score{}
		}
		for score, err := range client.ListScores(b.t.Context(), langfuse.ScoresQuery{}) {
			must(b.t, err)
			of, ours := traces[score.Subject.TraceID]
			if !ours {
				continue
			}
			if _, duplicate := s.scores[of][score.Name]; duplicate {
				b.t.Errorf("score %s of %s is there twice", score.Name, of)
			}
			s.scores[of][score.Name] = score
		}
	})
	return s
}

func summaryOf(t *testing.T, stdout string) outcome.Summary {
	t.Helper()
	var s outcome.Summary
	if err := json.Unmarshal([]byte(stdout), &s); err != nil {
		t.Fatalf("--json printed no object: %v\n%s", err, stdout)
	}
	return s
}

const twoItems = `{"id":"ada","input":{"document_text":"Ada Lovelace was born in London.","object_schemas":{"Person":{"description":"a person"}}},"expectedOutput":{"entities":[{"name":"Ada Lovelace","type":"Person"}],"relationships":[]},"metadata":{"difficulty":"easy"}}
{"id":"none","input":{"document_text":"nothing to see here.","object_schemas":{"Person":{"description":"a person"}}},"expectedOutput":{"entities":[{"name":"Zoe","type":"Person"}],"relationships":[]}}
`

func TestSpec_CreateExtractionEvaluationDataset(t *testing.T) {
	b := newBench(t)
	b.seed("docs", twoItems)
	b.langfuse(func(client *langfuse.Client) {
		item, err := client.GetDatasetItem(t.Context(), "ada")
		must(t, err)
		for what, pair := range map[string][2]string{
			"input":    {string(item.Input), `{"document_text":"Ada Lovelace was born in London.","object_schemas":{"Person":{"description":"a person"}}}`},
			"expected": {string(item.ExpectedOutput), `{"entities":[{"name":"Ada Lovelace","type":"Person"}],"relationships":[]}`},
			"metadata": {string(item.Metadata), `{"difficulty":"easy"}`},
		} {
			got, err := dataset.Canonical(json.RawMessage(pair[0]))
			must(t, err)
			want, err := dataset.Canonical(json.RawMessage(pair[1]))
			if err != nil || string(got) != string(want) {
				t.Errorf("%s came back as %s, want %s (%v)", what, got, want, err)
			}
		}
	})
}

func TestSpec_RunExtractionExperiment(t *testing.T) {
	b := newBench(t)
	b.seed("docs", twoItems)
	stdout, _ := b.succeed(nil, "--dataset", "docs", "--name", "r1", "--json", "--metadata", "team=a")
	s := b.stored(summaryOf(t, stdout).Run.ID)
	if len(s.items) != 2 {
		t.Fatalf("%d of 2 items have a trace", len(s.items))
	}
	// ada: one person expected and extracted; none: one person expected, nothing found.
	want := map[string]map[string]float64{
		"ada": {"entity_precision": 1, "entity_recall": 1, "entity_f1": 1, "relationship_accuracy": 1, "type_accuracy": 1, "error": 0},
		// type_accuracy of none is undefined (nothing matched) and not recorded.
		"none": {"entity_precision": 0, "entity_recall": 0, "entity_f1": 0, "relationship_accuracy": 1, "error": 0},
	}
	for id, scores := range want {
		for name, value := range scores {
			got, ok := s.scores[id][name]
			if n, _ := got.Value.Number(); !ok || n != value {
				t.Errorf("%s of %s is %v (%v), want %v", name, id, n, ok, value)
			}
		}
	}
	if _, recorded := s.scores["none"]["type_accuracy"]; recorded {
		t.Error("an undefined score was recorded")
	}
	var metadata map[string]string
	must(t, json.Unmarshal(s.items["ada"].ExperimentFields, &metadata))
	for _, key := range []string{
		"model", "provider", "pipeline", "dataset_version", "dataset_fingerprint", "scorer_version", "runner_version", "trial", "team",
	} {
		if metadata[key] == "" {
			t.Errorf("the run's metadata has no %s", key)
		}
	}
	for key, value := range metadata { // keys that the baseline does not have
		if value == "" || key == "temperature" || key == "scorer_options" {
			t.Errorf("the run's metadata has %s: %q", key, value)
		}
	}
	if metadata["model"] != "baseline" || metadata["dataset_fingerprint"] == "" || metadata["trial"] != "1" || metadata["team"] != "a" {
		t.Errorf("the run's metadata: %v", metadata)
	}
}

func TestSpec_ExperimentErrorHandling(t *testing.T) {
	b := newBench(t)
	b.seed("docs", twoItems)
	// The items are written without the checks of seed, which would refuse them. Three of them
	// fail in three ways, as after an edit by hand.
	b.langfuse(func(client *langfuse.Client) {
		for id, item := range map[string][2]string{
			"no-text":  {`{"document_text":" "}`, `{"entities":[]}`},
			"bad-gold": {`{"document_text":"Ada."}`, `{"entities":{"name":"Ada"}}`},
			"bad-in":   {`["Ada"]`, `{"entities":[]}`},
		} {
			_, err := client.UpsertDatasetItem(context.Background(), langfuse.DatasetItem{
				DatasetName: "docs", ID: id, Input: json.RawMessage(item[0]), ExpectedOutput: json.RawMessage(item[1]),
			})
			must(t, err)
		}
	})
	code, stdout, stderr := b.experiment("--dataset", "docs", "--name", "r1", "--json")
	if code != cli.ExitFailures {
		t.Fatalf("exit %d: %s", code, stderr)
	}
	sum := summaryOf(t, stdout)
	if sum.Items.Planned != 5 || sum.Items.Scored != 2 || sum.Items.Failed != 3 {
		t.Errorf("the summary counts %+v", sum.Items)
	}
	s := b.stored(sum.Run.ID)
	for id, failed := range map[string]bool{"ada": false, "none": false, "no-text": true, "bad-gold": true, "bad-in": true} {
		e, ok := s.scores[id]["error"]
		if n, _ := e.Value.Number(); !ok || (n == 1) != failed || strings.HasPrefix(e.Comment, "item: ") != failed {
			t.Errorf("%s: error score %v %q", id, e.Value, e.Comment)
		}
		if failed && s.items[id].Level != "ERROR" {
			t.Errorf("%s: its trace has level %s", id, s.items[id].Level)
		}
	}
	b.succeed(nil, "--dataset", "docs", "--name", "r2", "--quiet", "--max-failures", "3")
}

func TestSpec_RunExperimentViaCLI(t *testing.T) {
	b := newBench(t)
	stdout, stderr := b.succeed(nil, "--dataset", "extraction-eval", "--name", "baseline-v1")
	if !strings.Contains(stderr, "38/38 done") {
		t.Errorf("progress is not shown: %s", stderr)
	}
	for _, name := range []string{"entity_precision", "entity_recall", "entity_f1", "relationship_accuracy", "type_accuracy"} {
		if !strings.Contains(stdout, name) {
			t.Errorf("the summary has no %s", name)
		}
	}
	stdout, _ = b.succeed(nil, "show", "baseline-v1", "--json")
	sum := summaryOf(t, stdout)
	id := sum.Run.ID
	s := b.stored(id)
	defined, recorded := 0, 0
	for _, name := range append(scoring.Headlines(), outcome.ErrorScore) {
		stat, _ := sum.Scores.Lookup(name)
		defined += stat.N
	}
	errors := 0
	for _, scores := range s.scores {
		recorded += len(scores)
		if _, ok := scores["error"]; ok {
			errors++
		}
	}
	if len(s.items) != 38 || errors != 38 || recorded != defined {
		t.Errorf("%d items, %d error scores, %d of %d scores recorded", len(s.items), errors, recorded, defined)
	}
}
