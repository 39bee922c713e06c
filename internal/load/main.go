//go:build unix

// Command load measures what the program costs: whole runs of the real binary, over
// made items, against a model server of its own that answers after a given time.
//
//	go run ./internal/load                     every case, three times, the median
//	go run ./internal/load -case trivial,real -runs 1 -profile /tmp/p
//	go run ./internal/load -binary OLD         the same for another build
//
// It is not a test: nothing fails when a number is bad. docs/performance.md has the
// numbers, before and after.
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
	flag.IntVar(&o.runs, "runs", 3, "how often each case runs; the median by wall time counts")
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

// measure runs the chosen cases and prints a line for each as it ends.
func measure(ctx context.Context, o options) (err error) {
	work, err := os.MkdirTemp("", "load-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	if o.binary == "" {
		o.binary = filepath.Join(work, "experiment")
		if out, err := exec.CommandContext(ctx, "go", "build", "-o", o.binary, "./cmd/experiment").CombinedOutput(); err != nil {
			return fmt.Errorf("building cmd/experiment: %w\n%s", err, out)
		}
	}
	if o.profile != "" {
		if o.profile, err = filepath.Abs(o.profile); err != nil {
			return err
		}
	}
	if o.binary, err = filepath.Abs(o.binary); err != nil {
		return err
	}
	chosen := slices.DeleteFunc(cases(), func(c loadCase) bool { return !c.named(o.cases) })
	if len(chosen) == 0 {
		return fmt.Errorf("no case is called %q", o.cases)
	}
	title, rule := "| case | ideal s | wall s | ÷ ideal | CPU ms/item | peak MB | run file KB/item | store KB/item | allocations/item |", strings.Repeat("|---", 9)+"|"
	if o.peer != "" {
		title, rule = title+" peer s | ours ÷ peer |", rule+"---|---|"
	}
	fmt.Println(title + "\n" + rule)
	for _, c := range chosen {
		results, peers, err := c.measure(ctx, o, filepath.Join(work, c.name))
		if err != nil {
			return fmt.Errorf("case %s: %w", c.name, err)
		}
		fmt.Println(line(c, o, median(results), peers))
	}
	return nil
}

// measure runs the case as often as is asked for, in turn with the other runner.
func (c loadCase) measure(ctx context.Context, o options, dir string) (results, peers []result, err error) {
	model := startModel(c.latency, c.items(o.scale))
	defer model.Close()
	for range o.runs {
		one, err := c.run(ctx, o, dir, model)
		if err != nil {
			return nil, nil, err
		}
		results = append(results, one)
		if o.peer != "" && c.peer {
			other, err := c.runPeer(ctx, o, model)
			if err != nil {
				return nil, nil, fmt.Errorf("the other runner: %w", err)
			}
			peers = append(peers, other)
		}
	}
	return results, peers, nil
}

// median is the result of the median wall time.
func median(results []result) result {
	slices.SortFunc(results, func(a, b result) int { return cmp.Compare(a.wall, b.wall) })
	return results[len(results)/2]
}

func line(c loadCase, o options, r result, peers []result) string {
	n := float64(c.items(o.scale))
	ideal := c.ideal(o.scale).Seconds()
	ratio := "–"
	if ideal > 0 {
		ratio = fmt.Sprintf("%.2f", r.wall.Seconds()/ideal)
	}
	text := fmt.Sprintf("| %s | %.1f | %.3f | %s | %.3f | %d | %.1f | %.1f | %s |", c.name, ideal, r.wall.Seconds(), ratio,
		float64(r.cpu)/float64(time.Millisecond)/n, r.peak>>20, float64(r.runFile)/n/1e3, float64(r.store)/n/1e3, r.allocations(n))
	switch {
	case len(peers) > 0:
		peer := median(peers)
		text += fmt.Sprintf(" %.2f | %.2f |", peer.wall.Seconds(), r.wall.Seconds()/peer.wall.Seconds())
	case o.peer != "":
		text += " – | – |"
	}
	return text
}

// found is the answer of the model.
const (
	// It names types that every real item allows, so that it is asked once.
	found   = `{"entities":[{"name":"Ruth","type":"Person"},{"name":"Moab","type":"Person"}],"relationships":[]}`
	content = `{"id":"x","object":"chat.completion","created":1,"model":"mock","choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":%s}}],"usage":{"prompt_tokens":100,"completion_tokens":40,"total_tokens":140}}`
)

// modelServer answers as a model, and as the few routes of Langfuse that a peer needs,
// which it does not store.
type modelServer struct {
	*httptest.Server
	items int
	calls atomic.Int64
}

func startModel(latency time.Duration, items int) *modelServer {
	m := &modelServer{items: items}
	completion := fmt.Appendf(nil, content, strconv.Quote(found))
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/chat/completions", func(w http.ResponseWriter, r *http.Request) {
		m.calls.Add(1)
		_, _ = io.Copy(io.Discard, r.Body)
		time.Sleep(latency)
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(completion)
	})
	m.peerRoutes(mux)
	m.Server = httptest.NewServer(mux)
	return m
}

type object = map[string]any

// peerRoutes are those of Langfuse that its official runner asks.
func (m *modelServer) peerRoutes(mux *http.ServeMux) {
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
