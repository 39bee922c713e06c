package stats

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
)

// sequence yields the values, and then the error if it is not nil.
func sequence(err error, values ...int) iter.Seq2[*int, error] {
	return func(yield func(*int, error) bool) {
		for _, v := range values {
			if !yield(&v, nil) {
				return
			}
		}
		if err != nil {
			yield(nil, err)
		}
	}
}

func TestMerge(t *testing.T) {
	diskError := errors.New("the disk is gone")
	tests := map[string]struct {
		seqs []iter.Seq2[*int, error]
		want string
	}{
		"no sequences": {nil, ""},
		"what some have is nil at the others": {
			[]iter.Seq2[*int, error]{sequence(nil, 1, 2, 5), sequence(nil), sequence(nil, 2, 3)},
			"1 - - | 2 - 2 | - - 3 | 5 - - | ",
		},
		"an error ends it": {[]iter.Seq2[*int, error]{sequence(diskError, 1), sequence(nil, 1, 2)}, "1 1 | the disk is gone"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var got strings.Builder
			for row, err := range Merge(func(a, b *int) int { return *a - *b }, tt.seqs...) {
				if err != nil {
					fmt.Fprint(&got, err)
				}
				for _, v := range row {
					if v == nil {
						got.WriteString("- ")
					} else {
						fmt.Fprint(&got, *v, " ")
					}
				}
				if err == nil {
					got.WriteString("| ")
				}
			}
			if got.String() != tt.want {
				t.Errorf("got %q, want %q", got.String(), tt.want)
			}
		})
	}
}

// TestParallel checks that results are in the order of the values, up to the first error, and
// that no work continues after the loop.
func TestParallel(t *testing.T) {
	diskError := errors.New("the disk is gone")
	hundred := make([]int, 100)
	for i := range hundred {
		hundred[i] = i
	}
	endless := func(yield func(*int, error) bool) {
		for yield(&hundred[0], nil) {
		}
	}
	tests := map[string]struct {
		atOnce    int
		values    iter.Seq2[*int, error]
		bad, stop int
		want      int // results before the end
		err       error
	}{
		"all":                    {values: sequence(nil, hundred...), bad: -1, stop: -1, want: 100},
		"one at a time":          {atOnce: 1, values: sequence(nil, hundred...), bad: -1, stop: -1, want: 100},
		"five at once":           {atOnce: 5, values: sequence(nil, hundred...), bad: -1, stop: -1, want: 100},
		"none":                   {values: sequence(nil), bad: -1, stop: -1},
		"values that break off":  {values: sequence(diskError, hundred[:7]...), bad: -1, stop: -1, want: 7, err: diskError},
		"one that fails":         {values: sequence(nil, hundred...), bad: 5, stop: -1, want: 5, err: errBad},
		"a loop that stops":      {values: endless, bad: -1, stop: 3, want: 3},
		"one that fails at once": {values: sequence(diskError, hundred...), bad: 0, stop: -1, err: errBad},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var working atomic.Int32
			double := func(v *int) (int, error) {
				defer working.Add(-1)
				if n := int(working.Add(1)); n > cmp.Or(tt.atOnce, runtime.GOMAXPROCS(0)) {
					t.Errorf("%d at once", n)
				}
				for range (100 - *v) * 100 { // the first values take longest
					runtime.Gosched()
				}
				if *v == tt.bad {
					return 0, errBad
				}
				return 2 * *v, nil
			}
			n, failed := 0, error(nil)
			for got, err := range Parallel(tt.atOnce, tt.values, double) {
				if failed != nil {
					t.Errorf("%d, %v after %v", got, err, failed)
				}
				if n == tt.stop {
					break
				}
				if failed = err; err != nil {
					continue // the sequence ends by itself
				}
				if tt.stop < 0 && got != 2*n {
					t.Fatalf("result %d is %d, want %d", n, got, 2*n)
				}
				n++
			}
			if n != tt.want || !errors.Is(failed, tt.err) || failed != nil && tt.err == nil {
				t.Errorf("%d results and %v, want %d and %v", n, failed, tt.want, tt.err)
			}
			if left := working.Load(); left != 0 {
				t.Errorf("%d still work", left)
			}
		})
	}
}

// TestParallel_panics checks that a panic of do is raised in the loop.
func TestParallel_panics(t *testing.T) {
	defer func() {
		if p := fmt.Sprint(recover()); !strings.Contains(p, "a fault") || !strings.Contains(p, "sequence_test.go") {
			t.Errorf("%s: want the panic and where it was", p)
		}
	}()
	for range Parallel(0, sequence(nil, 1, 2, 3), func(*int) (int, error) { panic("a fault") }) {
	}
	t.Error("the loop has ended")
}

var errBad = errors.New("a bad value")
