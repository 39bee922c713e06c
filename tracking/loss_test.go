package tracking_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"extraction-experiment/langfuse"
)

// loseSpans makes the server accept all spans and lose those of an item that
// match.
func (w *world) loseSpans(t *testing.T, item string, lost func(*tracepb.Span) bool) {
	front := func(rw http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, "/traces") || r.Method != http.MethodPost {
			return false
		}
		var data tracepb.TracesData
		unpacked, err := gzip.NewReader(r.Body)
		var raw []byte
		if err == nil {
			raw, err = io.ReadAll(unpacked)
		}
		if err == nil {
			err = proto.Unmarshal(raw, &data)
		}
		if err != nil {
			t.Error(err)
			return false
		}
		scope := data.ResourceSpans[0].ScopeSpans[0]
		var kept []*tracepb.Span
		for _, span := range scope.Spans {
			if attribute(span, "langfuse.experiment.item.id") != item || !lost(span) {
				kept = append(kept, span)
			}
		}
		scope.Spans = kept
		raw, err = proto.Marshal(&data)
		if err != nil {
			t.Error(err)
		}
		r.Header.Del("Content-Encoding")
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(raw)), int64(len(raw))
		return false
	}
	w.front.Store(&front)
}

func attribute(span *tracepb.Span, key string) string {
	for _, a := range span.Attributes {
		if a.Key == key {
			return a.Value.GetStringValue()
		}
	}
	return ""
}

func everySpan(*tracepb.Span) bool   { return true }
func rootSpan(s *tracepb.Span) bool  { return len(s.ParentSpanId) == 0 }
func childSpan(s *tracepb.Span) bool { return len(s.ParentSpanId) > 0 }

// loseLink makes the server accept the link of an item and lose it.
func (w *world) loseLink(t *testing.T, item, run string) {
	front := func(rw http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, "/dataset-run-items") || r.Method != http.MethodPost {
			return false
		}
		raw, err := io.ReadAll(r.Body)
		var body struct {
			DatasetItemID string `json:"datasetItemId"`
		}
		if err == nil {
			err = json.Unmarshal(raw, &body)
		}
		if err != nil {
			t.Error(err)
		}
		r.Body = io.NopCloser(bytes.NewReader(raw))
		if body.DatasetItemID != item {
			return false
		}
		rw.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(rw, `{"id":"lost","datasetRunId":%q}`, run)
		return true
	}
	w.front.Store(&front)
}

// score finds a score of a trace by its name.
func (w *world) score(t *testing.T, trace, name string) langfuse.Score {
	t.Helper()
	for s, err := range w.client.ReadScores(t.Context(), w.server.Capabilities, langfuse.ScoresQuery{TraceIDs: []string{trace}}) {
		if err != nil {
			t.Fatal(err)
		}
		if s.Name == name {
			return s
		}
	}
	t.Fatalf("trace %s has no score %s", trace, name)
	return langfuse.Score{}
}

// deleteScore deletes a score behind the publisher's back.
func (w *world) deleteScore(t *testing.T, id string) {
	t.Helper()
	if err := w.client.DeleteScore(t.Context(), id); err != nil {
		t.Fatal(err)
	}
}

// overwrite stores a score under an id, as of now.
func (w *world) overwrite(t *testing.T, id string, like langfuse.Score, value float64) {
	t.Helper()
	create := langfuse.ScoreCreate{ID: id, Name: like.Name, Type: like.Type, Value: langfuse.NumberValue(value)}
	switch like.Subject.Kind {
	case "experiment":
		create.DatasetRunID = like.Subject.ID
	case "observation":
		create.TraceID, create.ObservationID = like.Subject.TraceID, like.Subject.ID
	}
	if err := w.client.CreateScore(t.Context(), create); err != nil {
		t.Fatal(err)
	}
}
