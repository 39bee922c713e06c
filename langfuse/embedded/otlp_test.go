package embedded

import (
	"bytes"
	"compress/gzip"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"strings"
	"testing"

	tracev1 "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

const (
	t0 = "1763694000000000000" // 2025-11-21T03:00:00Z
	t1 = "1763694001500000000" // 1.5 s later
)

// attr returns an attribute of a span.
func attr(key string, value any) object {
	switch v := value.(type) {
	case int:
		return object{"key": key, "value": object{"intValue": v}}
	case bool:
		return object{"key": key, "value": object{"boolValue": v}}
	case []string:
		list := []object{}
		for _, s := range v {
			list = append(list, object{"stringValue": s})
		}
		return object{"key": key, "value": object{"arrayValue": object{"values": list}}}
	}
	return object{"key": key, "value": object{"stringValue": value}}
}

// rootSpan returns the root span of an experiment item, from t0 to t1, with more attributes.
func rootSpan(trace, id, experiment, item string, more ...object) object {
	attrs := []object{attr("langfuse.experiment.id", experiment), attr("langfuse.experiment.name", "run "+experiment),
		attr("langfuse.experiment.dataset.id", "ds"), attr("langfuse.experiment.item.id", item),
		attr("langfuse.experiment.item.root_observation_id", id)}
	return object{"traceId": trace, "spanId": id, "name": "experiment-item-run", "startTimeUnixNano": t0,
		"endTimeUnixNano": t1, "attributes": append(attrs, more...)}
}

// export returns a request that exports spans.
func export(spans ...object) object {
	return object{"resourceSpans": []object{{"scopeSpans": []object{{"scope": object{"name": "runner", "version": "1"}, "spans": spans}}}}}
}

const allFields = "&fields=core,basic,time,io,metadata,model,usage,prompt,metrics,trace_context"

// TestExportSpans_mapping checks the observations of the sample, as JSON and in its protobuf form.
func TestExportSpans_mapping(t *testing.T) {
	sample, err := os.ReadFile("testdata/otlp.json")
	if err != nil {
		t.Fatal(err)
	}
	for name, send := range map[string]func(*testServer) answer{
		"json": func(r *testServer) answer { return r.post(api+"/otel/v1/traces", sample) },
		"json, gzipped": func(r *testServer) answer {
			return r.do("POST", api+"/otel/v1/traces", zipped(t, sample), "Content-Encoding", "gzip", "x-langfuse-ingestion-version", "4")
		},
		"protobuf, gzipped": func(r *testServer) answer {
			return r.do("POST", api+"/otel/v1/traces", zipped(t, protobufOf(t, sample)), "Content-Encoding", "gzip",
				"Content-Type", "application/x-protobuf")
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newTestServer(t, Config{})
			r.must(201, r.post(api+"/v2/prompts", object{"name": "extract", "prompt": "x"}))
			a := r.must(200, send(r))
			if a.at("resourceSpans") != nil || a.at("id") == nil {
				t.Errorf("not a queue job: %s", a.text)
			}
			got := r.must(200, r.get(api+"/v2/observations?traceId=0af7651916cd43dd8448eb211c80319c"+allFields))
			checkSample(t, got)
		})
	}
}

func checkSample(t *testing.T, got answer) {
	t.Helper()
	equal(t, "ids", got.column("id"), []string{"c7ad6b7169203332", "b7ad6b7169203331"}) // latest start first
	gen, root := 0, 1
	equalFields(t, got, object{"parentObservationId": nil, "type": "SPAN", "startTime": "2025-11-21T03:00:00.000Z",
		"endTime": "2025-11-21T03:00:01.500Z", "latency": 1.5, "level": "ERROR", "statusMessage": "no answer",
		"environment": "sdk-experiment", "input": `{"text":"…document…"}`, "output": "", "promptName": nil,
		"tags": []string{"validated", "de"}, "traceName": "extraction", "release": "r1", "userId": "u1", "sessionId": "s1",
		"public": true, "version": "0.1.0"}, "data", root)
	equalFields(t, got, object{"parentObservationId": "b7ad6b7169203331", "type": "GENERATION", "timeToFirstToken": 0.5,
		"level": "DEFAULT", "input": nil, "providedModelName": "model-x", "modelParameters": object{"temperature": 0},
		"usageDetails": object{"input": 812, "output": 64, "total": 876}, "promptName": "extract", "promptVersion": 1,
		"costDetails": object{"input": 0.25, "output": 0.5, "total": 0.75}, "totalCost": 0.75}, "data", gen)
	equalFields(t, got, object{"lang": "de", "scope.name": "runner", "resourceAttributes.service.name": "bench",
		"attributes.custom.count": "7", "attributes.langfuse.experiment.id": "e1"}, "data", root, "metadata")
}

// TestExportSpans_experimentMetadata checks that the metadata of root and child spans has the
// attributes of their experiment unchanged, although the store keeps them once, whichever a span
// has and in whatever form.
func TestExportSpans_experimentMetadata(t *testing.T) {
	long := strings.Repeat("gold ", 100)
	given := map[string]string{"id": "e1", "name": "run e1", "description": "d", "metadata": `{"a": {"b":[1]}}`, "dataset.id": "ds", "item.id": "i1",
		"item.version": "2025-11-21T03:00:00.000Z", "item.metadata": "a text", "item.expected_output": long, "item.root_observation_id": "00a1"}
	for name, change := range map[string]map[string]string{
		"all of it": {}, "another form of the version": {"item.version": "2025-11-21"}, "parts": {"metadata.c": "7"}, "less": {"description": "", "item.root_observation_id": ""},
		"no metadata": {"metadata": "{ }", "item.metadata": ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := newTestServer(t, Config{})
			want, attributes := object{}, []object{}
			sent := maps.Clone(given)
			maps.Copy(sent, change)
			for key, value := range sent {
				want["attributes.langfuse.experiment."+key] = value
				attributes = append(attributes, attr("langfuse.experiment."+key, value))
			}
			want["scope.name"], want["scope.version"] = "runner", "1"
			root := object{"traceId": "0a", "spanId": "00a1", "name": "n", "startTimeUnixNano": t0, "endTimeUnixNano": t1, "attributes": attributes}
			child := object{"traceId": "0a", "spanId": "00a2", "parentSpanId": "00a1", "name": "n", "startTimeUnixNano": t0, "endTimeUnixNano": t1, "attributes": attributes}
			r.must(200, r.post(api+"/otel/v1/traces", export(root, child)))
			got := r.must(200, r.get(api+"/v2/observations?traceId=0a&fields=metadata&expandMetadata=attributes.langfuse.experiment.item.expected_output"))
			for i := range 2 {
				equal(t, fmt.Sprint("span ", i), got.at("data", i, "metadata"), want)
			}
		})
	}
}

func zipped(t testing.TB, data []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	zw := gzip.NewWriter(&out)
	if _, err := zw.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := zw.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// protobufOf converts the JSON form of an export to protobuf, with binary ids.
func protobufOf(t testing.TB, sample []byte) []byte {
	t.Helper()
	var data tracev1.TracesData
	if err := decodeJSONSpans(sample, &data); err != nil {
		t.Fatal(err)
	}
	for _, rs := range data.GetResourceSpans() {
		for _, ss := range rs.GetScopeSpans() {
			for _, sp := range ss.GetSpans() {
				for _, id := range []*[]byte{&sp.TraceId, &sp.SpanId, &sp.ParentSpanId} {
					raw, err := hex.DecodeString(string(*id))
					if err != nil {
						t.Fatal(err)
					}
					*id = raw
				}
			}
		}
	}
	out, err := proto.Marshal(&data)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestExportSpans_refusals(t *testing.T) {
	r := newTestServer(t, Config{})
	good := rootSpan("t1", "r1", "e", "i")
	change := func(key string, value any) object {
		bad := rootSpan("t2", "r2", "e", "i")
		bad[key] = value
		return bad
	}
	r.server.maxSpansBody = 1 << 20
	bomb := zipped(t, make([]byte, r.server.maxSpansBody+1))
	cases := map[string]struct {
		body    any
		headers []string
		status  int
		text    string
	}{
		"broken JSON":           {`{"resourceSpans":[`, nil, 400, "JSON"},
		"broken protobuf":       {"\xff\xff\xff", []string{"Content-Type", "application/x-protobuf"}, 400, "Protobuf"},
		"content type":          {"{}", []string{"Content-Type", "text/plain"}, 400, "content type"},
		"a span that is null":   {`{"resourceSpans":[{"scopeSpans":[{"spans":[null]}]}]}`, nil, 400, "JSON"},
		"version 5":             {export(good), []string{"x-langfuse-ingestion-version", "5"}, 400, `{"error":"Invalid x-langfuse-ingestion-version"}`},
		"version abc":           {export(good), []string{"x-langfuse-ingestion-version", "abc"}, 400, "ingestion-version"},
		"not gzip":              {"{}", []string{"Content-Encoding", "gzip"}, 400, "decompress"},
		"numeric trace id":      {export(good, change("traceId", 7)), nil, 400, "1 of 2 spans"},
		"missing span id":       {export(good, change("spanId", nil)), nil, 400, "ids"},
		"attributes no list":    {export(good, change("attributes", object{"a": 1})), nil, 400, "JSON"},
		"empty resource spans":  {`{"resourceSpans":[]}`, nil, 200, "{}"},
		"a bomb":                {bomb, []string{"Content-Encoding", "gzip"}, 413, "Body exceeded 1mb limit"},
		"resource spans a text": {`{"resourceSpans":"x"}`, nil, 400, "JSON"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			a := r.do("POST", api+"/otel/v1/traces", tc.body, tc.headers...)
			a.expect(t, "answer", tc.status, tc.text)
			equal(t, "message", a.at("message"), nil)
		})
	}
	if got := r.get(api + "/v2/observations").column("id"); len(got) != 0 {
		t.Errorf("a refused request left %v", got)
	}
}

// TestExportSpans_leniency checks that a span may omit or misuse attributes without being refused.
func TestExportSpans_leniency(t *testing.T) {
	r := newTestServer(t, Config{})
	bare := object{"traceId": "zzz", "spanId": "ABC", "attributes": []object{
		attr("langfuse.observation.usage_details", 5), attr("langfuse.observation.prompt.name", "p"),
		attr("langfuse.observation.level", "fine"), attr("langfuse.environment", "No Such!"),
		attr("langfuse.trace.tags", `["a","b","a"]`), attr("langfuse.observation.metadata", `{"a":{"b":1}}`)}}
	r.must(200, r.post(api+"/otel/v1/traces", export(bare)))
	a := r.get(api + "/v2/observations?traceId=zzz" + allFields)
	equalFields(t, a, object{"id": "ABC", "startTime": "2026-11-21T03:00:00.000Z", "endTime": "2026-11-21T03:00:00.000Z",
		"usageDetails": object{}, "totalCost": nil, "promptName": nil, "level": "DEFAULT", "environment": "default",
		"tags": []string{"a", "b"}, "name": "", "input": nil}, "data", 0)
	equal(t, "flat metadata", a.at("data", 0, "metadata", "a.b"), "1")
}

func TestExportSpans_resend(t *testing.T) {
	cases := map[string]struct {
		again object
		rows  int
		name  string
	}{
		"identical":              {object{}, 1, "experiment-item-run"},
		"same start, other name": {object{"name": "renamed"}, 1, "renamed"},
		"later start":            {object{"startTimeUnixNano": "1763694000500000000", "endTimeUnixNano": "1763694009000000000"}, 1, "experiment-item-run"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r := newTestServer(t, Config{})
			r.must(200, r.post(api+"/otel/v1/traces", export(rootSpan("t", "r", "e", "i"))))
			again := rootSpan("t", "r", "e", "i")
			maps.Copy(again, tc.again)
			r.must(200, r.post(api+"/otel/v1/traces", export(again)))
			rows := r.get(api + "/v2/observations?traceId=t")
			if got := len(rows.column("id")); got != tc.rows {
				t.Errorf("%d rows, want %d", got, tc.rows)
			}
			equal(t, "name", rows.at("data", 0, "name"), tc.name)
			window := "?fromStartTime=2020-01-01T00:00:00Z"
			equal(t, "experiment items", len(r.get(api+"/experiment-items"+window).column("id")), 1)
			equal(t, "item count", r.get(api+"/experiments"+window).at("data", 0, "itemCount"), 1)
		})
	}
}

func TestUsageAndCost(t *testing.T) {
	cases := map[string]struct {
		attrs       attributes
		usage, cost string
	}{
		"total is the sum":   {attributes{"langfuse.observation.usage_details": `{"input":2,"output":3}`}, `{"input":2,"output":3,"total":5}`, ""},
		"another key":        {attributes{"langfuse.observation.usage_details": `{"prompt_tokens":2,"x":3}`}, `{"prompt_tokens":2,"total":5,"x":3}`, ""},
		"negative, fraction": {attributes{"langfuse.observation.usage_details": `{"input":-2,"output":0.5}`}, "", ""},
		"not text":           {attributes{"langfuse.observation.usage_details": map[string]any{"input": 1}}, "", ""},
		"cost zero":          {attributes{"langfuse.observation.cost_details": `{"total":0}`}, "", `{"total":0}`},
		"cost sum":           {attributes{"langfuse.observation.cost_details": `{"input":0.25,"output":0.5}`}, "", `{"input":0.25,"output":0.5,"total":0.75}`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			usage, cost, _ := usageAndCost(tc.attrs)
			if usage != tc.usage || cost != tc.cost {
				t.Errorf("got %q and %q, want %q and %q", usage, cost, tc.usage, tc.cost)
			}
		})
	}
}

func FuzzDecodeSpans(f *testing.F) {
	sample, err := os.ReadFile("testdata/otlp.json")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(sample)
	f.Add([]byte(`{"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":"a","spanId":"b","attributes":[{"key":"k","value":{"kvlistValue":{"values":[{"key":"x","value":{"intValue":"9"}}]}}}]}]}]}]}`))
	f.Add(protobufOf(f, sample))
	f.Add(protowire.AppendVarint(protowire.AppendTag(nil, protowire.MaxValidNumber+1, protowire.VarintType), 0))
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, name := range []string{"application/json", "application/x-protobuf"} {
			kind, wire, err := new(Server).toProtobuf(name, body)
			if err != nil {
				continue
			}
			var check spanCheck
			err = check.read(wire)
			data := new(tracev1.TracesData)
			if unmarshalErr := proto.Unmarshal(wire, data); (unmarshalErr != nil) != (err != nil) {
				t.Fatalf("%s: the check says %v, reading it %v", name, err, unmarshalErr)
			}
			if err != nil || check.bad > 0 {
				continue
			}
			for o := range observationsOf(data, message{kind: kind, received: 1}) {
				o.expand() // as readers do
				if o.trace == "" || o.span == "" || !json.Valid([]byte(o.metadata)) || !json.Valid([]byte(o.tags)) {
					t.Fatalf("%s: a bad span got through: %+v", name, o)
				}
				for _, text := range []string{o.usage, o.cost, o.parameters, o.experimentMetadata} {
					if text != "" && !json.Valid([]byte(text)) {
						t.Fatalf("%s: %q is not JSON", name, text)
					}
				}
			}
		}
	})
}

// BenchmarkExportSpans sends requests with the traces of 100 items, of three spans each.
func BenchmarkExportSpans(b *testing.B) {
	r := newTestServer(b, Config{Path: b.TempDir() + "/bench.db"})
	doc := strings.Repeat("extraction ", 200)
	bodies := make([][]byte, 0, b.N)
	for n := range b.N {
		var spans []object
		for i := range 100 {
			trace, root := fmt.Sprintf("%016x%016x", n+1, i), fmt.Sprintf("%08x%08x", n+1, i)
			spans = append(spans, rootSpan(trace, root, fmt.Sprint("e", n), fmt.Sprint(i), attr("langfuse.observation.input", doc)))
			for k := range 2 {
				child := rootSpan(trace, fmt.Sprintf("%08x%07x%x", n+1, i, k+8), fmt.Sprint("e", n), fmt.Sprint(i),
					attr("langfuse.observation.type", "generation"), attr("langfuse.observation.output", doc))
				child["parentSpanId"] = root
				spans = append(spans, child)
			}
		}
		text, err := json.Marshal(export(spans...))
		if err != nil {
			b.Fatal(err)
		}
		bodies = append(bodies, zipped(b, protobufOf(b, text)))
	}
	b.ResetTimer()
	for n := range b.N {
		r.must(200, r.do("POST", api+"/otel/v1/traces", bodies[n], "Content-Encoding", "gzip", "Content-Type", "application/x-protobuf"))
	}
	b.ReportMetric(float64(300*b.N)/b.Elapsed().Seconds(), "spans/s")
}

func TestFlatJSON(t *testing.T) {
	long := strings.Repeat("k", 10_000)
	var leaves []string
	for i := range 1000 {
		leaves = append(leaves, fmt.Sprintf(`"%d":1`, i))
	}
	many := "{" + strings.Join(leaves, ",") + "}"
	deep := strings.Repeat(`{"a":`, 2000) + "1" + strings.Repeat("}", 2000)
	cases := map[string]struct {
		text string
		want object
	}{
		"nested":          {`{"a":{"b":1,"c":{"d":"x"}},"e":[1,{"f":2}],"g":null,"h":true}`, object{"a.b": "1", "a.c.d": "x", "e": `[1,{"f":2}]`, "g": "null", "h": "true"}},
		"with blanks":     {" \n{ \"a\" : { \"b\" : \"x\" } , \"c\" : [ 1 , 2 ] }\n", object{"a.b": "x", "c": "[1,2]"}},
		"a list":          {`[1]`, object{"metadata": "[1]"}},
		"no JSON":         {`x`, object{"metadata": "x"}},
		"nests too deep":  {deep, object{"metadata": deep}},
		"numbers as sent": {`{"a":12345678901234567890,"b":1.50}`, object{"a": "12345678901234567890", "b": "1.50"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			equal(t, "fields", jsonOrNull(flatJSON(attributes{"k": tc.text}, "k")), tc.want)
		})
	}
	if flat := flatJSON(attributes{"k": `{"` + long + `":` + many + `}`}, "k"); len(flat) > 100_000 {
		t.Errorf("keys that multiply give %d bytes", len(flat))
	}
	for range 20 { // of two paths that are the same key, always the same one counts
		flat := flatJSON(attributes{"k": `{"a":{"b":1},"a.b":2,"c.d":3,"c":{"d":4}}`}, "k")
		equal(t, "fields", jsonOrNull(flat), object{"a.b": "2", "c.d": "3"})
	}
}

// TestNewObservation_name checks which attributes give an observation its name.
func TestNewObservation_name(t *testing.T) {
	for want, a := range map[string]attributes{"span": {}, "tool": {"gen_ai.tool.name": "tool", "logfire.msg": "m"}, "m": {"logfire.msg": "m", "gen_ai.tool.name": 7}} {
		equal(t, "name", newObservation(spanScope{}, &tracev1.Span{Name: "span"}, a, message{}).name, want)
	}
}
