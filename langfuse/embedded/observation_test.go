package embedded

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestLegacy_trace checks the legacy reads of the sample export in both modes that have them.
func TestLegacy_trace(t *testing.T) {
	sample, err := os.ReadFile("testdata/otlp.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, mode := range []Mode{ModeV3, ModeV4Dual} {
		t.Run(string(mode), func(t *testing.T) {
			r := newTestServer(t, Config{Mode: mode})
			r.must(201, r.post(api+"/v2/prompts", object{"name": "extract", "prompt": "x"}))
			r.must(200, r.post(api+"/otel/v1/traces", sample))
			const id = "0af7651916cd43dd8448eb211c80319c"
			a := r.must(200, r.get(api+"/traces/"+id))
			equalFields(t, a, object{"name": "extraction", "userId": "u1", "sessionId": "s1", "release": "r1",
				"version": "0.1.0", "public": true, "environment": "sdk-experiment", "tags": []string{"de", "validated"},
				"timestamp": "2025-11-21T03:00:00.000Z", "latency": 1.5, "totalCost": 0.75, "externalId": nil,
				"htmlPath": "/project/embedded/traces/" + id, "input": object{"text": "…document…"}, "output": ""})
			root, gen := 0, 1 // ordered by start
			equalFields(t, a, object{"parentObservationId": nil, "level": "ERROR", "statusMessage": "no answer",
				"input": object{"text": "…document…"}, "calculatedTotalCost": nil}, "observations", root)
			equalFields(t, a, object{"parentObservationId": "b7ad6b7169203331", "model": "model-x",
				"modelParameters": object{"temperature": 0}, "promptName": "extract", "promptVersion": 1, "calculatedTotalCost": 0.75,
				"usageDetails": object{"input": 812, "output": 64, "total": 876}, "timeToFirstToken": 0.5}, "observations", gen)
			metadata := a.at("observations", root, "metadata").(map[string]any)
			equal(t, "metadata", []any{metadata["scope.name"], metadata["attributes.custom.count"]}, []any{"runner", 7})

			core := r.must(200, r.get(api+"/traces?fields=core"))
			equalFields(t, core, object{"id": id, "input": nil, "observations": []any{}, "scores": []any{}, "latency": -1, "totalCost": -1}, "data", 0)
			observation := r.must(200, r.get(api+"/observations/c7ad6b7169203332"))
			equal(t, "one observation", observation.at("usageDetails"), object{"input": 812, "output": 64, "total": 876})
			for path, text := range map[string]string{"/traces/none": "Trace none not found within authorized project",
				"/observations/none": "Observation not found within authorized project"} {
				r.get(api+path).expect(t, path, 404, text)
			}
		})
	}
}

// TestLegacy_resend checks that a span that is sent again replaces the first one.
func TestLegacy_resend(t *testing.T) {
	first := rootSpan("t", "s", "e", "i")
	renamed := rootSpan("t", "s", "e", "i")
	renamed["name"] = "other"
	later := rootSpan("t", "s", "e", "i")
	later["startTimeUnixNano"] = "1763694000500000000"
	cases := map[string]struct {
		again object
		name  string
		start string // in legacy reads
	}{
		"identical":    {first, "experiment-item-run", "2025-11-21T03:00:00.000Z"},
		"renamed":      {renamed, "other", "2025-11-21T03:00:00.000Z"},
		"half a later": {later, "experiment-item-run", "2025-11-21T03:00:00.500Z"},
	}
	for what, tc := range cases {
		for _, mode := range []Mode{ModeV3, ModeV4Dual} {
			t.Run(what+" "+string(mode), func(t *testing.T) {
				r := newTestServer(t, Config{Mode: mode})
				r.must(200, r.post(api+"/otel/v1/traces", export(first)))
				r.clock.advance(time.Second)
				r.must(200, r.post(api+"/otel/v1/traces", export(tc.again)))
				a := r.must(200, r.get(api+"/traces/t"))
				equal(t, "the first timestamp stays", a.at("timestamp"), "2025-11-21T03:00:00.000Z")
				equal(t, "name", a.at("observations", 0, "name"), tc.name)
				equal(t, "start", a.at("observations", 0, "startTime"), tc.start)
				equal(t, "one observation", a.at("observations", 1), nil)
				if mode == ModeV4Dual {
					equal(t, "one row", len(r.get(api+"/v2/observations").column("id")), 1)
				}
			})
		}
	}
}

// TestLegacy_badSpan checks that a valid span is lost with an invalid one in its request. In mode
// v3 the request is acknowledged all the same.
func TestLegacy_badSpan(t *testing.T) {
	bad := rootSpan("t", "s2", "e", "i")
	bad["traceId"] = 7
	for mode, status := range map[Mode]int{ModeV4: 400, ModeV4Dual: 400, ModeV3: 200} {
		r := newTestServer(t, Config{Mode: mode})
		r.must(status, r.post(api+"/otel/v1/traces", export(rootSpan("t", "s1", "e", "i"), bad)))
		r.must(400, r.post(api+"/otel/v1/traces", "{"))
		equal(t, string(mode), r.count("observations"), 0)
	}
}

func TestLegacy_traceList(t *testing.T) {
	r := newTestServer(t, Config{Mode: ModeV4Dual})
	for i, tags := range []string{`["validated","de"]`, `["validated"]`, `[]`} {
		id := "t" + string(rune('1'+i))
		span := rootSpan(id, "r"+id, "e", "i", attr("langfuse.trace.tags", tags), attr("langfuse.trace.name", "n"+id),
			attr("langfuse.environment", "env"+id), attr("langfuse.trace.metadata.lang", "l"+id))
		span["startTimeUnixNano"] = "176369400" + string(rune('1'+i)) + "000000000"
		r.must(200, r.post(api+"/otel/v1/traces", export(span)))
	}
	cases := map[string]struct {
		query string
		ids   []string
	}{
		"all, newest first": {"", []string{"t3", "t2", "t1"}},
		"newest first":      {"orderBy=timestamp.desc", []string{"t3", "t2", "t1"}},
		"a page":            {"limit=1&page=2", []string{"t2"}},
		"a tag":             {"tags=validated", []string{"t2", "t1"}},
		"all of two tags":   {"tags=validated&tags=de", []string{"t1"}},
		"a name":            {"name=nt2", []string{"t2"}},
		"two environments":  {"environment=envt1&environment=envt3", []string{"t3", "t1"}},
		"a window":          {"fromTimestamp=2025-11-21T03:00:02Z&toTimestamp=2025-11-21T03:00:03Z", []string{"t2"}},
		"fields":            {"fields=core&name=nt1", []string{"t1"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			equal(t, "ids", r.must(200, r.get(api+"/traces?"+tc.query)).column("id"), tc.ids)
		})
	}
	for _, query := range []string{"limit=101", "orderBy=x.asc", "orderBy=timestamp.asc", "filter=[]", "fromTimestamp=x"} {
		equal(t, query, r.get(api+"/traces?"+query).status, 400)
	}
}

func TestLegacy_scores(t *testing.T) {
	r := newTestServer(t, Config{Mode: ModeV3})
	r.must(200, r.post(api+"/otel/v1/traces", export(rootSpan("t", "s", "e", "i", attr("user.id", "u")))))
	r.must(207, r.post(api+"/ingestion", batchOf(
		scoreEvent("1", "number", 0, "2026-11-21T03:00:01Z", "comment", "why"),
		scoreEvent("2", "yes", 1, "2026-11-21T03:00:02Z", "dataType", "BOOLEAN", "observationId", "s"),
		scoreEvent("3", "class", "good", "2026-11-21T03:00:03Z"),
		scoreEvent("4", "note", "a text", "2026-11-21T03:00:04Z", "dataType", "TEXT"),
		scoreEvent("5", "fix", `{"a":1}`, "2026-11-21T03:00:05Z", "dataType", "CORRECTION"),
		scoreEvent("6", "run", 0.5, "2026-11-21T03:00:06Z", "traceId", nil, "datasetRunId", "r"))))
	second := r.must(200, r.get(api+"/v2/scores"))
	equal(t, "v2", second.column("id"), []string{"run", "fix", "note", "class", "yes", "number"})
	equal(t, "values", second.column("value"), []any{0.5, 0, nil, 0, 1, 0})
	equal(t, "texts", second.column("stringValue"), []any{nil, `{"a":1}`, "a text", "good", "True", nil})
	equal(t, "name of a correction", second.at("data", 1, "name"), "output")
	for query, ids := range map[string][]string{"datasetRunId=r": {"run"}, "traceId=t&name=output": {"fix"},
		"scoreIds=fix,yes": {"fix", "yes"}, "name=output": {"fix"}, "limit=2&page=3": {"yes", "number"}} {
		equal(t, query, r.must(200, r.get(api+"/v2/scores?"+query)).column("id"), ids)
	}
	equal(t, "a comment", second.at("data", 5, "comment"), "why")
	r.must(400, r.get(api+"/v2/scores?limit=0"))
	r.must(400, r.get(api+"/v2/scores?source=ANNOTATION"))
}

// TestOpen_migrates checks that a store of version 1 is upgraded and keeps its data.
func TestOpen_migrates(t *testing.T) {
	path := filepath.Join(t.TempDir(), "old.db")
	db, err := openPool("file:"+path, 1)
	if err != nil {
		t.Fatal(err)
	}
	old := &store{w: db, r: db}
	err = old.update(func(tx *transaction) error {
		_, err := tx.Exec(schemaEvents + `;
			INSERT INTO meta VALUES('project_id', 'p1');
			INSERT INTO datasets VALUES('id1', 'd', 1, 1, NULL, NULL, NULL, NULL);
			INSERT INTO items VALUES('i1', 'id1', 1, NULL, 0, 'ACTIVE', '', '', 1, 1, NULL, NULL, '{"n":1}');
			PRAGMA user_version = 1`)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := old.close(); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second time no step is left
		r := newTestServer(t, Config{Path: path, Mode: ModeV3})
		equal(t, "items", r.get(api+"/dataset-items?datasetName=d").column("id"), []string{"i1"})
		r.must(200, r.post(api+"/dataset-run-items", object{"runName": "r", "datasetItemId": "i1", "traceId": "t"}))
		r.must(200, r.post(api+"/otel/v1/traces", export(rootSpan("t", "s", "e", "i"))))
		equal(t, "traces", r.get(api+"/traces").column("id"), []string{"t"})
	}
}

func TestObservations_filters(t *testing.T) {
	r := newTestServer(t, Config{})
	child := object{"traceId": "t1", "spanId": "c1", "parentSpanId": "r1", "name": "call", "startTimeUnixNano": t0, "endTimeUnixNano": t1,
		"attributes": []object{attr("langfuse.observation.type", "generation"), attr("langfuse.trace.tags", []string{"validated"})}}
	r.must(200, r.post(api+"/otel/v1/traces", export(
		rootSpan("t1", "r1", "e", "i", attr("langfuse.trace.tags", []string{"validated", "de"}), attr("user.id", "u"), attr("langfuse.environment", "prod")),
		rootSpan("t2", "r2", "e", "i", attr("langfuse.trace.tags", []string{"de"}), attr("langfuse.trace.name", "extract invoice")),
		child)))
	cond := func(kind, column, operator, value string) string {
		return "filter=" + url.QueryEscape(fmt.Sprintf(`[{"type":%q,"column":%q,"operator":%q,"value":%s}]`, kind, column, operator, value))
	}
	cases := map[string]struct {
		query string
		ids   []string
	}{
		"roots":            {"isRootObservation=true", []string{"r2", "r1"}},
		"roots with a tag": {"isRootObservation=true&" + cond("arrayOptions", "tags", "any of", `["validated"]`), []string{"r1"}},
		"all tags":         {cond("arrayOptions", "tags", "all of", `["validated","de","de"]`), []string{"r1"}},
		"name":             {"name=call", []string{"c1"}},
		"environment":      {"environment=prod&environment=other", []string{"r1"}},
		"trace name":       {cond("string", "traceName", "=", `"extract invoice"`), []string{"r2"}},
		"options":          {cond("stringOptions", "name", "any of", `["call","x"]`), []string{"c1"}},
		"a window":         {"fromStartTime=2026-01-01T00:00:00Z", []string{}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			equal(t, "ids", r.must(200, r.get(api+"/v2/observations?"+tc.query)).column("id"), tc.ids)
		})
	}
	r.get(api+"/v2/observations?"+cond("numberObject", "scores_avg", ">=", "1")).
		expect(t, "an unknown column", 400, "Column scores_avg does not match")
	for _, query := range []string{"limit=1001", "filter=x", "isRootObservation=maybe", "fromStartTime=x", cond("string", "name", "like", `"x"`),
		cond("arrayOptions", "tags", "any of", `[1]`), cond("arrayOptions", "name", "any of", `["x"]`), cond("stringOptions", "name", "any of", `"x"`), cond("number", "latency", ">", "1"),
		"type=SPAN"} {
		r.must(400, r.get(api+"/v2/observations?"+query))
	}
	r.must(200, r.get(api+"/v2/observations?limit=1000"))
}

func TestObservations_metadataIsCut(t *testing.T) {
	r := newTestServer(t, Config{})
	long := strings.Repeat("é", 300)
	r.must(200, r.post(api+"/otel/v1/traces", export(rootSpan("t", "r", "e", "i", attr("langfuse.observation.metadata.long", long)))))
	path := api + "/v2/observations?traceId=t&fields=metadata"
	equal(t, "cut", r.get(path).at("data", 0, "metadata", "long"), strings.Repeat("é", 200))
	equal(t, "expanded", r.get(path+"&expandMetadata=long").at("data", 0, "metadata", "long"), long)
}
