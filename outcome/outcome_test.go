package outcome

import (
	"encoding/json"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestCounts_asMap: counts are written and read as encoding/json does it for a map.
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
