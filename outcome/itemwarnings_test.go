package outcome

import (
	"fmt"
	"slices"
	"testing"
)

func TestItemWarnings(t *testing.T) {
	var w itemWarnings
	for _, text := range []string{"b", "a", "b", "c", "d", "d", "d", "e"} {
		w.add([]string{text})
	}
	// d 3, b 2, then a, c, e with 1 each: a is shown, two are not.
	want := []string{"d (3 items)", "b (2 items)", "a (1 item)", "and 2 other warnings of items"}
	if got := w.list(); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	for i := range 2 * maxWarningTexts {
		w.add([]string{fmt.Sprint(i)})
	}
	if len(w.texts) != maxWarningTexts {
		t.Errorf("%d texts are kept", len(w.texts))
	}
}
