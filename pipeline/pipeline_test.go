package pipeline_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"extraction-experiment/extraction"
	"extraction-experiment/outcome"
	"extraction-experiment/pipeline"
)

// fakeModel answers with a function and records its requests. The function gets the number of
// earlier requests.
type fakeModel struct {
	mu       sync.Mutex
	requests []pipeline.Request
	answer   func(n int, req pipeline.Request) (pipeline.Response, error)
}

func (m *fakeModel) Generate(_ context.Context, req pipeline.Request) (pipeline.Response, error) {
	m.mu.Lock()
	n := len(m.requests)
	m.requests = append(m.requests, req)
	m.mu.Unlock()
	return m.answer(n, req)
}

// answeringModel returns a model that answers with the texts in order, then with the last one.
func answeringModel(texts ...string) *fakeModel {
	return &fakeModel{answer: func(n int, _ pipeline.Request) (pipeline.Response, error) {
		return pipeline.Response{Text: texts[min(n, len(texts)-1)], Finish: pipeline.FinishStop, Usage: outcome.Usage{Input: 10, Output: 5}}, nil
	}}
}

var document = extraction.Document{
	Text:          "Ada Lovelace was born in London.",
	Objects:       map[string]extraction.ObjectSchema{"Person": {Name: "Person"}, "City": {Name: "City"}},
	Relationships: map[string]extraction.RelationshipSchema{"born_in": {Name: "born_in"}},
}

const validAnswer = `{"entities":[{"name":"Ada Lovelace","type":"Person"},{"name":"London","type":"City"}],"relationships":[{"source_name":"Ada Lovelace","target_name":"London","relationship_type":"born_in"}]}`

func newPipeline(t *testing.T, m pipeline.Model, change func(*pipeline.Config)) *pipeline.Pipeline {
	t.Helper()
	cfg := pipeline.Config{Model: m, Name: "m", Provider: "p", Prompt: pipeline.ParseText("Extract from: {{document_text}}")}
	if change != nil {
		change(&cfg)
	}
	p, err := pipeline.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestPipeline(t *testing.T) {
	zero := 0.0
	m := answeringModel("```json\n" + validAnswer + "\n```")
	found, calls, err := newPipeline(t, m, func(c *pipeline.Config) { c.Parameters.Temperature = &zero }).Extract(t.Context(), document)
	if err != nil {
		t.Fatal(err)
	}
	if len(found.Entities) != 2 || len(found.Relationships) != 1 || len(found.Entities[0].Mentions) != 1 {
		t.Errorf("found %+v", found)
	}
	req := m.requests[0]
	if req.Messages[0].Content != "Extract from: Ada Lovelace was born in London." || req.Schema == nil || *req.Parameters.Temperature != 0 {
		t.Errorf("asked %+v", req)
	}
	if len(calls) != 2 || calls[0].Kind != "generation" || calls[0].Usage.Input != 10 || string(calls[0].Parameters) != `{"temperature":0}` || calls[1].Name != "merge" {
		t.Errorf("calls %+v", calls)
	}
}

func TestPipeline_instruction(t *testing.T) {
	m := answeringModel(validAnswer)
	newPipeline(t, m, func(c *pipeline.Config) { c.Capabilities.NoSchema = true }).Extract(t.Context(), document)
	if req := m.requests[0]; req.Schema != nil || !strings.Contains(req.Messages[0].Content, "relationship_type") {
		t.Errorf("without a schema the form must stand in the prompt: %+v", req)
	}
}

func TestPipeline_repair(t *testing.T) {
	wrong := strings.Replace(validAnswer, `"City"`, `"Town"`, 1)
	tests := map[string]struct {
		answers  []string
		requests int
		entities int
		class    outcome.Class
	}{
		"broken, then good":                {[]string{"I cannot say.", validAnswer}, 2, 2, outcome.OK},
		"a wrong type, then good":          {[]string{wrong, validAnswer}, 2, 2, outcome.OK},
		"a wrong type, twice, is kept":     {[]string{wrong}, 2, 2, outcome.OK},
		"broken twice":                     {[]string{"no", "still no"}, 2, 0, outcome.InvalidOutput},
		"empty answer is not asked again":  {[]string{"  "}, 1, 0, outcome.InvalidOutput},
		"nothing found is a valid answer":  {[]string{`{"entities":[],"relationships":[]}`}, 1, 0, outcome.OK},
		"a cut tail is asked for again":    {[]string{validAnswer[:len(validAnswer)-3], validAnswer}, 2, 2, outcome.OK},
		"a worse repair does not count":    {[]string{wrong, "nonsense"}, 2, 2, outcome.OK},
		"a cut tail twice gives what came": {[]string{validAnswer[:len(validAnswer)-3]}, 2, 2, outcome.OK},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			m := answeringModel(tt.answers...)
			found, calls, err := newPipeline(t, m, nil).Extract(t.Context(), document)
			if got := outcome.FailureOf(err, outcome.Provider).Class; got != tt.class {
				t.Fatalf("class %q (%v), want %q", got, err, tt.class)
			}
			if len(m.requests) != tt.requests || len(calls) < tt.requests || len(found.Entities) != tt.entities {
				t.Errorf("%d requests, %d calls, %d entities", len(m.requests), len(calls), len(found.Entities))
			}
			const again = "an answer was not valid, and the model was asked again"
			if tt.requests == 2 && !slices.Contains(calls[0].Warnings, again) {
				t.Error("the first call does not say what was wrong with its answer")
			}
			if tt.requests == 2 && (calls[0].Name != "extract" || calls[1].Name != "extract-repair-1") {
				t.Errorf("the calls are %s and %s", calls[0].Name, calls[1].Name)
			}
			if tt.requests == 2 && len(m.requests[1].Messages) != 3 {
				t.Errorf("the second request has %d messages: prompt, answer, complaint", len(m.requests[1].Messages))
			}
		})
	}
}

// TestPipeline_unread checks that a call warns of a part of its answer that was passed over, and of
// nothing that was only repaired.
func TestPipeline_unread(t *testing.T) {
	for text, want := range map[string]string{
		validAnswer + validAnswer: "extract: the answer holds more than one JSON object",
		strings.Replace(validAnswer, `{"entities"`, `{"entities":[],"entities"`, 1):    `extract: "entities" stands more than once`,
		strings.Replace(validAnswer, `"type"`, `/* kind */ "sure":1,"type"`, 1) + "ok": "",
	} {
		_, calls, err := newPipeline(t, answeringModel(text), nil).Extract(t.Context(), document)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(calls[0].Warnings, "; "); !strings.HasPrefix(got, want) || (want == "") != (got == "") {
			t.Errorf("%s: warnings %q", text, got)
		}
	}
}

func TestPipeline_unusable(t *testing.T) {
	for name, tt := range map[string]struct {
		res  pipeline.Response
		err  error
		want string
	}{
		"length":          {pipeline.Response{Text: validAnswer, Finish: pipeline.FinishLength}, nil, "invalid_output: the answer was cut by the limit of tokens: raise"},
		"length, counted": {pipeline.Response{Text: validAnswer, Finish: pipeline.FinishLength, Usage: outcome.Usage{Output: 10}}, nil, "invalid_output: the answer was cut by the limit of tokens after 10: raise --max-tokens"},
		"refusal":         {pipeline.Response{Text: "No.", Finish: pipeline.FinishRefused}, nil, "invalid_output: the model declined"},
		"limited":         {pipeline.Response{}, &pipeline.ModelError{Failure: outcome.Failure{Class: outcome.RateLimited, Message: "429"}}, "rate_limited: 429"},
	} {
		t.Run(name, func(t *testing.T) {
			m := &fakeModel{answer: func(int, pipeline.Request) (pipeline.Response, error) { return tt.res, tt.err }}
			_, calls, err := newPipeline(t, m, nil).Extract(t.Context(), document)
			f := outcome.FailureOf(err, outcome.Internal)
			if got := string(f.Class) + ": " + f.Message; !strings.HasPrefix(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
			if len(calls) != 1 || calls[0].Error == "" || len(m.requests) != 1 {
				t.Errorf("calls %+v, %d requests", calls, len(m.requests))
			}
		})
	}
}

// TestPipeline_contextEnds checks what happens if the context ends just when the answer arrives: a
// valid answer counts, and an answer that needs a repair fails the item.
func TestPipeline_contextEnds(t *testing.T) {
	for name, tt := range map[string]struct {
		answer   string
		entities int
		fails    bool
	}{
		"a valid answer":   {validAnswer, 2, false},
		"an invalid one":   {strings.Replace(validAnswer, `"City"`, `"Town"`, 1), 0, true},
		"an unusable text": {"I cannot say.", 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			m := &fakeModel{answer: func(n int, _ pipeline.Request) (pipeline.Response, error) {
				if n > 0 {
					return pipeline.Response{}, ctx.Err()
				}
				cancel()
				return pipeline.Response{Text: tt.answer, Finish: pipeline.FinishStop}, nil
			}}
			found, _, err := newPipeline(t, m, nil).Extract(ctx, document)
			if len(found.Entities) != tt.entities || (err != nil) != tt.fails {
				t.Errorf("%d entities, %v", len(found.Entities), err)
			}
		})
	}
}

// TestPipeline_longDocument checks that people who are on every page of a long document are each
// one entity with a mention on every page.
func TestPipeline_longDocument(t *testing.T) {
	var text strings.Builder
	for page := range 40 {
		fmt.Fprintf(&text, "Ada Lovelace wrote page %d with Charles Babbage. ", page)
		text.WriteString(strings.Repeat("Nothing else happened on that page. ", 450))
		text.WriteString("\n\n")
	}
	long := document
	long.Text = text.String()
	m := &fakeModel{answer: func(_ int, req pipeline.Request) (pipeline.Response, error) {
		e := extraction.Extraction{Entities: []extraction.Entity{}, Relationships: []extraction.Relationship{}}
		for _, name := range []string{"Ada Lovelace", "Charles Babbage"} {
			if strings.Contains(req.Messages[0].Content, name) {
				e.Entities = append(e.Entities, extraction.Entity{Name: name, Type: "Person"})
			}
		}
		raw, err := json.Marshal(e)
		return pipeline.Response{Text: string(raw), Finish: pipeline.FinishStop}, err
	}}
	found, calls, err := newPipeline(t, m, nil).Extract(t.Context(), long)
	if err != nil {
		t.Fatal(err)
	}
	if len(m.requests) < 15 || len(calls) != len(m.requests)+1 {
		t.Errorf("%d parts, %d calls", len(m.requests), len(calls))
	}
	if want := fmt.Sprintf("extract-part-2-of-%d", len(m.requests)); calls[1].Name != want {
		t.Errorf("the second call is %s, want %s", calls[1].Name, want)
	}
	if len(found.Entities) != 2 || len(found.Entities[0].Mentions) != 40 {
		t.Errorf("%d entities, the first with %d mentions", len(found.Entities), len(found.Entities[0].Mentions))
	}
}

// TestPipeline_spellings checks that a relationship whose type is spelled in two ways is one, in two
// parts of a document and in one answer.
func TestPipeline_spellings(t *testing.T) {
	other := strings.Replace(validAnswer, "born_in", "BornIn", 1)
	_, repeated, _ := strings.Cut(other, `"relationships":[`)
	both := strings.TrimSuffix(validAnswer, "]}") + "," + repeated
	for name, tt := range map[string]struct {
		text    string
		answers []string
	}{
		"two parts":  {strings.Repeat(document.Text+" ", 1500), []string{validAnswer, other}}, // 49,500 code points
		"one answer": {document.Text, []string{both}},
	} {
		t.Run(name, func(t *testing.T) {
			m, doc := answeringModel(tt.answers...), document
			doc.Text = tt.text
			found, _, err := newPipeline(t, m, nil).Extract(t.Context(), doc)
			if err != nil || len(m.requests) != len(tt.answers) {
				t.Fatalf("%d requests, %v", len(m.requests), err)
			}
			if len(found.Entities) != 2 || len(found.Relationships) != 1 || found.Relationships[0].Type != "born_in" {
				t.Errorf("%d entities, relationships %+v", len(found.Entities), found.Relationships)
			}
		})
	}
}

func TestPipeline_twoStages(t *testing.T) {
	m := answeringModel(`{"entities":[{"name":"Ada Lovelace","type":"Person"},{"name":"London","type":"City"}]}`,
		`{"relationships":[{"source_name":"Ada Lovelace","target_name":"London","relationship_type":"born_in"}]}`)
	found, calls, err := newPipeline(t, m, func(c *pipeline.Config) { c.TwoStages = true }).Extract(t.Context(), document)
	if err != nil || len(found.Entities) != 2 || len(found.Relationships) != 1 || len(m.requests) != 2 {
		t.Fatalf("%+v, %d requests, %v", found, len(m.requests), err)
	}
	if calls[0].Name != "extract-entities" || calls[1].Name != "extract-relationships" {
		t.Errorf("calls %s, %s", calls[0].Name, calls[1].Name)
	}
	if second := m.requests[1].Messages[0].Content; !strings.Contains(second, `{"name":"London","type":"City"}`) {
		t.Errorf("the second stage is not told of the entities: %s", second)
	}
	empty := answeringModel(`{"entities":[]}`)
	found, _, err = newPipeline(t, empty, func(c *pipeline.Config) { c.TwoStages = true }).Extract(t.Context(), document)
	if err != nil || len(empty.requests) != 1 || found.Relationships == nil {
		t.Errorf("without entities nothing more is asked: %d requests, %+v, %v", len(empty.requests), found, err)
	}
}

// TestPipeline_twoStages_invalidEntity checks that an entity that stayed invalid in the first stage is no
// fault of the second, which states relationships only: 2 requests for entities and 1.
func TestPipeline_twoStages_invalidEntity(t *testing.T) {
	robot := `{"entities":[{"name":"R2","type":"Robot"}]}`
	m := answeringModel(robot, robot, `{"relationships":[]}`)
	found, calls, err := newPipeline(t, m, func(c *pipeline.Config) { c.TwoStages = true }).Extract(t.Context(), document)
	if err != nil || len(found.Entities) != 1 || len(m.requests) != 3 || len(calls[2].Warnings) > 0 {
		t.Errorf("%+v, %d requests, warnings %q, %v", found, len(m.requests), calls[2].Warnings, err)
	}
}

func TestPipeline_placeholders(t *testing.T) {
	chat, err := pipeline.ParseChat([]byte(`[{"type":"placeholder","name":"examples"},{"role":"user","content":"{{document_text}}"}]`))
	if err != nil {
		t.Fatal(err)
	}
	m := answeringModel(validAnswer)
	p := newPipeline(t, m, func(c *pipeline.Config) {
		c.Prompt = chat
		c.Placeholders = map[string][]pipeline.Message{"examples": {{Role: pipeline.RoleUser, Content: "An example: {{document_text}}"}}}
	})
	if _, _, err := p.Extract(t.Context(), document); err != nil {
		t.Fatal(err)
	}
	if got := m.requests[0].Messages; len(got) != 2 || got[0].Content != "An example: {{document_text}}" {
		t.Errorf("asked %+v: what is inserted is never scanned", got)
	}
	if _, err := pipeline.New(pipeline.Config{Model: m, Name: "m", Prompt: chat}); err == nil || !strings.Contains(err.Error(), "examples") {
		t.Errorf("a placeholder that nothing fills: %v", err)
	}
}

// TestPipeline_missingValue checks that an item without a value that the prompt needs fails without
// a request.
func TestPipeline_missingValue(t *testing.T) {
	m := answeringModel(validAnswer)
	p := newPipeline(t, m, func(c *pipeline.Config) { c.Vars = []pipeline.Var{{Name: "v", Path: "metadata.x"}} })
	_, calls, err := p.Extract(t.Context(), document)
	if failure := outcome.FailureOf(err, outcome.Internal); failure.Class != outcome.Item || len(calls)+len(m.requests) > 0 {
		t.Errorf("%+v after %d calls", failure, len(calls))
	}
}

func TestPipeline_schemaOfThePrompt(t *testing.T) {
	m := answeringModel(validAnswer)
	promptSchema := json.RawMessage(`{"type":"object"}`)
	if _, _, err := newPipeline(t, m, func(c *pipeline.Config) { c.Schema = promptSchema }).Extract(t.Context(), document); err != nil {
		t.Fatal(err)
	}
	if string(m.requests[0].Schema.JSON) != string(promptSchema) {
		t.Errorf("sent %s", m.requests[0].Schema.JSON)
	}
}

func TestNew_namesEveryProblem(t *testing.T) {
	hot := -1.0
	_, err := pipeline.New(pipeline.Config{Prompt: pipeline.ParseText("no document"), Parameters: pipeline.Parameters{Temperature: &hot}})
	for _, want := range []string{"Model", "Name", "document", "temperature"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not name %s", err, want)
		}
	}
}

// FuzzPipeline checks that every answer of a model gives an extraction that can be marshalled or a
// failure of class invalid_output.
func FuzzPipeline(f *testing.F) {
	f.Add(validAnswer)
	f.Add("{")
	f.Fuzz(func(t *testing.T, text string) {
		cfg := pipeline.Config{Model: answeringModel(text), Name: "m", Prompt: pipeline.ParseText("{{document_text}}")}
		p, err := pipeline.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		found, _, err := p.Extract(t.Context(), document)
		if err != nil {
			if outcome.FailureOf(err, outcome.Internal).Class != outcome.InvalidOutput {
				t.Errorf("%q: %v", text, err)
			}
			return
		}
		if _, err := json.Marshal(found); err != nil {
			t.Error(err)
		}
	})
}
