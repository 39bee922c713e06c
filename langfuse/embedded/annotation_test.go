package embedded

import (
	"maps"
	"strings"
	"testing"
	"time"
)

// newQueue returns a server with a boolean score configuration and an annotation queue for it.
func newQueue(t *testing.T, mode Mode) (r *testServer, config, queue string) {
	t.Helper()
	r = newTestServer(t, Config{Mode: mode})
	config, _ = r.must(200, r.post(api+"/score-configs", object{"name": "validated", "dataType": "BOOLEAN"})).at("id").(string)
	queue, _ = r.must(200, r.post(api+"/annotation-queues", object{"name": "q", "scoreConfigIds": []string{config}})).at("id").(string)
	return r, config, queue
}

func TestQueue_items(t *testing.T) {
	r, config, queue := newQueue(t, ModeV4)
	path := api + "/annotation-queues/" + queue
	queues := r.get(api + "/annotation-queues")
	equal(t, "queue", []any{queues.at("data", 0, "name"), queues.at("data", 0, "description"), queues.at("data", 0, "scoreConfigIds")},
		[]any{"q", nil, []string{config}})
	add := func(objectID, objectType, status string) string {
		body := object{"objectId": objectID, "objectType": objectType}
		if status != "" {
			body["status"] = status
		}
		r.clock.advance(time.Second)
		id, _ := r.must(200, r.post(path+"/items", body)).at("id").(string)
		return id
	}
	first := add("t1", "TRACE", "")
	add("o1", "OBSERVATION", "COMPLETED")
	add("t1", "TRACE", "PENDING") // queued again, as in Langfuse
	list := r.get(path + "/items")
	equal(t, "newest first", list.column("objectId"), []string{"t1", "o1", "t1"})
	equal(t, "completed at", list.column("completedAt"), []any{nil, "2026-11-21T03:00:02.000Z", nil})
	equal(t, "pending", len(r.get(path+"/items?status=PENDING").column("id")), 2)
	r.clock.advance(time.Second)
	done := r.must(200, r.do("PATCH", path+"/items/"+first, object{"status": "COMPLETED"}))
	equal(t, "completed by hand", done.at("completedAt"), "2026-11-21T03:00:04.000Z")
	again := r.must(200, r.do("PATCH", path+"/items/"+first, object{"status": "PENDING"}))
	equal(t, "opened again", []any{again.at("status"), again.at("completedAt")}, []any{"PENDING", "2026-11-21T03:00:04.000Z"})
	equal(t, "queues", r.get(api+"/annotation-queues").column("id"), []string{queue})

	cases := map[string]struct {
		a      answer
		status int
		text   string
	}{
		"no such queue":      {r.get(api + "/annotation-queues/x/items"), 404, "Annotation queue not found"},
		"a name taken":       {r.post(api+"/annotation-queues", object{"name": "q", "scoreConfigIds": []string{config}}), 400, "already exists"},
		"no configs":         {r.post(api+"/annotation-queues", object{"name": "z", "scoreConfigIds": []string{}}), 400, "scoreConfigIds"},
		"an unknown config":  {r.post(api+"/annotation-queues", object{"name": "z", "scoreConfigIds": []string{config, "x"}}), 400, "cannot be found"},
		"an unknown key":     {r.post(api+"/annotation-queues", object{"name": "z", "scoreConfigIds": []string{config}, "x": 1}), 400, "unrecognized_keys"},
		"an unknown type":    {r.post(path+"/items", object{"objectId": "t", "objectType": "PROMPT"}), 400, "objectType"},
		"an unknown status":  {r.post(path+"/items", object{"objectId": "t", "objectType": "TRACE", "status": "X"}), 400, "status"},
		"a strange key":      {r.get(path + "/items?colour=1"), 400, "unrecognized_keys"},
		"a patch of nothing": {r.do("PATCH", path+"/items/x", object{}), 404, "item not found"},
	}
	for name, tc := range cases {
		tc.a.expect(t, name, tc.status, tc.text)
	}
}

// TestServer_annotate checks that annotations have an author, and that scores from the API have
// none.
func TestServer_annotate(t *testing.T) {
	for _, mode := range Modes() {
		t.Run(string(mode), func(t *testing.T) {
			r, config, queue := newQueue(t, mode)
			r.must(200, r.post(api+"/otel/v1/traces", export(rootSpan("t", "s", "e", "i", attr("langfuse.environment", "prod")))))
			by, err := r.server.Annotate(Annotation{TraceID: "t", ObservationID: "s", ConfigID: config, Value: true, Author: "ann", QueueID: queue})
			if err != nil {
				t.Fatal(err)
			}
			r.clock.advance(time.Second)
			fix, _ := r.must(200, r.post("/api/embedded/annotations", object{"traceId": "t", "correction": `{"a":1}`, "comment": "c"})).at("id").(string)
			r.clock.advance(time.Second)
			r.must(200, r.post(api+"/scores", object{"id": "api", "name": "validated", "value": 1, "dataType": "BOOLEAN", "traceId": "t",
				"source": "ANNOTATION", "configId": config}))
			const all = "&fields=details,subject,annotation"
			a := r.must(200, r.get(api+"/v3/scores?source=ANNOTATION"+all))
			equal(t, "ids", a.column("id"), []string{"api", fix, by})
			equal(t, "authors", a.column("authorUserId"), []any{nil, "embedded-user", "ann"})
			equal(t, "environments", a.column("environment"), []string{"default", "prod", "prod"})
			equal(t, "subject", a.at("data", 2, "subject"), object{"kind": "observation", "id": "s", "traceId": "t"})
			equal(t, "the name of the config", a.at("data", 2, "name"), "validated")
			equal(t, "queues", a.column("queueId"), []any{nil, nil, queue})
			for query, want := range map[string][]string{"dataType=CORRECTION": {fix}, "dataType=BOOLEAN&value=true": {"api", by}} {
				equal(t, query, r.must(200, r.get(api+"/v3/scores?"+query)).column("id"), want)
			}
			equal(t, "correction", r.get(api+"/v3/scores?dataType=CORRECTION").at("data", 0, "value"), `{"a":1}`)
			equal(t, "value without type", r.get(api+"/v3/scores?value=true").status, 400)
		})
	}
}

// TestServer_annotateTrace annotates a trace of events that has no observation.
func TestServer_annotateTrace(t *testing.T) {
	r, _, _ := newQueue(t, ModeV3)
	r.must(207, r.post(api+"/ingestion", batchOf(legacyEvent("trace-create", "e", at1, object{"id": "t", "environment": "prod"}))))
	id, err := r.server.Annotate(Annotation{TraceID: "t", Correction: "{}"})
	equal(t, "error", err, nil)
	a := r.must(200, r.get(api+"/v3/scores"))
	equal(t, "ids", a.column("id"), []string{id})
	equal(t, "environments", a.column("environment"), []string{"prod"})
	if _, err := r.server.Annotate(Annotation{TraceID: "t", ObservationID: "s", Correction: "{}"}); err == nil {
		t.Error("an observation that is not there was annotated")
	}
}

func TestServer_annotateRefuses(t *testing.T) {
	r, config, _ := newQueue(t, ModeV4)
	r.must(200, r.post(api+"/otel/v1/traces", export(rootSpan("t", "s", "e", "i"))))
	cases := map[string]struct {
		a    Annotation
		want string
	}{
		"no trace":         {Annotation{ConfigID: config, Value: true}, "trace id is missing"},
		"unknown trace":    {Annotation{TraceID: "x", ConfigID: config, Value: true}, "no such trace"},
		"unknown span":     {Annotation{TraceID: "t", ObservationID: "x", ConfigID: config, Value: true}, "no such trace or observation"},
		"no config":        {Annotation{TraceID: "t", Value: true}, "no score configuration"},
		"nothing":          {Annotation{TraceID: "t", ConfigID: config}, "either a value or a correction"},
		"both":             {Annotation{TraceID: "t", Value: 1, Correction: "x"}, "either a value or a correction"},
		"a text for a yes": {Annotation{TraceID: "t", ConfigID: config, Value: "yes"}, "expected number"},
		"two":              {Annotation{TraceID: "t", ConfigID: config, Value: 2}, "0 or 1"},
		"no JSON":          {Annotation{TraceID: "t", ConfigID: config, Value: func() {}}, "unsupported type"},
	}
	for name, tc := range cases {
		if id, err := r.server.Annotate(tc.a); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: got %q, %v, want …%s…", name, id, err, tc.want)
		}
	}
	r.post("/api/embedded/annotations", object{"traceId": "x", "correction": "y"}).expect(t, "over HTTP", 400, "no such trace")
	equal(t, "an unknown key", r.post("/api/embedded/annotations", object{"traceId": "t", "colour": 1}).status, 400)
	equal(t, "nothing is stored", r.get(api+"/v3/scores").column("id"), []string{})
}

func TestComments(t *testing.T) {
	for _, mode := range Modes() {
		t.Run(string(mode), func(t *testing.T) {
			r := newTestServer(t, Config{Mode: mode})
			comment := func(changes object) answer {
				body := object{"projectId": DefaultProjectID, "objectType": "TRACE", "objectId": "t", "content": " good "}
				maps.Copy(body, changes)
				return r.post(api+"/comments", body)
			}
			early := comment(nil)
			equal(t, "before the trace", []any{early.status, early.at("message")},
				[]any{404, "Reference object, TRACE: t not found. Skipping comment creation."})
			r.must(200, r.post(api+"/otel/v1/traces", export(rootSpan("t", "s", "e", "i", attr("session.id", "s1")))))
			id, _ := r.must(200, comment(object{"authorUserId": "ann"})).at("id").(string)
			r.clock.advance(time.Second)
			r.must(200, comment(object{"objectType": "OBSERVATION", "objectId": "s"}))
			equal(t, "types", r.get(api+"/comments").column("objectType"), []string{"OBSERVATION", "TRACE"})
			trace := r.get(api + "/comments?objectType=TRACE&objectId=t")
			equal(t, "of the trace", trace.column("id"), []string{id})
			equal(t, "author and content", []any{trace.at("data", 0, "authorUserId"), trace.at("data", 0, "content")}, []any{"ann", "good"})
			for what, a := range map[string]answer{"no type": r.get(api + "/comments?objectId=t"), "a strange key": r.get(api + "/comments?x=1"),
				"no content":     comment(object{"content": " "}),
				"a long one":     comment(object{"content": strings.Repeat("x", 5001)}),
				"a strange body": comment(object{"x": 1}), "a type": comment(object{"objectType": "X"})} {
				equal(t, what, a.status, 400)
			}
			equal(t, "another project", comment(object{"projectId": "p2"}).status, 404)
		})
	}
}
