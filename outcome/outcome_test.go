package outcome

import (
	"encoding/json"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestCounts_asMap checks that counts are written and read like a map by encoding/json.
func TestCounts_asMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		plain := rapid.MapOf(rapid.String(), rapid.Int64()).Draw(t, "counts")
		if rapid.Bool().Draw(t, "absent") {
			plain = nil
		}
		want, err := json.Marshal(plain)
		if err != nil {
			t.Fatal(err)
		}
		counts := CountsOf(plain)
		got, err := json.Marshal(counts)
		if err != nil || string(got) != string(want) {
			t.Fatalf("%s (%v), want %s", got, err, want)
		}
		var read, set Counts
		if err := json.Unmarshal(got, &read); err != nil || !slices.Equal(read, counts) {
			t.Fatalf("%v (%v), want %v", read, err, counts)
		}
		for name, n := range plain {
			set.Set(name, n-1)
			if set.Set(name, n); set.Get(name) != n {
				t.Fatalf("%q is %d in %v", name, set.Get(name), set)
			}
		}
		if !slices.Equal(set, counts) || counts.Get("no such\xff") != 0 {
			t.Fatalf("%v, want %v", set, counts)
		}
	})
}

// TestCounts_oddTexts checks that unusual JSON is read as encoding/json reads it into a map.
func TestCounts_oddTexts(t *testing.T) {
	for _, text := range []string{
		`{}`, ` { "b" : 1 , "a":2 } `, `{"a":1,"a":2}`, `{"\u00e9\n":1}`, "{\"\xff\":1}", `{"a":-0}`, `{"a":null}`, `null`,
		`{"a":1.5}`, `{"a":1e3}`, `{"a":"1"}`, `{"a":{}}`, `{"a":9223372036854775808}`, `{"a":1,"b":true}`, `[1]`, `1`,
	} {
		var want map[string]int64
		var got Counts
		wantErr, err := json.Unmarshal([]byte(text), &want), json.Unmarshal([]byte(text), &got)
		if (wantErr == nil) != (err == nil) || !slices.Equal(got, CountsOf(want)) {
			t.Errorf("%s: %v (%v), want %v (%v)", text, got, err, want, wantErr)
		}
	}
}
