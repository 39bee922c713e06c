package embedded

import (
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"
)

// newModes returns for each mode a server with a dataset d and that many items, a second apart.
func newModes(t *testing.T, items int, modes ...Mode) map[Mode]*testServer {
	t.Helper()
	servers := map[Mode]*testServer{}
	for _, mode := range modes {
		r := newTestServer(t, Config{Mode: mode})
		r.must(200, r.post(api+"/v2/datasets", object{"name": "d"}))
		for i := range items {
			r.must(200, r.post(api+"/dataset-items", object{"datasetName": "d", "id": "i" + string(rune('1'+i)), "input": object{"n": i}}))
			r.clock.advance(time.Second)
		}
		servers[mode] = r
	}
	return servers
}

// TestRun_modes writes the same run in each mode and reads it back.
func TestRun_modes(t *testing.T) {
	for mode, r := range newModes(t, 2, Modes()...) {
		t.Run(string(mode), func(t *testing.T) {
			datasetID, _ := r.get(api + "/v2/datasets/d").at("id").(string)
			link := func(item, trace string) string {
				a := r.must(200, r.post(api+"/dataset-run-items", object{"runName": "run A", "datasetItemId": item, "traceId": trace,
					"observationId": "root-" + trace, "runDescription": "first " + trace, "metadata": object{"model": "m"}}))
				r.clock.advance(time.Second)
				id, _ := a.at("datasetRunId").(string)
				return id
			}
			run := link("i1", "t1")
			for _, trace := range []string{"t2", "t3"} { // the second attempt at i1, then i2
				if again := link(map[string]string{"t2": "i1", "t3": "i2"}[trace], trace); again != run {
					t.Errorf("the run of %s is %s, not %s", trace, again, run)
				}
			}
			if isUUID := regexp.MustCompile(`^[0-9a-f-]{36}$`).MatchString(run); isUUID != mode.hasTraces() {
				t.Errorf("run id %q", run)
			}
			for trace, item := range map[string]string{"t1": "i1", "t2": "i1", "t3": "i2"} {
				r.must(200, r.post(api+"/otel/v1/traces", export(rootSpan(trace, "root-"+trace, run, item))))
				r.must(207, r.post(api+"/ingestion", batchOf(scoreEvent("e"+trace, "s"+trace, 0, "2025-11-21T03:00:02Z", "traceId", trace))))
			}
			checkExperiments(t, r, mode, run)
			checkRuns(t, r, mode, run, datasetID)
		})
	}
}

// checkExperiments checks that every attempt is an item of an experiment: 3 root spans of 2 items.
func checkExperiments(t *testing.T, r *testServer, mode Mode, run string) {
	t.Helper()
	experiments := r.get(api + "/experiments?fromStartTime=2020-01-01&id=" + run)
	items := r.get(api + "/experiment-items?fromStartTime=2020-01-01&experimentId=" + run + "&fields=core,scores")
	spans := r.get(api + "/v2/observations?limit=10")
	if mode == ModeV3 {
		for path, a := range map[string]answer{"experiments": experiments, "experiment-items": items, "v2/observations": spans} {
			a.expect(t, path, 404, "only available in a Langfuse v4 write mode")
		}
		equal(t, "without a start it is 400", r.get(api+"/experiments").status, 400)
		return
	}
	equal(t, "itemCount", experiments.at("data", 0, "itemCount"), 3)
	equal(t, "attempts", len(items.column("id")), 3)
	equal(t, "score", items.at("data", 0, "scores", 0, "value"), 0)
	equal(t, "spans", len(spans.column("id")), 3)
}

// checkRuns checks that the run has one link per item, the newest: t3 for i2, then t2 for i1.
func checkRuns(t *testing.T, r *testServer, mode Mode, run, datasetID string) {
	t.Helper()
	const path = api + "/datasets/d/runs"
	list := r.get(path)
	items := r.get(api + "/dataset-run-items?datasetId=" + datasetID + "&runName=run%20A")
	if !mode.hasTraces() {
		for what, a := range map[string]answer{"list": list, "items": items, "get": r.get(path + "/run%20A"),
			"delete": r.do("DELETE", path+"/run%20A", nil), "trace": r.get(api + "/traces/t1"), "scores": r.get(api + "/v2/scores?limit=1")} {
			a.expect(t, what, 404, "events_only mode")
			equal(t, what, a.at("error"), nil)
		}
		return
	}
	equal(t, "run ids", list.column("id"), []string{run})
	equal(t, "the first description stays", list.at("data", 0, "description"), "first t1")
	equal(t, "metadata", list.at("data", 0, "metadata"), object{"model": "m"})
	equal(t, "total", items.at("meta", "totalItems"), 2)
	equal(t, "traces", items.column("traceId"), []string{"t3", "t2"})
	equal(t, "second page", r.get(api+"/dataset-run-items?datasetId="+datasetID+"&runName=run%20A&limit=1&page=2").column("traceId"), []string{"t2"})
	whole := r.must(200, r.get(path+"/run%20A"))
	equal(t, "items of the run", whole.at("datasetRunItems", 1, "observationId"), "root-t2")
	trace := r.must(200, r.get(api+"/traces/t2"))
	equal(t, "score of the trace", trace.at("scores", 0, "value"), 0)
	equal(t, "observation of the trace", trace.at("observations", 0, "id"), "root-t2")
	equal(t, "latency", trace.at("latency"), 1.5)

	equal(t, "deleted", r.must(200, r.do("DELETE", path+"/run%20A", nil)).at("message"), "Dataset run successfully deleted")
	equal(t, "no runs", r.get(path).column("id"), []string{})
	equal(t, "gone", r.get(path+"/run%20A").at("message"), "Dataset run not found")
	equal(t, "the trace stays", r.get(api+"/traces/t2").status, 200)
}

// TestRun_names reads runs through the path, with names that are escaped once or twice.
func TestRun_names(t *testing.T) {
	r := newModes(t, 1, ModeV3)[ModeV3]
	datasetID, _ := r.get(api + "/v2/datasets/d").at("id").(string)
	cases := map[string]struct {
		name        string
		once, twice int
	}{
		"slashes":         {"a/b/c", 200, 200},
		"a percent sign":  {"50%off", 500, 200},
		"an escape in it": {"100%2Fx", 404, 200},
		"a comma":         {"a,b", 200, 200},
		"query marks":     {`?&="`, 200, 200},
		"unicode":         {"é日🙂\u2028", 200, 200},
		"a leading space": {" x", 200, 200},
		"a tab":           {"\t", 200, 200},
		"dots":            {"..", 404, 404},
		"empty":           {"", 404, 404},
		"300 characters":  {strings.Repeat("x", 300), 200, 200},
	}
	for what, tc := range cases {
		t.Run(what, func(t *testing.T) {
			r.must(200, r.post(api+"/dataset-run-items", object{"runName": tc.name, "datasetItemId": "i1", "traceId": "t"}))
			equal(t, "by query", r.get(api+"/dataset-run-items?datasetId="+datasetID+"&runName="+url.QueryEscape(tc.name)).column("datasetRunName"), []string{tc.name})
			equal(t, "escaped once", r.get(api+"/datasets/d/runs/"+url.PathEscape(tc.name)).status, tc.once)
			equal(t, "escaped twice", r.get(api+"/datasets/d/runs/"+url.PathEscape(url.PathEscape(tc.name))).status, tc.twice)
		})
	}
}

// TestRun_numbersOfMetadata checks that numbers that a float64 cannot represent stay as they are
// written.
func TestRun_numbersOfMetadata(t *testing.T) {
	r := newModes(t, 1, ModeV3)[ModeV3]
	r.must(200, r.post(api+"/dataset-run-items", json.RawMessage(
		`{"runName":"run","datasetItemId":"i1","traceId":"t","metadata":[9007199254740993,1e400]}`)))
	for _, path := range []string{"", "/run"} {
		r.get(api+"/datasets/d/runs"+path).expect(t, path, 200, `[9007199254740993,1e400]`)
	}
}

func TestLinkItem_legacy(t *testing.T) {
	r := newModes(t, 1, ModeV4Dual)[ModeV4Dual]
	pin := iso(r.clock.now().UnixMilli())
	r.clock.advance(time.Minute)
	r.must(200, r.post(api+"/otel/v1/traces", export(rootSpan("tt", "oo", "e", "i"))))
	r.must(200, r.post(api+"/dataset-items", object{"datasetName": "d", "id": "i1", "status": "ARCHIVED"}))
	cases := map[string]struct {
		body         object
		status       int
		text         string
		metadataText string
	}{
		"archived":            {object{"traceId": "t"}, 404, "Dataset item not found", ""},
		"pinned":              {object{"traceId": "t", "datasetVersion": pin}, 200, `"traceId":"t"`, `{"dataset_version":"` + pin + `"}`},
		"a list for metadata": {object{"traceId": "t", "datasetVersion": pin, "metadata": []int{1}}, 200, "", `"metadata":[1]`},
		"observation only":    {object{"observationId": "oo", "datasetVersion": pin}, 400, "traceId", ""},
		"an unknown key":      {object{"traceId": "t", "colour": 1}, 400, "unrecognized_keys", ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			tc.body["runName"], tc.body["datasetItemId"] = name, "i1"
			r.post(api+"/dataset-run-items", tc.body).expect(t, "answer", tc.status, tc.text)
			if tc.metadataText != "" {
				r.get(api+"/datasets/d/runs/"+url.PathEscape(name)).expect(t, "run", 200, tc.metadataText)
			}
		})
	}
	equal(t, "no such run", r.get(api+"/dataset-run-items?datasetId=x&runName=y").at("message"), "Dataset run not found for the given project and dataset id")
	equal(t, "no run name", r.get(api+"/dataset-run-items?datasetId=x").status, 400)
	equal(t, "no such dataset", r.get(api+"/datasets/none/runs").at("message"), "Dataset not found")
}

const allTime = "?fromStartTime=2020-01-01T00:00:00Z"

func TestExperiments_sample(t *testing.T) {
	sample, err := os.ReadFile("testdata/otlp.json")
	if err != nil {
		t.Fatal(err)
	}
	r := newTestServer(t, Config{})
	r.must(200, r.post(api+"/otel/v1/traces", sample))
	r.must(207, r.post(api+"/ingestion", batchOf(
		scoreEvent("1", "micro", 0.9, "2026-11-21T03:00:00Z", "traceId", nil, "datasetRunId", "e1", "name", "micro_f1"),
		scoreEvent("2", "f1", 0, "2025-11-21T03:05:00Z", "traceId", "0af7651916cd43dd8448eb211c80319c", "observationId", "b7ad6b7169203331"),
		scoreEvent("3", "trace", 1, "2025-11-21T03:05:01Z", "traceId", "0af7651916cd43dd8448eb211c80319c"),
		scoreEvent("4", "call", 1, "2025-11-21T03:05:02Z", "traceId", "0af7651916cd43dd8448eb211c80319c", "observationId", "c7ad6b7169203332"),
		scoreEvent("5", "late", 1, "2025-11-23T03:05:02Z", "traceId", "0af7651916cd43dd8448eb211c80319c"))))

	core := r.must(200, r.get(api+"/experiments"+allTime))
	equal(t, "core", core.at("data"), []object{{"id": "e1", "name": "run A", "description": "nightly", "datasetId": "d1",
		"startTime": "2025-11-21T03:00:00.000Z", "endTime": "2025-11-21T03:00:01.500Z", "itemCount": 1}})
	equal(t, "no cursor on the last page", core.at("meta"), object{})
	whole := r.get(api + "/experiments" + allTime + "&fields=core,metadata,scores")
	equal(t, "metadata is flat", whole.at("data", 0, "metadata"), object{"model": "model-x", "limits.tokens": "5"})
	equal(t, "run-level scores only", len(whole.at("data", 0, "scores").([]any)), 1)
	equal(t, "its subject", whole.at("data", 0, "scores", 0, "subject"), object{"kind": "experiment", "id": "e1"})

	items := r.must(200, r.get(api+"/experiment-items"+allTime+"&fields=core,dataset,io,metadata,itemMetadata,experimentMetadata,scores"))
	equal(t, "one row", len(items.column("id")), 1)
	equalFields(t, items, object{"id": "b7ad6b7169203331", "traceId": "0af7651916cd43dd8448eb211c80319c", "level": "ERROR",
		"experimentId": "e1", "experimentName": "run A", "experimentItemId": "inv-1", "experimentDatasetId": "d1",
		"experimentItemVersion": "2025-11-21T02:00:00.000Z", "input": `{"text":"…document…"}`, "output": "",
		"expectedOutput": `{"total":12.5}`, "experimentItemMetadata": object{"lang": "de"}, "experimentDescription": "nightly",
		"environment": "sdk-experiment", "startTime": "2025-11-21T03:00:00.000Z"}, "data", 0)
	var ids []any
	for i := range items.at("data", 0, "scores").([]any) {
		ids = append(ids, items.at("data", 0, "scores", i, "id"))
	}
	equal(t, "scores of the root and its trace, within a day", ids, []string{"trace", "f1"})
	equal(t, "without fields there is no io", r.get(api+"/experiment-items"+allTime).at("data", 0, "input"), nil)
}

// TestExperiments_twoAttempts checks that both attempts of an item are listed and counted, as in
// Langfuse 4.
func TestExperiments_twoAttempts(t *testing.T) {
	r := newTestServer(t, Config{})
	failed := rootSpan("t1", "r1", "e", "i", attr("langfuse.observation.level", "ERROR"))
	r.must(200, r.post(api+"/otel/v1/traces", export(failed, rootSpan("t2", "r2", "e", "i"), rootSpan("t3", "r3", "e", "j"))))
	equal(t, "count", r.get(api+"/experiments"+allTime).at("data", 0, "itemCount"), 3)
	equal(t, "rows", r.get(api+"/experiment-items"+allTime).column("experimentItemId"), []string{"j", "i", "i"})
}

func TestExperiments_namesAndPages(t *testing.T) {
	r := newTestServer(t, Config{})
	var spans []object
	names := []string{"#2", "a/b", "50%off", "x  y", "<b>'\"", "comma, here", " leading", "Ünïcode 😀"}
	for i, name := range names {
		root := rootSpan(fmt.Sprint("t", i), fmt.Sprint("r", i), fmt.Sprint("e", i), "item", attr("langfuse.experiment.name", name))
		root["startTimeUnixNano"] = fmt.Sprint(1763694000000000000 + int64(i/2)*1e9) // pairs start together
		spans = append(spans, root)
	}
	r.must(200, r.post(api+"/otel/v1/traces", export(spans...)))
	want := []string{"e7", "e6", "e5", "e4", "e3", "e2", "e1", "e0"}
	equal(t, "experiments by cursor", r.pages(api+"/experiments"+allTime+"&limit=3"), want)
	equal(t, "items by cursor", r.pages(api+"/experiment-items"+allTime+"&limit=3"), []string{"r7", "r6", "r5", "r4", "r3", "r2", "r1", "r0"})
	equal(t, "observations by cursor", r.pages(api+"/v2/observations?limit=3"), []string{"r7", "r6", "r5", "r4", "r3", "r2", "r1", "r0"})
	for i, name := range names {
		equal(t, "by id", r.get(api+"/experiment-items"+allTime+"&experimentId="+fmt.Sprint("e", i)).column("experimentName"), []string{name})
	}
	equal(t, "a window", r.get(api+"/experiments?fromStartTime=2025-11-21T03:00:01Z&toStartTime=2025-11-21T03:00:02Z").column("id"), []string{"e3", "e2"})
	for _, query := range []string{"&limit=0", "&limit=101", "&fields=x", "&cursor=x", "&filter=x", "&name=x"} {
		r.must(400, r.get(api+"/experiments"+allTime+query))
		r.must(400, r.get(api+"/experiment-items"+allTime+query))
	}
}
