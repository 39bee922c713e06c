package embedded

import (
	"net/http/httptest"
	"net/url"
	"testing"

	"extraction-experiment/internal/textutil"
)

// FuzzQuery checks that every query is answered with status 200 or 400.
func FuzzQuery(f *testing.F) {
	s := openServer(f, Config{Mode: ModeV4Dual})
	err := s.enqueue(0, "events", []byte(`[
		{"id":"1","type":"trace-create","timestamp":"2026-11-21T03:00:00Z","body":{"id":"t","tags":["a"],"metadata":{"k":"v"}}},
		{"id":"3","type":"score-create","timestamp":"2026-11-21T03:00:00Z","body":{"id":"x","name":"n","value":1,"traceId":"t"}}]`))
	if err != nil {
		f.Fatal(err)
	}
	for _, query := range []string{`filter=[{"type":"numberObject","column":"scores_avg","key":"n","operator":">=","value":1}]`,
		`filter=[{"type":"stringObject","column":"metadata","key":"k","operator":"ends with","value":"v"}]`, "tags=a&limit=1&page=2",
		`filter=[{"type":"arrayOptions","column":"tags","operator":"all of","value":["a","b"]}]`, "value=1&dataType=NUMERIC&cursor=e30",
		`filter=[{"type":"datetime","column":"timestamp","operator":"<","value":"2020-01-01"}]`, "orderBy=latency.asc&fields=core",
		"fromTimestamp=9999-12-31T23:59:59Z&name=%00", `filter=[{"type":"null","column":"userId","operator":"is null"}]`} {
		f.Add(query)
	}
	f.Fuzz(func(t *testing.T, query string) {
		values, err := url.ParseQuery(query)
		if err != nil {
			return
		}
		for _, path := range []string{"/traces", "/v2/observations", "/v2/scores", "/v3/scores"} {
			req := httptest.NewRequest("GET", "http://localhost"+api+path+"?"+values.Encode(), nil)
			req.SetBasicAuth(DefaultPublicKey, DefaultSecretKey)
			res := httptest.NewRecorder()
			s.Handler().ServeHTTP(res, req)
			if res.Code != 200 && res.Code != 400 {
				t.Errorf("%s?%s: %d %s", path, values.Encode(), res.Code, textutil.Cut(res.Body.String(), 300))
			}
		}
	})
}
