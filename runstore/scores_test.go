package runstore

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// Scores come back as they were, bit by bit.
func TestScores_decodeIsTheInverse(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		want := drawOutcome(rt, "x", 1).Scores
		w := &scoreNames{index: map[string]int{}}
		got, err := decodeScores(appendScores(nil, w, want), w)
		noError(t, err)
		for i := range want {
			want[i].Comment, want[i].Counts = "", nil
		}
		if diff := cmp.Diff(want, got); diff != "" {
			rt.Fatal(diff)
		}
	})
}

func FuzzScores(f *testing.F) {
	w := &scoreNames{index: map[string]int{}}
	f.Add(appendScores(nil, w, testOutcome(1, 0).Scores))
	f.Fuzz(func(t *testing.T, b []byte) {
		scores, err := decodeScores(b, w)
		if err == nil && len(scores) > len(b) {
			t.Errorf("%d scores of %d bytes", len(scores), len(b))
		}
	})
}
