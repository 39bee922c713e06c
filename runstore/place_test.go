package runstore_test

import (
	"path/filepath"
	"testing"

	"extraction-experiment/outcome"
	"extraction-experiment/runstore"
)

// TestPlace: the place is empty at first, then the last one set, also for a later process.
func TestPlace(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r.run")
	run, err := runstore.Create(path, outcome.Header{Name: "r", RunUID: "u", Trials: 1})
	if err != nil {
		t.Fatal(err)
	}
	if place, err := run.Place(t.Context()); place != "" || err != nil {
		t.Errorf("a new run is at %q, %v", place, err)
	}
	for _, place := range []string{"https://one.example", "https://two.example/sub"} {
		if err := run.SetPlace(t.Context(), place); err != nil {
			t.Fatal(err)
		}
	}
	if err := run.Close(); err != nil {
		t.Fatal(err)
	}
	reader, err := runstore.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	place, err := reader.Place(t.Context())
	if err != nil || place != "https://two.example/sub" {
		t.Errorf("it is at %q, %v", place, err)
	}
	if err := reader.Close(); err != nil {
		t.Error(err)
	}
}
