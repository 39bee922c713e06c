package gold

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/testkit"
	"extraction-experiment/internal/testkit/suite"
	"extraction-experiment/langfuse/embedded"
)

// TestTraceScripts runs the scripts of testdata/traces against a server in each mode. The commands
// run in this process; TestScripts runs a program.
func TestTraceScripts(t *testing.T) {
	scripts, err := filepath.Abs("testdata/traces")
	if err != nil {
		t.Fatal(err)
	}
	var folder sync.Mutex // guards the working directory of the process
	run := func(ts *testscript.TestScript, args []string) int {
		folder.Lock()
		defer folder.Unlock()
		defer func(back string) { ts.Check(os.Chdir(back)) }(filepath.Dir(filepath.Dir(scripts)))
		ts.Check(os.Chdir(ts.MkAbs(".")))
		return Seed(t.Context(), cli.Env{Args: args, Stdin: strings.NewReader(""), Stdout: ts.Stdout(), Stderr: ts.Stderr(),
			Getenv: ts.Getenv, Terminal: func() int { return 0 }})
	}
	for _, mode := range embedded.Modes() {
		t.Run(string(mode), func(t *testing.T) {
			if mode != embedded.ModeV4 {
				suite.Slow(t, "as in v4")
			}
			t.Parallel()
			params := testkit.ScriptParams(scripts, testkit.Exec)
			params.Cmds["trace"], params.Cmds["api"] = sendTrace, callAPI
			params.Cmds["exits"] = func(ts *testscript.TestScript, neg bool, args []string) {
				if code := run(ts, args[2:]); neg || args[1] != "seed" || fmt.Sprint(code) != args[0] {
					ts.Fatalf("exit code %d, want %s of seed", code, args[0])
				}
			}
			before := params.Setup
			params.Setup = func(env *testscript.Env) error {
				if err := before(env); err != nil {
					return err
				}
				_, url, stop, err := serve(mode)
				if err != nil {
					return err
				}
				env.Defer(stop)
				env.Setenv("LANGFUSE_BASE_URL", url)
				env.Setenv("LANGFUSE_PUBLIC_KEY", embedded.DefaultPublicKey)
				env.Setenv("LANGFUSE_SECRET_KEY", embedded.DefaultSecretKey)
				return nil
			}
			testscript.Run(t, params)
		})
	}
}

// serve starts a server in a mode. It returns the server, its URL and a function that stops it.
func serve(mode embedded.Mode) (*embedded.Server, string, func(), error) {
	store, err := embedded.Open(embedded.Config{Mode: mode})
	if err != nil {
		return nil, "", nil, err
	}
	web := httptest.NewServer(store.Handler())
	return store, web.URL, func() {
		web.Close()
		if err := store.Close(); err != nil {
			panic(err)
		}
	}, nil
}

// sendTrace is the command "trace ID SPAN INPUT OUTPUT [key=value…]". It sends a production trace
// of one span over OTLP. INPUT and OUTPUT are files, or - for none; keys are attributes.
func sendTrace(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 4 {
		ts.Fatalf("usage: trace id span input output [key=value…]")
	}
	attributes := []any{}
	add := func(key, value string) {
		attributes = append(attributes, map[string]any{"key": key, "value": map[string]any{"stringValue": value}})
	}
	for i, key := range []string{"langfuse.observation.input", "langfuse.observation.output"} {
		if file := args[2+i]; file != "-" {
			add(key, strings.TrimSpace(ts.ReadFile(file)))
		}
	}
	for _, arg := range args[4:] {
		key, value, _ := strings.Cut(arg, "=")
		add(key, value)
	}
	body, err := json.Marshal(map[string]any{"resourceSpans": []any{map[string]any{"scopeSpans": []any{map[string]any{"spans": []any{map[string]any{
		"traceId": args[0], "spanId": args[1], "name": "extract", "attributes": attributes,
		"startTimeUnixNano": "1795200000000000000", "endTimeUnixNano": "1795200001000000000"}}}}}}})
	ts.Check(err)
	send(ts, "POST", "/api/public/otel/v1/traces", body)
}

// callAPI is the command "api METHOD PATH [FILE [NAME]]". It sends a request of another person or
// program. It replaces $VERDICT, $QUEUE, $TRACE and $SPAN in the file by these variables, and
// stores the id in the answer in NAME.
func callAPI(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 || len(args) > 4 {
		ts.Fatalf("usage: api method path [file [name]]")
	}
	var body []byte
	if len(args) > 2 {
		body = []byte(ts.ReadFile(args[2]))
		for _, name := range []string{"VERDICT", "QUEUE", "TRACE", "SPAN"} {
			body = bytes.ReplaceAll(body, []byte("$"+name), []byte(ts.Getenv(name)))
		}
	}
	answer := send(ts, args[0], args[1], body)
	if len(args) == 4 {
		var created struct {
			ID string `json:"id"`
		}
		ts.Check(json.Unmarshal(answer, &created))
		ts.Setenv(args[3], created.ID)
	}
}

func send(ts *testscript.TestScript, method, path string, body []byte) []byte {
	r, err := http.NewRequest(method, ts.Getenv("LANGFUSE_BASE_URL")+path, bytes.NewReader(body))
	ts.Check(err)
	r.SetBasicAuth(embedded.DefaultPublicKey, embedded.DefaultSecretKey)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("x-langfuse-ingestion-version", "4")
	answer, err := http.DefaultClient.Do(r)
	ts.Check(err)
	text, err := io.ReadAll(answer.Body)
	ts.Check(err)
	ts.Check(answer.Body.Close())
	if answer.StatusCode >= 300 {
		ts.Fatalf("%s %s: %s: %s", method, path, answer.Status, text)
	}
	fmt.Fprintf(ts.Stdout(), "%s", text)
	return text
}
