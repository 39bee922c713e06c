package main

import (
	"bytes"
	"compress/gzip"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"extraction-experiment/runstore"
	"extraction-experiment/tracking"
)

// witness is a proxy before Langfuse that reads the run file at every write and checks that
// everything in the request is committed.
type witness struct {
	behind http.Handler

	mu    sync.Mutex
	path  string         // path of the run file; empty until it is known
	seen  map[string]int // number of traces in requests, by path
	early []string       // traces that were sent before they were committed
	err   error
}

func (w *witness) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	w.mu.Lock()
	path := w.path
	w.mu.Unlock()
	if r.Method == http.MethodPost && path != "" {
		raw, err := io.ReadAll(r.Body)
		if err == nil {
			err = w.checkCommitted(path, r, raw)
		}
		if err != nil {
			w.mu.Lock()
			w.err = err
			w.mu.Unlock()
		}
		r.Body = io.NopCloser(bytes.NewReader(raw))
	}
	w.behind.ServeHTTP(rw, r)
}

// checkCommitted compares the traces of a request with the outcomes in the run file.
func (w *witness) checkCommitted(path string, r *http.Request, raw []byte) error {
	traces, err := tracesOf(r, raw)
	if err != nil || len(traces) == 0 {
		return err
	}
	run, err := runstore.Load(path)
	if err != nil {
		return err
	}
	committed := map[string]bool{}
	header, err := run.Header(r.Context())
	for o, rangeErr := range run.Outcomes(r.Context(), runstore.Query{}) {
		if rangeErr != nil {
			err = rangeErr
			break
		}
		committed[tracking.TraceID(header, o)] = true
	}
	if closed := run.Close(); err == nil {
		err = closed
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, trace := range traces {
		w.seen[r.URL.Path]++
		if !committed[trace] {
			w.early = append(w.early, r.URL.Path+" "+trace)
		}
	}
	return err
}

// tracesOf returns the traces that a request writes.
func tracesOf(r *http.Request, raw []byte) ([]string, error) {
	if r.Header.Get("Content-Encoding") == "gzip" {
		z, err := gzip.NewReader(bytes.NewReader(raw))
		if err != nil {
			return nil, err
		}
		if raw, err = io.ReadAll(z); err != nil {
			return nil, err
		}
	}
	var ids []string
	if strings.HasSuffix(r.URL.Path, "/otel/v1/traces") {
		var data tracepb.TracesData
		if err := proto.Unmarshal(raw, &data); err != nil {
			return nil, err
		}
		for _, resource := range data.ResourceSpans {
			for _, scope := range resource.ScopeSpans {
				for _, span := range scope.Spans {
					ids = append(ids, hex.EncodeToString(span.TraceId))
				}
			}
		}
		return ids, nil
	}
	var body struct {
		TraceID string `json:"traceId"`
		Batch   []struct {
			Body struct {
				TraceID string `json:"traceId"`
			} `json:"body"`
		} `json:"batch"`
	}
	if err := json.Unmarshal(raw, &body); err != nil {
		return nil, err
	}
	if body.TraceID != "" {
		ids = append(ids, body.TraceID)
	}
	for _, event := range body.Batch {
		if event.Body.TraceID != "" {
			ids = append(ids, event.Body.TraceID)
		}
	}
	return ids, nil
}

// TestCrash_nothingIsSentBeforeItIsCommitted: everything in a request to Langfuse is in the run
// file when the request arrives.
func TestCrash_nothingIsSentBeforeItIsCommitted(t *testing.T) {
	t.Parallel()
	items, w := paidItems(24), &witness{seen: map[string]int{}}
	_, env := sharedLangfuse(t, items, func(h http.Handler) http.Handler {
		w.behind = h
		return w
	})
	f := newFolder(t, append(env, "OPENAI_API_KEY=sk-test", "OPENAI_BASE_URL="+newPaidModel(t).url+"/r")...)
	w.mu.Lock()
	w.path = f.runFile("made", "r")
	w.mu.Unlock()
	f.run(t, 0, "--dataset", "made", "--name", "r", "--model", "openai/gpt-test", "--prompt", "plain", "--max-failures", "1", "--quiet")
	w.mu.Lock()
	defer w.mu.Unlock()
	must(t, w.err)
	if len(w.early) > 0 {
		t.Errorf("sent before it was committed: %s", w.early)
	}
	for _, kind := range []string{"dataset-run-items", "otel/v1/traces", "ingestion"} {
		if w.seen["/api/public/"+kind] == 0 {
			t.Errorf("nothing was seen of %s: %v", kind, w.seen)
		}
	}
}
