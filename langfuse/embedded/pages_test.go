package embedded

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

// TestServer_pages: pages stand beside the API, under the same check of the
// host, without keys and without faults.
func TestServer_pages(t *testing.T) {
	r := newRig(t, Config{})
	if a := r.get("/runs/x"); a.status != http.StatusNotFound || !strings.Contains(a.text, "This page could not be found") {
		t.Errorf("before there are pages: %d %s", a.status, a.text)
	}
	r.server.SetPages(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		_, _ = io.WriteString(w, "page "+req.URL.Path)
	}))
	if err := r.server.SetFaults(Faults{Fail: 1}); err != nil {
		t.Fatal(err)
	}
	request := func(path, host string) (int, string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, r.url+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if host != "" {
			req.Host = host
		}
		answer, err := r.http.Do(req)
		if err != nil {
			return 0, ""
		}
		defer answer.Body.Close()
		raw, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		return answer.StatusCode, string(raw)
	}
	if status, text := request("/runs/x", ""); status != 200 || text != "page /runs/x" {
		t.Errorf("%d %s", status, text)
	}
	if status, _ := request("/runs/x", "rebound.example"); status != http.StatusForbidden {
		t.Errorf("another host is answered %d", status)
	}
	if err := r.server.SetFaults(Faults{}); err != nil {
		t.Fatal(err)
	}
	if status, text := request("/api/public/projects", ""); status != http.StatusUnauthorized || strings.HasPrefix(text, "page") {
		t.Errorf("the API without a key: %d %s", status, text)
	}
	if status, text := request("/api/nothing", ""); status != http.StatusNotFound || strings.HasPrefix(text, "page") {
		t.Errorf("what the API lacks: %d %s", status, text)
	}
}
