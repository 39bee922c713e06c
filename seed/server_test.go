package seed

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"extraction-experiment/langfuse"
	"extraction-experiment/langfuse/embedded"
)

// server is the embedded Langfuse behind a counter of requests.
type server struct {
	*langfuse.Client
	t     *testing.T
	url   string
	store *embedded.Server
	mode  embedded.Mode

	mu    sync.Mutex
	count map[string]int // "POST /dataset-items": how often
	// sent, if set, gets the body of every request.
	sent *bytes.Buffer
	// broken, if set, may answer a request in the server's place.
	broken func(w http.ResponseWriter, r *http.Request, n int) bool
}

func newServer(t *testing.T) *server {
	t.Helper()
	return newServerIn(t, embedded.ModeV4)
}

func newServerIn(t *testing.T, mode embedded.Mode) *server {
	t.Helper()
	store, err := embedded.Open(embedded.Config{Mode: mode})
	if err != nil {
		t.Fatal(err)
	}
	s := &server{t: t, count: map[string]int{}, store: store, mode: mode}
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := r.Method + " " + strings.TrimPrefix(r.URL.Path, "/api/public")
		s.mu.Lock()
		s.count[name]++
		n, broken := s.count[name], s.broken
		if s.sent != nil {
			body, err := io.ReadAll(r.Body)
			if err != nil {
				t.Error(err)
			}
			s.sent.WriteString(r.URL.String() + "\n")
			s.sent.Write(body)
			r.Body = io.NopCloser(bytes.NewReader(body))
		}
		s.mu.Unlock()
		if broken == nil || !broken(w, r, n) {
			store.Handler().ServeHTTP(w, r)
		}
	}))
	t.Cleanup(func() {
		web.Close()
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	s.url = web.URL
	s.Client, err = langfuse.New(langfuse.Config{
		BaseURL: web.URL, PublicKey: embedded.DefaultPublicKey, SecretKey: langfuse.NewSecret(embedded.DefaultSecretKey), MaxAttempts: 1,
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// writes returns how many items were written since the last call.
func (s *server) writes() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.count["POST /dataset-items"]
	s.count["POST /dataset-items"] = 0
	return n
}

func (s *server) breaks(broken func(w http.ResponseWriter, r *http.Request, n int) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.broken = broken
}

// items lists the dataset as id=input, sorted by nothing.
func (s *server) items(dataset string) map[string]langfuse.DatasetItem {
	s.t.Helper()
	items := map[string]langfuse.DatasetItem{}
	q := langfuse.DatasetItemsQuery{DatasetName: dataset, Version: langfuse.DatasetVersion{Time: time.Now().Add(time.Minute)}}
	for item, err := range s.ListDatasetItems(context.Background(), q) {
		if err != nil {
			s.t.Fatal(err)
		}
		items[item.ID] = item
	}
	return items
}

// seed seeds a text of JSONL.
func (s *server) seed(text string, cfg Config) (Result, error) {
	s.t.Helper()
	if cfg.Dataset == "" {
		cfg.Dataset = "docs"
	}
	return File(context.Background(), s.Client, read(text), cfg)
}

func (s *server) mustSeed(text string, cfg Config) Result {
	s.t.Helper()
	result, err := s.seed(text, cfg)
	if err != nil {
		s.t.Fatal(err)
	}
	if result.Err() != nil {
		s.t.Fatal(result.Err())
	}
	return result
}

func compactJSON(raw []byte) string { return string(bytes.ReplaceAll(raw, []byte(" "), nil)) }
