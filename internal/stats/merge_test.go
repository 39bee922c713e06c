package stats

import (
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"
)

// sequence yields the values, and then the error if there is one.
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
	gone := errors.New("the disk is gone")
	tests := map[string]struct {
		seqs []iter.Seq2[*int, error]
		want string
	}{
		"no sequences": {nil, ""},
		"what some have is nil at the others": {
			[]iter.Seq2[*int, error]{sequence(nil, 1, 2, 5), sequence(nil), sequence(nil, 2, 3)},
			"1 - - | 2 - 2 | - - 3 | 5 - - | ",
		},
		"an error ends it": {[]iter.Seq2[*int, error]{sequence(gone, 1), sequence(nil, 1, 2)}, "1 1 | the disk is gone"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var got strings.Builder
			for row, err := range Merge(func(a, b *int) int { return *a - *b }, tt.seqs...) {
				if err != nil {
					fmt.Fprint(&got, err)
					break
				}
				for _, v := range row {
					if v == nil {
						got.WriteString("- ")
					} else {
						fmt.Fprint(&got, *v, " ")
					}
				}
				got.WriteString("| ")
			}
			if got.String() != tt.want {
				t.Errorf("got %q, want %q", got.String(), tt.want)
			}
		})
	}
}
