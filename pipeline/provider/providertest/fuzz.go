package providertest

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"extraction-experiment/pipeline"
)

// Fuzz is the property that whatever a server answers, with any status, kind
// and body, the call returns a Response with text or a reason, or an error with
// a ModelError; the key never shows. Open is given the HTTP client to use.
func Fuzz(f *testing.F, open func(t testing.TB, client *http.Client) pipeline.Model, wire Wire) {
	add := func(status int, body string) { f.Add(status, "application/json", "5", []byte(body)) }
	for _, body := range []string{wire.Answer("text"), wire.Cut(""), wire.Error("reason"), "", "null", "{}", "[]", `{"error":"x"}`} {
		for _, status := range []int{200, 400, 429, 500} {
			add(status, body)
		}
	}
	for _, bodies := range []map[string]string{wire.Refused, wire.Empty} {
		for _, body := range bodies {
			add(200, body)
		}
	}
	f.Add(502, "text/html", "Wed, 04 Mar 2026 05:08:07 GMT", []byte("<html>"))
	var answer http.Response
	client := &http.Client{Transport: roundTrip(func(req *http.Request) (*http.Response, error) {
		copied := answer
		copied.Request = req
		return &copied, nil
	})}
	model := open(f, client)
	f.Fuzz(func(t *testing.T, status int, kind, after string, body []byte) {
		answer = http.Response{
			StatusCode: 100 + ((status-100)%900+900)%900, ProtoMajor: 1, ProtoMinor: 1,
			Header: http.Header{"Content-Type": {kind}, "Retry-After": {after}},
			Body:   io.NopCloser(strings.NewReader(string(body))),
		}
		got, err := model.Generate(t.Context(), request("hello"))
		if err != nil {
			failure(t, err)
			return
		}
		if got.Attempts != 1 || got.Finish == "" || got.Text == "" && got.Finish != pipeline.FinishLength && got.Finish != pipeline.FinishRefused {
			t.Errorf("got %+v", got)
		}
		if u := got.Usage; min(u.Input, u.Output, u.Cached, u.Reasoning) < 0 || u.Cached > u.Input || u.Reasoning > u.Output {
			t.Errorf("usage %+v", u)
		}
	})
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }
