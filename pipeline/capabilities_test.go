package pipeline_test

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"extraction-experiment/internal/cli"
	"extraction-experiment/pipeline"
)

func TestCapabilities_Check(t *testing.T) {
	user := []pipeline.Message{{Role: "user", Content: "hello"}}
	schema := &pipeline.Schema{Name: "extraction", JSON: json.RawMessage(`{"type":"object"}`)}
	all := pipeline.Parameters{Temperature: new(0.0), TopP: new(0.0), MaxTokens: new(1), Seed: new(int64(-1))}
	for name, c := range map[string]struct {
		can  pipeline.Capabilities
		req  pipeline.Request
		want []string // one part of each problem, in order
	}{
		"everything at its lower bound":  {req: pipeline.Request{Messages: user, Parameters: all, Schema: schema}},
		"upper bound of top_p":           {req: pipeline.Request{Messages: user, Parameters: pipeline.Parameters{TopP: new(1.0)}}},
		"empty content is a message":     {req: pipeline.Request{Messages: []pipeline.Message{{Role: "assistant"}}}},
		"nothing asked, nothing refused": {can: pipeline.Capabilities{NoTemperature: true, NoTopP: true, NoSeed: true}, req: pipeline.Request{Messages: user}},
		"all that the model lacks": {
			can:  pipeline.Capabilities{NoTemperature: true, NoTopP: true, NoSeed: true},
			req:  pipeline.Request{Messages: user, Parameters: all, Schema: schema},
			want: []string{"no temperature", "no top_p", "no seed"},
		},
		"the prompt states the schema": {can: pipeline.Capabilities{NoSchema: true}, req: pipeline.Request{Messages: user, Schema: schema}},
		"numbers that are none": {
			req:  pipeline.Request{Messages: user, Parameters: pipeline.Parameters{Temperature: new(math.NaN()), TopP: new(math.NaN())}},
			want: []string{"temperature is NaN", "top_p is NaN"},
		},
		"out of range": {
			req:  pipeline.Request{Messages: user, Parameters: pipeline.Parameters{Temperature: new(-0.1), TopP: new(1.1), MaxTokens: new(0)}},
			want: []string{"temperature is -0.1", "top_p is 1.1", "max_tokens is 0"},
		},
		"infinite":     {req: pipeline.Request{Messages: user, Parameters: pipeline.Parameters{Temperature: new(math.Inf(1))}}, want: []string{"temperature is +Inf"}},
		"no messages":  {want: []string{"no message"}},
		"unknown role": {req: pipeline.Request{Messages: []pipeline.Message{{Role: "tool"}}}, want: []string{`message 1 has the role "tool"`}},
		"bad schema": {
			req:  pipeline.Request{Messages: user, Schema: &pipeline.Schema{Name: "a b", JSON: json.RawMessage(`[]`)}},
			want: []string{`name "a b"`, "not a JSON object"},
		},
		"cut schema": {req: pipeline.Request{Messages: user, Schema: &pipeline.Schema{Name: "a", JSON: json.RawMessage(`{"a"`)}}, want: []string{"not a JSON object"}},
	} {
		t.Run(name, func(t *testing.T) {
			err := c.can.Check(c.req)
			if len(c.want) == 0 {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			problems := strings.Split(fmt.Sprint(err), "; ")
			if cli.ExitCode(err) != 64 || len(problems) != len(c.want) {
				t.Fatalf("got %v", err)
			}
			for i, want := range c.want {
				if !strings.Contains(problems[i], want) {
					t.Errorf("problem %d is %q, want %q in it", i, problems[i], want)
				}
			}
		})
	}
}

// TestAppendMessages checks that messages are written as encoding/json writes them.
func TestAppendMessages(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		messages := []pipeline.Message{}
		for range rapid.IntRange(0, 3).Draw(rt, "n") {
			messages = append(messages, pipeline.Message{rapid.SampledFrom([]string{"system", "user", "\xff"}).Draw(rt, "role"), rapid.String().Draw(rt, "content")})
		}
		want, err := json.Marshal(messages)
		if got := pipeline.AppendMessages([]byte(nil), messages); err != nil || string(got) != string(want) {
			rt.Errorf("%s is not %s, %v", got, want, err)
		}
	})
}
