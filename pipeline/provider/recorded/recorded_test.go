package recorded

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"extraction-experiment/internal/limit"
	"extraction-experiment/outcome"
	"extraction-experiment/pipeline"
)

var update = flag.Bool("update", false, "write the golden files")

var source = Source{Provider: "openai", Model: "gpt-4o"}

// script answers with a function.
type script func(ctx context.Context, req pipeline.Request) (pipeline.Response, error)

func (s script) Generate(ctx context.Context, req pipeline.Request) (pipeline.Response, error) {
	return s(ctx, req)
}

func ask(text string) pipeline.Request {
	return pipeline.Request{Messages: []pipeline.Message{{Role: "user", Content: text}}}
}

// create begins a cassette in a folder of its own.
func create(t *testing.T) (*Tape, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "run.cassette")
	tape, err := Create(path, source)
	if err != nil {
		t.Fatal(err)
	}
	return tape, path
}

// replay opens a cassette until the test ends.
func replay(t *testing.T, path string) *Model {
	t.Helper()
	model, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := model.Close(); err != nil {
			t.Error(err)
		}
	})
	return model
}

func exitCode(err error) int {
	var coded interface{ ExitCode() int }
	if errors.As(err, &coded) {
		return coded.ExitCode()
	}
	return -1
}

// TestGolden: the file as it lies on disk holds what a request and a response
// hold and nothing else.
func TestGolden(t *testing.T) {
	temperature, limit, seed, cost := 0.0, 100, int64(7), 0.0045
	tape, path := create(t)
	answers := []func() (pipeline.Response, error){
		func() (pipeline.Response, error) {
			return pipeline.Response{Text: "{\"entities\": []} <&> \u2028 日本", Finish: pipeline.FinishStop, Model: "gpt-4o-2024-08-06",
				Usage: outcome.Usage{Input: 1000, Output: 200, Cached: 10, Reasoning: 5}, CostUSD: &cost, Attempts: 2}, nil
		},
		func() (pipeline.Response, error) {
			return pipeline.Response{}, fmt.Errorf("chunk 2: %w", &pipeline.ModelError{
				Failure: outcome.Failure{Class: outcome.RateLimited, Message: "429: slow down"}, Status: 429, RetryAfter: 1500 * time.Millisecond, Retry: true})
		},
		func() (pipeline.Response, error) {
			return pipeline.Response{Usage: outcome.Usage{Input: 3}, Attempts: 1}, &pipeline.ModelError{Failure: outcome.Failure{Class: outcome.InvalidOutput, Message: "the answer is empty"}, Status: 200}
		},
	}
	call := 0
	model := Record(script(func(context.Context, pipeline.Request) (pipeline.Response, error) {
		call++
		return answers[call-1]()
	}), tape)
	req := pipeline.Request{
		Messages:   []pipeline.Message{{Role: "system", Content: "Extract <entities>"}, {Role: "user", Content: "Ada met Charles."}},
		Parameters: pipeline.Parameters{Temperature: &temperature, MaxTokens: &limit, Seed: &seed},
		Schema:     &pipeline.Schema{Name: "extraction", JSON: json.RawMessage("{ \"type\" : \"object\",\n \"b\": 1, \"a\": 2}")},
	}
	for _, r := range []pipeline.Request{req, req, ask("other")} {
		model.Generate(t.Context(), r)
	}
	if err := tape.Close(); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	golden := filepath.Join("testdata", "golden.cassette")
	if *update {
		if err := os.WriteFile(golden, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Error(diff)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v: only the owner may read it", info.Mode(), err)
	}
	replayed := replay(t, golden)
	if replayed.Source() != source || replayed.Len() != 3 {
		t.Errorf("source %+v, %d exchanges", replayed.Source(), replayed.Len())
	}
	for i, r := range []pipeline.Request{req, req, ask("other")} {
		sameAnswer(t, replayed, r, answers[i])
	}
}

// sameAnswer compares a replayed answer with the one that was recorded.
func sameAnswer(t *testing.T, model pipeline.Model, req pipeline.Request, answer func() (pipeline.Response, error)) {
	t.Helper()
	want, wantErr := answer()
	got, err := model.Generate(t.Context(), req)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(outcome.FailureOf(wantErr, outcome.Provider), outcome.FailureOf(err, outcome.Provider)); diff != "" {
		t.Error(diff)
	}
	if wantErr == nil {
		return
	}
	var wantModel, gotModel *pipeline.ModelError
	if errors.As(wantErr, &wantModel); !errors.As(err, &gotModel) || cmp.Diff(wantModel, gotModel) != "" || err.Error() != wantErr.Error() {
		t.Errorf("got %#v %q, want %#v %q", gotModel, err, wantModel, wantErr)
	}
}

func TestModel_repeats(t *testing.T) {
	tape, path := create(t)
	call := 0
	model := Record(script(func(context.Context, pipeline.Request) (pipeline.Response, error) {
		call++
		return pipeline.Response{Text: fmt.Sprint(call)}, nil
	}), tape)
	for _, text := range []string{"a", "b", "a"} { // answered 1, 2, 3
		if _, err := model.Generate(t.Context(), ask(text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := tape.Close(); err != nil {
		t.Fatal(err)
	}
	replayed, got := replay(t, path), ""
	for _, text := range []string{"a", "a", "b", "a", "b"} {
		response, err := replayed.Generate(t.Context(), ask(text))
		if err != nil {
			t.Fatal(err)
		}
		got += response.Text
	}
	// a: 1, then 3, then 3 again; b: 2, then 2 again.
	if got != "13232" {
		t.Errorf("got %s, want 13232", got)
	}
}

func TestModel_missing(t *testing.T) {
	tape, path := create(t)
	model := Record(script(func(context.Context, pipeline.Request) (pipeline.Response, error) { return pipeline.Response{}, nil }), tape)
	if _, err := model.Generate(t.Context(), ask("known")); err != nil {
		t.Fatal(err)
	}
	if err := tape.Close(); err != nil {
		t.Fatal(err)
	}
	zero, replayed := 0.0, replay(t, path)
	long := "Extract from: " + strings.Repeat("é", 200) + " THE END"
	for name, tt := range map[string]struct {
		req  pipeline.Request
		want string
	}{
		"another document":  {ask("unknown"), `"unknown"`},
		"another parameter": {pipeline.Request{Messages: ask("known").Messages, Parameters: pipeline.Parameters{Temperature: &zero}}, `"known"`},
		"another schema":    {pipeline.Request{Messages: ask("known").Messages, Schema: &pipeline.Schema{Name: "x", JSON: json.RawMessage(`{}`)}}, `"known"`},
		"no message":        {pipeline.Request{}, "no messages"},
		"a long document":   {ask(long), `THE END" (422 bytes)`}, // 14 + 2×200 + 8
	} {
		t.Run(name, func(t *testing.T) {
			_, err := replayed.Generate(t.Context(), tt.req)
			var model *pipeline.ModelError
			if !errors.As(err, &model) || model.Failure.Class != outcome.Provider || model.Retry {
				t.Fatalf("got %#v", err)
			}
			for _, want := range []string{tt.want, path, "gpt-4o", "--record"} {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q does not say %q", err, want)
				}
			}
			if len(err.Error()) > 1000 {
				t.Errorf("the message has %d bytes", len(err.Error()))
			}
		})
	}
}

func TestModel_stopped(t *testing.T) {
	model := replay(t, filepath.Join("testdata", "golden.cassette"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := model.Generate(ctx, ask("other")); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// TestModel_changed: a file that is changed under an open model is noticed.
func TestModel_changed(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("testdata", "golden.cassette"))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "x")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	model := replay(t, path)
	if err := os.WriteFile(path, bytes.ReplaceAll(text, []byte("other"), []byte("OTHER")), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = model.Generate(t.Context(), ask("other"))
	if outcome.FailureOf(err, "").Class != outcome.Internal || !strings.Contains(err.Error(), "line 4") {
		t.Errorf("got %v", err)
	}
}

// TestConcurrent: whole lines, every answer once, and in the replay too.
func TestConcurrent(t *testing.T) {
	tape, path := create(t)
	model := Record(script(func(_ context.Context, req pipeline.Request) (pipeline.Response, error) {
		return pipeline.Response{Text: strings.Repeat(req.Messages[0].Content, 5000)}, nil
	}), tape)
	together := func(model pipeline.Model) {
		var wg sync.WaitGroup
		for i := range 40 {
			wg.Go(func() {
				text := fmt.Sprintf("<%d>", i%20)
				got, err := model.Generate(t.Context(), ask(text))
				if err != nil || got.Text != strings.Repeat(text, 5000) {
					t.Errorf("%s: %d bytes, %v", text, len(got.Text), err)
				}
			})
		}
		wg.Wait()
	}
	together(model)
	if err := tape.Close(); err != nil {
		t.Fatal(err)
	}
	replayed := replay(t, path)
	if replayed.Len() != 40 {
		t.Errorf("%d exchanges", replayed.Len())
	}
	together(replayed)
}

// A call that is not made because the run stops is no exchange: made again when
// the run is resumed, it is the only one, and what is replayed.
func TestRecord_runStops(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.cassette")
	tape, err := Create(path, source)
	if err != nil {
		t.Fatal(err)
	}
	stops := []error{limit.ErrStopped, &pipeline.BudgetError{}, fmt.Errorf("item 3: %w", &limit.TrippedError{Reason: "401"})}
	for _, stop := range stops {
		stopping := Record(script(func(context.Context, pipeline.Request) (pipeline.Response, error) {
			return pipeline.Response{Attempts: 1}, stop
		}), tape)
		if _, err := stopping.Generate(t.Context(), ask("other")); !errors.Is(err, stop) {
			t.Errorf("%v became %v", stop, err)
		}
	}
	if err := tape.Close(); err != nil {
		t.Fatal(err)
	}
	if tape, err = Continue(path, source); err != nil {
		t.Fatal(err)
	}
	answering := Record(script(func(context.Context, pipeline.Request) (pipeline.Response, error) {
		return pipeline.Response{Text: "{}", Attempts: 1}, nil
	}), tape)
	if _, err := answering.Generate(t.Context(), ask("other")); err != nil {
		t.Fatal(err)
	}
	if err := tape.Close(); err != nil {
		t.Fatal(err)
	}
	model := replay(t, path)
	if r, err := model.Generate(t.Context(), ask("other")); err != nil || r.Text != "{}" || model.Len() != 1 {
		t.Errorf("%d exchanges, %+v, %v", model.Len(), r, err)
	}
}
