//go:build unix

// Command load measures whole runs of the real binary, over generated items, against its own
// model server, which answers after a given time.
//
//	go run ./internal/load                     every case, three times, the median
//	go run ./internal/load -case trivial,real -runs 1 -profile /tmp/p
//	go run ./internal/load -binary OLD         the same for another build
//
// It is not a test: it does not fail for bad numbers. docs/performance.md has the numbers.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// options are the flags.
type options struct {
	binary, profile, realItems, peer, cases string
	runs                                    int
	scale                                   float64
	watch                                   bool
}

func main() {
	var o options
	flag.StringVar(&o.binary, "binary", "", "the `FILE` to measure; without it, cmd/experiment is built")
	flag.StringVar(&o.cases, "case", "", "only these `CASES`, separated by commas; a word means all that begin with it")
	flag.IntVar(&o.runs, "runs", 3, "how often each case runs, at least once; the median by wall time counts")
	flag.Float64Var(&o.scale, "scale", 1, "a share of the items, for a quick look")
	flag.StringVar(&o.profile, "profile", "", "leave CPU and allocation profiles of each case in this `FOLDER`")
	flag.StringVar(&o.realItems, "real", "configs/sample/extraction-eval.jsonl", "a `FILE` of items for the case real, JSON lines")
	flag.StringVar(&o.peer, "peer", "", "a `COMMAND` of another runner, run in turn with ours; it gets BASE, N and C in its environment")
	flag.BoolVar(&o.watch, "watch", false, "print the memory of each run as it goes, every ten seconds")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := measure(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "load:", err)
		os.Exit(1)
	}
}

// measure runs the chosen cases and prints a row for each.
func measure(ctx context.Context, o options) (err error) {
	dir, err := os.MkdirTemp("", "load-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if o.binary == "" {
		o.binary = filepath.Join(dir, "experiment")
		if out, err := exec.CommandContext(ctx, "go", "build", "-o", o.binary, "./cmd/experiment").CombinedOutput(); err != nil {
			return fmt.Errorf("building cmd/experiment: %w\n%s", err, out)
		}
	}
	for _, path := range []*string{&o.binary, &o.profile} {
		if *path != "" {
			if *path, err = filepath.Abs(*path); err != nil {
				return err
			}
		}
	}
	chosen := slices.DeleteFunc(cases(), func(c loadCase) bool { return !c.selected(o.cases) })
	if len(chosen) == 0 {
		return fmt.Errorf("no case is called %q", o.cases)
	}
	title, rule := "| case | ideal s | wall s | ÷ ideal | CPU ms/item | peak MB | run file KB/item | store KB/item | allocations/item |", strings.Repeat("|---", 9)+"|"
	if o.peer != "" {
		title, rule = title+" peer s | ours ÷ peer |", rule+"---|---|"
	}
	fmt.Println(title + "\n" + rule)
	for _, c := range chosen {
		results, peers, err := c.measure(ctx, o, filepath.Join(dir, c.name))
		if err != nil {
			return fmt.Errorf("case %s: %w", c.name, err)
		}
		fmt.Println(tableRow(c, o, median(results), peers))
	}
	return nil
}

// measure runs the case the given number of times, alternating with the other runner.
func (c loadCase) measure(ctx context.Context, o options, dir string) (results, peers []result, err error) {
	model := startModel(c.latency, c.items(o.scale))
	defer model.Close()
	for range max(1, o.runs) {
		own, err := c.run(ctx, o, dir, model)
		if err != nil {
			return nil, nil, err
		}
		results = append(results, own)
		if o.peer != "" && c.peer {
			peer, err := c.runPeer(ctx, o, model)
			if err != nil {
				return nil, nil, fmt.Errorf("the other runner: %w", err)
			}
			peers = append(peers, peer)
		}
	}
	return results, peers, nil
}

// median returns the result with the median wall time.
func median(results []result) result {
	slices.SortFunc(results, func(a, b result) int { return cmp.Compare(a.wall, b.wall) })
	return results[len(results)/2]
}

func tableRow(c loadCase, o options, r result, peers []result) string {
	n := float64(c.items(o.scale))
	ideal, ratio, allocations := 0.0, "–", "–"
	if c.latency > 0 { // the time that the answers of the model take
		ideal = c.latency.Seconds() * n / float64(c.concurrency)
		ratio = fmt.Sprintf("%.2f", r.wall.Seconds()/ideal)
	}
	if r.Allocations > 0 {
		allocations = fmt.Sprintf("%.0f", float64(r.Allocations)/n)
	}
	text := fmt.Sprintf("| %s | %.1f | %.3f | %s | %.3f | %d | %.1f | %.1f | %s |", c.name, ideal, r.wall.Seconds(), ratio,
		float64(r.cpu)/float64(time.Millisecond)/n, r.peak>>20, float64(r.runFile)/n/1e3, float64(r.store)/n/1e3, allocations)
	switch {
	case len(peers) > 0:
		peer := median(peers)
		text += fmt.Sprintf(" %.2f | %.2f |", peer.wall.Seconds(), r.wall.Seconds()/peer.wall.Seconds())
	case o.peer != "":
		text += " – | – |"
	}
	return text
}

// The answer of the model.
const (
	// modelAnswer has types that every real item allows, so that the model is asked once.
	modelAnswer      = `{"entities":[{"name":"Ruth","type":"Person"},{"name":"Moab","type":"Person"}],"relationships":[]}`
	completionFormat = `{"id":"x","object":"chat.completion","created":1,"model":"mock","choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":%s}}],"usage":{"prompt_tokens":100,"completion_tokens":40,"total_tokens":140}}`
)

// modelServer is a model, with the few routes of Langfuse that a peer needs; it does not store
// anything.
type modelServer struct {
	*httptest.Server
	items int
	calls atomic.Int64
}

func startModel(latency time.Duration, items int) *modelServer {
	m := &modelServer{items: items}
	completion := fmt.Appendf(nil, completionFormat, strconv.Quote(modelAnswer))
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/chat/completions", func(w http.ResponseWriter, r *http.Request) {
		m.calls.Add(1)
		_, _ = io.Copy(io.Discard, r.Body)
		time.Sleep(latency)
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(completion)
	})
	m.addPeerRoutes(mux)
	m.Server = httptest.NewServer(mux)
	return m
}

type object = map[string]any

// addPeerRoutes adds the routes of Langfuse that its official runner calls.
func (m *modelServer) addPeerRoutes(mux *http.ServeMux) {
	now := time.Now().UTC().Format(time.RFC3339Nano)
	reply := func(pattern string, f func(r *http.Request) any) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(f(r))
		})
	}
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
				"input":          object{"document_text": strings.Repeat("Ruth went to Moab. ", 50)},
				"expectedOutput": json.RawMessage(modelAnswer)})
		}
		return object{"data": data, "meta": object{"page": page, "limit": limit, "totalItems": m.items, "totalPages": (m.items + limit - 1) / limit}}
	})
	reply("/api/public/dataset-run-items", func(r *http.Request) any {
		var query object
		_ = json.NewDecoder(r.Body).Decode(&query)
		return object{"id": "ri", "datasetRunId": "run", "datasetRunName": query["runName"],
			"datasetItemId": query["datasetItemId"], "traceId": query["traceId"],
			"observationId": query["observationId"], "createdAt": now, "updatedAt": now}
	})
	reply("/api/public/ingestion", func(r *http.Request) any {
		var query struct{ Batch []struct{ ID string } }
		_ = json.NewDecoder(r.Body).Decode(&query)
		var accepted []any
		for _, e := range query.Batch {
			accepted = append(accepted, object{"id": e.ID, "status": 201})
		}
		return object{"successes": accepted, "errors": []any{}}
	})
}
