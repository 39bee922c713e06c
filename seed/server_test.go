package seed

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"extraction-experiment/internal/testkit/suite"
	"extraction-experiment/internal/textutil"
	"extraction-experiment/langfuse"
	"extraction-experiment/langfuse/embedded"
)

// server is an embedded Langfuse that counts requests, with a client for it.
type server struct {
	*langfuse.Client
	t     *testing.T
	url   string
	store *embedded.Server
	mode  embedded.Mode

	mu    sync.Mutex
	count map[string]int // number of requests by name, for example "POST /dataset-items"
	// sent, if not nil, gets the body of every request.
	sent *bytes.Buffer
	// intercept, if not nil, may answer a request instead of the server.
	intercept func(w http.ResponseWriter, r *http.Request, n int) bool
}

func newServer(t *testing.T) *server {
	t.Helper()
	return newServerIn(t, embedded.ModeV4)
}

func newServerIn(t *testing.T, mode embedded.Mode) *server {
	t.Helper()
	store, err := embedded.Open(embedded.Config{Mode: mode})
	if err != nil {
		t.Fatal(err)
	}
	s := &server{t: t, count: map[string]int{}, store: store, mode: mode}
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := r.Method + " " + strings.TrimPrefix(r.URL.Path, "/api/public")
		s.mu.Lock()
		s.count[name]++
		n, intercept := s.count[name], s.intercept
		if s.sent != nil {
			body, err := io.ReadAll(r.Body)
			if err != nil {
				t.Error(err)
			}
			s.sent.WriteString(r.URL.String() + "\n")
			s.sent.Write(body)
			r.Body = io.NopCloser(bytes.NewReader(body))
		}
		s.mu.Unlock()
		if intercept == nil || !intercept(w, r, n) {
			store.Handler().ServeHTTP(w, r)
		}
	}))
	t.Cleanup(func() {
		web.Close()
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	s.url = web.URL
	s.Client, err = langfuse.New(langfuse.Config{
		BaseURL: web.URL, PublicKey: embedded.DefaultPublicKey, SecretKey: langfuse.NewSecret(embedded.DefaultSecretKey), MaxAttempts: 1,
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// writes returns the number of items written since the last call.
func (s *server) writes() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.count["POST /dataset-items"]
	s.count["POST /dataset-items"] = 0
	return n
}

func (s *server) setIntercept(intercept func(w http.ResponseWriter, r *http.Request, n int) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.intercept = intercept
}

// isItemWrite reports whether a request writes an item.
func isItemWrite(r *http.Request) bool {
	return r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/dataset-items")
}

// items returns the active items of a dataset by id.
func (s *server) items(dataset string) map[string]langfuse.DatasetItem {
	s.t.Helper()
	items := map[string]langfuse.DatasetItem{}
	q := langfuse.DatasetItemsQuery{DatasetName: dataset, Version: langfuse.DatasetVersion{At: time.Now().Add(time.Minute)}}
	for item, err := range s.ListDatasetItems(context.Background(), q) {
		if err != nil {
			s.t.Fatal(err)
		}
		items[item.ID] = item
	}
	return items
}

// seed seeds the items of a JSONL text into the dataset "docs", unless cfg names another one.
func (s *server) seed(text string, cfg Config) (Result, error) {
	s.t.Helper()
	if cfg.Dataset == "" {
		cfg.Dataset = "docs"
	}
	return File(context.Background(), s.Client, readJSONL(text), cfg)
}

func (s *server) mustSeed(text string, cfg Config) Result {
	s.t.Helper()
	result, err := s.seed(text, cfg)
	if err := errors.Join(err, result.Err()); err != nil {
		s.t.Fatal(err)
	}
	return result
}

func compactJSON(raw []byte) string { return string(bytes.ReplaceAll(raw, []byte(" "), nil)) }

// startTime is the start of the first production trace.
var startTime = time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC)

// post sends JSON without package langfuse and returns the answer.
func (s *server) post(path string, body any) map[string]any {
	s.t.Helper()
	r, err := http.NewRequest("POST", s.url+path, bytes.NewReader(must(json.Marshal(body))))
	if err != nil {
		s.t.Fatal(err)
	}
	r.SetBasicAuth(embedded.DefaultPublicKey, embedded.DefaultSecretKey)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("x-langfuse-ingestion-version", "4")
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode >= 300 {
		s.t.Fatalf("POST %s: %s: %s (%v)", path, answer.Status, text, err)
	}
	var object map[string]any
	if err := json.Unmarshal(text, &object); err != nil {
		s.t.Fatalf("POST %s: %s", path, text)
	}
	return object
}

// span is a span of an instrumented program.
type span struct {
	id, parent, name, kind string
	input, output          any // a text is sent unchanged
	attributes             map[string]string
	at                     time.Duration // since startTime
}

// sendTrace sends a trace over OTLP as JSON.
func (s *server) sendTrace(trace string, spans ...span) {
	s.t.Helper()
	var list []any
	for _, one := range spans {
		list = append(list, s.encodeSpan(trace, one))
	}
	s.export(list)
}

// export sends encoded spans.
func (s *server) export(spans []any) {
	s.t.Helper()
	s.post("/api/public/otel/v1/traces", map[string]any{"resourceSpans": []any{map[string]any{
		"resource": map[string]any{"attributes": []any{}}, "scopeSpans": []any{map[string]any{"scope": map[string]any{"name": "shop"}, "spans": spans}}}}})
}

// encodeSpan returns a span in the form of OTLP.
func (s *server) encodeSpan(trace string, one span) any {
	s.t.Helper()
	attributes := []any{}
	add := func(key, value string) {
		attributes = append(attributes, map[string]any{"key": key, "value": map[string]any{"stringValue": value}})
	}
	kind := one.kind
	if kind == "" {
		kind = "span"
	}
	add("langfuse.observation.type", kind)
	for key, value := range map[string]any{"langfuse.observation.input": one.input, "langfuse.observation.output": one.output} {
		if text, isText := value.(string); isText {
			add(key, text)
		} else if value != nil {
			add(key, string(must(textutil.MarshalJSON(value))))
		}
	}
	for key, value := range one.attributes {
		add(key, value)
	}
	start := startTime.Add(one.at)
	return map[string]any{"traceId": trace, "spanId": one.id, "parentSpanId": one.parent, "name": one.name,
		"startTimeUnixNano": fmt.Sprint(start.UnixNano()), "endTimeUnixNano": fmt.Sprint(start.Add(time.Second).UnixNano()), "attributes": attributes}
}

// traceID returns the id of the n-th trace.
func traceID(n int) string { return fmt.Sprintf("%032x", n+0xabc000) }

// spanID returns the id of the k-th span of the n-th trace.
func spanID(n, k int) string { return fmt.Sprintf("%016x", n*100+k+0xdef000) }

// sendExtraction sends the n-th production trace: a root that extracts, with a generation below it.
func (s *server) sendExtraction(n int, text string, output any) string {
	s.t.Helper()
	id := traceID(n)
	s.sendTrace(id,
		span{id: spanID(n, 0), name: "extract", input: map[string]any{"document_text": text, "object_schemas": schemas}, output: output,
			at: time.Duration(n) * time.Minute, attributes: map[string]string{"langfuse.trace.name": "extract"}},
		span{id: spanID(n, 1), parent: spanID(n, 0), name: "llm", kind: "generation", at: time.Duration(n)*time.Minute + time.Second,
			input: []any{map[string]any{"role": "system", "content": "Extract."}, map[string]any{"role": "user", "content": text[:min(len(text), 1000)]}}, output: output})
	return id
}

var schemas = map[string]any{"Person": map[string]any{"name": "Person", "description": "a person"}, "City": map[string]any{"name": "City", "description": "a city"}}

// gold returns an extraction with one person and one city.
func gold(person, city string) map[string]any {
	return map[string]any{
		"entities":      []any{map[string]any{"temp_id": "e1", "name": person, "type": "Person"}, map[string]any{"temp_id": "e2", "name": city, "type": "City"}},
		"relationships": []any{map[string]any{"source_ref": "e1", "target_ref": "e2", "relationship_type": "lived_in"}},
	}
}

// newScoreConfig creates a score configuration and returns its id.
func (s *server) newScoreConfig(name, dataType string) string {
	s.t.Helper()
	return s.post("/api/public/score-configs", map[string]any{"name": name, "dataType": dataType})["id"].(string)
}

// annotate adds an annotation as a person does in the user interface, and returns its id.
func (s *server) annotate(a embedded.Annotation) string {
	s.t.Helper()
	id, err := s.store.Annotate(a)
	if err != nil {
		s.t.Fatal(err)
	}
	return id
}

// correct adds a correction of a trace by "ann", later than earlier ones.
func (s *server) correct(trace string, output any) string {
	s.t.Helper()
	return s.annotate(embedded.Annotation{TraceID: trace, Correction: string(must(textutil.MarshalJSON(output))), Author: "ann"})
}

// complete adds an object to a queue as completed.
func (s *server) complete(queue, object, kind string) {
	s.t.Helper()
	s.post("/api/public/annotation-queues/"+queue+"/items", map[string]any{"objectId": object, "objectType": kind, "status": "COMPLETED"})
}

// newQueue creates an annotation queue and returns its id.
func (s *server) newQueue(name string) string {
	s.t.Helper()
	config := s.newScoreConfig("queue-"+name, "BOOLEAN")
	return s.post("/api/public/annotation-queues", map[string]any{"name": name, "scoreConfigIds": []any{config}})["id"].(string)
}

// seedTraces seeds the dataset "gold" from a selection, unless cfg names another dataset.
func (s *server) seedTraces(selection Selection, cfg TraceConfig) (TraceResult, error) {
	s.t.Helper()
	server, err := s.Probe(context.Background())
	if err != nil {
		s.t.Fatal(err)
	}
	if cfg.Dataset == "" {
		cfg.Dataset = "gold"
	}
	return FromTraces(context.Background(), s.Client, server.Capabilities, selection, cfg)
}

func (s *server) mustSeedTraces(selection Selection, cfg TraceConfig) TraceResult {
	s.t.Helper()
	result, err := s.seedTraces(selection, cfg)
	if err != nil {
		s.t.Fatal(err)
	}
	return result
}

// onlyItem returns the single item of the dataset "gold".
func (s *server) onlyItem() langfuse.DatasetItem {
	s.t.Helper()
	items := s.items("gold")
	for _, item := range items {
		if len(items) == 1 {
			return item
		}
	}
	s.t.Fatalf("%d items, want one", len(items))
	return langfuse.DatasetItem{}
}

// refusals returns the reasons of refusals by trace or queue item.
func (r TraceResult) refusals() map[string]string {
	all := map[string]string{}
	for _, f := range r.Report.Problems.First {
		all[strings.TrimPrefix(f.File, "trace ")] += f.Path + " " + f.Message + "\n"
	}
	return all
}

// forModes runs a test in each mode, or in two of them without suite.Full, with a new server.
func forModes(t *testing.T, do func(t *testing.T, s *server)) {
	for _, mode := range suite.SampleOr([]embedded.Mode{embedded.ModeV3, embedded.ModeV4}, embedded.Modes()) {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			do(t, newServerIn(t, mode))
		})
	}
}

// approval returns an annotation that approves the k-th observation of the n-th trace.
func approval(n, k int, config string) embedded.Annotation {
	return embedded.Annotation{TraceID: traceID(n), ObservationID: spanID(n, k), ConfigID: config, Value: true, Author: "bob"}
}
