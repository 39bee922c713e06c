package seed

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/testkit/suite"
	"extraction-experiment/langfuse/embedded"
)

// TestFromTraces_evidence checks that each kind of evidence makes an item that records it, in every
// mode.
func TestFromTraces_evidence(t *testing.T) {
	forModes(t, func(t *testing.T, s *server) {
		verdict, queue := s.newScoreConfig("validated", "BOOLEAN"), s.newQueue("review")
		answer := gold("Ada", "London")
		const text = "Ada lived in London and in Paris."
		tests := []struct {
			name        string
			addEvidence func(trace string, n int)
			rules       EvidenceRules
			kind        EvidenceKind
			author      string
			city        string // city in the gold
			about       int    // number of the span that the evidence is about; -1 for the trace
		}{
			{"queue item of the trace", func(id string, _ int) { s.complete(queue, id, "TRACE") }, EvidenceRules{}, ByQueue, "", "London", -1},
			{"queue item of the root", func(_ string, n int) { s.complete(queue, spanID(n, 0), "OBSERVATION") }, EvidenceRules{}, ByQueue, "", "London", 0},
			{"annotation of the trace", func(id string, _ int) {
				s.annotate(embedded.Annotation{TraceID: id, ConfigID: verdict, Value: true, Author: "bob"})
			}, EvidenceRules{}, ByAnnotation, "bob", "London", -1},
			{"annotation of an observation", func(id string, n int) {
				s.annotate(embedded.Annotation{TraceID: id, ObservationID: spanID(n, 1), ConfigID: verdict, Value: true, Author: "bob"})
			}, EvidenceRules{}, ByAnnotation, "bob", "London", 1},
			{"correction of the trace", func(id string, _ int) { s.correct(id, gold("Ada", "Paris")) }, EvidenceRules{}, ByCorrection, "ann", "Paris", -1},
			{"queue and correction", func(id string, _ int) {
				s.complete(queue, id, "TRACE")
				s.correct(id, gold("Ada", "Paris"))
			}, EvidenceRules{}, ByQueue, "", "Paris", -1},
			{"a correction of what was judged wrong", func(id string, _ int) {
				s.annotate(embedded.Annotation{TraceID: id, ConfigID: verdict, Value: false, Author: "bob"})
				s.correct(id, gold("Ada", "Paris"))
			}, EvidenceRules{}, ByCorrection, "ann", "Paris", -1},
			{"a configured score", func(id string, _ int) {
				s.post("/api/public/scores", map[string]any{"id": "q-" + id, "traceId": id, "name": "quality", "value": 0.95})
			}, EvidenceRules{Scores: []ScoreRule{mustScoreRule("quality>=0.9")}}, ByScore, "", "London", -1},
		}
		for i, tt := range tests {
			t.Run(tt.name, func(t *testing.T) {
				dataset := fmt.Sprint("gold-", i)
				id := s.sendExtraction(i, text, answer)
				tt.addEvidence(id, i)
				result := s.mustSeedTraces(Selection{IDs: []string{id}}, TraceConfig{Config: Config{Dataset: dataset}, Mapping: Mapping{Evidence: tt.rules}})
				if result.Err() != nil || result.Created != 1 {
					t.Fatalf("%+v: %v", result, result.Err())
				}
				for _, item := range s.items(dataset) {
					var metadata struct {
						Evidence Evidence
						Source   string `json:"source_trace_id"`
					}
					if err := json.Unmarshal(item.Metadata, &metadata); err != nil {
						t.Fatal(err)
					}
					about := ""
					if tt.about >= 0 {
						about = spanID(i, tt.about)
					}
					e := metadata.Evidence
					if e.Kind != tt.kind || e.Author != tt.author || e.Time.IsZero() || e.ID == "" || e.Observation != about || metadata.Source != id {
						t.Errorf("metadata %s", item.Metadata)
					}
					if item.SourceTraceID != id || item.SourceObservationID != spanID(i, 0) {
						t.Errorf("links to %s, %s", item.SourceTraceID, item.SourceObservationID)
					}
					want := fmt.Sprintf(`{"entities":[{"name":"Ada","type":"Person"},{"name":%[1]q,"type":"City"}],"relationships":[{"relationship_type":"lived_in","source_name":"Ada","target_name":%[1]q}]}`, tt.city)
					if diff := cmp.Diff(want, canonical(t, item.ExpectedOutput)); diff != "" {
						t.Error(diff)
					}
					if !strings.Contains(string(item.Input), text) || !strings.Contains(string(item.Input), "object_schemas") {
						t.Errorf("input %s", item.Input)
					}
				}
			})
		}
	})
}

func mustScoreRule(text string) ScoreRule {
	r, err := ParseScoreRule(text)
	if err != nil {
		panic(err)
	}
	return r
}

// TestFromTraces_refusals checks that traces without evidence or without gold are refused by id,
// and that a good trace among them is seeded.
func TestFromTraces_refusals(t *testing.T) {
	forModes(t, func(t *testing.T, s *server) {
		verdict := s.newScoreConfig("validated", "BOOLEAN")
		approve := func(id string) {
			s.annotate(embedded.Annotation{TraceID: id, ConfigID: verdict, Value: true, Author: "bob"})
		}
		answer := gold("Ada", "London")
		good := s.sendExtraction(0, "Ada lived in London.", answer)
		approve(good)
		refused := map[string]string{
			"nowhere-to-be-found": "no such trace in this project",
			"two words":           "is not a trace id",
			s.sendExtraction(1, "Ada lived in London.", answer): "nothing shows that a person validated it",
		}
		bad := func(n int, text string, output any, want string) {
			id := s.sendExtraction(n, text, output)
			approve(id)
			refused[id] = want
		}
		bad(2, " ", answer, "has no document there, or an empty one")
		bad(3, "Ada lived in London.", "I am sorry, I cannot.", "not JSON")
		bad(4, "Ada lived in London.", `{"entities":[{"name":"Ada","type":"Person"},{"name":"Lon`, "ends in the middle")
		bad(13, "Ada lived in London.", `{"entities":[{"name":"Ad`, "ends in the middle")
		bad(5, "Ada lived in London.", nil, "has no value")
		bad(6, "Ada lived in London.", map[string]any{"truncated": true, "bytes": 5000000, "begins": "{"}, "was cut")
		bad(7, "Ada lived in London.", map[string]any{"answer": "Ada"}, "without entities and relationships")
		bad(8, "Ada lived in London.", map[string]any{"entities": []any{map[string]any{"name": []any{}}, 5}}, "expectedOutput.entities[1]")
		bad(9, "Ada lived in London.", map[string]any{"entities": []any{}, "relationships": []any{map[string]any{"source_ref": "e9", "target_name": "Ada", "type": "knows"}}}, `refers to "e9"`)
		judged := s.sendExtraction(11, "Ada lived in London.", answer)
		approve(judged)
		s.annotate(embedded.Annotation{TraceID: judged, ConfigID: verdict, Value: false, Author: "eve"})
		refused[judged] = "eve annotated it with validated = "
		robot := s.sendExtraction(12, "Ada lived in London.", answer)
		s.post("/api/public/scores", map[string]any{"traceId": robot, "name": "validated", "value": 1, "dataType": "BOOLEAN", "source": "ANNOTATION", "configId": verdict})
		refused[robot] = "has no author: a program wrote it"

		ids := []string{good, good}
		for id := range refused {
			ids = append(ids, id)
		}
		shown := map[string]string{}
		s.mustSeedTraces(Selection{IDs: ids}, TraceConfig{Config: Config{DryRun: true}, Show: func(one Seeded) { shown[one.Trace] = one.Reason }})
		result := s.mustSeedTraces(Selection{IDs: ids}, TraceConfig{})
		got := result.refusals()
		for id, want := range refused {
			if !strings.Contains(got[id], want) {
				t.Errorf("trace %s: %q, want %q", id, got[id], want)
			}
			if strings.Count(got[id], "\n") > 1 {
				want = " (and 1 more)"
			}
			if !strings.Contains(shown[id], want) {
				t.Errorf("trace %s is shown with %q, want %q", id, shown[id], want)
			}
		}
		if made := result.Evidence[ByAnnotation]; made != 1 {
			t.Errorf("%d items by annotation, want 1", made)
		}
		if result.Created != 1 || result.Refused != len(refused) || result.Report.Warnings.Kinds[Repeated] != 1 {
			t.Errorf("%d created, %d refused of %d, warnings %v", result.Created, result.Refused, len(refused), result.Report.Warnings.Kinds)
		}
		if cli.ExitCode(result.Err()) != 4 {
			t.Errorf("%v: want exit code 4", result.Err())
		}
	})
}

// TestFromTraces_again checks that traces are created once, then unchanged and not written, and
// that a new correction updates one item.
func TestFromTraces_again(t *testing.T) {
	forModes(t, func(t *testing.T, s *server) {
		n := 40
		if s.mode == embedded.ModeV4 {
			n = 150
		}
		var ids []string
		var spans []any
		for i := range n {
			spans = append(spans, s.encodeSpan(traceID(i), span{id: spanID(i, 0), name: "extract", attributes: map[string]string{"langfuse.trace.name": "extract"},
				input: fmt.Sprintf("Person%03d lived in City%03d, in house number %d.", i, i, i*7919)}))
			ids = append(ids, traceID(i))
		}
		s.export(spans)
		for i, id := range ids {
			s.correct(id, gold(fmt.Sprintf("Person%03d", i), fmt.Sprintf("City%03d", i)))
		}
		selection := Selection{Name: "extract"}
		for _, step := range []struct{ created, updated, unchanged, writes int }{{n, 0, 0, n}, {0, 0, n, 0}, {0, 1, n - 1, 1}} {
			if step.updated > 0 {
				s.correct(ids[7], gold("Person007", "London"))
			}
			result := s.mustSeedTraces(selection, TraceConfig{})
			if result.Created != step.created || result.Updated != step.updated || result.Unchanged != step.unchanged || result.Err() != nil {
				t.Fatalf("%d created, %d updated, %d unchanged: %v", result.Created, result.Updated, result.Unchanged, result.Err())
			}
			if writes := s.writes(); writes != step.writes {
				t.Fatalf("%d items written, want %d", writes, step.writes)
			}
		}
	})
}

// TestFromTraces_large checks that a document of 2.4 MB becomes an item, and that an item that
// Langfuse would not accept, because the mapping includes the document twice, is refused with its
// size.
func TestFromTraces_large(t *testing.T) {
	suite.Slow(t, "documents of some megabytes")
	s := newServer(t)
	s.correct(s.sendExtraction(0, strings.Repeat("Ada lived in London. ", 115_000), nil), gold("Ada", "London")) // 2.4 MB
	copied := Mapping{Metadata: map[string]Paths{"copy": {mustPath("input.document_text")}}}
	result := s.mustSeedTraces(Selection{IDs: []string{traceID(0)}}, TraceConfig{Mapping: copied})
	why := result.refusals()[traceID(0)]
	if result.Created != 0 || result.Refused != 1 || !strings.Contains(why, "is 4.8 MB") || !strings.Contains(why, "Langfuse takes 4718592 bytes") {
		t.Errorf("%d created: %q", result.Created, why)
	}
	if result := s.mustSeedTraces(Selection{IDs: []string{traceID(0)}}, TraceConfig{}); result.Created != 1 || result.Err() != nil {
		t.Errorf("%d created: %v", result.Created, result.Err())
	}
}

// TestFromTraces_decisions checks that an item that a person archived stays archived, and that
// AcceptUnvalidated does not accept a trace that a person rejected.
func TestFromTraces_decisions(t *testing.T) {
	s := newServer(t)
	id := s.sendExtraction(0, "Ada lived in London.", gold("Ada", "London"))
	s.correct(id, gold("Ada", "London"))
	s.mustSeedTraces(Selection{IDs: []string{id}}, TraceConfig{})
	if _, err := Archive(t.Context(), s.Client, "gold", []string{s.onlyItem().ID}); err != nil {
		t.Fatal(err)
	}
	again := s.mustSeedTraces(Selection{IDs: []string{id}}, TraceConfig{})
	if again.Unchanged != 1 || again.Report.Warnings.Kinds[LeftArchived] != 1 || len(s.items("gold")) != 0 {
		t.Errorf("%+v", again.Result)
	}

	verdict := s.newScoreConfig("validated", "BOOLEAN")
	wrong := s.sendExtraction(1, "Ada lived in London.", gold("Ada", "London"))
	s.annotate(embedded.Annotation{TraceID: wrong, ConfigID: verdict, Value: false, Author: "eve"})
	refused := s.mustSeedTraces(Selection{IDs: []string{wrong}}, TraceConfig{AcceptUnvalidated: true})
	if refused.Report.Problems.Kinds[JudgedWrong] != 1 {
		t.Errorf("%v", refused.Err())
	}
}

// TestFromTraces_keptEvidence: seeding a trace again without looking for evidence keeps the evidence of
// its item.
func TestFromTraces_keptEvidence(t *testing.T) {
	s := newServer(t)
	s.sendTrace(traceID(0), span{id: spanID(0, 0), name: "extract", input: map[string]any{"document_text": "Ada lived in Rome.", "object_schemas": schemas}, output: gold("Ada", "Rome"),
		attributes: map[string]string{"langfuse.trace.tags": `["checked"]`}})
	selection := Selection{IDs: []string{traceID(0)}}
	s.mustSeedTraces(selection, TraceConfig{Mapping: Mapping{Evidence: EvidenceRules{Tags: []string{"checked"}}}})
	again := s.mustSeedTraces(selection, TraceConfig{AcceptUnvalidated: true})
	if metadata := string(s.onlyItem().Metadata); again.Unchanged != 1 || !strings.Contains(metadata, `"kind":"tag"`) {
		t.Errorf("%+v %s", again.Result, metadata)
	}
}

// sendLegacy sends a trace in the legacy form: name, tags, input, output and metadata are on the
// trace, and its span has only a name.
func (s *server) sendLegacy(n int, text string, output any) string {
	s.t.Helper()
	after := time.Duration(n) * time.Minute
	s.sendTrace(traceID(n), span{id: spanID(n, 0), name: "work", at: after, attributes: map[string]string{"langfuse.environment": "staging"}})
	at := startTime.Add(after).Format(time.RFC3339)
	trace := map[string]any{"id": traceID(n), "timestamp": at, "name": "old", "tags": []any{"checked"}, "metadata": map[string]any{"category": fmt.Sprint("c", n%2)},
		"environment": "staging", "input": map[string]any{"document_text": text}, "output": output}
	answer := s.post("/api/public/ingestion", map[string]any{"batch": []any{
		map[string]any{"id": fmt.Sprint("event-", n), "type": "trace-create", "timestamp": at, "body": trace}}})
	if errs, _ := answer["errors"].([]any); len(errs) > 0 {
		s.t.Fatal(errs)
	}
	return traceID(n)
}

// TestFromTraces_older checks that, on a server with legacy reads, traces in the legacy form are
// selected, read and sampled like others.
func TestFromTraces_older(t *testing.T) {
	for _, mode := range []embedded.Mode{embedded.ModeV3, embedded.ModeV4Dual} {
		t.Run(string(mode), func(t *testing.T) {
			s := newServerIn(t, mode)
			for n := range 4 {
				s.sendLegacy(n, strings.Repeat(fmt.Sprintf("Ada lived in London, %d. ", n*104729), 3), gold("Ada", "London"))
			}
			s.sendTrace(traceID(9), span{id: spanID(9, 0), name: "old", input: map[string]any{"document_text": "Ada lived in Rome."}, output: gold("Ada", "Rome"), at: 2*time.Minute + time.Second,
				attributes: map[string]string{"langfuse.trace.name": "old", "langfuse.trace.tags": `["checked"]`, "langfuse.environment": "staging"}})
			tagged := TraceConfig{Mapping: Mapping{Evidence: EvidenceRules{Tags: []string{"checked"}}}}
			for name, tt := range map[string]struct {
				selection Selection
				want      []int
			}{
				"by tag":         {Selection{Tags: []string{"checked"}}, []int{3, 9, 2, 1, 0}},
				"by name":        {Selection{Name: "old"}, []int{3, 9, 2, 1, 0}},
				"by environment": {Selection{Environment: "staging"}, []int{3, 9, 2, 1, 0}},
				"the newest":     {Selection{Tags: []string{"checked"}, Limit: 2}, []int{3, 9}},
				"by id":          {Selection{IDs: []string{traceID(0), traceID(9)}}, []int{0, 9}},
			} {
				var got []string
				cfg := tagged
				cfg.DryRun, cfg.Show = true, func(s Seeded) { got = append(got, s.Trace+" "+string(s.Action)) }
				s.mustSeedTraces(tt.selection, cfg)
				var want []string
				for _, n := range tt.want {
					want = append(want, traceID(n)+" created")
				}
				if fmt.Sprint(got) != fmt.Sprint(want) {
					t.Errorf("%s: %v, want %v", name, got, want)
				}
			}
			cfg := tagged
			result := s.mustSeedTraces(Selection{Tags: []string{"checked"}, Until: startTime.Add(2 * time.Minute), Sample: 1, Stratify: "category"}, cfg)
			if result.Created != 1 || result.Err() != nil {
				t.Errorf("%d created: %v", result.Created, result.Err())
			}
		})
	}
}
