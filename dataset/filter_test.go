package dataset

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestFilter_Match(t *testing.T) {
	item := Item{
		ID:       "a-1",
		Input:    json.RawMessage(`{"document_type":"contract"}`),
		Expected: json.RawMessage(`{"entities":[]}`),
		Metadata: json.RawMessage(`{"difficulty":"hard","n":1.50,"yes":true,"none":null,"tags":["x",2],"a":{"b":"deep","c.d":"dotted"},"a.b":"flat","o":{},"di":{"fficulty":"easy"}}`),
	}
	tests := map[string]bool{
		"metadata.difficulty=hard":        true,
		" metadata.difficulty = hard ":    true,
		"metadata.difficulty=Hard":        false,
		"metadata.difficulty!=hard":       false,
		"metadata.difficulty!=easy":       true, // parts of keys are none
		"metadata.absent=":                false,
		"metadata.absent!=x":              true,
		"metadata.n=1.5":                  true,
		"metadata.n=1.50":                 true,
		"metadata.n=15e-1":                true,
		`metadata.n="1.5"`:                false,
		"metadata.n=1.51":                 false,
		"metadata.yes=true":               true,
		"metadata.yes=1":                  false,
		"metadata.none=null":              true,
		"metadata.tags=x":                 true,
		"metadata.tags=2":                 true,
		"metadata.tags=y":                 false,
		"metadata.a.b=deep":               true,
		"metadata.a.b=flat":               true,
		"metadata.a.c.d=dotted":           true,
		"metadata.a.c=dotted":             false,
		"metadata.o={}":                   false,
		"metadata.difficulty.more=hard":   false,
		"input.document_type=contract":    true,
		"expected.entities=x":             false,
		"expected_output.entities!=x":     true,
		"id=a-1":                          true,
		"id=a-2":                          false,
		"id!=a-1":                         false,
		"id!=a-2":                         true,
		"metadata.difficulty=hard|id=a-1": true,
		"metadata.difficulty=easy|id=a-1": false,
		"id=a-1|id=a-2":                   true,
		"":                                true,
	}
	for text, want := range tests {
		t.Run(text, func(t *testing.T) {
			var expressions []string
			if text != "" {
				expressions = strings.Split(text, "|")
			}
			f, err := ParseFilter(expressions...)
			noError(t, err)
			if got := f.Match(item); got != want {
				t.Errorf("got %t", got)
			}
			if f.Match(Item{ID: "a-1", Metadata: json.RawMessage(`{`)}) && strings.Contains(text, "=") && !strings.Contains(text, "!=") && !strings.Contains(text, "id=a-1") {
				t.Error("metadata that is not JSON matched")
			}
		})
	}
}

func TestParseFilter_problems(t *testing.T) {
	_, err := ParseFilter("difficulty=hard", "metadata=x", "metadata.", "=x", "id=", "status.x=1")
	if err == nil || strings.Count(err.Error(), "\n") != 5 {
		t.Fatalf("want six problems, got %v", err)
	}
	if code := err.(interface{ ExitCode() int }).ExitCode(); code != 64 {
		t.Errorf("exit code %d", code)
	}
}

func TestFilter_String(t *testing.T) {
	many := make([]string, 21)
	for i := range many {
		many[i] = fmt.Sprint(i)
	}
	tests := map[string]struct {
		expressions, ids []string
		limit            int
		want             string
	}{
		"all":       {nil, nil, 0, ""},
		"limit":     {nil, nil, 3, "limit 3"},
		"sorted":    {[]string{"metadata.b!=2", "metadata.a=1", "id=z", "metadata.a=1"}, []string{"y", "z"}, 5, "metadata.a=1 and metadata.b!=2 and id in (y, z) limit 5"},
		"many ids":  {nil, many, 0, "21 ids (sha256 " + sha("0\n1\n10\n11\n12\n13\n14\n15\n16\n17\n18\n19\n2\n20\n3\n4\n5\n6\n7\n8\n9")[:16] + ")"},
		"not an id": {[]string{"id!=a"}, nil, 0, "id!=a"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			f, err := ParseFilter(tt.expressions...)
			noError(t, err)
			f = f.WithIDs(tt.ids...)
			f.Limit = tt.limit
			if got := f.String(); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestSelection(t *testing.T) {
	text := ""
	for i := range 10 {
		text += fmt.Sprintf(`{"id":"%d","input":%d,"metadata":{"odd":%t}}`+"\n", i, i, i%2 == 1)
		if i == 2 {
			text += "oops\n"
		}
	}
	tests := map[string]struct {
		expressions []string
		limit       int
		want        string
		missing     []string
	}{
		"all":     {nil, 0, "0 1 2 ! 3 4 5 6 7 8 9", nil},
		"odd":     {[]string{"metadata.odd=true"}, 0, "1 ! 3 5 7 9", nil},
		"limit":   {[]string{"metadata.odd=true"}, 2, "1 ! 3", nil},
		"ids":     {[]string{"id=7", "id=1", "id=x"}, 0, "1 ! 7", []string{"x"}},
		"all ids": {[]string{"id=1", "id=0"}, 0, "0 1", nil},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			f, err := ParseFilter(tt.expressions...)
			noError(t, err)
			f.Limit = tt.limit
			s := f.Start()
			var got []string
			for located, err := range Read(strings.NewReader(text), JSONL, "f") {
				if err != nil {
					got = append(got, "!")
				} else if s.Take(located.Item) {
					got = append(got, located.ID)
				}
				if s.Full() {
					break
				}
			}
			if s.Full() && s.Take(Item{ID: "1", Metadata: []byte(`{"odd":true}`)}) {
				t.Error("takes more than all")
			}
			if strings.Join(got, " ") != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
			if !slices.Equal(s.Missing(), tt.missing) {
				t.Errorf("missing %q, want %q", s.Missing(), tt.missing)
			}
		})
	}
}
