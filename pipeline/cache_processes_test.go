package pipeline_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"extraction-experiment/internal/testkit/suite"
	"extraction-experiment/pipeline"
)

// envFolder is the variable of the environment that makes this test binary call useFolder and exit.
const envFolder = "CACHE_TEST_FOLDER"

func TestMain(m *testing.M) {
	if path := os.Getenv(envFolder); path != "" {
		if err := useFolder(path); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// repeatRequest answers as a model that repeats the request many times.
func repeatRequest(_ context.Context, req pipeline.Request) (pipeline.Response, error) {
	return pipeline.Response{Text: longAnswer(req), Finish: pipeline.FinishStop}, nil
}

func longAnswer(req pipeline.Request) string {
	return strings.Repeat(req.Messages[0].Content, 20_000)
}

// useFolder sends the same seven requests again and again and checks the answers. Every third call
// ignores the cache and replaces the answer.
func useFolder(path string) error {
	cache, err := pipeline.OpenCache(path)
	if err != nil {
		return err
	}
	model := pipeline.Cached(pipeline.ModelFunc(repeatRequest), cache, source)
	for i := range 90 {
		ctx := pipeline.WithTrial(context.Background(), pipeline.Trial{SkipCache: i%3 == 0})
		req := pipeline.Request{Messages: []pipeline.Message{{Role: "user", Content: fmt.Sprintf("<%d>", i%7)}}}
		r, err := model.Generate(ctx, req)
		if err != nil {
			return err
		}
		if r.Text != longAnswer(req) {
			return fmt.Errorf("question %d got an answer of %d bytes: %.40q", i%7, len(r.Text), r.Text)
		}
		if i >= 21 && i%3 != 0 && !r.Cached {
			return fmt.Errorf("question %d was lost", i%7)
		}
	}
	return cache.Err()
}

// TestCached_processes checks that three processes that write and read the same answers at the same
// time never read a part of an answer and lose none.
func TestCached_processes(t *testing.T) {
	suite.Slow(t, "three processes that wait for each other")
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	path := t.TempDir()
	var others []*exec.Cmd
	for range 2 {
		other := exec.Command(binary)
		other.Env = append(os.Environ(), envFolder+"="+path)
		other.Stderr = os.Stderr
		if err := other.Start(); err != nil {
			t.Fatal(err)
		}
		others = append(others, other)
	}
	if err := useFolder(path); err != nil {
		t.Error(err)
	}
	for _, other := range others {
		if err := other.Wait(); err != nil {
			t.Error(err)
		}
	}
	if remaining := files(t, path); len(remaining) != 7 {
		t.Errorf("7 questions left %d files: %v", len(remaining), remaining)
	}
}
