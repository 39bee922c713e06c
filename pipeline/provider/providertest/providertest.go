// Package providertest is the contract of pipeline.Model over HTTP as one test
// suite, run over every provider: what goes out, how often, and what becomes of
// each way in which a server can misbehave. A provider says in a Wire how its
// answers look and how to open a model on an address:
//
//	func TestContract(t *testing.T) {
//		providertest.Run(t, func(t *testing.T, baseURL string) pipeline.Model { … }, wire)
//	}
//
// The models are opened with Key and Clock.
package providertest

import (
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"extraction-experiment/pipeline"
)

// Key is the key that models under test send; it must never show.
const Key = "contract-key-0123456789abcdef"

// Clock is the time that models under test believe it to be.
func Clock() time.Time { return time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC) }

// Open returns a model that sends to baseURL, with Key and Clock.
type Open func(t *testing.T, baseURL string) pipeline.Model

// Wire is how one provider's answers look.
type Wire struct {
	// Answer is the body of a complete answer with the text.
	Answer func(text string) string
	// Cut is the body of an answer that the limit of tokens ended.
	Cut func(text string) string
	// Refused and Empty are bodies by name: of answers that the model or a
	// filter declined, and of answers without text.
	Refused, Empty map[string]string
	// Error is the body of a failed answer with the message.
	Error func(message string) string
	// Temperature and TopP are the ways to the parameters in a request's body.
	Temperature, TopP []string
	// KeyVariable is what a message about a wrong key names.
	KeyVariable string
}

// Run runs the whole contract.
func Run(t *testing.T, open Open, wire Wire) {
	t.Run("answers", func(t *testing.T) { answers(t, open, wire) })
	t.Run("parameters", func(t *testing.T) { parameters(t, open, wire) })
	t.Run("unsupported", func(t *testing.T) { unsupported(t, open, wire) })
	t.Run("statuses", func(t *testing.T) { statuses(t, open, wire) })
	t.Run("long reasons", func(t *testing.T) { longReasons(t, open, wire) })
	t.Run("broken bodies", func(t *testing.T) { brokenBodies(t, open, wire) })
	t.Run("broken connections", func(t *testing.T) { brokenConnections(t, open, wire) })
	t.Run("stopped", func(t *testing.T) { stopped(t, open, wire) })
	t.Run("concurrent", func(t *testing.T) { concurrent(t, open, wire) })
}

// request is a small one.
func request(text string) pipeline.Request {
	return pipeline.Request{Messages: []pipeline.Message{{Role: "user", Content: text}}}
}

// server is a server that remembers what it was asked.
type server struct {
	*httptest.Server
	mu     sync.Mutex
	bodies [][]byte
}

// serve starts a server that hands requests to handler after it kept them.
func serve(t *testing.T, handler http.HandlerFunc) *server {
	t.Helper()
	s := &server{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Errorf("reading the request: %v", err)
		}
		s.mu.Lock()
		s.bodies = append(s.bodies, body)
		s.mu.Unlock()
		handler(w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

// once fails the test unless the server was asked exactly once, and returns the
// request's body.
func (s *server) once(t *testing.T) []byte {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.bodies) != 1 {
		t.Fatalf("%d requests were sent, want exactly one", len(s.bodies))
	}
	return s.bodies[0]
}

// reply answers with a status and a body, of JSON unless a header says else.
func reply(status int, body string, headers ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		for i := 0; i+1 < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		w.WriteHeader(status)
		// A client that gives up early is part of the tests.
		_, _ = io.WriteString(w, body)
	}
}
