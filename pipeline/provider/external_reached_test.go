package provider

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

// TestExternal_Reached checks that an error status means that the pipeline was reached, and a
// refused connection that it was not.
func TestExternal_Reached(t *testing.T) {
	hs := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusInternalServerError) }))
	defer hs.Close()
	for target, want := range map[string]bool{hs.URL: true, "http://127.0.0.1:1/": false} {
		a, err := NewExternal(ExternalConfig{Target: target})
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := a.Ask(t.Context(), nil); err == nil || a.Reached() != want {
			t.Errorf("%s: reached %v, %v", target, a.Reached(), err)
		}
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	}
}
