package pipeline_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/testkit/suite"
	"extraction-experiment/outcome"
	"extraction-experiment/pipeline"
)

// countingModel counts its calls.
type countingModel struct {
	mu       sync.Mutex
	calls    int
	response pipeline.Response
	err      error
}

func (c *countingModel) Generate(context.Context, pipeline.Request) (pipeline.Response, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls++
	return c.response, c.err
}

func paidResponse() pipeline.Response {
	cost := 0.25
	return pipeline.Response{
		Text: `{"entities":[]}`, Finish: pipeline.FinishStop, Model: "m-2026", Attempts: 2,
		Usage: outcome.Usage{Input: 100, Output: 7}, CostUSD: &cost,
	}
}

func cacheRequest() pipeline.Request {
	return pipeline.Request{
		Messages: []pipeline.Message{{Role: "user", Content: "who?"}},
		Schema:   &pipeline.Schema{Name: "s", JSON: []byte(`{"type":"object"}`)},
	}
}

var source = pipeline.CacheSource{Provider: "openai", Model: "m"}

func openCache(t testing.TB, path string) *pipeline.Cache {
	t.Helper()
	cache, err := pipeline.OpenCache(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cache.Err(); err != nil {
			t.Error(err)
		}
	})
	return cache
}

func ask(t testing.TB, ctx context.Context, model pipeline.Model, req pipeline.Request) pipeline.Response {
	t.Helper()
	r, err := model.Generate(ctx, req)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestCached_hit(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a", "b")
	model := &countingModel{response: paidResponse()}
	model.response.Assumed, model.response.UsageProblem = outcome.Usage{Input: 9}, "an earlier request reported no usage"
	if r := ask(t, t.Context(), pipeline.Cached(model, openCache(t, path), source), cacheRequest()); r.Cached || r.Attempts != 2 || *r.CostUSD != 0.25 {
		t.Errorf("a miss gives what the model gave: %+v", r)
	}
	// Another process opens the folder later.
	r := ask(t, t.Context(), pipeline.Cached(model, openCache(t, path), source), cacheRequest())
	if !r.Cached || r.CostUSD == nil || *r.CostUSD != 0 || r.Usage.Add(r.Assumed) != (outcome.Usage{}) || r.UsageProblem != "" || r.Attempts != 0 {
		t.Errorf("a hit costs nothing: %+v", r)
	}
	if r.Text != paidResponse().Text || r.Finish != pipeline.FinishStop || r.Model != "m-2026" || model.calls != 1 {
		t.Errorf("%+v after %d calls", r, model.calls)
	}
	for _, file := range files(t, path) {
		info, err := os.Stat(file)
		if err != nil {
			t.Fatal(err)
		}
		if mode := info.Mode().Perm(); runtime.GOOS != "windows" && mode != 0o600 {
			t.Errorf("%s has mode %o", file, mode)
		}
		if raw, err := os.ReadFile(file); err != nil || bytes.Contains(raw, []byte("who?")) {
			t.Errorf("the prompt is in the file: %v", err)
		}
	}
}

// files returns the files in the subfolders of the cache.
func files(t testing.TB, path string) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(path, "*", "*"))
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// TestCached_otherQuestions checks that every part of a request is part of the key.
func TestCached_otherQuestions(t *testing.T) {
	zero, one, tokens, seed := 0.0, 1.0, 5, int64(0)
	model := &countingModel{response: paidResponse()}
	cache := openCache(t, t.TempDir())
	wantCalls := 0
	try := func(what string, source pipeline.CacheSource, ctx context.Context, change func(*pipeline.Request)) {
		t.Helper()
		req := cacheRequest()
		change(&req)
		for range 2 { // the second time, it is cached
			ask(t, ctx, pipeline.Cached(model, cache, source), req)
		}
		if wantCalls++; model.calls != wantCalls {
			t.Errorf("%s: the model was asked %d times, want %d", what, model.calls, wantCalls)
		}
	}
	same := func(*pipeline.Request) {}
	try("first", source, t.Context(), same)
	try("trial", source, pipeline.WithTrial(t.Context(), pipeline.Trial{Number: 2}), same)
	try("provider", pipeline.CacheSource{Provider: "gemini", Model: "m"}, t.Context(), same)
	try("model", pipeline.CacheSource{Provider: "openai", Model: "n"}, t.Context(), same)
	try("endpoint", pipeline.CacheSource{Provider: "openai", Model: "m", Endpoint: "http://localhost/v1"}, t.Context(), same)
	try("message", source, t.Context(), func(r *pipeline.Request) { r.Messages[0].Content += " " })
	try("role", source, t.Context(), func(r *pipeline.Request) { r.Messages[0].Role = "system" })
	try("more messages", source, t.Context(), func(r *pipeline.Request) { r.Messages = append(r.Messages, r.Messages[0]) })
	try("temperature", source, t.Context(), func(r *pipeline.Request) { r.Parameters.Temperature = &zero })
	try("another", source, t.Context(), func(r *pipeline.Request) { r.Parameters.Temperature = &one })
	try("top p", source, t.Context(), func(r *pipeline.Request) { r.Parameters.TopP = &one })
	try("tokens", source, t.Context(), func(r *pipeline.Request) { r.Parameters.MaxTokens = &tokens })
	try("seed", source, t.Context(), func(r *pipeline.Request) { r.Parameters.Seed = &seed })
	try("schema", source, t.Context(), func(r *pipeline.Request) { r.Schema.JSON = []byte(`{}`) })
	try("its name", source, t.Context(), func(r *pipeline.Request) { r.Schema.Name = "t" })
	try("no schema", source, t.Context(), func(r *pipeline.Request) { r.Schema = nil })
}

// TestCached_trials checks that a context without a trial means trial 1, and that a call with
// SkipCache asks the model and replaces the answer.
func TestCached_trials(t *testing.T) {
	model := &countingModel{response: paidResponse()}
	cached := pipeline.Cached(model, openCache(t, t.TempDir()), source)
	ask(t, t.Context(), cached, cacheRequest())
	if r := ask(t, pipeline.WithTrial(t.Context(), pipeline.Trial{Number: 1}), cached, cacheRequest()); !r.Cached {
		t.Error("trial 1 is the first")
	}
	model.response.Text = "newer"
	if r := ask(t, pipeline.WithTrial(t.Context(), pipeline.Trial{SkipCache: true}), cached, cacheRequest()); r.Cached || model.calls != 2 {
		t.Errorf("%+v after %d calls", r, model.calls)
	}
	if r := ask(t, t.Context(), cached, cacheRequest()); !r.Cached || r.Text != "newer" {
		t.Errorf("%+v", r)
	}
}

func TestCached_notKept(t *testing.T) {
	for name, model := range map[string]*countingModel{
		"an error":    {err: errors.New("no")},
		"with a text": {response: paidResponse(), err: errors.New("no")},
		"cut":         {response: pipeline.Response{Text: "{", Finish: pipeline.FinishLength}},
		"a refusal":   {response: pipeline.Response{Text: "no", Finish: pipeline.FinishRefused}},
		"blank":       {response: pipeline.Response{Text: " \n", Finish: pipeline.FinishStop}},
		"too large":   {response: pipeline.Response{Text: strings.Repeat("x", pipeline.MaxEntry), Finish: pipeline.FinishStop}},
	} {
		if len(model.response.Text) > 1<<20 && !suite.Full() {
			continue // hashing and marshalling it twice is slow
		}
		path := t.TempDir()
		cached := pipeline.Cached(model, openCache(t, path), source)
		for range 2 {
			if r, err := cached.Generate(t.Context(), cacheRequest()); !errors.Is(err, model.err) || r.Cached {
				t.Errorf("%s: %v, %v", name, r.Cached, err)
			}
		}
		if remaining := files(t, path); model.calls != 2 || len(remaining) > 0 {
			t.Errorf("%s: %d calls, files %v", name, model.calls, remaining)
		}
	}
}

// TestCached_corrupted checks that a file that is cut or changed at any byte never gives another
// answer, and that it is written again after a miss.
func TestCached_corrupted(t *testing.T) {
	path := t.TempDir()
	model := &countingModel{response: paidResponse()}
	cached := pipeline.Cached(model, openCache(t, path), source)
	ask(t, t.Context(), cached, cacheRequest())
	file := files(t, path)[0]
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	check := func(what string, at int, damaged []byte) {
		t.Helper()
		if err := os.WriteFile(file, damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		before := model.calls
		if r := ask(t, t.Context(), cached, cacheRequest()); r.Text != paidResponse().Text || r.Model != paidResponse().Model {
			t.Fatalf("%s at %d gave %+v", what, at, r)
		}
		now, err := os.ReadFile(file)
		if err != nil || !bytes.Equal(now, content) && model.calls > before {
			t.Fatalf("%s at %d was not repaired: %v", what, at, err)
		}
	}
	step := suite.SampleOr(5, 1)
	for at := 0; at < len(content); at += step {
		check("cut", at, content[:at])
		damaged := bytes.Clone(content)
		damaged[at] ^= 0x04
		check("changed", at, damaged)
	}
	if model.calls < len(content)/step {
		t.Errorf("%d of %d cuts were noticed", model.calls-1, len(content)/step)
	}
	before := model.calls
	check("larger than allowed", 0, append(bytes.Clone(content), bytes.Repeat([]byte(" "), pipeline.MaxEntry)...))
	if model.calls != before+1 {
		t.Error("an entry that is larger than allowed was used")
	}
}

func TestOpenCache_cannotBeWritten(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := pipeline.OpenCache(filepath.Join(file, "sub")); cli.ExitCode(err) != 74 {
		t.Errorf("%v", err)
	}
}

// TestCache_Err checks that calls still succeed if the folder disappears while it is in use, and
// that Err reports it.
func TestCache_Err(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cache")
	cache, err := pipeline.OpenCache(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Remove(path), os.WriteFile(path, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	ask(t, t.Context(), pipeline.Cached(&countingModel{response: paidResponse()}, cache, source), cacheRequest())
	if cache.Err() == nil {
		t.Error("nothing is said of an answer that was not kept")
	}
}

func FuzzCached(f *testing.F) {
	path := f.TempDir()
	model := &countingModel{response: paidResponse()}
	cached := pipeline.Cached(model, openCache(f, path), source)
	ask(f, f.Context(), cached, cacheRequest())
	file := files(f, path)[0]
	content, err := os.ReadFile(file)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(content)
	f.Add([]byte(`{"format":1,"key":"","checksum":"","response":null}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if err := os.WriteFile(file, raw, 0o600); err != nil {
			t.Fatal(err)
		}
		if r := ask(t, t.Context(), cached, cacheRequest()); r.Text != paidResponse().Text {
			t.Errorf("%+v", r)
		}
	})
}
