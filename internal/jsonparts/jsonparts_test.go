package jsonparts

import (
	"encoding/json"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

// FuzzParts compares with the standard library on all that is valid, and must end on
// everything else.
func FuzzParts(f *testing.F) {
	for _, text := range []string{`{"a":1,"b" : {"c":[1,"]}",{}]} ,"\u0061":null}`, `[1, true,"x\"]" ,[[]],{}]`, `"x"`, `{}`, `[]`, ` 12 `, `{"a":`, `{"a"`, `[,]`, `{"a":}`, `[}]`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		members, list := map[string]json.RawMessage{}, []json.RawMessage{}
		for key, value := range Members(raw) {
			members[key] = value
		}
		for value := range Elements(raw) {
			list = append(list, value)
		}
		if !json.Valid(raw) || !utf8.Valid(raw) {
			return
		}
		want, wantList := map[string]json.RawMessage{}, []json.RawMessage{}
		_ = json.Unmarshal(raw, &want) // stays empty for another value
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

func BenchmarkMembers(b *testing.B) {
	raw := []byte(`{"document_text":"Ruth went to Moab. Ruth went to Moab.","object_schemas":{"Person":{"description":"a human"}},"list":[1,2,3]}`)
	b.SetBytes(int64(len(raw)))
	for b.Loop() {
		for range Members(raw) {
		}
	}
}
