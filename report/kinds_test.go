package report

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestKinds(t *testing.T) {
	first := func(s string) string { return s[:1] }
	for name, tt := range map[string]struct {
		groups []string
		want   [][]string
	}{
		"none":    {nil, nil},
		"one":     {[]string{"a1"}, [][]string{{"a1"}}},
		"several": {[]string{"a1", "a2", "b1", "c1", "c2"}, [][]string{{"a1", "a2"}, {"b1"}, {"c1", "c2"}}},
	} {
		if diff := cmp.Diff(tt.want, kinds(tt.groups, first)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}
