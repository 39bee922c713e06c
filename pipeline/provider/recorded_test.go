package provider

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/limit"
	"extraction-experiment/internal/testkit/suite"
	"extraction-experiment/outcome"
	"extraction-experiment/pipeline"
)

var source = Recording{Provider: "openai", Model: "gpt-4o"}

// createTape creates a cassette in a new folder.
func createTape(t *testing.T) (*Tape, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "run.cassette")
	tape, err := CreateTape(path, source)
	if err != nil {
		t.Fatal(err)
	}
	return tape, path
}

func closeTape(t rapid.TB, tape *Tape) {
	t.Helper()
	if err := tape.Close(); err != nil {
		t.Fatal(err)
	}
}

// generate sends a small request, which must succeed.
func generate(t rapid.TB, model pipeline.Model, text string) pipeline.Response {
	t.Helper()
	response, err := model.Generate(context.Background(), smallRequest(text))
	if err != nil {
		t.Fatal(err)
	}
	return response
}

func writeFile(t rapid.TB, path string, text []byte) {
	t.Helper()
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

func readGolden(t rapid.TB) []byte {
	t.Helper()
	golden, err := os.ReadFile(filepath.Join("testdata", "golden.cassette"))
	if err != nil {
		t.Fatal(err)
	}
	return golden
}

// openReplay opens a cassette to replay it.
func openReplay(t *testing.T, path string) *cassette {
	t.Helper()
	model, err := openCassette(path)
	if err != nil {
		t.Fatal(err)
	}
	return model
}

// callCount returns the number of calls in a cassette.
func (x *tapeIndex) callCount() (n int) {
	for _, answers := range x.answers {
		n += len(answers)
	}
	return n
}

// TestGolden compares a recording with the golden file and replays it. The file has exactly the
// fields of requests and responses.
func TestGolden(t *testing.T) {
	temperature, limit, seed, cost := 0.0, 100, int64(7), 0.0045
	tape, path := createTape(t)
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
	model := Record(pipeline.ModelFunc(func(context.Context, pipeline.Request) (pipeline.Response, error) {
		call++
		return answers[call-1]()
	}), tape)
	req := pipeline.Request{
		Messages:   []pipeline.Message{{Role: "system", Content: "Extract <entities>"}, {Role: "user", Content: "Ada met Charles."}},
		Parameters: pipeline.Parameters{Temperature: &temperature, MaxTokens: &limit, Seed: &seed},
		Schema:     &pipeline.Schema{Name: "extraction", JSON: json.RawMessage("{ \"type\" : \"object\",\n \"b\": 1, \"a\": 2}")},
	}
	for _, r := range []pipeline.Request{req, req, smallRequest("other")} {
		model.Generate(t.Context(), r)
	}
	closeTape(t, tape)
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
	if diff := cmp.Diff(string(readGolden(t)), string(got)); diff != "" {
		t.Error(diff)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v: only the owner may read it", info.Mode(), err)
	}
	replayed := openReplay(t, golden)
	if replayed.source != source || replayed.callCount() != 3 {
		t.Errorf("source %+v, %d exchanges", replayed.source, replayed.callCount())
	}
	for i, r := range []pipeline.Request{req, req, smallRequest("other")} {
		checkAnswerEqual(t, replayed, r, answers[i])
	}
}

// checkAnswerEqual compares a replayed answer with the recorded one.
func checkAnswerEqual(t *testing.T, model pipeline.Model, req pipeline.Request, answer func() (pipeline.Response, error)) {
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

func TestCassette_repeats(t *testing.T) {
	tape, path := createTape(t)
	call := 0
	model := Record(pipeline.ModelFunc(func(context.Context, pipeline.Request) (pipeline.Response, error) {
		call++
		return pipeline.Response{Text: fmt.Sprint(call)}, nil
	}), tape)
	for _, text := range []string{"a", "b", "a"} { // the answers are 1, 2, 3
		generate(t, model, text)
	}
	closeTape(t, tape)
	replayed, got := openReplay(t, path), ""
	for _, text := range []string{"a", "a", "b", "a", "b"} {
		got += generate(t, replayed, text).Text
	}
	// a: 1, then 3, then 3 again; b: 2, then 2 again.
	if got != "13232" {
		t.Errorf("got %s, want 13232", got)
	}
}

// TestCassette_trials checks which of the equal requests that were recorded a trial gets, also in the process
// of a resumed run. The answers are a, b, c and, of the other cassette, errors 1 and 2 and d.
func TestCassette_trials(t *testing.T) {
	first, second := pipeline.Trial{Number: 1}, pipeline.Trial{Number: 2}
	again := pipeline.Trial{Number: 1, SkipCache: true}
	for name, tt := range map[string]struct {
		answers string
		trials  []pipeline.Trial
		want    string
	}{
		"one trial repeats":         {"abc", []pipeline.Trial{first, first, first, first}, "abcc"},
		"two trials":                {"abc", []pipeline.Trial{first, second}, "ab"},
		"the second is faster":      {"abc", []pipeline.Trial{second, first}, "ba"},
		"two items, two trials":     {"abcd", []pipeline.Trial{first, first, second, second}, "abcd"},
		"resumed in the second":     {"abc", []pipeline.Trial{second}, "b"},
		"retried, of no use before": {"abc", []pipeline.Trial{again}, "b"},
		"retried after errors":      {"12d", []pipeline.Trial{again}, "d"},
		"retried, nothing better":   {"12", []pipeline.Trial{again}, "2"},
		"never retried":             {"1", []pipeline.Trial{again}, "1"},
	} {
		t.Run(name, func(t *testing.T) {
			tape, path := createTape(t)
			call, got := 0, ""
			model := Record(pipeline.ModelFunc(func(context.Context, pipeline.Request) (pipeline.Response, error) {
				call++
				if answer := tt.answers[call-1 : call]; answer > "9" {
					return pipeline.Response{Text: answer}, nil
				} else {
					return pipeline.Response{}, newFault(outcome.Provider, "%s", answer)
				}
			}), tape)
			for range tt.answers {
				model.Generate(t.Context(), smallRequest("x"))
			}
			closeTape(t, tape)
			replayed := openReplay(t, path)
			for _, trial := range tt.trials {
				response, err := replayed.Generate(pipeline.WithTrial(t.Context(), trial), smallRequest("x"))
				if got += response.Text; err != nil {
					got += outcome.FailureOf(err, outcome.Provider).Message
				}
			}
			if got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

func TestCassette_missing(t *testing.T) {
	tape, path := createTape(t)
	model := Record(pipeline.ModelFunc(func(context.Context, pipeline.Request) (pipeline.Response, error) { return pipeline.Response{}, nil }), tape)
	generate(t, model, "known")
	closeTape(t, tape)
	zero, replayed := 0.0, openReplay(t, path)
	for name, req := range map[string]pipeline.Request{
		"another document":  smallRequest("unknown"),
		"another parameter": {Messages: smallRequest("known").Messages, Parameters: pipeline.Parameters{Temperature: &zero}},
		"another schema":    {Messages: smallRequest("known").Messages, Schema: &pipeline.Schema{Name: "x", JSON: json.RawMessage(`{}`)}},
		"no message":        {},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := replayed.Generate(t.Context(), req)
			var model *pipeline.ModelError
			if !errors.As(err, &model) || model.Failure.Class != outcome.Provider || model.Retry {
				t.Fatalf("got %#v", err)
			}
			for _, want := range []string{path, "gpt-4o", "--record"} {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q does not say %q", err, want)
				}
			}
		})
	}
}

func TestCassette_stopped(t *testing.T) {
	model := openReplay(t, filepath.Join("testdata", "golden.cassette"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := model.Generate(ctx, smallRequest("other")); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// TestConcurrent checks that calls at once are recorded in complete lines, and that every answer is
// recorded and replayed once.
func TestConcurrent(t *testing.T) {
	tape, path := createTape(t)
	model := Record(pipeline.ModelFunc(func(_ context.Context, req pipeline.Request) (pipeline.Response, error) {
		return pipeline.Response{Text: strings.Repeat(req.Messages[0].Content, 5000)}, nil
	}), tape)
	runConcurrently := func(model pipeline.Model) {
		var wg sync.WaitGroup
		for i := range 40 {
			wg.Go(func() {
				text := fmt.Sprintf("<%d>", i%20)
				got, err := model.Generate(t.Context(), smallRequest(text))
				if err != nil || got.Text != strings.Repeat(text, 5000) {
					t.Errorf("%s: %d bytes, %v", text, len(got.Text), err)
				}
			})
		}
		wg.Wait()
	}
	runConcurrently(model)
	closeTape(t, tape)
	replayed := openReplay(t, path)
	if replayed.callCount() != 40 {
		t.Errorf("%d exchanges", replayed.callCount())
	}
	runConcurrently(replayed)
}

// TestRecord_runStops checks that a call that ends because the run stops is not recorded, so that
// its repetition after resuming is the only call of its request.
func TestRecord_runStops(t *testing.T) {
	tape, path := createTape(t)
	stops := []error{limit.ErrStopped, &pipeline.BudgetError{}, fmt.Errorf("item 3: %w", &limit.TrippedError{Reason: "401"})}
	for _, stop := range stops {
		stopped := Record(pipeline.ModelFunc(func(context.Context, pipeline.Request) (pipeline.Response, error) {
			return pipeline.Response{Attempts: 1}, stop
		}), tape)
		if _, err := stopped.Generate(t.Context(), smallRequest("other")); !errors.Is(err, stop) {
			t.Errorf("%v became %v", stop, err)
		}
	}
	closeTape(t, tape)
	tape, err := ContinueTape(path, source)
	if err != nil {
		t.Fatal(err)
	}
	answering := Record(pipeline.ModelFunc(func(context.Context, pipeline.Request) (pipeline.Response, error) {
		return pipeline.Response{Text: "{}", Attempts: 1}, nil
	}), tape)
	generate(t, answering, "other")
	closeTape(t, tape)
	model := openReplay(t, path)
	if r, err := model.Generate(t.Context(), smallRequest("other")); err != nil || r.Text != "{}" || model.callCount() != 1 {
		t.Errorf("%d exchanges, %+v, %v", model.callCount(), r, err)
	}
}

func TestRecord_stopped(t *testing.T) {
	tape, path := createTape(t)
	deadline := fmt.Errorf("asking: %w", context.DeadlineExceeded)
	for text, err := range map[string]error{"cancelled": context.Canceled, "late": deadline} {
		model := Record(pipeline.ModelFunc(func(context.Context, pipeline.Request) (pipeline.Response, error) { return pipeline.Response{}, err }), tape)
		if _, got := model.Generate(t.Context(), smallRequest(text)); !errors.Is(got, err) {
			t.Errorf("got %v, want %v", got, err)
		}
	}
	closeTape(t, tape)
	model := openReplay(t, path)
	_, err := model.Generate(t.Context(), smallRequest("late"))
	if got, want := outcome.FailureOf(err, outcome.Provider), outcome.FailureOf(deadline, outcome.Provider); got != want || got.Class != outcome.Timeout {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if model.callCount() != 1 {
		t.Errorf("%d exchanges: the cancelled one is none", model.callCount())
	}
}

func TestRecord_cannotWrite(t *testing.T) {
	tape, _ := createTape(t)
	calls := 0
	model := Record(pipeline.ModelFunc(func(context.Context, pipeline.Request) (pipeline.Response, error) {
		calls++
		return pipeline.Response{Text: "paid"}, nil
	}), tape)
	if err := tape.file.Close(); err != nil {
		t.Fatal(err)
	}
	response, err := model.Generate(t.Context(), smallRequest("a"))
	var failed *pipeline.ModelError
	if response.Text != "paid" || cli.ExitCode(err) != 74 || !errors.As(err, &failed) || failed.Retry || failed.Failure.Class != outcome.Internal {
		t.Errorf("got %q, %v", response.Text, err)
	}
	if !limit.StopsRun(err) {
		t.Errorf("the run goes on after %v", err)
	}
	if _, err := model.Generate(t.Context(), smallRequest("b")); cli.ExitCode(err) != 74 || calls != 1 || !limit.StopsRun(err) {
		t.Errorf("got %v after %d calls: nothing more is paid for", err, calls)
	}
	if err := tape.Close(); cli.ExitCode(err) != 74 {
		t.Errorf("closing: %v", err)
	}
}

// TestRecord_noJSON checks that a request that cannot be recorded is not sent.
func TestRecord_noJSON(t *testing.T) {
	tape, _ := createTape(t)
	model := Record(pipeline.ModelFunc(func(context.Context, pipeline.Request) (pipeline.Response, error) {
		t.Error("the model was asked")
		return pipeline.Response{}, nil
	}), tape)
	req := smallRequest("a")
	req.Schema = &pipeline.Schema{Name: "x", JSON: []byte("{")}
	if _, err := model.Generate(t.Context(), req); cli.ExitCode(err) != 74 {
		t.Errorf("got %v", err)
	}
	if err := tape.Close(); err != nil {
		t.Errorf("the tape itself is well: %v", err)
	}
}

func TestCreateTape_problems(t *testing.T) {
	tape, path := createTape(t)
	closeTape(t, tape)
	if _, err := CreateTape(path, source); cli.ExitCode(err) != 64 || !strings.Contains(err.Error(), "not overwritten") {
		t.Errorf("a file that exists: %v", err)
	}
	if _, err := CreateTape(filepath.Join(path, "x"), source); cli.ExitCode(err) != 74 {
		t.Errorf("no such folder: %v", err)
	}
}

// TestContinueTape checks that a recording that was killed anywhere can be continued, and that it
// keeps all calls with complete lines.
func TestContinueTape(t *testing.T) {
	golden := readGolden(t)
	head := strings.Index(string(golden), "\n") + 1
	path := filepath.Join(t.TempDir(), "run.cassette")
	for end := head; end <= len(golden); end += 1 + end%53 {
		writeFile(t, path, golden[:end])
		tape, err := ContinueTape(path, source)
		if err != nil {
			t.Fatalf("cut after %d bytes: %v", end, err)
		}
		model := Record(pipeline.ModelFunc(func(context.Context, pipeline.Request) (pipeline.Response, error) {
			return pipeline.Response{Text: "new"}, nil
		}), tape)
		generate(t, model, "other")
		closeTape(t, tape)
		// A line is complete with its last brace, even without its line feed.
		complete := strings.Count(string(golden[head:end]), "}\n")
		if end < len(golden) && golden[end] == '\n' {
			complete++
		}
		reopened, err := openCassette(path)
		if err != nil {
			t.Fatalf("cut after %d bytes: %v", end, err)
		}
		if reopened.callCount() != complete+1 {
			t.Errorf("cut after %d bytes: %d exchanges, want %d", end, reopened.callCount(), complete+1)
		}
	}
}

// TestContinueTape_answers checks that a resumed run takes what the tape already has instead of asking
// again, and that a replay then gives all its outcomes. The model answers a, b, c, …
func TestContinueTape_answers(t *testing.T) {
	first, second := pipeline.Trial{Number: 1}, pipeline.Trial{Number: 2}
	again := pipeline.Trial{Number: 1, SkipCache: true}
	for name, tt := range map[string]struct {
		lost, resumed []pipeline.Trial // requests before and after the kill
		want          string           // answers after it
	}{
		"no outcome":             {[]pipeline.Trial{first}, []pipeline.Trial{first}, "a"},
		"more to ask":            {[]pipeline.Trial{first}, []pipeline.Trial{first, second, again}, "abc"},
		"two items of one text":  {[]pipeline.Trial{first, first}, []pipeline.Trial{first, first, first}, "abc"},
		"the second was faster":  {[]pipeline.Trial{second}, []pipeline.Trial{first, second}, "ba"},
		"of no use before":       {[]pipeline.Trial{first}, []pipeline.Trial{again}, "b"},
		"failed":                 {[]pipeline.Trial{first}, []pipeline.Trial{first, second}, "bc"},
		"tried again, then lost": {[]pipeline.Trial{first, again}, []pipeline.Trial{again}, "c"},
	} {
		t.Run(name, func(t *testing.T) {
			tape, path := createTape(t)
			asked := 0
			asks := pipeline.ModelFunc(func(context.Context, pipeline.Request) (pipeline.Response, error) {
				asked++
				var err error
				if name == "failed" && asked == 1 {
					err = context.DeadlineExceeded
				}
				return pipeline.Response{Text: string(rune('a' + asked - 1)), CostUSD: new(0.5)}, err
			})
			answers := func(model pipeline.Model, trials []pipeline.Trial) (texts string) {
				for _, trial := range trials {
					response, err := model.Generate(pipeline.WithTrial(t.Context(), trial), smallRequest("x"))
					if *response.CostUSD != 0.5 || err != nil && name != "failed" {
						t.Errorf("%+v, %v", response, err)
					}
					texts += response.Text
				}
				return texts
			}
			answers(Record(asks, tape), tt.lost)
			closeTape(t, tape)
			tape, err := ContinueTape(path, source)
			if err != nil {
				t.Fatal(err)
			}
			if got := answers(Record(asks, tape), tt.resumed); got != tt.want {
				t.Errorf("resumed: got %s, want %s", got, tt.want)
			}
			closeTape(t, tape)
			if got := answers(openReplay(t, path), tt.resumed); got != tt.want && tt.resumed[0] != again {
				t.Errorf("replayed: got %s, want %s", got, tt.want)
			}
		})
	}
}

func TestContinueTape_problems(t *testing.T) {
	tape, path := createTape(t)
	closeTape(t, tape)
	if _, err := ContinueTape(path, Recording{Provider: "openai", Model: "gpt-4"}); cli.ExitCode(err) != 64 || !strings.Contains(err.Error(), "openai/gpt-4") {
		t.Errorf("another model: %v", err)
	}
	if _, err := ContinueTape(path+".none", source); cli.ExitCode(err) != 64 {
		t.Errorf("no such file: %v", err)
	}
}

const testHeader = `{"cassette":1,"provider":"openai","model":"gpt-4o"}` + "\n"

func TestOpenCassette_problems(t *testing.T) {
	golden := readGolden(t)
	lines := strings.SplitAfter(string(golden), "\n")
	swap := func(old, now string) string { return lines[0] + strings.Replace(lines[3], old, now, 1) }
	tests := map[string]struct{ text, want string }{
		"empty":             {"", "it is empty"},
		"no cassette":       {"hello\n", "line 1: this is not a cassette"},
		"a run file":        {`{"format":3}` + "\n", "line 1: this is not a cassette"},
		"a later version":   {`{"cassette":2,"model":"m"}` + "\n", "line 1: the format is version 2"},
		"no model":          {`{"cassette":1}` + "\n", "line 1: this is not a cassette"},
		"garbage":           {lines[0] + lines[1] + "garbage\n" + lines[2], "line 3: this is not an exchange"},
		"cut in the middle": {lines[0] + lines[1][:100] + "\n" + lines[2], "line 2: this is not an exchange: unexpected EOF"},
		"cut at the end":    {lines[0] + lines[1] + lines[2][:100], "line 3: this is not an exchange: unexpected EOF; the recording was interrupted"},
		"two in a line":     {lines[0] + strings.TrimSpace(lines[1]) + lines[2], "line 2: something follows"},
		"a changed prompt":  {swap("other", "OTHER"), "line 2: the key is not that of the request"},
		"another model":     {swap(`"model":"gpt-4o"`, `"model":"gpt-5"`), "line 2: the key is not that of the request"},
		"n of 0":            {swap(`"n":1`, `"n":0`), "line 2: it has no number from 1"},
		"no answer":         {swap(`"response":`, `"reply":`), `unknown field "reply"`},
		"no class":          {swap(`"class":"invalid_output"`, `"class":""`), "an error without a class"},
		"no request":        {testHeader + `{"key":"","n":1}` + "\n", "line 2: the key is not that of the request"},
		"neither":           {noAnswerCassette(), "no response or error"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "x.cassette")
			writeFile(t, path, []byte(tt.text))
			_, err := openCassette(path)
			if cli.ExitCode(err) != 64 || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), path) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
	for _, path := range []string{t.TempDir(), "no/such/file"} {
		if _, err := openCassette(path); cli.ExitCode(err) != 64 {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// noAnswerCassette returns a cassette whose only call has no answer.
func noAnswerCassette() string {
	text, sum, err := canonical("gpt-4o", smallRequest("a"))
	if err != nil {
		panic(err)
	}
	return testHeader + fmt.Sprintf(`{"key":"%s","n":1,"request":%s}`, sum, text) + "\n"
}

// TestOpenCassette_edited checks that the usual changes by an editor are not damage.
func TestOpenCassette_edited(t *testing.T) {
	golden := readGolden(t)
	for name, text := range map[string][]byte{
		"last line feed gone": bytes.TrimSuffix(golden, []byte("\n")),
		"Windows":             bytes.ReplaceAll(golden, []byte("\n"), []byte("\r\n")),
		"empty lines":         bytes.ReplaceAll(golden, []byte("\n"), []byte("\n\n")),
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "x")
			writeFile(t, path, text)
			model := openReplay(t, path)
			response, err := model.Generate(t.Context(), smallRequest("other"))
			if model.callCount() != 3 || response.Usage.Input != 3 || outcome.FailureOf(err, "").Class != outcome.InvalidOutput {
				t.Errorf("%d exchanges, %+v, %v", model.callCount(), response, err)
			}
		})
	}
}

func TestScan_longLine(t *testing.T) {
	const limit = 100_000 // above the size of the reader's buffer
	for size, want := range map[int]string{limit: "this is not an exchange", limit + 1: "line 2: it is longer than 100000 bytes"} {
		_, err := scanTape(strings.NewReader(testHeader+strings.Repeat("x", size-1)+"\n"), "x", limit)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%d bytes: got %v, want %q", size, err, want)
		}
	}
}

// TestScan_longHeader checks that a file without lines, which may be large, is refused by its beginning.
func TestScan_longHeader(t *testing.T) {
	text := strings.NewReader(strings.Repeat("x", 1<<20))
	if _, err := scanTape(text, "x", maxLine); err == nil || !strings.Contains(err.Error(), "line 1: this is not a cassette") {
		t.Error(err)
	}
	if text.Len() == 0 {
		t.Error("it was read to its end")
	}
}

// TestRecord_large records a request and an answer that have 36 MiB each, and replays them.
func TestRecord_large(t *testing.T) {
	suite.Slow(t, "72 MiB are written and read")
	tape, path := createTape(t)
	text := strings.Repeat("a", 36<<20)
	model := Record(pipeline.ModelFunc(func(context.Context, pipeline.Request) (pipeline.Response, error) {
		return pipeline.Response{Text: text, Attempts: 1}, nil
	}), tape)
	generate(t, model, text)
	closeTape(t, tape)
	if replayed := generate(t, openReplay(t, path), text); replayed.Text != text {
		t.Errorf("replayed %d bytes", len(replayed.Text))
	}
}

// TestReplay checks that any texts are replayed as they were recorded, with what is known of their usage.
func TestReplay(t *testing.T) {
	folder, count := t.TempDir(), 0
	response := func(text string, n int) pipeline.Response {
		return pipeline.Response{
			Text: text, Attempts: n, Assumed: outcome.Usage{Input: int64(n)}, UsageProblem: "no usage " + text, Cached: n%2 == 0,
		}
	}
	rapid.Check(t, func(rt *rapid.T) {
		count++
		path := filepath.Join(folder, fmt.Sprint(count))
		tape, err := CreateTape(path, source)
		if err != nil {
			rt.Fatal(err)
		}
		answers := rapid.SliceOfN(rapid.String(), 1, 8).Draw(rt, "answers")
		texts := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "\xff", "\ufffd!", "\u2028<&>"}), len(answers), len(answers)).Draw(rt, "texts")
		call := 0
		model := Record(pipeline.ModelFunc(func(context.Context, pipeline.Request) (pipeline.Response, error) {
			call++
			return response(answers[call-1], call), nil
		}), tape)
		for _, text := range texts {
			generate(rt, model, text)
		}
		closeTape(rt, tape)
		replayed, err := openCassette(path)
		if err != nil {
			rt.Fatal(err)
		}
		for i, text := range texts {
			got, err := replayed.Generate(t.Context(), smallRequest(text))
			if err != nil || got != response(answers[i], i+1) {
				rt.Fatalf("%d: got %+v, %v, want %q", i, got, err, answers[i])
			}
		}
	})
}

// TestCassette_changed checks that a call fails if the file is changed or removed while the
// cassette is open.
func TestCassette_changed(t *testing.T) {
	text := readGolden(t)
	path := filepath.Join(t.TempDir(), "x")
	writeFile(t, path, text)
	model := openReplay(t, path)
	writeFile(t, path, bytes.ReplaceAll(text, []byte("other"), []byte("OTHER")))
	_, err := model.Generate(t.Context(), smallRequest("other"))
	if outcome.FailureOf(err, "").Class != outcome.Internal || !strings.Contains(err.Error(), "line 4") {
		t.Errorf("changed: got %v", err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	_, err = model.Generate(t.Context(), smallRequest("other"))
	if outcome.FailureOf(err, "").Class != outcome.Internal || !strings.Contains(err.Error(), path) {
		t.Errorf("gone: got %v", err)
	}
}

func FuzzScan(f *testing.F) {
	golden := readGolden(f)
	f.Add(golden)
	f.Add([]byte(testHeader))
	f.Add([]byte(noAnswerCassette()))
	f.Add(bytes.ReplaceAll(golden, []byte("\n"), []byte("\r\n\n")))
	f.Fuzz(func(t *testing.T, text []byte) {
		found, err := scanTape(bytes.NewReader(text), "fuzz", 1<<20)
		if err != nil {
			if cli.ExitCode(err) != 64 {
				t.Fatalf("exit code of %v", err)
			}
			return
		}
		for key, answers := range found.answers {
			for _, at := range answers {
				call, err := decodeCall(text[at.offset : at.offset+int64(at.length)])
				if err != nil || call.Key != key || call.N != at.n {
					t.Fatalf("line %d is in the index and cannot be read again: %v", at.line, err)
				}
				if call.Error != nil && outcome.FailureOf(call.Error.restore(), "").Class != call.Error.Class {
					t.Fatalf("the class %q was lost", call.Error.Class)
				}
			}
		}
		if found.end > int64(len(text)) {
			t.Fatalf("the end is %d of %d", found.end, len(text))
		}
	})
}

// BenchmarkOpenCassette opens a cassette of 1,000 calls of 20 KB.
func BenchmarkOpenCassette(b *testing.B) {
	path := filepath.Join(b.TempDir(), "x")
	tape, err := CreateTape(path, source)
	if err != nil {
		b.Fatal(err)
	}
	model := Record(pipeline.ModelFunc(func(context.Context, pipeline.Request) (pipeline.Response, error) {
		return pipeline.Response{Text: strings.Repeat("answer ", 1500)}, nil
	}), tape)
	for i := range 1000 {
		generate(b, model, fmt.Sprint(i, strings.Repeat(" document", 1100)))
	}
	closeTape(b, tape)
	info, err := os.Stat(path)
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(info.Size())
	b.ReportAllocs()
	for b.Loop() {
		if _, err := openCassette(path); err != nil {
			b.Fatal(err)
		}
	}
}
