package langfuse

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func goodScore(id string) ScoreCreate {
	return ScoreCreate{
		ID: id, Name: "f1", Value: NumberValue(0), Type: ScoreNumeric, TraceID: "t", ObservationID: "o",
		Comment: "0/9", Environment: "sdk-experiment", Timestamp: testVersion,
	}
}

type envelope struct {
	ID, Type, Timestamp string
	Body                map[string]any
}

// envelopes returns the events of an ingestion request.
func envelopes(body []byte) []envelope {
	var request struct{ Batch []envelope }
	if err := json.Unmarshal(body, &request); err != nil {
		panic(err)
	}
	return request.Batch
}

// acceptAll responds like a server that accepts every event.
func acceptAll(w http.ResponseWriter, body []byte) {
	var successes []map[string]any
	for _, event := range envelopes(body) {
		successes = append(successes, map[string]any{"id": event.ID, "status": 201})
	}
	w.WriteHeader(http.StatusMultiStatus)
	_ = json.NewEncoder(w).Encode(map[string]any{"successes": successes, "errors": []any{}})
}

// withBody returns a handler that passes the body of the request to f.
func withBody(f func(http.ResponseWriter, []byte)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var body bytes.Buffer
		if _, err := body.ReadFrom(r.Body); err != nil {
			panic(err)
		}
		f(w, body.Bytes())
	}
}

func TestScoreValidate(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*ScoreCreate)
		want   string
	}{
		"good":                 {func(*ScoreCreate) {}, ""},
		"on a run":             {func(s *ScoreCreate) { s.TraceID, s.ObservationID, s.DatasetRunID = "", "", "r" }, ""},
		"true":                 {func(s *ScoreCreate) { s.Type, s.Value = ScoreBoolean, BoolValue(true) }, ""},
		"a category":           {func(s *ScoreCreate) { s.Type, s.Value = ScoreCategorical, TextValue("a") }, ""},
		"no environment":       {func(s *ScoreCreate) { s.Environment = "" }, ""},
		"no id":                {func(s *ScoreCreate) { s.ID = "" }, "id"},
		"no name":              {func(s *ScoreCreate) { s.Name = "" }, "name"},
		"a broken name":        {func(s *ScoreCreate) { s.Name = "\xff" }, "UTF-8"},
		"nothing to score":     {func(s *ScoreCreate) { s.TraceID, s.ObservationID = "", "" }, "either"},
		"trace and run":        {func(s *ScoreCreate) { s.DatasetRunID = "r" }, "either"},
		"run and observation":  {func(s *ScoreCreate) { s.TraceID, s.DatasetRunID = "", "r" }, "needs its trace"},
		"no value":             {func(s *ScoreCreate) { s.Value = ScoreValue{} }, "finite"},
		"NaN":                  {func(s *ScoreCreate) { s.Value = NumberValue(math.NaN()) }, "finite"},
		"infinite":             {func(s *ScoreCreate) { s.Value = NumberValue(math.Inf(1)) }, "finite"},
		"a text as number":     {func(s *ScoreCreate) { s.Value = TextValue("1") }, "finite"},
		"boolean 2":            {func(s *ScoreCreate) { s.Type, s.Value = ScoreBoolean, NumberValue(2) }, "0 or 1"},
		"an empty category":    {func(s *ScoreCreate) { s.Type, s.Value = ScoreCategorical, TextValue("") }, "needs a text"},
		"no type":              {func(s *ScoreCreate) { s.Type = "" }, "use NUMERIC"},
		"broken metadata":      {func(s *ScoreCreate) { s.Metadata = []byte("{") }, "metadata"},
		"environment in caps":  {func(s *ScoreCreate) { s.Environment = "Prod" }, "environment"},
		"reserved environment": {func(s *ScoreCreate) { s.Environment = "langfuse-x" }, "environment"},
		"a long environment":   {func(s *ScoreCreate) { s.Environment = strings.Repeat("a", 41) }, "environment"},
	} {
		score := goodScore("s1")
		test.change(&score)
		err := score.Validate()
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestScoreOnTheWire(t *testing.T) {
	client, record := serve(t, withBody(acceptAll))
	score := goodScore("s1")
	score.Metadata = []byte(`{"n": 9}`)
	if err := client.CreateScores(t.Context(), []ScoreCreate{score})[0]; err != nil {
		t.Fatal(err)
	}
	event := scoreEvent{score: &score}
	if err := event.encode(); err != nil {
		t.Fatal(err)
	}
	// The event must contain a value of 0, and the time to the millisecond.
	want := fmt.Sprintf(`{"batch":[{"id":"%s","type":"score-create","timestamp":"2026-11-21T02:00:00.123Z","body":{"id":"s1","name":"f1","value":0,"dataType":"NUMERIC","traceId":"t","observationId":"o","comment":"0/9","metadata":{"n":9},"environment":"sdk-experiment"}}]}`, event.id)
	if got := string(record.seen()[0].body); got != want || record.seen()[0].uri != "/api/public/ingestion" {
		t.Errorf("sent\n%s, want\n%s", got, want)
	}
	later := score
	later.Timestamp = score.Timestamp.Add(time.Millisecond)
	changed := scoreEvent{score: &later}
	if err := changed.encode(); err != nil || changed.id == event.id {
		t.Error("a later event has the same envelope id")
	}
	score.Value = NumberValue(1)
	same := scoreEvent{score: &score}
	if err := same.encode(); err != nil || same.id != event.id {
		t.Error("the envelope id depends on the value")
	}
}

func TestEveryEventOfA207IsAccountedFor(t *testing.T) {
	answer := string(sample(t, "ingestion_207.json"))
	client, _ := serve(t, withBody(func(w http.ResponseWriter, body []byte) {
		text := answer
		for i, event := range envelopes(body) {
			text = strings.ReplaceAll(text, fmt.Sprintf("EVENT%d\"", i), event.ID+`"`)
		}
		w.WriteHeader(http.StatusMultiStatus)
		_, _ = w.Write([]byte(text))
	}))
	var scores []ScoreCreate
	for i := range 5 {
		scores = append(scores, goodScore(fmt.Sprint("s", i)))
	}
	want := []struct {
		refused bool
		text    string
	}{
		{false, ""},
		{true, "400: Invalid request data: body.value: Provide exactly one of the following"},
		{false, "500: Internal Server Error: timeout"},
		{true, "events_only"},
		{false, "does not mention it"},
	}
	for i, err := range client.CreateScores(t.Context(), scores) {
		if errors.Is(err, ErrRefused) != want[i].refused || (err != nil) != (want[i].text != "") {
			t.Errorf("%d: %v", i, err)
			continue
		}
		if err != nil && !strings.Contains(err.Error(), want[i].text) {
			t.Errorf("%d: %q is not in %v", i, want[i].text, err)
		}
	}
}

func TestScoresGoInBoundedBatches(t *testing.T) {
	client, record := serve(t, withBody(acceptAll))
	var scores []ScoreCreate
	for i := range 250 {
		scores = append(scores, goodScore(fmt.Sprint("small", i)))
	}
	for i := range 6 { // 1 MB each, so that two fit into 2.5 MB
		big := goodScore(fmt.Sprint("big", i))
		big.Comment = strings.Repeat("x", 1<<20)
		scores = append(scores, big)
	}
	if err := errors.Join(client.CreateScores(t.Context(), scores)...); err != nil {
		t.Fatal(err)
	}
	var counts []int
	ids := map[string]bool{}
	for _, request := range record.seen() {
		events := envelopes(request.body)
		counts = append(counts, len(events))
		if len(request.body) > maxScoreBytes+100 {
			t.Errorf("a request of %d bytes", len(request.body))
		}
		for _, event := range events {
			ids[event.Body["id"].(string)] = true
		}
	}
	if !slices.Equal(counts, []int{100, 100, 52, 2, 2}) || len(ids) != 256 {
		t.Errorf("batches %v, %d ids", counts, len(ids))
	}
}

func TestScoresThatCannotBeSentAreRefusedAlone(t *testing.T) {
	client, record := serve(t, withBody(acceptAll))
	huge, undated, unnamed := goodScore("huge"), goodScore("undated"), goodScore("unnamed")
	huge.Comment = strings.Repeat("x", maxScoreBytes)
	undated.Timestamp = time.Time{}
	unnamed.Name = ""
	results := client.CreateScores(t.Context(), []ScoreCreate{huge, goodScore("a"), undated, goodScore("a"), unnamed, goodScore("b")})
	for i, refused := range []bool{true, false, true, true, true, false} {
		if err := results[i]; errors.Is(err, ErrRefused) != refused || (err != nil) != refused {
			t.Errorf("%d: %v", i, err)
		}
	}
	if !errors.Is(results[0], ErrTooLarge) || len(envelopes(record.seen()[0].body)) != 2 {
		t.Errorf("%v", results)
	}
	if results := client.CreateScores(t.Context(), nil); len(results) != 0 || len(record.seen()) != 1 {
		t.Errorf("no scores: %v, %d requests", results, len(record.seen()))
	}
}

func TestFailedRequestLeavesItsScoresUnknown(t *testing.T) {
	n := 0
	client, _ := serve(t, withBody(func(w http.ResponseWriter, body []byte) {
		if n++; n == 2 {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		acceptAll(w, body)
	}))
	var scores []ScoreCreate
	for i := range 300 {
		scores = append(scores, goodScore(fmt.Sprint(i)))
	}
	for i, err := range client.CreateScores(t.Context(), scores) {
		api, answered := errors.AsType[*APIError](err)
		if (err == nil) != (i < 100) || err != nil && (!answered || api.Status != 500 || errors.Is(err, ErrRefused)) {
			t.Fatalf("%d: %v", i, err)
		}
	}
	if n != 2 {
		t.Errorf("%d requests", n)
	}
}

func TestSingleScoreAndDelete(t *testing.T) {
	client, record := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodDelete {
			w.WriteHeader(http.StatusAccepted)
			_, _ = w.Write([]byte(`{"message":"queued"}`))
			return
		}
		_, _ = w.Write([]byte(`{"id":"s1"}`))
	})
	if err := client.CreateScore(t.Context(), goodScore("s1")); err != nil {
		t.Error(err)
	}
	if err := client.DeleteScore(t.Context(), "s/1"); err != nil {
		t.Error(err)
	}
	if client.CreateScore(t.Context(), ScoreCreate{}) == nil || client.DeleteScore(t.Context(), "") == nil {
		t.Error("a score without id was sent")
	}
	requests := record.seen()
	if len(requests) != 2 || requests[0].uri != "/api/public/scores" || requests[1].uri != "/api/public/scores/s%2F1" || !bytes.Contains(requests[0].body, []byte(`"value":0,`)) {
		t.Errorf("%+v", requests)
	}
}

func TestListScoresReadsAllKinds(t *testing.T) {
	client, _ := serve(t, answers(t, "scores_v3.json"))
	var lines []string
	for _, s := range collect(t, client.ListScores(t.Context(), ScoresQuery{ExperimentID: "x"})) {
		number, isNumber := s.Value.Number()
		text, isText := s.Value.Text()
		lines = append(lines, fmt.Sprintf("%s %s %v %v %q %v %s %s/%s/%s %s", s.ID, s.Type, number, isNumber, text, isText, s.Comment, s.Subject.Kind, s.Subject.ID, s.Subject.TraceID, s.AuthorUserID))
	}
	want := []string{
		`s1 NUMERIC 0 true "" false 0/9 observation/b7ad6b7169203331/0af7651916cd43dd8448eb211c80319c `,
		`s2 BOOLEAN 1 true "" false  trace/0af7651916cd43dd8448eb211c80319c/ user-1`,
		`s3 CATEGORICAL 0 false "" false  session/se1/ `,
		`s4 CORRECTION 0 false "{\"total\":12.5}" true  trace/0af7651916cd43dd8448eb211c80319c/ `,
		`s5 NUMERIC 0.91 true "" false  experiment/c1be4668d6593f0f/ `,
	}
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Error(diff)
	}
}

func TestScoreValue(t *testing.T) {
	for text, want := range map[string]ScoreValue{
		"0": NumberValue(0), "1e-3": NumberValue(0.001), "true": BoolValue(true), "false": NumberValue(0),
		`"a"`: TextValue("a"), `""`: TextValue(""), "null": {},
	} {
		var got ScoreValue
		if err := json.Unmarshal([]byte(text), &got); err != nil || got != want {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{"{}", "[1]", "1e999"} {
		if err := json.Unmarshal([]byte(text), new(ScoreValue)); err == nil {
			t.Errorf("%s was read", text)
		}
	}
	for want, value := range map[string]ScoreValue{"0": BoolValue(false), `"x"`: TextValue("x"), "null": {}, "0.1": NumberValue(0.1)} {
		if got, err := json.Marshal(value); err != nil || string(got) != want {
			t.Errorf("%s, %v, want %s", got, err, want)
		}
	}
	if _, err := json.Marshal(NumberValue(math.NaN())); err == nil {
		t.Error("NaN was written")
	}
	if NumberValue(0.25).String() != "0.25" || TextValue("x").String() != "x" || (ScoreValue{}).String() != "" {
		t.Error("values do not print")
	}
}

func TestNumber(t *testing.T) {
	for text, want := range map[string]Number{"1": 1, `"812"`: 812, `"0.0031"`: 0.0031, "null": 0} {
		var got Number
		if err := json.Unmarshal([]byte(text), &got); err != nil || got != want {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{`""`, `"NaN"`, `"Inf"`, "1e999", "true", "{}"} {
		if err := json.Unmarshal([]byte(text), new(Number)); err == nil {
			t.Errorf("%s was read", text)
		}
	}
}
