package provider

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"extraction-experiment/extraction"
	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/limit"
	"extraction-experiment/internal/proc"
	"extraction-experiment/internal/testkit/suite"
	"extraction-experiment/outcome"
	"extraction-experiment/pipeline"
)

var clock = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// openChild returns an extractor over a child process with that behaviour; see respond.
func openChild(t testing.TB, behaviour string, change func(*ExternalConfig)) *External {
	t.Helper()
	cfg := ExternalConfig{Target: "'" + os.Args[0] + "'", Env: []string{childMode + "=" + behaviour, "GORACE=atexit_sleep_ms=0"}}
	if change != nil {
		change(&cfg)
	}
	e, err := NewExternal(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return e
}

func TestExtract_program(t *testing.T) {
	e := openChild(t, "good", func(c *ExternalConfig) { c.Concurrency = 4 })
	var group sync.WaitGroup
	for i := range 40 {
		group.Go(func() {
			name := fmt.Sprintf("name%d", i)
			found, calls, err := e.Extract(t.Context(), extraction.Document{Text: name + " \u2028 <b>\n\"quoted\" x"})
			want := extraction.Extraction{Entities: []extraction.Entity{{Name: name, Type: "T"}}, Relationships: []extraction.Relationship{}}
			if diff := cmp.Diff(want, found); err != nil || diff != "" {
				t.Errorf("%v\n%s", err, diff)
			}
			if len(calls) != 2 || calls[0].Kind != "span" || string(calls[0].Output) != `{"entities":1,"relationships":0,"warnings":[]}` {
				t.Errorf("calls %+v", calls)
			}
		})
	}
	group.Wait()
}

// TestExtract_programThatDiesAtEveryTenth checks that documents 10, 20, … 60 fail if the program
// dies at its 10th request, and that the others do not.
func TestExtract_programThatDiesAtEveryTenth(t *testing.T) {
	e := openChild(t, "tenth", nil)
	for n := 1; n <= 60; n++ {
		_, calls, err := e.Extract(t.Context(), extraction.Document{Text: "x"})
		if n%10 != 0 {
			if err != nil {
				t.Errorf("document %d: %v", n, err)
			}
			continue
		}
		f := outcome.FailureOf(err, outcome.Internal)
		if f.Class != outcome.Provider || !strings.Contains(f.Message, "exit status 137") || !strings.Contains(f.Message, "out of memory") {
			t.Errorf("document %d: %+v", n, f)
		}
		if len(calls) != 2 || calls[0].Error != f.Message || calls[1].Kind != "generation" || calls[1].CostUSD != nil {
			t.Errorf("document %d: the cost must be unknown: %+v", n, calls)
		}
	}
}

// TestExtract_programThatDiesAtFirst checks that the cost is unknown if the program has read a
// request, although it never answered any.
func TestExtract_programThatDiesAtFirst(t *testing.T) {
	_, calls, err := openChild(t, "first", nil).Extract(t.Context(), extraction.Document{Text: "x"})
	if err == nil || len(calls) != 2 || calls[1].Kind != "generation" || calls[1].CostUSD != nil {
		t.Errorf("%v, %+v", err, calls)
	}
}

func TestExtract_failures(t *testing.T) {
	tests := map[string]struct {
		behaviour, text string
		class           outcome.Class
		message         string
	}{
		"garbage":           {"garbage", "x", outcome.InvalidOutput, "that is not a JSON object on one line"},
		"late answer":       {"late", "x", outcome.InvalidOutput, `answers request "0", asked was "1"`},
		"200,000 entities":  {"many", "x", outcome.InvalidOutput, "it has 200000 entities and 0 relationships; the limit is 50000 of each"},
		"a list":            {"raw", `[]`, outcome.InvalidOutput, "not a JSON object"},
		"null":              {"raw", `null`, outcome.InvalidOutput, "not a JSON object"},
		"nothing found":     {"raw", `{"result":{}}`, outcome.InvalidOutput, "write empty lists where nothing was found"},
		"wrong kind":        {"raw", `{"entities":{"a":1}}`, outcome.InvalidOutput, `entities: expected a list, got an object`},
		"wrong entity":      {"raw", `{"entities":[{"name":[]}]}`, outcome.InvalidOutput, "entities[0].name: expected a string, got a list"},
		"deep":              {"raw", `{"entities":` + strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000) + `}`, outcome.InvalidOutput, "not a JSON object"},
		"own error":         {"raw", `{"error":{"class":"rate_limited","message":"slow down"}}`, outcome.RateLimited, "slow down"},
		"error as text":     {"raw", `{"error":"no luck","entities":[]}`, outcome.Provider, "no luck"},
		"error of no class": {"raw", `{"error":{"class":"internal","message":"m"}}`, outcome.Provider, "m"},
		"error of a form":   {"raw", `{"error":[1]}`, outcome.Provider, "a form that is not known: [1]"},
		"error of nothing":  {"raw", `{"error":{"class":"item"}}`, outcome.Item, "without a message"},
		"error with secret": {"raw", `{"error":"key sk-12345678 was refused"}`, outcome.Provider, "key *** was refused"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if test.behaviour == "many" {
				suite.Slow(t, "it reads 200,000 entities")
			}
			e := openChild(t, test.behaviour, func(c *ExternalConfig) { c.Env = append(c.Env, "X_API_KEY=sk-12345678") })
			found, calls, err := e.Extract(t.Context(), extraction.Document{Text: test.text})
			f := outcome.FailureOf(err, outcome.Internal)
			if f.Class != test.class || !strings.Contains(f.Message, test.message) || found.Entities != nil {
				t.Errorf("got %+v", f)
			}
			if len(calls) == 0 || calls[0].Error == "" {
				t.Errorf("calls %+v", calls)
			}
			var model *pipeline.ModelError
			if !errors.As(err, &model) || model.Retry != (test.class == outcome.RateLimited) {
				t.Errorf("error %+v", model)
			}
		})
	}
}

func TestExtract_emptyErrorIsNone(t *testing.T) {
	e := openChild(t, "raw", nil)
	for _, none := range []string{`null`, `""`, `false`, `{}`, `{"class":"","message":""}`} {
		if _, _, err := e.Extract(t.Context(), extraction.Document{Text: `{"entities":[],"error":` + none + `}`}); err != nil {
			t.Errorf("%s: %v", none, err)
		}
	}
}

func TestExtract_contextEnds(t *testing.T) {
	e := openChild(t, "good", nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, calls, err := e.Extract(ctx, extraction.Document{Text: "x"})
	if !errors.Is(err, context.Canceled) || len(calls) == 0 {
		t.Errorf("got %v, %v", calls, err)
	}
	ctx, cancel = context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	_, _, err = e.Extract(ctx, extraction.Document{Text: "x"})
	if f := outcome.FailureOf(err, outcome.Internal); f.Class != outcome.Timeout || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %+v", f)
	}
}

func TestExtract_closed(t *testing.T) {
	e := openChild(t, "good", nil)
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	_, _, err := e.Extract(t.Context(), extraction.Document{Text: "x"})
	if f := outcome.FailureOf(err, outcome.Internal); !errors.Is(err, proc.ErrClosed) || f.Class != outcome.Provider {
		t.Errorf("got %v", err)
	}
}

func TestRequest(t *testing.T) {
	zero, seed := 0.0, int64(7)
	doc := extraction.Document{
		Text: "<é>\n", Type: "note", AllowedTypes: []string{"P"},
		Objects:       map[string]extraction.ObjectSchema{"P": {Name: "P", Properties: json.RawMessage("{\n}")}},
		Relationships: map[string]extraction.RelationshipSchema{"r": {Name: "r", SourceTypes: []string{"P"}}},
	}
	tests := map[string]struct {
		doc  extraction.Document
		cfg  ExternalConfig
		want string
	}{
		"full": {doc, ExternalConfig{Model: "m", Parameters: pipeline.Parameters{Temperature: &zero, Seed: &seed}},
			`{"id":"1","document_text":"<é>\n","document_type":"note","object_schemas":{"P":{"name":"P","properties":{}}},` +
				`"relationship_schemas":{"r":{"name":"r","source_types":["P"]}},"allowed_types":["P"],"available_tags":[],` +
				`"model":"m","parameters":{"temperature":0,"seed":7}}`},
		"empty": {extraction.Document{}, ExternalConfig{}, `{"id":"1","document_text":"","document_type":"","object_schemas":{},` +
			`"relationship_schemas":{},"allowed_types":[],"available_tags":[]}`},
	}
	for name, test := range tests {
		got, err := encodeRequest("1", test.doc, test.cfg)
		if err != nil || string(got) != test.want {
			t.Errorf("%s:\n%s\n%s\n%v", name, got, test.want, err)
		}
	}
}

func TestNewExternal_problems(t *testing.T) {
	tests := map[string]struct {
		cfg     ExternalConfig
		message []string
		code    int
	}{
		"nothing":         {ExternalConfig{}, []string{"the command is empty"}, 64},
		"a shell":         {ExternalConfig{Target: "a | b"}, []string{"needs a shell"}, 64},
		"no such program": {ExternalConfig{Target: "./no-such-program -x"}, []string{"starting ./no-such-program", "no such file"}, 69},
		"other scheme":    {ExternalConfig{Target: "ftp://host/x"}, []string{"must be an address"}, 64},
		"no host":         {ExternalConfig{Target: "https:///x"}, []string{"and a host"}, 64},
		"key argument":    {ExternalConfig{Target: "/bin/cat hunter2hunter2", Env: []string{"A_KEY=hunter2hunter2"}}, []string{"argument 1", "the value of A_KEY"}, 64},
		"open quote":      {ExternalConfig{Target: "/bin/cat --key 'hunter2"}, []string{`the command "/bin/cat": the quote`}, 64},
		"password":        {ExternalConfig{Target: "https://me:hunter2@host/"}, []string{"holds a password"}, 64},
		"bad address":     {ExternalConfig{Target: "http://ho st/"}, []string{"cannot be read"}, 64},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			e, err := NewExternal(test.cfg)
			if e != nil || err == nil {
				t.Fatal(e, err)
			}
			for _, part := range test.message {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%q does not say %q", err, part)
				}
			}
			if cli.ExitCode(err) != test.code || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("%T %v", err, err)
			}
		})
	}
}

func TestTarget(t *testing.T) {
	e := openChild(t, "good", func(c *ExternalConfig) { c.Target += " --key X" })
	if want := os.Args[0] + " --key ***"; e.Target() != want {
		t.Errorf("got %q", e.Target())
	}
	h := openChild(t, "", func(c *ExternalConfig) { c.Target = " https://host/a?key=1#f" })
	if h.Target() != "https://host/a" {
		t.Errorf("got %q", h.Target())
	}
}

func BenchmarkExtract(b *testing.B) {
	e := openChild(b, "good", nil)
	doc := extraction.Document{Text: strings.Repeat("Ann Lee met Bob. ", 120)} // 2 KB
	for b.Loop() {
		if _, _, err := e.Extract(b.Context(), doc); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "documents/s")
}

// TestExternal_neverAnswers checks that the run stops if none of the first ten requests had an
// answer. A refused document counts as an answer, and requests that fail while the first is in
// progress do not stop the run.
func TestExternal_neverAnswers(t *testing.T) {
	for name, test := range map[string]struct {
		statuses map[int64]int // by request; others are 502
		stops    int           // the request that stops the run; 0 is none
	}{
		"nothing":          {nil, 10},
		"one answer":       {map[int64]int{10: http.StatusOK}, 0},
		"a refusal":        {map[int64]int{3: http.StatusUnprocessableEntity}, 0},
		"too many at once": {map[int64]int{3: http.StatusTooManyRequests}, 0},
	} {
		var requests atomic.Int64
		extract := openTarget(t, func(w http.ResponseWriter, r *http.Request) {
			status, ok := test.statuses[requests.Add(1)]
			if !ok {
				status = http.StatusBadGateway
			}
			w.WriteHeader(status)
			_, _ = io.WriteString(w, `{"entities": []}`)
		})
		for n := range 20 {
			err := extract()
			if tripped, ok := errors.AsType[*limit.TrippedError](err); ok != (test.stops > 0 && n+1 >= test.stops) || ok && !strings.Contains(tripped.Reason, "502") {
				t.Errorf("%s: request %d: %v", name, n+1, err)
			}
		}
	}
	t.Run("slower than those that fail", func(t *testing.T) {
		var requests atomic.Int64
		started, release := make(chan struct{}), make(chan struct{})
		extract := openTarget(t, func(w http.ResponseWriter, r *http.Request) {
			if requests.Add(1) > 1 {
				w.WriteHeader(http.StatusBadGateway)
				return
			}
			close(started)
			<-release
			_, _ = io.WriteString(w, `{"entities": []}`)
		})
		first := make(chan error, 1)
		go func() { first <- extract() }()
		<-started
		for range 20 {
			if err := extract(); err == nil || limit.StopsRun(err) {
				t.Errorf("while the first is on its way: %v", err)
			}
		}
		close(release)
		if err := <-first; err != nil {
			t.Error(err)
		}
	})
}

// openTarget returns a function that sends a document to a server with that handler.
func openTarget(t *testing.T, handler http.HandlerFunc) func() error {
	t.Helper()
	e := servePipeline(t, handler, func(c *ExternalConfig) { c.Concurrency = 2 })
	return func() error {
		_, _, err := e.Extract(t.Context(), extraction.Document{Text: "a"})
		return err
	}
}
