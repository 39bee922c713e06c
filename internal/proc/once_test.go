//go:build unix

package proc

import (
	"context"
	"errors"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"
)

// runScript runs a shell script with Once.
func runScript(t *testing.T, ctx context.Context, script, input string) (string, error) {
	t.Helper()
	output, err := Once(ctx, Config{Command: []string{"/bin/sh", "-c", script}, MaxLine: 1000}, []byte(input))
	return string(output), err
}

func TestOnce(t *testing.T) {
	output, err := runScript(t, t.Context(), `read -r line; echo "got $line"; echo heard >&2`, "a question\n")
	if err != nil || output != "got a question\n" {
		t.Errorf("%q, %v", output, err)
	}
	if output, err = runScript(t, t.Context(), `cat`, strings.Repeat("x", 900)); err != nil || len(output) != 900 {
		t.Errorf("%d bytes, %v: the input must be closed", len(output), err)
	}
}

func TestOnce_faults(t *testing.T) {
	big := strings.Repeat("x", 1<<20) // more than a pipe holds
	var start *StartError
	for name, c := range map[string]struct {
		script, input string
		kind          Kind
	}{
		"another status":         {"echo broken >&2; exit 3", "x", Exited},
		"killed":                 {"kill -9 $$", "x", Exited},
		"floods":                 {"cat >/dev/null; yes", "x", Flooded},
		"one byte too many":      {"cat >/dev/null; printf %01001d 7", "x", Flooded},
		"reads nothing":          {"echo 1", "x", Unread},
		"reads nothing of a lot": {"echo 1", big, Unread},
	} {
		if _, err := runScript(t, t.Context(), c.script, c.input); !Is(err, c.kind) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if _, err := runScript(t, t.Context(), "head -c 1 >/dev/null; echo 1", big); err != nil {
		t.Errorf("a program that read enough: %v", err)
	}
	if _, err := Once(t.Context(), Config{Command: []string{"./no-such-program"}}, nil); !errors.As(err, &start) || start.ExitCode() != 69 {
		t.Errorf("no such program: %v", err)
	}
	if _, err := Once(t.Context(), Config{}, nil); err == nil {
		t.Error("no command was accepted")
	}
}

func TestOnce_hangs(t *testing.T) {
	t.Parallel()
	for name, script := range map[string]string{
		"hangs":                  "sleep 60",
		"forks and hangs":        "sleep 60 & sleep 60",
		"closes output, stays":   "exec >&- 2>&-; sleep 60",
		"hangs without reading":  "exec <&-; sleep 60",
		"ignores what it can":    "trap '' TERM INT HUP; sleep 60",
		"waits for what it left": "sleep 60 & wait",
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		began := time.Now()
		_, err := runScript(t, ctx, script, "x")
		cancel()
		if !Is(err, Interrupted) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: got %v", name, err)
		}
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("%s took %s", name, took)
		}
	}
}

func TestOnce_orphans(t *testing.T) {
	t.Parallel()
	onlyLinux(t)
	if _, err := runScript(t, t.Context(), "cat; sleep 60 & exit 0", "x"); !Is(err, Orphaned) || !strings.Contains(err.Error(), "left a process running, which was killed") {
		t.Errorf("a child in the group: %v", err)
	}
}

func TestOnce_daemon(t *testing.T) {
	t.Parallel()
	onlyLinux(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	stderr := &strings.Builder{}
	_, err = Once(t.Context(), Config{
		Command: []string{"/bin/sh", "-c", self + " >&2"}, Env: []string{envBehaviour + "=daemon"}, Stderr: stderr,
	}, []byte("x\n"))
	if !Is(err, Orphaned) {
		t.Fatalf("a daemon: %v", err)
	}
	waitGone(t, strings.TrimSpace(stderr.String()))
}

// onlyLinux skips the test on other systems.
func onlyLinux(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux shows what left the group")
	}
}

func TestOnce_environment(t *testing.T) {
	t.Setenv("MY_API_KEY", "s3cr3t-value-1")
	t.Setenv("OTHER_SECRET", "s3cr3t-value-2")
	t.Setenv("A_LANGUAGE", "de")
	ask := func(withhold bool, handed ...string) string {
		output, err := Once(t.Context(), Config{
			Command: []string{"/bin/sh", "-c", `cat >/dev/null; echo "${MY_API_KEY:+mine}|${OTHER_SECRET:+other}|$A_LANGUAGE|$GIVEN_TOKEN"`},
			Env:     []string{"GIVEN_TOKEN=given"}, Withhold: withhold, Handed: handed,
		}, []byte("x"))
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(output))
	}
	for want, got := range map[string]string{
		"mine|other|de|given": ask(false),
		"||de|given":          ask(true),
		"|other|de|given":     ask(true, "OTHER_SECRET"),
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// TestOnce_masked checks that secrets of the environment are masked in answers, standard error
// and messages, even if a program writes them in pieces.
func TestOnce_masked(t *testing.T) {
	var stderr strings.Builder
	ask := func(end string) ([]byte, error) {
		return Once(t.Context(), Config{
			Command: []string{"/bin/sh", "-c", `cat >/dev/null; printf 'using UNI' >&2; printf 'Q1 and %s\n' "$X_HEADERS" >&2; echo '{"name":"\u0055NIQ1"}'; ` + end},
			Env:     []string{`X_HEADERS={"X-Key":"UNIQ1"}`}, Stderr: &stderr,
		}, []byte("x"))
	}
	if answer, err := ask("exit 0"); err != nil || strings.TrimSpace(string(answer)) != `{"name":"***"}` {
		t.Errorf("got %s, %v", answer, err)
	}
	var exit *Error
	if _, err := ask("exit 3"); !errors.As(err, &exit) || exit.Kind != Exited || exit.Stderr != "using *** and ***" {
		t.Errorf("got %v", err)
	}
	if want := strings.Repeat("using *** and ***\n", 2); stderr.String() != want {
		t.Errorf("got %q, want %q", stderr.String(), want)
	}
}

// TestError_lastLine checks that the last line of a traceback comes first, so that a message that
// is cut has it.
func TestError_lastLine(t *testing.T) {
	for stderr, want := range map[string]string{
		"":                                   "python3 exited",
		"boom\n":                             "python3 exited; standard error ends with:\nboom",
		"File x\n  f(1)\nValueError: boom\n": "python3 exited; standard error ends with:\nValueError: boom;\nbefore that:\nFile x\n  f(1)",
	} {
		if got := (&Error{Program: "python3", Message: "exited", Stderr: stderr}).Error(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
