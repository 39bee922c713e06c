package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"extraction-experiment/cmd/internal/settings"
	"extraction-experiment/internal/testkit/suite"
	"extraction-experiment/langfuse/embedded"
)

const triggerSecret = "lf-whsec_0123456789abcdef"

// triggerServer is a process of experiment serve --trigger in a folder.
type triggerServer struct {
	*child
	folder
	pages, address string
}

// serveTrigger starts the process and waits until it answers.
func (f folder) serveTrigger(t *testing.T, mode embedded.Mode) triggerServer {
	t.Helper()
	read, write := io.Pipe()
	f.out = write
	c := f.with("EXPERIMENT_TRIGGER_SECRET="+triggerSecret).start(t, "serve", "--port", "0", "--mode", string(mode),
		"--trigger", "trigger.yaml", "--trigger-listen", "127.0.0.1:0")
	addresses := make(chan [2]string, 1)
	go func() {
		var text bytes.Buffer
		for lines := bufio.NewScanner(read); lines.Scan(); {
			fmt.Fprintln(&text, lines.Text())
			if found := regexp.MustCompile(`POST (http://\S+),`).FindStringSubmatch(lines.Text()); found != nil {
				addresses <- [2]string{regexp.MustCompile(`http://[0-9.:]+`).FindString(text.String()), found[1]}
			}
		}
	}()
	go func() {
		<-c.ended
		write.Close()
	}()
	select {
	case urls := <-addresses:
		return triggerServer{c, f, urls[0], urls[1]}
	case <-c.ended:
		t.Fatalf("it ended: %s", &c.stderr)
	}
	return triggerServer{}
}

// press makes the embedded Langfuse send the request of the Run button.
func (s triggerServer) press(t *testing.T, dataset, payload string) (status int, answer string) {
	t.Helper()
	body, err := json.Marshal(map[string]string{"url": s.address, "secret": triggerSecret, "payload": payload})
	must(t, err)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.pages+"/api/embedded/datasets/"+dataset+"/run", bytes.NewReader(body))
	must(t, err)
	request.SetBasicAuth(embedded.DefaultPublicKey, embedded.DefaultSecretKey)
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	must(t, err)
	var got struct {
		Status int
		Answer string
	}
	must(t, errors.Join(json.NewDecoder(response.Body).Decode(&got), response.Body.Close()))
	return got.Status, got.Answer
}

// startRun presses the button and returns the name of the run.
func (s triggerServer) startRun(t *testing.T, dataset, payload string) string {
	t.Helper()
	began := time.Now()
	status, answer := s.press(t, dataset, payload)
	if status != http.StatusAccepted {
		t.Fatalf("%d %s", status, answer)
	}
	t.Logf("%s after %s", strings.TrimSpace(answer), time.Since(began).Round(time.Millisecond))
	name, _, _ := strings.Cut(strings.TrimPrefix(answer, "run "), ":")
	return name
}

// endedRuns returns the number of ended runs and checks that all have exit code 0.
func (f folder) endedRuns(t *testing.T) (ended int) {
	t.Helper()
	raw, err := os.ReadFile(f.path(settings.Folder, "trigger.json"))
	must(t, err)
	var list []struct {
		Ended time.Time
		Code  int
	}
	must(t, json.Unmarshal(raw, &list))
	for _, r := range list {
		if !r.Ended.IsZero() {
			ended++
		}
		if r.Code != 0 {
			t.Fatalf("%s", raw)
		}
	}
	return ended
}

// waitForRuns waits until n runs have ended.
func (f folder) waitForRuns(t *testing.T, runs int) {
	t.Helper()
	for f.endedRuns(t) < runs {
		time.Sleep(5 * time.Millisecond)
	}
}

// stop sends SIGTERM and checks that the process ends in order.
func (s triggerServer) stop(t *testing.T) {
	t.Helper()
	must(t, s.Process.Signal(syscall.SIGTERM))
	s.exits(t, 0)
}

func (f folder) writeTrigger(t *testing.T, dataset string) {
	t.Helper()
	must(t, os.WriteFile(f.path("run.yaml"), []byte("concurrency: 2\nmax_failures: 1\n"), 0o600))
	must(t, os.WriteFile(f.path("trigger.yaml"), []byte("datasets:\n  "+dataset+":\n    config: run.yaml\n    allow:\n      limit: {from: 1, to: 100}\n"), 0o600))
}

// TestTrigger: a press is answered and leads to a complete run, the same press again leads to no
// other, and the page shows the request.
func TestTrigger(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("no signal can be sent to another process there")
	}
	for _, mode := range modesOrSample() {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			f := newFolder(t)
			f.writeTrigger(t, "extraction-eval")
			s := f.serveTrigger(t, mode)
			run := s.startRun(t, "extraction-eval", `{"limit": 3}`)
			f.waitForRuns(t, 1)
			if again := s.startRun(t, "extraction-eval", `{"limit": "3.0"}`); again != run {
				t.Errorf("the same again is %s, not %s", again, run)
			}
			status, answer := s.press(t, "extraction-eval", `{"pipeline": "<script>"}`)
			if status != http.StatusBadRequest || !strings.Contains(answer, "may not set pipeline; it may set: limit") {
				t.Errorf("%d %s", status, answer)
			}
			f.run(t, 0, "verify", run) // reads the run back from Langfuse
			page := servedFolder{bench{t}, s.pages}
			for path, want := range map[string][]string{
				"/":        {`<a href="/trigger">`},
				"/trigger": {`<a href="/runs/` + embedded.DefaultProjectID + "/extraction-eval/" + run, "exit code 0", "limit=3", "refused (400)"},
			} {
				status, text := page.get(path)
				for _, one := range want {
					if status != 200 || !strings.Contains(text, one) {
						t.Errorf("%s: %d, no %s:\n%.3000s", path, status, one, text)
					}
				}
			}
			s.stop(t)
			if _, found := outcomes(t, f.runFile("extraction-eval", run)); len(found) != 3 {
				t.Errorf("%d outcomes", len(found))
			}
			if files, err := filepath.Glob(f.path(settings.Folder, "runs", "*", "*", "*.run")); err != nil || len(files) != 1 {
				t.Errorf("%q, %v", files, err)
			}
			if output := s.stdout.String() + s.stderr.String(); strings.Contains(output, triggerSecret) {
				t.Errorf("the secret is shown:\n%s", output)
			}
		})
	}
}

// TestTrigger_killed kills the server while one run is under way and another waits, then ends a
// second server with SIGTERM. The third server finishes both runs, each once.
func TestTrigger_killed(t *testing.T) {
	suite.Slow(t, "a run that is killed twice")
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("no signal can be sent to another process there")
	}
	const n = 32
	f, rng := newFolder(t), rand.New(rand.NewPCG(19, 4))
	items := makeItems(n, 25_000)
	client, stop := f.langfuse(t)
	seedItems(t, client, "made", items)
	stop()
	f.writeTrigger(t, "made")

	s := f.serveTrigger(t, embedded.ModeV4)
	first := s.startRun(t, "made", "")
	second := s.startRun(t, "made", `{"limit": 4}`)
	path := f.runFile("made", first)
	s.reach(t, path, instant{done: 3}, rng)
	committed := s.kill(t, path)

	s = f.serveTrigger(t, embedded.ModeV4)
	if again := s.startRun(t, "made", ""); again != first {
		t.Errorf("the same after the kill is %s, not %s", again, first)
	}
	for countsOf(t, path).Done < int64(len(committed))+3 && f.endedRuns(t) == 0 {
		time.Sleep(time.Millisecond)
	}
	s.stop(t)
	_, left := outcomes(t, path)
	notPaidTwice(t, committed, left)
	t.Logf("%d outcomes were there after the kill, %d after SIGTERM", len(committed), len(left))
	if len(left) == n {
		t.Error("the run was over before the server was stopped")
	}

	s = f.serveTrigger(t, embedded.ModeV4)
	f.waitForRuns(t, 2)
	s.stop(t)
	_, undisturbed := outcomes(t, path)
	notPaidTwice(t, left, undisturbed)
	if _, short := outcomes(t, f.runFile("made", second)); len(undisturbed) != n || len(short) != 4 {
		t.Errorf("%d and %d outcomes", len(undisturbed), len(short))
	}
	if files, err := filepath.Glob(f.path(settings.Folder, "runs", "*", "*", "*.run")); err != nil || len(files) != 2 {
		t.Errorf("%q, %v", files, err)
	}
	client, stop = f.langfuse(t)
	defer stop()
	checkLangfuse(t, client, path, f.runFile("made", second))
}
