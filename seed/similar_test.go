package seed

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestSketch_exact(t *testing.T) {
	// 9 letters have 2 shingles of 8, 10 have 3; the two texts share two of three.
	tests := []struct {
		a, b string
		want float64
	}{
		{"abcdefghi", "abcdefghij", 2.0 / 3},
		{"abcdefghi", "ABCDEFGHI", 1},
		{"abc  def ghi", "abc def\nghi", 1}, // white space aside
		{"abcdefgh", "zyxwvuts", 0},
		{"ab", "ab", 1}, // shorter than a shingle: one shingle
		{"ab", "ac", 0},
		{"", "", 0},
		{"", "abc", 0},
	}
	for _, tt := range tests {
		if got := newSketch(tt.a).similarity(newSketch(tt.b)); got != tt.want {
			t.Errorf("%q and %q: %v, want %v", tt.a, tt.b, got, tt.want)
		}
	}
}

// TestSketch_estimate checks that the estimate is within four standard errors, and 0.01, of the
// Jaccard similarity of the shingles, counted exactly.
func TestSketch_estimate(t *testing.T) {
	shingles := func(text string) map[string]bool {
		set := map[string]bool{}
		for i := 0; i+shingleLength <= len(text); i++ {
			set[text[i:i+shingleLength]] = true
		}
		return set
	}
	rapid.Check(t, func(t *rapid.T) {
		words := rapid.SliceOfN(rapid.IntRange(0, 999), 100, 300).Draw(t, "words")
		var a, b []string
		for i, w := range words {
			a = append(a, fmt.Sprint("word", w))
			if i%rapid.IntRange(3, 50).Draw(t, "every") != 0 {
				b = append(b, fmt.Sprint("word", w))
			}
		}
		one, two := strings.Join(a, " "), strings.Join(b, " ")
		inBoth := 0
		setA, setB := shingles(one), shingles(two)
		for s := range setA {
			if setB[s] {
				inBoth++
			}
		}
		want := float64(inBoth) / float64(len(setA)+len(setB)-inBoth)
		got := newSketch(one).similarity(newSketch(two))
		if math.Abs(got-want) > 4*math.Sqrt(want*(1-want)/sketchSize)+0.01 {
			t.Fatalf("%v, want %v", got, want)
		}
		if other := newSketch(two).similarity(newSketch(one)); other != got {
			t.Fatalf("%v one way, %v the other", got, other)
		}
	})
}

func TestSimilarDocuments(t *testing.T) {
	d := &similarDocuments{sketches: map[string]sketch{}}
	text := strings.Repeat("The quick brown fox jumps over the lazy dog, and again. ", 3)
	d.sketches["a"] = newSketch(text)
	d.sketches["b"] = newSketch("Something else that has nothing to do with it at all.")
	if id, _ := d.nearest("a", newSketch(text)); id != "" {
		t.Errorf("an item is like itself: %s", id)
	}
	if id, s := d.nearest("c", newSketch(text+"!")); id != "a" || s < 0.9 {
		t.Errorf("%q, %v: want a", id, s)
	}
	d.sketches["a"] = newSketch("Now it says something of its own.")
	if id, _ := d.nearest("c", newSketch(text)); id != "" {
		t.Errorf("%q has changed", id)
	}
}

func BenchmarkNearest(b *testing.B) {
	d := &similarDocuments{sketches: map[string]sketch{}}
	for i := range 10_000 {
		d.sketches[fmt.Sprint(i)] = newSketch(strings.Repeat(fmt.Sprintf("document %d says %x. ", i, i*7919), 40))
	}
	s := newSketch(strings.Repeat("another one altogether, of many words. ", 40))
	for b.Loop() {
		d.nearest("x", s)
	}
}

func BenchmarkSketch(b *testing.B) {
	var text strings.Builder
	for i := range 100_000 {
		fmt.Fprintf(&text, "word%d ", i*7919)
	}
	b.SetBytes(int64(text.Len()))
	for b.Loop() {
		newSketch(text.String())
	}
}
