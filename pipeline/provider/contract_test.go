package provider

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"extraction-experiment/internal/secret"
	"extraction-experiment/internal/testkit/suite"
	"extraction-experiment/outcome"
	"extraction-experiment/pipeline"
)

// contractKey is the key that models under test send; it must never show.
const contractKey = "contract-key-0123456789abcdef"

// contractClock is the time that models under test believe it to be.
func contractClock() time.Time { return time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC) }

// openAt returns a model that sends to baseURL, with contractKey and contractClock.
type openAt func(t *testing.T, baseURL string) pipeline.Model

// wireForm is how one provider's answers look.
type wireForm struct {
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

// runContract runs the contract of pipeline.Model over HTTP, as every provider must keep
// it: what goes out, how often, and what becomes of each way in which a server can
// misbehave. The models are opened with contractKey and contractClock.
func runContract(t *testing.T, open openAt, wire wireForm) {
	t.Run("answers", func(t *testing.T) { answers(t, open, wire) })
	t.Run("parameters", func(t *testing.T) { parameters(t, open, wire) })
	t.Run("unsupported", func(t *testing.T) { unsupportedParameters(t, open, wire) })
	t.Run("statuses", func(t *testing.T) { statuses(t, open, wire) })
	t.Run("long reasons", func(t *testing.T) { longReasons(t, open, wire) })
	t.Run("broken bodies", func(t *testing.T) { brokenBodies(t, open, wire) })
	t.Run("broken connections", func(t *testing.T) { brokenConnections(t, open, wire) })
	t.Run("stopped", func(t *testing.T) { stopped(t, open, wire) })
	t.Run("concurrent", func(t *testing.T) { concurrent(t, open, wire) })
}

// smallRequest is a small one.
func smallRequest(text string) pipeline.Request {
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

func answers(t *testing.T, open openAt, wire wireForm) {
	text := "{\"entities\": []}\n日本 <b>&\u2028"
	cases := map[string]struct {
		body, text string
		finish     pipeline.Finish
	}{
		"complete":              {wire.Answer(text), text, pipeline.FinishStop},
		"cut":                   {wire.Cut(text), text, pipeline.FinishLength},
		"cut before any letter": {wire.Cut(""), "", pipeline.FinishLength},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := serve(t, reply(http.StatusOK, c.body))
			got, err := open(t, s.URL).Generate(t.Context(), smallRequest("hello"))
			if err != nil || got.Text != c.text || got.Finish != c.finish || got.Attempts != 1 {
				t.Errorf("got %+v, %v", got, err)
			}
			s.once(t)
		})
	}
	for name, body := range wire.Refused {
		t.Run("refused/"+name, func(t *testing.T) {
			s := serve(t, reply(http.StatusOK, body))
			got, err := open(t, s.URL).Generate(t.Context(), smallRequest("hello"))
			if err != nil || got.Finish != pipeline.FinishRefused || got.Text == "" || got.Attempts != 1 {
				t.Errorf("got %+v, %v", got, err)
			}
			s.once(t)
		})
	}
	for name, body := range wire.Empty {
		t.Run("empty/"+name, func(t *testing.T) {
			s := serve(t, reply(http.StatusOK, body))
			got, err := open(t, s.URL).Generate(t.Context(), smallRequest("hello"))
			failed := modelFailure(t, err)
			if failed.Failure.Class != outcome.InvalidOutput || got.Text != "" || got.Attempts != 1 {
				t.Errorf("got %+v, %v", got, err)
			}
			s.once(t)
		})
	}
}

func parameters(t *testing.T, open openAt, wire wireForm) {
	for name, c := range map[string]struct {
		parameters pipeline.Parameters
		wantT      string // "" is absent
		wantP      string
	}{
		"zero is sent":             {pipeline.Parameters{Temperature: new(0.0), TopP: new(0.0)}, "0", "0"},
		"nil is not sent":          {pipeline.Parameters{}, "", ""},
		"every digit is sent":      {pipeline.Parameters{Temperature: new(0.2), TopP: new(0.123456789012)}, "0.2", "0.123456789012"},
		"one is sent":              {pipeline.Parameters{Temperature: new(1.0), TopP: new(1.0)}, "1", "1"},
		"one of the two, the zero": {pipeline.Parameters{TopP: new(0.0)}, "", "0"},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, reply(http.StatusOK, wire.Answer("x")))
			req := smallRequest("hello")
			var sent json.RawMessage
			req.Parameters, req.Sent = c.parameters, &sent
			if _, err := open(t, s.URL).Generate(t.Context(), req); err != nil {
				t.Fatal(err)
			}
			body := s.once(t)
			if want := pipeline.AppendMessages(nil, req.Messages); bytes.Contains(body, want) != (string(sent) == string(want)) || sent != nil && string(sent) != string(want) {
				t.Errorf("Request.Sent is %q: it must be the messages, %s, if the body has them so, and nothing else: %s", sent, want, body)
			}
			if got := at(t, body, wire.Temperature); got != c.wantT {
				t.Errorf("temperature is %q on the wire, want %q: %s", got, c.wantT, body)
			}
			if got := at(t, body, wire.TopP); got != c.wantP {
				t.Errorf("top_p is %q on the wire, want %q: %s", got, c.wantP, body)
			}
		})
	}
}

// at returns the JSON text at a way through objects, "" if there is none.
func at(t *testing.T, body []byte, way []string) string {
	t.Helper()
	for _, name := range way {
		var object map[string]json.RawMessage
		if err := json.Unmarshal(body, &object); err != nil {
			t.Fatalf("%s: %v", body, err)
		}
		if body = object[name]; body == nil {
			return ""
		}
	}
	return string(body)
}

// unsupportedParameters: what no model can do is refused before anything is sent.
func unsupportedParameters(t *testing.T, open openAt, wire wireForm) {
	broken := smallRequest("hello")
	broken.Parameters.Temperature = new(math.NaN())
	for name, req := range map[string]pipeline.Request{"no messages": {}, "not a number": broken} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, reply(http.StatusOK, wire.Answer("x")))
			_, err := open(t, s.URL).Generate(t.Context(), req)
			coded, ok := err.(interface{ ExitCode() int })
			if !ok || coded.ExitCode() != 64 || len(s.bodies) != 0 {
				t.Errorf("got %v after %d requests", err, len(s.bodies))
			}
		})
	}
}

// concurrent: answers do not get mixed up.
func concurrent(t *testing.T, open openAt, wire wireForm) {
	marker := regexp.MustCompile(`marker-\d+`)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Errorf("reading the request: %v", err)
		}
		reply(http.StatusOK, wire.Answer(string(marker.Find(body))))(w, r)
	}))
	t.Cleanup(s.Close)
	model := open(t, s.URL)
	var group sync.WaitGroup
	for i := range 16 {
		group.Go(func() {
			want := fmt.Sprintf("marker-%d", i)
			got, err := model.Generate(t.Context(), smallRequest(want))
			if err != nil || got.Text != want || got.Attempts != 1 {
				t.Errorf("%s: got %+v, %v", want, got, err)
			}
		})
	}
	group.Wait()
}

// modelFailure returns the ModelError of an error, and fails the test where there is
// none, where it is not found by its class, or shows the key.
func modelFailure(t *testing.T, err error) *pipeline.ModelError {
	t.Helper()
	var failed *pipeline.ModelError
	if !errors.As(err, &failed) {
		t.Fatalf("got %v, want a ModelError", err)
	}
	found := outcome.FailureOf(err, outcome.Item)
	switch {
	case found.Class != failed.Failure.Class || found.Class == outcome.OK || found.Class == outcome.Item:
		t.Errorf("the class is %q, found is %q", failed.Failure.Class, found.Class)
	case strings.Contains(err.Error(), contractKey):
		t.Errorf("the key shows: %v", err)
	case failed.Failure.Message == "" || len(failed.Failure.Message) > outcome.MaxMessage || !utf8.ValidString(failed.Failure.Message):
		t.Errorf("the message has %d bytes or is not valid: %.300q", len(failed.Failure.Message), failed.Failure.Message)
	case failed.RetryAfter > 0 && !failed.Retry:
		t.Errorf("a pause is asked for and no repetition: %+v", failed)
	}
	return failed
}

func statuses(t *testing.T, open openAt, wire wireForm) {
	const html = "<!DOCTYPE html><html><body>502 Bad Gateway</body></html>"
	said := wire.Error("something is wrong with " + contractKey + ", said the server")
	for name, c := range map[string]struct {
		status  int
		body    string
		headers []string
		class   outcome.Class
		retry   bool
		after   time.Duration
		want    string // in the message
	}{
		"400 with the reason":     {400, said, nil, outcome.Provider, false, 0, "400: something is wrong with ***, said the server"},
		"401":                     {401, said, nil, outcome.Provider, false, 0, "check " + wire.KeyVariable},
		"403":                     {403, said, nil, outcome.Provider, false, 0, "check " + wire.KeyVariable},
		"404":                     {404, said, nil, outcome.Provider, false, 0, "has the model"},
		"404 of another server":   {404, "404 page not found\n", []string{"Content-Type", "text/plain"}, outcome.Provider, false, 0, "404 page not found"},
		"413":                     {413, said, nil, outcome.Provider, false, 0, "413: something"},
		"429":                     {429, said, nil, outcome.RateLimited, true, 0, "429: something"},
		"429 with seconds":        {429, said, []string{"Retry-After", "7"}, outcome.RateLimited, true, 7 * time.Second, "wait 7s"},
		"429 with a fraction":     {429, said, []string{"Retry-After", "0.5"}, outcome.RateLimited, true, 500 * time.Millisecond, "wait 500ms"},
		"429 with a date":         {429, said, []string{"Date", "Wed, 04 Mar 2026 05:06:07 GMT", "Retry-After", "Wed, 04 Mar 2026 05:08:07 GMT"}, outcome.RateLimited, true, 2 * time.Minute, "wait 2m0s"},
		"429 with a past date":    {429, said, []string{"Retry-After", "Wed, 04 Mar 2026 05:00:00 GMT"}, outcome.RateLimited, true, 0, "429: something"},
		"429 with nonsense":       {429, said, []string{"Retry-After", "soon"}, outcome.RateLimited, true, 0, "429: something"},
		"429 with minus":          {429, said, []string{"Retry-After", "-5"}, outcome.RateLimited, true, 0, "429: something"},
		"429 with a century":      {429, said, []string{"Retry-After", "3e9"}, outcome.RateLimited, true, 24 * time.Hour, "wait 24h"},
		"429 as a page":           {429, html, []string{"Content-Type", "text/html"}, outcome.RateLimited, true, 0, "a web page"},
		"500 as text":             {500, "oops " + contractKey, []string{"Content-Type", "text/plain"}, outcome.Provider, true, 0, "500: oops ***"},
		"500 as JSON":             {500, said, nil, outcome.Provider, true, 0, "500: something"},
		"500 as other JSON":       {500, `{"error":["a",{"b":1}]}`, nil, outcome.Provider, true, 0, `500: ["a",{"b":1}]`},
		"502 as a page":           {502, html, nil, outcome.Provider, true, 0, "a web page"},
		"503":                     {503, said, []string{"Retry-After", "3"}, outcome.Provider, true, 3 * time.Second, "503: something"},
		"503 without a body":      {503, "", nil, outcome.Provider, true, 0, "503: the answer says nothing more"},
		"501 stays":               {501, said, nil, outcome.Provider, false, 0, "501: something"},
		"308 is not followed":     {308, "", []string{"Location", "/elsewhere"}, outcome.Provider, false, 0, `redirects to "/elsewhere"`},
		"302 is not followed":     {302, wire.Answer("x"), []string{"Location", "/elsewhere"}, outcome.Provider, false, 0, `redirects to "/elsewhere"`},
		"error with status 200":   {200, said, nil, outcome.Provider, false, 0, "something is wrong"},
		"invalid letters in text": {500, "bad \xff\xfe", nil, outcome.Provider, true, 0, "500: bad \uFFFD"},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, reply(c.status, c.body, c.headers...))
			got, err := open(t, s.URL).Generate(t.Context(), smallRequest("hello"))
			failed := modelFailure(t, err)
			if failed.Failure.Class != c.class || failed.Status != c.status || failed.Retry != c.retry || failed.RetryAfter != c.after {
				t.Errorf("got %+v", failed)
			}
			if !strings.Contains(failed.Failure.Message, c.want) {
				t.Errorf("got %q, want %q in it", failed.Failure.Message, c.want)
			}
			if got.Attempts != 1 || got.Text != "" {
				t.Errorf("got %+v", got)
			}
			s.once(t)
		})
	}
}

// longReasons: a server's page is not a reason for a message of a megabyte, and
// the cut does not leave half a key.
func longReasons(t *testing.T, open openAt, wire wireForm) {
	for _, message := range []string{strings.Repeat("日", 1<<19), strings.Repeat("-"+contractKey, 1<<15), strings.Repeat(" ", 3<<10-10) + strings.Repeat(contractKey, 9)} {
		for _, body := range []string{wire.Error(message), message} {
			for _, status := range suite.Of([]int{200, 401}, []int{200, 401, 429, 500}) {
				s := serve(t, reply(status, body))
				_, err := open(t, s.URL).Generate(t.Context(), smallRequest("hello"))
				failed := modelFailure(t, err)
				if strings.Contains(failed.Failure.Message, contractKey[:12]) {
					t.Errorf("%d: part of the key shows in %.100q…", status, failed.Failure.Message)
				}
				if status == 401 && !strings.Contains(failed.Failure.Message, wire.KeyVariable) {
					t.Errorf("the advice was cut off: …%s", failed.Failure.Message[len(failed.Failure.Message)-50:])
				}
			}
		}
	}
}

// brokenBodies: a good status over something that is not an answer.
func brokenBodies(t *testing.T, open openAt, wire wireForm) {
	whole := wire.Answer("a text")
	for name, c := range map[string]struct{ body, kind, want string }{
		"nothing":       {"", "application/json", "is empty"},
		"text":          {"hello " + contractKey, "text/plain", "not the expected JSON"},
		"cut JSON":      {whole[:len(whole)/2], "application/json", "not the expected JSON"},
		"a page":        {"<html><body>Log in</body></html>", "text/html", "a web page"},
		"a stream":      {"data: " + whole + "\n\ndata: [DONE]\n\n", "text/event-stream", "not the expected JSON"},
		"a list":        {"[" + whole + "]", "application/json", "not the expected JSON"},
		"a number":      {"17", "application/json", "not the expected JSON"},
		"endless depth": {strings.Repeat("[", 1<<20), "application/json", "not the expected JSON"},
		"deep members":  {strings.Repeat(`{"choices":`, 1<<16) + strings.Repeat(`{"candidates":`, 1<<16), "application/json", "not the expected JSON"},
		"zero bytes":    {strings.Repeat("\x00", 1000), "application/json", "not the expected JSON"},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, reply(http.StatusOK, c.body, "Content-Type", c.kind))
			_, err := open(t, s.URL).Generate(t.Context(), smallRequest("hello"))
			failed := modelFailure(t, err)
			if failed.Failure.Class != outcome.Provider || failed.Status != 200 || !strings.Contains(failed.Failure.Message, c.want) {
				t.Errorf("got %+v", failed)
			}
			s.once(t)
		})
	}
}

func brokenConnections(t *testing.T, open openAt, wire wireForm) {
	whole := wire.Answer("a text")
	t.Run("in the middle of the body", func(t *testing.T) {
		for status, want := range map[int]string{200: "broke", 500: "500: "} {
			s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Length", strconv.Itoa(len(whole)))
				w.WriteHeader(status)
				_, _ = io.WriteString(w, whole[:len(whole)/2])
				_ = http.NewResponseController(w).Flush()
				panic(http.ErrAbortHandler)
			})
			_, err := open(t, s.URL).Generate(t.Context(), smallRequest("hello"))
			failed := modelFailure(t, err)
			if failed.Failure.Class != outcome.Provider || !failed.Retry || failed.Status != status || !strings.Contains(failed.Failure.Message, want) {
				t.Errorf("got %+v", failed)
			}
			s.once(t)
		}
	})
	t.Run("before the answer", func(t *testing.T) {
		s := serve(t, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
		_, err := open(t, s.URL).Generate(t.Context(), smallRequest("hello"))
		if failed := modelFailure(t, err); failed.Failure.Class != outcome.Provider || !failed.Retry || failed.Status != 0 {
			t.Errorf("got %+v", failed)
		}
		s.once(t)
	})
	t.Run("nobody listens", func(t *testing.T) {
		s := serve(t, reply(http.StatusOK, whole))
		s.Close()
		_, err := open(t, s.URL).Generate(t.Context(), smallRequest("hello"))
		failed := modelFailure(t, err)
		if failed.Failure.Class != outcome.Provider || !failed.Retry || !strings.Contains(failed.Failure.Message, s.URL) {
			t.Errorf("got %+v", failed)
		}
	})
}

// stopped: the context ends the call, and its error is in the chain.
func stopped(t *testing.T, open openAt, wire wireForm) {
	whole := wire.Answer("a text")
	for name, begin := range map[string]string{"before the answer": "", "within the body": whole[:len(whole)/2]} {
		arrived := make(chan struct{}, 1)
		hang := func(w http.ResponseWriter, r *http.Request) {
			if begin != "" {
				_, _ = io.WriteString(w, begin)
				_ = http.NewResponseController(w).Flush()
			}
			arrived <- struct{}{}
			<-r.Context().Done()
		}
		t.Run("cancelled/"+name, func(t *testing.T) {
			s := serve(t, hang)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			go func() {
				<-arrived
				cancel()
			}()
			_, err := open(t, s.URL).Generate(ctx, smallRequest("hello"))
			if !errors.Is(err, context.Canceled) {
				t.Errorf("got %v", err)
			}
			s.once(t)
		})
		t.Run("too late/"+name, func(t *testing.T) {
			s := serve(t, hang)
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			got, err := open(t, s.URL).Generate(ctx, smallRequest("hello"))
			if !errors.Is(err, context.DeadlineExceeded) || outcome.FailureOf(err, outcome.Provider).Class != outcome.Timeout {
				t.Errorf("got %v", err)
			}
			if got.Attempts != 1 {
				t.Errorf("got %+v", got)
			}
			s.once(t)
		})
	}
	t.Run("before it began", func(t *testing.T) {
		s := serve(t, reply(http.StatusOK, whole))
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := open(t, s.URL).Generate(ctx, smallRequest("hello")); !errors.Is(err, context.Canceled) || len(s.bodies) != 0 {
			t.Errorf("got %v after %d requests", err, len(s.bodies))
		}
	})
}

// fuzzModel is the property that whatever a server answers, with any status, kind
// and body, the call returns a Response with text or a reason, or an error with
// a ModelError; the key never shows. openAt is given the HTTP client to use.
func fuzzModel(f *testing.F, open func(t testing.TB, client *http.Client) pipeline.Model, wire wireForm) {
	add := func(status int, body string) { f.Add(status, "application/json", "5", []byte(body)) }
	for _, body := range []string{wire.Answer("text"), wire.Cut(""), wire.Error("reason"), "", "null", "{}", "[]", `{"error":"x"}`} {
		for _, status := range []int{200, 400, 429, 500} {
			add(status, body)
		}
	}
	for _, bodies := range []map[string]string{wire.Refused, wire.Empty} {
		for _, body := range bodies {
			add(200, body)
		}
	}
	f.Add(502, "text/html", "Wed, 04 Mar 2026 05:08:07 GMT", []byte("<html>"))
	var answer http.Response
	client := &http.Client{Transport: roundTrip(func(req *http.Request) (*http.Response, error) {
		copied := answer
		copied.Request = req
		return &copied, nil
	})}
	model := open(f, client)
	f.Fuzz(func(t *testing.T, status int, kind, after string, body []byte) {
		answer = http.Response{
			StatusCode: 100 + ((status-100)%900+900)%900, ProtoMajor: 1, ProtoMinor: 1,
			Header: http.Header{"Content-Type": {kind}, "Retry-After": {after}},
			Body:   io.NopCloser(strings.NewReader(string(body))),
		}
		got, err := model.Generate(t.Context(), smallRequest("hello"))
		if err != nil {
			modelFailure(t, err)
			return
		}
		if got.Attempts != 1 || got.Finish == "" || got.Text == "" && got.Finish != pipeline.FinishLength && got.Finish != pipeline.FinishRefused {
			t.Errorf("got %+v", got)
		}
		if u := got.Usage; min(u.Input, u.Output, u.Cached, u.Reasoning) < 0 || u.Cached > u.Input || u.Reasoning > u.Output {
			t.Errorf("usage %+v", u)
		}
	})
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// TestVariables: a row has every variable that its provider reads, and programs that are
// not trusted with secrets get none of them.
func TestVariables(t *testing.T) {
	for _, r := range table() {
		read := func(name string) string {
			if !slices.Contains(r.variables, name) {
				t.Errorf("%s reads %s, which its row in the table does not have", r.name, name)
			}
			return ""
		}
		_, _ = Open(r.name+r.rest, Config{Getenv: read}) // a missing key is an error
		for _, name := range r.variables {
			if given, _ := secret.Withhold([]string{name + "=x"}, nil); len(given) > 0 {
				t.Errorf("evaluators get %s: internal/secret/environ.go lists what they do not get", name)
			}
		}
	}
}
