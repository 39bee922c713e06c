package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/testkit/suite"
	"extraction-experiment/outcome"
	"extraction-experiment/runstore"
)

// gateway is a proxy before an embedded Langfuse that goes down while a run is published. It
// forwards the first request to a path but loses the response, the worst case for a sender, and
// refuses all later requests.
type gateway struct {
	behind http.Handler
	upon   string
	armed  atomic.Bool // the next request to the path upon is the last
	down   atomic.Bool
	lost   atomic.Int32 // number of lost responses
}

func (g *gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if strings.HasSuffix(r.URL.Path, g.upon) && g.armed.CompareAndSwap(true, false) {
		g.down.Store(true)
		g.behind.ServeHTTP(httptest.NewRecorder(), r)
		g.lost.Add(1)
	}
	if g.down.Load() {
		w.Header().Set("Retry-After", "0.001") // keeps the test fast
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	g.behind.ServeHTTP(w, r)
}

// TestCrash_langfuseDown loses Langfuse at each stage of publication. The run goes on to its
// end, and publish sends the rest once.
func TestCrash_langfuseDown(t *testing.T) {
	t.Parallel()
	for stage, upon := range map[string]string{"link": "/dataset-run-items", "spans": "/otel/v1/traces", "scores": "/ingestion"} {
		t.Run(stage, func(t *testing.T) {
			if stage != "spans" {
				suite.Slow(t, "as with spans")
			}
			t.Parallel()
			testLangfuseDown(t, upon)
		})
	}
}

func testLangfuseDown(t *testing.T, upon string) {
	const n = 24
	front := &gateway{upon: upon}
	_, client := startLangfuse(t, "", func(langfuse http.Handler) http.Handler {
		front.behind = langfuse
		return front
	})
	seedItems(t, client, "made", makeItems(n, 500))
	front.armed.Store(true)

	f := newFolder(t, langfuseEnv(client.BaseURL())...)
	c := f.run(t, cli.ExitUnavailable, "--dataset", "made", "--name", "r", "--concurrency", "2", "--max-failures", "1")
	if front.lost.Load() != 1 {
		t.Fatalf("Langfuse never went down upon %s\n%s", upon, &c.stderr)
	}
	if !strings.Contains(c.stderr.String(), "scored and not published") {
		t.Errorf("standard error does not say what is missing:\n%s", &c.stderr)
	}
	path := f.runFile("made", "r")
	checkComplete(t, path, n)

	front.down.Store(false)
	f.run(t, 0, "publish", "r")
	f.run(t, 0, "publish", "r") // a repetition has nothing to send
	checkLangfuse(t, client, path)
}

// checkComplete checks that every item has an outcome and that none is published.
func checkComplete(t *testing.T, path string, n int) {
	t.Helper()
	r, err := runstore.Load(path)
	must(t, err)
	defer func() { must(t, r.Close()) }()
	footer, ended, err := r.Footer(t.Context())
	must(t, err)
	if !ended || footer.Status != outcome.Complete {
		t.Errorf("the run has the footer %+v (%v)", footer, ended)
	}
	if counts := countsOf(t, path); counts.Done != int64(n) || counts.Published != 0 {
		t.Errorf("%d of %d items are done, %d published", counts.Done, n, counts.Published)
	}
}
