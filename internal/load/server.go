//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"
)

// found is the answer of the model.
const (
	// It names types that every real item allows, so that it is asked once.
	found   = `{"entities":[{"name":"Ruth","type":"Person"},{"name":"Moab","type":"Person"}],"relationships":[]}`
	content = `{"id":"x","object":"chat.completion","created":1,"model":"mock","choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":%s}}],"usage":{"prompt_tokens":100,"completion_tokens":40,"total_tokens":140}}`
)

// modelServer answers as a model, and as the few routes of Langfuse that a peer needs,
// which it does not store.
type modelServer struct {
	url     string
	latency time.Duration
	items   int
	calls   atomic.Int64
	server  http.Server
}

func startModel(latency time.Duration, items int) (*modelServer, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	m := &modelServer{url: "http://" + l.Addr().String(), latency: latency, items: items}
	answer, err := json.Marshal(found)
	if err != nil {
		return nil, err
	}
	completion := fmt.Appendf(nil, content, answer)
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/chat/completions", func(w http.ResponseWriter, r *http.Request) {
		m.calls.Add(1)
		_, _ = io.Copy(io.Discard, r.Body)
		time.Sleep(m.latency)
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(completion)
	})
	m.peerRoutes(mux)
	m.server.Handler = mux
	go func() { _ = m.server.Serve(l) }() // ends with Close
	return m, nil
}

func (m *modelServer) close() { _ = m.server.Close() }

// peerRoutes are those of Langfuse that its official runner asks.
func (m *modelServer) peerRoutes(mux *http.ServeMux) {
	now := time.Now().UTC().Format(time.RFC3339Nano)
	reply := func(pattern string, f func(r *http.Request) any) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(f(r))
		})
	}
	type object = map[string]any
	reply("/", func(r *http.Request) any {
		_, _ = io.Copy(io.Discard, r.Body)
		return object{}
	})
	reply("/api/public/projects", func(*http.Request) any {
		return object{"data": []any{object{"id": "p", "name": "p", "metadata": object{}, "organization": object{"id": "o", "name": "o"}}}}
	})
	reply("/api/public/v2/datasets/", func(*http.Request) any {
		return object{"id": "d", "name": "bench", "projectId": "p", "createdAt": now, "updatedAt": now}
	})
	reply("/api/public/dataset-items", func(r *http.Request) any {
		page, limit := 1, 50
		_, _ = fmt.Sscan(r.URL.Query().Get("page"), &page)
		_, _ = fmt.Sscan(r.URL.Query().Get("limit"), &limit)
		var data []any
		for i := (page - 1) * limit; i < page*limit && i < m.items; i++ {
			data = append(data, object{"id": fmt.Sprint("it", i), "status": "ACTIVE", "datasetId": "d", "datasetName": "bench", "createdAt": now, "updatedAt": now,
				"input": object{"document_text": strings.Repeat("Ruth went to Moab. ", 50)}, "expectedOutput": json.RawMessage(found)})
		}
		return object{"data": data, "meta": object{"page": page, "limit": limit, "totalItems": m.items, "totalPages": (m.items + limit - 1) / limit}}
	})
	reply("/api/public/dataset-run-items", func(r *http.Request) any {
		var q object
		_ = json.NewDecoder(r.Body).Decode(&q)
		return object{"id": "ri", "datasetRunId": "run", "datasetRunName": q["runName"], "datasetItemId": q["datasetItemId"],
			"traceId": q["traceId"], "observationId": q["observationId"], "createdAt": now, "updatedAt": now}
	})
	reply("/api/public/ingestion", func(r *http.Request) any {
		var q struct{ Batch []struct{ ID string } }
		_ = json.NewDecoder(r.Body).Decode(&q)
		var taken []any
		for _, e := range q.Batch {
			taken = append(taken, object{"id": e.ID, "status": 201})
		}
		return object{"successes": taken, "errors": []any{}}
	})
}
