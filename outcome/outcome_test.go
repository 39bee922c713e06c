package outcome

import (
	"encoding/json"
	"testing"

	"pgregory.net/rapid"
)

// TestCounts_asMap: counts are written as encoding/json writes a map.
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
		got, err := json.Marshal(Counts(plain))
		if err != nil || string(got) != string(want) {
			t.Fatalf("%s (%v), want %s", got, err, want)
		}
	})
}
