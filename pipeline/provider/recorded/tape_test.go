package recorded

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"extraction-experiment/outcome"
	"extraction-experiment/pipeline"
)

func TestRecord_stopped(t *testing.T) {
	tape, path := create(t)
	deadline := fmt.Errorf("asking: %w", context.DeadlineExceeded)
	for text, err := range map[string]error{"cancelled": context.Canceled, "late": deadline} {
		model := Record(script(func(context.Context, pipeline.Request) (pipeline.Response, error) { return pipeline.Response{}, err }), tape)
		if _, got := model.Generate(t.Context(), ask(text)); !errors.Is(got, err) {
			t.Errorf("got %v, want %v", got, err)
		}
	}
	if err := tape.Close(); err != nil {
		t.Fatal(err)
	}
	model := replay(t, path)
	_, err := model.Generate(t.Context(), ask("late"))
	if got, want := outcome.FailureOf(err, outcome.Provider), outcome.FailureOf(deadline, outcome.Provider); got != want || got.Class != outcome.Timeout {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if model.Len() != 1 {
		t.Errorf("%d exchanges: the cancelled one is none", model.Len())
	}
}

func TestRecord_cannotWrite(t *testing.T) {
	tape, _ := create(t)
	calls := 0
	model := Record(script(func(context.Context, pipeline.Request) (pipeline.Response, error) {
		calls++
		return pipeline.Response{Text: "paid"}, nil
	}), tape)
	if err := tape.file.Close(); err != nil {
		t.Fatal(err)
	}
	response, err := model.Generate(t.Context(), ask("a"))
	var failed *pipeline.ModelError
	if response.Text != "paid" || exitCode(err) != 74 || !errors.As(err, &failed) || failed.Retry || failed.Failure.Class != outcome.Internal {
		t.Errorf("got %q, %v", response.Text, err)
	}
	if _, err := model.Generate(t.Context(), ask("b")); exitCode(err) != 74 || calls != 1 {
		t.Errorf("got %v after %d calls: nothing more is paid for", err, calls)
	}
	if err := tape.Close(); exitCode(err) != 74 {
		t.Errorf("closing: %v", err)
	}
}

// TestRecord_noJSON: a request that cannot be written is not sent.
func TestRecord_noJSON(t *testing.T) {
	tape, _ := create(t)
	model := Record(script(func(context.Context, pipeline.Request) (pipeline.Response, error) {
		t.Error("the model was asked")
		return pipeline.Response{}, nil
	}), tape)
	req := ask("a")
	req.Schema = &pipeline.Schema{Name: "x", JSON: []byte("{")}
	if _, err := model.Generate(t.Context(), req); exitCode(err) != 74 {
		t.Errorf("got %v", err)
	}
	if err := tape.Close(); err != nil {
		t.Errorf("the tape itself is well: %v", err)
	}
}

func TestCreate_problems(t *testing.T) {
	tape, path := create(t)
	if err := tape.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := Create(path, source); exitCode(err) != 64 || !strings.Contains(err.Error(), "not overwritten") {
		t.Errorf("a file that exists: %v", err)
	}
	if _, err := Create(filepath.Join(path, "x"), source); exitCode(err) != 74 {
		t.Errorf("no such folder: %v", err)
	}
	if _, err := Create(filepath.Join(t.TempDir(), "x"), Source{}); err == nil {
		t.Error("no model's name is no error")
	}
}

// TestContinue: wherever a recording is killed, it can be continued, and all
// exchanges whose lines were whole are there, with the numbers going on.
func TestContinue(t *testing.T) {
	golden, err := os.ReadFile(filepath.Join("testdata", "golden.cassette"))
	if err != nil {
		t.Fatal(err)
	}
	head := strings.Index(string(golden), "\n") + 1
	path := filepath.Join(t.TempDir(), "run.cassette")
	for end := head; end <= len(golden); end += 1 + end%53 {
		if err := os.WriteFile(path, golden[:end], 0o600); err != nil {
			t.Fatal(err)
		}
		tape, err := Continue(path, source)
		if err != nil {
			t.Fatalf("cut after %d bytes: %v", end, err)
		}
		model := Record(script(func(context.Context, pipeline.Request) (pipeline.Response, error) {
			return pipeline.Response{Text: "new"}, nil
		}), tape)
		if _, err := model.Generate(t.Context(), ask("other")); err != nil {
			t.Fatal(err)
		}
		if err := tape.Close(); err != nil {
			t.Fatal(err)
		}
		// A line is whole with its last brace, even without its line feed.
		kept := strings.Count(string(golden[head:end]), "}\n")
		if end < len(golden) && golden[end] == '\n' {
			kept++
		}
		again, err := Open(path)
		if err != nil {
			t.Fatalf("cut after %d bytes: %v", end, err)
		}
		if again.Len() != kept+1 {
			t.Errorf("cut after %d bytes: %d exchanges, want %d", end, again.Len(), kept+1)
		}
		if err := again.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestContinue_problems(t *testing.T) {
	tape, path := create(t)
	if err := tape.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := Continue(path, Source{Provider: "openai", Model: "gpt-4"}); exitCode(err) != 64 || !strings.Contains(err.Error(), "openai/gpt-4") {
		t.Errorf("another model: %v", err)
	}
	if _, err := Continue(path+".none", source); exitCode(err) != 64 {
		t.Errorf("no such file: %v", err)
	}
}
