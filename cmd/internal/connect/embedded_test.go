package connect

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"

	"extraction-experiment/internal/cli"
	"extraction-experiment/langfuse/embedded"
)

// TestFindRunning_silent: what a note says that nobody answers for.
func TestFindRunning_silent(t *testing.T) {
	t.Chdir(t.TempDir())
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := "http://" + listener.Addr().String()
	if err := errors.Join(listener.Close(), makeFolder()); err != nil {
		t.Fatal(err)
	}
	note := func(url string, pid int) string { return fmt.Sprintf(`{"url":%q,"pid":%d,"mode":"v3"}`, url, pid) }
	const gone = 1<<31 - 1 // no process has this number
	for _, tt := range []struct {
		name, note string
		used       bool // somebody has the store open
		code       int
		mode       embedded.Mode
	}{
		{name: "no note"},
		{"killed", note(nobody, gone), true, 0, embedded.ModeV3},
		{"another process has the number", note(nobody, os.Getpid()), false, 0, embedded.ModeV3},
		{"busy", note(nobody, os.Getpid()), true, cli.ExitUnavailable, ""},
		{"another machine", note("http://192.0.2.7:4711", os.Getpid()), false, cli.ExitUsage, ""},
		{"a name", note("http://localhost:4711", gone), false, cli.ExitUsage, ""},
		{"a user", note("http://127.0.0.1:80@192.0.2.7:80", gone), false, cli.ExitUsage, ""},
		{"another mode", strings.Replace(note(nobody, gone), "v3", "v2", 1), false, cli.ExitUsage, ""},
		{"half a note", `{"url":`, false, cli.ExitUsage, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.note != "" {
				if err := os.WriteFile(addressPath(), []byte(tt.note), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if tt.used {
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
