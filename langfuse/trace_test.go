package langfuse

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

// The same trace must read the same from v3 and v4.
func TestTraceReadsTheSameFromBothMajors(t *testing.T) {
	const id = "0af7651916cd43dd8448eb211c80319c"
	for file, server := range map[string]Capabilities{"trace_v3.json": newV3, "observations.json": v4} {
		client, _ := serve(t, answers(t, file))
		trace, err := client.GetTrace(t.Context(), server, id, TraceParts{IO: true, Metadata: true})
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		root, ok := trace.Root()
		if !ok || trace.ID != id || trace.Name != "experiment-item-run" || !trace.Time.Equal(time.Date(2026, 11, 21, 3, 0, 1, 0, time.UTC)) ||
			string(trace.Input) != `{"text":"x"}` || string(trace.Output) != `"plain"` || len(trace.Observations) != 2 ||
			!slices.Contains(trace.Tags, "validated") || root.ID != "b7ad6b7169203331" {
			t.Errorf("%s: %+v", file, trace)
		}
		g := trace.Observations[1]
		if g.Type != "GENERATION" || g.ModelName() != "gpt-x" || g.PromptName != "extract" || g.PromptVersion != 7 || g.TotalCost != 0.0031 ||
			g.UsageDetails["input"] != 812 || g.UsageDetails["output"] != 64 || g.ParentID != root.ID || g.TraceID != id {
			t.Errorf("%s: %+v", file, g)
		}
	}
}

func TestScoresComeWithTheTraceOnV3(t *testing.T) {
	client, _ := serve(t, answers(t, "trace_v3.json"))
	trace, err := client.GetTrace(t.Context(), oldV3, "0af7651916cd43dd8448eb211c80319c", TraceParts{})
	if err != nil || len(trace.Scores) != 2 || trace.Scores[1].Value != NumberValue(1) || trace.Scores[1].AuthorUserID != "user-1" {
		t.Errorf("%+v, %v", trace.Scores, err)
	}
}

// manyTraces serves v2/observations for the traces 1 to n, each with a root and a child, and
// every span twice. bulk determines whether the server supports the filter for several traces.
func manyTraces(n int, bulk bool) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		asked := []string{r.FormValue("traceId")}
		if filter := r.FormValue("filter"); filter != "" {
			if !bulk {
				w.WriteHeader(http.StatusBadRequest)
				_, _ = w.Write([]byte(`{"message":"Column traceId does not match a UI / CH table mapping.","error":"InvalidRequestError"}`))
				return
			}
			var conditions []struct{ Value []string }
			_ = json.Unmarshal([]byte(filter), &conditions)
			asked = conditions[0].Value
		}
		data := []map[string]any{}
		for _, trace := range asked {
			var number int
			if _, _ = fmt.Sscan(trace, &number); number < 1 || number > n {
				continue
			}
			for range 2 {
				data = append(data,
					map[string]any{"id": "g", "traceId": trace, "parentObservationId": "r", "startTime": "2026-11-21T03:00:00Z"},
					map[string]any{"id": "r", "traceId": trace, "startTime": "2026-11-21T03:00:00Z"})
			}
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"data": data, "meta": map[string]any{}})
	}
}

func TestManyTracesAtOnce(t *testing.T) {
	var ids []string
	for i := range 120 {
		ids = append(ids, fmt.Sprint(120-i)) // the largest first
	}
	for name, test := range map[string]struct {
		bulk     bool
		requests int
	}{
		"with the filter":    {true, 3},    // 50 + 50 + 20
		"without the filter": {false, 123}, // three refusals, then each
	} {
		client, record := serve(t, manyTraces(110, test.bulk))
		traces := collect(t, client.ReadTraces(t.Context(), v4, ids, TraceParts{}))
		if len(traces) != 110 || traces[0].ID != "110" || traces[109].ID != "1" || len(record.seen()) != test.requests {
			t.Errorf("%s: %d traces after %d requests", name, len(traces), len(record.seen()))
		}
		for _, trace := range traces {
			if len(trace.Observations) != 2 || trace.Observations[0].ID != "r" {
				t.Errorf("%s: %+v", name, trace.Observations)
			}
		}
		for _, request := range record.seen() {
			if len(request.uri) > 4000 {
				t.Errorf("a URL of %d bytes", len(request.uri))
			}
		}
	}
}

// A trace of another project is not found.
func TestTraceThatIsNotThere(t *testing.T) {
	for name, server := range map[string]Capabilities{"v3": newV3, "v4": v4} {
		client, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
			if strings.Contains(r.URL.Path, "/traces/") {
				w.WriteHeader(http.StatusNotFound)
				_, _ = w.Write([]byte(`{"message":"Trace t not found within authorized project","error":"LangfuseNotFoundError"}`))
				return
			}
			_, _ = w.Write([]byte(`{"data":[],"meta":{}}`))
		})
		_, err := client.GetTrace(t.Context(), server, "t", TraceParts{})
		if !errors.Is(err, ErrNotFound) || !strings.Contains(err.Error(), `trace "t"`) || exitCode(err) == 69 {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestTraceWithoutItsRoot(t *testing.T) {
	client, _ := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"data":[{"id":"g","traceId":"t","parentObservationId":"r","name":"llm","traceName":"extract","startTime":"2026-11-21T03:00:00Z","output":"x"}],"meta":{}}`))
	})
	trace, err := client.GetTrace(t.Context(), v4, "t", TraceParts{IO: true})
	if _, ok := trace.Root(); err != nil || ok || trace.Name != "extract" || trace.Output != nil || trace.Time.IsZero() {
		t.Errorf("%+v, %v", trace, err)
	}
}

func TestListTraces(t *testing.T) {
	query := TraceQuery{Name: "extract", Tags: []string{"validated", "x"}, Environment: "production", From: testVersion}
	client, record := serve(t, answers(t, "traces_v3.json"))
	var got []string
	for _, trace := range collect(t, client.ListTraces(t.Context(), newV3, query, TraceParts{IO: true})) {
		got = append(got, trace.ID+" "+string(trace.Input)+string(trace.Metadata))
	}
	// The second trace of the sample lacks a tag. The client filters it out if the server
	// ignores the query.
	if len(got) != 1 || got[0] != `0af7651916cd43dd8448eb211c80319c {"text":"x"}{"lang":"de"}` {
		t.Errorf("%q", got)
	}
	want := "/api/public/traces?environment=production&fields=core%2Cio&fromTimestamp=2026-11-21T02%3A00%3A00.123Z&limit=64&name=extract&orderBy=timestamp.desc&page=1&tags=validated&tags=x"
	if uri := record.seen()[0].uri; uri != want {
		t.Errorf("asked\n%s, want\n%s", uri, want)
	}

	client, record = serve(t, answers(t, "observations.json"))
	n := 0
	for trace, err := range client.ListTraces(t.Context(), v4, query, TraceParts{IO: true}) {
		if err != nil || string(trace.Input) != `{"text":"x"}` && n == 0 {
			t.Fatal(trace, err)
		}
		n++
	}
	var filters []string
	for _, request := range record.seen() {
		parsed, err := http.NewRequest(http.MethodGet, request.uri, nil)
		if err != nil {
			t.Fatal(err)
		}
		if parsed.FormValue("isRootObservation") != "true" || parsed.FormValue("fromStartTime") == "" || parsed.FormValue("name") != "" {
			t.Errorf("asked %s", request.uri)
		}
		filters = append(filters, parsed.FormValue("filter"))
	}
	if n != 1 || len(filters) != 2 || !strings.Contains(filters[0], `{"column":"traceName","operator":"any of","type":"stringOptions","value":["extract"]}`) ||
		!strings.Contains(filters[1], `{"column":"name","operator":"any of","type":"stringOptions","value":["extract"]}`) ||
		!strings.Contains(filters[1], `{"column":"tags","operator":"all of","type":"arrayOptions","value":["validated","x"]}`) {
		t.Errorf("%d traces, filters %q", n, filters)
	}
}
