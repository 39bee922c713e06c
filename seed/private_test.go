package seed

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"extraction-experiment/dataset"
	"extraction-experiment/extraction"
	"extraction-experiment/internal/fold"
	"extraction-experiment/langfuse/embedded"
)

// With a redaction no request says what was taken out, nothing that is shown
// does, and the gold still stands in the text.
func TestFromTraces_redaction(t *testing.T) {
	inModes(t, func(t *testing.T, s *server) {
		secrets := []string{"Ada Lovelace", "ADA LOVELACE", "ada@example.org", "555-0199", "Lovelace", "K-4711"}
		const text = "Patient: Ada Lovelace\nMail ada@example.org, call 555-0199. ADA  LOVELACE lived in London. File K-4711 of Lovelace House."
		answer := map[string]any{
			"entities": []any{
				map[string]any{"name": "Ada Lovelace", "type": "Person", "aliases": []any{"Lovelace", "ada@example.org"}},
				map[string]any{"name": "Lovelace House", "type": "Building"}, map[string]any{"name": "London", "type": "City"}},
			"relationships": []any{map[string]any{"source_name": "Ada Lovelace", "target_name": "Lovelace House", "relationship_type": "owns"}},
		}
		id := s.extracted(0, text, nil)
		s.correct(id, answer)
		mapping := Mapping{Metadata: map[string]Paths{"file": {path("trace.output.file")}, "prompt": {path("input.document_text")}}}
		redaction := mustRedaction(t, `
patterns:
  - {name: person, regex: 'Patient:\s+(?P<take>\w+ \w+)'}
  - {name: family, regex: '\bLovelace\b'}
  - {name: mail, regex: '[\w.]+@[\w.]+\w'}
  - {name: phone, regex: '\d{3}-\d{4}'}
  - {name: file, regex: 'K-\d+'}
`)
		s.mu.Lock()
		s.sent = &bytes.Buffer{}
		s.mu.Unlock()
		var shown bytes.Buffer
		cfg := TraceConfig{Config: Config{Similar: DefaultSimilar}, Mapping: mapping, Redaction: redaction, Show: func(one Seeded) { shown.Write(must(marshal(one))) }}
		result := s.mustSeedTraces(Selection{IDs: []string{id}}, cfg)
		if result.Created != 1 || result.Err() != nil || result.Redacted["MAIL"] == 0 || result.Redacted["PERSON"] == 0 {
			t.Fatalf("%+v", result)
		}
		everything := s.sent.String() + shown.String() + fmt.Sprint(result.Report)
		if !strings.Contains(everything, "[PERSON-1]") {
			t.Fatalf("nothing was recorded: %s", everything)
		}
		for _, secret := range secrets {
			if strings.Contains(fold.Name(everything), fold.Name(secret)) {
				t.Errorf("%q left: %s", secret, everything)
			}
		}
		item := s.only()
		document, _, err := extraction.DecodeDocument(item.Input)
		if err != nil {
			t.Fatal(err)
		}
		got, _, err := extraction.DecodeExtraction(item.ExpectedOutput)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range got.Entities {
			for _, name := range append([]string{e.Name}, e.Aliases...) {
				if !strings.Contains(document.Text, name) {
					t.Errorf("%q is not in %q", name, document.Text)
				}
			}
		}
		if got.Relationships[0].Source != got.Entities[0].Name || got.Relationships[0].Target != got.Entities[1].Name {
			t.Errorf("%+v", got)
		}
		if again := s.mustSeedTraces(Selection{IDs: []string{id}}, cfg); again.Unchanged != 1 {
			t.Errorf("again: %+v", again.Result)
		}
	})
}

// The author of an annotation may be somebody's address: neither the item nor
// what is shown has it.
func TestFromTraces_redactedAuthor(t *testing.T) {
	s := newServer(t)
	id := s.extracted(0, "Ada lived in London.", gold("Ada", "London"))
	s.annotate(embedded.Annotation{TraceID: id, ConfigID: s.config("validated", "BOOLEAN"), Value: true, Author: "bob@example.org"})
	for want, patterns := range map[string]string{"[MAIL": `patterns: [{name: mail, regex: '\w+@[\w.]+'}]`, "[EVIDENCE_AUTHOR": "fields: [evidence.author]"} {
		text := ""
		show := func(one Seeded) { text += string(must(marshal(one))) }
		result := s.mustSeedTraces(Selection{IDs: []string{id}}, TraceConfig{Config: Config{DryRun: true}, Show: show, Redaction: mustRedaction(t, patterns)})
		if result.Created != 1 || strings.Contains(text, "bob") || !strings.Contains(text, want) {
			t.Errorf("%s: %v, %s", patterns, result.Err(), text)
		}
	}
}

// A secret in a key cannot be taken out: that trace is refused, without saying it.
func TestFromTraces_unredacted(t *testing.T) {
	s := newServer(t)
	id := s.extracted(0, "Ada lived in London.", nil)
	answer := gold("Ada", "London")
	answer["entities"].([]any)[0].(map[string]any)["properties"] = map[string]any{"Ada": true}
	s.correct(id, answer)
	result := s.mustSeedTraces(Selection{IDs: []string{id}}, TraceConfig{Redaction: mustRedaction(t, `patterns: [{name: p, regex: Ada}]`)})
	why := result.refusals()[id]
	if result.Refused != 1 || !strings.Contains(why, "key of an object") || strings.Contains(why, "Ada") {
		t.Errorf("%q", why)
	}
}

// The mapping chooses the observation, by name and type; of several the one that
// was judged.
func TestFromTraces_observation(t *testing.T) {
	inModes(t, func(t *testing.T, s *server) {
		attempt := func(k int, city string) span {
			return span{id: spanID(0, k), parent: spanID(0, 0), name: "llm", kind: "generation",
				input: []any{map[string]any{"role": "user", "content": "Ada lived in " + city + "."}}, output: "```json\n" + string(must(marshal(gold("Ada", city)))) + "\n```"}
		}
		s.traced(traceID(0), span{id: spanID(0, 0), name: "request", input: "ignored", output: "ignored"}, attempt(1, "Rome"), attempt(2, "London"), attempt(3, "Paris"),
			span{id: spanID(0, 4), parent: spanID(0, 0), name: "store", input: "x"})
		mapping := Mapping{Observation: Choice{"llm", "GENERATION"}, Input: map[string]Paths{"document_text": {path("input[?role=user].content")}},
			Constant: map[string]any{"object_schemas": schemas}}
		seed := func() TraceResult {
			return s.mustSeedTraces(Selection{IDs: []string{traceID(0)}}, TraceConfig{Mapping: mapping})
		}
		if why := seed().refusals()[traceID(0)]; !strings.Contains(why, "nothing shows") {
			t.Errorf("%q", why)
		}
		verdict := s.config("validated", "BOOLEAN")
		s.annotate(annotation(0, 4, verdict))
		if why := seed().refusals()[traceID(0)]; !strings.Contains(why, "is about the observation "+spanID(0, 4)+", which is another") {
			t.Errorf("%q", why)
		}
		s.annotate(annotation(0, 2, verdict))
		if result := seed(); result.Err() != nil || result.Created != 1 {
			t.Fatalf("%v", result.Err())
		}
		item := s.only()
		if item.SourceObservationID != spanID(0, 2) || !strings.Contains(string(item.Input), "Ada lived in London.") || !strings.Contains(string(item.ExpectedOutput), "London") {
			t.Errorf("%+v", item)
		}
		mapping.Observation.Name = "nothing"
		if why := seed().refusals()[traceID(0)]; !strings.Contains(why, `name "nothing"`) || !strings.Contains(why, "store (SPAN)") {
			t.Errorf("%q", why)
		}
	})
}

// A correction has the form of the output that it corrects.
func TestMapper_correctedPart(t *testing.T) {
	s := newServer(t)
	s.traced(traceID(0), span{id: spanID(0, 0), name: "request", input: map[string]any{"request": map[string]any{"body": "Ada lived in London."}},
		output: map[string]any{"status": 200, "result": gold("Ada", "Rome")}})
	mapping := Mapping{Input: map[string]Paths{"document_text": {path("input.request.body")}}, Expected: Paths{path("output.result")}}
	s.correct(traceID(0), map[string]any{"status": 200, "result": gold("Ada", "London")})
	result := s.mustSeedTraces(Selection{IDs: []string{traceID(0)}}, TraceConfig{Mapping: mapping})
	if result.Err() != nil || !strings.Contains(string(s.only().ExpectedOutput), "London") {
		t.Errorf("%v, %s", result.Err(), s.only().ExpectedOutput)
	}
}

// A mapping that looks for gold elsewhere does not hide a correction.
func TestMapper_correctionBesideThePath(t *testing.T) {
	s := newServer(t)
	s.traced(traceID(0), span{id: spanID(0, 0), name: "request", input: map[string]any{"text": "Ada lived in London.", "guess": gold("Ada", "Rome")}, output: "done"})
	s.correct(traceID(0), gold("Ada", "London"))
	result := s.mustSeedTraces(Selection{IDs: []string{traceID(0)}}, TraceConfig{Mapping: Mapping{Expected: Paths{path("input.guess")}}})
	if result.Err() != nil || !strings.Contains(string(s.only().ExpectedOutput), "London") {
		t.Errorf("%v, %s", result.Err(), s.only().ExpectedOutput)
	}
	s.annotate(embedded.Annotation{TraceID: traceID(0), Correction: "nothing at all", Author: "ann"})
	result = s.mustSeedTraces(Selection{IDs: []string{traceID(0)}}, TraceConfig{Mapping: Mapping{Expected: Paths{path("input.guess")}}})
	if result.Report.Problems.Kinds[NotJSON] != 1 {
		t.Errorf("%v: the newest correction is no JSON", result.Err())
	}
}

func must(raw []byte, err error) json.RawMessage {
	if err != nil {
		panic(err)
	}
	return raw
}

func TestItemID(t *testing.T) {
	ids := map[string]bool{}
	for _, parts := range [][3]string{{"a", "b", "c"}, {"ab", "", "c"}, {"a", "bc", ""}, {"", "ab", "c"}, {"a", "b", "d"}, {"1:a", "b", "c"}} {
		id := ItemID(parts[0], parts[1], parts[2])
		if ids[id] || id != ItemID(parts[0], parts[1], parts[2]) || dataset.ValidID(id) != nil {
			t.Errorf("%q: %s", parts, id)
		}
		ids[id] = true
	}
}

// Metadata arrives as nested objects or as texts of JSON; a field is found in
// both.
func TestFromTraces_redactedField(t *testing.T) {
	inModes(t, func(t *testing.T, s *server) {
		s.traced(traceID(0), span{id: spanID(0, 0), name: "extract", input: map[string]any{"document_text": "Kim lived in London."},
			attributes: map[string]string{"langfuse.trace.metadata.customer": `{"user":{"name":"Kim"},"ssn":4711}`}})
		s.correct(traceID(0), gold("Kim", "London"))
		cfg := TraceConfig{Mapping: Mapping{Metadata: map[string]Paths{"customer": {path("trace.metadata.customer")}}}, Redaction: mustRedaction(t, "fields: [user.name, ssn]")}
		if result := s.mustSeedTraces(Selection{IDs: []string{traceID(0)}}, cfg); result.Created != 1 {
			t.Fatal(result.Err())
		}
		item := s.only()
		all := string(item.Input) + string(item.ExpectedOutput) + string(item.Metadata)
		if strings.Contains(all, "Kim") || strings.Contains(all, "4711") || !strings.Contains(string(item.Metadata), "[SSN-1]") {
			t.Error(all)
		}
	})
}
