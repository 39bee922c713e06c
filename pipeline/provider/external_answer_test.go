package provider

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"extraction-experiment/outcome"
	"extraction-experiment/pipeline"
)

var testSpan = outcome.Call{Name: "external-extract", Kind: "span", Provider: ExternalName, Attempts: 1, Started: clock, Ended: clock.Add(time.Minute)}

// parseAnswer reads the answer of a pipeline, with its extraction.
func parseAnswer(text string) *externalAnswer {
	a := readReport([]byte(text), testSpan)
	if a.err == nil {
		a.readExtraction()
	}
	return a
}

func TestReadAnswer_everyFieldOfACall(t *testing.T) {
	a := parseAnswer(`{"entities":[],"warnings":["w"],"model":"top","calls":[
		{"name":"second","model":"m2","started":"2026-01-02T03:04:20Z","ended":"2026-01-02T03:04:21.5+00:00","usage":{"input":1,"output":2.0}},
		{"name":"first","kind":"span","provider":"openai","model":"m","input":[{"role":"user"}],"output":"text","parameters":{"temperature":0},
		 "usage":{"input":3,"output":4,"cached":1,"reasoning":2},"cost_usd":0.5,"finish_reason":"stop","error":"e","unknown":1}]}`)
	if a.err != nil {
		t.Fatal(a.err)
	}
	half := 0.5
	want := []outcome.Call{
		{Name: "external-extract", Kind: "span", Provider: ExternalName, Model: "top", Attempts: 1, Started: clock, Ended: clock.Add(time.Minute), Warnings: []string{"w"}},
		{Name: "first", Kind: "generation", Provider: "openai", Model: "m", Attempts: 1, Input: json.RawMessage(`[{"role":"user"}]`),
			Output: json.RawMessage(`"text"`), Parameters: json.RawMessage(`{"temperature":0}`), Usage: outcome.Usage{Input: 3, Output: 4, Cached: 1, Reasoning: 2},
			CostUSD: &half, Finish: "stop", Error: "e", Started: clock, Ended: clock.Add(time.Minute)},
		{Name: "second", Kind: "generation", Provider: ExternalName, Model: "m2", Attempts: 1, Usage: outcome.Usage{Input: 1, Output: 2},
			Started: clock.Add(15 * time.Second), Ended: clock.Add(16500 * time.Millisecond)},
	}
	if diff := cmp.Diff(want, a.allCalls()); diff != "" {
		t.Error(diff)
	}
	if !slices.Equal(a.warnings, []string{"w"}) {
		t.Errorf("warnings %q", a.warnings)
	}
}

// TestReadAnswer_usageAndCostCountOnce checks the sums of usage and cost, added up as the runner
// does: the usage of all calls, and the cost of all generations, which is unknown if that of one
// is.
func TestReadAnswer_usageAndCostCountOnce(t *testing.T) {
	tests := map[string]struct {
		top   string
		input int64
		cost  string
	}{
		"nothing said":                   {``, 0, "unknown"},
		"no model called":                {`"calls":[]`, 0, "0"},
		"top only":                       {`"usage":{"input":5,"output":1},"cost_usd":0.5`, 5, "0.5"},
		"cost of zero":                   {`"cost_usd":0`, 0, "0"},
		"calls only":                     {`"calls":[{"usage":{"input":2},"cost_usd":0.25},{"usage":{"input":3},"cost_usd":0.25}]`, 5, "0.5"},
		"both":                           {`"usage":{"input":5},"cost_usd":0.5,"calls":[{"usage":{"input":5},"cost_usd":0.5}]`, 5, "0.5"},
		"the cost of a span":             {`"cost_usd":0.7,"calls":[{"kind":"span","usage":{"input":10},"cost_usd":0.5}]`, 10, "0.5"},
		"calls without cost":             {`"calls":[{"usage":{"input":2}}]`, 2, "unknown"},
		"cost on top, usage in calls":    {`"cost_usd":0.5,"calls":[{"usage":{"input":2}},{"usage":{"input":3}}]`, 5, "0.5"},
		"usage on top, cost in calls":    {`"usage":{"input":5},"calls":[{"cost_usd":0.5}]`, 5, "0.5"},
		"usage on top, bare calls":       {`"usage":{"input":5},"calls":[{"name":"a"}]`, 5, "unknown"},
		"an unreadable call":             {`"calls":[{"cost_usd":0.5},7]`, 0, "unknown"},
		"calls that are not a list":      {`"calls":{"a":1},"cost_usd":0.5`, 0, "0.5"},
		"negative cost":                  {`"cost_usd":-1`, 0, "unknown"},
		"cost as text":                   {`"cost_usd":"0.5"`, 0, "unknown"},
		"broken, negative, absurd usage": {`"usage":{"input":1.5,"output":-1,"cached":1e300,"reasoning":"x"}`, 0, "unknown"},
	}
	for name, test := range tests {
		for _, rest := range []string{`"entities":[]`, `"error":"e"`} {
			a := parseAnswer("{" + strings.Trim(test.top+","+rest, ",") + "}")
			var input int64
			cost, known := 0.0, true
			for _, c := range a.allCalls() {
				input += c.Usage.Input
				if c.Kind == "generation" && c.CostUSD == nil {
					known = false
				} else if c.Kind == "generation" {
					cost += *c.CostUSD
				}
			}
			got := "unknown"
			if known {
				got = fmt.Sprint(cost)
			}
			if input != test.input || got != test.cost {
				t.Errorf("%s, %s: input %d, cost %s; want %d, %s", name, rest, input, got, test.input, test.cost)
			}
		}
	}
}

func TestReadAnswer_warnings(t *testing.T) {
	tests := map[string]struct{ fields, warning string }{
		"usage of other names": {`"usage":{"prompt_tokens":1}`, "usage: it has neither input nor output"},
		"usage of a kind":      {`"usage":7`, "usage: unexpected number"},
		"fraction of a token":  {`"usage":{"input":1.5}`, "usage.input: expected a whole number"},
		"call of a kind":       {`"calls":[null]`, "calls[0]: expected an object"},
		"time":                 {`"calls":[{"started":"today"}]`, "calls[0].started: expected a time"},
		"time of long ago":     {`"calls":[{"started":"1600-01-01T00:00:00Z"}]`, "calls[0].started: expected a time"},
		"time too late":        {`"calls":[{"started":"9999-12-31T23:00:00-05:00"}]`, "calls[0].started: expected a time"},
		"order of times":       {`"calls":[{"started":"2026-01-02T00:00:02Z","ended":"2026-01-02T00:00:01Z"}]`, "calls[0]: it ends before it begins"},
		"parameters":           {`"calls":[{"parameters":[1]}]`, "calls[0].parameters: unexpected array"},
		"name":                 {`"calls":[{"name":{}}]`, "calls[0].name: unexpected object"},
		"warnings":             {`"warnings":"w"`, "warnings: unexpected string"},
		"too many calls":       {`"calls":[` + strings.Repeat(`{},`, 1000) + `{}]`, "the first 1000 of 1001 are kept"},
		"a key twice":          {`"entities":[]`, "entities is given twice; the last counts"},
		"unresolved id":        {`"relationships":[{"foo":1}]`, `relationships[0]: unknown keys`},
	}
	for name, test := range tests {
		a := parseAnswer(`{"entities":[],` + test.fields + `}`)
		if a.err != nil || !strings.Contains(strings.Join(a.warnings, "\n"), test.warning) {
			t.Errorf("%s: %v, warnings %q", name, a.err, a.warnings)
		}
	}
}

// TestReadAnswer_parts checks that cached is no more than input, and reasoning no more than output.
func TestReadAnswer_parts(t *testing.T) {
	for fields, want := range map[string]outcome.Usage{
		`"input":10,"output":5,"cached":10,"reasoning":5`:  {Input: 10, Output: 5, Cached: 10, Reasoning: 5},
		`"input":10,"output":5,"cached":50,"reasoning":5`:  {Input: 10, Output: 5, Cached: 10, Reasoning: 5},
		`"input":10,"output":5,"cached":10,"reasoning":20`: {Input: 10, Output: 5, Cached: 10, Reasoning: 5},
	} {
		a := parseAnswer(`{"entities":[],"usage":{` + fields + `}}`)
		odd := strings.Contains(fields, "50") || strings.Contains(fields, "20")
		warned := strings.Contains(strings.Join(a.warnings, "\n"), "usage: cached is a part of input")
		if a.calls[0].Usage != want || warned != odd {
			t.Errorf("%s: %+v, warnings %q", fields, a.calls[0].Usage, a.warnings)
		}
	}
}

func TestReadAnswer_warningsAreBounded(t *testing.T) {
	a := parseAnswer(`{"entities":[],"warnings":[` + strings.Repeat(`"`+strings.Repeat("é", 1000)+`",`, 999) + `""]}`)
	if n := len(a.warnings); n > maxWarnings+1 || a.warnings[n-1] != "there are more warnings" {
		t.Errorf("%d warnings, the last is %q", n, a.warnings[n-1])
	}
	if n := len(a.warnings[0]); n > maxWarning+len("�…") {
		t.Errorf("a warning of %d bytes", n)
	}
}

// FuzzReadAnswer checks that any answer of a pipeline becomes an extraction or a failure with a
// class, with calls that can be marshalled.
func FuzzReadAnswer(f *testing.F) {
	for _, seed := range []string{
		`{"entities":[{"id":"e1","name":"a","type":"T"}],"relationships":[{"source_ref":"e1","target":"b","type":"r"}]}`,
		`{"error":{"class":"timeout","message":"m"},"calls":[{"usage":{"input":1,"output":2},"cost_usd":1e-9,"input":[],"started":"2026-01-02T00:00:02Z"}]}`,
		`{"usage":{"input":-1},"cost_usd":1e999,"warnings":[1],"calls":[{},1,null]}`,
		`{"entities":null,"relationships":[],"model":"` + "\xff" + `"}`, `[]`, `{`, ``, `{"ERROR":"x","entities":[]}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		a := parseAnswer(text)
		calls := a.allCalls()
		if calls[0].Kind != "span" {
			t.Fatalf("the first call is %+v", calls[0])
		}
		if _, err := json.Marshal(calls); err != nil {
			t.Fatalf("the calls cannot be written: %v", err)
		}
		for _, c := range calls {
			if c.Ended.Before(c.Started) || c.Usage.Input < c.Usage.Cached || c.CostUSD != nil && *c.CostUSD < 0 {
				t.Fatalf("impossible call %+v", c)
			}
		}
		if a.err == nil {
			if a.extraction.Entities == nil || a.extraction.Relationships == nil || len(a.extraction.Entities) > 50 {
				t.Fatalf("found %+v", a.extraction)
			}
			return
		}
		var model *pipeline.ModelError
		if !errors.As(a.err, &model) || model.Failure.Class == outcome.Internal || model.Failure.Message == "" {
			t.Fatalf("failure %+v", model)
		}
	})
}
