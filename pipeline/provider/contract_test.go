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

	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/limit"
	"extraction-experiment/internal/secret"
	"extraction-experiment/internal/testkit/suite"
	"extraction-experiment/outcome"
	"extraction-experiment/pipeline"
)

// contractKey is the key of the models under test; no message may show it.
const contractKey = "contract-key-0123456789abcdef"

// openAt returns a model that sends to baseURL, with contractKey.
type openAt func(t *testing.T, baseURL string) pipeline.Model

// wireForm describes the answers of a provider.
type wireForm struct {
	// Answer is the body of a complete answer with the text.
	Answer func(text string) string
	// Cut is the body of an answer that the limit of tokens ended.
	Cut func(text string) string
	// Refused and Empty are bodies by name: answers that the model or a filter refused, and
	// answers without text.
	Refused, Empty map[string]string
	// Error is the body of a failed answer with the message.
	Error func(message string) string
	// Temperature and TopP are the paths of the parameters in the body of a request.
	Temperature, TopP []string
	// KeyVariable is the variable that a message about a wrong key names.
	KeyVariable string
}

// runContract tests the contract of pipeline.Model over HTTP, which every provider must keep: what
// is sent, how often, and the result of each way in which a server can misbehave. open must use
// contractKey.
func runContract(t *testing.T, open openAt, wire wireForm) {
	t.Run("answers", func(t *testing.T) { testAnswers(t, open, wire) })
	t.Run("parameters", func(t *testing.T) { testParameters(t, open, wire) })
	t.Run("every parameter", func(t *testing.T) { testEveryParameter(t, open, wire) })
	t.Run("unsupported", func(t *testing.T) { testUnsupported(t, open, wire) })
	t.Run("statuses", func(t *testing.T) { testStatuses(t, open, wire) })
	t.Run("long reasons", func(t *testing.T) { testLongReasons(t, open, wire) })
	t.Run("broken bodies", func(t *testing.T) { testBrokenBodies(t, open, wire) })
	t.Run("broken connections", func(t *testing.T) { testBrokenConnections(t, open, wire) })
	t.Run("stopped", func(t *testing.T) { testContextEnds(t, open, wire) })
	t.Run("concurrent", func(t *testing.T) { testConcurrent(t, open, wire) })
}

// smallRequest returns a request of one message.
func smallRequest(text string) pipeline.Request {
	return pipeline.Request{Messages: []pipeline.Message{{Role: "user", Content: text}}}
}

// recordingServer keeps the bodies of its requests.
type recordingServer struct {
	*httptest.Server
	mu     sync.Mutex
	bodies [][]byte
}

// serve starts a server that answers with the handler.
func serve(t *testing.T, handler http.HandlerFunc) *recordingServer {
	t.Helper()
	s := &recordingServer{}
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

// onlyBody returns the body of the only request; any other number of requests fails the test.
func (s *recordingServer) onlyBody(t *testing.T) []byte {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.bodies) != 1 {
		t.Fatalf("%d requests were sent, want exactly one", len(s.bodies))
	}
	return s.bodies[0]
}

// askOnce sends a small request with a model and checks that the server got exactly one.
func askOnce(t *testing.T, open openAt, handler http.HandlerFunc) (pipeline.Response, error) {
	t.Helper()
	s := serve(t, handler)
	got, err := open(t, s.URL).Generate(t.Context(), smallRequest("hello"))
	s.onlyBody(t)
	return got, err
}

// reply returns a handler that answers with a status and a body, which is JSON unless a header says
// otherwise.
func reply(status int, body string, headers ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		for i := 0; i+1 < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		w.WriteHeader(status)
		// The client may have disconnected.
		_, _ = io.WriteString(w, body)
	}
}

func testAnswers(t *testing.T, open openAt, wire wireForm) {
	text := "{\"entities\": []}\n日本 <b>&\u2028"
	cases := map[string]struct {
		body, text string
		finish     pipeline.Finish
	}{
		"complete":              {wire.Answer(text), text, pipeline.FinishStop},
		"cut":                   {wire.Cut(text), text, pipeline.FinishLength},
		"cut before any letter": {wire.Cut(""), "", pipeline.FinishLength},
		"byte order mark":       {"\ufeff" + wire.Answer(text), text, pipeline.FinishStop},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := askOnce(t, open, reply(http.StatusOK, c.body))
			if err != nil || got.Text != c.text || got.Finish != c.finish || got.Attempts != 1 {
				t.Errorf("got %+v, %v", got, err)
			}
		})
	}
	for name, body := range wire.Refused {
		t.Run("refused/"+name, func(t *testing.T) {
			got, err := askOnce(t, open, reply(http.StatusOK, body))
			if err != nil || got.Finish != pipeline.FinishRefused || got.Text == "" || got.Attempts != 1 {
				t.Errorf("got %+v, %v", got, err)
			}
		})
	}
	for name, body := range wire.Empty {
		t.Run("empty/"+name, func(t *testing.T) {
			got, err := askOnce(t, open, reply(http.StatusOK, body))
			failed := modelFailure(t, err)
			if failed.Failure.Class != outcome.InvalidOutput || got.Text != "" || got.Attempts != 1 {
				t.Errorf("got %+v, %v", got, err)
			}
		})
	}
}

func testParameters(t *testing.T, open openAt, wire wireForm) {
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
			body := s.onlyBody(t)
			if want := pipeline.AppendMessages(nil, req.Messages); bytes.Contains(body, want) != (string(sent) == string(want)) || sent != nil && string(sent) != string(want) {
				t.Errorf("Request.Sent is %q: it must be the messages, %s, if the body has them so, and nothing else: %s", sent, want, body)
			}
			if got := jsonAt(t, body, wire.Temperature); got != c.wantT {
				t.Errorf("temperature is %q on the wire, want %q: %s", got, c.wantT, body)
			}
			if got := jsonAt(t, body, wire.TopP); got != c.wantP {
				t.Errorf("top_p is %q on the wire, want %q: %s", got, c.wantP, body)
			}
		})
	}
}

// testEveryParameter checks that each parameter changes what is sent.
func testEveryParameter(t *testing.T, open openAt, wire wireForm) {
	bodyWith := func(set func(*pipeline.Parameters)) string {
		s, req := serve(t, reply(http.StatusOK, wire.Answer("x"))), smallRequest("hello")
		set(&req.Parameters)
		if _, err := open(t, s.URL).Generate(t.Context(), req); err != nil {
			t.Fatal(err)
		}
		return string(s.onlyBody(t))
	}
	none := bodyWith(func(*pipeline.Parameters) {})
	for i, v := range new(pipeline.Parameters).List() {
		if bodyWith(func(p *pipeline.Parameters) { p.List()[i].Set("1") }) == none {
			t.Errorf("%s is not sent", v.Name)
		}
	}
}

// jsonAt returns the JSON at a path through objects, or "".
func jsonAt(t *testing.T, body []byte, path []string) string {
	t.Helper()
	for _, name := range path {
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

// testUnsupported checks that a request that no model can carry out is refused before anything is
// sent, and stops the run: the requests of all items are alike in that.
func testUnsupported(t *testing.T, open openAt, wire wireForm) {
	broken := smallRequest("hello")
	broken.Parameters.Temperature = new(math.NaN())
	for name, req := range map[string]pipeline.Request{"no messages": {}, "not a number": broken} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, reply(http.StatusOK, wire.Answer("x")))
			_, err := open(t, s.URL).Generate(t.Context(), req)
			if cli.ExitCode(err) != 64 || !limit.StopsRun(err) || len(s.bodies) != 0 {
				t.Errorf("got %v after %d requests", err, len(s.bodies))
			}
		})
	}
}

// testConcurrent checks that each of many calls at once gets its own answer.
func testConcurrent(t *testing.T, open openAt, wire wireForm) {
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

// modelFailure returns the ModelError in the chain of err. It fails the test if there is none, if
// outcome.FailureOf finds another class, if the message is empty, too long or shows the key, or if
// there is a pause without a retry.
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

func testStatuses(t *testing.T, open openAt, wire wireForm) {
	const html = "<!DOCTYPE html><html><body>502 Bad Gateway</body></html>"
	errorBody := wire.Error("something is wrong with " + contractKey + ", said the server")
	for name, c := range map[string]struct {
		status  int
		body    string
		headers []string
		class   outcome.Class
		retry   bool
		after   time.Duration
		want    string // in the message
	}{
		"400 with the reason":     {400, errorBody, nil, outcome.Provider, false, 0, "400: something is wrong with ***, said the server"},
		"400 after a mark":        {400, "\ufeff" + errorBody, nil, outcome.Provider, false, 0, "400: something is wrong with ***, said the server"},
		"401":                     {401, errorBody, nil, outcome.Provider, false, 0, "check " + wire.KeyVariable},
		"403":                     {403, errorBody, nil, outcome.Provider, false, 0, "check " + wire.KeyVariable},
		"404":                     {404, errorBody, nil, outcome.Provider, false, 0, "has the model"},
		"404 of another server":   {404, "404 page not found\n", []string{"Content-Type", "text/plain"}, outcome.Provider, false, 0, "404 page not found"},
		"413":                     {413, errorBody, nil, outcome.Provider, false, 0, "413: something"},
		"429":                     {429, errorBody, nil, outcome.RateLimited, true, 0, "429: something"},
		"429 with seconds":        {429, errorBody, []string{"Retry-After", "7"}, outcome.RateLimited, true, 7 * time.Second, "wait 7s"},
		"429 with a fraction":     {429, errorBody, []string{"Retry-After", "0.5"}, outcome.RateLimited, true, 500 * time.Millisecond, "wait 500ms"},
		"429 with a date":         {429, errorBody, []string{"Date", "Wed, 04 Mar 2026 05:06:07 GMT", "Retry-After", "Wed, 04 Mar 2026 05:08:07 GMT"}, outcome.RateLimited, true, 2 * time.Minute, "wait 2m0s"},
		"429 with a past date":    {429, errorBody, []string{"Retry-After", "Wed, 04 Mar 2026 05:00:00 GMT"}, outcome.RateLimited, true, 0, "429: something"},
		"429 with nonsense":       {429, errorBody, []string{"Retry-After", "soon"}, outcome.RateLimited, true, 0, "429: something"},
		"429 with minus":          {429, errorBody, []string{"Retry-After", "-5"}, outcome.RateLimited, true, 0, "429: something"},
		"429 with a century":      {429, errorBody, []string{"Retry-After", "3e9"}, outcome.RateLimited, true, 24 * time.Hour, "wait 24h"},
		"429 as a page":           {429, html, []string{"Content-Type", "text/html"}, outcome.RateLimited, true, 0, "a web page"},
		"500 as text":             {500, "oops " + contractKey, []string{"Content-Type", "text/plain"}, outcome.Provider, true, 0, "500: oops ***"},
		"500 as JSON":             {500, errorBody, nil, outcome.Provider, true, 0, "500: something"},
		"500 as other JSON":       {500, `{"error":["a",{"b":1}]}`, nil, outcome.Provider, true, 0, `500: ["a",{"b":1}]`},
		"502 as a page":           {502, html, nil, outcome.Provider, true, 0, "a web page"},
		"503":                     {503, errorBody, []string{"Retry-After", "3"}, outcome.Provider, true, 3 * time.Second, "503: something"},
		"503 without a body":      {503, "", nil, outcome.Provider, true, 0, "503: the answer says nothing more"},
		"501 stays":               {501, errorBody, nil, outcome.Provider, false, 0, "501: something"},
		"308 is not followed":     {308, "", []string{"Location", "/elsewhere"}, outcome.Provider, false, 0, `redirects to "/elsewhere"`},
		"302 is not followed":     {302, wire.Answer("x"), []string{"Location", "/elsewhere"}, outcome.Provider, false, 0, `redirects to "/elsewhere"`},
		"error with status 200":   {200, errorBody, nil, outcome.Provider, false, 0, "something is wrong"},
		"invalid letters in text": {500, "bad \xff\xfe", nil, outcome.Provider, true, 0, "500: bad \uFFFD"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := askOnce(t, open, reply(c.status, c.body, c.headers...))
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
		})
	}
}

// testLongReasons checks that a long body does not make a long message, and that the message shows
// no part of a key where it is cut.
func testLongReasons(t *testing.T, open openAt, wire wireForm) {
	for _, message := range []string{strings.Repeat("日", 1<<19), strings.Repeat("-"+contractKey, 1<<15), strings.Repeat(" ", 3<<10-10) + strings.Repeat(contractKey, 9)} {
		for _, body := range []string{wire.Error(message), message} {
			for _, status := range suite.SampleOr([]int{200, 401}, []int{200, 401, 429, 500}) {
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

// testBrokenBodies checks the failures for status 200 with a body that is not an answer.
func testBrokenBodies(t *testing.T, open openAt, wire wireForm) {
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
			_, err := askOnce(t, open, reply(http.StatusOK, c.body, "Content-Type", c.kind))
			failed := modelFailure(t, err)
			if failed.Failure.Class != outcome.Provider || failed.Status != 200 || !strings.Contains(failed.Failure.Message, c.want) {
				t.Errorf("got %+v", failed)
			}
		})
	}
}

func testBrokenConnections(t *testing.T, open openAt, wire wireForm) {
	whole := wire.Answer("a text")
	t.Run("in the middle of the body", func(t *testing.T) {
		for status, want := range map[int]string{200: "broke", 500: "500: "} {
			_, err := askOnce(t, open, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Length", strconv.Itoa(len(whole)))
				w.WriteHeader(status)
				_, _ = io.WriteString(w, whole[:len(whole)/2])
				_ = http.NewResponseController(w).Flush()
				panic(http.ErrAbortHandler)
			})
			failed := modelFailure(t, err)
			if failed.Failure.Class != outcome.Provider || !failed.Retry || failed.Status != status || !strings.Contains(failed.Failure.Message, want) {
				t.Errorf("got %+v", failed)
			}
		}
	})
	t.Run("before the answer", func(t *testing.T) {
		_, err := askOnce(t, open, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
		if failed := modelFailure(t, err); failed.Failure.Class != outcome.Provider || !failed.Retry || failed.Status != 0 {
			t.Errorf("got %+v", failed)
		}
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

// expiring is a context that says, when it is cancelled, that its deadline has passed. A test cannot
// know how long a request takes to arrive.
type expiring struct{ context.Context }

func (c expiring) Err() error {
	if c.Context.Err() == nil {
		return nil
	}
	return context.DeadlineExceeded
}

// testContextEnds checks that a call ends with its context, and that the error of the context is in
// the chain.
func testContextEnds(t *testing.T, open openAt, wire wireForm) {
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
			s.onlyBody(t)
		})
		t.Run("too late/"+name, func(t *testing.T) {
			s := serve(t, hang)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			go func() {
				<-arrived
				cancel()
			}()
			got, err := open(t, s.URL).Generate(expiring{ctx}, smallRequest("hello"))
			if !errors.Is(err, context.DeadlineExceeded) || outcome.FailureOf(err, outcome.Provider).Class != outcome.Timeout {
				t.Errorf("got %v", err)
			}
			if got.Attempts != 1 {
				t.Errorf("got %+v", got)
			}
			s.onlyBody(t)
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

// fuzzModel checks that, for any answer of a server, a call returns a Response with text or a
// reason for none, or a ModelError that does not show the key. open gets the HTTP client to use.
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

// checkProblems checks the error for a configuration: exit code 64, one line for each problem,
// without the key.
func checkProblems(t *testing.T, name string, model pipeline.Model, err error, problems []string) {
	t.Helper()
	if model != nil || err == nil {
		t.Fatalf("%s: got %v, %v", name, model, err)
	}
	if lines := strings.Split(err.Error(), "\n"); cli.ExitCode(err) != 64 || len(lines) != len(problems) || strings.Contains(err.Error(), contractKey) {
		t.Errorf("%s: got %q", name, lines)
	}
	for _, want := range problems {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q in it", name, err, want)
		}
	}
}

// TestVariables checks that the table has every variable that a provider reads, and that evaluators
// get none of them.
func TestVariables(t *testing.T) {
	for _, r := range table() {
		read := func(name string) string {
			if !slices.Contains(r.variables, name) {
				t.Errorf("%s reads %s, which its row in the table does not have", r.name, name)
			}
			return ""
		}
		_, _ = Open(r.name+r.suffix, Config{Getenv: read}) // a missing key is an error
		for _, name := range r.variables {
			if given, _ := secret.Withhold([]string{name + "=x"}, nil); len(given) > 0 {
				t.Errorf("evaluators get %s: internal/secret/environ.go lists what they do not get", name)
			}
		}
	}
}
