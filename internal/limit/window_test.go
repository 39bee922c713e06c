package limit

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestWindow_bounds checks that the window always stays within its bounds, and allows at least one
// call and at most the configured number.
func TestWindow_bounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		most := rapid.IntRange(1, 100).Draw(t, "most")
		w := window{size: 1, maxSize: float64(most), starting: true, hold: minHold, peak: -1}
		now := time.Unix(0, 0)
		for range rapid.IntRange(0, 300).Draw(t, "events") {
			took := time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "took"))
			began := now
			now = now.Add(took)
			others := rapid.IntRange(0, most).Draw(t, "others")
			before := w.size
			if rapid.Bool().Draw(t, "answered") {
				w.answered(now, began, others, rapid.Bool().Draw(t, "holds back"))
				if w.size < before {
					t.Fatalf("an answer made %v of %v", w.size, before)
				}
			} else {
				w.rejected(now, others, took)
				if w.size >= before && before > minWindow {
					t.Fatalf("a rejection made %v of %v", w.size, before)
				}
			}
			if w.size < minWindow || w.size > float64(most) || w.slots() < 1 || w.slots() > most || w.gap() < 0 {
				t.Fatalf("size %v, slots %d, gap %s", w.size, w.slots(), w.gap())
			}
		}
	})
}

// TestWindow_arithmetic checks that a window of 9 shrinks to 8 if a call is rejected while 8 others
// are in progress, and that later it grows again and detects that the provider limits the rate.
func TestWindow_arithmetic(t *testing.T) {
	w := window{size: 9, maxSize: 32, starting: true, hold: minHold, peak: 7}
	now := time.Unix(100, 0)
	w.rejected(now, 8, time.Second)
	// 8/9 lies between 0.7 and 0.9.
	if w.size != 8 || w.rateLimited || w.slots() != 8 || w.hold != 10 {
		t.Errorf("%+v", w)
	}
	for range 10 { // the window does not grow within the hold
		w.answered(now.Add(time.Second), now, 7, true)
	}
	if w.size != 8 || w.latency != time.Second {
		t.Errorf("grew to %v within the hold; latency %s", w.size, w.latency)
	}
	if w.gap() != time.Second/16 { // half of a second per 8 calls
		t.Errorf("gap %s", w.gap())
	}
	w.answered(now.Add(9*time.Second), now.Add(8*time.Second), 7, true)
	if w.size != 8 {
		t.Error("grew within ten times the pause that was asked for")
	}
	w.answered(now.Add(10*time.Second), now.Add(9*time.Second), 7, true)
	if w.size != 8+1.0/8 {
		t.Errorf("grew to %v", w.size)
	}
	w.rejected(now.Add(20*time.Second), 6, 0) // a call beside 7 others was answered, so the rate is limited
	if !w.rateLimited || w.size != (8+1.0/8)*maxKeep || w.gap() != time.Duration(float64(time.Second)/w.size) {
		t.Errorf("%+v, gap %s", w, w.gap())
	}
}
