package runs

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"extraction-experiment/internal/cli"
)

// serveSite serves a site with the run "p/d/a b.run".
func serveSite(t *testing.T, change func(*site)) *httptest.Server {
	t.Helper()
	trace := func(_ context.Context, w io.Writer, r *http.Request) error {
		return writeText(w, "trace "+r.PathValue("id"))
	}
	cfg := site{slots: make(chan struct{}, 2), pages: map[string]pageWriter{
		"GET /{$}": func(_ context.Context, w io.Writer, _ *http.Request) error { return writeText(w, "list") },
		"GET /runs/{path...}": func(_ context.Context, w io.Writer, r *http.Request) error {
			if path := r.PathValue("path"); path != "p/d/a b.run" {
				return notFound("there is no run " + path)
			}
			return writeText(w, "run p/d/a b.run")
		},
		"GET /compare": func(_ context.Context, w io.Writer, r *http.Request) error {
			base, candidates, err := comparedPaths(r)
			if err != nil {
				return err
			}
			return writeText(w, base+" against "+strings.Join(candidates, ","))
		},
		"GET /traces/{id}": trace, "GET /project/{project}/traces/{id}": trace,
	}}
	if change != nil {
		change(&cfg)
	}
	server := httptest.NewServer(cfg.handler())
	t.Cleanup(server.Close)
	return server
}

func writeText(w io.Writer, text string) error {
	_, err := io.WriteString(w, text)
	return err
}

// get sends a request without following redirects.
func get(t *testing.T, server *httptest.Server, method, path string, headers ...string) (status int, body string, header http.Header) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, server.URL+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	answer, err := (&http.Client{Transport: server.Client().Transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}).Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	raw, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(raw), answer.Header
}

func TestSite(t *testing.T) {
	server := serveSite(t, nil)
	for name, tt := range map[string]struct {
		method, path string
		status       int
		want         string // in the body, or the target of a redirect
	}{
		"list":                  {"GET", "/", 200, "list"},
		"run":                   {"GET", runAddress("p/d/a b.run"), 200, "run p/d/a b.run"},
		"no run":                {"GET", "/runs/x.run", 404, "there is no run x.run"},
		"comparison":            {"GET", "/compare?base=a&cand=b&cand=c", 200, "a against b,c"},
		"with itself":           {"GET", "/compare?base=a&cand=a", 400, "choose a run as the base"},
		"too many":              {"GET", "/compare?base=a" + strings.Repeat("&cand=b", 21), 400, "21 candidates are too many"},
		"trace":                 {"GET", traceAddress("a/b"), 200, "trace a/b"},
		"Langfuse's trace":      {"GET", "/project/p/traces/abc", 200, "trace abc"},
		"Langfuse's comparison": {"GET", "/project/p/datasets/d/compare?runs=r1&runs=r2", 302, "/"},
		"Langfuse's prompt":     {"GET", "/project/p/prompts/x", 302, "/"},
		"no page":               {"GET", "/etc/passwd", 404, "there is no page /etc/passwd"},
		"writing":               {"POST", "/", 405, "Method Not Allowed"},
		"deleting":              {"DELETE", "/runs/p/d/a%20b.run", 405, "Method Not Allowed"},
		"a name of HTML":        {"GET", "/<b>x", 404, "there is no page /&lt;b&gt;x"},
		"zero byte":             {"GET", "/runs/a%00b.run", 404, `there is no run a\x00b`},
	} {
		status, body, header := get(t, server, tt.method, tt.path)
		if status/100 == 3 {
			body = header.Get("Location")
		}
		if status != tt.status || !strings.Contains(body, tt.want) {
			t.Errorf("%s: %d %q, want %d %q", name, status, body, tt.status, tt.want)
		}
		if wantType := map[bool]string{true: "text/html; charset=utf-8", false: "text/plain; charset=utf-8"}[status != 405]; status/100 != 3 && header.Get("Content-Type") != wantType {
			t.Errorf("%s: type %q", name, header.Get("Content-Type"))
		}
		if header.Get("X-Content-Type-Options") != "nosniff" || !strings.Contains(header.Get("Content-Security-Policy"), "frame-ancestors 'none'") || header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: headers %v", name, header)
		}
	}
}

// TestSite_otherSites: another web site can link to the pages, but not load them.
func TestSite_otherSites(t *testing.T) {
	server := serveSite(t, nil)
	for _, tt := range []struct {
		site, mode string
		want       int
	}{{"cross-site", "no-cors", 403}, {"same-site", "cors", 403}, {"cross-site", "navigate", 200}, {"same-origin", "no-cors", 200}, {"none", "navigate", 200}} {
		if status, _, _ := get(t, server, "GET", "/", "Sec-Fetch-Site", tt.site, "Sec-Fetch-Mode", tt.mode); status != tt.want {
			t.Errorf("%s %s: %d, want %d", tt.site, tt.mode, status, tt.want)
		}
	}
}

// TestSite_errors: an error before the page is a response; an error within the page breaks
// the connection.
func TestSite_errors(t *testing.T) {
	var writePage func(io.Writer) error
	server := serveSite(t, func(cfg *site) {
		cfg.pages["GET /{$}"] = func(_ context.Context, w io.Writer, _ *http.Request) error { return writePage(w) }
	})
	writePage = func(io.Writer) error { return errors.New("the disk is \x1b[31mgone") }
	if status, body, _ := get(t, server, "GET", "/"); status != 500 || !strings.Contains(body, "<p>the disk is \\x1b[31mgone</p>") {
		t.Errorf("%d %q", status, body)
	}
	writePage = func(io.Writer) error { return cli.Usage("no item of the runs has a score x") }
	if status, _, _ := get(t, server, "GET", "/"); status != 400 {
		t.Error(status)
	}
	writePage = func(io.Writer) error { return nil }
	if status, _, header := get(t, server, "GET", "/"); status != 200 || header.Get("Content-Type") != "text/html; charset=utf-8" {
		t.Errorf("an empty page: %d %v", status, header)
	}
	writePage = func(w io.Writer) error {
		return errors.Join(writeText(w, strings.Repeat("x", 100_000)), errors.New("gone"))
	}
	answer, err := server.Client().Get(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if _, err := io.ReadAll(answer.Body); err == nil {
		t.Error("half a page passes for a whole one")
	}
	if status, _, _ := get(t, server, "GET", "/traces/x"); status != 200 {
		t.Error("a broken page took the turn of the next one with it")
	}
}

// TestSite_atOnce: if all slots are taken, a request waits until it is canceled.
func TestSite_atOnce(t *testing.T) {
	started, finish := make(chan struct{}), make(chan struct{})
	server := serveSite(t, func(cfg *site) {
		cfg.slots = make(chan struct{}, 1)
		cfg.pages["GET /{$}"] = func(context.Context, io.Writer, *http.Request) error {
			started <- struct{}{}
			<-finish
			return nil
		}
	})
	go server.Client().Get(server.URL) //nolint // the response does not matter
	<-started
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, "GET", server.URL+"/traces/a", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := server.Client().Do(request); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a second page was written at once: %v", err)
	}
	close(finish)
	if status, _, _ := get(t, server, "GET", "/traces/a"); status != 200 {
		t.Error(status)
	}
}
