package tracking_test

import (
	"bytes"
	"compress/gzip"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"extraction-experiment/outcome"
	"extraction-experiment/runstore"
	"extraction-experiment/tracking"
)

var update = flag.Bool("update", false, "write what is sent in the newest form into testdata")

// sent holds published spans and scores by id, in the formats of OTLP/JSON and of the ingestion.
type sent struct {
	mu            sync.Mutex
	spans, scores map[string]map[string]any
}

// capture records the requests to the server from now on. The server handles them as usual.
func (w *world) capture(t *testing.T) *sent {
	t.Helper()
	got := &sent{spans: map[string]map[string]any{}, scores: map[string]map[string]any{}}
	w.intercept(func(_ http.ResponseWriter, r *http.Request) bool {
		body := requestBody(t, r)
		got.mu.Lock()
		defer got.mu.Unlock()
		var spans trace.TracesData
		var scores struct {
			Batch []struct {
				Timestamp string
				Body      map[string]any
			}
		}
		var err error
		switch {
		case strings.HasSuffix(r.URL.Path, "/otel/v1/traces"):
			err = proto.Unmarshal(body, &spans)
		case strings.HasSuffix(r.URL.Path, "/ingestion"):
			err = json.Unmarshal(body, &scores)
		}
		if err != nil {
			t.Error(err)
		}
		for _, resource := range spans.ResourceSpans {
			for _, span := range resource.ScopeSpans[0].Spans {
				got.spans[hex.EncodeToString(span.SpanId)] = otlpJSON(span)
			}
		}
		for _, event := range scores.Batch {
			event.Body["timestamp"] = event.Timestamp
			got.scores[event.Body["id"].(string)] = event.Body
		}
		return false
	})
	return got
}

// requestBody returns the uncompressed body of a request, and restores it for the server.
func requestBody(t *testing.T, r *http.Request) []byte {
	t.Helper()
	body, err := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	if err == nil && r.Header.Get("Content-Encoding") == "gzip" {
		var unzipped *gzip.Reader
		if unzipped, err = gzip.NewReader(bytes.NewReader(body)); err == nil {
			body, err = io.ReadAll(unzipped)
		}
	}
	if err != nil {
		t.Error(err)
	}
	return body
}

// otlpJSON returns a span in the format of OTLP/JSON.
func otlpJSON(s *trace.Span) map[string]any {
	attributes := []any{}
	for _, a := range s.Attributes {
		value := map[string]any{"stringValue": a.Value.GetStringValue()}
		if n := a.Value.GetIntValue(); n != 0 {
			value = map[string]any{"intValue": strconv.FormatInt(n, 10)}
		}
		attributes = append(attributes, map[string]any{"key": a.Key, "value": value})
	}
	return map[string]any{
		"traceId": hex.EncodeToString(s.TraceId), "spanId": hex.EncodeToString(s.SpanId), "parentSpanId": hex.EncodeToString(s.ParentSpanId), "name": s.Name,
		"startTimeUnixNano": strconv.FormatUint(s.StartTimeUnixNano, 10), "endTimeUnixNano": strconv.FormatUint(s.EndTimeUnixNano, 10),
		"attributes": attributes, "status": map[string]any{"code": float64(s.Status.GetCode()), "message": s.Status.GetMessage()},
	}
}

// readSent returns what the program sent for a run in testdata.
func readSent(t *testing.T, path string) *sent {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var lists struct{ Spans, Scores []map[string]any }
	if err := json.Unmarshal(raw, &lists); err != nil {
		t.Fatal(err)
	}
	all := &sent{spans: map[string]map[string]any{}, scores: map[string]map[string]any{}}
	for _, s := range lists.Spans {
		all.spans[s["spanId"].(string)] = s
	}
	for _, s := range lists.Scores {
		all.scores[s["id"].(string)] = s
	}
	return all
}

// writeSent publishes the run in an export and writes what was sent, one object per line.
func writeSent(t *testing.T, export, path string) {
	t.Helper()
	w := newWorld(t)
	run := importRun(t, export)
	got := w.capture(t)
	w.mustPublish(t, run)
	list := func(objects map[string]map[string]any) string {
		var lines []string
		for _, id := range slices.Sorted(maps.Keys(objects)) {
			lines = append(lines, string(marshal(t, objects[id])))
		}
		return "[\n" + strings.Join(lines, ",\n") + "\n]"
	}
	text := "{\n\"spans\": " + list(got.spans) + ",\n\"scores\": " + list(got.scores) + "\n}\n"
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// post sends a body of another version unchanged.
func (w *world) post(t *testing.T, path string, body any) {
	t.Helper()
	raw, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	w.request(t, http.MethodPost, path, raw)
}

// delete sends a DELETE for which the client has no method.
func (w *world) delete(t *testing.T, path string) {
	t.Helper()
	w.request(t, http.MethodDelete, "/api/public/"+path, nil)
}

func (w *world) request(t *testing.T, method, path string, raw []byte) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, w.config.BaseURL+path, bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	r.SetBasicAuth(w.config.PublicKey, w.config.SecretKey.Reveal())
	r.Header.Set("Content-Type", "application/json")
	answer, err := w.config.HTTPClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(answer.Body)
	if err := answer.Body.Close(); err != nil {
		t.Error(err)
	}
	if err != nil || answer.StatusCode >= 300 {
		t.Fatalf("%s: %s %s %v", path, answer.Status, body, err)
	}
}

// TestForms: a run that was half published is continued byte for byte in the form that it began
// with, and verified and repaired in it. The newest form is one of them: a change in what is sent
// needs another one.
func TestForms(t *testing.T) {
	for form := range outcome.PublicationForm + 1 {
		t.Run(strconv.Itoa(form), func(t *testing.T) {
			t.Parallel()
			path := fmt.Sprintf("testdata/form%d.json", form)
			if *update && form == outcome.PublicationForm {
				writeSent(t, path+"l", path)
			}
			newWorld(t).checkForm(t, path)
			if t.Failed() {
				t.Logf("what is sent in form %d has changed: see \"something on a trace\" in CONTRIBUTING.md", form)
			}
		})
	}
}

// checkForm publishes, verifies and repairs the half published run with the export path+"l", and
// compares what is sent with the file at path.
func (w *world) checkForm(t *testing.T, path string) {
	t.Helper()
	want := readSent(t, path)
	run := importRun(t, path+"l")
	acknowledged := w.publishHalf(t, run, want)
	got := w.capture(t)
	w.mustPublish(t, run)
	// Items 2 and 3 have two spans each.
	if len(got.spans) != 4 || len(got.scores) != len(want.scores)-acknowledged {
		t.Errorf("%d spans and %d scores were sent", len(got.spans), len(got.scores))
	}
	checkSent := func() {
		t.Helper()
		for id, span := range got.spans {
			if diff := cmp.Diff(want.spans[id], span); diff != "" {
				t.Error(diff)
			}
		}
		for id, score := range got.scores {
			if diff := cmp.Diff(want.scores[id], score); diff != "" {
				t.Error(diff)
			}
		}
	}
	checkSent()
	config := w.verifyConfig(run)
	verification, err := tracking.Verify(t.Context(), config)
	if err != nil || !verification.OK() || verification.Checked.Spans != len(want.spans) || verification.Checked.Scores+verification.Checked.RunScores != len(want.scores) {
		t.Errorf("%+v %v", verification, err)
	}
	var deleted string
	for id, score := range want.scores {
		if score["traceId"] != nil {
			deleted = id
		}
	}
	w.deleteScore(t, deleted)
	clear(got.scores)
	_, after, err := tracking.Repair(t.Context(), config, w.publishConfig(run))
	if err != nil || !after.OK() || got.scores[deleted] == nil {
		t.Errorf("%+v %v; sent: %v", after.Findings, err, got.scores)
	}
	checkSent()
}

// importRun returns the run in an export.
func importRun(t *testing.T, export string) *runstore.Run {
	t.Helper()
	file, err := os.Open(export)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "imported.run")
	if err := runstore.Import(t.Context(), file, file.Name(), path); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	run, err := runstore.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = run.Close() })
	return run
}

// publishHalf sends the spans and scores of items 0 and 1 from the list sent. It acknowledges
// them, except for the scores of item 1, and returns the number of acknowledged scores.
func (w *world) publishHalf(t *testing.T, run *runstore.Run, sent *sent) (acknowledged int) {
	t.Helper()
	outcomes, err := run.Committed(t.Context(), 0, 10)
	if err != nil {
		t.Fatal(err)
	}
	header := headerOf(t, run)
	traces := []string{tracking.TraceID(header, outcomes[0].Outcome), tracking.TraceID(header, outcomes[1].Outcome)}
	var spans, scores []any
	experiment := ""
	for _, span := range sent.spans {
		if slices.Contains(traces, span["traceId"].(string)) {
			spans = append(spans, span)
		}
	}
	for id, score := range sent.scores {
		if run, ok := score["datasetRunId"].(string); ok {
			experiment = run
		} else if slices.Contains(traces, score["traceId"].(string)) {
			scores = append(scores, map[string]any{"id": "event-" + id, "type": "score-create", "timestamp": score["timestamp"], "body": score})
			if score["traceId"] == traces[0] {
				acknowledged++
			}
		}
	}
	w.post(t, "/api/public/otel/v1/traces", map[string]any{"resourceSpans": []any{map[string]any{"scopeSpans": []any{map[string]any{"spans": spans}}}}})
	w.post(t, "/api/public/ingestion", map[string]any{"batch": scores})
	err = run.SetExperiment(t.Context(), runstore.Experiment{Trial: 1, ID: experiment})
	if err == nil {
		err = errors.Join(run.Ack(t.Context(), runstore.All, outcomes[0].OID), run.Ack(t.Context(), runstore.Link|runstore.Spans, outcomes[1].OID))
	}
	if err != nil {
		t.Fatal(err)
	}
	return acknowledged
}

// attribute returns an attribute of a span in OTLP/JSON as a string.
func attribute(span map[string]any, key string) string {
	for _, a := range span["attributes"].([]any) {
		if a := a.(map[string]any); a["key"] == key {
			return fmt.Sprint(a["value"].(map[string]any)["stringValue"])
		}
	}
	return ""
}

// TestForm_today: what Langfuse shows of a run. Its scores are in the environment that the pages
// show, the latency excludes waiting, a failed item is one error, and looked-up mentions are not
// sent.
func TestForm_today(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	run := w.newRunOf(t, "today", 3, 0)
	for i := range 3 {
		o := outcomeAt(i)
		o.Started, o.Latency = o.Ended.Add(-3*time.Second), time.Second // the call takes one second
		o.Calls[0].Waited = 2 * time.Second
		o.Output = json.RawMessage(`{"entities":[{"name":"Ann","mentions":[{"quote":"Ann","start":0,"end":3,"looked_up":true}]},` +
			`{"name":"Bob","mentions":[{"quote":"Bob","start":8,"end":11}]}]}`)
		if o.Failed() {
			o.Output, o.Calls[0].Error = nil, "too slow"
		}
		if err := run.Commit(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	finish(t, run, start.Add(time.Minute))
	got := w.capture(t)
	w.mustPublish(t, run)
	levels := map[string]int{}
	for _, span := range got.spans {
		levels[attribute(span, "langfuse.observation.level")]++
		if environment := attribute(span, "langfuse.environment"); environment != "sdk-experiment" {
			t.Errorf("a span in %q", environment)
		}
		begin, end := nanoseconds(t, span["startTimeUnixNano"]), nanoseconds(t, span["endTimeUnixNano"])
		if end-begin != time.Second {
			t.Errorf("%s took %s", span["name"], end-begin)
		}
		metadata := attribute(span, "langfuse.observation.metadata")
		if !strings.Contains(metadata, `"waited_ms":2000`) || !strings.Contains(metadata, `"ended":"2026-11-21T09:00:0`) {
			t.Errorf("%s: metadata %s", span["name"], metadata)
		}
		if output := attribute(span, "langfuse.observation.output"); span["parentSpanId"] == "" && !strings.Contains(output, "error") &&
			output != `{"entities":[{"name":"Ann"},{"name":"Bob","mentions":[{"quote":"Bob","start":8,"end":11}]}]}` {
			t.Errorf("output %s", output)
		}
	}
	if levels["ERROR"] != 1 || levels["WARNING"] != 1 || levels[""] != 4 {
		t.Errorf("levels %v", levels)
	}
	for _, score := range got.scores {
		if score["environment"] != "default" {
			t.Errorf("%s is in %q", score["name"], score["environment"])
		}
	}
	config := w.verifyConfig(run)
	if verification, err := tracking.Verify(t.Context(), config); err != nil || !verification.OK() || len(got.scores) == 0 {
		t.Errorf("%+v %v", verification, err)
	}
}

func nanoseconds(t *testing.T, value any) time.Duration {
	t.Helper()
	n, err := strconv.ParseInt(value.(string), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return time.Duration(n)
}

func marshal(t *testing.T, value any) json.RawMessage {
	t.Helper()
	raw, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}
