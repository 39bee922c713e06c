package runstore

import "testing"

// TestPlace: the place is empty at first, then the last one set, also for a later process.
func TestPlace(t *testing.T) {
	run := newRun(t, 0)
	if place, err := run.Server(t.Context()); place != "" || err != nil {
		t.Errorf("a new run is at %q, %v", place, err)
	}
	for _, place := range []string{"https://one.example", "https://two.example/sub"} {
		noError(t, run.SetServer(t.Context(), place))
	}
	noError(t, run.Close())
	r := mustLoad(t, run.Path())
	if place, err := r.Server(t.Context()); err != nil || place != "https://two.example/sub" {
		t.Errorf("it is at %q, %v", place, err)
	}
}
