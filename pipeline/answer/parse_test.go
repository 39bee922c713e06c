package answer

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"extraction-experiment/extraction"
	"extraction-experiment/internal/testkit/suite"
	"extraction-experiment/outcome"
)

// summary returns entities as "name:type" and relationships as "source-type-target".
func summary(e extraction.Extraction) string {
	var b strings.Builder
	for _, entity := range e.Entities {
		fmt.Fprintf(&b, "%s:%s ", entity.Name, entity.Type)
	}
	for _, r := range e.Relationships {
		fmt.Fprintf(&b, "%s-%s-%s ", r.Source, r.Type, r.Target)
	}
	return strings.TrimSpace(b.String())
}

const validAnswer = `{"entities":[{"name":"Ann","type":"P"},{"name":"Bob","type":"P"}],"relationships":[{"source_name":"Ann","target_name":"Bob","relationship_type":"knows"}]}`
const validSummary = "Ann:P Bob:P Ann-knows-Bob"

func TestParse(t *testing.T) {
	tests := map[string]struct {
		text, want string
		repaired   bool
	}{
		"as asked for":           {validAnswer, validSummary, false},
		"pretty":                 {strings.ReplaceAll(validAnswer, ",", " ,\n\t"), validSummary, false},
		"a fence":                {"```json\n" + validAnswer + "\n```\n", validSummary, false},
		"a fence of no language": {"```\n" + validAnswer + "```", validSummary, false},
		"an open fence":          {"```json\n" + validAnswer, validSummary, false},
		"text around":            {"Sure! Here {it} is [1]: " + validAnswer + " Anything else?", validSummary, false},
		"a byte order mark":      {"\ufeff" + validAnswer, validSummary, false},
		"thoughts, only the end": {"Maybe {\"entities\":[{\"name\":\"Z\"}],\"relationships\":[]}?\n</think>\n" + validAnswer, validSummary, false},
		"a tag in a text":        {strings.Replace(validAnswer, "Ann", "</think>Ann", 1), strings.Replace(validSummary, "Ann", "</think>Ann", 1), false},
		"thinking":               {"\n<thinking>maybe {\"entities\":[{\"name\":\"Z\"}]}</thinking>" + validAnswer, validSummary, false},
		"thoughts":               {"<think>maybe {\"entities\":[{\"name\":\"Z\"}]}</think>" + validAnswer, validSummary, false},
		"another object first":   {`{"plan":["read"]} ` + validAnswer, validSummary, false},
		"the format shown first": {`As {"entities": [...]}: ` + validAnswer, validSummary, false},
		"a schema echoed first":  {`{"type":"object","properties":{"entities":{"type":"array"}}} ` + validAnswer, validSummary, false},
		"a stray bracket first":  {`["tis: ` + validAnswer, validSummary, false},
		"wrapped":                {`{"result":{"data":` + validAnswer + `},"n":1}`, validSummary, false},
		"in a list":              {"[" + validAnswer + "]", validSummary, false},
		"entities alone":         {`[{"name":"Ann","type":"P"}]`, "Ann:P", false},
		"relationships alone":    {`[{"source":"A","target":"B","type":"r"}]`, "A-r-B", false},
		"only one list":          {`{"entities":[]}`, "", false},
		"null lists":             {`{"entities":null,"relationships":null}`, "", false},
		"trailing commas":        {`{"entities":[{"name":"A","type":"P",},],}`, "A:P", true},
		"doubled commas":         {`{,"entities":[,{"name":"A"},,{"name":"B"}]}`, "A: B:", true},
		"comments":               {"{// x\n\"entities\":/* {} */[{\"name\":\"A\" // y\n}]}", "A:", true},
		"single quotes":          {`{'entities':[{'name':'Ann "A"','type':'P'}]}`, `Ann "A":P`, true},
		"apostrophes":            {`{'entities':[{'name':'Ann O'Neil'}]}`, `Ann O'Neil:`, true},
		"an escaped apostrophe":  {`{"entities":[{"name":"O\'Neil"}]}`, `O'Neil:`, true},
		"keys in other cases":    {`{"Entities":[{"Name":"A","TYPE":"P"}],"RELATIONSHIPS":[{"sourceName":"A","Target-Name":"A","RelationshipType":"r"}]}`, "A:P A-r-A", true},
		"near names of keys":     {`{"relations":[{"source":"A","target":"B","relation_type":"r"}],"entities":[{"entity_name":"A","entity_type":"P"}]}`, "A:P A-r-B", true},
		"both spellings":         {`{"entities":[{"name":"A","Name":"B"}]}`, "A:", false},
		"both, the other way":    {`{"entities":[{"Name":"B","name":"A"}]}`, "A:", true},
		"properties keep theirs": {`{"entities":[{"name":"A","properties":{"Name":"x","Type":true}}]}`, "A:", false},
		"Python":                 {`{"entities":[{"name":"A","type":None,"properties":{"a":True,"b":False,"c":nan}}]}`, "A:", true},
		"infinity":               {`{"entities":[{"name":"A","properties":{"a":NaN,"b":-Infinity}}]}`, "A:", true},
		"a raw line break":       {"{\"entities\":[{\"name\":\"Ann\nLee\"}]}", "Ann\nLee:", true},
		"a backslash":            {`{"entities":[{"name":"\alpha \u12"}]}`, `\alpha \u12:`, true},
		"no-break spaces":        {"{\u00a0\"entities\"\u200b:\u2003[\ufeff]}", "", true},
		"not UTF-8":              {"{\"entities\":[{\"name\":\"A\xff\"}]}", "A\ufffd:", false},
		"references":             {`{"relationships":[{"source_ref":"e1","target":"B","type":"r"}],"entities":[{"temp_id":"e1","name":"A"}]}`, "A: A-r-B", false},
		"braces in texts":        {`{"entities":[{"name":"{\"entities\":[]} [x] // y"}]}`, `{"entities":[]} [x] // y:`, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := Parse(tt.text)
			if err != nil {
				t.Fatal(err)
			}
			if got.Truncated || summary(got.Extraction) != tt.want {
				t.Errorf("got %q (truncated %v), want %q", summary(got.Extraction), got.Truncated, tt.want)
			}
			if repaired := strings.Contains(strings.Join(got.Warnings, "|"), "was repaired"); repaired != tt.repaired {
				t.Errorf("repaired %v, want %v", repaired, tt.repaired)
			}
		})
	}
}

func TestParse_truncated(t *testing.T) {
	tests := map[string]struct{ text, want string }{
		"in a name":                 {validAnswer[:strings.Index(validAnswer, "Bob")+2], "Ann:P"},
		"behind an entity":          {validAnswer[:strings.Index(validAnswer, `,{"name":"Bob"`)], "Ann:P"},
		"behind a comma":            {validAnswer[:strings.Index(validAnswer, `{"name":"Bob"`)], "Ann:P"},
		"in the second list":        {validAnswer[:strings.Index(validAnswer, "knows")], "Ann:P Bob:P"},
		"without the last brace":    {validAnswer[:len(validAnswer)-1], validSummary},
		"entities alone":            {`[{"name":"Ann","type":"P"},{"name":"B`, "Ann:P"},
		"wrapped":                   {`{"result":{"entities":[{"name":"Ann","type":"P"},{"na`, "Ann:P"},
		"in a list":                 {`[{"entities":[{"name":"Ann","type":"P"},{"na`, "Ann:P"},
		"in a comment":              {`{"entities":[{"name":"Ann","type":"P"} /* and`, "Ann:P"},
		"in an escape":              {`{"entities":[{"name":"Ann","type":"P"},{"name":"\u00`, "Ann:P"},
		"in a fence":                {"```json\n" + `{"entities":[{"name":"Ann","type":"P"},` + "\n", "Ann:P"},
		"in the middle of a number": {`{"entities":[{"name":"Ann","type":"P"},{"name":19`, "Ann:P"},
		"an empty answer":           {`{"entities":[],"relationships":[]`, ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := Parse(tt.text)
			if err != nil {
				t.Fatal(err)
			}
			if !got.Truncated || summary(got.Extraction) != tt.want {
				t.Errorf("got %q (truncated %v), want %q", summary(got.Extraction), got.Truncated, tt.want)
			}
			if len(got.Warnings) == 0 || !strings.Contains(got.Warnings[len(got.Warnings)-1], "was cut off") {
				t.Errorf("warnings %q do not say it", got.Warnings)
			}
		})
	}
}

func TestParse_problems(t *testing.T) {
	many := `{"entities":[` + strings.Repeat(`{},`, maxListed) + `{}]}`
	tests := map[string]struct {
		text string
		want []string
	}{
		"nothing":                  {"", []string{"the answer is empty"}},
		"space":                    {" \n\ufeff", []string{"the answer is empty"}},
		"a refusal":                {"I'm sorry, I can't help.", []string{`spelled so (it begins "I'm sorry, I can't help.")`}},
		"thoughts without an end":  {"<think>" + validAnswer, []string{"no JSON object"}},
		"another language":         {`{"entidades":[{"nombre":"A"}],"relaciones":[]}`, []string{"no JSON object with the lists", "in English"}},
		"another language alone":   {`[{"nombre":"A"}]`, []string{"no JSON object with the lists"}},
		"fields in another":        {`{"entities":[{"nombre":"A","tipo":"P"}]}`, []string{`entities[0] has the fields "nombre", "tipo": its field names must be "name" and "type"`}},
		"half in another":          {`{"relationships":[{"source":"A","ziel":"B","type":"r"}]}`, []string{`relationships[0] has the fields "ziel"`, `"target_name"`}},
		"one list in another":      {`{"entities":[{"name":"A"}],"relaciones":[{"origen":"A"}]}`, []string{`a list under the key "relaciones"`}},
		"a mark before the key":    {`{@"entities":[{"name":"A"}],"relationships":[{"source":"A","target":"A","type":"r"}]}`, []string{"line 1, column 2: expected a key"}},
		"a list of texts":          {`{"entities":["Ann"]}`, []string{"entities[0]: expected an object, got a string"}},
		"no list":                  {`{"entities":"none"}`, []string{"entities: expected a list, got a string"}},
		"a name of another kind":   {`{"entities":[{"name":["x"]},{"name":{}}]}`, []string{"entities[0].name: expected a string, got a list", "entities[1].name"}},
		"broken in the middle":     {"{\"entities\": [\n  {\"name\": \"Ann\" \"type\": \"P\"}]}", []string{`line 2, column 18: expected a comma or }, found '"', near`}},
		"broken in the second":     {`{"entities":[{"name":"A"}],"relationships":[{"source":"A" ; }]}`, []string{"line 1, column 59: expected a comma or }, found ';'"}},
		"broken in the first":      {`{"entities":[{"name":A}],"relationships":[{"source":"A","target":"B","type":"r"}]}`, []string{`expected a value, found "A": write texts in double quotes`}},
		"inner quotes":             {`{"entities":[{"name":"the "big" one"}]}`, []string{"line 1, column 28: expected a comma or }, found 'b'"}},
		"no colon":                 {`{"entities":[{"name" "A"}]}`, []string{"line 1, column 22: expected a colon behind the key, found '\"'"}},
		"no target":                {`{"relationships":[{"source":"A","type":"r","nach":"B"}]}`, []string{`relationships[0] has the fields "nach"`}},
		"no type":                  {`{"relationships":[{"source":"A","target":"B","art":"r"}]}`, []string{`relationships[0] has the fields "art"`}},
		"many in another language": {`{"entities":[` + strings.Repeat(`{"nombre":"A"},`, 50) + `{}]}`, []string{"entities[0] has the fields", "entities[4] has the fields"}},
		"a name left out":          {`{"entities":[{"name":}]}`, []string{"expected a value, found '}'"}},
		"a date":                   {`{"entities":[{"name":2024-01-02}]}`, []string{`expected a value, found "2024-01-02"`}},
		"a wrong bracket":          {`{"entities":[{"name":"A"}}`, []string{"expected a comma or ], found '}'"}},
		"cut before anything":      {`{"entities":[{"name":"An`, []string{"cut off before its first entity"}},
		"cut before the lists":     {`{"enti`, []string{"no JSON object"}},
		"deep":                     {`{"entities":[{"name":"A","properties":` + strings.Repeat("[", 100), []string{"nested deeper than 64 levels"}},
		"deep, and nothing else":   {strings.Repeat("[", 1<<20), []string{"no JSON object"}},
		"too long":                 {strings.Repeat(" ", maxText+1), []string{"at most 33554432 are read"}},
		"too many":                 {many, []string{"lists more than 250000 entities"}},
		"too many values":          {`{"entities":[{"name":"A","aliases":[` + strings.Repeat("1,", maxValues) + `1]}]}`, []string{"more than 3000000 values"}},
		"an object of nothing":     {"{}", []string{"no JSON object"}},
		"a list of nothing":        {"[]", []string{"no JSON object"}},
		"a long key in a language": {`{"entities":[{"` + strings.Repeat("é", 1000) + `":1}]}`, []string{"…"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if len(tt.text) > 1<<19 {
				suite.Slow(t, "it is a megabyte or more")
			}
			_, err := Parse(tt.text)
			var problem *Error
			if !errors.As(err, &problem) {
				t.Fatalf("got %v", err)
			}
			for _, want := range tt.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("got %q, want %q", err, want)
				}
			}
			if len(err.Error()) > 2000 {
				t.Errorf("a message of %d bytes", len(err.Error()))
			}
			if got := outcome.FailureOf(err, outcome.Internal); got.Class != outcome.InvalidOutput || got.Message != err.Error() {
				t.Errorf("counts as %+v", got)
			}
		})
	}
}

func TestParse_warnings(t *testing.T) {
	for text, want := range map[string]string{
		validAnswer + " or " + validAnswer:                                 "more than one JSON object",
		`{"entities":[],"entities":[{}]}`:                                  `"entities" stands more than once`,
		`{"entities":[{"name":"A","x":1}]}`:                                `unknown keys are kept but not used: "x"`,
		`{"relationships":[{"source":"A","target":"B","type":"r","x":1}]}`: `relationships[0]: unknown keys are kept but not used: "x"`,
		`As {"entities": [...]}: ` + validAnswer:                           "an earlier JSON object was passed over: line 1, column 18",
	} {
		got, err := Parse(text)
		if err != nil || !strings.Contains(strings.Join(got.Warnings, "|"), want) {
			t.Errorf("%q: warnings %q (%v), want %q", text, got.Warnings, err, want)
		}
	}
	if got, _ := Parse(validAnswer); got.Warnings != nil {
		t.Errorf("a good answer has %q", got.Warnings)
	}
}

// TestParse_brokenIsNotSmaller checks that a broken answer is an error, or complete.
func TestParse_brokenIsNotSmaller(t *testing.T) {
	for i := range validAnswer {
		broken := validAnswer[:i] + "@" + validAnswer[i:]
		got, err := Parse(broken)
		if err != nil {
			continue
		}
		if len(got.Extraction.Entities) < 2 || len(got.Extraction.Relationships) < 1 {
			t.Errorf("%s became %q", broken, summary(got.Extraction))
		}
	}
}

func TestParse_nilAndEmpty(t *testing.T) {
	got, err := Parse(`{"entities":[],"relationships":null}`)
	want := extraction.Extraction{Entities: []extraction.Entity{}}
	if diff := cmp.Diff(want, got.Extraction); err != nil || diff != "" {
		t.Error(err, diff)
	}
}
