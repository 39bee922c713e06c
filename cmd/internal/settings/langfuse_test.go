package settings

import (
	"database/sql"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"extraction-experiment/experiment"
	"extraction-experiment/internal/cli"
	"extraction-experiment/langfuse"
	"extraction-experiment/langfuse/embedded"
	"extraction-experiment/tracking"
)

// silent accepts requests and never answers.
type silent struct{}

func (silent) RoundTrip(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

// TestProbe_silent: the probe waits twice 8 s with a pause between, also with a required mode.
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

// busy answers every request with 429.
type busy struct{ retryAfter string }

func (b busy) RoundTrip(*http.Request) (*http.Response, error) {
	header := http.Header{"Retry-After": {b.retryAfter}}
	return &http.Response{StatusCode: http.StatusTooManyRequests, Header: header, Body: http.NoBody}, nil
}

// TestProbe_busy: a line tells of the pauses between five tries, unless they are short: one in half a minute.
func TestProbe_busy(t *testing.T) {
	for retryAfter, want := range map[string]int{"40": 4, "2": 1, "1": 0} {
		synctest.Test(t, func(t *testing.T) {
			var out strings.Builder
			pause, _ := time.ParseDuration(retryAfter + "s")
			waiting := "waiting for Langfuse, asked again at " + time.Now().Add(pause).Format(time.TimeOnly) + ": langfuse: GET /"
			_, err := dial(t.Context(), langfuse.Config{
				BaseURL: "http://busy", PublicKey: "pk-lf-x", SecretKey: langfuse.NewSecret("sk-lf-x"), OnRetry: noteWaits(&out),
				HTTPClient: &http.Client{Transport: busy{retryAfter}}, Jitter: func() float64 { return 0 },
			}, "", nil)
			if err == nil || strings.Count(out.String(), "\n") != want || strings.Contains(out.String(), waiting) != (want > 0) {
				t.Errorf("Retry-After %s: %v, %q", retryAfter, err, &out)
			}
		})
	}
}

// connect connects to a server behind a handler until the test ends.
func connect(t *testing.T, server *embedded.Server, handler http.Handler) *Langfuse {
	t.Helper()
	hs := httptest.NewServer(handler)
	l, err := dial(t.Context(), embeddedConfig(hs.URL), "", nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		hs.Close()
		if err := errors.Join(l.Close(), server.Close()); err != nil {
			t.Error(err)
		}
	})
	return l
}

// TestProbe_waits: the probe does not wait until the embedded server has processed all spans of
// the last run.
func TestProbe_waits(t *testing.T) {
	path := filepath.Join(t.TempDir(), "langfuse.db")
	server, err := embedded.Open(embedded.Config{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	store, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	waiting := func() (n int) {
		if err := store.QueryRow("SELECT count(*) FROM inbox").Scan(&n); err != nil {
			t.Error(err)
		}
		return n
	}
	l := connect(t, server, server.Handler())
	now := time.Now()
	span := langfuse.Span{
		TraceID: strings.Repeat("1", 32), SpanID: strings.Repeat("1", 16), Name: "item", Start: now.Add(time.Hour), End: now.Add(2 * time.Hour),
		Attributes: []langfuse.Attribute{langfuse.TextAttribute("langfuse.experiment.id", "e")},
	}
	if err := l.Client.ExportSpans(t.Context(), langfuse.Scope{Name: "test"}, []langfuse.Span{span}); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Client.Probe(t.Context()); err != nil || waiting() != 1 {
		t.Errorf("%d messages wait after the probe (%v)", waiting(), err)
	}
	for _, err := range l.Client.ListExperiments(t.Context(), now) {
		if err != nil {
			t.Error(err)
		}
	}
	if waiting() != 0 {
		t.Errorf("%d messages wait though experiments were listed", waiting())
	}
}

// TestFindRunning_silent: address files whose server does not answer.
func TestFindRunning_silent(t *testing.T) {
	t.Chdir(t.TempDir())
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	noServer := "http://" + listener.Addr().String()
	broken := httptest.NewServer(http.NotFoundHandler())
	defer broken.Close()
	if err := errors.Join(listener.Close(), MakeFolder()); err != nil {
		t.Fatal(err)
	}
	note := func(url string, pid int) string { return fmt.Sprintf(`{"url":%q,"pid":%d,"mode":"v3"}`, url, pid) }
	const gone = 1<<31 - 1 // no process has this ID
	for _, tt := range []struct {
		name, note string
		storeOpen  bool // a process has the store open
		code       int
		mode       embedded.Mode
	}{
		{name: "no note"},
		{"killed", note(broken.URL, gone), true, 0, embedded.ModeV3},
		{"another process has the number", note(broken.URL, os.Getpid()), false, 0, embedded.ModeV3},
		{"and a command has the store", note(noServer, os.Getpid()), true, 0, embedded.ModeV3},
		{"busy", note(broken.URL, os.Getpid()), true, cli.ExitUnavailable, ""},
		{"another machine", note("http://192.0.2.7:4711", os.Getpid()), false, cli.ExitUsage, ""},
		{"a name", note("http://localhost:4711", gone), false, cli.ExitUsage, ""},
		{"a user", note("http://127.0.0.1:80@192.0.2.7:80", gone), false, cli.ExitUsage, ""},
		{"another mode", strings.Replace(note(noServer, gone), "v3", "v2", 1), false, cli.ExitUsage, ""},
		{"half a note", `{"url":`, false, cli.ExitUsage, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.note != "" {
				if err := os.WriteFile(addressPath(), []byte(tt.note), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if tt.storeOpen {
				server, err := embedded.Open(embedded.Config{Path: storePath()})
				if err != nil {
					t.Fatal(err)
				}
				defer server.Close()
			}
			l, mode, err := findRunning(t.Context(), "", 0)
			if code := cli.ExitCode(err); l != nil || code != tt.code || mode != tt.mode {
				t.Errorf("%v, mode %q, %v", l, mode, err)
			}
		})
	}
}

// TestListen: a port in use is an error.
func TestListen(t *testing.T) {
	used, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer used.Close()
	port := used.Addr().(*net.TCPAddr).Port
	if _, err := listen(port); cli.ExitCode(err) != cli.ExitUnavailable || !strings.Contains(err.Error(), "--port") {
		t.Error(err)
	}
	if _, err := listen(65536); cli.ExitCode(err) != cli.ExitUsage {
		t.Error(err)
	}
}

// TestProjectName: a folder has one name, whatever path leads to it.
func TestProjectName(t *testing.T) {
	folder, link := t.TempDir(), filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(folder, link); err != nil {
		t.Skip(err)
	}
	t.Chdir(folder)
	want := projectName()
	if t.Chdir(link); projectName() != want {
		t.Errorf("%q, want %q", projectName(), want)
	}
}

func TestDescribe_hostileName(t *testing.T) {
	client, err := langfuse.New(langfuse.Config{BaseURL: "http://x", PublicKey: "pk-lf-x", SecretKey: langfuse.NewSecret("sk-lf-x")})
	if err != nil {
		t.Fatal(err)
	}
	server := langfuse.Server{Project: langfuse.Project{Name: "a\x1b]0;title\a\nb"}}
	lf := &Langfuse{Langfuse: experiment.Langfuse{Site: tracking.Site{Client: client, Server: server}}}
	if got := lf.Describe(); got != `Langfuse: http://x, project a\x1b]0;title\x07 b (version 0.0.0)` {
		t.Errorf("got %q", got)
	}
}
