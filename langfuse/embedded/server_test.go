package embedded

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"extraction-experiment/internal/testkit/suite"
	"extraction-experiment/internal/textutil"
)

// clock stands still until advance moves it.
type clock struct{ ms atomic.Int64 }

func newClock() *clock {
	c := &clock{}
	c.ms.Store(time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC).UnixMilli())
	return c
}

func (c *clock) now() time.Time          { return time.UnixMilli(c.ms.Load()) }
func (c *clock) advance(d time.Duration) { c.ms.Add(d.Milliseconds()) }

// testServer is a Server on a real socket, with a test clock.
type testServer struct {
	t      testing.TB
	url    string
	clock  *clock
	server *Server
	http   *http.Client
}

func newTestServer(t testing.TB, cfg Config) *testServer {
	t.Helper()
	r := &testServer{t: t, clock: newClock()}
	if cfg.Now == nil {
		cfg.Now = r.clock.now
	}
	r.server = openServer(t, cfg)
	hs := httptest.NewServer(r.server.Handler())
	t.Cleanup(hs.Close)
	r.url, r.http = hs.URL, hs.Client()
	return r
}

// openServer opens a Server and closes it at the end of the test.
func openServer(t testing.TB, cfg Config) *Server {
	t.Helper()
	s, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("closing: %v", err)
		}
	})
	return s
}

// serve runs Serve on a real socket. It returns the address, and a function that stops the server
// and returns the result of Serve.
func serve(t *testing.T) (address string, stop func() error) {
	t.Helper()
	s := openServer(t, Config{})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	result := make(chan error, 1)
	go func() { result <- s.Serve(ctx, l) }()
	return l.Addr().String(), func() error {
		cancel()
		return <-result
	}
}

// answer is the answer to a request. json is its decoded body, or nil if that is not JSON.
type answer struct {
	status int
	text   string
	header http.Header
	json   any
}

// do sends a request with the default keys; headers are names and values, and "" removes a header.
func (r *testServer) do(method, path string, body any, headers ...string) answer {
	r.t.Helper()
	a, err := r.try(method, path, body, headers...)
	if err != nil {
		r.t.Fatal(err)
	}
	return a
}

// try is do, but returns an error if there is no complete answer.
func (r *testServer) try(method, path string, body any, headers ...string) (answer, error) {
	var in io.Reader
	switch b := body.(type) {
	case nil:
	case string:
		in = strings.NewReader(b)
	case []byte:
		in = bytes.NewReader(b)
	default:
		text, err := json.Marshal(b)
		if err != nil {
			return answer{}, err
		}
		in = bytes.NewReader(text)
	}
	req, err := http.NewRequest(method, r.url+path, in)
	if err != nil {
		return answer{}, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.SetBasicAuth(DefaultPublicKey, DefaultSecretKey)
	for i := 0; i+1 < len(headers); i += 2 {
		if headers[i] == "Host" {
			req.Host = headers[i+1]
			continue
		}
		req.Header.Del(headers[i])
		if headers[i+1] != "" {
			req.Header.Set(headers[i], headers[i+1])
		}
	}
	res, err := r.http.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		return answer{}, err
	}
	a := answer{status: res.StatusCode, text: string(text), header: res.Header}
	_ = json.Unmarshal(text, &a.json) // nil for plain text and HTML
	return a, nil
}

func (r *testServer) get(path string) answer { r.t.Helper(); return r.do("GET", path, nil) }
func (r *testServer) post(path string, body any) answer {
	r.t.Helper()
	return r.do("POST", path, body)
}

// must fails the test unless the answer has the status.
func (r *testServer) must(status int, a answer) answer {
	r.t.Helper()
	if a.status != status {
		r.t.Fatalf("status %d, want %d: %s", a.status, status, textutil.Cut(a.text, 500))
	}
	return a
}

// at returns the value at a path in the JSON of an answer, or nil. Strings select members, ints
// elements.
func (a answer) at(path ...any) any {
	v := a.json
	for _, step := range path {
		switch key := step.(type) {
		case string:
			fields, _ := v.(map[string]any)
			v = fields[key]
		case int:
			list, _ := v.([]any)
			if key >= len(list) {
				return nil
			}
			v = list[key]
		}
	}
	return v
}

// column returns one field of all entries of data.
func (a answer) column(key string) []any {
	list, _ := a.at("data").([]any)
	out := make([]any, len(list))
	for i := range list {
		out[i] = a.at("data", i, key)
	}
	return out
}

// expect reports an error unless the answer has the status, and the text in its body.
func (a answer) expect(t *testing.T, what string, status int, text string) {
	t.Helper()
	if a.status != status || !strings.Contains(a.text, text) {
		t.Errorf("%s: got %d %s, want %d …%s…", what, a.status, textutil.Cut(a.text, 300), status, text)
	}
}

// count returns the number of rows of a table.
func (r *testServer) count(table string) int {
	r.t.Helper()
	n, err := queryInt(r.server.store.r, "SELECT count(*) FROM "+table)
	if err != nil {
		r.t.Fatal(err)
	}
	return n
}

// equalFields compares some fields of the object at a path in an answer.
func equalFields(t *testing.T, a answer, want object, path ...any) {
	t.Helper()
	for key, value := range want {
		equal(t, key, a.at(append(slices.Clone(path), key)...), value)
	}
}

// equal compares got and want as JSON. A message shows them from shortly before the first difference.
func equal(t *testing.T, what string, got, want any) {
	t.Helper()
	g, err := json.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	w, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(g, w) {
		from := 0
		for from < min(len(g), len(w)) && g[from] == w[from] {
			from++
		}
		from = max(0, from-100)
		t.Errorf("%s: got %s, want %s", what, textutil.Cut(string(g[from:]), 600), textutil.Cut(string(w[from:]), 600))
	}
}

const api = "/api/public"

// TestServer_invalidUTF8 checks that an invalid byte becomes U+FFFD in a text and in JSON that is kept as it is.
func TestServer_invalidUTF8(t *testing.T) {
	r := newTestServer(t, Config{})
	r.must(201, r.post(api+"/v2/prompts", `{"name":"p","prompt":"`+"\xff"+`","config":{"a":"`+"\xff\xff"+`"}}`))
	got := r.get(api + "/v2/prompts/p?label=latest").text
	if !strings.Contains(got, `"prompt":"�"`) || !strings.Contains(got, `"config":{"a":"��"}`) {
		t.Errorf("got %q", got)
	}
}

func TestServer_failureShapes(t *testing.T) {
	r := newTestServer(t, Config{})
	cases := map[string]struct {
		method, path string
		body         any
		headers      []string
		status       int
		kind, text   string // beginning of the content type, part of the body
	}{
		"health needs no key":        {"GET", "/health", nil, []string{"Authorization", ""}, 200, "application/json", `"version":"4.16.0"`},
		"no header":                  {"GET", "/projects", nil, []string{"Authorization", ""}, 401, "application/json", `{"message":"No authorization header"}`},
		"wrong key":                  {"GET", "/projects", nil, []string{"Authorization", "Basic YTpi"}, 401, "application/json", `{"message":"Invalid credentials. Confirm that you've configured the correct host."}`},
		"wrong key for prompts":      {"GET", "/v2/prompts", nil, []string{"Authorization", "Basic YTpi"}, 401, "application/json", `"error":"UnauthorizedError"`},
		"wrong key for ingestion":    {"POST", "/ingestion", "{}", []string{"Authorization", "Basic YTpi"}, 401, "application/json", `"error":"UnauthorizedError"`},
		"bearer":                     {"GET", "/projects", nil, []string{"Authorization", "Bearer " + DefaultPublicKey}, 401, "application/json", `Invalid authorization header`},
		"unknown route":              {"GET", "/nothing", nil, nil, 404, "text/html", "<!DOCTYPE html>"},
		"unescaped slash in a name":  {"GET", "/v2/prompts/a/b", nil, nil, 404, "text/html", "<!DOCTYPE html>"},
		"wrong method":               {"PUT", "/v2/datasets", "{}", nil, 405, "application/json", "Method not allowed"},
		"malformed JSON":             {"POST", "/v2/datasets", `{"name":`, nil, 400, "text/plain", "Invalid JSON"},
		"a list for an object":       {"POST", "/v2/datasets", `[]`, nil, 400, "application/json", `"message":"Invalid request data"`},
		"wrong type":                 {"POST", "/v2/datasets", `{"name":7}`, nil, 400, "application/json", `"path":["name"]`},
		"legacy traces":              {"GET", "/traces", nil, nil, 404, "application/json", "Langfuse v4 events_only mode"},
		"legacy trace":               {"GET", "/traces/abc", nil, nil, 404, "application/json", "Langfuse v4 events_only mode"},
		"legacy observation":         {"GET", "/observations/abc", nil, nil, 404, "application/json", "Langfuse v4 events_only mode"},
		"legacy scores":              {"GET", "/v2/scores?limit=1", nil, nil, 404, "application/json", "Langfuse v4 events_only mode"},
		"legacy runs":                {"GET", "/datasets/d/runs/r", nil, nil, 404, "application/json", "Langfuse v4 events_only mode"},
		"legacy run items":           {"GET", "/dataset-run-items?datasetId=d&runName=r", nil, nil, 404, "application/json", "Langfuse v4 events_only mode"},
		"experiments without window": {"GET", "/experiments", nil, nil, 400, "application/json", "fromStartTime"},
		"items without window":       {"GET", "/experiment-items", nil, nil, 400, "application/json", "fromStartTime"},
		"limit over 100":             {"GET", "/dataset-items?limit=101", nil, nil, 400, "application/json", "Invalid request data"},
		"page zero":                  {"GET", "/v2/datasets?page=0", nil, nil, 400, "application/json", "Invalid request data"},
		"a foreign host":             {"GET", "/health", nil, []string{"Host", "evil.example"}, 403, "application/json", "loopback"},
		"a foreign host with port":   {"GET", "/health", nil, []string{"Host", "127.0.0.1.evil.example:80"}, 403, "application/json", "loopback"},
		"localhost":                  {"GET", "/health", nil, []string{"Host", "localhost:4711"}, 200, "application/json", "OK"},
		"IPv6 loopback":              {"GET", "/health", nil, []string{"Host", "[::1]:4711"}, 200, "application/json", "OK"},
		"dataset item over 4.5 MB":   {"POST", "/dataset-items", `{"input":"` + strings.Repeat("x", largeBody) + `"}`, nil, 413, "text/plain", "Body exceeded 4.5mb limit"},
		"ingestion over 4.5 MB":      {"POST", "/ingestion", `{"batch":"` + strings.Repeat("x", largeBody) + `"}`, nil, 413, "text/plain", "Body exceeded 4.5mb limit"},
		"link over 1 MB":             {"POST", "/dataset-run-items", `{"a":"` + strings.Repeat("x", smallBody) + `"}`, nil, 413, "text/plain", "Body exceeded 1mb limit"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			a := r.do(tc.method, api+tc.path, tc.body, tc.headers...)
			if a.status != tc.status || !strings.HasPrefix(a.header.Get("Content-Type"), tc.kind) || !strings.Contains(a.text, tc.text) {
				t.Errorf("got %d %s %s, want %d %s …%s…", a.status, a.header.Get("Content-Type"), textutil.Cut(a.text, 300), tc.status, tc.kind, tc.text)
			}
		})
	}
}

func TestServer_eventsOnlyAnswerHasNoErrorKey(t *testing.T) {
	r := newTestServer(t, Config{})
	equal(t, "error", r.must(404, r.get(api+"/v2/scores")).at("error"), nil)
}

func TestServer_projects(t *testing.T) {
	r := newTestServer(t, Config{ProjectName: "nine"})
	a := r.must(200, r.get(api+"/projects"))
	equal(t, "ids", a.column("id"), []string{DefaultProjectID})
	equal(t, "names", a.column("name"), []string{"nine"})
}

func TestOpen_problems(t *testing.T) {
	dir := t.TempDir()
	garbage := filepath.Join(dir, "garbage")
	if err := os.WriteFile(garbage, []byte(strings.Repeat("this is not a database ", 100)), 0o600); err != nil {
		t.Fatal(err)
	}
	cases := map[string]struct {
		cfg  Config
		want []string
	}{
		"two at once":    {Config{Mode: "v2", Faults: Faults{Latency: -1}}, []string{`mode "v2" is not known`, "latency"}},
		"no such folder": {Config{Path: filepath.Join(dir, "none", "x.db")}, []string{"none"}},
		"not a database": {Config{Path: garbage}, []string{"garbage", "not a database"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s, err := Open(tc.cfg)
			if err == nil {
				t.Fatal(errors.Join(errors.New("opened"), s.Close()))
			}
			for _, want := range tc.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q does not say %q", err, want)
				}
			}
		})
	}
}

func newStoreFile(t *testing.T, dir string) string {
	t.Helper()
	path := filepath.Join(dir, "store ?%.db")
	s, err := Open(Config{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestOpen_fileIsPrivate(t *testing.T) {
	path := newStoreFile(t, t.TempDir())
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	r := newTestServer(t, Config{Path: path})
	r.must(200, r.post(api+"/v2/datasets", object{"name": "d"}))
	for _, suffix := range []string{"", "-wal"} {
		info, err := os.Stat(path + suffix)
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Mode().Perm(); got != 0o600 {
			t.Errorf("%s has mode %o", path+suffix, got)
		}
	}
}

func TestOpen_refusesLaterVersion(t *testing.T) {
	path := newStoreFile(t, t.TempDir())
	s, err := Open(Config{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.store.w.Exec("PRAGMA user_version = 99"); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(Config{Path: path}); err == nil || !strings.Contains(err.Error(), "version 99") || !IsUnreadable(err) {
		t.Errorf("got %v", err)
	}
}

// TestIsUnreadable: of what keeps a store from being opened, only its content makes it unreadable.
func TestIsUnreadable(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	if err := os.WriteFile(path, bytes.Repeat([]byte("no database "), 1000), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(Config{Path: path}); !IsUnreadable(err) {
		t.Errorf("no database: %v", err)
	}
	if _, err := Open(Config{Path: t.TempDir()}); err == nil || IsUnreadable(err) {
		t.Errorf("a folder: %v", err)
	}
}

// TestServer_acknowledgedSurvives checks that all acknowledged data is in the file while the server
// is open, as a killed server leaves it.
func TestServer_acknowledgedSurvives(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	first := newTestServer(t, Config{Path: path})
	first.must(200, first.post(api+"/v2/datasets", object{"name": "d"}))
	first.must(200, first.post(api+"/dataset-items", object{"datasetName": "d", "id": "i", "input": object{"text": "t"}}))
	first.must(207, first.post(api+"/ingestion", batchOf(scoreEvent("e1", "s1", 0.5, "2026-11-21T03:00:00Z"))))
	first.must(201, first.post(api+"/v2/prompts", object{"name": "p", "prompt": "x"}))
	first.must(200, first.post(api+"/otel/v1/traces", export(rootSpan("t1", "r1", "e", "i"))))

	copied := filepath.Join(t.TempDir(), "copy.db") // the files at this moment
	for _, suffix := range []string{"", "-wal"} {
		data, err := os.ReadFile(path + suffix)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(copied+suffix, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	second := newTestServer(t, Config{Path: copied})
	equal(t, "items", second.get(api+"/dataset-items?datasetName=d").column("id"), []string{"i"})
	equal(t, "scores", second.get(api+"/v3/scores").column("id"), []string{"s1"})
	equal(t, "prompts", second.get(api+"/v2/prompts").column("name"), []string{"p"})
	equal(t, "experiments", second.get(api+"/experiments?fromStartTime=2020-01-01T00:00:00Z").column("id"), []string{"e"})
}

func TestServer_serveStops(t *testing.T) {
	address, stop := serve(t)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Get("http://" + address + api + "/health")
	if err != nil {
		t.Fatal(err)
	}
	if err := res.Body.Close(); err != nil {
		t.Fatal(err)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	if _, err := net.Dial("tcp", address); err == nil {
		t.Error("still listening")
	}
}

// TestServer_manyClients checks that concurrent clients never find the store locked and lose
// nothing.
func TestServer_manyClients(t *testing.T) {
	for name, path := range map[string]string{"file": filepath.Join(t.TempDir(), "s.db"), "memory": ""} {
		t.Run(name, func(t *testing.T) {
			r := newTestServer(t, Config{Path: path})
			r.must(200, r.post(api+"/v2/datasets", object{"name": "d"}))
			const clients, each = 12, 3
			var all sync.WaitGroup
			for c := range clients {
				all.Go(func() {
					for i := range each {
						id := string(rune('a'+c)) + string(rune('0'+i))
						for _, a := range []answer{
							r.post(api+"/dataset-items", object{"datasetName": "d", "id": id, "input": object{"n": i}}),
							r.post(api+"/dataset-items", object{"datasetName": "d", "id": "shared", "input": object{"n": i}}),
							r.post(api+"/otel/v1/traces", export(rootSpan("t"+id, "r"+id, "e", id))),
							r.post(api+"/scores", object{"id": "s" + id, "name": "f1", "value": 0, "traceId": "t" + id}),
							r.get(api + "/dataset-items?datasetName=d"),
							r.get(api + "/experiments?fromStartTime=2020-01-01&fields=core,scores"),
						} {
							if a.status != 200 {
								t.Errorf("status %d: %s", a.status, textutil.Cut(a.text, 300))
							}
						}
					}
				})
			}
			all.Wait()
			r.http.CloseIdleConnections()
			want := float64(clients*each + 1)
			if got := r.get(api+"/dataset-items?datasetName=d").at("meta", "totalItems"); got != want {
				t.Errorf("%v items, want %v", got, want)
			}
			if got := r.get(api+"/experiments?fromStartTime=2020-01-01").at("data", 0, "itemCount"); got != want-1 {
				t.Errorf("%v experiment items, want %v", got, want-1)
			}
		})
	}
}

// TestServer_twoOnOneFile checks that two servers on one file wait for each other.
func TestServer_twoOnOneFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.db")
	one, two := newTestServer(t, Config{Path: path}), newTestServer(t, Config{Path: path})
	one.must(200, one.post(api+"/v2/datasets", object{"name": "d"}))
	var both sync.WaitGroup
	for _, r := range []*testServer{one, two} {
		both.Go(func() {
			for i := range 40 {
				a := r.post(api+"/dataset-items", object{"datasetName": "d", "id": string(rune('A' + i)), "input": i})
				if a.status != 200 {
					t.Errorf("status %d: %s", a.status, textutil.Cut(a.text, 300))
				}
			}
		})
	}
	both.Wait()
	equal(t, "items", two.get(api+"/dataset-items?datasetName=d").at("meta", "totalItems"), 40)
}

// TestOpen_otherMode checks that a store is open in one mode at a time.
func TestOpen_otherMode(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.db")
	open := func(mode Mode) (*Server, error) { return Open(Config{Path: path, Mode: mode}) }
	if InUse(path) {
		t.Error("a store that is not there is in use")
	}
	first, err := open(ModeV4Dual)
	if err != nil {
		t.Fatal(err)
	}
	second, err := open(ModeV4Dual)
	if err != nil {
		t.Fatal(err)
	}
	if err := first.Close(); err != nil {
		t.Error(err)
	}
	_, err = open(ModeV3)
	var other *ModeError
	want := ModeError{Wanted: ModeV3, Current: ModeV4Dual}
	if !errors.As(err, &other) || *other != want || other.ExitCode() != 69 {
		t.Errorf("%v, want %+v", err, want)
	}
	if !InUse(path) {
		t.Error("an open store is not in use")
	}
	if err := second.Close(); err != nil {
		t.Error(err)
	}
	if InUse(path) {
		t.Error("a closed store is in use")
	}
	after, err := open(ModeV3)
	if err != nil {
		t.Fatal(err)
	}
	if err := after.Close(); err != nil {
		t.Error(err)
	}
}

// TestServer_pages checks that pages check the host as the API does, and need no keys and have no
// faults.
func TestServer_pages(t *testing.T) {
	r := newTestServer(t, Config{})
	r.get("/runs/x").expect(t, "before there are pages", 404, "This page could not be found")
	r.server.SetPages(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		_, _ = io.WriteString(w, "page "+req.URL.Path)
	}))
	if err := r.server.SetFaults(Faults{FailShare: 1}); err != nil {
		t.Fatal(err)
	}
	get := func(path string, headers ...string) answer {
		t.Helper()
		return r.do("GET", path, nil, append(headers, "Authorization", "")...)
	}
	get("/runs/x").expect(t, "a page", 200, "page /runs/x")
	equal(t, "another host", get("/runs/x", "Host", "rebound.example").status, 403)
	if err := r.server.SetFaults(Faults{}); err != nil {
		t.Fatal(err)
	}
	get("/api/public/projects").expect(t, "the API without a key", 401, "No authorization header")
	get("/api/nothing").expect(t, "a missing route", 404, "<!DOCTYPE html>")
}

// pipeListener accepts the connections of a channel until a nil one.
type pipeListener chan net.Conn

func (l pipeListener) Accept() (net.Conn, error) {
	if c := <-l; c != nil {
		return c, nil
	}
	return nil, net.ErrClosed
}

func (l pipeListener) Close() error { close(l); return nil }
func (pipeListener) Addr() net.Addr { return nil }

// TestServe_stopsAtOnce checks that connections without a request do not delay the end of Serve.
func TestServe_stopsAtOnce(t *testing.T) {
	s := openServer(t, Config{})
	synctest.Test(t, func(t *testing.T) {
		l, result := make(pipeListener), make(chan error, 1)
		ctx, cancel := context.WithCancel(t.Context())
		go func() { result <- s.Serve(ctx, l) }()
		for range 3 {
			client, server := net.Pipe()
			defer client.Close()
			l <- server
		}
		synctest.Wait() // all are accepted
		began := time.Now()
		cancel()
		if err := <-result; err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took >= 5*time.Second { // as a plain http.Server takes
			t.Errorf("it took %s", took)
		}
	})
}

// childEnv is the variable of the environment that makes this test binary serve the file it names.
const childEnv = "EMBEDDED_TEST_SERVE"

func TestMain(m *testing.M) {
	if path := os.Getenv(childEnv); path != "" {
		fmt.Fprintln(os.Stderr, serveForever(path))
		os.Exit(1)
	}
	suite.InMemory()
	goleak.VerifyTestMain(m)
}

// serveForever serves a file in mode v4-dual and prints the address.
func serveForever(path string) error {
	s, err := Open(Config{Path: path, Mode: ModeV4Dual})
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println("http://" + l.Addr().String())
	return http.Serve(l, s.Handler())
}

// TestServer_killed checks that a server that is killed during many writes loses nothing that it
// acknowledged.
func TestServer_killed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), childEnv+"="+path)
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	r := &testServer{t: t, url: strings.TrimSpace(line), http: &http.Client{Transport: &http.Transport{}}}
	r.must(200, r.post(api+"/v2/datasets", object{"name": "d"}))

	var mu sync.Mutex
	acknowledged := map[string]bool{} // by id
	var all sync.WaitGroup
	for c := range 4 {
		all.Go(func() {
			for i := 0; ; i++ {
				id := fmt.Sprintf("%d-%d", c, i)
				good := true
				for _, request := range []struct {
					path   string
					body   object
					status int
				}{
					{"/dataset-items", object{"datasetName": "d", "id": id, "input": 1}, 200},
					{"/ingestion", batchOf(scoreEvent(id, id, 0, at1)), 207},
					{"/dataset-run-items", object{"runName": "r", "datasetItemId": id, "traceId": id}, 200},
					{"/otel/v1/traces", export(rootSpan(id, "r"+id, "e", id)), 200},
				} {
					a, err := r.try("POST", api+request.path, request.body)
					if err != nil {
						return // killed
					}
					good = good && a.status == request.status
				}
				mu.Lock()
				if good {
					acknowledged[id] = true
				}
				enough := len(acknowledged) == 60
				mu.Unlock()
				if enough {
					if err := child.Process.Kill(); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	all.Wait()
	_ = child.Wait() // returns an error, because the process was killed
	r.http.CloseIdleConnections()
	if len(acknowledged) < 60 {
		t.Fatalf("only %d writes were acknowledged", len(acknowledged))
	}
	after := newTestServer(t, Config{Path: path, Mode: ModeV4Dual})
	linked := map[any]bool{}
	items, _ := after.must(200, after.get(api+"/datasets/d/runs/r")).at("datasetRunItems").([]any)
	for _, item := range items {
		linked[item.(map[string]any)["traceId"]] = true
	}
	for id := range acknowledged {
		after.must(200, after.get(api+"/dataset-items/"+id))
		after.must(200, after.get(api+"/traces/"+id))
		after.must(200, after.get(api+"/observations/r"+id))
		equal(t, "link "+id, linked[id], true)
		equal(t, "score "+id, after.get(api+"/v3/scores?id="+id).column("value"), []int{0})
	}
}
