package langfuse

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"extraction-experiment/internal/textutil"
)

// addSamples adds every file of a folder in testdata to the corpus of a fuzz test.
func addSamples(f *testing.F, folder string) {
	files, err := os.ReadDir("testdata/" + folder)
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		if !file.IsDir() {
			f.Add(sample(f, folder+"/"+file.Name()))
		}
	}
}

func FuzzErrorBody(f *testing.F) {
	addSamples(f, "errors")
	f.Fuzz(func(t *testing.T, body []byte) {
		answer := readErrorBody(nil, body)
		if answer.html && answer.message != "" {
			t.Error("a page became a message")
		}
		if text := textutil.Cut(answer.message, maxMessage); len(text) > maxMessage+len("…") || !utf8.ValidString(text) {
			t.Errorf("a message of %d bytes", len(text))
		}
		if answer.retryAfter < 0 || answer.retryAfter > 24*time.Hour {
			t.Errorf("a pause of %s", answer.retryAfter)
		}
		for _, status := range []int{200, 400, 401, 404, 413, 422, 429, 500} {
			classify(status, answer)
		}
	})
}

func FuzzIngestionAnswer(f *testing.F) {
	addSamples(f, ".")
	f.Fuzz(func(t *testing.T, body []byte) {
		var answer ingestionAnswer
		if json.Unmarshal(body, &answer) != nil {
			return
		}
		failures := answer.failures()
		for _, failure := range answer.Errors {
			if failures[failure.ID] == nil {
				t.Error("a failed event counts as accepted")
			}
		}
	})
}

func FuzzReadAnswers(f *testing.F) {
	addSamples(f, ".")
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, into := range []any{
			new(Dataset), new(Prompt), new(struct{ Data []DatasetItem }), new(struct{ Data []Score }),
			new(struct{ Data []Run }), new(struct{ Data []ExperimentItem }), new(struct{ Data []Observation }),
		} {
			if json.Unmarshal(body, into) != nil {
				continue
			}
			if observations, ok := into.(*struct{ Data []Observation }); ok {
				for _, o := range observations.Data {
					if raw := DecodeJSON(o.Input); raw != nil && !json.Valid(raw) {
						t.Errorf("an input that is not JSON: %q", raw)
					}
				}
			}
			if prompt, ok := into.(*Prompt); ok {
				_, _ = prompt.Text()
			}
		}
	})
}

// A trace contains every observation once, in order, whatever the server returns.
func FuzzTrace(f *testing.F) {
	addSamples(f, ".")
	f.Fuzz(func(t *testing.T, body []byte) {
		var page struct {
			Data, Observations []Observation
		}
		if json.Unmarshal(body, &page) != nil {
			return
		}
		page.Data = append(page.Data, page.Observations...)
		trace, seen := newTrace("t", page.Data), map[string]bool{}
		for i, o := range trace.Observations {
			if seen[o.ID] || i > 0 && o.StartTime.Before(trace.Observations[i-1].StartTime) {
				t.Errorf("%q is there twice or out of order", o.ID)
			}
			seen[o.ID] = true
		}
		for _, o := range page.Data {
			if !seen[o.ID] {
				t.Errorf("%q is lost", o.ID)
			}
		}
		var whole Trace
		if json.Unmarshal(body, &whole) == nil {
			_ = whole.decoded()
		}
	})
}

func FuzzScoreValue(f *testing.F) {
	for _, seed := range []string{"0", "true", `"x"`, "null", "{}", "1e999", `"\ud800"`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		var value, again ScoreValue
		if json.Unmarshal(raw, &value) != nil {
			return
		}
		written, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(written, &again); err != nil || again != value {
			t.Errorf("%s became %s (%v)", raw, written, err)
		}
	})
}

func FuzzExperimentID(f *testing.F) {
	f.Add("p1", "d1", "run A")
	f.Add("", "\xed\xa0\x80", "\u2028<>&\x00")
	f.Fuzz(func(t *testing.T, project, dataset, run string) {
		id := ExperimentID(project, dataset, run)
		if len(id) != 16 || strings.Trim(id, "0123456789abcdef") != "" {
			t.Errorf("id %q", id)
		}
	})
}

// TestReadErrorBody_invalidUTF8 checks that the message is valid UTF-8, even if it is JSON with
// invalid bytes.
func TestReadErrorBody_invalidUTF8(t *testing.T) {
	answer := readErrorBody(nil, []byte("{\"message\":{\"a\xff\":1}}"))
	if !utf8.ValidString(answer.message) || answer.message == "" {
		t.Errorf("message %q", answer.message)
	}
}
