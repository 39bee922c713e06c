package embedded

import (
	"strings"
	"testing"
	"time"
)

// newQueue returns a server with a boolean score configuration and a queue.
func newQueue(t *testing.T, mode Mode) (r *rig, config, queue string) {
	t.Helper()
	r = newRig(t, Config{Mode: mode})
	config, _ = r.must(200, r.post(api+"/score-configs", object{"name": "validated", "dataType": "BOOLEAN"})).at("id").(string)
	queue, _ = r.must(200, r.post(api+"/annotation-queues", object{"name": "q", "scoreConfigIds": []string{config}})).at("id").(string)
	return r, config, queue
}

func TestQueue_items(t *testing.T) {
	r, config, queue := newQueue(t, ModeV4)
	path := api + "/annotation-queues/" + queue
	equal(t, "queue", []any{r.get(path).at("name"), r.get(path).at("description"), r.get(path).at("scoreConfigIds")}, []any{"q", nil, []string{config}})
	add := func(subject, kind, status string) string {
		body := object{"objectId": subject, "objectType": kind}
		if status != "" {
			body["status"] = status
		}
		r.clock.advance(time.Second)
		id, _ := r.must(200, r.post(path+"/items", body)).at("id").(string)
		return id
	}
	first := add("t1", "TRACE", "")
	add("o1", "OBSERVATION", "COMPLETED")
	add("t1", "TRACE", "PENDING") // queued twice, as in Langfuse
	list := r.get(path + "/items")
	equal(t, "newest first", list.column("objectId"), []string{"t1", "o1", "t1"})
	equal(t, "completed at", list.column("completedAt"), []any{nil, "2026-11-21T03:00:02.000Z", nil})
	equal(t, "pending", len(r.get(path+"/items?status=PENDING").column("id")), 2)
	r.clock.advance(time.Second)
	done := r.must(200, r.do("PATCH", path+"/items/"+first, object{"status": "COMPLETED"}))
	equal(t, "completed by hand", done.at("completedAt"), "2026-11-21T03:00:04.000Z")
	again := r.must(200, r.do("PATCH", path+"/items/"+first, object{"status": "PENDING"}))
	equal(t, "opened again", []any{again.at("status"), again.at("completedAt")}, []any{"PENDING", "2026-11-21T03:00:04.000Z"})
	equal(t, "one", r.get(path+"/items/"+first).at("objectId"), "t1")
	equal(t, "deleted", r.must(200, r.do("DELETE", path+"/items/"+first, nil)).at("success"), true)
	equal(t, "gone", r.get(path+"/items/"+first).at("message"), "Annotation queue item not found")
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
		"an unknown filter":  {r.get(path + "/items?status=X"), 400, "status"},
		"a strange key":      {r.get(path + "/items?colour=1"), 400, "unrecognized_keys"},
		"a patch of nothing": {r.do("PATCH", path+"/items/x", object{}), 404, "item not found"},
	}
	for name, tc := range cases {
		if tc.a.status != tc.status || !strings.Contains(tc.a.text, tc.text) {
			t.Errorf("%s: got %d %s, want %d …%s…", name, tc.a.status, tc.a.text, tc.status, tc.text)
		}
	}
}

// What a person sets is told from what came over the API by its author.
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
			equal(t, "authors", a.column("authorUserId"), []any{nil, DefaultAuthor, "ann"})
			equal(t, "environments", a.column("environment"), []string{"default", "prod", "prod"})
			equal(t, "subject", a.at("data", 2, "subject"), object{"kind": "observation", "id": "s", "traceId": "t"})
			equal(t, "the name of the config", a.at("data", 2, "name"), "validated")
			for query, want := range map[string]string{"authorUserId=ann": by, "queueId=" + queue: by, "dataType=CORRECTION": fix,
				"dataType=BOOLEAN&value=true&authorUserId=ann": by} {
				equal(t, query, r.must(200, r.get(api+"/v3/scores?"+query)).column("id"), []string{want})
			}
			equal(t, "correction", r.get(api+"/v3/scores?dataType=CORRECTION").at("data", 0, "value"), `{"a":1}`)
			equal(t, "value without type", r.get(api+"/v3/scores?value=true").status, 400)
		})
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
	a := r.post("/api/embedded/annotations", object{"traceId": "x", "correction": "y"})
	if a.status != 400 || !strings.Contains(a.text, "no such trace") {
		t.Errorf("got %d %s", a.status, a.text)
	}
	equal(t, "an unknown key", r.post("/api/embedded/annotations", object{"traceId": "t", "colour": 1}).status, 400)
	equal(t, "nothing is stored", r.get(api+"/v3/scores").column("id"), []string{})
}

func TestComments(t *testing.T) {
	for _, mode := range Modes() {
		t.Run(string(mode), func(t *testing.T) {
			r := newRig(t, Config{Mode: mode})
			comment := func(more ...any) object {
				body := object{"projectId": "p1", "objectType": "TRACE", "objectId": "t", "content": " good "}
				for i := 0; i+1 < len(more); i += 2 {
					body[more[i].(string)] = more[i+1]
				}
				return body
			}
			early := r.post(api+"/comments", comment())
			equal(t, "before the trace", []any{early.status, early.at("message")},
				[]any{404, "Reference object, TRACE: t not found. Skipping comment creation."})
			r.must(200, r.post(api+"/otel/v1/traces", export(rootSpan("t", "s", "e", "i", attr("session.id", "s1")))))
			id, _ := r.must(200, r.post(api+"/comments", comment("authorUserId", "ann"))).at("id").(string)
			r.clock.advance(time.Second)
			r.must(200, r.post(api+"/comments", comment("objectType", "OBSERVATION", "objectId", "s")))
			r.clock.advance(time.Second)
			r.must(200, r.post(api+"/comments", comment("objectType", "SESSION", "objectId", "s1")))
			equal(t, "types", r.get(api+"/comments").column("objectType"), []string{"SESSION", "OBSERVATION", "TRACE"})
			equal(t, "of the trace", r.get(api+"/comments?objectType=TRACE&objectId=t").column("id"), []string{id})
			equal(t, "of the author", r.get(api+"/comments?authorUserId=ann").column("content"), []string{"good"})
			equal(t, "one", r.get(api+"/comments/"+id).at("authorUserId"), "ann")
			equal(t, "none", r.get(api+"/comments/x").at("message"), "Comment not found within authorized project")
			for what, a := range map[string]answer{"no type": r.get(api + "/comments?objectId=t"), "a strange key": r.get(api + "/comments?x=1"),
				"a strange type": r.get(api + "/comments?objectType=X"), "no content": r.post(api+"/comments", comment("content", " ")),
				"a long one":     r.post(api+"/comments", comment("content", strings.Repeat("x", 5001))),
				"a strange body": r.post(api+"/comments", comment("x", 1)), "a type": r.post(api+"/comments", comment("objectType", "X"))} {
				equal(t, what, a.status, 400)
			}
			equal(t, "another project", r.post(api+"/comments", comment("projectId", "p2")).status, 404)
		})
	}
}

// A model that is defined prices what brings no cost: 812 in and 64 out.
func TestModels(t *testing.T) {
	r := newRig(t, Config{Mode: ModeV4Dual})
	made := r.must(200, r.post(api+"/models", object{"modelName": "m", "matchPattern": "(?i)^(model-x)$", "unit": "TOKENS",
		"inputPrice": 0.001, "outputPrice": 0.002, "startDate": "2025-01-01T00:00:00Z"}))
	id, _ := made.at("id").(string)
	equal(t, "prices", made.at("prices"), object{"input": object{"price": 0.001}, "output": object{"price": 0.002}})
	span := func(id, model string, more ...object) object {
		return rootSpan("t", id, "e", "i", append(more, attr("langfuse.observation.type", "generation"), attr("langfuse.observation.model.name", model),
			attr("langfuse.observation.usage_details", `{"input":812,"output":64}`))...)
	}
	r.must(200, r.post(api+"/otel/v1/traces", export(span("a", "MODEL-X"), span("b", "model-xy"),
		span("c", "model-x", attr("langfuse.observation.cost_details", `{"total":5}`)),
		rootSpan("t", "d", "e", "i", attr("langfuse.observation.model.name", "model-x"), attr("langfuse.observation.usage_details", `{"images":2}`)))))
	equal(t, "no bucket with a price", r.get(api+"/observations/d").at("calculatedTotalCost"), nil)
	// 0.812 + 0.128; no such model; its own cost
	equal(t, "costs", []any{r.get(api + "/observations/a").at("calculatedTotalCost"), r.get(api + "/observations/b").at("calculatedTotalCost"),
		r.get(api + "/observations/c").at("calculatedTotalCost")}, []any{0.9400000000000001, nil, 5})
	equal(t, "list", r.get(api+"/models").column("modelName"), []string{"m"})
	equal(t, "one", r.get(api+"/models/"+id).at("matchPattern"), "(?i)^(model-x)$")
	body := func(key string, value any) object {
		out := object{"modelName": "n", "matchPattern": "x", "unit": "TOKENS", "totalPrice": 1}
		out[key] = value
		return out
	}
	for what, bad := range map[string]object{"a name taken": body("modelName", "m"), "no pattern": body("matchPattern", "("), "no unit": body("unit", nil),
		"no price": body("totalPrice", nil), "both": body("inputPrice", 1), "negative": body("totalPrice", -1), "a unit": body("unit", "APPLES")} {
		equal(t, what, r.post(api+"/models", bad).status, 400)
	}
	equal(t, "deleted", r.must(200, r.do("DELETE", api+"/models/"+id, nil)).at("message"), "Model successfully deleted")
	equal(t, "gone", []int{r.get(api + "/models/" + id).status, r.do("DELETE", api+"/models/"+id, nil).status}, []int{404, 404})
}

func TestScoreConfig_update(t *testing.T) {
	r, config, _ := newQueue(t, ModeV4)
	path := api + "/score-configs/" + config
	a := r.must(200, r.do("PATCH", path, object{"isArchived": true, "description": "old"}))
	equal(t, "changed", []any{a.at("isArchived"), a.at("description"), a.at("name")}, []any{true, "old", "validated"})
	equal(t, "the rest stays", r.must(200, r.do("PATCH", path, object{"name": "v"})).at("isArchived"), true)
	equal(t, "unknown", r.do("PATCH", api+"/score-configs/x", object{}).status, 404)
	equal(t, "wrong type", r.do("PATCH", path, object{"isArchived": 1}).status, 400)
}
