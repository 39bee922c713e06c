package embedded

import (
	"strings"
	"testing"
)

// legacyEvent returns an event of that type; envelope is its id.
func legacyEvent(kind, envelope, at string, body object) object {
	return object{"id": envelope, "type": kind, "timestamp": at, "body": body}
}

const oneSecondLater = "2026-11-21T03:00:01.000Z"

// TestIngest_legacyEvents checks that the events of one trace are merged, in one batch or several.
func TestIngest_legacyEvents(t *testing.T) {
	events := []object{
		legacyEvent("trace-create", "e1", at1, object{"id": "t", "name": "first", "userId": "u", "tags": []string{"b"},
			"metadata": object{"a": object{"x": 1}}, "input": object{"text": "in"}}),
		legacyEvent("trace-create", "e2", oneSecondLater, object{"id": "t", "name": "second", "tags": []string{"a"},
			"metadata": object{"a": object{"y": 2}}, "output": "plain", "public": true}),
		scoreEvent("e8", "f1", 0, at1),
	}
	var separate []object
	for _, ev := range events {
		separate = append(separate, batchOf(ev))
	}
	for how, batches := range map[string][]object{"one batch": {batchOf(events...)}, "one by one": separate,
		"twice": {batchOf(events...), batchOf(events...)}} {
		for _, mode := range []Mode{ModeV3, ModeV4Dual} {
			t.Run(how+" "+string(mode), func(t *testing.T) {
				r := newTestServer(t, Config{Mode: mode})
				for _, b := range batches {
					a := r.must(207, r.post(api+"/ingestion", b))
					equal(t, "errors", a.at("errors"), []any{})
				}
				checkLegacyTrace(t, r)
			})
		}
	}
}

func checkLegacyTrace(t *testing.T, r *testServer) {
	t.Helper()
	a := r.must(200, r.get(api+"/traces/t"))
	equalFields(t, a, object{"name": "second", "userId": "u", "tags": []string{"a", "b"}, "public": true,
		"metadata": object{"a": object{"x": 1, "y": 2}}, "input": object{"text": "in"}, "output": "plain", "environment": "default"})
	equal(t, "score", a.at("scores", 0, "value"), 0)
}

// TestIngest_noID checks that a trace without an id is acknowledged and lost.
func TestIngest_noID(t *testing.T) {
	r := newTestServer(t, Config{Mode: ModeV3})
	a := r.must(207, r.post(api+"/ingestion", batchOf(legacyEvent("trace-create", "e3", at1, object{"name": "lost"}))))
	equal(t, "no errors", a.at("errors"), []any{})
	equal(t, "traces", r.get(api+"/traces").column("id"), []string{})
}

func TestIngest_legacyRefusals(t *testing.T) {
	bad := map[string]struct {
		event  object
		reason string
	}{
		"unknown type":           {legacyEvent("thing-create", "e", at1, object{"id": "x"}), "unknown event type"},
		"links are not for here": {legacyEvent("dataset-run-item-create", "e", at1, object{"id": "x"}), "unknown event type"},
		"an observation":         {legacyEvent("span-create", "e", at1, object{"id": "x"}), "unknown event type"},
		"no body":                {object{"id": "e", "type": "trace-create", "timestamp": at1}, "expected object"},
		"public text":            {legacyEvent("trace-create", "e", at1, object{"id": "x", "public": "yes"}), "public"},
		"no instant":             {object{"id": "e", "type": "trace-create", "body": object{"id": "x"}}, "timestamp"},
	}
	good := legacyEvent("trace-create", "good", at1, object{"id": "t"})
	for name, tc := range bad {
		t.Run(name, func(t *testing.T) {
			r := newTestServer(t, Config{Mode: ModeV3})
			a := r.must(207, r.post(api+"/ingestion", batchOf(tc.event, good)))
			equal(t, "status", a.at("errors", 0, "status"), 400)
			if text, _ := a.at("errors", 0, "error").(string); !strings.Contains(text, tc.reason) {
				t.Errorf("%q does not say %q", text, tc.reason)
			}
			equal(t, "the other one", r.get(api+"/traces").column("id"), []string{"t"})
		})
	}
	r := newTestServer(t, Config{})
	a := r.must(207, r.post(api+"/ingestion", batchOf(good, object{"type": "x"}, scoreEvent("s", "s", 1, at1))))
	equal(t, "events_only", []any{a.at("errors", 0, "id"), a.at("errors", 0, "status"), a.at("errors", 0, "message"), a.at("errors", 1, "id")},
		[]any{"good", 400, "Event type not accepted", "unknown"})
	equal(t, "the score", a.at("successes", 0, "id"), "s")
}
