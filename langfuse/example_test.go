package langfuse_test

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"extraction-experiment/langfuse"
)

func ExampleClient_Probe() {
	mux := http.NewServeMux()
	answer := func(path string, status int, body string) {
		mux.HandleFunc("/api/public/"+path, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			fmt.Fprint(w, body)
		})
	}
	answer("health", 200, `{"status":"OK","version":"4.16.0"}`)
	answer("projects", 200, `{"data":[{"id":"p1","name":"extraction"}]}`)
	answer("experiments", 200, `{"data":[],"meta":{}}`)
	answer("v2/scores", 404, `{"message":"not available in Langfuse v4 events_only mode"}`)
	web := httptest.NewServer(mux)
	defer web.Close()

	environment := map[string]string{
		"LANGFUSE_PUBLIC_KEY": "pk-lf-1", "LANGFUSE_SECRET_KEY": "sk-lf-1", "LANGFUSE_BASE_URL": web.URL + "/",
	}
	config, _, err := langfuse.ConfigFromEnv(func(name string) (string, bool) { v, ok := environment[name]; return v, ok })
	if err != nil {
		fmt.Println(err)
		return
	}
	client, err := langfuse.New(config)
	if err != nil {
		fmt.Println(err)
		return
	}
	server, err := client.Probe(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(server.Project.Name, server.Version, server.Mode(), server.StoresLinks())
	// Output: extraction 4.16.0 events_only false
}

// randomID returns a new id of n bytes.
func randomID(n int) string {
	id := make([]byte, n)
	_, _ = rand.Read(id) // never fails
	return hex.EncodeToString(id)
}

// writable starts a stand-in for a Langfuse server that accepts spans and scores, prints the
// scores, and shows one generation.
func writable() *httptest.Server {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /api/public/otel/v1/traces", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{}`)
	})
	mux.HandleFunc("POST /api/public/ingestion", func(w http.ResponseWriter, r *http.Request) {
		var sent struct {
			Batch []struct {
				ID   string
				Body struct{ Name, DataType, Comment string }
			}
		}
		_ = json.NewDecoder(r.Body).Decode(&sent)
		fmt.Println("score:", sent.Batch[0].Body)
		w.WriteHeader(http.StatusMultiStatus)
		fmt.Fprintf(w, `{"successes":[{"id":%q}],"errors":[]}`, sent.Batch[0].ID)
	})
	mux.HandleFunc("GET /api/public/v2/observations", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, `{"data":[{"id":"1","traceId":%q,"type":"GENERATION","traceName":"chat",
			"model":"small-1","output":"4"}],"meta":{}}`, r.FormValue("traceId"))
	})
	return httptest.NewServer(mux)
}

// This example sends a trace with one generation and a score for it, and reads the trace back.
func ExampleClient_ExportSpans() {
	web := writable()
	defer web.Close()
	client, err := langfuse.New(langfuse.Config{
		BaseURL: web.URL, PublicKey: "pk-lf-1", SecretKey: langfuse.NewSecret("sk-lf-1"),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	caps := langfuse.Capabilities{NewReads: true} // in a program, those of client.Probe

	ctx, end := context.Background(), time.Now()
	span := langfuse.Span{
		TraceID: randomID(16), SpanID: randomID(8), Name: "answer", Start: end.Add(-2 * time.Second), End: end,
		Attributes: []langfuse.Attribute{
			langfuse.TextAttribute("langfuse.trace.name", "chat"),
			langfuse.TextAttribute("session.id", "session-1"),
			langfuse.TextAttribute("langfuse.observation.type", "generation"),
			langfuse.TextAttribute("langfuse.observation.input", `[{"role":"user","content":"2+2?"}]`),
			langfuse.TextAttribute("langfuse.observation.output", "4"),
			langfuse.TextAttribute("langfuse.observation.model.name", "small-1"),
			langfuse.TextAttribute("langfuse.observation.usage_details", `{"input":12,"output":1}`),
		},
	}
	scope := langfuse.Scope{Name: "my-service", Version: "1.0"}
	if err := client.ExportSpans(ctx, scope, []langfuse.Span{span}); err != nil {
		fmt.Println(err)
		return
	}
	score := langfuse.ScoreCreate{
		ID: span.SpanID + "-correct", Name: "correct", Value: langfuse.BoolValue(true), Type: langfuse.ScoreBoolean,
		TraceID: span.TraceID, ObservationID: span.SpanID, Comment: "as expected", Timestamp: end,
	}
	if err := errors.Join(client.CreateScores(ctx, []langfuse.ScoreCreate{score})...); err != nil {
		fmt.Println(err)
		return
	}
	var trace langfuse.Trace
	err = langfuse.Wait{}.Until(ctx, func(ctx context.Context) (bool, error) {
		trace, err = client.GetTrace(ctx, caps, span.TraceID, langfuse.TraceParts{IO: true})
		if errors.Is(err, langfuse.ErrNotFound) {
			return false, nil // not yet stored
		}
		return true, err
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("trace:", trace.Name, trace.ID == span.TraceID)
	generation := trace.Observations[0]
	fmt.Println("observation:", generation.Type, generation.ModelName(), string(generation.Output))
	// Output:
	// score: {correct BOOLEAN as expected}
	// trace: chat true
	// observation: GENERATION small-1 4
}

// This example gets a prompt, and uses a built-in text as long as there is none. Any other error,
// such as that of wrong keys, is not hidden by the built-in text.
func ExampleClient_GetPrompt() {
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprint(w, `{"error":"LangfuseNotFoundError","message":"Prompt not found: 'greeting' with label 'staging'"}`)
	}))
	defer web.Close()
	client, err := langfuse.New(langfuse.Config{
		BaseURL: web.URL, PublicKey: "pk-lf-1", SecretKey: langfuse.NewSecret("sk-lf-1"),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	prompt, err := client.GetPrompt(context.Background(), langfuse.PromptRef{Name: "greeting", Label: "staging"})
	if errors.Is(err, langfuse.ErrNotFound) {
		prompt, err = langfuse.Prompt{Type: langfuse.PromptText, Prompt: json.RawMessage(`"Greet {{name}}."`)}, nil
	}
	if err != nil {
		fmt.Println(err)
		return
	}
	text, err := prompt.Text() // pipeline.ParseChat for a chat prompt
	fmt.Println(strings.ReplaceAll(text, "{{name}}", "Ada"), err)
	// Output: Greet Ada. <nil>
}
