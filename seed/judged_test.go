package seed

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"extraction-experiment/langfuse"
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
		mapping := Mapping{Observation: Choice{Name: "llm", Type: "GENERATION"}, Input: map[string]Paths{"document_text": {path("input[1].content")}}}
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

// A reference to an id that two entities have means nothing; without references
// the ids do not matter. A key that is there twice is named.
func TestMapper_doubled(t *testing.T) {
	const entities = `{"entities":[{"temp_id":"e1","name":"Ada"},{"temp_id":"e1","name":"London"}],"relationships":`
	for output, want := range map[string]string{
		entities + `[{"source_ref":"e1","target_name":"London","relationship_type":"in"}]}`:   "the id e1 is that of two entities",
		entities + `[{"source_name":"Ada","target_name":"London","relationship_type":"in"}]}`: "",
		entities + `[]}`: "",
		`{"entities":[{"name":"Ada"}],"entities":[{"name":"Bob"}],"relationships":[]}`:                                    "has the key entities twice",
		`{"entities":[{"name":"Ada","name":"Bob"}],"relationships":[{"type":"name"}]}`:                                    "has the key name twice",
		`{"entities":[{"name":"Ada"},{"name":"Bob"}],"relationships":[{"type":"name"}]}`:                                  "",
		`"{\"entities\":[],\"entities\":[],\"relationships\":[]}"`:                                                        "has the key entities twice",
		`"Here:\n` + "```" + `\n` + quoted(entities+`[{"source_ref":"e1","target_name":"London"}]}`) + `\n` + "```" + `"`: "the id e1 is that of two entities",
	} {
		out, err := (&mapper{dataset: "d", accept: true}).item(told(someInput, output), nil)
		said := ""
		if err != nil {
			said = err.Error()
		}
		for _, w := range out.warnings {
			if strings.Contains(w.Message, "twice in one object") {
				said += w.Message
			}
		}
		if !strings.Contains(said, want) || want == "" && said != "" {
			t.Errorf("%s: %q, want %q", output, said, want)
		}
	}
}

// quoted is a text as it stands in a JSON text.
func quoted(text string) string {
	raw, _ := json.Marshal(text)
	return string(raw[1 : len(raw)-1])
}

// A sample that is spread over a key that no trace has says so.
func TestFromTraces_noStratum(t *testing.T) {
	s := newServer(t)
	s.ids(3)
	result := s.mustSeedTraces(Selection{IDs: []string{traceID(0), traceID(1), traceID(2)}, Sample: 2, Stratify: "metadata.categroy"}, TraceConfig{Config: Config{DryRun: true}})
	if result.Report.Warnings.Kinds[NoStratum] != 1 || !strings.Contains(result.Report.Warnings.First[0].Message, "metadata.categroy") {
		t.Errorf("%+v", result.Report.Warnings)
	}
}

func (s *server) ids(n int) {
	for i := range n {
		s.extracted(i, "Ada lived in London.", gold("Ada", "London"))
	}
}

// Unknown keys of gold do not come into the item, and the warning says that.
func TestMapper_unknownKeys(t *testing.T) {
	out, err := (&mapper{dataset: "d", accept: true}).item(told(someInput, `{"entities":[],"relationships":[],"mood":1}`), nil)
	last := out.warnings[len(out.warnings)-1].Message
	if err != nil || strings.Contains(string(out.item.Expected), "mood") || !strings.Contains(last, `are left out: "mood"`) {
		t.Errorf("%v, %q, %s", err, last, out.item.Expected)
	}
}

// TestEvidenceSearch_couldCount: a refusal for want of evidence names the tags and
// scores that are there, and the flags that make them count.
func TestEvidenceSearch_couldCount(t *testing.T) {
	trace := langfuse.Trace{ID: "t", Tags: []string{"prod", "reviewed"}}
	on := func(name string, kind langfuse.ScoreType, value langfuse.ScoreValue, trace string) langfuse.Score {
		return langfuse.Score{Name: name, Type: kind, Value: value, Subject: langfuse.ScoreSubject{Kind: "trace", ID: trace}}
	}
	scores := []langfuse.Score{
		on("quality", langfuse.ScoreNumeric, langfuse.NumberValue(0.95), "t"), on("quality", langfuse.ScoreNumeric, langfuse.NumberValue(0.1), "t"),
		on("ok", langfuse.ScoreBoolean, langfuse.BoolValue(true), "t"), on("verdict", langfuse.ScoreCategorical, langfuse.TextValue("good"), "t"),
		on("elsewhere", langfuse.ScoreNumeric, langfuse.NumberValue(1), "another"),
	}
	w := evidenceSearch{trace: trace, scores: scores}
	const want = "tags: prod, reviewed (--accept-tag TAG makes one count); scores: quality = 0.95, ok = true, verdict = good (--accept-score 'NAME>=V'); --accept-unvalidated takes it as it is"
	if got := w.couldCount(); got != want {
		t.Errorf("%s", got)
	}
	w.private, w.trace.Tags = true, strings.Split("abcdefghijk", "")
	if got := w.couldCount(); !strings.Contains(got, "g, h, 3 more (--accept-tag") || strings.Contains(got, "good") {
		t.Errorf("%s", got)
	}
	if got := (evidenceSearch{}).couldCount(); !strings.HasPrefix(got, "tags: none (") || !strings.Contains(got, "scores: none (") {
		t.Errorf("%s", got)
	}
}

// TestParseScoreRule_operators: what is no operator is not the beginning of a text.
func TestParseScoreRule_operators(t *testing.T) {
	for text, want := range map[string]string{
		"quality=>0.9":   "write 'quality>=0.9'",
		"quality =< 0.9": "write 'quality<=0.9'",
		"verdict<>good":  "write 'verdict!=good'",
		"verdict=!good":  "write 'verdict!=good'",
	} {
		_, err := ParseScoreRule(text)
		var coded interface{ ExitCode() int }
		if err == nil || !strings.Contains(err.Error(), want) || !errors.As(err, &coded) || coded.ExitCode() != 64 {
			t.Errorf("%q: %v does not say %q", text, err, want)
		}
	}
	for text, want := range map[string]string{"a >= 0.9": "a>=0.9", "a==1": "a=1", "validated": "validated>=1", "verdict!=bad": "verdict!=bad", "a<2": "a<2"} {
		if r, err := ParseScoreRule(text); err != nil || r.String() != want {
			t.Errorf("%q: %v %v", text, r, err)
		}
	}
}
