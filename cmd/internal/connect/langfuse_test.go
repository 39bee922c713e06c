package connect

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"extraction-experiment/langfuse"
	"extraction-experiment/langfuse/embedded"
)

// silent accepts requests and never answers.
type silent struct{}

func (silent) RoundTrip(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

// TestProbe_silent: a person waits for 8 s twice and a pause between, no longer, also
// with a mode that is insisted on.
func TestProbe_silent(t *testing.T) {
	for _, mode := range []langfuse.Mode{"", langfuse.ModeLegacy} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			_, err := dial(t.Context(), langfuse.Config{
				BaseURL: "http://silent", PublicKey: "pk-lf-x", SecretKey: langfuse.NewSecret("sk-lf-x"), HTTPClient: &http.Client{Transport: silent{}},
			}, mode, nil)
			if waited := time.Since(began); waited < 16*time.Second || waited > 17*time.Second {
				t.Errorf("mode %q: waited %s", mode, waited)
			}
			if err == nil || !strings.Contains(err.Error(), "/health: no answer from http://silent: no complete answer within 8s (sent 2 times)") {
				t.Errorf("mode %q: %v", mode, err)
			}
		})
	}
}

// TestLangfuse_paused: why a request was sent again is known afterwards.
func TestLangfuse_paused(t *testing.T) {
	server, err := embedded.Open(embedded.Config{})
	if err != nil {
		t.Fatal(err)
	}
	refused := false
	hs := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/v2/datasets") && !refused {
			refused = true
			w.Header().Set("Retry-After", "0.001")
			w.WriteHeader(http.StatusTooManyRequests)
			return
		}
		server.Handler().ServeHTTP(w, r)
	}))
	l, err := dial(t.Context(), withKeys(hs.URL), "", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		hs.Close()
		if err := errors.Join(l.Close(), server.Close()); err != nil {
			t.Error(err)
		}
	}()
	if reason, _ := l.Paused(); reason != nil {
		t.Errorf("before: %v", reason)
	}
	for _, err := range l.Client.ListDatasets(t.Context()) {
		if err != nil {
			t.Error(err)
		}
	}
	if reason, until := l.Paused(); reason == nil || !strings.Contains(reason.Error(), "429") || until.IsZero() {
		t.Errorf("after: %v, %s", reason, until)
	}
}
