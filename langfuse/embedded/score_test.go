package embedded

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

func batchOf(events ...object) object { return object{"batch": events} }

// scoreEvent returns a score-create event. more has keys and values of its body; a value of nil
// removes the key.
func scoreEvent(event, id string, value any, at string, more ...any) object {
	body := object{"id": id, "name": "f1", "value": value, "traceId": "t"}
	for i := 0; i+1 < len(more); i += 2 {
		body[more[i].(string)] = more[i+1]
		if more[i+1] == nil {
			delete(body, more[i].(string))
		}
	}
	return object{"id": event, "type": "score-create", "timestamp": at, "body": body}
}

const (
	at1 = "2026-11-21T03:00:00.000Z"
	at2 = "2026-11-22T03:00:00.000Z" // another UTC day
)

// TestIngest_replacement checks which of two events with the same score id counts.
func TestIngest_replacement(t *testing.T) {
	cases := map[string]struct {
		first, second object
		value         float64
		name          string
	}{
		"identical":                      {scoreEvent("a", "s", 0.5, at1), scoreEvent("a", "s", 0.5, at1), 0.5, "f1"},
		"another envelope, same content": {scoreEvent("a", "s", 0.5, at1), scoreEvent("b", "s", 0.5, at1), 0.5, "f1"},
		"later instant wins":             {scoreEvent("a", "s", 0.1, at1), scoreEvent("b", "s", 0.2, at2), 0.2, "f1"},
		"not the one sent last":          {scoreEvent("a", "s", 0.1, at2), scoreEvent("b", "s", 0.2, at1), 0.1, "f1"},
		"equal instants, first stays":    {scoreEvent("a", "s", 0.1, at1), scoreEvent("b", "s", 0.2, at1), 0.1, "f1"},
		"same event, new value":          {scoreEvent("a", "s", 0.1, at1), scoreEvent("a", "s", 0.2, at1), 0.2, "f1"},
		"renamed":                        {scoreEvent("a", "s", 0.1, at1), scoreEvent("b", "s", 0, at2, "name", "g"), 0, "g"},
	}
	for name, tc := range cases {
		for how, batches := range map[string][]object{"one batch": {batchOf(tc.first, tc.second)},
			"two batches": {batchOf(tc.first), batchOf(tc.second)}} {
			t.Run(name+", "+how, func(t *testing.T) {
				r := newTestServer(t, Config{})
				for _, b := range batches {
					r.must(207, r.post(api+"/ingestion", b))
				}
				a := r.get(api + "/v3/scores")
				equal(t, "values", a.column("value"), []any{tc.value})
				equal(t, "names", a.column("name"), []any{tc.name})
				equal(t, "timestamp of the first", a.at("data", 0, "timestamp"), tc.first["timestamp"])
			})
		}
	}
}

func TestIngest_perEvent(t *testing.T) {
	r := newTestServer(t, Config{})
	cases := []struct {
		name   string
		event  object
		reason string // empty if accepted
	}{
		{"zero", scoreEvent("e1", "zero", 0, at1), ""},
		{"boolean 0", scoreEvent("e2", "no", 0, at1, "dataType", "BOOLEAN"), ""},
		{"boolean 2", scoreEvent("e3", "x1", 2, at1, "dataType", "BOOLEAN"), "0 or 1"},
		{"boolean true", scoreEvent("e4", "x2", true, at1, "dataType", "BOOLEAN"), "number"},
		{"numeric text", scoreEvent("e5", "x3", "1", at1, "dataType", "NUMERIC"), "number"},
		{"null", scoreEvent("e6", "x4", json.RawMessage("null"), at1), "null"},
		{"run and trace", scoreEvent("e7", "x5", 1, at1, "datasetRunId", "r"), "Provide exactly one of the following"},
		{"nothing", scoreEvent("e8", "x6", 1, at1, "traceId", nil), "Provide exactly one of the following"},
		{"no id: acknowledged and lost", scoreEvent("e9", "", 1, at1, "id", nil), ""},
		{"no name", scoreEvent("e10", "x7", 1, at1, "name", ""), "name"},
		{"unknown type", scoreEvent("e11", "x8", 1, at1, "dataType", "FLOAT"), "dataType"},
		{"category", scoreEvent("e12", "cat", "good", at1), ""},
		{"long text", scoreEvent("e13", "x9", strings.Repeat("x", 501), at1, "dataType", "TEXT"), "500"},
		{"correction", scoreEvent("e14", "corr", "{}", at1, "dataType", "CORRECTION"), ""},
		{"annotation without config", scoreEvent("e15", "x10", 1, at1, "source", "ANNOTATION"), "configId"},
		{"run level", scoreEvent("e16", "run", 0.9, at1, "traceId", nil, "datasetRunId", "r"), ""},
		{"run that is not there", scoreEvent("e17", "run2", 0.9, at1, "traceId", nil, "datasetRunId", "nowhere"), ""},
		{"trace", object{"id": "e18", "type": "trace-create", "timestamp": at1, "body": object{"id": "t"}}, `Event type \"trace-create\" is not accepted`},
		{"log", object{"id": "e19", "type": "sdk-log", "timestamp": at1, "body": object{"log": "x"}}, ""},
		{"unknown event", object{"id": "e20", "type": "nonsense", "timestamp": at1, "body": object{}}, "nonsense"},
		{"no instant", object{"id": "e21", "type": "sdk-log", "body": object{}}, "timestamp"},
	}
	var events []object
	for _, tc := range cases {
		events = append(events, tc.event)
	}
	a := r.must(207, r.post(api+"/ingestion", batchOf(events...)))
	good, bad := map[any]any{}, map[any]string{}
	for _, one := range a.at("successes").([]any) {
		good[one.(object)["id"]] = one.(object)["status"]
	}
	for _, one := range a.at("errors").([]any) {
		text, err := json.Marshal(one.(object)["error"])
		if err != nil {
			t.Fatal(err)
		}
		bad[one.(object)["id"]] = string(text)
		equal(t, "status", one.(object)["status"], 400)
	}
	for _, tc := range cases {
		id := tc.event["id"]
		if tc.reason == "" && good[id] != float64(201) {
			t.Errorf("%s: not acknowledged: %s", tc.name, bad[id])
		}
		if tc.reason != "" && !strings.Contains(bad[id], tc.reason) {
			t.Errorf("%s: got %q, want …%s…", tc.name, bad[id], tc.reason)
		}
	}
	stored := map[any]any{}
	scores := r.get(api + "/v3/scores?limit=100")
	for i, id := range scores.column("id") {
		stored[id] = scores.at("data", i, "value")
	}
	equal(t, "stored", len(stored), 6)
	for id, want := range map[string]any{"zero": 0, "no": false, "cat": "good", "corr": "{}", "run": 0.9, "run2": 0.9} {
		equal(t, id, stored[id], want)
	}
	equal(t, "name of a correction", r.get(api+"/v3/scores?id=corr").at("data", 0, "name"), "output")
}

func TestIngest_envelope(t *testing.T) {
	r := newTestServer(t, Config{})
	for name, body := range map[string]string{"no batch": `{}`, "batch no list": `{"batch":{}}`, "batch null": `{"batch":null}`} {
		t.Run(name, func(t *testing.T) {
			a := r.must(400, r.post(api+"/ingestion", body))
			if a.at("message") == nil || a.at("error", 0) == nil || a.at("error", 1) != nil {
				t.Errorf("got %s", a.text)
			}
		})
	}
	a := r.must(207, r.post(api+"/ingestion", `{"batch":[7,null,"x",{"id":"ok","type":"sdk-log","timestamp":"2026-11-21T03:00:00+01:00","body":{}}]}`))
	equal(t, "errors", len(a.at("errors").([]any)), 3)
	equal(t, "successes", a.at("successes"), []object{{"id": "ok", "status": 201}})
}

func TestCreateScore(t *testing.T) {
	r := newTestServer(t, Config{})
	a := r.must(200, r.post(api+"/scores", object{"name": "f1", "value": 0.5, "traceId": "t", "environment": "LANGFUSEprod"}))
	id, _ := a.at("id").(string)
	got := r.get(api + "/v3/scores?fields=core,details,subject,annotation&id=" + id)
	equalFields(t, got, object{"value": 0.5, "dataType": "NUMERIC", "source": "API", "environment": "prod", "timestamp": at1,
		"comment": nil, "configId": nil, "metadata": nil, "authorUserId": nil, "queueId": nil,
		"subject": object{"kind": "trace", "id": "t"}}, "data", 0)
	r.must(400, r.post(api+"/scores", object{"name": "f1", "value": 0.5}))
	r.must(202, r.do("DELETE", api+"/scores/"+id, nil))
	r.must(202, r.do("DELETE", api+"/scores/"+id, nil))
	equal(t, "after the delete", r.get(api+"/v3/scores").column("id"), []string{})
}

// TestCreateScore_again checks that the later of two requests counts, also within the same
// millisecond.
func TestCreateScore_again(t *testing.T) {
	r := newTestServer(t, Config{})
	for i, value := range []float64{0.1, 0.2, 0.3} {
		r.must(200, r.post(api+"/scores", object{"id": "s", "name": "f1", "value": value, "traceId": "t", "comment": []any{"why", nil, nil}[i]}))
		if i == 1 {
			r.clock.advance(time.Hour)
		}
	}
	a := r.get(api + "/v3/scores?fields=details")
	equal(t, "values", a.column("value"), []float64{0.3})
	equal(t, "a comment that is left out stays", a.at("data", 0, "comment"), "why")
}

func TestListScores(t *testing.T) {
	r := newTestServer(t, Config{})
	r.must(207, r.post(api+"/ingestion", batchOf(
		scoreEvent("1", "a", 0.1, "2026-11-21T03:00:01Z"),
		scoreEvent("2", "b", 0.9, "2026-11-21T03:00:02Z", "observationId", "o"),
		scoreEvent("3", "c", 1, "2026-11-21T03:00:03Z", "dataType", "BOOLEAN", "name", "ok"),
		scoreEvent("4", "d", 0, "2026-11-21T03:00:03Z", "dataType", "BOOLEAN", "name", "ok", "traceId", "u"),
		scoreEvent("5", "e", 0.5, "2026-11-21T03:00:04Z", "traceId", nil, "datasetRunId", "run"),
		scoreEvent("6", "f", 0.5, "2026-11-21T03:00:05Z", "traceId", nil, "sessionId", "ses"),
	)))
	cases := map[string]struct {
		query string
		ids   []string
	}{
		"all, newest first":  {"", []string{"f", "e", "d", "c", "b", "a"}},
		"by trace":           {"?traceId=t", []string{"c", "b", "a"}},
		"by two traces":      {"?traceId=t,u", []string{"d", "c", "b", "a"}},
		"by run":             {"?experimentId=run", []string{"e"}},
		"by name":            {"?name=ok", []string{"d", "c"}},
		"true":               {"?dataType=BOOLEAN&value=true", []string{"c"}},
		"false":              {"?dataType=BOOLEAN&value=false", []string{"d"}},
		"nothing":            {"?name=none", []string{}},
		"an empty parameter": {"?name=", []string{"f", "e", "d", "c", "b", "a"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			equal(t, "ids", r.must(200, r.get(api+"/v3/scores"+tc.query)).column("id"), tc.ids)
		})
	}
	for _, query := range []string{"?unknown=1", "?value=true", "?value=true&dataType=NUMERIC,BOOLEAN", "?observationId=o", "?limit=101",
		"?cursor=!", "?fields=everything", "?dataType=BOOLEAN&value=maybe", "?dataType=TEXT&value=x", "?dataType=BOOLEAN&value=1"} {
		r.must(400, r.get(api+"/v3/scores"+query))
	}
	subjects := r.get(api + "/v3/scores?fields=subject").column("subject")
	equal(t, "subjects", []any{subjects[0], subjects[1], subjects[4]}, []object{{"kind": "session", "id": "ses"},
		{"kind": "experiment", "id": "run"}, {"kind": "observation", "id": "o", "traceId": "t"}})
	equal(t, "pages of two", r.pages(api+"/v3/scores?limit=2"), []string{"f", "e", "d", "c", "b", "a"})
}

// pages follows cursors to the last page and returns all ids in order.
func (r *testServer) pages(path string) []any {
	r.t.Helper()
	var ids []any
	at := ""
	for range 100 {
		a := r.must(200, r.get(path+at))
		ids = append(ids, a.column("id")...)
		next, more := a.at("meta", "cursor").(string)
		if !more {
			return ids
		}
		at = "&cursor=" + next
	}
	r.t.Fatal("the pages do not end")
	return nil
}

// TestScoreConfigs checks that a score that its configuration does not allow is acknowledged and
// dropped.
func TestScoreConfigs(t *testing.T) {
	r := newTestServer(t, Config{})
	number := r.must(200, r.post(api+"/score-configs", object{"name": "quality", "dataType": "NUMERIC", "minValue": 0, "maxValue": 1})).at("id")
	label := r.must(200, r.post(api+"/score-configs", object{"name": "tone", "dataType": "CATEGORICAL", "categories": []object{{"label": "good", "value": 1}}})).at("id")
	for _, bad := range []object{{"name": "x"}, {"name": strings.Repeat("x", 36), "dataType": "NUMERIC"}, {"name": "x", "dataType": "CATEGORICAL"},
		{"name": "x", "dataType": "NUMERIC", "minValue": "0"}, {"name": "", "dataType": "NUMERIC"}} {
		r.must(400, r.post(api+"/score-configs", bad))
	}
	r.must(207, r.post(api+"/ingestion", batchOf(
		scoreEvent("1", "in", 0.5, at1, "configId", number, "source", "ANNOTATION"),
		scoreEvent("2", "out", 1.5, at1, "configId", number),
		scoreEvent("3", "type", "x", at1, "configId", number),
		scoreEvent("4", "good", "good", at1, "configId", label),
		scoreEvent("5", "bad", "bad", at1, "configId", label),
		scoreEvent("6", "none", 1, at1, "configId", "nowhere"))))
	a := r.get(api + "/v3/scores")
	equal(t, "ids", a.column("id"), []string{"in", "good"})
	equal(t, "names are those of the configuration", a.column("name"), []string{"quality", "tone"})
	equal(t, "listed", len(r.get(api+"/score-configs").column("id")), 2)
	r.must(200, r.get(api+"/score-configs/"+number.(string)))
	r.must(404, r.get(api+"/score-configs/none"))
}

func FuzzIngest(f *testing.F) {
	for _, event := range []object{scoreEvent("a", "s", 0.5, at1), scoreEvent("a", "s", "x", at1, "dataType", "TEXT"),
		{"id": "l", "type": "sdk-log", "timestamp": at1, "body": object{}},
		{"id": "t", "type": "trace-create", "timestamp": at1, "body": object{"id": "t", "tags": []string{"b", "a"}, "metadata": object{"k": 1}}},
		{"id": "g", "type": "generation-update", "timestamp": at1, "body": object{"id": "g", "usage": object{"input": 1}, "metadata": "m"}}} {
		text, err := json.Marshal(event)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if !json.Valid(raw) {
			return
		}
		ev, err := (&eventReader{mode: ModeV3}).read(raw)
		if err != nil {
			entry := eventError(ev.id, err)
			if text, isText := entry["error"].(string); !isText || text == "" {
				t.Fatalf("an error without reason: %v", entry)
			}
			return
		}
		if ev.id == "" {
			t.Fatal("accepted without an envelope id")
		}
		if sc := ev.score; sc != nil && (sc.id == "" || sc.name == "" || sc.value.Valid == sc.text.Valid) {
			t.Fatalf("accepted half a score: %+v", sc)
		}
		if tr := ev.trace; tr != nil && !json.Valid([]byte(tr.tags)) {
			t.Fatalf("tags that are not a list: %+v", tr)
		}
	})
}
