package textutil

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

// FuzzParts compares JSONMembers and JSONElements with encoding/json for valid text, and checks
// that they end for any other text.
func FuzzParts(f *testing.F) {
	for _, text := range []string{`{"a":1,"b" : {"c":[1,"]}",{}]} ,"\u0061":null}`, `[1, true,"x\"]" ,[[]],{}]`, `"x"`, `{}`, `[]`, ` 12 `, `{"a":`, `{"a"`, `[,]`, `{"a":}`, `[}]`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		members, list := map[string]json.RawMessage{}, []json.RawMessage{}
		for key, value := range JSONMembers(raw) {
			members[key] = value
		}
		for value := range JSONElements(raw) {
			list = append(list, value)
		}
		if !json.Valid(raw) || !utf8.Valid(raw) {
			return
		}
		want, wantList := map[string]json.RawMessage{}, []json.RawMessage{}
		_ = json.Unmarshal(raw, &want) // stays empty for other values
		_ = json.Unmarshal(raw, &wantList)
		if want == nil {
			want = map[string]json.RawMessage{}
		}
		if wantList == nil {
			wantList = []json.RawMessage{}
		}
		if diff := cmp.Diff(want, members); diff != "" {
			t.Fatalf("%q: %s", raw, diff)
		}
		if diff := cmp.Diff(wantList, list); diff != "" {
			t.Fatalf("%q: %s", raw, diff)
		}
	})
}

// FuzzValid compares ValidJSON and CompactJSON with encoding/json for any text.
func FuzzValid(f *testing.F) {
	deep := strings.Repeat("[", 10_000) + strings.Repeat("]", 10_000)
	for _, text := range []string{`{"a":[1,-0.5e+3,"\u00e9\n\/",true,null,{}],"b":[]}`, ` [ 1 , 2 ] `, `01`, `-`, `1.`, `1e`, `.5`,
		`"\x"`, `"\u12g4"`, "\"\x01\"", "\"\xff\"", `{"a"}`, `{"a":1,}`, `[1,]`, `[1 2]`, `{,}`, `tru`, `nulls`, ``, ` `, `"`, `"\`, `[`, `1 1`,
		deep, "[" + deep + "]"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if got, want := ValidJSON(raw), json.Valid(raw); got != want {
			t.Fatalf("%q: %t, want %t", raw, got, want)
		}
		var b bytes.Buffer
		want := json.Compact(&b, raw)
		got, err := CompactJSON(raw)
		if diff := cmp.Diff(want, err, cmp.Comparer(func(a, b error) bool { return fmt.Sprint(a) == fmt.Sprint(b) })); diff != "" {
			t.Fatalf("%q: %s", raw, diff)
		}
		if err == nil && !bytes.Equal(got, b.Bytes()) {
			t.Fatalf("%q: %q, want %q", raw, got, b.Bytes())
		}
	})
}

func BenchmarkValid(b *testing.B) {
	raw := []byte(`{"document_text":"Ruth went to Moab. Ruth went to Moab.","object_schemas":{"Person":{"description":"a human"}},"list":[1,2,3]}`)
	b.SetBytes(int64(len(raw)))
	for b.Loop() {
		ValidJSON(raw)
	}
}

func BenchmarkMembers(b *testing.B) {
	raw := []byte(`{"document_text":"Ruth went to Moab. Ruth went to Moab.","object_schemas":{"Person":{"description":"a human"}},"list":[1,2,3]}`)
	b.SetBytes(int64(len(raw)))
	for b.Loop() {
		for range JSONMembers(raw) {
		}
	}
}

func TestJSONDepth(t *testing.T) {
	for text, want := range map[string]int{`{"a[[":["\"[",{"b":[]}]}`: 4, ` 7 `: 0, `[]`: 1, `[[],[[]]]`: 3, `[`: -1, ``: -1} {
		if got := JSONDepth([]byte(text)); got != want {
			t.Errorf("%s: %d, want %d", text, got, want)
		}
	}
}

// FuzzText compares AppendJSONText with encoding/json.
func FuzzText(f *testing.F) {
	for _, text := range []string{"", "name", "12345678\"", "a&<>\\\b\f\n\r\t\x00\x1f\x7f", "1234567é8\u2028\u2029", "\xff1234567\xe2\x80", "Он пошёл домой"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		want, err := json.Marshal(text)
		if got := AppendJSONText(nil, text); err != nil || !bytes.Equal(got, want) {
			t.Fatalf("%q: %s, want %s (%v)", text, got, want, err)
		}
	})
}
