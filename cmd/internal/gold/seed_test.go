package gold

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"extraction-experiment/dataset"
	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/testkit"
	"extraction-experiment/internal/testkit/suite"
	"extraction-experiment/langfuse"
	"extraction-experiment/langfuse/embedded"
)

// TestSpec_SeedDatasetFromProductionTraces: the seed command makes an item from a corrected
// production trace, with the trace's input, the corrected output and a link to the trace.
func TestSpec_SeedDatasetFromProductionTraces(t *testing.T) {
	const (
		trace  = "0af7651916cd43dd8448eb211c80319c"
		root   = "b7ad6b7169203331"
		input  = `{"allowed_types":["Person","City"],"document_text":"Ada Lovelace was born in London.","object_schemas":{"City":{"description":"a city"},"Person":{"description":"a person"}},"relationship_schemas":{"born_in":{"description":"was born in"}}}`
		output = `{"entities":[{"name":"Ada Lovelace","type":"Person"},{"name":"London","type":"Person"}],"relationships":[]}`
		right  = `{"entities":[{"name":"Ada Lovelace","type":"Person"},{"name":"London","type":"City"}],"relationships":[{"relationship_type":"born_in","source_name":"Ada Lovelace","target_name":"London"}]}`
	)
	for _, mode := range embedded.Modes() {
		t.Run(string(mode), func(t *testing.T) {
			store, url, stop, err := serve(mode)
			if err != nil {
				t.Fatal(err)
			}
			defer stop()
			sendProductionTrace(t, url, trace, root, input, output)
			// A person corrects the trace.
			if _, err := store.Annotate(embedded.Annotation{TraceID: trace, Correction: right, Author: "ann"}); err != nil {
				t.Fatal(err)
			}

			code, stdout, stderr := runSeed(t, url, "--dataset", "extraction-eval", trace)
			if code != 0 || !strings.Contains(stdout, "1 created") {
				t.Fatalf("exit code %d: %s%s", code, stdout, stderr)
			}
			client, err := langfuse.New(langfuse.Config{BaseURL: url, PublicKey: embedded.DefaultPublicKey, SecretKey: langfuse.NewSecret(embedded.DefaultSecretKey)})
			if err != nil {
				t.Fatal(err)
			}
			n := 0
			for item, err := range client.ListDatasetItems(t.Context(), langfuse.DatasetItemsQuery{DatasetName: "extraction-eval", Version: langfuse.DatasetVersion{At: time.Now().Add(time.Minute)}}) {
				if err != nil {
					t.Fatal(err)
				}
				n++
				checkJSON(t, "input", item.Input, input)
				checkJSON(t, "expected output", item.ExpectedOutput, right)
				if item.SourceTraceID != trace || item.SourceObservationID != root {
					t.Errorf("the item links to %q, %q", item.SourceTraceID, item.SourceObservationID)
				}
			}
			if n != 1 {
				t.Errorf("%d items", n)
			}
		})
	}
}

// sendProductionTrace sends a trace as a program does that knows OpenTelemetry but not this
// project.
func sendProductionTrace(t *testing.T, url, trace, root, input, output string) {
	t.Helper()
	text := func(key, value string) any {
		return map[string]any{"key": key, "value": map[string]any{"stringValue": value}}
	}
	body, err := json.Marshal(map[string]any{"resourceSpans": []any{map[string]any{"scopeSpans": []any{map[string]any{"spans": []any{map[string]any{
		"traceId": trace, "spanId": root, "name": "extract", "startTimeUnixNano": "1795200000000000000", "endTimeUnixNano": "1795200001000000000",
		"attributes": []any{text("langfuse.observation.input", input), text("langfuse.observation.output", output)}}}}}}}})
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequest("POST", url+"/api/public/otel/v1/traces", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.SetBasicAuth(embedded.DefaultPublicKey, embedded.DefaultSecretKey)
	r.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	if err := answer.Body.Close(); err != nil || answer.StatusCode != http.StatusOK {
		t.Fatal(answer.Status, err)
	}
}

// runSeed runs a command line of seed against a server.
func runSeed(t *testing.T, url string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var stdoutBuf, stderrBuf bytes.Buffer
	set := map[string]string{"LANGFUSE_BASE_URL": url, "LANGFUSE_PUBLIC_KEY": embedded.DefaultPublicKey, "LANGFUSE_SECRET_KEY": embedded.DefaultSecretKey}
	code = Seed(t.Context(), cli.Env{
		Args: args, Stdin: strings.NewReader(""), Stdout: &stdoutBuf, Stderr: &stderrBuf,
		Getenv: func(name string) string { return set[name] }, Terminal: func() int { return 80 },
	})
	return code, stdoutBuf.String(), stderrBuf.String()
}

func checkJSON(t *testing.T, what string, got json.RawMessage, want string) {
	t.Helper()
	canonical, err := dataset.Canonical(got)
	if err != nil || string(canonical) != want {
		t.Errorf("%s: %s (%v), want %s", what, canonical, err, want)
	}
}

func TestMain(m *testing.M) {
	suite.InMemory()
	testscript.Main(m, map[string]func(){"seed": func() { os.Exit(Seed(context.Background(), cli.Process())) }})
}

func TestScripts(t *testing.T) {
	testkit.RunScripts(t, "testdata/script", func(folder string) testscript.Params { return testkit.ScriptParams(folder, testkit.Exec) })
}

// brokenWriter is a full disk.
type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, errors.New("no space left") }

func TestRun_cannotWrite(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.WriteFile("items.jsonl", []byte(`{"id":"a","input":{"document_text":"Ada."},"expectedOutput":{"entities":[]}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"--list"}, {"--list", "--json"}, {"--check", "items.jsonl"}, {"--dataset", "d", "--file", "items.jsonl"}, {"--dataset", "d", "--export", "-"},
		{"--dataset", "d", "--archive", "a"},
	} {
		var stderr strings.Builder
		code := Seed(t.Context(), cli.Env{Args: args, Stdin: strings.NewReader(""), Stdout: brokenWriter{}, Stderr: &stderr,
			Getenv: func(string) string { return "" }, Terminal: func() int { return 0 }})
		if code != cli.ExitIO || !strings.Contains(stderr.String(), "no space left") {
			t.Errorf("seed %q: exit %d, %s", args, code, stderr.String())
		}
	}
}

// TestRun_pipe: seed refuses a pipe of items before it takes anything out of it, as a second reading
// would find it empty.
func TestRun_pipe(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("pipes have a path in Linux")
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	path := filepath.Join(t.TempDir(), "items.jsonl")
	_, errWrite := w.WriteString(`{"id":"a","input":{"document_text":"Ada."},"expectedOutput":{"entities":[]}}`)
	if err := errors.Join(errWrite, w.Close(), os.Symlink(fmt.Sprintf("/proc/self/fd/%d", r.Fd()), path)); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"--check", path}, {"--dataset", "d", "--file", path}} {
		code, _, stderr := runSeed(t, "http://127.0.0.1:1", args...)
		if code != cli.ExitUsage || !strings.Contains(stderr, "items.jsonl is a pipe") {
			t.Errorf("seed %q: exit %d, %s", args, code, stderr)
		}
	}
	if rest, err := io.ReadAll(r); err != nil || !strings.Contains(string(rest), `"id":"a"`) {
		t.Errorf("%q is left of the pipe: %v", rest, err)
	}
}

// TestRun_unanswered: if Langfuse does not answer a write, the command prints the summary and the
// id of the item.
func TestRun_unanswered(t *testing.T) {
	store, _, stop, err := serve(embedded.ModeV4)
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		if strings.HasSuffix(r.URL.Path, "/dataset-items") && bytes.Contains(body, []byte(`"id":"b"`)) {
			w.Header().Set("Retry-After", "0.01")
			http.Error(w, "not now", http.StatusServiceUnavailable)
			return
		}
		store.Handler().ServeHTTP(w, r)
	}))
	defer web.Close()
	path := filepath.Join(t.TempDir(), "items.jsonl")
	var lines strings.Builder
	for _, id := range []string{"a", "b", "c"} {
		lines.WriteString(`{"id":"` + id + `","input":{"document_text":"` + id + `"},"expectedOutput":{"entities":[]}}` + "\n")
	}
	if err := os.WriteFile(path, []byte(lines.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	code, stdout, stderr := runSeed(t, web.URL, "--dataset", "d", "--file", path)
	if code != cli.ExitUnavailable || !strings.Contains(stdout, "2 created, 0 updated, 0 unchanged, 0 refused, 1 not answered") ||
		!strings.Contains(stderr, "item b: was not answered") || !strings.Contains(stderr, "run the same command again to continue") {
		t.Errorf("exit code %d: %s%s", code, stdout, stderr)
	}
}

func TestReadTime(t *testing.T) {
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	for text, want := range map[string]string{
		"2026-11-21": "2026-11-21T00:00:00Z", "2026-11-21T10:00:00+01:00": "2026-11-21T09:00:00Z",
		"7d": "2026-11-15T12:00:00Z", "12h": "2026-11-22T00:00:00Z", "-1h": "", "0d": "", "yesterday": "",
	} {
		got, err := readTime("since", text, now)
		if (err != nil) != (want == "") || err == nil && got.Format(time.RFC3339) != want {
			t.Errorf("%s: %s (%v), want %s", text, got, err, want)
		}
	}
	if got, err := readTime("until", "", now); err != nil || !got.IsZero() {
		t.Errorf("no time is %s (%v)", got, err)
	}
}

// TestReadSelection_problems: the order of the problems is always the same.
func TestReadSelection_problems(t *testing.T) {
	for range 20 {
		_, _, stderr := runSeed(t, "http://127.0.0.1:1", "--dataset", "d", "--since", "soon", "--until", "later")
		if since, until := strings.Index(stderr, "--since: "), strings.Index(stderr, "--until: "); since < 0 || until < since {
			t.Fatal(stderr)
		}
	}
}
