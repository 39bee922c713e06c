package langfuse

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

var (
	newV3 = Capabilities{Version: Version{3, 225, 4}}.WithMode(ModeLegacy)
	oldV3 = Capabilities{Version: Version{3, 100, 0}}.WithMode(ModeLegacy)
	v4    = Capabilities{Version: Version{4, 16, 0}}.WithMode(ModeEventsOnly)
)

func TestScoresReadTheSameFromAllEndpoints(t *testing.T) {
	type row struct{ name, value, kind, id, trace, author string }
	want := map[string]row{
		"s1": {"f1", "0", "observation", "b7ad6b7169203331", "0af7651916cd43dd8448eb211c80319c", ""},
		"s2": {"validated", "1", "trace", "0af7651916cd43dd8448eb211c80319c", "0af7651916cd43dd8448eb211c80319c", "user-1"},
		"s3": {"kind", "", "session", "se1", "", ""},
		"s4": {"output", `{"total":12.5}`, "trace", "0af7651916cd43dd8448eb211c80319c", "0af7651916cd43dd8448eb211c80319c", ""},
		"s5": {"micro_f1", "0.91", "experiment", "", "", ""},
	}
	for file, server := range map[string]Capabilities{"scores_v3.json": newV3, "scores_v2.json": oldV3} {
		client, record := serve(t, answers(t, file))
		scores := collect(t, client.ReadScores(t.Context(), server, ScoresQuery{}))
		if len(scores) != len(want) {
			t.Errorf("%s: %d scores, want %d", file, len(scores), len(want))
		}
		for _, s := range scores {
			got := row{s.Name, s.Value.String(), s.Subject.Kind, s.Subject.ID, s.TraceID(), s.AuthorUserID}
			w := want[s.ID]
			if s.ID == "s5" {
				w.id = got.id // v3 and v4 have different run ids
			}
			if s.ID == "s3" && file == "scores_v2.json" {
				w.value = "good"
			}
			if s.ID == "s4" {
				w.author = got.author
			}
			if got != w {
				t.Errorf("%s: %s: %+v, want %+v", file, s.ID, got, w)
			}
		}
		if got := record.seen()[0].uri; strings.Contains(got, "/v3/scores") != server.ScoresV3() {
			t.Errorf("%s: asked %s", file, got)
		}
	}
}

func TestScoresOfManyTraces(t *testing.T) {
	var ids []string
	for i := range 120 {
		ids = append(ids, fmt.Sprintf("%032x", i+1))
	}
	// Every response contains two scores per requested trace, and one of another trace, as if
	// the server ignored the filter.
	client, record := serve(t, func(w http.ResponseWriter, r *http.Request) {
		var data []map[string]any
		add := func(id, trace string) {
			data = append(data, map[string]any{"id": id, "name": "f1", "value": 1, "dataType": "NUMERIC", "timestamp": "2026-11-21T03:00:00Z", "subject": map[string]any{"kind": "trace", "id": trace}})
		}
		for _, trace := range strings.Split(r.FormValue("traceId"), ",") {
			add(trace+"a", trace)
			add(trace+"b", trace)
		}
		add("foreign", "x")
		_ = json.NewEncoder(w).Encode(map[string]any{"data": data, "meta": map[string]any{}})
	})
	if scores := collect(t, client.ReadScores(t.Context(), v4, ScoresQuery{TraceIDs: ids, Limit: 100})); len(scores) != 240 {
		t.Errorf("%d scores, want 240", len(scores))
	}
	if n := len(record.seen()); n != 3 { // 50 + 50 + 20 traces
		t.Errorf("%d requests, want 3", n)
	}
	for _, request := range record.seen() {
		if len(request.uri) > 4000 {
			t.Errorf("a URL of %d bytes", len(request.uri))
		}
	}
}

func TestScoresOfTracesOnOldServers(t *testing.T) {
	client, record := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/gone") {
			w.WriteHeader(http.StatusNotFound)
			_, _ = w.Write([]byte(`{"message":"Trace not found","error":"LangfuseNotFoundError"}`))
			return
		}
		_, _ = w.Write(sample(t, "trace_v3.json"))
	})
	scores := collect(t, client.ReadScores(t.Context(), oldV3, ScoresQuery{TraceIDs: []string{"gone", "0af7651916cd43dd8448eb211c80319c"}, Names: []string{"f1"}}))
	if len(scores) != 1 || scores[0].ID != "s1" || scores[0].Value != NumberValue(0) || len(record.seen()) != 2 {
		t.Errorf("%+v after %d requests", scores, len(record.seen()))
	}
}

func TestRunScoresByMode(t *testing.T) {
	for mode, version := range map[Mode]Version{ModeLegacy: {3, 100, 0}, ModeDual: {4, 16, 0}, ModeEventsOnly: {4, 16, 0}} {
		file := map[bool]string{true: "scores_v3.json", false: "scores_v2.json"}[mode != ModeLegacy]
		client, record := serve(t, func(w http.ResponseWriter, r *http.Request) {
			switch {
			case strings.HasSuffix(r.URL.Path, "scores"):
				_, _ = w.Write(sample(t, file))
			default:
				_, _ = w.Write(sample(t, "run_items_v3.json"))
			}
		})
		ref := RunRef{DatasetID: "d1", Name: "run A"}
		if mode == ModeDual {
			ref.ID = "c1be4668d6593f0f" // the id in the sample
		}
		n := 0
		for score, err := range client.ListRunScores(t.Context(), testServer(mode, version), ref) {
			if err != nil || score.Name != "micro_f1" || score.Value != NumberValue(0.91) {
				t.Errorf("%s: %+v, %v", mode, score, err)
			}
			n++
		}
		if n != 1 {
			t.Errorf("%s: %d scores, want 1 after %v", mode, n, record.seen())
		}
	}
}

func TestScoresBySelection(t *testing.T) {
	for name, test := range map[string]struct {
		query ScoresQuery
		want  string
	}{
		"name":  {ScoresQuery{Names: []string{"f1", "kind"}}, "s1 s3"},
		"ids":   {ScoresQuery{IDs: []string{"s1", "s5", "no"}}, "s1 s5"},
		"a run": {ScoresQuery{ExperimentID: "c1be4668d6593f0f"}, "s5"},
	} {
		client, _ := serve(t, answers(t, "scores_v3.json"))
		var got []string
		for _, s := range collect(t, client.ReadScores(t.Context(), newV3, test.query)) {
			got = append(got, s.ID)
		}
		if strings.Join(got, " ") != test.want {
			t.Errorf("%s: %v, want %s", name, got, test.want)
		}
	}
}

// A query that servers would read as another one is refused: it would silently find nothing.
func TestScoresQueryRefused(t *testing.T) {
	client, record := serve(t, answers(t, "scores_v3.json"))
	for _, q := range []ScoresQuery{{TraceIDs: []string{"t"}, ExperimentID: "e"}, {Names: []string{"f1", "a,b"}}} {
		for _, scores := range []iter.Seq2[Score, error]{client.ListScores(t.Context(), q), client.ReadScores(t.Context(), newV3, q)} {
			for _, err := range scores {
				if !errors.As(err, new(*UsageError)) {
					t.Errorf("%+v: %v", q, err)
				}
			}
		}
	}
	if len(record.seen()) != 0 {
		t.Error("a request went out")
	}
}

// Every endpoint's form of a value reads back as the same value.
func TestScoreValuesSurviveEveryForm(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		number := rapid.Float64Range(-1e15, 1e15).Draw(t, "number")
		yes := rapid.Bool().Draw(t, "yes")
		text := rapid.StringMatching(`[a-zA-Z0-9 ]{1,20}`).Draw(t, "text")
		quote := func(v any) string { raw, _ := json.Marshal(v); return string(raw) }
		one := BoolValue(yes).String()
		for form, want := range map[string]ScoreValue{
			`{"dataType":"NUMERIC","value":` + quote(number) + `}`:                                                NumberValue(number),
			`{"dataType":"BOOLEAN","value":` + quote(yes) + `}`:                                                   BoolValue(yes),
			`{"dataType":"BOOLEAN","value":` + one + `,"stringValue":"` + strings.ToUpper(fmt.Sprint(yes)) + `"}`: BoolValue(yes),
			`{"dataType":"CATEGORICAL","value":0,"stringValue":` + quote(text) + `}`:                              TextValue(text),
			`{"dataType":"CATEGORICAL","value":` + quote(text) + `}`:                                              TextValue(text),
			`{"dataType":"CORRECTION","value":0,"stringValue":` + quote(text) + `}`:                               TextValue(text),
		} {
			var score Score
			if err := json.Unmarshal([]byte(form), &score); err != nil || score.Value != want {
				t.Fatalf("%s: %v, %v, want %v", form, score.Value, err, want)
			}
		}
	})
}

func FuzzScore(f *testing.F) {
	f.Add([]byte(`{"id":"a","dataType":"BOOLEAN","value":"TRUE","traceId":"t","observationId":"o"}`))
	f.Add([]byte(`{"dataType":"NUMERIC","value":"NaN","stringValue":null,"subject":null}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		var score Score
		if json.Unmarshal(raw, &score) != nil {
			return
		}
		if number, ok := score.Value.Number(); ok && number != number {
			t.Errorf("%q was read as NaN", raw)
		}
		again, err := json.Marshal(score)
		if err != nil {
			t.Fatalf("%q: %v", raw, err)
		}
		var second Score
		if err := json.Unmarshal(again, &second); err != nil || second.Value != score.Value || second.Subject != score.Subject {
			t.Errorf("%q: %+v, then %+v, %v", raw, score, second, err)
		}
	})
}

func TestWait(t *testing.T) {
	for name, test := range map[string]struct {
		wait  Wait
		after time.Duration // when the data appears
		looks int
		took  time.Duration
		late  bool
	}{
		"at once": {Wait{}, 0, 1, 0, false},
		"a while": {Wait{}, 3 * time.Second, 4, 3500 * time.Millisecond, false},          // 0, 0.5, 1.5, 3.5 s
		"never":   {Wait{Timeout: 4 * time.Second}, time.Hour, 5, 4 * time.Second, true}, // 0, 0.5, 1.5, 3.5, 4 s
		// 0, 0.5, 1.5, 3.5, 7.5 s, then 4,319 times every 5 s.
		"for hours":     {Wait{Timeout: 10 * time.Hour}, 6 * time.Hour, 4324, 6*time.Hour + 2500*time.Millisecond, false},
		"once":          {Wait{Timeout: -1}, time.Hour, 1, 0, true},
		"even pauses":   {Wait{MinPause: time.Second, MaxPause: time.Second, Timeout: 3 * time.Second}, 3 * time.Second, 4, 3 * time.Second, false},
		"the last look": {Wait{MinPause: time.Minute, Timeout: time.Second}, time.Second, 2, time.Second, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			began, looks := time.Now(), 0
			err := test.wait.Until(t.Context(), func(context.Context) (bool, error) {
				looks++
				return time.Since(began) >= test.after, nil
			})
			var late *NotYetError
			if errors.As(err, &late) != test.late || looks != test.looks || time.Since(began) != test.took || test.late && (late.Polls != looks || exitCode(err) != 69) {
				t.Errorf("%s: %v after %d looks and %s", name, err, looks, time.Since(began))
			}
		})
	}
}

func TestNotYetError(t *testing.T) {
	for polls, want := range map[int]string{1: "and 1 look;", 2: "and 2 looks;"} {
		if got := (&NotYetError{Waited: time.Second, Polls: polls}).Error(); !strings.Contains(got, want) {
			t.Error(got)
		}
	}
}
