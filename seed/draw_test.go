package seed

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"extraction-experiment/langfuse"
)

func TestDraw_stratified(t *testing.T) {
	var list []candidate
	for i := range 60 { // 30 a, 20 b, 10 c
		stratum := "a"
		if i%6 >= 3 {
			stratum = "b"
		}
		if i%6 == 5 {
			stratum = "c"
		}
		list = append(list, candidate{id: fmt.Sprintf("t%02d", i), stratum: stratum})
	}
	count := func(list []candidate) map[string]int {
		n := map[string]int{}
		for _, c := range list {
			n[c.stratum]++
		}
		return n
	}
	// 7·30/60 = 3.5, 7·20/60 = 2.33, 7·10/60 = 1.17: rounded down 3+2+1, the one left over goes to a.
	drawn := draw(list, 7, 1)
	if diff := cmp.Diff(map[string]int{"a": 4, "b": 2, "c": 1}, count(drawn)); diff != "" {
		t.Error(diff)
	}
	if !slices.IsSortedFunc(drawn, func(a, b candidate) int { return strings.Compare(a.id, b.id) }) {
		t.Errorf("%v is not in the order given", drawn)
	}
	shuffled := slices.Clone(list)
	slices.Reverse(shuffled)
	again := draw(shuffled, 7, 1)
	slices.Reverse(again)
	if !slices.Equal(drawn, again) {
		t.Errorf("another order draws %v, not %v", again, drawn)
	}
	if other := draw(list, 7, 2); slices.Equal(drawn, other) {
		t.Error("another seed draws the same")
	}
	if all := draw(list, 60, 1); len(all) != 60 {
		t.Errorf("%d of 60", len(all))
	}
}

func TestScoreRule_Holds(t *testing.T) {
	for text, want := range map[string]string{ // of 0.9, true, "correct"
		"s>=0.9": "yes yes no", "s>0.9": "no yes no", "s<0.9": "no no no", "s=true": "no yes no", "s!=1": "yes no no",
		"s=correct": "no no yes", "s!=correct": "no no no", "s!=wrong": "no no yes", "s": "no yes no", "other>=0": "no no no",
	} {
		r := rule(text)
		var got []string
		for _, s := range scoresOf("s", 0.9, true, "correct") {
			got = append(got, map[bool]string{true: "yes", false: "no"}[r.Holds(s)])
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %v, want %s", text, got, want)
		}
	}
}

func scoresOf(name string, values ...any) []langfuse.Score {
	var list []langfuse.Score
	for _, value := range values {
		s := langfuse.Score{Name: name}
		switch v := value.(type) {
		case float64:
			s.Value = langfuse.NumberValue(v)
		case bool:
			s.Value = langfuse.BoolValue(v)
		case string:
			s.Value = langfuse.TextValue(v)
		}
		list = append(list, s)
	}
	return list
}
