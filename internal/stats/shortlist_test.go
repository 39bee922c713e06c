package stats

import (
	"cmp"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestShortlist checks that the first of all values offered are kept, sorted.
func TestShortlist(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOf(rapid.IntRange(-9, 9)).Draw(t, "values")
		limit := rapid.IntRange(-1, 6).Draw(t, "limit")
		l := NewShortlist(limit, cmp.Compare[int])
		for _, v := range values {
			l.Offer(v)
		}
		want := slices.Sorted(slices.Values(values))
		want = want[:min(len(want), max(0, limit))]
		if got := l.Values(); got == nil || !slices.Equal(got, want) {
			t.Fatalf("%v, want %v", got, want)
		}
	})
}

// TestShortlist_values checks that Values returns a copy.
func TestShortlist_values(t *testing.T) {
	l := NewShortlist(2, cmp.Compare[int])
	l.Offer(2)
	l.Values()[0] = 7
	if l.Offer(1); !slices.Equal(l.Values(), []int{1, 2}) {
		t.Error(l.Values())
	}
}

// TestShortlist_Replace checks that each thing is kept once, with its first value in the order.
func TestShortlist_Replace(t *testing.T) {
	type thing struct{ value, id int }
	order := func(a, b thing) int { return cmp.Or(cmp.Compare(a.value, b.value), cmp.Compare(a.id, b.id)) }
	rapid.Check(t, func(t *rapid.T) {
		ids := rapid.SliceOf(rapid.IntRange(0, 5)).Draw(t, "ids")
		limit := rapid.IntRange(0, 4).Draw(t, "limit")
		l, first := NewShortlist(limit, order), map[int]thing{}
		for _, id := range ids {
			offered := thing{rapid.IntRange(-3, 3).Draw(t, "value"), id}
			if previous, ok := first[id]; !ok || order(offered, previous) < 0 {
				first[id] = offered
			}
			l.Replace(offered, func(other thing) bool { return other.id == id })
		}
		want := slices.SortedFunc(maps.Values(first), order)
		want = want[:min(len(want), limit)]
		if got := l.Values(); !slices.Equal(got, want) {
			t.Fatalf("%v, want %v", got, want)
		}
	})
}
