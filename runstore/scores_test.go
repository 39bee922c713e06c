package runstore

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"extraction-experiment/outcome"
)

// Scores are decoded bit by bit as they were encoded.
func TestScores_decodeIsTheInverse(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		want := drawOutcome(rt, "x", 1).Scores
		w := &scoreNames{}
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

// TestScores_damaged: truncated, extended or impossible bytes and bytes of another version are
// errors, and never decode to other scores.
func TestScores_damaged(t *testing.T) {
	third, half := 1.0/3, 0.5
	w := &scoreNames{}
	good := appendScores(nil, w, []outcome.Score{
		{Name: "f1", Value: &third, Ratio: &outcome.Ratio{Num: 1, Den: 3}, Weight: &half, Vacuous: true},
		{Name: "judge", Value: &half, Boolean: true},
		{Name: strings.Repeat("n", maxScoreNameLength+1), Reason: "nothing was expected"}, // in the row itself, without a position
	})
	_, err := decodeScores(good, w)
	noError(t, err)
	bad := map[string][]byte{"longer": append(slices.Clone(good), 0), "another version": append([]byte{good[0] + 1}, good[1:]...)}
	for n := 1; n < len(good); n++ {
		bad[fmt.Sprintf("%d of %d bytes", n, len(good))] = good[:n]
	}
	oneScore := func(rest ...byte) []byte { return append([]byte{scoresVersion, 1, 1}, rest...) } // a score with the first name
	bad["unknown flag"] = oneScore(knownFlags + 1)
	bad["a name that is not there"] = []byte{scoresVersion, 1, 200, 1, 0}
	bad["more scores than there is memory for"] = binary.AppendUvarint([]byte{scoresVersion}, 1<<60)
	bad["a name that is longer than any"] = binary.AppendUvarint([]byte{scoresVersion, 1, 0}, 1<<63)
	bad["not a number"] = oneScore(append([]byte{hasValue | hasFloat}, binary.LittleEndian.AppendUint64(nil, math.Float64bits(math.NaN()))...)...)
	bad["an infinite weight"] = oneScore(append([]byte{hasWeight}, binary.LittleEndian.AppendUint64(nil, math.Float64bits(math.Inf(1)))...)...)
	bad["a value of 1/0"] = oneScore(hasValue|hasRatio, 2, 0) // 2 is 1 as a varint
	for what, b := range bad {
		if scores, err := decodeScores(b, w); err == nil {
			t.Errorf("%s: %v", what, scores)
		}
	}
}

func FuzzScores(f *testing.F) {
	w := &scoreNames{}
	f.Add(appendScores(nil, w, testOutcome(1, 0).Scores))
	f.Fuzz(func(t *testing.T, b []byte) {
		scores, err := decodeScores(b, w)
		if err == nil && len(scores) > len(b) {
			t.Errorf("%d scores of %d bytes", len(scores), len(b))
		}
	})
}
