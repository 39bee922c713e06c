package seed

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"extraction-experiment/dataset"
	"extraction-experiment/langfuse"
	"extraction-experiment/langfuse/embedded"
)

// sendExperiment sends the n-th trace of a run over a dataset as package tracking does: linked to
// the item, and with the attributes of an experiment.
func (s *server) sendExperiment(n int, data langfuse.Dataset, run, item string, output any) string {
	s.t.Helper()
	id := traceID(n)
	runID, err := s.CreateDatasetRunItem(s.t.Context(), langfuse.DatasetRunItemCreate{RunName: run, DatasetItemID: item, TraceID: id, ObservationID: spanID(n, 0)})
	if err != nil {
		s.t.Fatal(err)
	}
	s.sendTrace(id, span{id: spanID(n, 0), name: "experiment-item-run", output: output, at: time.Duration(n) * time.Minute, attributes: map[string]string{
		"langfuse.environment": "sdk-experiment", "langfuse.experiment.id": runID, "langfuse.experiment.name": run,
		"langfuse.experiment.dataset.id": data.ID, "langfuse.experiment.item.id": item, "langfuse.experiment.item.root_observation_id": spanID(n, 0)}})
	return id
}

// addDoubt adds the score that experiment audit adds to a trace that it queues.
func (s *server) addDoubt(trace string, d Doubt) {
	s.t.Helper()
	s.post("/api/public/scores", map[string]any{"id": "gold-" + trace, "traceId": trace, "name": DoubtScore, "value": 0.9, "dataType": "NUMERIC", "metadata": d})
}

// goldItem returns a line of the dataset "gold".
func goldItem(id, city string) string {
	return fmt.Sprintf(`{"id":%q,"input":{"document_text":"Ada left %s for Paris, %s."},"metadata":{"lang":"en"},"source_trace_id":"t-%[1]s",`+
		`"expectedOutput":{"entities":[{"name":"Ada","type":"Person"},{"name":%[2]q,"type":"City"}],"relationships":[]}}`+"\n", id, city, id)
}

// TestCorrections checks that reviews of experiment traces change the linked items and nothing
// else, and that reviews that cannot be applied are reported.
func TestCorrections(t *testing.T) {
	forModes(t, func(t *testing.T, s *server) {
		ids := []string{"corrected", "confirmed", "meanwhile", "stale", "archived", "broken", "no", "below", "byhand", "same", "schema"}
		lines := ""
		for _, id := range ids {
			lines += goldItem(id, "London")
		}
		schema := Schemas{Expected: json.RawMessage(`{"type":"object","properties":{"entities":{"type":"array","maxItems":2}}}`)}
		data := s.mustSeed(lines, Config{Dataset: "gold", Schemas: schema}).Dataset
		before := s.items("gold")
		queue := s.newQueue("doubts")
		verdict := s.newScoreConfig("gold_checked", "BOOLEAN")
		goldHash := dataset.GoldHash(before["corrected"].ExpectedOutput)
		traces := map[string]string{}
		for i, id := range ids {
			trace := s.sendExperiment(i, data, "first run", id, gold("Ada", "Rome"))
			traces[id] = trace
			if id != "byhand" {
				s.addDoubt(trace, Doubt{Dataset: "gold", Item: id, Run: "first run", Gold: goldHash, Findings: []string{"key-" + id}})
			}
			s.complete(queue, trace, "TRACE")
		}
		parisGold := gold("Ada", "Paris")
		s.correct(traces["corrected"], parisGold)
		s.annotate(embedded.Annotation{TraceID: traces["confirmed"], ConfigID: verdict, Value: true, Author: "bob", QueueID: queue})
		s.annotate(embedded.Annotation{TraceID: traces["no"], ConfigID: verdict, Value: false, Author: "bob", QueueID: queue})
		s.correct(traces["broken"], "I do not know")
		s.correct(traces["same"], map[string]any{"entities": []any{map[string]any{"type": "Person", "name": "Ada"}, map[string]any{"type": "City", "name": "London"}}, "relationships": []any{}})
		longGold := parisGold
		longGold = maps.Clone(longGold)
		longGold["entities"] = append(longGold["entities"].([]any), map[string]any{"name": "Ada", "type": "Poet"})
		s.correct(traces["schema"], longGold)
		s.correct(traces["stale"], parisGold)
		// The gold of two items changes, and one is archived.
		s.mustSeed(strings.ReplaceAll(goldItem("meanwhile", "London")+goldItem("stale", "London"), "Ada", "Eve"), Config{Dataset: "gold"})
		if _, err := Archive(t.Context(), s.Client, "gold", []string{"archived"}); err != nil {
			t.Fatal(err)
		}
		// Another trace of an item with the same correction; then a production trace, a trace of
		// another dataset, and a queue item that is not a trace.
		second := s.sendExperiment(20, data, "second run", "corrected", gold("Eve", "Rome"))
		s.addDoubt(second, Doubt{Dataset: "gold", Item: "corrected", Run: "second run", Gold: goldHash})
		s.correct(second, parisGold)
		s.complete(queue, second, "TRACE")
		production := s.sendExtraction(21, "Ada left.", gold("Ada", "London"))
		s.complete(queue, production, "TRACE")
		other := s.mustSeed(strings.ReplaceAll(goldItem("other", "London"), "t-", "o-"), Config{Dataset: "other"}).Dataset
		foreign := s.sendExperiment(22, other, "first run", "other", gold("Ada", "Rome"))
		s.complete(queue, foreign, "TRACE")
		s.complete(queue, "session-1", "SESSION")
		// A correction of a step below does not correct the trace.
		s.sendTrace(traces["below"], span{id: spanID(7, 1), parent: spanID(7, 0), name: "llm", kind: "generation", at: 7 * time.Minute})
		s.annotate(embedded.Annotation{TraceID: traces["below"], ObservationID: spanID(7, 1), Correction: "{}", Author: "ann"})
		s.writes()

		corrections := Selection{Queue: "doubts"}
		dry, err := s.seedTraces(corrections, TraceConfig{Config: Config{DryRun: true}, Corrections: true, Before: true, Show: func(Seeded) {}})
		if err != nil || s.writes() != 0 {
			t.Fatal(err, "a dry run writes nothing")
		}
		var file bytes.Buffer
		w, err := dataset.NewWriter(&file, dataset.JSONL)
		if err != nil {
			t.Fatal(err)
		}
		out, err := s.seedTraces(corrections, TraceConfig{Corrections: true, Out: w})
		if err != nil || w.Close() != nil || s.writes() != 0 {
			t.Fatal(err, "a file is written instead")
		}
		result := s.mustSeedTraces(corrections, TraceConfig{Corrections: true})
		// Five traces change four items, the second of "corrected" included.
		if result.Updated != 5 || result.Created != 0 || result.Unchanged != 0 || result.Refused != 10 || s.writes() != 5 || dry.Updated != 5 || out.Written != 4 ||
			strings.Count(file.String(), "\n") != 4 {
			t.Errorf("%+v\ndry %+v\nout %+v\n%s", result, dry.Result, out, file.String())
		}
		for trace, want := range map[string]string{
			traces["meanwhile"]: "the gold of the item meanwhile changed since", traces["stale"]: "the gold of the item stale changed since",
			traces["archived"]: "is archived", traces["broken"]: "is not JSON with entities", traces["no"]: "gold_checked = false",
			traces["below"]: "neither corrected nor confirmed", production: "is not a trace of an experiment", foreign: "is not a trace of an experiment",
			traces["schema"]: "maxItems",
		} {
			if got := result.Err().Error(); !strings.Contains(got, trace) || !strings.Contains(got, want) {
				t.Errorf("%s: want %q in %s", trace, want, got)
			}
		}
		after := s.items("gold")
		for id, old := range before {
			stored := after[id]
			corrected, reviews := id == "corrected", Reviews(stored.Metadata)
			want := map[string][]string{"corrected": {"corrected first run ann key-corrected", "corrected second run ann "}, "confirmed": {"confirmed first run bob key-confirmed"},
				"byhand": {"confirmed first run  "}, "same": {"confirmed first run ann key-same"}}[id]
			var got []string
			for _, r := range reviews {
				got = append(got, strings.Join([]string{r.Verdict, r.Run, r.By, strings.Join(r.Findings, " ")}, " "))
				if r.Gold != goldHash || r.At.IsZero() || r.Queue != "doubts" || r.Trace != traces[id] && r.Trace != second {
					t.Errorf("%s: %+v", id, r)
				}
			}
			if id == "corrected" && len(got) == 2 && strings.Contains(got[0], "second") {
				got[0], got[1] = got[1], got[0] // the queue lists items of the same instant in any order
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(id, diff)
			}
			if id == "meanwhile" || id == "stale" || id == "archived" {
				continue
			}
			if corrected == bytes.Equal(stored.ExpectedOutput, old.ExpectedOutput) || corrected && !bytes.Contains(stored.ExpectedOutput, []byte(`"Paris"`)) {
				t.Errorf("%s: gold %s", id, stored.ExpectedOutput)
			}
			if string(stored.Input) != string(old.Input) || stored.SourceTraceID != "t-"+id || len(want) > 0 && !bytes.Contains(stored.Metadata, []byte(`"lang":"en"`)) {
				t.Errorf("%s: %+v", id, stored)
			}
		}

		again := s.mustSeedTraces(corrections, TraceConfig{Corrections: true})
		if again.Updated != 0 || again.Unchanged != 5 || s.writes() != 0 {
			t.Errorf("again: %+v", again.Result)
		}
		if diff := cmp.Diff(after, s.items("gold")); diff != "" {
			t.Error("again", diff)
		}
		// A later correction of a confirmed trace is applied.
		s.correct(traces["confirmed"], parisGold)
		if later := s.mustSeedTraces(corrections, TraceConfig{Corrections: true}); later.Updated != 1 || !bytes.Contains(s.items("gold")["confirmed"].ExpectedOutput, []byte("Paris")) {
			t.Errorf("later: %+v", later.Result)
		}
		// The old confirmation does not confirm gold that changed later and is doubted again.
		s.mustSeed(strings.ReplaceAll(goldItem("byhand", "London"), "Ada", "Eve"), Config{Dataset: "gold"})
		s.writes()
		eve := s.items("gold")["byhand"]
		s.addDoubt(traces["byhand"], Doubt{Dataset: "gold", Item: "byhand", Run: "first run", Gold: dataset.GoldHash(eve.ExpectedOutput)})
		doubted := s.mustSeedTraces(corrections, TraceConfig{Corrections: true})
		if err := doubted.Err().Error(); s.writes() != 0 || !strings.Contains(err, "was completed before the item byhand") {
			t.Error(err)
		}
		// Of two different corrections of one item the first is applied and the second is reported.
		for i, city := range []string{"Oslo", "Bern"} {
			trace := s.sendExperiment(30+i, data, "run of "+city, "no", gold("Ada", "Rome"))
			s.addDoubt(trace, Doubt{Dataset: "gold", Item: "no", Run: "run of " + city, Gold: goldHash})
			s.correct(trace, gold("Ada", city))
			s.complete(queue, trace, "TRACE")
		}
		differ := s.mustSeedTraces(corrections, TraceConfig{Corrections: true})
		if err := differ.Err().Error(); differ.Updated != 1 || !strings.Contains(err, "the gold of the item no changed since") || len(Reviews(s.items("gold")["no"].Metadata)) != 1 {
			t.Errorf("%+v: %s", differ.Result, err)
		}
		// A correction of gold that a person confirmed in another trace is taken, with a warning.
		against := s.sendExperiment(40, data, "third run", "same", gold("Ada", "Rome"))
		s.addDoubt(against, Doubt{Dataset: "gold", Item: "same", Run: "third run", Gold: goldHash})
		s.correct(against, parisGold)
		s.complete(queue, against, "TRACE")
		for _, want := range []int{1, 0} {
			w := s.mustSeedTraces(corrections, TraceConfig{Corrections: true}).Report.Warnings
			if w.Kinds[Contradicts] != want || want == 1 && !strings.Contains(fmt.Sprint(w.First), "item same: expectedOutput: is corrected, though in doubts at ") {
				t.Errorf("%+v", w)
			}
		}
		// No selection makes an item from a trace of an experiment.
		for _, plain := range []Selection{{Queue: "doubts"}, {IDs: []string{traces["corrected"], traces["confirmed"]}}, {Environment: "sdk-experiment"}} {
			result := s.mustSeedTraces(plain, TraceConfig{Config: Config{Dataset: "new"}, AcceptUnvalidated: true})
			for _, item := range s.items("new") {
				if item.SourceTraceID != production {
					t.Errorf("%+v became an item", item)
				}
			}
			if why := fmt.Sprint(result.Err(), result.Report.Warnings); !strings.Contains(why, "--corrections QUEUE") {
				t.Errorf("%+v: %s", plain, why)
			}
		}
	})
}

// TestExperimentSign checks that each mark of an experiment is enough, and that a trace without
// marks has no sign.
func TestExperimentSign(t *testing.T) {
	root := func(o langfuse.Observation) langfuse.Trace {
		return langfuse.Trace{Observations: []langfuse.Observation{o}}
	}
	for name, trace := range map[string]langfuse.Trace{
		"environment":    {Environment: "sdk-experiment"},
		"of the root":    root(langfuse.Observation{Environment: "sdk-experiment"}),
		"name":           {Name: "experiment-item-run"},
		"name of a root": root(langfuse.Observation{Name: "experiment-item-run"}),
		"attributes":     {Metadata: json.RawMessage(`{"attributes":{"langfuse.experiment.id":"x"}}`)},
		"flat":           root(langfuse.Observation{Metadata: json.RawMessage(`{"attributes.langfuse.experiment.id":"x"}`)}),
		"older SDKs":     {Metadata: json.RawMessage(`{"dataset_item_id":"i"}`)},
	} {
		if experimentSign(trace) == "" {
			t.Errorf("%s: not seen", name)
		}
	}
	for _, metadata := range []string{"", "null", "7", `"langfuse.experiment.id"`, `{"attributes":7}`, `{"attributes":{"a":1},"experiment":"x"}`, `[]`} {
		if sign := experimentSign(langfuse.Trace{Name: "extract", Environment: "production", Metadata: json.RawMessage(metadata)}); sign != "" {
			t.Errorf("%s: %s", metadata, sign)
		}
	}
}
