package connect

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"extraction-experiment/langfuse"
)

// silent accepts requests and never answers.
type silent struct{}

func (silent) RoundTrip(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

// TestProbe_silent: a person waits for 8 s twice and a pause between, no longer, also
// with a mode that is insisted on.
func TestProbe_silent(t *testing.T) {
	for _, mode := range []langfuse.Mode{"", langfuse.ModeLegacy} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			_, err := dial(t.Context(), langfuse.Config{
				BaseURL: "http://silent", PublicKey: "pk-lf-x", SecretKey: langfuse.NewSecret("sk-lf-x"), HTTPClient: &http.Client{Transport: silent{}},
			}, mode, nil)
			if waited := time.Since(began); waited < 16*time.Second || waited > 17*time.Second {
				t.Errorf("mode %q: waited %s", mode, waited)
			}
			if err == nil || !strings.Contains(err.Error(), "/health: no answer from http://silent: no complete answer within 8s (sent 2 times)") {
				t.Errorf("mode %q: %v", mode, err)
			}
		})
	}
}
