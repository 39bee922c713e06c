package embedded

import (
	"fmt"
	"net/url"
	"os"
	"strings"
	"testing"
)

const since = "?fromStartTime=2020-01-01T00:00:00Z"

func TestExperiments_sample(t *testing.T) {
	sample, err := os.ReadFile("testdata/otlp.json")
	if err != nil {
		t.Fatal(err)
	}
	r := newRig(t, Config{})
	r.must(200, r.post(api+"/otel/v1/traces", sample))
	r.must(207, r.post(api+"/ingestion", batchOf(
		scoreEvent("1", "micro", 0.9, "2026-11-21T03:00:00Z", "traceId", nil, "datasetRunId", "e1", "name", "micro_f1"),
		scoreEvent("2", "f1", 0, "2025-11-21T03:05:00Z", "traceId", "0af7651916cd43dd8448eb211c80319c", "observationId", "b7ad6b7169203331"),
		scoreEvent("3", "trace", 1, "2025-11-21T03:05:01Z", "traceId", "0af7651916cd43dd8448eb211c80319c"),
		scoreEvent("4", "call", 1, "2025-11-21T03:05:02Z", "traceId", "0af7651916cd43dd8448eb211c80319c", "observationId", "c7ad6b7169203332"),
		scoreEvent("5", "late", 1, "2025-11-23T03:05:02Z", "traceId", "0af7651916cd43dd8448eb211c80319c"))))

	plainly := r.must(200, r.get(api+"/experiments"+since))
	equal(t, "core", plainly.at("data"), []object{{"id": "e1", "name": "run A", "description": "nightly", "datasetId": "d1",
		"startTime": "2025-11-21T03:00:00.000Z", "endTime": "2025-11-21T03:00:01.500Z", "itemCount": 1}})
	equal(t, "no cursor on the last page", plainly.at("meta"), object{})
	whole := r.get(api + "/experiments" + since + "&fields=core,metadata,scores")
	equal(t, "metadata is flat", whole.at("data", 0, "metadata"), object{"model": "model-x", "limits.tokens": "5"})
	equal(t, "run-level scores only", len(whole.at("data", 0, "scores").([]any)), 1)
	equal(t, "its subject", whole.at("data", 0, "scores", 0, "subject"), object{"kind": "experiment", "id": "e1"})

	items := r.must(200, r.get(api+"/experiment-items"+since+"&fields=core,dataset,io,metadata,itemMetadata,experimentMetadata,scores"))
	equal(t, "one row", len(items.column("id")), 1)
	for key, want := range map[string]any{"id": "b7ad6b7169203331", "traceId": "0af7651916cd43dd8448eb211c80319c", "level": "ERROR",
		"experimentId": "e1", "experimentName": "run A", "experimentItemId": "inv-1", "experimentDatasetId": "d1",
		"experimentItemVersion": "2025-11-21T02:00:00.000Z", "input": `{"text":"…document…"}`, "output": "",
		"expectedOutput": `{"total":12.5}`, "experimentItemMetadata": object{"lang": "de"}, "experimentDescription": "nightly",
		"environment": "sdk-experiment", "startTime": "2025-11-21T03:00:00.000Z"} {
		equal(t, key, items.at("data", 0, key), want)
	}
	var ids []any
	for i := range items.at("data", 0, "scores").([]any) {
		ids = append(ids, items.at("data", 0, "scores", i, "id"))
	}
	equal(t, "scores of the root and its trace, within a day", ids, []string{"trace", "f1"})
	equal(t, "without fields there is no io", r.get(api+"/experiment-items"+since).at("data", 0, "input"), nil)
}

// Both attempts of an item are listed and counted, as Langfuse 4 does.
func TestExperiments_twoAttempts(t *testing.T) {
	r := newRig(t, Config{})
	failed := rootSpan("t1", "r1", "e", "i", attr("langfuse.observation.level", "ERROR"))
	r.must(200, r.post(api+"/otel/v1/traces", export(failed, rootSpan("t2", "r2", "e", "i"), rootSpan("t3", "r3", "e", "j"))))
	equal(t, "count", r.get(api+"/experiments"+since).at("data", 0, "itemCount"), 3)
	equal(t, "rows", r.get(api+"/experiment-items"+since).column("experimentItemId"), []string{"j", "i", "i"})
}

func TestExperiments_namesAndPages(t *testing.T) {
	r := newRig(t, Config{})
	var spans []object
	names := []string{"#2", "a/b", "50%off", "x  y", "<b>'\"", "comma, here", " leading", "Ünïcode 😀"}
	for i, name := range names {
		root := rootSpan(fmt.Sprint("t", i), fmt.Sprint("r", i), fmt.Sprint("e", i), "item", attr("langfuse.experiment.name", name))
		root["startTimeUnixNano"] = fmt.Sprint(1763694000000000000 + int64(i/2)*1e9) // pairs start together
		spans = append(spans, root)
	}
	r.must(200, r.post(api+"/otel/v1/traces", export(spans...)))
	want := []string{"e7", "e6", "e5", "e4", "e3", "e2", "e1", "e0"}
	equal(t, "experiments by cursor", r.pages(api+"/experiments"+since+"&limit=3"), want)
	equal(t, "items by cursor", r.pages(api+"/experiment-items"+since+"&limit=3"), []string{"r7", "r6", "r5", "r4", "r3", "r2", "r1", "r0"})
	equal(t, "observations by cursor", r.pages(api+"/v2/observations?limit=3"), []string{"r7", "r6", "r5", "r4", "r3", "r2", "r1", "r0"})
	for i, name := range names {
		found := r.get(api + "/experiments" + since + "&name=" + url.QueryEscape(name)).column("id")
		wanted := []string{fmt.Sprint("e", i)}
		if strings.Contains(name, ",") || strings.HasPrefix(name, " ") {
			wanted = []string{} // such a name can only be asked for by id
		}
		equal(t, "by name "+name, found, wanted)
		equal(t, "by id", r.get(api+"/experiment-items"+since+"&experimentId="+fmt.Sprint("e", i)).column("experimentName"), []string{name})
	}
	equal(t, "an empty name is no filter", len(r.get(api+"/experiments"+since+"&name=").column("id")), 8)
	equal(t, "a window", r.get(api+"/experiments?fromStartTime=2025-11-21T03:00:01Z&toStartTime=2025-11-21T03:00:02Z").column("id"), []string{"e3", "e2"})
	for _, query := range []string{"&limit=0", "&limit=101", "&scoreLimit=51", "&fields=x", "&cursor=x", "&filter=x"} {
		r.must(400, r.get(api+"/experiments"+since+query))
		r.must(400, r.get(api+"/experiment-items"+since+query))
	}
}

func TestObservations_filters(t *testing.T) {
	r := newRig(t, Config{})
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
		"roots":                    {"isRootObservation=true", []string{"r2", "r1"}},
		"not roots":                {"isRootObservation=false", []string{"c1"}},
		"roots with a tag":         {"isRootObservation=true&" + cond("arrayOptions", "tags", "any of", `["validated"]`), []string{"r1"}},
		"all tags":                 {cond("arrayOptions", "tags", "all of", `["validated","de","de"]`), []string{"r1"}},
		"name":                     {"name=call", []string{"c1"}},
		"type":                     {"type=GENERATION", []string{"c1"}},
		"parent":                   {"parentObservationId=r1", []string{"c1"}},
		"user":                     {"userId=u", []string{"r1"}},
		"environment":              {"environment=prod&environment=other", []string{"r1"}},
		"trace name":               {cond("string", "traceName", "=", `"extract invoice"`), []string{"r2"}},
		"options":                  {cond("stringOptions", "type", "any of", `["GENERATION"]`), []string{"c1"}},
		"a filter replaces a name": {"name=call&" + cond("string", "name", "=", `"experiment-item-run"`), []string{"r2", "r1"}},
		"a window":                 {"fromStartTime=2026-01-01T00:00:00Z", []string{}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			equal(t, "ids", r.must(200, r.get(api+"/v2/observations?"+tc.query)).column("id"), tc.ids)
		})
	}
	scores := r.must(400, r.get(api+"/v2/observations?"+cond("numberObject", "scores_avg", ">=", "1")))
	if !strings.Contains(scores.text, "Column scores_avg does not match") {
		t.Errorf("got %s", scores.text)
	}
	for _, query := range []string{"limit=1001", "filter=x", "isRootObservation=maybe", "fromStartTime=x", cond("string", "name", "like", `"x"`),
		cond("arrayOptions", "tags", "any of", `[1]`), cond("stringOptions", "type", "any of", `"x"`), cond("number", "latency", ">", "1")} {
		r.must(400, r.get(api+"/v2/observations?"+query))
	}
	r.must(200, r.get(api+"/v2/observations?limit=1000"))
}

func TestObservations_metadataIsCut(t *testing.T) {
	r := newRig(t, Config{})
	long := strings.Repeat("é", 300)
	r.must(200, r.post(api+"/otel/v1/traces", export(rootSpan("t", "r", "e", "i", attr("langfuse.observation.metadata.long", long)))))
	path := api + "/v2/observations?traceId=t&fields=metadata"
	equal(t, "cut", r.get(path).at("data", 0, "metadata", "long"), strings.Repeat("é", 200))
	equal(t, "expanded", r.get(path+"&expandMetadata=long").at("data", 0, "metadata", "long"), long)
}
