package embedded

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestFaults_check(t *testing.T) {
	for _, f := range []Faults{{FailShare: -0.1}, {FailShare: 1.1}, {Latency: -1}, {RateLimit: -1}} {
		if s, err := Open(Config{Faults: f}); err == nil {
			t.Errorf("%+v was taken: %v", f, s.Close())
		}
	}
}

// sendEach sends n different requests once each and returns their results.
func sendEach(t *testing.T, n int, f Faults) []string {
	t.Helper()
	r := newTestServer(t, Config{Faults: f})
	list := make([]string, n)
	for i := range list {
		a, err := r.try("POST", api+"/ingestion", batchOf(scoreEvent(fmt.Sprint(i), fmt.Sprint(i), 0, at1), scoreEvent(fmt.Sprint(-i), fmt.Sprint(-i), 0, at1)))
		switch {
		case err != nil:
			list[i] = "cut"
		case a.status == 207 && a.at("errors", 0) != nil:
			list[i] = "refused"
		default:
			list[i] = fmt.Sprintf("%d %s%s", a.status, a.header.Get("Retry-After"), a.text[:min(1, len(a.text))])
		}
	}
	return list
}

// TestFaults_fail checks that the configured share of requests fails, in all ways, and that the
// same requests in the same order fail in the same way.
func TestFaults_fail(t *testing.T) {
	const n = 400
	got := sendEach(t, n, Faults{FailShare: 0.5})
	counts, good := map[string]int{}, 0
	for _, outcome := range got {
		counts[outcome]++
		if outcome == "207 {" {
			good++
		}
	}
	// 200 of 400 succeed. Of the other 200, 2/9 are 207 with refusals, and 1/4 of those refuse
	// none of two events: 211 in all. 5 sigma of 400 requests are 50.
	if good < 161 || good > 261 {
		t.Errorf("%d of %d succeeded: %v", good, n, counts)
	}
	for _, way := range []string{"500 {", "503 <", "429 1{", "429 4", "cut", "refused"} {
		if counts[way] == 0 {
			t.Errorf("never %q: %v", way, counts)
		}
	}
	equal(t, "again", sendEach(t, 50, Faults{FailShare: 0.5}), got[:50])
}

// TestFaults_doneAfterAll checks that some of the requests that fail are stored, and that a client
// that sends again until it succeeds stores everything once.
func TestFaults_doneAfterAll(t *testing.T) {
	r := newTestServer(t, Config{Faults: Faults{FailShare: 1}})
	for i := range 40 {
		if a, err := r.try("POST", api+"/v2/datasets", object{"name": fmt.Sprint(i)}); err == nil && a.status == 200 {
			t.Errorf("%d succeeded", i)
		}
	}
	if stored := r.count("datasets"); stored == 0 || stored == 40 {
		t.Errorf("%d of 40 are stored", stored)
	}

	r = newTestServer(t, Config{Faults: Faults{FailShare: 0.5}})
	for i := range 50 {
		ids := []string{fmt.Sprint(i, "a"), fmt.Sprint(i, "b"), fmt.Sprint(i, "c")}
		for len(ids) > 0 {
			var events []object
			for _, id := range ids {
				events = append(events, scoreEvent(id, id, 0, at1))
			}
			a, err := r.try("POST", api+"/ingestion", batchOf(events...))
			if err != nil || a.status != 207 {
				continue
			}
			ids = ids[:0]
			for i := 0; a.at("errors", i) != nil; i++ {
				equal(t, "status", a.at("errors", i, "status"), 500)
				ids = append(ids, a.at("errors", i, "id").(string))
			}
		}
	}
	if err := r.server.settle(); err != nil {
		t.Fatal(err)
	}
	equal(t, "stored", r.count("scores"), 150)
}

func TestFaults_rateLimit(t *testing.T) {
	r := newTestServer(t, Config{Faults: Faults{RateLimit: 2}})
	r.must(200, r.get(api+"/v2/datasets"))
	r.clock.advance(10 * time.Second)
	r.must(404, r.get(api+"/dataset-items/x")) // the same bucket
	a := r.must(429, r.get(api+"/v2/datasets"))
	equal(t, "retry after", a.header.Get("Retry-After"), "50") // the window began 10 s ago
	equal(t, "reset", a.at("details"), object{"limit": 2, "remaining": 0, "resetAt": "2026-11-21T03:01:00.000Z", "retryAfterSeconds": 50})
	equal(t, "code", a.at("code"), "rate_limited")
	equal(t, "headers", []string{a.header.Get("X-RateLimit-Limit"), a.header.Get("X-RateLimit-Remaining"), a.header.Get("X-RateLimit-Reset")},
		[]string{"2", "0", "Sat Nov 21 2026 03:01:00 GMT+0000 (Coordinated Universal Time)"})
	r.must(401, r.do("GET", api+"/v2/datasets", nil, "Authorization", ""))
	r.must(200, r.get(api+"/v3/scores")) // another bucket
	for range 4 {
		r.must(200, r.get(api+"/health"))
		r.must(200, r.get(api+"/v2/prompts"))
	}
	r.clock.advance(50 * time.Second)
	r.must(200, r.get(api+"/v2/datasets"))
}

func TestBucket(t *testing.T) {
	want := map[string]string{"GET health": "", "POST ingestion": "ingestion", "POST otel/v1/traces": "ingestion", "GET v2/datasets": "datasets",
		"POST dataset-run-items": "datasets", "GET datasets/{name}/runs": "datasets", "GET v2/prompts/{name}": "", "GET v3/scores": "public-api",
		"POST scores": "public-api", "DELETE scores/{id}": "score-delete", "GET traces": "public-api-legacy",
		"GET observations/{id}": "public-api-legacy", "GET v2/observations": "public-api", "GET experiments": "public-api", "GET projects": "",
		"POST comments": "public-api", "GET score-configs/{id}": "public-api", "GET annotation-queues/{id}/items": "annotation-queues"}
	bucket := map[string]string{}
	for _, rt := range routes() {
		bucket[rt.pattern] = string(rt.bucket)
	}
	if got := bucket["POST /api/embedded/annotations"]; got != "" {
		t.Errorf("what a person does in the user interface counts towards %q", got)
	}
	for name, want := range want {
		method, path, _ := strings.Cut(name, " ")
		if got := bucket[method+" /api/public/"+path]; got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

// TestServer_setFaults checks that faults can begin and end while the server runs.
func TestServer_setFaults(t *testing.T) {
	r := newTestServer(t, Config{Faults: Faults{RateLimit: 1}})
	r.must(200, r.get(api+"/v2/datasets"))
	r.must(429, r.get(api+"/v2/datasets"))
	if err := r.server.SetFaults(Faults{}); err != nil {
		t.Fatal(err)
	}
	r.must(200, r.get(api+"/v2/datasets"))
	if err := r.server.SetFaults(Faults{FailShare: 2}); err == nil || !strings.Contains(err.Error(), "from 0 to 1") {
		t.Errorf("got %v", err)
	}
	r.must(200, r.get(api+"/v2/datasets"))
}

// TestFaults_latency checks that a request is worked on after the latency, and not at all if its client
// has gone by then.
func TestFaults_latency(t *testing.T) {
	for patience, want := range map[time.Duration]time.Duration{time.Minute: 30 * time.Second, 29 * time.Second: 0} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			began, worked := time.Now(), time.Duration(0)
			defer func() {
				gone := recover() == http.ErrAbortHandler
				if worked != want || gone != (want == 0) {
					t.Errorf("a client that waits %s: worked on after %s, gone: %t", patience, worked, gone)
				}
			}()
			c := &call{r: httptest.NewRequestWithContext(ctx, "GET", "/", nil), w: httptest.NewRecorder()}
			newFaultInjector(Faults{Latency: 30 * time.Second}).serve(c, route{}, began, func() response {
				worked = time.Since(began)
				return response{status: http.StatusOK}
			})
		})
	}
}

// TestConfig_delays checks that objects are visible only after the delay, and that a deletion that
// is due before its score is stored has no effect.
func TestConfig_delays(t *testing.T) {
	r := newTestServer(t, Config{Mode: ModeV4Dual, IngestionDelay: 15 * time.Second, DeleteDelay: 10 * time.Second})
	r.must(200, r.post(api+"/v2/datasets", object{"name": "d"}))
	r.must(200, r.post(api+"/dataset-items", object{"datasetName": "d", "id": "i", "input": object{}}))
	r.must(200, r.post(api+"/otel/v1/traces", export(rootSpan("t", "s", "e", "i"))))
	r.must(207, r.post(api+"/ingestion", batchOf(scoreEvent("e1", "s1", 0, at1))))
	r.must(200, r.post(api+"/scores", object{"id": "s2", "name": "n", "value": 1, "traceId": "t"}))
	r.must(200, r.post(api+"/dataset-run-items", object{"runName": "r", "datasetItemId": "i", "traceId": "t"}))
	r.must(202, r.do("DELETE", api+"/scores/s1", nil))
	seen := func() []int {
		return []int{len(r.get(api + "/traces").column("id")), len(r.get(api + "/v2/observations").column("id")),
			len(r.get(api + "/v3/scores").column("id")), len(r.must(200, r.get(api+"/datasets/d/runs/r")).at("datasetRunItems").([]any))}
	}
	r.clock.advance(14 * time.Second)
	equal(t, "before", seen(), []int{0, 0, 0, 0})
	r.clock.advance(time.Second)
	equal(t, "after", seen(), []int{1, 1, 2, 1})
	r.must(202, r.do("DELETE", api+"/scores/s1", nil))
	equal(t, "still there", seen(), []int{1, 1, 2, 1})
	r.clock.advance(10 * time.Second)
	equal(t, "deleted", seen(), []int{1, 1, 1, 1})
}

// TestConfig_drop checks that the server acknowledges the objects that Drop names and does not
// store them.
func TestConfig_drop(t *testing.T) {
	lost := map[string]bool{"span s1": true, "score a": true, "run-item i1": true, "score b": true}
	r := newModes(t, 0, ModeV3)[ModeV3]
	r.server.cfg.Drop = func(kind, id string) bool { return lost[kind+" "+id] }
	for _, item := range []string{"i1", "i2"} {
		r.must(200, r.post(api+"/dataset-items", object{"datasetName": "d", "id": item, "input": object{}}))
		r.must(200, r.post(api+"/dataset-run-items", object{"runName": "r", "datasetItemId": item, "traceId": "t"}))
	}
	r.must(200, r.post(api+"/otel/v1/traces", export(rootSpan("t", "s1", "e", "i1"), rootSpan("t", "s2", "e", "i2"))))
	a := r.must(207, r.post(api+"/ingestion", batchOf(scoreEvent("e1", "a", 0, at1), scoreEvent("e2", "c", 0, at1))))
	equal(t, "no errors", a.at("errors"), []any{})
	r.must(200, r.post(api+"/scores", object{"id": "b", "name": "n", "value": 1, "traceId": "t"}))
	equal(t, "spans", []int{r.get(api + "/observations/s1").status, r.get(api + "/observations/s2").status}, []int{404, 200})
	equal(t, "scores", r.get(api+"/v2/scores").column("id"), []string{"c"})
	equal(t, "items", r.get(api+"/datasets/d/runs/r").at("datasetRunItems", 1), nil)
}
