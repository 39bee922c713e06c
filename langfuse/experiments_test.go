package langfuse

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"extraction-experiment/internal/textutil"
)

func TestExperimentID(t *testing.T) {
	// Generated with Node.js:
	//	createHash('sha256').update(JSON.stringify(["langfuse-experiment-v1","p1","d1",NAME])).digest('hex').slice(0,16)
	for name, want := range map[string]string{
		"run A":                        "c1be4668d6593f0f",
		"":                             "87141f93db3069c4",
		`q"\/`:                         "2659e620fbd279e2",
		"<a>&\u2028\u2029":             "eba00a32a8370fbc",
		"\b\f\n\r\t\x01\x1f\x7f\u0085": "a117d13a07145b0f",
		"Zürich 北京 🚀":                  "4a6d006af73a5ac2",
		"a/b,c%2F":                     "1bcba1af09759900",
		"\ufffd":                       "9a3a4c6a60be9d93",
		"\xff":                         "9a3a4c6a60be9d93", // sent as U+FFFD
		"#2":                           "cbffa63b2d6cc75e",
		" lead":                        "122f4252492432bc",
	} {
		if got := ExperimentID("p1", "d1", name); got != want {
			t.Errorf("%q: %s, want %s", name, got, want)
		}
	}
}

// The id must be computed from the run name that the server receives: the id of a name equals
// the id of the name after a round trip through a request.
func TestExperimentIDOfWhatTheServerSees(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := string(rapid.SliceOf(rapid.Byte()).Draw(t, "name"))
		sent, err := textutil.MarshalJSON([]string{name})
		if err != nil {
			t.Fatal(err)
		}
		var seen []string
		if err := json.Unmarshal(sent, &seen); err != nil {
			t.Fatal(err)
		}
		if ExperimentID("p", "d", name) != ExperimentID("p", "d", seen[0]) {
			t.Fatalf("%q and %q differ", name, seen[0])
		}
		// encoding/json and JavaScript differ only in U+2028, U+2029 and U+FFFD.
		text, err := textutil.MarshalJSON([]string{"langfuse-experiment-v1", "p", "d", name})
		if err != nil {
			t.Fatal(err)
		}
		plain := strings.NewReplacer(`\u2028`, "\u2028", `\u2029`, "\u2029", `\ufffd`, "\ufffd").Replace(string(text))
		sum := sha256.Sum256([]byte(plain))
		if want := hex.EncodeToString(sum[:8]); !strings.Contains(name, `\u`) && ExperimentID("p", "d", name) != want {
			t.Fatalf("%q: another text than %s", name, plain)
		}
	})
}

func TestListExperiments(t *testing.T) {
	client, record := serve(t, answers(t, "experiments.json"))
	runs := collect(t, client.ListExperiments(t.Context(), testVersion, "x", "y"))
	if len(runs) != 1 || runs[0].ID != "c1be4668d6593f0f" || runs[0].ItemCount != 3 || runs[0].Description != "nightly" || string(runs[0].Metadata) != `{"model":"gpt-x"}` {
		t.Errorf("%+v", runs)
	}
	want := "/api/public/experiments?fields=core%2Cmetadata&fromStartTime=2026-11-21T02%3A00%3A00.123Z&id=x%2Cy&limit=64"
	if got := record.seen()[0].uri; got != want {
		t.Errorf("asked\n%s, want\n%s", got, want)
	}
}

func TestListExperimentItems(t *testing.T) {
	client, record := serve(t, answers(t, "experiment_items.json"))
	items := collect(t, client.ListExperimentItems(t.Context(), testVersion, "x"))
	if len(items) != 2 || items[0].ItemID != "i1" || items[1].Level != "ERROR" || !items[1].EndTime.IsZero() ||
		!items[0].DatasetVersion.Equal(time.Date(2026, 11, 21, 2, 59, 0, 0, time.UTC)) {
		t.Fatalf("%+v", items)
	}
	for field, pair := range map[string][2]string{
		"input":          {string(DecodeJSON(items[0].Input)), `{"text":"Ada met Bob."}`},
		"output":         {string(DecodeJSON(items[0].Output)), `{"entities":["Ada"]}`},
		"expectedOutput": {string(DecodeJSON(items[0].ExpectedOutput)), `"not json"`},
		"absent":         {string(DecodeJSON(items[1].Input)), ""},
	} {
		if pair[0] != pair[1] {
			t.Errorf("%s: %s, want %s", field, pair[0], pair[1])
		}
	}
	if got := record.seen()[0].uri; !strings.Contains(got, "experimentId=x&fields=core%2Cdataset%2Cmetadata%2CitemMetadata%2CexperimentMetadata%2Cscores%2Cio&") {
		t.Errorf("asked %s", got)
	}
}

func TestListObservations(t *testing.T) {
	client, record := serve(t, answers(t, "observations.json"))
	seen := collect(t, client.ListObservations(t.Context(), ObservationsQuery{TraceParts: TraceParts{Roots: true, IO: true, ExpandMetadata: []string{"k"}}, Tags: []string{"validated", "x"}, From: testVersion}))
	if len(seen) != 2 || seen[0].ParentID != "" || string(DecodeJSON(seen[0].Input)) != `{"text":"x"}` || string(DecodeJSON(seen[0].Output)) != `"plain"` {
		t.Fatalf("%+v", seen)
	}
	if o := seen[1]; o.ModelName() != "gpt-x" || o.UsageDetails["input"] != 812 || o.UsageDetails["output"] != 64 || o.TotalCost != 0.0031 || o.PromptVersion != 7 || o.Tags[0] != "validated" {
		t.Errorf("%+v", o)
	}
	want := "/api/public/v2/observations?expandMetadata=k&fields=core%2Cbasic%2Cmodel%2Cusage%2Cprompt%2Ctrace_context%2Cio&filter=%5B%7B%22column%22%3A%22tags%22%2C%22operator%22%3A%22all+of%22%2C%22type%22%3A%22arrayOptions%22%2C%22value%22%3A%5B%22validated%22%2C%22x%22%5D%7D%5D&fromStartTime=2026-11-21T02%3A00%3A00.123Z&isRootObservation=true&limit=64"
	if got := record.seen()[0].uri; got != want {
		t.Errorf("asked\n%s, want\n%s", got, want)
	}
}
