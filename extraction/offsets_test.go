package extraction

import (
	"strings"
	"testing"
	"unicode/utf16"
)

func TestOffsets(t *testing.T) {
	// a: 1 byte, 1 unit; é: 2, 1; 😀: 4, 2; e + U+0301: 1+2, 1+1; 中: 3, 1
	text := "aé😀e\u0301中"
	rows := [][3]int{{0, 0, 0}, {1, 1, 1}, {2, 2, 3}, {3, 4, 7}, {4, 5, 8}, {5, 6, 10}, {6, 7, 13}}
	o := NewOffsets(text)
	for _, row := range rows {
		for _, from := range []Unit{CodePoints, UTF16, Bytes} {
			for _, to := range []Unit{CodePoints, UTF16, Bytes} {
				if got, ok := o.Convert(row[from], from, to); !ok || got != row[to] {
					t.Errorf("%d in %d is %d %v in %d, want %d", row[from], from, got, ok, to, row[to])
				}
			}
		}
	}
	for _, invalid := range []struct {
		n    int
		unit Unit
	}{{3, UTF16}, {2, Bytes}, {4, Bytes}, {12, Bytes}, {-1, CodePoints}, {7, CodePoints}, {8, UTF16}, {14, Bytes}} {
		if got, ok := o.Convert(invalid.n, invalid.unit, CodePoints); ok {
			t.Errorf("%d in %d is %d", invalid.n, invalid.unit, got)
		}
	}
	if o.Len(CodePoints) != 6 || o.Len(UTF16) != 7 || o.Len(Bytes) != 13 {
		t.Error("wrong lengths")
	}
	if s, ok := o.Slice(2, 5); !ok || s != "😀e\u0301" {
		t.Errorf("Slice gave %q %v", s, ok)
	}
	if _, ok := o.Slice(5, 2); ok {
		t.Error("Slice took an end before the start")
	}
}

// TestOffsets_long compares with the standard library over many stored positions.
func TestOffsets_long(t *testing.T) {
	text := strings.Repeat("aé😀e\u0301中\U0001F1E9", 200)
	o := NewOffsets(text)
	n := 0
	for at := range text {
		units := len(utf16.Encode([]rune(text[:at])))
		if got, ok := o.Convert(units, UTF16, CodePoints); !ok || got != n {
			t.Fatalf("UTF-16 %d is %d, want %d", units, got, n)
		}
		if got, ok := o.Convert(n, CodePoints, Bytes); !ok || got != at {
			t.Fatalf("code point %d is byte %d, want %d", n, got, at)
		}
		n++
	}
}

func FuzzOffsets(f *testing.F) {
	f.Add("aé😀\xff", 2)
	f.Fuzz(func(t *testing.T, text string, n int) {
		o := NewOffsets(text)
		for _, from := range []Unit{CodePoints, UTF16, Bytes} {
			for _, to := range []Unit{CodePoints, UTF16, Bytes} {
				converted, ok := o.Convert(n, from, to)
				if back, ok2 := o.Convert(converted, to, from); ok && (!ok2 || back != n) {
					t.Fatalf("%d became %d and then %d", n, converted, back)
				}
			}
		}
	})
}
