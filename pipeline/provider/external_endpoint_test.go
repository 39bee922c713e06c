package provider

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"extraction-experiment/extraction"
	"extraction-experiment/outcome"
	"extraction-experiment/pipeline"
)

// servePipeline returns an extractor that asks a server with that handler.
func servePipeline(t *testing.T, handler http.HandlerFunc, change func(*ExternalConfig)) *External {
	t.Helper()
	server := httptest.NewServer(handler)
	e := openChild(t, "", func(c *ExternalConfig) {
		c.Target, c.Env = server.URL+"/extract?version=2", nil
		if change != nil {
			change(c)
		}
	})
	t.Cleanup(server.Close) // runs before the Close of openChild, which closes idle connections again
	return e
}

func TestEndpoint_requestAndAnswer(t *testing.T) {
	e := servePipeline(t, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		if r.Method != "POST" || r.URL.String() != "/extract?version=2" || r.Header.Get("Content-Type") != "application/json" ||
			r.Header.Get("Authorization") != "Bearer secret-token" {
			t.Errorf("%s %s %v", r.Method, r.URL, r.Header)
		}
		want := `{"id":"1","document_text":"Ann x","document_type":"","object_schemas":{},"relationship_schemas":{},"allowed_types":[],"available_tags":[],"model":"m"}`
		if string(body) != want {
			t.Errorf("body %s", body)
		}
		io.WriteString(w, " "+respond("good", body)+"\n\n")
	}, func(c *ExternalConfig) { c.Token, c.Model = "secret-token", "m" })
	found, calls, err := e.Extract(t.Context(), extraction.Document{Text: "Ann x"})
	want := []extraction.Entity{{Name: "Ann", Type: "T"}}
	if diff := cmp.Diff(want, found.Entities); err != nil || diff != "" || len(calls) != 2 || calls[0].Model != "m" {
		t.Errorf("%v\n%s\n%+v", err, diff, calls)
	}
}

func TestEndpoint_statuses(t *testing.T) {
	tests := map[string]struct {
		status     int
		header     string // Retry-After
		body       string
		class      outcome.Class
		retry      bool
		retryAfter time.Duration
		message    string
	}{
		"400":           {400, "", "bad schema", outcome.Provider, false, 0, "answered 400 Bad Request: bad schema"},
		"401":           {401, "", "", outcome.Provider, false, 0, "answered 401 Unauthorized (check the token)"},
		"404":           {404, "", "<html>", outcome.Provider, false, 0, "(check the address: it must take POST): <html>"},
		"408":           {408, "", "", outcome.Timeout, true, 0, "408"},
		"413":           {413, "", "", outcome.Item, false, 0, "413"},
		"422":           {422, "", `{"error":{"message":"no text"}}`, outcome.Item, false, 0, "no text"},
		"429 seconds":   {429, "7", "", outcome.RateLimited, true, 7 * time.Second, "429 Too Many Requests"},
		"429 date":      {429, clock.Add(90 * time.Second).Format(http.TimeFormat), "", outcome.RateLimited, true, 90 * time.Second, "429"},
		"429 past date": {429, clock.Add(-time.Hour).Format(http.TimeFormat), "", outcome.RateLimited, true, 0, "429"},
		"429 absurd":    {429, "4000000000", "", outcome.RateLimited, true, 24 * time.Hour, "429"},
		"429 nonsense":  {429, "NaN", "", outcome.RateLimited, true, 0, "429"},
		"500 text":      {500, "", "boom\xff", outcome.Provider, true, 0, "500 Internal Server Error: boom\uFFFD"},
		"500 own class": {500, "", `{"error":{"class":"rate_limited","message":"later"}}`, outcome.RateLimited, true, 0, "later"},
		"501":           {501, "", "", outcome.Provider, false, 0, "501"},
		"503 wait":      {503, "2", "", outcome.Provider, true, 2 * time.Second, "503"},
		"504":           {504, "", "", outcome.Timeout, true, 0, "504"},
		"600 KB":        {500, "", strings.Repeat("x", 600_000), outcome.Provider, true, 0, "xxx…"},
		"shows token":   {403, "", "token secret-token is old", outcome.Provider, false, 0, "token *** is old"},
		"200":           {200, "", `{"entities":[]}`, outcome.OK, false, 0, ""},
		"empty":         {204, "", "", outcome.InvalidOutput, false, 0, "not a JSON object"},
		"html":          {200, "", "<html>", outcome.InvalidOutput, false, 0, `answered "<html>": that is not a JSON object`},
		"flood":         {200, "", strings.Repeat(" ", 5000), outcome.InvalidOutput, false, 0, "more than 4000 bytes"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			e := servePipeline(t, func(w http.ResponseWriter, r *http.Request) {
				if test.header != "" {
					w.Header().Set("Retry-After", test.header)
					w.Header().Set("Date", clock.Format(http.TimeFormat))
				}
				w.WriteHeader(test.status)
				io.WriteString(w, test.body)
			}, func(c *ExternalConfig) { c.Token, c.MaxAnswer = "secret-token", 4000 })
			_, calls, err := e.Extract(t.Context(), extraction.Document{Text: "x"})
			if test.class == outcome.OK {
				if err != nil {
					t.Error(err)
				}
				return
			}
			var model *pipeline.ModelError
			if !errors.As(err, &model) {
				t.Fatalf("got %v", err)
			}
			if model.Failure.Class != test.class || model.Retry != test.retry || model.RetryAfter != test.retryAfter ||
				!strings.Contains(model.Failure.Message, test.message) || len(model.Failure.Message) > outcome.MaxMessage {
				t.Errorf("got %+v", model)
			}
			if strings.Contains(err.Error(), "version=2") || len(calls) != 2 || calls[0].Error == "" {
				t.Errorf("got %v, calls %+v", err, calls)
			}
		})
	}
}

// TestEndpoint_paidFailure checks that the calls in the body of an error status count: 3 + 1 tokens for 0.5 USD.
func TestEndpoint_paidFailure(t *testing.T) {
	for _, id := range []string{"1", "7"} { // 7 answers another request
		e := servePipeline(t, func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(503)
			io.WriteString(w, `{"id":"`+id+`","error":{"class":"rate_limited","message":"slow"},"calls":[{"usage":{"input":3,"output":1},"cost_usd":0.5}]}`)
		}, nil)
		_, calls, err := e.Extract(t.Context(), extraction.Document{Text: "x"})
		failure := outcome.FailureOf(err, outcome.Provider)
		if failure.Class != outcome.RateLimited || !strings.Contains(failure.Message, "503") || len(calls) != 2 || calls[0].Error != failure.Message {
			t.Fatalf("%v, %+v", err, calls)
		}
		if paid := calls[1].CostUSD != nil && *calls[1].CostUSD == 0.5 && calls[1].Usage.Total() == 4; paid != (id == "1") {
			t.Errorf("id %s: %+v", id, calls[1])
		}
	}
}

// TestEndpoint_redirects checks that the document is sent only to the given address.
func TestEndpoint_redirects(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the redirect was followed") }))
	defer elsewhere.Close()
	for _, status := range []int{301, 302, 303, 307, 308} {
		e := servePipeline(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, elsewhere.URL, status) }, nil)
		_, _, err := e.Extract(t.Context(), extraction.Document{Text: "x"})
		if err == nil || !strings.Contains(err.Error(), "redirects are not followed") {
			t.Errorf("%d: %v", status, err)
		}
	}
}

func TestEndpoint_cutConnections(t *testing.T) {
	tests := map[string]http.HandlerFunc{
		"before the status": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"within the body": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			io.WriteString(w, `{"entities":[]}`)
		},
	}
	for name, handler := range tests {
		e := servePipeline(t, handler, nil)
		_, _, err := e.Extract(t.Context(), extraction.Document{Text: "x"})
		var model *pipeline.ModelError
		if !errors.As(err, &model) || model.Failure.Class != outcome.Provider || !model.Retry || !strings.Contains(err.Error(), "EOF") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestEndpoint_unreachable(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	server.Close()
	e := openChild(t, "", func(c *ExternalConfig) { c.Target = server.URL })
	_, _, err := e.Extract(t.Context(), extraction.Document{Text: "x"})
	if f := outcome.FailureOf(err, outcome.Internal); f.Class != outcome.Provider || !strings.Contains(f.Message, "refused") {
		t.Errorf("got %+v", f)
	}
}

func TestEndpoint_contextEnds(t *testing.T) {
	arrived := make(chan struct{}, 2)
	e := servePipeline(t, func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body) // the server notices a closed connection only then
		io.WriteString(w, `{"ent`)
		w.(http.Flusher).Flush()
		arrived <- struct{}{}
		<-r.Context().Done()
	}, nil)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-arrived; cancel() }()
	_, _, err := e.Extract(ctx, extraction.Document{Text: "x"})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	ctx, cancel = context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, _, err = e.Extract(ctx, extraction.Document{Text: "x"})
	if f := outcome.FailureOf(err, outcome.Internal); f.Class != outcome.Timeout || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %+v", f)
	}
}
