package langfuse

import (
	"errors"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
)

// fakeServer responds to Probe like a server of one version and mode. health is a response
// body; the other fields are file names in testdata/errors, or empty for a success.
type fakeServer struct {
	health, projects       string
	experiments, oldScores string
}

func (f fakeServer) handler(t *testing.T) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		reply := func(failure, body string) {
			if failure == "" {
				_, _ = w.Write([]byte(body))
				return
			}
			status, _ := strconv.Atoi(failure[:3])
			w.WriteHeader(status)
			_, _ = w.Write(sample(t, "errors/"+failure))
		}
		switch r.URL.Path {
		case "/api/public/health":
			reply("", f.health)
		case "/api/public/projects":
			reply(f.projects, string(sample(t, "projects.json")))
		case "/api/public/experiments":
			if r.FormValue("fromStartTime") == "" {
				reply("400_zod.json", "")
				return
			}
			reply(f.experiments, `{"data":[],"meta":{}}`)
		case "/api/public/v2/scores":
			reply(f.oldScores, `{"data":[],"meta":{"page":1}}`)
		default:
			reply("404_page.html", "")
		}
	}
}

func TestProbe(t *testing.T) {
	version := func(v string) string { return `{"status":"OK","version":"` + v + `"}` }
	for name, test := range map[string]struct {
		server                    fakeServer
		mode                      Mode
		links, versions, scoresV3 bool
		requests                  int
	}{
		"v4":           {fakeServer{health: version("4.16.0"), oldScores: "404_events_only.json"}, ModeEventsOnly, false, true, true, 4},
		"v4 dual":      {fakeServer{health: version("4.16.0")}, ModeDual, true, true, true, 4},
		"v3":           {fakeServer{health: version("3.225.4"), experiments: "404_write_mode.json"}, ModeLegacy, true, true, true, 4},
		"v3, old":      {fakeServer{health: version("3.100.0"), experiments: "404_page.html"}, ModeLegacy, true, false, false, 4},
		"v3, the edge": {fakeServer{health: version("v3.81.0"), experiments: "404_page.html"}, ModeLegacy, true, false, false, 4},
	} {
		client, record := serve(t, test.server.handler(t))
		server, err := client.Probe(t.Context())
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if server.Mode() != test.mode || server.StoresLinks() != test.links || server.DatasetVersions() != test.versions ||
			server.ScoresV3() != test.scoresV3 || server.Project.ID != "p1" || server.Time.IsZero() || len(record.seen()) != test.requests {
			t.Errorf("%s: %+v after %d requests", name, server, len(record.seen()))
		}
	}
}

// TestProbe_gateway checks that Probe repeats a request after a gateway has responded that an
// endpoint is missing. After three such responses the endpoint counts as missing, unless the
// status is 200.
func TestProbe_gateway(t *testing.T) {
	for name, test := range map[string]struct {
		path   string
		status int
		body   string
		times  int
		mode   Mode
		want   string // in the error
	}{
		"dual, once":                  {"v2/scores", 404, "default backend - 404", 1, ModeDual, ""},
		"dual, for ever":              {"v2/scores", 404, "default backend - 404", 9, ModeEventsOnly, ""},
		"dual, a page once":           {"experiments", 404, "<html>", 2, ModeDual, ""},
		"dual, signed out once":       {"experiments", 200, "<html>", 1, ModeDual, ""},
		"dual, signed out":            {"experiments", 200, "<html>", 9, "", "HTML page"},
		"dual, both gone, once":       {"", 404, "no", 3, ModeDual, ""},
		"dual, both gone, by gateway": {"", 404, "no", 99, "", "gateway"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // every case waits between its attempts
			behind := fakeServer{health: `{"status":"OK","version":"4.16.0"}`}.handler(t)
			var left atomic.Int64
			left.Store(int64(test.times))
			client, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
				path := strings.TrimPrefix(r.URL.Path, "/api/public/")
				intercepted := path == test.path || test.path == "" && (path == "experiments" || path == "v2/scores")
				if intercepted && left.Add(-1) >= 0 {
					w.WriteHeader(test.status)
					_, _ = w.Write([]byte(test.body))
					return
				}
				behind(w, r)
			}, func(c *Config) { c.MaxAttempts = 2 })
			server, err := client.Probe(t.Context())
			if test.want != "" {
				if err == nil || !strings.Contains(err.Error(), test.want) || exitCode(err) != 69 {
					t.Errorf("%v", err)
				}
				return
			}
			if err != nil || server.Mode() != test.mode {
				t.Errorf("%s, want %s: %v", server.Mode(), test.mode, err)
			}
		})
	}
}

func TestProbeRefuses(t *testing.T) {
	good := `{"status":"OK","version":"4.16.0"}`
	for name, test := range map[string]struct {
		server fakeServer
		want   string
		is     error
	}{
		"v2":             {fakeServer{health: `{"version":"2.95.1"}`}, "version 2.95.1, but 3.81.0 or later", nil},
		"just too old":   {fakeServer{health: `{"version":"3.80.9"}`}, "upgrade it", nil},
		"no version":     {fakeServer{health: `{"status":"OK"}`}, "names no version", ErrEndpointGone},
		"odd version":    {fakeServer{health: `{"version":"new"}`}, `"new" is not a version`, nil},
		"another site":   {fakeServer{health: `<html>`}, "HTML page", ErrEndpointGone},
		"wrong keys":     {fakeServer{health: good, projects: "401.json"}, "LANGFUSE_SECRET_KEY", ErrUnauthorized},
		"neither world":  {fakeServer{health: good, experiments: "404_write_mode.json", oldScores: "404_events_only.json"}, "neither", ErrEndpointGone},
		"a broken proxy": {fakeServer{health: good, experiments: "502.html"}, "proxy or gateway", nil},
		"rate limited":   {fakeServer{health: good, oldScores: "429.json"}, "429", ErrRateLimited},
	} {
		client, _ := serve(t, test.server.handler(t))
		_, err := client.Probe(t.Context())
		if err == nil || !strings.Contains(err.Error(), test.want) || exitCode(err) != 69 || test.is != nil && !errors.Is(err, test.is) {
			t.Errorf("%s: %v (%d)", name, err, exitCode(err))
		}
	}
}

func TestVersion(t *testing.T) {
	for text, want := range map[string]Version{
		"4.16.0": {4, 16, 0}, "v3.81": {3, 81, 0}, " 3.225.4-rc.1 ": {3, 225, 4}, "4.0.1+build": {4, 0, 1},
	} {
		if got, err := ParseVersion(text); err != nil || got != want {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "4", "4.x.1", "1.2.3.4", "-1.2.3", "4.99999999999.0", "4..0"} {
		if got, err := ParseVersion(text); err == nil {
			t.Errorf("%q was read as %s", text, got)
		}
	}
	v := Version{3, 150, 1}
	for _, low := range []Version{{2, 999, 9}, {3, 149, 9}, {3, 150, 0}, {3, 150, 1}} {
		if !v.AtLeast(low.Major, low.Minor, low.Patch) {
			t.Errorf("%s is not at least %s", v, low)
		}
	}
	for _, high := range []Version{{3, 150, 2}, {3, 151, 0}, {4, 0, 0}} {
		if v.AtLeast(high.Major, high.Minor, high.Patch) {
			t.Errorf("%s is at least %s", v, high)
		}
	}
}

func TestCapabilitiesByVersion(t *testing.T) {
	for _, test := range []struct {
		version                    Version
		schemas, versions, v3score bool
	}{
		{Version{3, 127, 9}, false, false, false},
		{Version{3, 128, 0}, true, false, false},
		{Version{3, 150, 0}, true, false, false},
		{Version{3, 150, 1}, true, true, false},
		{Version{3, 179, 0}, true, true, true},
		{Version{4, 0, 0}, true, true, true},
	} {
		c := Capabilities{Version: test.version}
		if c.DatasetSchemas() != test.schemas || c.DatasetVersions() != test.versions || c.ScoresV3() != test.v3score {
			t.Errorf("%s: %v %v %v", test.version, c.DatasetSchemas(), c.DatasetVersions(), c.ScoresV3())
		}
	}
}

func TestLinks(t *testing.T) {
	const base = "https://host/sub/"
	for got, want := range map[string]string{
		RunURL(base, "p1", "d1", "r1"):           "https://host/sub/project/p1/datasets/d1/runs/r1",
		CompareURL(base, "p1", "d1", "r2", "r1"): "https://host/sub/project/p1/datasets/d1/compare?runs=r2&runs=r1",
		ExperimentsURL(base, "p1"):               "https://host/sub/project/p1/experiments",
	} {
		if got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
