package outcome

import (
	"encoding/json"
	"testing"
	"time"

	"pgregory.net/rapid"

	"extraction-experiment/internal/testkit/suite"
)

// TestAppendJSON_everyField checks that AppendJSON writes every field: one that it does not know
// would be lost from run files and exports.
func TestAppendJSON_everyField(t *testing.T) {
	o := suite.Fill[Outcome]()
	want, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := o.AppendJSON(nil); err != nil || string(got) != string(want) {
		t.Errorf("got %s (%v), want %s", got, err, want)
	}
}

// TestAppendJSON checks that AppendJSON writes the same as encoding/json for any outcome, and
// fails for the same.
func TestAppendJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"", "a\"\\\b\f\n\r\t\x00\x7f<>&", "\u2028\u2029é\xff�"}))
		raw := rapid.SampledFrom([]json.RawMessage{nil, json.RawMessage(`{"a":[1,"x"]}`), json.RawMessage("null")})
		float := rapid.OneOf(rapid.Float64(), rapid.SampledFrom([]float64{0, 1, 1e-7, 1e-6, 1e21, 123456789, 0.1}))
		optional := rapid.Ptr(float, true)
		instant := rapid.Custom(func(t *rapid.T) time.Time {
			return time.Unix(rapid.Int64Range(-1e9, 253402300800).Draw(t, "seconds"), rapid.Int64Range(0, 999_999_999).Draw(t, "ns")).UTC()
		})
		number := rapid.SampledFrom([]int64{0, 1, -5, 1 << 60})
		usage := rapid.SampledFrom([]Usage{{}, {Input: 3, Output: 4}, {Cached: 1, Reasoning: 2}})
		counts := rapid.SampledFrom([]Counts{nil, {}, {{"a", -2}, {"b", 1}}})
		score := rapid.Custom(func(t *rapid.T) Score {
			return Score{Name: text.Draw(t, "name"), Value: optional.Draw(t, "value"), Boolean: rapid.Bool().Draw(t, "boolean"),
				Ratio:   rapid.SampledFrom([]*Ratio{nil, {Num: 1, Den: 3}}).Draw(t, "ratio"),
				Vacuous: rapid.Bool().Draw(t, "vacuous"), Weight: optional.Draw(t, "weight"), Reason: text.Draw(t, "reason"),
				Comment: text.Draw(t, "comment"), Counts: counts.Draw(t, "counts")}
		})
		call := rapid.Custom(func(t *rapid.T) Call {
			return Call{Name: text.Draw(t, "name"), Kind: text.Draw(t, "kind"), Provider: text.Draw(t, "provider"), Model: text.Draw(t, "model"),
				Parameters: raw.Draw(t, "parameters"), Input: raw.Draw(t, "input"), Output: raw.Draw(t, "output"),
				Usage: usage.Draw(t, "usage"), Assumed: usage.Draw(t, "assumed"), CostUSD: optional.Draw(t, "cost"),
				Finish: text.Draw(t, "finish"), Attempts: int(number.Draw(t, "attempts")), Cached: rapid.Bool().Draw(t, "cached"),
				Started: instant.Draw(t, "started"), Ended: instant.Draw(t, "ended"), Waited: time.Duration(number.Draw(t, "waited")),
				Error: text.Draw(t, "error"), Warnings: rapid.SliceOfN(text, 0, 2).Draw(t, "warnings")}
		})
		o := Outcome{Item: text.Draw(t, "item"), Seq: number.Draw(t, "seq"), Trial: 1, Attempt: 2, Class: Class(text.Draw(t, "class")),
			Started: instant.Draw(t, "started"), Ended: instant.Draw(t, "ended"), Latency: time.Duration(number.Draw(t, "latency")),
			Usage: usage.Draw(t, "usage"), CostUSD: optional.Draw(t, "cost"),
			Scores: rapid.OneOf(rapid.Just([]Score(nil)), rapid.SliceOfN(score, 0, 3)).Draw(t, "scores"),
			Detail: Detail{Output: raw.Draw(t, "output"), Calls: rapid.SliceOfN(call, 0, 2).Draw(t, "calls"),
				Failure:  rapid.SampledFrom([]*Failure{nil, {Class: Timeout, Message: "<late>"}}).Draw(t, "failure"),
				Warnings: rapid.SliceOfN(text, 0, 2).Draw(t, "warnings"), Worker: text.Draw(t, "worker"),
				NothingExpected: rapid.Bool().Draw(t, "nothing"), Assumed: usage.Draw(t, "assumed"), FromCache: int(number.Draw(t, "cached")),
				Judging:     rapid.SampledFrom([]*Judging{nil, {}}).Draw(t, "judging"),
				Causes:      rapid.SampledFrom([][]Cause{nil, {{What: "entity", Name: "missed", Count: 2}}}).Draw(t, "causes"),
				Groups:      rapid.SampledFrom([][]Group{nil, {{Kind: "entity_type", Name: "<P>", Expected: 1}, {}}}).Draw(t, "groups"),
				Explanation: raw.Draw(t, "explanation"), Counts: counts.Draw(t, "counts")}}
		want, wantErr := json.Marshal(o)
		got, err := o.AppendJSON([]byte("before"))
		if (err != nil) != (wantErr != nil) || err == nil && string(got) != "before"+string(want) {
			t.Fatalf("got %s (%v), want %s (%v)", got, err, want, wantErr)
		}
	})
}
