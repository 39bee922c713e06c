package seed

import (
	"strings"
	"testing"

	"extraction-experiment/langfuse/embedded"
)

// Gold that a person judges wrong later stays in the dataset; the refusal names
// it with what takes it out, and once it is out says no more.
func TestFromTraces_withdrawn(t *testing.T) {
	inModes(t, func(t *testing.T, s *server) {
		verdict := s.config("usable", "BOOLEAN")
		id := s.extracted(0, "Ada lived in London.", gold("Ada", "London"))
		s.annotate(embedded.Annotation{TraceID: id, ConfigID: verdict, Value: true, Author: "bob"})
		seed := func() TraceResult {
			return s.mustSeedTraces(Selection{IDs: []string{id}}, TraceConfig{Config: Config{IDPrefix: "p-"}, Redaction: mustRedaction(t, "fields: [nothing]")})
		}
		if result := seed(); result.Created != 1 {
			t.Fatal(result.Err())
		}
		item := s.only().ID
		s.annotate(embedded.Annotation{TraceID: id, ConfigID: verdict, Value: false, Author: "eve"})
		if why := seed().refusals()[id]; !strings.Contains(why, "seed --dataset gold --archive "+item) || !strings.Contains(why, "eve") {
			t.Errorf("%q does not say how %s is taken out", why, item)
		}
		if _, err := Archive(t.Context(), s.Client, "gold", []string{item}); err != nil {
			t.Fatal(err)
		}
		if why := seed().refusals()[id]; strings.Contains(why, "--archive") || !strings.Contains(why, "judged wrong") {
			t.Errorf("%q, of an item that is archived", why)
		}
	})
}

// A correction of an inner step is not the correction of the trace: where there
// is other evidence the item is made without it, and that is said; with the
// mapping that the message proposes it is the gold.
func TestFromTraces_correctionOfStep(t *testing.T) {
	inModes(t, func(t *testing.T, s *server) {
		id := s.extracted(0, "Ada lived in London.", gold("Ada", "Rome"))
		verdict := s.config("validated", "BOOLEAN")
		s.annotate(embedded.Annotation{TraceID: id, ObservationID: spanID(0, 1), Correction: string(must(marshal(gold("Ada", "London")))), Author: "ann"})
		if why := s.mustSeedTraces(Selection{IDs: []string{id}}, TraceConfig{}).refusals()[id]; !strings.Contains(why, `observation: {name: "llm", type: GENERATION}`) || strings.Contains(why, "no correction") {
			t.Errorf("%q", why)
		}
		s.annotate(embedded.Annotation{TraceID: id, ConfigID: verdict, Value: true, Author: "bob"})
		result := s.mustSeedTraces(Selection{IDs: []string{id}}, TraceConfig{})
		if result.Created != 1 || result.Report.Warnings.Kinds[PassedOver] != 1 {
			t.Errorf("%d created, %+v", result.Created, result.Report.Warnings)
		}
		mapping := Mapping{Observation: Choice{Name: "llm", Type: "GENERATION"}, Input: map[string][]Path{"document_text": {path("input[1].content")}}}
		if result = s.mustSeedTraces(Selection{IDs: []string{id}}, TraceConfig{Mapping: mapping}); result.Created != 1 || result.Report.Warnings.Kinds[PassedOver] != 0 {
			t.Errorf("%v, %+v", result.Err(), result.Report.Warnings)
		}
	})
}

// A queue may have two observations of one trace: one item is made, and the
// other is named.
func TestFromTraces_queueOfObservations(t *testing.T) {
	inModes(t, func(t *testing.T, s *server) {
		queue := s.newQueue("review")
		s.extracted(0, "Ada lived in London.", gold("Ada", "London"))
		s.complete(queue, spanID(0, 0), "OBSERVATION")
		s.complete(queue, spanID(0, 1), "OBSERVATION")
		result := s.mustSeedTraces(Selection{Queue: "review"}, TraceConfig{})
		said := ""
		for _, w := range result.Report.Warnings.First {
			if w.Kind == Repeated {
				said += w.String()
			}
		}
		if result.Created != 1 || result.Report.Warnings.Kinds[Repeated] != 1 || !strings.Contains(said, spanID(0, 0)) || !strings.Contains(said, spanID(0, 1)) || !strings.Contains(said, "queue review") {
			t.Errorf("%d created: %q", result.Created, said)
		}
	})
}
