package printable

import "testing"

func TestCounted(t *testing.T) {
	for want, got := range map[string]string{
		"0 cases": Counted(0, "case"), "1 case": Counted(1, "case"), "2 cases": Counted(int64(2), "case"), "-1 cases": Counted(-1, "case"),
		"1 category": Counted(1, "category"), "2 categories": Counted(2, "category"),
		"1 miss": Counted(1, "miss"), "0 misses": Counted(0, "miss"),
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
