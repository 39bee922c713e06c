package extraction

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

func TestDecodeExtraction(t *testing.T) {
	tests := map[string]struct {
		in   string
		want Extraction
	}{
		"native names": {
			`{"entities":[{"name":"A","type":"P","aliases":["a"]}],"relationships":[{"source_name":"A","target_name":"B","relationship_type":"knows"}]}`,
			Extraction{[]Entity{{Name: "A", Type: "P", Aliases: []string{"a"}}}, []Relationship{{Source: "A", Target: "B", Type: "knows"}}},
		},
		"synonyms": {
			`{"entities":[],"relationships":[{"source":"A","target":"B","type":"knows"}]}`,
			Extraction{[]Entity{}, []Relationship{{Source: "A", Target: "B", Type: "knows"}}},
		},
		"an end that equals an id becomes the name": {
			`{"entities":[{"id":"e1","name":"Ann"},{"temp_id":"e2","name":"Bob"}],"relationships":[{"source":"e1","target_ref":"e2","type":"knows"}]}`,
			Extraction{[]Entity{{ID: "e1", Name: "Ann"}, {ID: "e2", Name: "Bob"}}, []Relationship{{Source: "Ann", Target: "Bob", Type: "knows"}}},
		},
		"a reference that spells a name is that name": {
			`{"entities":[{"name":"Ann"}],"relationships":[{"source_ref":"Ann","target":"Bob","type":"knows"}]}`,
			Extraction{[]Entity{{Name: "Ann"}}, []Relationship{{Source: "Ann", Target: "Bob", Type: "knows"}}},
		},
		"an end that is not there is that of no entity": {
			`{"entities":[{"name":"Ann"}],"relationships":[{"target":"Bob","type":"knows"}]}`,
			Extraction{[]Entity{{Name: "Ann"}}, []Relationship{{Target: "Bob", Type: "knows"}}},
		},
		"of an id that is used twice the first counts": {
			`{"entities":[{"id":"e","name":"Ann"},{"id":"e","name":"Bob"}],"relationships":[{"source":"e","target":"Bob","type":"knows"}]}`,
			Extraction{[]Entity{{ID: "e", Name: "Ann"}, {ID: "e", Name: "Bob"}}, []Relationship{{Source: "Ann", Target: "Bob", Type: "knows"}}},
		},
		"a key with an escape, and one that is there twice": {
			`{"entities":[{"n\u0061me":"Ann","type":"x","type":"P"}]}`,
			Extraction{[]Entity{{Name: "Ann", Type: "P"}}, nil},
		},
		"a reference to nothing stays, the end is empty": {
			`{"relationships":[{"source_ref":"e9","target":"Bob","type":"knows"}]}`,
			Extraction{nil, []Relationship{{SourceRef: "e9", Target: "Bob", Type: "knows"}}},
		},
		"absent and null are nil, empty is not": {
			`{"entities":null,"relationships":[]}`,
			Extraction{nil, []Relationship{}},
		},
		"numbers are read as their spelling": {
			`{"entities":[{"name":1905,"type":-4.5}]}`,
			Extraction{[]Entity{{Name: "1905", Type: "-4.5"}}, nil},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, _, err := DecodeExtraction([]byte(tt.in))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestDecodeExtraction_warnings checks that unknown and repeated keys are named wherever they are, each once.
func TestDecodeExtraction_warnings(t *testing.T) {
	_, got, err := DecodeExtraction([]byte(`{"z":1,"a":2,"z":3,"entities":[{"name":"A","id":"e","b":1,"mentions":[{"c":1}]},{"id":"e"}],"relationships":[{"d":1}]}`))
	want := []string{
		`entities[0].mentions[0]: unknown keys are kept but not used: "c"`,
		`entities[0]: unknown keys are kept but not used: "b"`,
		`entities: the id "e" is used twice; the first entity keeps it`,
		`relationships[0]: unknown keys are kept but not used: "d"`,
		`extraction: unknown keys are kept but not used: "a", "z"`,
	}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v %s", err, diff)
	}
	e, got, err := DecodeExtraction([]byte(`{"entities":[{"name":"A"}],"entities":[{"name":"C","na\u006de":"D"}]}`))
	want = []string{
		"entities[0]: name is given twice; the last counts",
		"extraction: entities is given twice; the last counts",
	}
	if diff := cmp.Diff(want, got); diff != "" || err != nil || e.Entities[0].Name != "D" {
		t.Errorf("%v %+v %s", err, e, diff)
	}
	if _, got, _ = DecodeExtraction([]byte(`{"entities":[` + strings.Repeat(`{"a":1},`, 2*maxProblems) + `{}]}`)); len(got) != maxProblems {
		t.Errorf("%d warnings", len(got))
	}
}

func TestRelationship_Dangling(t *testing.T) {
	for want, list := range map[bool][]Relationship{true: {{SourceRef: "e"}, {TargetRef: "e"}}, false: {{}, {Source: "a", Target: "b"}}} {
		for _, r := range list {
			if r.Dangling() != want {
				t.Errorf("%+v: %v", r, !want)
			}
		}
	}
}

func TestDecodeExtraction_problems(t *testing.T) {
	long := strings.Repeat("x", MaxLabel+1)
	tests := map[string]struct{ in, want string }{
		"not an object": {`[]`, "extraction: expected an object, got a list"},
		"not JSON":      {`{"entities`, "extraction: expected an object, got text that is not JSON"},
		"list":          {`{"entities":{}}`, "entities: expected a list, got an object"},
		"entity":        {`{"entities":["Ann"]}`, "entities[0]: expected an object, got a string"},
		"name":          {`{"entities":[{"name":["x"]}]}`, "entities[0].name: expected a string, got a list"},
		"alias":         {`{"entities":[{"name":"x","aliases":[1]}]}`, "entities[0].aliases[0]: expected a string, got a number"},
		"offset":        {`{"entities":[{"mentions":[{"quote":"x","start":1.5}]}]}`, "entities[0].mentions[0].start: expected a whole number, got a number"},
		"boolean":       {`{"entities":[{"name":true}]}`, "entities[0].name: expected a string, got a boolean"},
		"nothing":       {` `, "extraction: is missing"},
		"many":          {`{"entities":[` + strings.Repeat("1,", maxProblems+1) + `1]}`, "and 2 more problems"},
		"UTF-8":         {"{\"a\":\"\xff\"}", "is not valid UTF-8"},
		"long name":     {`{"entities":[{"name":"` + long + `"}]}`, "entities[0].name: has 4097 bytes, and no name has more than 4096"},
		"long type":     {`{"entities":[{"name":"x","type":"` + long + `"}]}`, "entities[0].type: has 4097 bytes"},
		"long alias":    {`{"entities":[{"name":"x","aliases":["y","` + long + `"]}]}`, "entities[0].aliases[1]: has 4097 bytes"},
		"long source":   {`{"relationships":[{"source":"` + long + `"}]}`, "relationships[0].source: has 4097 bytes"},
		"long target":   {`{"relationships":[{"target_ref":"` + long + `"}]}`, "relationships[0].target_ref: has 4097 bytes"},
		"long number":   {`{"relationships":[{"type":1` + strings.Repeat("0", 4096) + `}]}`, "relationships[0].type: has 4097 bytes"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, _, err := DecodeExtraction([]byte(tt.in))
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
	if _, _, err := DecodeExtraction([]byte(`{"entities":[{"name":"` + long[1:] + `"}]}`)); err != nil {
		t.Errorf("a name of %d bytes: %v", MaxLabel, err)
	}
}

// TestDecodeDocument_text: the first of document_text and text that is not empty is the document.
func TestDecodeDocument_text(t *testing.T) {
	for in, want := range map[string]string{
		`{"document_text":"a","text":"b"}`: "a", `{"document_text":" ","text":"b"}`: "b", `{"document_text":null,"text":"b"}`: "b",
		`{"document_text":"a","text":{}}`: "a", `{"document_text":"","text":{}}`: "", `{"document_text":""}`: "",
	} {
		doc, warnings, err := DecodeDocument([]byte(in))
		if doc.Text != want || (err == nil) != (want != "") || len(warnings) != 0 {
			t.Errorf("%s: %q, %q, %v", in, doc.Text, warnings, err)
		}
	}
}

func TestDecodeDocument(t *testing.T) {
	doc, warnings, err := DecodeDocument([]byte(`{"text":"Hi","object_schemas":{"Person":{"description":"someone"}},
		"relationship_schemas":{"knows":{"source_types":["Person"]}},"allowed_types":["Person"],"colour":"red"}`))
	if err != nil {
		t.Fatal(err)
	}
	want := Document{
		Text:          "Hi",
		Objects:       map[string]ObjectSchema{"Person": {Name: "Person", Description: "someone"}},
		Relationships: map[string]RelationshipSchema{"knows": {Name: "knows", SourceTypes: []string{"Person"}}},
		AllowedTypes:  []string{"Person"},
	}
	if doc.Input == nil {
		t.Error("the input is not kept")
	}
	doc.Input = nil
	if diff := cmp.Diff(want, doc, cmpopts.IgnoreUnexported(Document{})); diff != "" {
		t.Error(diff)
	}
	unknown := []string{`input: unknown keys are kept, and only variables of prompts use them: "colour"`}
	if diff := cmp.Diff(unknown, warnings); diff != "" {
		t.Error(diff)
	}
	if _, _, err := DecodeDocument([]byte(`"a text"`)); !errors.Is(err, ErrNoText) || !strings.Contains(err.Error(), "is a string") {
		t.Errorf("a plain string: %v", err)
	}
	for _, blank := range []string{`{"document_text":"  \n"}`, "{}", "", " \n"} {
		if _, _, err := DecodeDocument([]byte(blank)); err != ErrNoText {
			t.Errorf("%q: got %v", blank, err)
		}
	}
}

func TestExtraction_MarshalJSON(t *testing.T) {
	for _, in := range []string{
		`{}`,
		`{"entities":[],"relationships":[]}`,
		`{"entities":[{"name":"A","type":"P"}],"relationships":[{"source_name":"A","target_name":"B","relationship_type":"r"}]}`,
	} {
		e, _, err := DecodeExtraction([]byte(in))
		if err != nil {
			t.Fatal(err)
		}
		out, err := e.MarshalJSON()
		if err != nil || string(out) != in {
			t.Errorf("%s came back as %s (%v)", in, out, err)
		}
	}
}

// TestReadsBack checks that ReadsBack is true only for extractions that read back without a
// warning, and for all those with plain labels only.
func TestReadsBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		odd := false
		text := func(name string) string {
			s := rapid.SampledFrom([]string{"Ann", "Ann", "Ann", "e1", strings.Repeat("x", MaxLabel), strings.Repeat("x", MaxLabel+1), "\xff"}).Draw(t, name)
			odd = odd || len(s) > MaxLabel || s == "\xff"
			return s
		}
		sometimes := func(name string) bool {
			yes := rapid.IntRange(0, 9).Draw(t, name) == 0
			odd = odd || yes
			return yes
		}
		e := Extraction{Entities: []Entity{}, Relationships: []Relationship{}}
		for range rapid.IntRange(0, 2).Draw(t, "entities") {
			entity := Entity{Name: text("name"), Type: text("type"), Aliases: []string{"A", text("alias")}, Description: text("description"),
				Mentions: []Span{{Quote: text("quote"), Start: 1, End: 4}}}
			if sometimes("has an id") {
				entity.ID = "e1"
			}
			if sometimes("has properties") {
				entity.Properties = json.RawMessage(`{"a": 1}`)
			}
			e.Entities = append(e.Entities, entity)
		}
		for range rapid.IntRange(0, 2).Draw(t, "relationships") {
			r := Relationship{Source: text("source"), Target: text("target"), Type: text("type"), Description: text("description")}
			if sometimes("source is a reference") {
				r.Source, r.SourceRef = "", "Ann"
			}
			if sometimes("target is a reference") {
				r.Target, r.TargetRef = "", "Ann"
			}
			e.Relationships = append(e.Relationships, r)
		}
		raw, err := e.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		back, warnings, err := DecodeExtraction(raw)
		same := err == nil && len(warnings) == 0 && cmp.Equal(e, back)
		if claimed := ReadsBack(e); claimed && !same || !claimed && !odd {
			t.Fatalf("said to read back: %v\n%s\n%v, %v", claimed, cmp.Diff(e, back), warnings, err)
		}
	})
}

// TestWithoutLookedUp_drawn checks that removing mentions from the JSON equals removing them
// from the extraction.
func TestWithoutLookedUp_drawn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var e Extraction
		looked := false
		for range rapid.IntRange(0, 3).Draw(t, "entities") {
			one := Entity{Name: rapid.SampledFrom([]string{"Ruth", "\"", `,"looked_up":true}`}).Draw(t, "name")}
			for range rapid.IntRange(0, 4).Draw(t, "mentions") {
				s := Span{Quote: one.Name, End: 4, LookedUp: rapid.Bool().Draw(t, "looked up")}
				one.Mentions, looked = append(one.Mentions, s), looked || s.LookedUp
			}
			e.Entities = append(e.Entities, one)
		}
		before, err := e.MarshalJSON()
		copied := string(before)
		got := string(WithoutLookedUp(before))
		for i := range e.Entities {
			e.Entities[i].Mentions = slices.DeleteFunc(e.Entities[i].Mentions, func(s Span) bool { return s.LookedUp })
		}
		want, err2 := e.MarshalJSON()
		shorter := len(got) < len(before)
		if got != string(want) || errors.Join(err, err2) != nil || shorter != looked || string(before) != copied {
			t.Fatalf("%s, want %s (shorter %v, %v, before %s)", got, want, shorter, looked, before)
		}
	})
}

func TestWithoutLookedUp(t *testing.T) {
	for in, want := range map[string]string{
		`{"entities":[{"name":"A","mentions":[{"quote":"A","start":0,"end":1,"looked_up":true}]},{"name":"B","type":"P","mentions":[{"quote":"B","start":2,"end":3}]}],"relationships":[]}`:                          `{"entities":[{"name":"A"},{"name":"B","type":"P","mentions":[{"quote":"B","start":2,"end":3}]}],"relationships":[]}`,
		`{"entities": [{"name": "A", "mentions": [{"quote": "A", "start": 0, "end": 1, "looked_up": false}]}]}`:                                                                                                      `{"entities": [{"name": "A", "mentions": [{"quote": "A", "start": 0, "end": 1, "looked_up": false}]}]}`,
		`{"entities":[{"name":"A","mentions":[{"quote":"a","start":0,"end":1},{"quote":"b","start":1,"end":2,"looked_up":true},{"quote":"c","start":2,"end":3},{"quote":"d","start":3,"end":4,"looked_up":true}]}]}`: `{"entities":[{"name":"A","mentions":[{"quote":"a","start":0,"end":1},{"quote":"c","start":2,"end":3}]}]}`,
		`{"entities":[{"name":"A","mentions":[{"quote":"{\"quote\":\"b\",\"looked_up\":true}","start":0,"end":9},{"quote":"],","start":2,"end":3,"looked_up":true}]}]}`:                                              `{"entities":[{"name":"A","mentions":[{"quote":"{\"quote\":\"b\",\"looked_up\":true}","start":0,"end":9}]}]}`,
		`{"entities":[ ],"colour":1}`: `{"entities":[ ],"colour":1}`,
		`{"answer":"looked_up"}`:      `{"answer":"looked_up"}`,
		`["looked_up"]`:               `["looked_up"]`,
		``:                            ``,
	} {
		if got := string(WithoutLookedUp([]byte(in))); got != want {
			t.Errorf("%s became %s, want %s", in, got, want)
		}
	}
	e, warnings, err := DecodeExtraction([]byte(`{"entities":[{"name":"A","mentions":[{"quote":"A","looked_up":true}]}]}`))
	if err != nil || len(warnings) > 0 || !e.Entities[0].Mentions[0].LookedUp {
		t.Errorf("%+v %v %v", e, warnings, err)
	}
}

// TestDecoder checks that a derived value is computed once for all documents with the same
// schemas, and again for changed documents.
func TestDecoder(t *testing.T) {
	var decoder Decoder
	type key struct{}
	made := 0
	derive := func(doc Document) int {
		return Derive(doc, key{}, func(doc Document) int { made++; return len(doc.Objects) })
	}
	read := func(text, schemas string) Document {
		doc, _, err := decoder.Document([]byte(`{"document_text":"` + text + `","object_schemas":` + schemas + `}`))
		if err != nil || doc.Text != text {
			t.Fatal(doc, err)
		}
		return doc
	}
	one, two := `{"Person":{}}`, `{"Person":{},"Place":{}}`
	if derive(read("a", one)) != 1 || derive(read("b", one)) != 1 || derive(read("c", two)) != 2 || made != 2 {
		t.Errorf("made %d times", made)
	}
	changed := read("d", one)
	changed.Objects = map[string]ObjectSchema{}
	if derive(changed) != 0 || derive(Document{}) != 0 || made != 4 {
		t.Errorf("made %d times: a changed document has nothing to share", made)
	}
	for i, change := range []func(*Document){
		func(d *Document) { d.Relationships = map[string]RelationshipSchema{} },
		func(d *Document) { d.AllowedTypes = []string{"Person"} },
		func(d *Document) { d.AvailableTags = []string{"new"} },
	} {
		changed := read("d", one)
		if change(&changed); derive(changed) != 1 || made != 5+i {
			t.Errorf("change %d has something to share", i)
		}
	}
	if doc, _, err := decoder.Document([]byte(`{"text":"x","object_schemas":` + one + `,"allowed_types":["Person"]}`)); err != nil || len(doc.AllowedTypes) != 1 {
		t.Errorf("allowed types %q, %v", doc.AllowedTypes, err)
	}
	for i := range 3 * maxSchemaSets {
		read("e", fmt.Sprintf(`{"T%d":{}}`, i))
	}
	read("f", `{"`+strings.Repeat("T", maxSchemaBytes)+`":{}}`)
	if len(decoder.sets) != 3 { // of 3 + 3·16, since 16 are removed together, and one that is too large is not kept
		t.Errorf("%d sets are kept", len(decoder.sets))
	}
	for range 2 { // invalid schemas are not kept
		if _, _, err := decoder.Document([]byte(`{"document_text":"x","object_schemas":[]}`)); err == nil {
			t.Error("a list is not schemas")
		}
	}
}

func FuzzDecodeExtraction(f *testing.F) {
	f.Add([]byte(`{"entities":[{"id":"e1","name":"Ann"}],"relationships":[{"source":"e1","target_ref":"x","type":"knows"}]}`))
	f.Add([]byte(`{"entities":[[[[]]]]}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		first, _, err := DecodeExtraction(raw)
		if err != nil {
			return
		}
		out, err := first.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		second, warnings, err := DecodeExtraction(out)
		if err != nil {
			t.Fatalf("%s does not read back: %v", out, err)
		}
		if len(second.Entities) != len(first.Entities) || len(second.Relationships) != len(first.Relationships) {
			t.Fatalf("%s lost something", out)
		}
		if diff := cmp.Diff(first, second, cmpopts.EquateEmpty()); ReadsBack(first) && (diff != "" || len(warnings) > 0) {
			t.Fatalf("%s does not read back as it was: %s %q", out, diff, warnings)
		}
	})
}

// TestMarshalJSON checks that MarshalJSON writes the same as encoding/json.
func TestMarshalJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"", "a<b>&\"\\\n\u2028"}))
		span := rapid.Custom(func(t *rapid.T) Span {
			return Span{text.Draw(t, "quote"), rapid.Int().Draw(t, "start"), 7, rapid.Bool().Draw(t, "looked up")}
		})
		entity := rapid.Custom(func(t *rapid.T) Entity {
			return Entity{ID: text.Draw(t, "id"), Name: text.Draw(t, "name"), Type: text.Draw(t, "type"), Description: text.Draw(t, "description"),
				Aliases:    rapid.SliceOfN(text, 0, 2).Draw(t, "aliases"),
				Properties: rapid.SampledFrom([]json.RawMessage{nil, json.RawMessage(`{ "a": "<" }`), json.RawMessage(`{`)}).Draw(t, "properties"),
				Mentions:   rapid.SliceOfN(span, 0, 2).Draw(t, "mentions")}
		})
		relationship := rapid.Custom(func(t *rapid.T) Relationship {
			return Relationship{text.Draw(t, "source"), text.Draw(t, "target"), text.Draw(t, "type"), text.Draw(t, "description"),
				text.Draw(t, "source ref"), text.Draw(t, "target ref")}
		})
		var e Extraction
		members := map[string]any{}
		if rapid.Bool().Draw(t, "entities") {
			e.Entities = rapid.SliceOfN(entity, 0, 3).Draw(t, "of entities")
			members["entities"] = e.Entities
		}
		if rapid.Bool().Draw(t, "relationships") {
			e.Relationships = rapid.SliceOfN(relationship, 0, 3).Draw(t, "of relationships")
			members["relationships"] = e.Relationships
		}
		want, wantErr := json.Marshal(members)
		got, err := e.MarshalJSON()
		if (err != nil) != (wantErr != nil) || err == nil && string(got) != string(want) {
			t.Fatalf("got %s (%v), want %s (%v)", got, err, want, wantErr)
		}
	})
}
