package secret

import "testing"

func TestMask(t *testing.T) {
	long, short := New("sk-0123456789abcdef"), New("dummy-model")
	for in, want := range map[string]string{
		"a dummy-model said sk-0123456789abcdef twice: sk-0123456789abcdef": "a dummy-model said *** twice: ***",
		"nothing": "nothing",
		"":        "",
	} {
		if got := string(Mask([]byte(in), long, short)); got != want {
			t.Errorf("%q became %q, want %q", in, got, want)
		}
	}
}
