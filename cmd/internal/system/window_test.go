package system

import (
	"testing"

	"extraction-experiment/internal/limit"
	"extraction-experiment/pipeline/provider"
)

// TestWindow: the next run over the same model and host starts with a window that the
// provider limited, or that grew beyond the initial one.
func TestWindow(t *testing.T) {
	t.Chdir(t.TempDir())
	at := func(address string) string {
		return windowKey(provider.Opened{Info: provider.Info{Provider: "openai", Model: "m"}, Address: address})
	}
	run := func(most, answers int, rejected bool) {
		t.Helper()
		a := Model{window: at("http://localhost:1/v1")}
		a.limiter = limit.New(Limits{Concurrency: most}.config(readWindows()[a.window]))
		ended := func(kind limit.Kind) {
			permit, err := a.limiter.Acquire(t.Context(), 0)
			if err != nil {
				t.Fatal(err)
			}
			if err := permit.Done(limit.Result{Kind: kind}); err != nil {
				t.Fatal(err)
			}
		}
		for range answers {
			ended(limit.Answered)
		}
		if rejected {
			ended(limit.Rejected)
		}
		if err := a.saveWindow(); err != nil {
			t.Error(err)
		}
	}
	size := func(want int) {
		t.Helper()
		if got := readWindows()[at("http://localhost:1/v2")].Calls; got != want {
			t.Errorf("%d, want %d", got, want)
		}
	}
	size(0)
	run(4, 30, false)
	size(0) // four were asked for, which says nothing
	run(4, 30, true)
	size(1)
	if got := readWindows()[at("http://other/v1")].Calls; got != 0 {
		t.Errorf("another host begins with %d", got)
	}
	run(4, 5, true)
	size(1) // too few answers
	if err := (Model{}).saveWindow(); err != nil {
		t.Error(err)
	}
}
