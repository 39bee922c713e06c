package embedded

import (
	"database/sql"
	"fmt"
	"strings"
	"testing"
	"time"
)

// newLoadedServer returns a server whose store holds runs of 1000 items with three spans and two
// scores each.
func newLoadedServer(b *testing.B, runs int) *testServer {
	b.Helper()
	r := newTestServer(b, Config{Path: b.TempDir() + "/bench.db"})
	doc := sql.NullString{String: strings.Repeat("extraction ", 200), Valid: true}
	for n := range runs {
		err := r.server.store.update(func(tx *transaction) error {
			for i := range 3000 {
				o := observation{trace: fmt.Sprintf("t%d-%d", n, i/3), span: fmt.Sprintf("s%d-%d", n, i), start: int64(n*1e6 + i),
					end: int64(n*1e6 + i + 500), root: i%3 == 0, itemRoot: i%3 == 0, kind: "SPAN", level: "DEFAULT",
					experiment: fmt.Sprint("e", n), experimentName: fmt.Sprint("run ", n), tags: "[]", metadata: "{}", input: doc, output: doc}
				o.write(tx, ModeV4)
				if i%3 == 2 {
					continue
				}
				sc := score{id: fmt.Sprintf("x%d-%d", n, i), name: "f1", dataType: "NUMERIC", trace: o.trace, timestamp: o.start, source: "API"}
				if err := storeScore(tx, sc, 1); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			b.Fatal(err)
		}
	}
	return r
}

// BenchmarkRead reads from a store of 100 runs: 300,000 spans, 200,000 scores.
func BenchmarkRead(b *testing.B) {
	r := newLoadedServer(b, 100)
	window := "?fromStartTime=1970-01-01T00:00:00Z&limit=100"
	for name, path := range map[string]string{
		"experiments":           "/experiments" + window,
		"one experiment":        "/experiments" + window + "&id=e50&fields=core,metadata,scores",
		"items of one":          "/experiment-items" + window + "&experimentId=e50",
		"items with scores":     "/experiment-items" + window + "&experimentId=e50&fields=core,io,scores",
		"observations of trace": "/v2/observations?traceId=t50-7&fields=core,basic,io",
		"roots":                 "/v2/observations?isRootObservation=true&limit=100",
		"scores of trace":       "/v3/scores?traceId=t50-7",
		"newest scores by name": "/v3/scores?name=f1&limit=100",
	} {
		b.Run(name, func(b *testing.B) {
			for range b.N {
				r.must(200, r.get(api+path))
			}
		})
	}
}

// BenchmarkWrite sends requests that each cause one commit, which the server waits for.
func BenchmarkWrite(b *testing.B) {
	r := newTestServer(b, Config{Path: b.TempDir() + "/bench.db", Now: time.Now})
	r.must(200, r.post(api+"/v2/datasets", object{"name": "d"}))
	b.Run("item", func(b *testing.B) {
		for i := range b.N {
			r.must(200, r.post(api+"/dataset-items", object{"datasetName": "d", "id": fmt.Sprint(i), "input": object{"text": "t"}}))
		}
	})
	b.Run("100 scores", func(b *testing.B) {
		for n := range b.N {
			var events []object
			for i := range 100 {
				id := fmt.Sprintf("%d-%d-%d", b.N, n, i)
				events = append(events, scoreEvent(id, id, 0.5, at1))
			}
			r.must(207, r.post(api+"/ingestion", batchOf(events...)))
		}
	})
}

// BenchmarkExport sends 100 traces of three spans and their links, as a run of 100 items does, in
// each mode.
func BenchmarkExport(b *testing.B) {
	for _, mode := range Modes() {
		b.Run(string(mode), func(b *testing.B) {
			r := newTestServer(b, Config{Path: b.TempDir() + "/bench.db", Now: time.Now, Mode: mode})
			r.must(200, r.post(api+"/v2/datasets", object{"name": "d"}))
			r.must(200, r.post(api+"/dataset-items", object{"datasetName": "d", "id": "i", "input": 1}))
			text := attr("langfuse.observation.input", strings.Repeat("extraction ", 200))
			for n := range b.N {
				var spans []object
				for i := range 100 {
					trace := fmt.Sprintf("t%d-%d-%d", b.N, n, i)
					for _, id := range []string{"a", "b", "c"} {
						spans = append(spans, rootSpan(trace, trace+id, "e", "i", text))
					}
					r.must(200, r.post(api+"/dataset-run-items", object{"runName": "r", "datasetItemId": "i", "traceId": trace}))
				}
				r.must(200, r.post(api+"/otel/v1/traces", export(spans...)))
			}
		})
	}
}
