package langfuse

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"extraction-experiment/internal/testkit/suite"
	"extraction-experiment/internal/textutil"
)

func TestParseMode(t *testing.T) {
	for text, want := range map[string]Mode{
		"": "", "auto": "", " AUTO ": "", "v4": ModeEventsOnly, "events_only": ModeEventsOnly, "events-only": ModeEventsOnly,
		"v4-dual": ModeDual, "Dual": ModeDual, "v3": ModeLegacy, "legacy": ModeLegacy,
	} {
		if got, err := ParseMode(text); err != nil || got != want {
			t.Errorf("%q: %q, %v", text, got, err)
		}
	}
	for _, text := range []string{"v2", "3", "both", strings.Repeat("x", 1000)} {
		_, err := ParseMode(text)
		if exitCode(err) != 64 || !strings.Contains(err.Error(), "events_only") || len(err.Error()) > 300 {
			t.Errorf("%.10q: %v", text, err)
		}
	}
	for _, mode := range []Mode{ModeEventsOnly, ModeDual, ModeLegacy} {
		if got := (Capabilities{}).WithMode(mode).Mode(); got != mode {
			t.Errorf("%s became %s", mode, got)
		}
	}
	if kept := v4.WithMode(""); kept != v4 {
		t.Errorf("%+v", kept)
	}
}

// With a forced mode, a server whose responses mislead Probe can still be used. ProbeAs checks
// the version and the keys nevertheless.
func TestProbeAs(t *testing.T) {
	fake := fakeServer{health: `{"version":"4.16.0"}`, experiments: "502.html", oldScores: "502.html"}
	client, record := serve(t, fake.handler(t))
	server, err := client.ProbeAs(t.Context(), ModeDual)
	if err != nil || server.Mode() != ModeDual || server.Version != (Version{4, 16, 0}) || server.Project.ID != "p1" || len(record.seen()) != 2 {
		t.Errorf("%+v, %v", server, err)
	}
	fake.experiments, fake.oldScores = "", "404_events_only.json"
	if client, _ = serve(t, fake.handler(t)); client != nil {
		if server, err = client.ProbeAs(t.Context(), ""); err != nil || server.Mode() != ModeEventsOnly {
			t.Errorf("%+v, %v", server, err)
		}
	}
	if server, err = client.ProbeAs(t.Context(), "v4-dual"); err != nil || server.Mode() != ModeDual {
		t.Errorf("by another name: %+v, %v", server, err)
	}
	if _, err = client.ProbeAs(t.Context(), "both"); !errors.As(err, new(*UsageError)) {
		t.Errorf("an unknown mode: %v", err)
	}
	fake.health = `{"version":"3.80.0"}`
	client, _ = serve(t, fake.handler(t))
	if _, err = client.ProbeAs(t.Context(), ModeLegacy); err == nil || !strings.Contains(err.Error(), "3.81.0 or later") {
		t.Errorf("%v", err)
	}
}

func TestClockSkew(t *testing.T) {
	for name, test := range map[string]struct{ ahead, want time.Duration }{
		"none":          {0, 0},
		"rounding":      {-900 * time.Millisecond, 0},
		"an hour ahead": {time.Hour, time.Hour},
		"behind":        {-time.Minute, -time.Minute},
	} {
		synctest.Test(t, func(t *testing.T) {
			client := fakeTimeClient(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Date", time.Now().Add(test.ahead).UTC().Format(http.TimeFormat))
				_, _ = w.Write([]byte(`{"status":"OK","version":"4.16.0"}`))
			}))
			health, err := client.GetHealth(t.Context())
			if off := health.Skew - test.want; err != nil || off < 0 || off > time.Second {
				t.Errorf("%s: %s, want %s, %v", name, health.Skew, test.want, err)
			}
		})
	}
	// A clock that shows 10:00:00 between 10:00:00.4 and 10:00:00.9 has no skew: it is
	// truncated to the second.
	at := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	if got := clockSkew(at.Add(400*time.Millisecond), at.Add(900*time.Millisecond), at); got != 0 {
		t.Error(got)
	}
}

// A truncated response without a Content-Length looks complete to HTTP. The request must be
// retried, not fail with invalid JSON.
func TestAnswerCutWithoutALengthIsRepeated(t *testing.T) {
	var mu sync.Mutex
	requests := 0
	client, _ := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		mu.Lock()
		requests++
		first := requests == 1
		mu.Unlock()
		conn, buffered, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		whole := sample(t, "projects.json")
		if first {
			whole = whole[:len(whole)/2]
		}
		_, _ = fmt.Fprintf(buffered, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n%s", whole)
		_ = buffered.Flush()
		_ = conn.Close()
	}, func(c *Config) { c.MaxAttempts = 2 })
	project, err := client.GetProject(t.Context())
	if err != nil || project.ID != "p1" || requests != 2 {
		t.Errorf("%+v, %v after %d requests", project, err, requests)
	}
}

// Datasets, prompts and runs with a slash in their names can be read through a proxy that
// rejects every escaped slash.
func TestNamesWithSlashesPassAStrictProxy(t *testing.T) {
	client, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(strings.ToUpper(r.URL.EscapedPath()), "%2F") {
			w.WriteHeader(http.StatusBadRequest) // and nothing else
			return
		}
		switch {
		case r.URL.Path == "/api/public/v2/datasets":
			_, _ = w.Write([]byte(`{"data":[{"id":"d1","name":"team/docs"}],"meta":{"totalPages":1}}`))
		case strings.HasSuffix(r.URL.Path, "v2/prompts"):
			_, _ = w.Write(sample(t, "prompts_labelled.json"))
		case r.URL.Path == "/api/public/prompts":
			_, _ = w.Write(sample(t, "prompt_text.json"))
		case r.URL.Path == "/api/public/dataset-run-items":
			_, _ = w.Write(sample(t, "run_items_v3.json"))
		default:
			_, _ = w.Write(sample(t, "dataset_runs_v3.json"))
		}
	})
	if found, err := client.GetDataset(t.Context(), "team/docs"); err != nil || found.ID != "d1" {
		t.Errorf("%+v, %v", found, err)
	}
	if prompt, err := client.GetPrompt(t.Context(), PromptRef{Name: "team/extract", Label: "staging"}); err != nil || prompt.Version != 7 {
		t.Errorf("%+v, %v", prompt, err)
	}
	ref := RunRef{DatasetID: "d1", Name: "feature/x", DatasetName: "team/docs"}
	if run, err := client.GetRun(t.Context(), testServer(ModeLegacy, Version{3, 225, 4}), ViewRuns, ref); err != nil || run.Description != "nightly" {
		t.Errorf("%+v, %v", run, err)
	}
	// This endpoint needs the name in the path; the error explains the failure.
	_, err := client.SetPromptLabels(t.Context(), "team/extract", 1, nil)
	if err == nil || !strings.Contains(err.Error(), "a proxy may have refused the escaped slash") {
		t.Errorf("%v", err)
	}
}

// Every second response fails in a way of real servers, proxies and networks. No score may be
// refused or lost.
func TestStorm(t *testing.T) {
	source := rand.New(rand.NewPCG(1, 2))
	failures := []struct {
		status int
		file   string
	}{{500, ""}, {502, "502.html"}, {503, "503.json"}, {429, "429.txt"}, {429, "429.json"}, {408, ""}, {0, ""}}
	stored, requests := map[string]int{}, 0
	storm := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests++
		var body bytes.Buffer
		_, _ = body.ReadFrom(r.Body)
		if source.IntN(2) == 0 {
			failure := failures[source.IntN(len(failures))]
			if failure.status == 0 { // stored, but the response is truncated
				for _, event := range envelopes(body.Bytes()) {
					stored[event.Body["id"].(string)]++
				}
				w.Header().Set("Content-Type", "application/json")
				_, _ = w.Write([]byte(`{"successes":[{"id"`))
				return
			}
			w.WriteHeader(failure.status)
			if failure.file != "" {
				_, _ = w.Write(sample(t, "errors/"+failure.file))
			}
			return
		}
		for _, event := range envelopes(body.Bytes()) {
			stored[event.Body["id"].(string)]++
		}
		acceptAll(w, body.Bytes())
	})
	synctest.Test(t, func(t *testing.T) {
		client := fakeTimeClient(t, storm)
		var scores []ScoreCreate
		for i := range 500 {
			scores = append(scores, goodScore(fmt.Sprint("s", i)))
		}
		left := scores
		for round := 0; len(left) > 0 && round < 20; round++ {
			var again []ScoreCreate
			for i, err := range client.CreateScores(t.Context(), left) {
				if errors.Is(err, ErrRefused) {
					t.Fatalf("%s was refused: %v", left[i].ID, err)
				}
				if err != nil {
					again = append(again, left[i])
				}
			}
			left = again
		}
		if len(left) > 0 || len(stored) != 500 {
			t.Errorf("%d scores are left, %d were stored, after %d requests", len(left), len(stored), requests)
		}
	})
}

func TestScoresThatAProxyFindsTooLargeGoInHalves(t *testing.T) {
	maxEvents, largest := 30, 0
	client, record := serve(t, withBody(func(w http.ResponseWriter, body []byte) {
		n := len(envelopes(body))
		big := strings.Contains(string(body), `"id":"s7"`) && n == 1
		if n > maxEvents || big {
			w.WriteHeader(http.StatusRequestEntityTooLarge)
			_, _ = w.Write(sample(t, "errors/413.txt"))
			return
		}
		largest = max(largest, n)
		acceptAll(w, body)
	}))
	var scores []ScoreCreate
	for i := range 100 {
		scores = append(scores, goodScore(fmt.Sprint("s", i)))
	}
	err := errors.Join(client.CreateScores(t.Context(), scores)...)
	// One request of 100 and two of 50 are too large; four of 25 are accepted.
	if err != nil || largest != 25 || len(record.seen()) != 7 {
		t.Errorf("%v, largest %d, %d requests", err, largest, len(record.seen()))
	}
	maxEvents = 0
	for _, err := range client.CreateScores(t.Context(), scores[:3]) {
		if !errors.Is(err, ErrRefused) || !errors.Is(err, ErrTooLarge) {
			t.Error(err)
		}
	}
}

func TestScoresGoOneByOneWhereBatchesAreGone(t *testing.T) {
	client, record := serve(t, withBody(func(w http.ResponseWriter, body []byte) {
		var score struct{ ID string }
		switch _ = json.Unmarshal(body, &score); score.ID {
		case "": // a batch
			w.WriteHeader(http.StatusNotFound)
			_, _ = w.Write(sample(t, "errors/404_page.html"))
		case "bad":
			w.WriteHeader(http.StatusBadRequest)
			_, _ = w.Write(sample(t, "errors/400_zod.json"))
		default:
			_, _ = fmt.Fprintf(w, `{"id":%q}`, score.ID)
		}
	}))
	results := client.CreateScores(t.Context(), []ScoreCreate{goodScore("a"), goodScore("bad"), goodScore("c")})
	if results[0] != nil || !errors.Is(results[1], ErrRefused) || results[2] != nil {
		t.Errorf("%v", results)
	}
	if seen := record.seen(); len(seen) != 4 || seen[0].uri != "/api/public/ingestion" || seen[3].uri != "/api/public/scores" {
		t.Errorf("%d requests", len(seen))
	}
	// If no endpoint accepts scores, the address is wrong, which is an error of the whole call.
	client, _ = serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusNotFound)
		_, _ = w.Write(sample(t, "errors/404_page.html"))
	})
	err := client.CreateScores(t.Context(), []ScoreCreate{goodScore("a")})[0]
	if !errors.Is(err, ErrEndpointGone) || !strings.Contains(err.Error(), EnvBaseURL) || errors.Is(err, ErrRefused) {
		t.Error(err)
	}
}

func TestItemThatIsTooLargeIsNamedAndNotSent(t *testing.T) {
	client, record := serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"id":"i"}`)) })
	item := func(bytes int) DatasetItem { // of the whole request
		envelope, err := textutil.MarshalJSON(DatasetItem{DatasetName: "docs", ID: "i1", Input: json.RawMessage(`{"text":""}`)})
		if err != nil {
			t.Fatal(err)
		}
		return DatasetItem{DatasetName: "docs", ID: "i1", Input: json.RawMessage(`{"text":"` + strings.Repeat("x", bytes-len(envelope)) + `"}`)}
	}
	sent := 0
	if suite.Full() {
		sent = 1
		if _, err := client.UpsertDatasetItem(t.Context(), item(MaxItemBytes)); err != nil {
			t.Error(err)
		}
	}
	_, err := client.UpsertDatasetItem(t.Context(), item(MaxItemBytes+1))
	if !errors.Is(err, ErrTooLarge) || exitCode(err) != 64 || !strings.Contains(err.Error(), `item "i1" of dataset "docs" is too large: 4.5 MB`) || len(record.seen()) != sent {
		t.Errorf("%v, %d requests", err, len(record.seen()))
	}
}
