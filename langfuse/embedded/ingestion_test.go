package embedded

import (
	"slices"
	"strings"
	"testing"
)

// legacyEvent returns an event of that type; envelope is its id.
func legacyEvent(kind, envelope, at string, body object) object {
	return object{"id": envelope, "type": kind, "timestamp": at, "body": body}
}

const oneSecondLater = "2026-11-21T03:00:01.000Z"

// TestIngest_legacyEvents checks that the events of one trace are merged, in any order and spread
// over any batches.
func TestIngest_legacyEvents(t *testing.T) {
	events := []object{
		legacyEvent("trace-create", "e1", at1, object{"id": "t", "name": "first", "userId": "u", "tags": []string{"b"},
			"metadata": object{"a": object{"x": 1}}, "input": object{"text": "in"}}),
		legacyEvent("trace-create", "e2", oneSecondLater, object{"id": "t", "name": "second", "tags": []string{"a"},
			"metadata": object{"a": object{"y": 2}}, "output": "plain", "public": true}),
		legacyEvent("generation-create", "e3", at1, object{"id": "g", "traceId": "t", "parentObservationId": "s", "name": "call",
			"startTime": at1, "model": "m", "modelParameters": object{"temperature": 0}, "input": []string{"x"},
			"promptName": "p", "promptVersion": 1, "metadata": object{"k": "v"}}),
		legacyEvent("generation-update", "e4", oneSecondLater, object{"id": "g", "endTime": "2026-11-21T03:00:02.000Z", "level": "WARNING",
			"output": object{"a": 1}, "usage": object{"input": 3, "output": 4, "total": 7, "totalCost": 0.5}}),
		legacyEvent("span-create", "e5", at1, object{"id": "s", "traceId": "t", "name": "step", "startTime": at1}),
		legacyEvent("span-update", "e6", oneSecondLater, object{"id": "s", "endTime": oneSecondLater, "usage": object{"input": 1}}),
		legacyEvent("event-create", "e7", oneSecondLater, object{"id": "v", "traceId": "t", "name": "note"}),
		scoreEvent("e8", "f1", 0, at1),
	}
	reversed := slices.Clone(events)
	slices.Reverse(reversed)
	var separate []object
	for _, ev := range events {
		separate = append(separate, batchOf(ev))
	}
	for how, batches := range map[string][]object{"one batch": {batchOf(events...)}, "reversed": {batchOf(reversed...)},
		"one by one": separate, "twice": {batchOf(events...), batchOf(events...)}} {
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
		"metadata": object{"a": object{"x": 1, "y": 2}}, "input": object{"text": "in"}, "output": "plain", "latency": 2,
		"totalCost": 0.5, "environment": "default"})
	equal(t, "score", a.at("scores", 0, "value"), 0)
	equal(t, "three observations", a.at("observations", 3), nil)
	g := r.must(200, r.get(api+"/observations/g"))
	equalFields(t, g, object{"traceId": "t", "parentObservationId": "s", "type": "GENERATION", "name": "call",
		"startTime": at1, "endTime": "2026-11-21T03:00:02.000Z", "model": "m", "modelParameters": object{"temperature": 0},
		"input": []string{"x"}, "output": object{"a": 1}, "level": "WARNING", "usageDetails": object{"input": 3, "output": 4, "total": 7},
		"calculatedTotalCost": 0.5, "promptName": "p", "promptVersion": 1, "metadata": object{"k": "v"}})
	v := r.must(200, r.get(api+"/observations/v"))
	equal(t, "an event", []any{v.at("type"), v.at("endTime"), v.at("latency"), v.at("startTime")}, []any{"EVENT", nil, nil, oneSecondLater})
	if r.server.cfg.Mode == ModeV4Dual {
		equal(t, "roots", r.get(api+"/v2/observations?traceId=t&isRootObservation=true&fields=core").column("id"), []string{"v", "s"})
	}
}

// TestIngest_loneObservation checks that an observation without a trace becomes a trace of its own,
// and that one without an id is acknowledged and lost.
func TestIngest_loneObservation(t *testing.T) {
	r := newTestServer(t, Config{Mode: ModeV3})
	a := r.must(207, r.post(api+"/ingestion", batchOf(legacyEvent("span-create", "e1", at1, object{"id": "s", "name": "n"}),
		legacyEvent("span-create", "e2", at1, object{"name": "lost", "traceId": "x"}), legacyEvent("trace-create", "e3", at1, object{"name": "lost"}))))
	equal(t, "no errors", a.at("errors"), []any{})
	equal(t, "traces", r.get(api+"/traces").column("id"), []string{"s"})
	equal(t, "observations", r.get(api+"/traces/s").at("observations", 0, "name"), "n")
}

func TestIngest_legacyRefusals(t *testing.T) {
	bad := map[string]struct {
		event  object
		reason string
	}{
		"unknown type":           {legacyEvent("thing-create", "e", at1, object{"id": "x"}), "unknown event type"},
		"links are not for here": {legacyEvent("dataset-run-item-create", "e", at1, object{"id": "x"}), "unknown event type"},
		"no body":                {object{"id": "e", "type": "trace-create", "timestamp": at1}, "expected object"},
		"a bad level":            {legacyEvent("span-create", "e", at1, object{"id": "x", "level": "LOUD"}), "level"},
		"half a prompt":          {legacyEvent("generation-create", "e", at1, object{"id": "x", "promptName": "p"}), "promptName"},
		"a bad start":            {legacyEvent("span-create", "e", at1, object{"id": "x", "startTime": "now"}), "startTime"},
		"public text":            {legacyEvent("trace-create", "e", at1, object{"id": "x", "public": "yes"}), "public"},
		"parameters of a list":   {legacyEvent("generation-create", "e", at1, object{"id": "x", "modelParameters": []int{1}}), "modelParameters"},
		"observation type":       {legacyEvent("observation-create", "e", at1, object{"id": "x", "type": "FOO"}), "type"},
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
