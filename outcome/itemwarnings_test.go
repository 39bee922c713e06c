package outcome

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestItemWarnings(t *testing.T) {
	w := newItemWarnings(1)
	for i, text := range []string{"b", "a", "b", "c", "d", "d", "d", "e"} {
		w.add(warning(fmt.Sprint(i), 1, text))
	}
	// d 3, b 2, then a, c, e with 1 each: a is shown, two are not.
	want := []string{"d (3 items)", "b (2 items)", "a (1 item)", "and 2 other warnings of items"}
	if got := w.list(); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	for i := range 2000 {
		w.add(warning("x", 1, fmt.Sprint(i)))
	}
	// 2005 texts; 3 are shown with 4, 2 and 1 items: 8 + 2000 + 1 warnings in all.
	w.add(warning("y", 1, "d"))
	if got, want := w.list(), []string{"d (4 items)", "b (2 items)", "0 (1 item)", "and 2,002 other warnings of items"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	long := strings.Repeat("x", 1<<20)
	for i := range maxWarningBytes >> 20 {
		w.add(warning("x", 1, fmt.Sprint(long, i)))
	}
	if got := w.list(); len(got) != 1 || len(w.items) != 0 {
		t.Errorf("got %q, %d texts are kept", got, len(w.items))
	}
}

// TestItemWarnings_order checks that the order of the outcomes does not matter if there are many
// different warnings.
func TestItemWarnings_order(t *testing.T) {
	var outcomes []Outcome
	for i := range 3000 {
		texts := []string{fmt.Sprint("only ", i)}
		if i%500 == 0 {
			texts = append(texts, "sometimes")
		}
		outcomes = append(outcomes, warning(fmt.Sprint(i), 1, texts...))
	}
	for _, trials := range []int{1, 2} {
		for _, backwards := range []bool{false, true} {
			if backwards {
				slices.Reverse(outcomes)
			}
			s := NewSummariser(Header{Trials: trials}, SummaryConfig{})
			for _, o := range outcomes {
				s.Add(o)
			}
			want := []string{"sometimes (6 items)", "only 0 (1 item)", "only 1 (1 item)", "and 2,998 other warnings of items"}
			if got := s.Summary().Warnings; !slices.Equal(got, want) {
				t.Errorf("%d trials, backwards %t: got %q, want %q", trials, backwards, got, want)
			}
		}
	}
}

func warning(item string, trial int, texts ...string) Outcome {
	return Outcome{Item: item, Trial: trial, Detail: Detail{Warnings: texts}}
}

// TestItemWarnings_once checks that an item counts once for a warning, whatever the number and
// order of its trials and repetitions.
func TestItemWarnings_once(t *testing.T) {
	outcomes := []Outcome{warning("x", 1, "odd", "odd"), warning("y", 1, "odd"), warning("x", 2, "odd"), warning("y", 2), warning("x", 3, "odd", "rare")}
	for _, backwards := range []bool{false, true} {
		if backwards {
			slices.Reverse(outcomes)
		}
		s := NewSummariser(Header{Trials: 3}, SummaryConfig{})
		for _, o := range outcomes {
			s.Add(o)
		}
		want := []string{"odd (2 items)", "rare (1 item)"} // x and y; x
		if got := s.Summary().Warnings; !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	w := newItemWarnings(1)
	w.add(warning("x", 1, "odd", "even", "odd"))
	if got, want := w.list(), []string{"even (1 item)", "odd (1 item)"}; !slices.Equal(got, want) {
		t.Errorf("of one trial: got %q, want %q", got, want)
	}
}
