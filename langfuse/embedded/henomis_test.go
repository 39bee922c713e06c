package embedded_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	henomis "github.com/henomis/langfuse-go"
	"github.com/henomis/langfuse-go/model"

	"extraction-experiment/langfuse/embedded"
)

// TestHenomis sends traces to a server in mode v3 with an independent library for Langfuse, which
// only knows batches of events, and reads them back in the form of v3.
func TestHenomis(t *testing.T) {
	server := serveV3(t)
	server.call("POST", "/api/public/v2/prompts", `{"name":"answer","prompt":"Answer {{q}}","labels":["production"]}`)
	started := time.Now().UTC().Truncate(time.Millisecond)
	at := func(ms int) *time.Time {
		moment := started.Add(time.Duration(ms) * time.Millisecond)
		return &moment
	}

	trace, span, generation := server.sendTraces(at)
	got := server.trace(trace, 3, 2)
	slices.SortFunc(got["tags"].([]any), func(a, b any) int { return strings.Compare(a.(string), b.(string)) })
	equal(t, "the trace", pick(got, "id", "name", "userId", "sessionId", "release", "version", "public", "tags", "input", "output", "metadata", "timestamp", "latency", "totalCost"), `{
		"id": "`+trace+`", "name": "question", "userId": "ann", "sessionId": "s-1", "release": "2.1", "version": "7", "public": true,
		"tags": ["paper", "validated"], "input": {"q": "Ünï?"}, "output": {"a": [1, null]}, "metadata": {"team": "blue"},
		"timestamp": "`+formatTime(at(0))+`", "latency": 0.9, "totalCost": 0.75}`)
	observations := byID(got["observations"])
	equal(t, "the span", pick(observations[span], "traceId", "type", "name", "parentObservationId", "startTime", "endTime", "level", "statusMessage", "input", "output"), `{
		"traceId": "`+trace+`", "type": "SPAN", "name": "retrieve", "parentObservationId": null, "startTime": "`+formatTime(at(0))+`", "endTime": "`+formatTime(at(900))+`",
		"level": "WARNING", "statusMessage": "slow", "input": "plain text", "output": {"documents": 3}}`)
	equal(t, "the generation", pick(observations[generation], "type", "name", "parentObservationId", "model", "modelParameters", "input", "output", "usageDetails", "promptName", "promptVersion", "completionStartTime", "endTime"), `{
		"type": "GENERATION", "name": "chat", "parentObservationId": "`+span+`", "model": "m-1", "modelParameters": {"temperature": 0},
		"input": [{"role": "user", "content": "Answer Ünï?"}], "output": {"content": "1"}, "usageDetails": {"input": 11, "output": 3, "total": 14},
		"promptName": "answer", "promptVersion": 1, "completionStartTime": "`+formatTime(at(300))+`", "endTime": "`+formatTime(at(800))+`"}`)
	equal(t, "the event", pick(observations["event-1"], "type", "name", "parentObservationId"),
		`{"type": "EVENT", "name": "cache miss", "parentObservationId": "`+span+`"}`)

	scores := byID(got["scores"])
	equal(t, "the score of the trace", pick(scores["s-trace"], "name", "value", "dataType", "source", "observationId", "comment"),
		`{"name": "helpful", "value": 0.5, "dataType": "NUMERIC", "source": "API", "observationId": null, "comment": "half of it"}`)
	equal(t, "the score of the span", pick(scores["s-span"], "name", "value", "observationId"), `{"name": "relevant", "value": 1, "observationId": "`+span+`"}`)
	if _, stored := scores["s-zero"]; stored {
		t.Error("a score of 0 leaves this library without a value, and the server made one up")
	}

	since := url.QueryEscape(formatTime(at(-1000)))
	list := server.call("GET", "/api/public/traces?tags=validated&fromTimestamp="+since, "")
	equal(t, "the traces by tag", pick(list["data"].([]any)[0].(map[string]any), "id", "name"), `{"id": "`+trace+`", "name": "question"}`)
	equal(t, "of another tag", list["meta"], `{"page": 1, "limit": 50, "totalItems": 1, "totalPages": 1}`)
	v3 := server.call("GET", "/api/public/v3/scores?name=helpful&fields=subject", "")
	equal(t, "the subject of the score", v3["data"].([]any)[0].(map[string]any)["subject"], `{"kind": "trace", "id": "`+trace+`"}`)
}

// sendTraces begins, ends and scores spans as a program does. The library generates the ids of
// trace, span and generation.
func (s *server) sendTraces(at func(int) *time.Time) (trace, span, generation string) {
	s.t.Helper()
	check := func(err error) {
		s.t.Helper()
		if err != nil {
			s.t.Fatal(err)
		}
	}
	l := henomis.New(s.t.Context())
	tr, err := l.Trace(&model.Trace{
		Name: "question", UserID: "ann", SessionID: "s-1", Release: "2.1", Version: "7", Public: true, Tags: []string{"validated", "paper"},
		Timestamp: at(0), Input: model.M{"q": "Ünï?"}, Output: model.M{"a": []any{1, nil}}, Metadata: model.M{"team": "blue"},
	})
	check(err)
	sp, err := l.Span(&model.Span{TraceID: tr.ID, Name: "retrieve", StartTime: at(0), Input: "plain text"}, nil)
	check(err)
	gen, err := l.Generation(&model.Generation{
		TraceID: tr.ID, Name: "chat", StartTime: at(100), Model: "m-1", ModelParameters: model.M{"temperature": 0},
		Input: []model.M{{"role": "user", "content": "Answer Ünï?"}}, PromptName: "answer", PromptVersion: 1,
	}, &sp.ID)
	check(err)
	_, err = l.Event(&model.Event{ID: "event-1", TraceID: tr.ID, Name: "cache miss", StartTime: at(50)}, &sp.ID)
	check(err)
	gen.Output, gen.CompletionStartTime, gen.EndTime = model.M{"content": "1"}, at(300), at(800)
	gen.Usage = model.Usage{Input: 11, Output: 3, Total: 14, Unit: model.ModelUsageUnitTokens, InputCost: 0.25, OutputCost: 0.5, TotalCost: 0.75}
	_, err = l.GenerationEnd(gen)
	check(err)
	sp.Output, sp.Level, sp.StatusMessage, sp.EndTime = model.M{"documents": 3}, model.ObservationLevelWarning, "slow", at(900)
	_, err = l.SpanEnd(sp)
	check(err)
	for _, score := range []model.Score{
		{ID: "s-trace", TraceID: tr.ID, Name: "helpful", Value: 0.5, Comment: "half of it"},
		{ID: "s-span", TraceID: tr.ID, ObservationID: sp.ID, Name: "relevant", Value: 1},
		{ID: "s-zero", TraceID: tr.ID, Name: "correct", Value: 0},
	} {
		_, err = l.Score(&score)
		check(err)
	}
	l.Flush(s.t.Context())
	return tr.ID, sp.ID, gen.ID
}

// server is an embedded server in mode v3 on a real socket.
type server struct {
	t   *testing.T
	url string
}

// serveV3 starts a server and sets the variables of the environment that the library reads.
func serveV3(t *testing.T) *server {
	t.Helper()
	s, err := embedded.Open(embedded.Config{Mode: embedded.ModeV3})
	if err != nil {
		t.Fatal(err)
	}
	hs := httptest.NewServer(s.Handler())
	t.Cleanup(func() {
		http.DefaultTransport.(*http.Transport).CloseIdleConnections() // the library keeps connections open there
		hs.Close()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	t.Setenv("LANGFUSE_HOST", hs.URL)
	t.Setenv("LANGFUSE_PUBLIC_KEY", embedded.DefaultPublicKey)
	t.Setenv("LANGFUSE_SECRET_KEY", embedded.DefaultSecretKey)
	return &server{t, hs.URL}
}

func (s *server) call(method, path, body string) map[string]any {
	s.t.Helper()
	status, answer := s.try(method, path, body)
	if status > 299 {
		s.t.Fatalf("%s %s: %d %v", method, path, status, answer)
	}
	return answer
}

func (s *server) try(method, path, body string) (int, map[string]any) {
	s.t.Helper()
	request, err := http.NewRequestWithContext(s.t.Context(), method, s.url+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	request.SetBasicAuth(embedded.DefaultPublicKey, embedded.DefaultSecretKey)
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		s.t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	var answer map[string]any
	if err := json.Unmarshal(text, &answer); err != nil {
		s.t.Fatalf("%s %s: %d %s", method, path, response.StatusCode, text)
	}
	return response.StatusCode, answer
}

// trace returns a trace as soon as it has that many observations and scores. It waits for them
// because the library's Flush may return before a batch of its ticker has arrived.
func (s *server) trace(id string, observations, scores int) map[string]any {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), 5*time.Second)
	defer cancel()
	for {
		status, trace := s.try("GET", "/api/public/traces/"+id, "")
		if status == 200 && len(byID(trace["observations"])) >= observations && len(byID(trace["scores"])) >= scores {
			return trace
		}
		select {
		case <-ctx.Done():
			s.t.Fatalf("the trace is not complete: %d %v", status, trace)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func byID(list any) map[string]map[string]any {
	found := map[string]map[string]any{}
	rows, _ := list.([]any)
	for _, row := range rows {
		object := row.(map[string]any)
		found[object["id"].(string)] = object
	}
	return found
}

func pick(object map[string]any, names ...string) map[string]any {
	picked := map[string]any{}
	for _, name := range names {
		picked[name] = object[name]
	}
	return picked
}

func equal(t *testing.T, what string, got any, want string) {
	t.Helper()
	var expected any
	if err := json.Unmarshal([]byte(want), &expected); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(expected, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func formatTime(moment *time.Time) string { return moment.UTC().Format("2006-01-02T15:04:05.000Z") }
