package embedded

import (
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// TestServer_startRemoteRun checks that the request has the method, headers and body that Langfuse
// sends, and what is refused.
func TestServer_startRemoteRun(t *testing.T) {
	r := newTestServer(t, Config{})
	id, _ := r.must(200, r.post(api+"/v2/datasets", object{"name": "team/gold"})).at("id").(string)
	var got *http.Request
	var body string
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		raw, err := io.ReadAll(req.Body)
		if err != nil {
			t.Error(err)
		}
		got, body = req, string(raw)
		if req.URL.Path == "/moved" {
			http.Redirect(w, req, "/", http.StatusTemporaryRedirect)
			return
		}
		w.WriteHeader(http.StatusAccepted)
		_, _ = io.WriteString(w, "run x: waiting\n")
	}))
	defer receiver.Close()
	startRun := func(extra object) answer {
		request := object{"url": receiver.URL + "/trigger"}
		maps.Copy(request, extra)
		return r.post("/api/embedded/datasets/team%2Fgold/run", request)
	}
	a := r.must(200, startRun(object{"secret": "lf-whsec_x", "payload": `{"model": "a<b"}`}))
	equal(t, "status", a.at("status"), float64(202))
	equal(t, "answer", a.at("answer"), "run x: waiting\n")
	equal(t, "body", strings.Replace(body, id, "ID", 1), `{"projectId":"embedded","datasetId":"ID","datasetName":"team/gold","payload":"{\"model\": \"a<b\"}"}`)
	equal(t, "what is asked for", got.Method+" "+got.URL.Path, "POST /trigger")
	for name, want := range map[string]string{"Content-Type": "application/json", "User-Agent": "Langfuse/1.0", "Authorization": ""} {
		equal(t, name, got.Header.Get(name), want)
	}
	equal(t, "signature", len(got.Header.Get("X-Langfuse-Signature")), len("t=1795435200,v1=")+64)
	r.must(200, startRun(nil))
	equal(t, "no signature", got.Header.Values("X-Langfuse-Signature"), []string(nil))
	equal(t, "no payload", strings.HasSuffix(body, `"payload":""}`), true)

	// Redirects are not followed, and no request goes to another machine.
	equal(t, "moved", r.must(200, startRun(object{"url": receiver.URL + "/moved"})).at("status"), float64(307))
	for url, want := range map[string]string{"http://192.0.2.7/": "192.0.2.7:80 is not an address of this machine", "http://[2001:db8::1]:80/": "is not an address of this machine",
		"ftp://127.0.0.1/": "unsupported protocol", "://": "missing protocol", "http://127.0.0.1:1/": "refused"} {
		startRun(object{"url": url}).expect(t, url, 400, want)
	}
	equal(t, "an unknown key", startRun(object{"colour": 1}).status, 400)
	equal(t, "no dataset", r.post("/api/embedded/datasets/none/run", object{"url": receiver.URL}).status, 404)
	r.must(400, r.post("/api/embedded/datasets/team%2Fgold/run", object{}))
}

// TestServer_remoteRequest compares the signature with that of printf '<t>.<body>' | openssl dgst
// -sha256 -hmac lf-whsec_x.
func TestServer_remoteRequest(t *testing.T) {
	r := newTestServer(t, Config{})
	r.clock.ms.Store(time.Unix(1795435200, 0).UnixMilli())
	request, err := r.server.remoteRequest(t.Context(), dataset{id: "i", name: "d"}, "http://127.0.0.1/", "lf-whsec_x", "{}")
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "signature", request.Header.Get("X-Langfuse-Signature"), "t=1795435200,v1=fae14776c59ac33abb391a30f9b06aef921e668766fdb193a28983df5e09f5ba")
}
