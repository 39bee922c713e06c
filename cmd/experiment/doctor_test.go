package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"extraction-experiment/internal/cli"
	"extraction-experiment/langfuse"
)

// langfuseLike answers the requests of doctor like a server of a version.
type langfuseLike struct {
	version        string
	ahead          time.Duration
	reads          map[string]bool // keys: experiments, v2/scores
	refuseKeys     bool
	everythingHTML bool
	projectName    string
}

func (l langfuseLike) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Date", time.Now().Add(l.ahead).UTC().Format(http.TimeFormat))
	path := strings.TrimPrefix(r.URL.Path, "/api/public/")
	switch {
	case l.everythingHTML:
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write([]byte("<!doctype html><title>Welcome</title>"))
	case path == "health":
		_ = json.NewEncoder(w).Encode(map[string]string{"status": "OK", "version": l.version})
	case l.refuseKeys:
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = w.Write([]byte(`{"message":"Invalid credentials. Confirm that you've configured the correct host."}`))
	case path == "projects":
		_ = json.NewEncoder(w).Encode(map[string]any{"data": []any{map[string]string{"id": "p1", "name": l.projectName}}})
	case l.reads[path]:
		_, _ = w.Write([]byte(`{"data":[],"meta":{}}`))
	default:
		w.WriteHeader(http.StatusNotFound)
		_, _ = w.Write([]byte(`{"message":"This endpoint is only available in a Langfuse v4 write mode","error":"LangfuseNotFoundError"}`))
	}
}

func TestDoctor(t *testing.T) {
	both, old := map[string]bool{"experiments": true, "v2/scores": true}, map[string]bool{"v2/scores": true}
	for name, test := range map[string]struct {
		server langfuseLike
		code   int
		want   []string
	}{
		"v4 dual": {langfuseLike{version: "4.16.0", reads: both}, cli.ExitOK, []string{"mode ok dual: runs are shown as experiments and as runs", "limits ok"}},
		"v3":      {langfuseLike{version: "3.225.4", reads: old}, cli.ExitOK, []string{"mode ok legacy: runs are shown as runs of their dataset", "limits ok"}},
		"old v3": {langfuseLike{version: "3.100.0", reads: old}, cli.ExitOK,
			[]string{"limits note before 3.150.1 a dataset cannot be pinned", "before 3.128", "before 3.179", "upgrade Langfuse"}},
		"too old":            {langfuseLike{version: "3.80.0", reads: old}, cli.ExitUnavailable, []string{"server problem", "version 3.80.0, but 3.81.0 or later is needed"}},
		"v2":                 {langfuseLike{version: "2.95.0"}, cli.ExitUnavailable, []string{"version 2.95.0, but 3.81.0 or later is needed: upgrade it"}},
		"wrong keys":         {langfuseLike{version: "4.16.0", refuseKeys: true}, cli.ExitUnavailable, []string{"server problem", "check that LANGFUSE_PUBLIC_KEY and LANGFUSE_SECRET_KEY belong to a project on"}},
		"another site":       {langfuseLike{everythingHTML: true}, cli.ExitUnavailable, []string{"server problem", "answered with an HTML page", "check LANGFUSE_BASE_URL"}},
		"a clock behind":     {langfuseLike{version: "4.16.0", reads: both, ahead: time.Hour}, cli.ExitOK, []string{"clock note this machine and the server differ by ", "correct the clock"}},
		"a clock ahead":      {langfuseLike{version: "4.16.0", reads: both, ahead: -time.Hour}, cli.ExitOK, []string{"this machine and the server differ by "}},
		"a hostile project":  {langfuseLike{version: "4.16.0", reads: both, projectName: "a\x1b[2Jb\nserver   ok"}, cli.ExitOK, []string{`project ok a\x1b[2Jb server ok (p1)`}},
		"neither of the two": {langfuseLike{version: "4.16.0"}, cli.ExitUnavailable, []string{"neither the reads of v3 nor those of v4"}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			server := httptest.NewServer(test.server)
			defer server.Close()
			values := map[string]string{langfuse.EnvPublicKey: "pk-lf-1", langfuse.EnvSecretKey: "sk-lf-verysecret", langfuse.EnvBaseURL: server.URL, "OPENAI_API_KEY": "sk-alsosecret"}
			code, stdout, stderr := b.with(values, "doctor")
			words := strings.Join(strings.Fields(stdout), " ")
			for _, want := range test.want {
				if !strings.Contains(words, want) {
					t.Errorf("%q is missing in\n%s", want, stdout)
				}
			}
			if all := stdout + stderr; code != test.code || strings.Contains(all, "secret") || strings.Contains(all, "\x1b") {
				t.Errorf("exit %d, want %d\n%s", code, test.code, all)
			}
		})
	}
}

// doctor sends a model one short request and ignores the answer.
func TestDoctorAsksTheModel(t *testing.T) {
	for name, test := range map[string]struct {
		status int
		body   string
		code   int
		want   string
	}{
		"answers":   {http.StatusOK, `{"model":"gpt-x-2026","choices":[{"message":{"role":"assistant","content":"fine"},"finish_reason":"stop"}],"usage":{"prompt_tokens":9,"completion_tokens":1,"total_tokens":10}}`, cli.ExitOK, "model ok openai/gpt-x (gpt-x-2026) answers, after"},
		"wrong key": {http.StatusUnauthorized, `{"error":{"message":"Incorrect API key provided: sk-also****cret.","code":"invalid_api_key"}}`, cli.ExitUnavailable, "model problem openai/gpt-x does not answer"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			asked := 0
			model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				asked++
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(test.status)
				_, _ = w.Write([]byte(test.body))
			}))
			defer model.Close()
			values := map[string]string{"OPENAI_API_KEY": "sk-alsosecret", "OPENAI_BASE_URL": model.URL}
			code, stdout, stderr := b.with(values, "doctor", "-m", "openai/gpt-x")
			words := strings.Join(strings.Fields(stdout), " ")
			if code != test.code || !strings.Contains(words, test.want) || asked != 1 || strings.Contains(words, "alsosecret") {
				t.Errorf("exit %d after %d requests\n%s%s", code, asked, stdout, stderr)
			}
		})
	}
}
