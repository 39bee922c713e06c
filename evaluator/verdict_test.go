package evaluator

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
)

func TestParseVerdict(t *testing.T) {
	for in, want := range map[string]Verdict{
		`{"score":1,"hits":["a"],"misses":[]}`:                                                               {Score: 1, Hits: []string{"a"}, Misses: []string{}},
		" {\"score\": 0.25, \"hits\": [], \"misses\": [\"b\"], \"reasoning\": \"r\", \"more\": 7}\n":         {Score: 0.25, Misses: []string{"b"}, Hits: []string{}, Reasoning: "r"},
		`{"score":0.5,"assertions":[{"text":"a","passed":true,"evidence":"e"},{"text":"b","passed":false}]}`: {Score: 0.5, Hits: []string{"a"}, Misses: []string{"b"}},
		`{"score":0,"assertions":[],"hits":null}`:                                                            {Hits: []string{}, Misses: []string{}},
		`{"score":1e-3,"hits":[],"misses":[]}`:                                                               {Score: 0.001, Hits: []string{}, Misses: []string{}},
	} {
		got, err := parseVerdict([]byte(in))
		if err != nil || got.Score != want.Score || !slices.Equal(got.Hits, want.Hits) || !slices.Equal(got.Misses, want.Misses) ||
			got.Reasoning != want.Reasoning {
			t.Errorf("%s: %+v, %v", in, got, err)
		}
	}
}

func TestParseVerdict_faults(t *testing.T) {
	for in, want := range map[string]string{
		"": "not_json: that is not one JSON object",
		"\ufeff{\"score\":1,\"hits\":[],\"misses\":[]}": "not_json: that is not one JSON object",
		"score: 1":                            "not_json: that is not one JSON object",
		`[1]`:                                 "not_json: that is not one JSON object",
		`{"score":NaN,"hits":[],"misses":[]}`: "not_json: that is not one JSON object",
		`{"score":-Infinity}`:                 "not_json: that is not one JSON object",
		`{"score":1,"hits":[],"misses":[]}{"score":0}`:    "not_json: that is not one JSON object",
		`{"score":1,"hits":[],"misses":[]} done`:          "not_json: that is not one JSON object",
		`{"score":1,"score":0,"hits":[],"misses":[]}`:     `the key "score" is given twice`,
		`{"score":1.5,"hits":[],"misses":[]}`:             "bad_verdict: score: 1.5 is not from 0 to 1",
		`{"score":-0.1,"hits":[],"misses":[]}`:            "score: -0.1 is not from 0 to 1",
		`{"score":1e999,"hits":[],"misses":[]}`:           "score: expected a number",
		`{"score":"1","hits":[],"misses":[]}`:             `score: expected a number, got "1"`,
		`{"score":1}`:                                     "hits is missing; misses is missing",
		`{"hits":[],"misses":[]}`:                         "score is missing",
		`{"score":null,"hits":[]}`:                        "score is missing; misses is missing",
		`{"score":1,"hits":"a","misses":[null]}`:          "hits: expected a list",
		`{"score":1,"assertions":[{"text":"a"}]}`:         "assertions[0]: text and passed",
		`{"score":1,"assertions":[{"evidence":3}]}`:       "objects with text, passed and perhaps evidence",
		`{"score":1,"assertions":{}}`:                     "assertions: expected a list",
		`{"score":1,"hits":[],"misses":[],"reasoning":3}`: "reasoning: expected a text",
	} {
		_, err := parseVerdict([]byte(in))
		var fault *Fault
		if !errors.As(err, &fault) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s:\n%v\nwant %q", in, err, want)
		}
	}
}

// TestGradeOf checks the thresholds 0.8 and 0.6.
func TestGradeOf(t *testing.T) {
	for score, want := range map[float64]Grade{1: Pass, 0.8: Pass, math.Nextafter(0.8, 0): Borderline, 0.6: Borderline, math.Nextafter(0.6, 0): Fail, 0: Fail} {
		if got := GradeOf(score); got != want {
			t.Errorf("%v is %s, want %s", score, got, want)
		}
	}
}

func TestFindObject(t *testing.T) {
	for in, want := range map[string]string{
		"```json\n{\"score\":1}\n```":            `{"score":1}`,
		`I think {so}: {"a":1} {"score":0} done`: `{"score":0}`,
		"no object":                              "no object",
		// A draft in thoughts does not count; of two objects outside them, neither does.
		`<think>Or {"score":0}?</think>{"score":1}`: `{"score":1}`,
		`Or {"score":0}?</think> {"score":1}`:       `{"score":1}`,
		`<think>{"score":0}`:                        `<think>{"score":0}`,
		`{"score":0.2} {"score":0.9}`:               `{"score":0.2} {"score":0.9}`,
		`{"score":1,"best":{"score":1}} {"a":1}`:    `{"score":1,"best":{"score":1}}`,
		`{"score":`:                                 `{"score":`,
	} {
		if got := string(findObject(in)); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

func FuzzParseVerdict(f *testing.F) {
	f.Add([]byte(`{"score":1,"hits":["a"],"misses":[]}`))
	f.Add([]byte(`{"score":NaN}`))
	f.Add([]byte(`{"score":0.5,"assertions":[{"text":"a","passed":true}]}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		v, err := parseVerdict(raw)
		var fault *Fault
		if err != nil && !errors.As(err, &fault) {
			t.Fatalf("%v is not a fault", err)
		}
		if err == nil && !(v.Score >= 0 && v.Score <= 1) {
			t.Fatalf("accepted %+v", v)
		}
		findObject(string(raw))
	})
}
