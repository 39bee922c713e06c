package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"extraction-experiment/internal/cli"
	"extraction-experiment/langfuse"
	"extraction-experiment/langfuse/embedded"
	"extraction-experiment/seed"
)

// production is a Langfuse of some mode, with production programs that write to it.
type production struct {
	t      *testing.T
	url    string
	store  *embedded.Server
	client *langfuse.Client
}

func newProduction(t *testing.T, mode embedded.Mode) *production {
	t.Helper()
	t.Chdir(t.TempDir())
	store, client := startLangfuse(t, mode, direct)
	t.Cleanup(http.DefaultTransport.(*http.Transport).CloseIdleConnections) // other libraries keep connections open there
	return &production{t, client.BaseURL(), store, client}
}

const (
	plantText   = "Ada Lovelace was born in London. Charles Babbage was born in London, too."
	plantInput  = `{"document_text":"` + plantText + `","object_schemas":{"Person":{"description":"a person"},"City":{"description":"a city"}}}`
	plantOutput = `{"entities":[{"id":"1","name":"Ada Lovelace","type":"Person"},{"id":"2","name":"London","type":"City"}],"relationships":[{"source_ref":"1","target_ref":"2","relationship_type":"born_in"}]}`
	plantGold   = `{"entities":[{"name":"Ada Lovelace","type":"Person"},{"name":"Charles Babbage","type":"Person"},{"name":"London","type":"City"}],"relationships":[{"source_name":"Ada Lovelace","target_name":"London","relationship_type":"born_in"}]}`
)

// otlp writes a trace like a program with OpenTelemetry and returns the ids of trace and root
// span.
func (p *production) otlp(n int) (string, string) {
	p.t.Helper()
	trace, root := fmt.Sprintf("%032x", 0xf00+n), fmt.Sprintf("%016x", 0xb00+n)
	text := func(key, value string) any {
		return map[string]any{"key": key, "value": map[string]any{"stringValue": value}}
	}
	p.post("/api/public/otel/v1/traces", map[string]any{"resourceSpans": []any{map[string]any{"scopeSpans": []any{map[string]any{"spans": []any{
		map[string]any{"traceId": trace, "spanId": root, "name": "extract", "startTimeUnixNano": "1795200000000000000", "endTimeUnixNano": "1795200002000000000",
			"attributes": []any{text("langfuse.observation.input", plantInput), text("langfuse.observation.output", plantOutput)}},
		map[string]any{"traceId": trace, "spanId": fmt.Sprintf("%016x", 0xc00+n), "parentSpanId": root, "name": "llm", "startTimeUnixNano": "1795200001000000000", "endTimeUnixNano": "1795200002000000000",
			"attributes": []any{text("langfuse.observation.type", "generation"), text("langfuse.observation.output", plantOutput)}},
	}}}}}})
	return trace, root
}

func (p *production) post(path string, body any) string {
	p.t.Helper()
	raw, err := json.Marshal(body)
	must(p.t, err)
	r, err := http.NewRequest("POST", p.url+path, bytes.NewReader(raw))
	must(p.t, err)
	r.SetBasicAuth(embedded.DefaultPublicKey, embedded.DefaultSecretKey)
	r.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(r)
	must(p.t, err)
	defer answer.Body.Close()
	var made struct {
		ID string `json:"id"`
	}
	if err := json.NewDecoder(answer.Body).Decode(&made); err != nil || answer.StatusCode >= 300 {
		p.t.Fatalf("POST %s: %s, %v", path, answer.Status, err)
	}
	return made.ID
}

// annotate annotates like a person in the user interface.
func (p *production) annotate(a embedded.Annotation) {
	p.t.Helper()
	a.Author = "ann"
	if _, err := p.store.Annotate(a); err != nil {
		p.t.Fatal(err)
	}
}

// seed seeds a dataset from traces and checks that all become items.
func (p *production) seed(dataset string, ids ...string) {
	p.t.Helper()
	server, err := p.client.Probe(p.t.Context())
	must(p.t, err)
	result, err := seed.FromTraces(p.t.Context(), p.client, server.Capabilities, seed.Selection{IDs: ids}, seed.TraceConfig{Config: seed.Config{Dataset: dataset}})
	if err != nil || result.Err() != nil || result.Created != len(ids) {
		p.t.Fatalf("%d created: %v, %v", result.Created, err, result.Err())
	}
}

// experiment runs a command line against the plant's Langfuse.
func (p *production) experiment(args ...string) string {
	p.t.Helper()
	var stdout, stderr bytes.Buffer
	set := map[string]string{"LANGFUSE_BASE_URL": p.url, "LANGFUSE_PUBLIC_KEY": embedded.DefaultPublicKey, "LANGFUSE_SECRET_KEY": embedded.DefaultSecretKey}
	code := Run(p.t.Context(), cli.Env{Args: args, Stdin: strings.NewReader(""), Stdout: &stdout, Stderr: &stderr,
		Getenv: func(name string) string { return set[name] }, Terminal: func() int { return 0 }})
	if code != cli.ExitOK {
		p.t.Fatalf("experiment %s: exit code %d: %s%s", strings.Join(args, " "), code, stdout.String(), stderr.String())
	}
	return stdout.String()
}

// Traces of a program with OpenTelemetry are validated by a correction and by an annotation. Their
// items link back, a run over them works, and a trace of that run does not become an item.
func TestSeeded_run(t *testing.T) {
	for _, mode := range embedded.Modes() {
		t.Run(string(mode), func(t *testing.T) {
			p := newProduction(t, mode)
			verdict := p.post("/api/public/score-configs", map[string]any{"name": "validated", "dataType": "BOOLEAN"})
			corrected, correctedRoot := p.otlp(1)
			annotated, annotatedRoot := p.otlp(2)
			p.annotate(embedded.Annotation{TraceID: corrected, Correction: plantGold})
			p.annotate(embedded.Annotation{TraceID: annotated, ObservationID: annotatedRoot, ConfigID: verdict, Value: true})
			p.seed("gold", corrected, annotated)
			links := map[string]string{}
			for item, err := range p.client.ListDatasetItems(t.Context(), langfuse.DatasetItemsQuery{DatasetName: "gold", Version: langfuse.DatasetVersion{At: time.Now().Add(time.Minute)}}) {
				must(t, err)
				links[item.SourceTraceID] = item.SourceObservationID
				if has := strings.Contains(string(item.ExpectedOutput), "Babbage"); has != (item.SourceTraceID == corrected) {
					t.Errorf("the gold of %s is %s", item.SourceTraceID, item.ExpectedOutput)
				}
			}
			if len(links) != 2 || links[corrected] != correctedRoot || links[annotated] != annotatedRoot {
				t.Errorf("links %v", links)
			}

			run := summaryOf(t, p.experiment("--dataset", "gold", "--name", "on-gold", "--json"))
			if run.Items.Planned != 2 || run.Items.Failed != 0 {
				t.Fatalf("%+v", run.Items)
			}
			p.rejectsOwnTrace(verdict)
		})
	}
}

// rejectsOwnTrace validates a trace of a run of this program. It does not become an item,
// because a model gave its answer.
func (p *production) rejectsOwnTrace(verdict string) {
	p.t.Helper()
	server, err := p.client.Probe(p.t.Context())
	must(p.t, err)
	for trace, err := range p.client.ListTraces(p.t.Context(), server.Capabilities, langfuse.TraceQuery{Name: "experiment-item-run"}, langfuse.TraceParts{}) {
		must(p.t, err)
		p.annotate(embedded.Annotation{TraceID: trace.ID, ConfigID: verdict, Value: true})
		result, err := seed.FromTraces(p.t.Context(), p.client, server.Capabilities, seed.Selection{IDs: []string{trace.ID}}, seed.TraceConfig{Config: seed.Config{Dataset: "again"}})
		if err != nil || result.Refused != 1 || cli.ExitCode(result.Err()) != cli.ExitFailures || !strings.Contains(result.Err().Error(), "is of an experiment") {
			p.t.Errorf("%+v: %v, %v", result, err, result.Err())
		}
		return
	}
	p.t.Error("the run has left no trace")
}
