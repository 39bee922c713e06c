package tracking

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"
	"testing"

	"extraction-experiment/langfuse"
	"extraction-experiment/outcome"
)

// TestDecodeRecord_failure: class and message of a failure come from the output of its root span.
// If that has none, the class is that of the record.
func TestDecodeRecord_failure(t *testing.T) {
	record := string(mustMarshal(outcome.Outcome{Item: "i", Class: outcome.RateLimited}))
	for output, want := range map[string]outcome.Failure{
		`{"error":{"class":"timeout","message":"late"}}`: {Class: outcome.Timeout, Message: "late"},
		`{"error":{"class":"new","message":"what"}}`:     {Class: outcome.Provider, Message: "what"},
		`{"text":"masked"}`:                              {Class: outcome.RateLimited, Message: "Langfuse does not say why"},
		`"masked"`:                                       {Class: outcome.RateLimited, Message: "Langfuse does not say why"},
		``:                                               {Class: outcome.RateLimited, Message: "Langfuse does not say why"},
	} {
		root := langfuse.Observation{Metadata: mustMarshal(map[string]string{recordKey: record}), Output: json.RawMessage(output)}
		o, ok := decodeRecord(root, "i", 1)
		if !ok || o.Class != want.Class || *o.Failure != want {
			t.Errorf("%s: %v, %s, %+v, want %+v", output, ok, o.Class, o.Failure, want)
		}
	}
}

// TestUsageDetails: the parts add up to the total, as Langfuse counts them.
func TestUsageDetails(t *testing.T) {
	for want, usage := range map[string]outcome.Usage{
		``:                                  {},
		`{"input":7,"output":0,"total":7}`:  {Input: 7},
		`{"input":7,"output":3,"total":10}`: {Input: 7, Output: 3},
		`{"input":2,"input_cached_tokens":5,"output":1,"output_reasoning_tokens":2,"total":10}`: {Input: 7, Cached: 5, Output: 3, Reasoning: 2},
		`{"input":0,"input_cached_tokens":7,"output":0,"output_reasoning_tokens":3,"total":10}`: {Input: 7, Cached: 7, Output: 3, Reasoning: 3},
	} {
		if got := usageDetails(usage); got != want {
			t.Errorf("%+v: %s, want %s", usage, got, want)
		}
	}
}

// TestScoreFrom_ratio: a score has a ratio if the metadata has two counts.
func TestScoreFrom_ratio(t *testing.T) {
	for metadata, want := range map[string]*outcome.Ratio{
		`{"numerator":3,"denominator":"4"}`:   {Num: 3, Den: 4},
		`{"numerator":3}`:                     nil,
		`{"denominator":4}`:                   nil,
		`{"numerator":1.5,"denominator":4}`:   nil,
		`{"numerator":3,"denominator":-4}`:    nil,
		`{"numerator":3,"denominator":1e300}`: nil,
		`["numerator"]`:                       nil,
	} {
		s, _ := scoreFrom(langfuse.Score{Metadata: json.RawMessage(metadata)})
		if (s.Ratio == nil) != (want == nil) || want != nil && *s.Ratio != *want {
			t.Errorf("%s: %+v, want %+v", metadata, s.Ratio, want)
		}
	}
}

// TestMarkFailed: a failed span has the status of OpenTelemetry, and level and message of Langfuse.
func TestMarkFailed(t *testing.T) {
	var span langfuse.Span
	markFailed(&span, "cut \xff")
	if !span.Failed || span.StatusMessage != "cut \ufffd" || len(span.Attributes) != 2 {
		t.Errorf("%+v", span)
	}
}

// TestJSONField: a value too large for a server is replaced by its size, its hash and its
// beginning, as JSON and in whole characters.
func TestJSONField(t *testing.T) {
	whole := json.RawMessage(`"` + strings.Repeat("a", maxField-2) + `"`)
	if got := jsonField(whole); got != string(whole) {
		t.Errorf("%d bytes became %d", len(whole), len(got))
	}
	large := json.RawMessage(`"` + strings.Repeat("ä", maxField/2) + `"`) // byte 65,536 is the first half of a character
	var got struct {
		Truncated      bool
		Bytes          int
		SHA256, Begins string
	}
	if err := json.Unmarshal([]byte(jsonField(large)), &got); err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(large)
	if !got.Truncated || got.Bytes != len(large) || got.SHA256 != hex.EncodeToString(sum[:]) || got.Begins != `"`+strings.Repeat("ä", 32767) {
		t.Errorf("%d bytes, %s, begins with %d bytes", got.Bytes, got.SHA256, len(got.Begins))
	}
	for raw, want := range map[string]string{`"spoken"`: "spoken", `{"a":1}`: `{"a":1}`, ``: ``, `"\ud800"`: "\uFFFD"} {
		if got := textField(json.RawMessage(raw)); got != want {
			t.Errorf("%s is said as %q, want %q", raw, got, want)
		}
	}
	if got := textField(large); got != jsonField(large) {
		t.Errorf("a large text has %d bytes", len(got))
	}
}
