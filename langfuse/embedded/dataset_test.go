package embedded

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestDatasets(t *testing.T) {
	r := newTestServer(t, Config{})
	first := r.must(200, r.post(api+"/v2/datasets", object{"name": "d", "description": "one", "metadata": object{"owner": "ops"}}))
	equalFields(t, first, object{"name": "d", "projectId": DefaultProjectID, "description": "one", "metadata": object{"owner": "ops"},
		"inputSchema": nil, "expectedOutputSchema": nil, "createdAt": at1, "updatedAt": at1})
	r.clock.advance(time.Second)
	again := r.must(200, r.post(api+"/v2/datasets", object{"name": "d", "description": nil}))
	equalFields(t, again, object{"id": first.at("id"), "description": "one", "metadata": object{"owner": "ops"},
		"createdAt": at1, "updatedAt": "2026-11-21T03:00:01.000Z"})
	r.must(200, r.post(api+"/v2/datasets", object{"name": "e"}))
	list := r.must(200, r.get(api+"/v2/datasets?limit=1"))
	equal(t, "newest first", list.column("name"), []string{"e"})
	equal(t, "meta", list.at("meta"), object{"page": 1, "limit": 1, "totalItems": 2, "totalPages": 2})
	equal(t, "second page", r.get(api+"/v2/datasets?limit=1&page=2").column("name"), []string{"d"})
	missing := r.must(404, r.get(api+"/v2/datasets/none"))
	equal(t, "missing", missing.json, object{"message": "Dataset not found", "error": "LangfuseNotFoundError"})
}

func TestDatasets_names(t *testing.T) {
	r := newTestServer(t, Config{})
	for _, name := range []string{"", " ", "/a", "a/", "a//b", "<b>x</b>"} {
		r.post(api+"/v2/datasets", object{"name": name}).expect(t, name, 400, "")
	}
	for _, name := range []string{"a/b/c", "50%off", "a b", "Ünïcode 中文 😀", "100%2Fx", "?&=\"+", "..x"} {
		r.must(200, r.post(api+"/v2/datasets", object{"name": name}))
		escapedTwice := url.PathEscape(strings.ReplaceAll(name, "%", "%25"))
		equal(t, "read back "+name, r.must(200, r.get(api+"/v2/datasets/"+escapedTwice)).at("name"), name)
	}
	malformed := r.must(500, r.get(api+"/v2/datasets/"+url.PathEscape("50%off")))
	equal(t, "percent sent once", malformed.at("error"), "URI malformed")
}

func TestDatasets_schema(t *testing.T) {
	r := newTestServer(t, Config{})
	number := object{"type": "object", "required": []string{"total"}, "properties": object{"total": object{"type": "number"}}}
	r.must(200, r.post(api+"/v2/datasets", object{"name": "d", "expectedOutputSchema": number}))
	item := func(id string, expected any) answer {
		return r.post(api+"/dataset-items", object{"datasetName": "d", "id": id, "input": object{"text": "t"}, "expectedOutput": expected})
	}
	r.must(200, item("a", object{"total": 1}))
	item("b", object{"total": "1"}).expect(t, "an item that breaks the schema", 400,
		`"message":"Dataset item validation failed: Expected output validation failed: `)
	r.post(api+"/v2/datasets", object{"name": "d", "inputSchema": object{"type": "string"}}).
		expect(t, "a schema that the item breaks", 400, "Schema validation failed for 1 item(s). Details: [")
	equal(t, "a refused schema is not kept", r.get(api+"/v2/datasets/d").at("inputSchema"), nil)
	equal(t, "an absent schema stays", r.must(200, r.post(api+"/v2/datasets", object{"name": "d"})).at("expectedOutputSchema"), number)
	equal(t, "a null schema is cleared", r.must(200, r.post(api+"/v2/datasets", object{"name": "d", "expectedOutputSchema": nil})).at("expectedOutputSchema"), nil)
	r.must(200, item("b", "free"))
	for name, schema := range map[string]any{
		"no object":        "x",
		"later draft":      object{"$schema": "https://json-schema.org/draft/2020-12/schema"},
		"type of nonsense": object{"type": "nonsense"},
		"a file":           object{"$ref": "file:///etc/passwd"},
		"another host":     object{"$ref": "http://127.0.0.1:1/x"},
		"not strict":       object{"properties": object{}},
		"too long":         object{"description": strings.Repeat("x", 10_001)},
	} {
		r.post(api+"/v2/datasets", object{"name": "d", "inputSchema": schema}).expect(t, name, 400, "")
	}
}

// TestDatasets_schemaLength checks that the limit is in characters of the stored schema, which has
// no white space.
func TestDatasets_schemaLength(t *testing.T) {
	r := newTestServer(t, Config{})
	body := func(n int) string {
		return `{"name":"d","inputSchema":{"description":` + strings.Repeat(" ", 9_000) + `"` + strings.Repeat("é", n) + `"}}`
	}
	// {"description":""} has 18 characters.
	r.must(200, r.post(api+"/v2/datasets", body(10_000-18)))
	r.must(400, r.post(api+"/v2/datasets", body(10_000-17)))
}

// newItems returns a server with a dataset d and items i1 to in, a minute apart.
func newItems(t *testing.T, n int) *testServer {
	r := newTestServer(t, Config{})
	r.must(200, r.post(api+"/v2/datasets", object{"name": "d"}))
	for i := 1; i <= n; i++ {
		r.clock.advance(time.Minute)
		r.must(200, r.post(api+"/dataset-items", object{"datasetName": "d", "id": fmt.Sprint("i", i), "input": object{"n": i}}))
	}
	return r
}

func TestItems_merge(t *testing.T) {
	r := newItems(t, 0)
	base := object{"datasetName": "d", "id": "i", "input": object{"text": "t"}, "expectedOutput": object{"a": 1},
		"metadata": object{"lang": "de"}, "sourceTraceId": "tr", "sourceObservationId": "ob"}
	cases := map[string]struct {
		change object
		key    string
		want   any
	}{
		"absent keeps":        {object{}, "expectedOutput", object{"a": 1}},
		"null keeps":          {object{"expectedOutput": nil}, "expectedOutput", object{"a": 1}},
		"empty text clears":   {object{"expectedOutput": ""}, "expectedOutput", nil},
		"a value replaces":    {object{"expectedOutput": object{"b": 2}}, "expectedOutput", object{"b": 2}},
		"zero replaces":       {object{"expectedOutput": 0}, "expectedOutput", 0},
		"false replaces":      {object{"expectedOutput": false}, "expectedOutput", false},
		"an empty list too":   {object{"expectedOutput": []any{}}, "expectedOutput", []any{}},
		"input stays":         {object{"status": "ARCHIVED"}, "input", object{"text": "t"}},
		"status":              {object{"status": "ARCHIVED"}, "status", "ARCHIVED"},
		"status comes back":   {object{"status": "ACTIVE"}, "status", "ACTIVE"},
		"source stays":        {object{"sourceTraceId": nil}, "sourceTraceId", "tr"},
		"source observation":  {object{}, "sourceObservationId", "ob"},
		"metadata stays":      {object{}, "metadata", object{"lang": "de"}},
		"dataset name":        {object{}, "datasetName", "d"},
		"media references":    {object{}, "mediaReferences", []any{}},
		"unknown keys pass":   {object{"colour": "red"}, "input", object{"text": "t"}},
		"a text of a number":  {object{"input": "4"}, "input", 4},
		"a text of true":      {object{"input": "true"}, "input", true},
		"a text of an object": {object{"input": `{"a":1}`}, "input", object{"a": 1}},
		"plain text":          {object{"input": "plain text"}, "input", "plain text"},
		"text inside stays":   {object{"input": object{"n": "4"}}, "input", object{"n": "4"}},
		"control characters":  {object{"input": object{"t": "a\x00b\x1bc\u0085d\x7fe\tf\ng\fh\ri", "\x01k": 1}}, "input", object{"t": "abcde\tf\ng\fh\ri", "\x01k": 1}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r.must(200, r.post(api+"/dataset-items", base))
			change := object{"datasetName": "d", "id": "i"}
			maps.Copy(change, tc.change)
			answered := r.must(200, r.post(api+"/dataset-items", change))
			equal(t, "answer", answered.at(tc.key), tc.want)
			equal(t, "stored", r.get(api+"/dataset-items/i").at(tc.key), tc.want)
		})
	}
}

func TestItems_refusals(t *testing.T) {
	r := newItems(t, 1)
	r.must(200, r.post(api+"/v2/datasets", object{"name": "other"}))
	cases := map[string]struct {
		body   object
		status int
		text   string
	}{
		"unknown dataset":    {object{"datasetName": "none", "input": 1}, 404, "Dataset none not found for project embedded"},
		"no dataset":         {object{"input": 1}, 400, "datasetName"},
		"no id and no input": {object{"datasetName": "d"}, 400, "Dataset item input cannot be null"},
		"id elsewhere":       {object{"datasetName": "other", "id": "i1", "input": 1}, 409, "LangfuseConflictError"},
		"id of 256":          {object{"datasetName": "d", "id": strings.Repeat("x", 256), "input": 1}, 400, "255"},
		"empty id":           {object{"datasetName": "d", "id": "", "input": 1}, 400, "id"},
		"status":             {object{"datasetName": "d", "input": 1, "status": "OLD"}, 400, "ARCHIVED"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r.post(api+"/dataset-items", tc.body).expect(t, "answer", tc.status, tc.text)
		})
	}
	r.must(200, r.post(api+"/dataset-items", object{"datasetName": "d", "id": strings.Repeat("ü", 255)}))
	r.must(404, r.get(api+"/dataset-items?datasetName=none"))
	r.must(404, r.get(api+"/dataset-items/none"))
	r.must(404, r.do("DELETE", api+"/dataset-items/none", nil))
	r.must(400, r.get(api+"/dataset-items?version=2026-11-21"))
	r.must(400, r.get(api+"/dataset-items?datasetName=d&version=yesterday"))
}

// TestItems_snapshot checks that a pinned version stays the same while the dataset changes.
func TestItems_snapshot(t *testing.T) {
	r := newItems(t, 9)
	pin := url.QueryEscape(iso(r.clock.now().UnixMilli()))
	r.clock.advance(time.Minute)
	pages := func() (ids []any) {
		for page := 1; page <= 3; page++ {
			ids = append(ids, r.get(fmt.Sprintf("%s/dataset-items?datasetName=d&version=%s&limit=4&page=%d", api, pin, page)).column("id")...)
			if page == 1 {
				r.must(200, r.post(api+"/dataset-items", object{"datasetName": "d", "id": "i3"}))
				r.must(200, r.post(api+"/dataset-items", object{"datasetName": "d", "id": "i4", "input": object{"n": "new"}}))
				r.must(200, r.post(api+"/dataset-items", object{"datasetName": "d", "id": "i1", "status": "ARCHIVED"}))
				r.do("DELETE", api+"/dataset-items/i2", nil)
				r.must(200, r.post(api+"/dataset-items", object{"datasetName": "d", "id": "added", "input": 1}))
			}
		}
		return ids
	}
	want := []string{"i9", "i8", "i7", "i6", "i5", "i4", "i3", "i2", "i1"}
	equal(t, "while it changes", pages(), want)
	equal(t, "afterwards", pages(), want)
	pinned := r.get(api + "/dataset-items?datasetName=d&version=" + pin)
	equal(t, "old content", pinned.at("data", 5, "input"), object{"n": 4})
	if updated, created := pinned.at("data", 5, "updatedAt"), pinned.at("data", 5, "createdAt"); updated == created {
		t.Errorf("updatedAt %v of a superseded version is not later than createdAt", updated)
	}
	now := r.get(api + "/dataset-items?datasetName=d")
	equal(t, "now: the newest versions first, then by id", now.column("id"), []string{"added", "i3", "i4", "i9", "i8", "i7", "i6", "i5"})
	equal(t, "in the future", r.get(api+"/dataset-items?datasetName=d&version=2030-01-01T00:00:00Z").column("id"), now.column("id"))
	equal(t, "before the data", r.get(api+"/dataset-items?datasetName=d&version=2026-11-21").column("id"), []string{})
	equal(t, "in 1970", r.get(api+"/dataset-items?datasetName=d&version=1970-01-01").column("id"), []string{})
	equal(t, "an archived item is read by id", r.must(200, r.get(api+"/dataset-items/i1")).at("status"), "ARCHIVED")
	r.must(404, r.get(api+"/dataset-items/i2"))
}

// TestItems_snapshotOfNow checks that a list pinned to a time before now has what was written then, even if that
// is not committed yet.
func TestItems_snapshotOfNow(t *testing.T) {
	r := newTestServer(t, Config{Path: filepath.Join(t.TempDir(), "langfuse.db")})
	r.must(200, r.post(api+"/v2/datasets", object{"name": "d"}))
	path := api + "/dataset-items?datasetName=d&version=" + iso(r.server.now())
	listed := make(chan answer, 1)
	err := r.server.store.update(func(tx *transaction) error {
		d, _, err := findDataset(tx, "d")
		insertVersion(tx, &item{id: "i", datasetID: d.id, status: "ACTIVE"}, r.server.now(), false)
		r.clock.advance(time.Second)
		go func() { listed <- r.get(path) }()
		for waiting := 0; waiting+len(listed) == 0; runtime.Gosched() {
			r.server.store.queueMu.Lock()
			waiting = len(r.server.store.waiting)
			r.server.store.queueMu.Unlock()
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "items", r.must(200, <-listed).column("id"), []string{"i"})
}

func TestItems_bySource(t *testing.T) {
	r := newItems(t, 1)
	r.must(200, r.post(api+"/dataset-items", object{"datasetName": "d", "id": "a", "input": 1, "sourceTraceId": "t", "sourceObservationId": "o"}))
	r.must(200, r.post(api+"/dataset-items", object{"datasetName": "d", "id": "b", "input": 1, "sourceTraceId": "t"}))
	equal(t, "by trace", r.get(api+"/dataset-items?sourceTraceId=t").column("id"), []string{"a", "b"})
}

// TestItems_history checks, after any changes to an item, that its last content is read, and for
// every time in between the content of that time.
func TestItems_history(t *testing.T) {
	s := newTestServer(t, Config{}).server
	rapid.Check(t, func(rt *rapid.T) {
		steps := rapid.SliceOfN(rapid.SampledFrom([]string{"write", "archive", "delete"}), 1, 12).Draw(rt, "steps")
		d := dataset{id: "ds", name: "d"}
		sqlTx, err := s.store.w.Begin()
		if err != nil {
			rt.Fatal(err)
		}
		defer sqlTx.Rollback()
		tx := newTransaction(sqlTx)
		saveDataset(tx, d)
		type state struct {
			at     int64
			exists bool
			status string
		}
		var history []state
		for _, step := range steps {
			it, _, err := findItem(tx, "i", 0)
			if err != nil {
				rt.Fatal(err)
			}
			it.id, it.datasetID = "i", "ds"
			it.status = map[string]string{"write": "ACTIVE", "archive": "ARCHIVED", "delete": "ACTIVE"}[step]
			if insertVersion(tx, &it, s.now(), step == "delete"); tx.err != nil { // the clock stands still
				rt.Fatal(tx.err)
			}
			history = append(history, state{it.created, step != "delete", it.status})
		}
		for _, want := range append(history, state{0, history[len(history)-1].exists, history[len(history)-1].status}) {
			it, exists, err := findItem(tx, "i", want.at)
			if err != nil || exists != want.exists || (exists && it.status != want.status) {
				rt.Fatalf("at %d: got %v %q %v, want %v %q", want.at, exists, it.status, err, want.exists, want.status)
			}
		}
	})
}

func TestExperimentID(t *testing.T) {
	if got := experimentID("d1", "run A"); got != "fac7107fa54469f8" {
		t.Errorf("got %s", got)
	}
	text := jsonStringify([]string{"a\u2028b\u2029c\"\\\b\f\n\r\t\x01\x7f<é😀\\u2028"})
	if want := "[\"a\u2028b\u2029c\\\"\\\\\\b\\f\\n\\r\\t\\u0001\x7f<é😀\\\\u2028\"]"; text != want {
		t.Errorf("got %s, want %s", text, want)
	}
}

func TestLinkItem(t *testing.T) {
	r := newItems(t, 2)
	datasetID, _ := r.get(api + "/v2/datasets/d").at("id").(string)
	pin := iso(r.clock.now().UnixMilli())
	r.clock.advance(time.Minute)
	a := r.must(200, r.post(api+"/dataset-run-items", object{"runName": "run A", "datasetItemId": "i1", "traceId": "t", "observationId": "o",
		"runDescription": "x", "metadata": []int{1}}))
	equalFields(t, a, object{"datasetRunId": experimentID(datasetID, "run A"), "datasetRunName": "run A",
		"datasetItemId": "i1", "traceId": "t", "observationId": "o"})
	equal(t, "nothing is stored", r.get(api+"/experiments?fromStartTime=2020-01-01").column("id"), []string{})
	r.must(200, r.post(api+"/dataset-items", object{"datasetName": "d", "id": "i1", "status": "ARCHIVED"}))
	r.must(200, r.do("DELETE", api+"/dataset-items/i2", nil))
	r.must(200, r.post(api+"/otel/v1/traces", export(rootSpan("tt", "oo", "e", "i"))))
	link := func(more object) object {
		body := object{"runName": "r", "datasetItemId": "i1", "traceId": "t"}
		maps.Copy(body, more)
		return body
	}
	cases := map[string]struct {
		body   object
		status int
		text   string
	}{
		"archived":               {link(nil), 404, "Dataset item not found"},
		"archived, pinned":       {link(object{"datasetVersion": pin}), 200, "datasetRunId"},
		"deleted":                {link(object{"datasetItemId": "i2"}), 404, "Dataset item not found"},
		"unknown":                {link(object{"datasetItemId": "none"}), 404, "Dataset item not found"},
		"an unknown key":         {link(object{"colour": 1}), 400, "unrecognized_keys"},
		"no trace":               {link(object{"traceId": nil}), 400, "traceId"},
		"no run name":            {link(object{"runName": nil}), 400, "runName"},
		"an empty run name":      {link(object{"runName": "", "datasetVersion": pin}), 200, `"datasetRunName":""`},
		"a bad version":          {link(object{"datasetVersion": "x"}), 400, "datasetVersion"},
		"its own creation":       {link(object{"createdAt": at1, "datasetVersion": pin}), 200, `"createdAt":"` + at1},
		"a name of a wrong type": {link(object{"runName": 7}), 400, "runName"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r.post(api+"/dataset-run-items", tc.body).expect(t, "answer", tc.status, tc.text)
		})
	}
}

// TestItems_depth checks that JSON that is nested too deep is refused, because it could be stored
// but not read.
func TestItems_depth(t *testing.T) {
	r := newItems(t, 0)
	nest := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	send := func(value string) answer {
		return r.post(api+"/dataset-items", `{"datasetName":"d","id":"deep","input":`+value+`}`)
	}
	r.must(200, send(nest(maxDepth-1)))
	r.must(400, send(nest(maxDepth)))
	r.must(400, send(nest(20_000)))
	r.must(200, r.get(api+"/dataset-items?datasetName=d"))
	r.must(200, send(`"`+nest(9_999)+`"`)) // a string with JSON that is too deep stays a string
	equal(t, "text", r.get(api+"/dataset-items?datasetName=d").at("data", 0, "input"), nest(9_999))
}

func FuzzReadValue(f *testing.F) {
	for _, text := range []string{`"x"`, `"{\"a\":[1]}"`, `{"a":"\u0000b","c":[1e400,-0.0,12345678901234567890]}`, `"\"\""`, `null`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if !storable(raw) {
			return
		}
		frm := &form{fields: []field{{key: "input", value: raw}}}
		v := readValue(frm, "input")
		if frm.err() != nil || v == nil || !v.Valid {
			return
		}
		if !json.Valid([]byte(v.String)) {
			t.Fatalf("%q became %q, which is not JSON", raw, v.String)
		}
		again := &form{fields: []field{{key: "input", value: json.RawMessage(v.String)}}}
		if second := readValue(again, "input"); v.String[0] != '"' && (second == nil || *second != *v) {
			t.Fatalf("stored again %q became %v", v.String, second)
		}
	})
}
