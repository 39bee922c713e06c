package trigger

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"extraction-experiment/cmd/internal/settings"
	"extraction-experiment/internal/cli"
	"extraction-experiment/outcome"
	"extraction-experiment/report/html"
	"extraction-experiment/runstore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeProgram is a fake of the program: a dry run prints the settings, and a run waits until the
// test sends its exit code.
type fakeProgram struct {
	values    map[string]string // of the dry run
	sweep     bool
	exitCodes chan int // exit codes of the runs; nil ends runs at once with 0

	mu    sync.Mutex
	lines []string // command lines of the runs that began
	began chan string
}

func (p *fakeProgram) run(ctx context.Context, env cli.Env) int {
	line := strings.Join(env.Args, " ")
	if strings.Contains(line, "--dry-run") {
		if strings.Contains(line, "--limit=13") {
			env.Failed(errors.Join(errors.New("13 brings"), errors.New("bad\tluck")))
			return cli.ExitUsage
		}
		rows := []map[string]string{{"setting": "dataset", "value": "d", "from": "flag"}}
		for setting, value := range p.values {
			rows = append(rows, map[string]string{"setting": setting, "value": value})
		}
		if p.sweep {
			rows = append(rows, map[string]string{"setting": "run", "value": "a", "from": "sweep"})
		}
		if json.NewEncoder(env.Stdout).Encode(rows) != nil {
			return cli.ExitIO
		}
		return 0
	}
	p.mu.Lock()
	p.lines = append(p.lines, line)
	p.mu.Unlock()
	if p.exitCodes == nil {
		return 0
	}
	p.began <- line
	select {
	case code := <-p.exitCodes:
		if code != 0 {
			env.Failed(fmt.Errorf("it ended with %d", code))
		}
		return code
	case <-ctx.Done():
		return cli.ExitInterrupted
	}
}

// testServer is a trigger served in this folder.
type testServer struct {
	t      *testing.T
	url    string
	asked  func() []html.RequestedRun
	log    *lockedBuffer
	cancel context.CancelFunc
	ended  chan error
}

// lockedBuffer is a buffer for several goroutines.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

const testTrigger = `
queue: 3
datasets:
  d: {config: c.yaml, allow: {limit: {from: 1, to: 2000}}}
`

// testConfig returns the configuration of a trigger with this file and program.
func testConfig(t *testing.T, text string, p *fakeProgram, now func() time.Time) (Config, *lockedBuffer, *lockedBuffer) {
	t.Helper()
	if err := os.WriteFile("trigger.yaml", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	stdout, stderr := &lockedBuffer{}, &lockedBuffer{}
	env := cli.Env{Stdin: strings.NewReader(""), Stdout: stdout, Stderr: stderr, Getenv: func(name string) string {
		return map[string]string{EnvSecret: "another-old-secret, " + testSecret}[name]
	}}
	return Config{File: "trigger.yaml", Listen: "127.0.0.1:0", Env: env, Run: p.run, Now: now, Grace: time.Millisecond, Pause: time.Millisecond}, stdout, stderr
}

// serve serves a trigger until the test ends or stop is called.
func serve(t *testing.T, p *fakeProgram, now func() time.Time) *testServer {
	t.Helper()
	cfg, stdout, stderr := testConfig(t, testTrigger, p, now)
	r := &testServer{t: t, log: stderr, ended: make(chan error, 1)}
	var ctx context.Context
	ctx, r.cancel = context.WithCancel(context.Background())
	started := make(chan struct{})
	go func() {
		r.ended <- Serve(ctx, cfg, func(ctx context.Context, asked func() []html.RequestedRun, start func(string)) error {
			r.asked = asked
			start("http://pages")
			close(started)
			<-ctx.Done()
			return nil
		})
	}()
	select {
	case <-started:
	case err := <-r.ended:
		t.Fatal(err)
	}
	r.url = regexp.MustCompile(`http://127[^,]*`).FindString(stdout.String())
	t.Cleanup(func() { r.stop() })
	return r
}

// stop stops the trigger and returns the error of Serve.
func (r *testServer) stop() error {
	r.cancel()
	err := <-r.ended
	r.ended <- err
	return err
}

// press sends a body with a signature header.
func (r *testServer) press(body, signature string) (status int, answer string, header http.Header) {
	r.t.Helper()
	request, err := http.NewRequestWithContext(r.t.Context(), http.MethodPost, r.url, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	request.Host = "runs.example.com" // as a proxy passes it on
	request.Header.Set(signatureHeader, signature)
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(request)
	if err != nil {
		r.t.Fatal(err)
	}
	text, err := io.ReadAll(response.Body)
	if err = errors.Join(err, response.Body.Close()); err != nil {
		r.t.Fatal(err)
	}
	return response.StatusCode, string(text), response.Header
}

func body(payload string) string {
	return `{"projectId":"p","datasetId":"i","datasetName":"d","payload":` + encodeText(payload, 1) + `}`
}

func noonClock() time.Time { return noon }

func TestServe_answers(t *testing.T) {
	t.Chdir(t.TempDir())
	p := &fakeProgram{values: map[string]string{"model": "baseline"}, exitCodes: make(chan int), began: make(chan string, 1)}
	r := serve(t, p, noonClock)
	large := body(strings.Repeat(" ", maxBody))
	for name, tt := range map[string]struct {
		body, signature string
		status          int
		want            string
	}{
		"good":             {body(`{"limit":5}`), signatureOf(noon, body(`{"limit":5}`), testSecret), 202, "run d-20261123-120000"},
		"wrong signature":  {body(`{"limit":6}`), signatureOf(noon, body(`{"limit":5}`), testSecret), 401, "not that of a secret of EXPERIMENT_TRIGGER_SECRET"},
		"old signature":    {body(``), signatureOf(noon.Add(-time.Hour), body(``), testSecret), 401, "1h0m0s off"},
		"no signature":     {body(``), "", 401, "not of the form"},
		"large":            {large, signatureOf(noon, large, testSecret), 413, "more than 1048576 bytes"},
		"no JSON":          {`{`, signatureOf(noon, `{`, testSecret), 400, "is not a JSON object as Langfuse"},
		"not allowed":      {body(`{"pipeline":"sh"}`), signatureOf(noon, body(`{"pipeline":"sh"}`), testSecret), 400, "may not set pipeline"},
		"refused by a try": {body(`{"limit":13}`), signatureOf(noon, body(`{"limit":13}`), testSecret), 400, "13 brings; bad luck"},
	} {
		status, answer, _ := r.press(tt.body, tt.signature)
		if status != tt.status || !strings.Contains(answer, tt.want) {
			t.Errorf("%s: %d %s, want %d %s", name, status, answer, tt.status, tt.want)
		}
		if logged := strings.TrimSpace(answer); status != 202 && !strings.Contains(r.log.String(), logged) {
			t.Errorf("%s: %q is not logged", name, logged)
		}
	}
	for address, want := range map[string]int{"GET /trigger": 405, "PUT /trigger": 405, "POST /": 404, "GET /": 404, "POST /trigger/x": 404, "GET /api/public/health": 404, "GET /runs/x": 404} {
		method, path, _ := strings.Cut(address, " ")
		request, err := http.NewRequestWithContext(t.Context(), method, strings.TrimSuffix(r.url, "/trigger")+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(request)
		if err != nil {
			t.Fatal(err)
		}
		if err := response.Body.Close(); err != nil || response.StatusCode != want {
			t.Errorf("%s: %s, want %d", address, response.Status, want)
		}
	}
	<-p.began // the accepted one
	p.exitCodes <- 0
	if err := r.stop(); err != nil {
		t.Error(err)
	}
	shown := r.asked() // unsigned ones are not among them
	if len(shown) != 4 || slices.ContainsFunc(shown, func(a html.RequestedRun) bool {
		return !strings.HasPrefix(a.State, "refused (400)") && a.State != "exit code 0"
	}) {
		t.Errorf("%+v", shown)
	}
	if !slices.ContainsFunc(shown, func(a html.RequestedRun) bool { return a.Settings == "pipeline=sh" }) {
		t.Errorf("what was refused is not shown: %+v", shown)
	}
	if text := r.log.String(); strings.Contains(text, testSecret) {
		t.Errorf("the secret is shown:\n%s", text)
	}
}

// TestServe_thousandPresses: while one run is under way, a thousand different runs are requested at
// once. As many wait as the file allows, the others get status 429, and the runs are carried out
// one at a time in the order of their names.
func TestServe_thousandPresses(t *testing.T) {
	t.Chdir(t.TempDir())
	p := &fakeProgram{values: map[string]string{"model": "baseline"}, exitCodes: make(chan int), began: make(chan string, 10)}
	r := serve(t, p, noonClock)
	first := body(`{"limit":1}`)
	if status, answer, _ := r.press(first, signatureOf(noon, first, testSecret)); status != 202 {
		t.Fatal(status, answer)
	}
	<-p.began
	var accepted, rejected atomic.Int64
	var wait sync.WaitGroup
	for i := range 20 {
		wait.Go(func() {
			for n := range 50 {
				b := body(fmt.Sprintf(`{"limit":%d}`, 100+50*i+n))
				switch status, answer, header := r.press(b, signatureOf(noon, b, testSecret)); {
				case status == 202:
					accepted.Add(1)
				case status == 429 && header.Get("Retry-After") == "60":
					rejected.Add(1)
				default:
					t.Errorf("%d %s %v", status, answer, header)
				}
			}
		})
	}
	wait.Wait()
	if accepted.Load() != 3 || rejected.Load() != 997 {
		t.Fatalf("%d are taken, %d told to come back", accepted.Load(), rejected.Load())
	}
	if status, _, _ := r.press(first, signatureOf(noon, first, testSecret)); status != 202 {
		t.Errorf("the first, pressed again: %d", status)
	}
	for _, code := range []int{0, 4, 69, 69, 69, 69, 69} { // while Langfuse is unavailable, a run is started five times
		p.exitCodes <- code
		<-p.began
	}
	p.exitCodes <- 0
	for waiting := true; waiting; time.Sleep(time.Millisecond) {
		waiting = slices.ContainsFunc(r.asked(), func(a html.RequestedRun) bool { return a.State == "running" })
	}
	if err := r.stop(); err != nil {
		t.Error(err)
	}
	var names []string
	for _, line := range p.lines {
		names = append(names, regexp.MustCompile(`--name=(\S+)`).FindStringSubmatch(line)[1])
	}
	const name = "d-20261123-120000"
	if !slices.Equal(names, []string{name, name + "-2", name + "-3", name + "-3", name + "-3", name + "-3", name + "-3", name + "-4"}) {
		t.Errorf("%q", names)
	}
	results := map[string]string{}
	for _, a := range r.asked() {
		if a.Run != "" {
			results[a.Run] = a.State + ": " + a.Reason
		}
	}
	if results[name+"-2"] != "exit code 4: it ended with 4" || results[name+"-3"] != "exit code 69: it ended with 69" || results[name] != "exit code 0: " {
		t.Errorf("%v", results)
	}
}

// TestServe_stopped: the end of the server ends the run under way and leaves it and the waiting one
// to the next server.
func TestServe_stopped(t *testing.T) {
	t.Chdir(t.TempDir())
	p := &fakeProgram{values: map[string]string{"model": "baseline"}, exitCodes: make(chan int), began: make(chan string, 10)}
	r := serve(t, p, noonClock)
	for n := range 2 {
		b := body(fmt.Sprintf(`{"limit":%d}`, n+1))
		if status, answer, _ := r.press(b, signatureOf(noon, b, testSecret)); status != 202 {
			t.Fatal(status, answer)
		}
	}
	<-p.began
	if err := r.stop(); err != nil {
		t.Error(err)
	}
	p.exitCodes = nil
	again := serve(t, p, noonClock)
	for len(p.begunLines()) < 3 {
		time.Sleep(time.Millisecond)
	}
	if err := again.stop(); err != nil {
		t.Error(err)
	}
	const first = "run --config=c.yaml --dataset=d --name=d-20261123-120000 --quiet --limit=1" // the folder has no such run, so no --resume
	if lines := p.begunLines(); !slices.Equal(lines, []string{first, first, strings.Replace(first, "00 --quiet --limit=1", "00-2 --quiet --limit=2", 1)}) {
		t.Errorf("%q", lines)
	}
}

func (p *fakeProgram) begunLines() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.lines)
}

// TestServe_neverEnding: a run during which the process ends again and again is given up.
func TestServe_neverEnding(t *testing.T) {
	t.Chdir(t.TempDir())
	q := newQueue(t, testFile(), &clock{noon})
	q.requestRun(t, "1")
	for range maxStarts {
		q.startNext(t)
	}
	if err := q.close(); err != nil {
		t.Fatal(err)
	}
	p := &fakeProgram{values: map[string]string{"model": "baseline"}}
	r := serve(t, p, noonClock)
	for r.asked()[0].State == "running" {
		time.Sleep(time.Millisecond)
	}
	if a := r.asked()[0]; a.State != "exit code 70" || !strings.Contains(a.Reason, "it began 10 times") || len(p.begunLines()) != 0 {
		t.Errorf("%+v, %q", a, p.begunLines())
	}
}

// TestServe_slow: silent connections delay other requests only until they are closed.
func TestServe_slow(t *testing.T) {
	t.Chdir(t.TempDir())
	r := serve(t, &fakeProgram{values: map[string]string{"model": "baseline"}}, noonClock)
	address := strings.TrimSuffix(strings.TrimPrefix(r.url, "http://"), "/trigger")
	var silent []net.Conn
	for range maxConnections {
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		silent = append(silent, c)
	}
	answered := make(chan int, 1)
	go func() {
		const body = `{"datasetName":"d"}`
		status, _, _ := r.press(body, signatureOf(noon, body, testSecret))
		answered <- status
	}()
	select {
	case status := <-answered:
		t.Fatalf("one connection too many is served, %d", status)
	default:
	}
	for _, c := range silent {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
	if status := <-answered; status != http.StatusAccepted {
		t.Error(status)
	}
}

func TestServe_refused(t *testing.T) {
	t.Chdir(t.TempDir())
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	const oneDataset = "datasets: {d: {config: c.yaml}}\n"
	for name, tt := range map[string]struct {
		file, secret, listen string
		program              *fakeProgram
		code                 int
		want                 string // parts separated by |
	}{
		"no secret":       {oneDataset, "", "", &fakeProgram{}, 64, "EXPERIMENT_TRIGGER_SECRET is not set|budget_usd is missing"},
		"only commas":     {oneDataset, " , ", "", &fakeProgram{}, 64, "is not set"},
		"a short secret":  {oneDataset, testSecret + ",hunter2", "", &fakeProgram{}, 64, "less than 16 characters"},
		"no budget":       {oneDataset, testSecret, "", &fakeProgram{values: map[string]string{"model": "openai/o3"}}, 64, `dataset "d": budget_usd is missing`},
		"a sweep":         {oneDataset, testSecret, "", &fakeProgram{sweep: true}, 64, `dataset "d": its configuration is a sweep`},
		"a file":          {"datasets: {d.jsonl: {config: c.yaml}, e: {config: c.yaml}}\n", testSecret, "", &fakeProgram{}, 64, `"d.jsonl": it would be taken for a file|"e": budget_usd`},
		"no place":        {oneDataset, testSecret, "4780", &fakeProgram{values: map[string]string{"pipeline": "./x"}}, 64, "--trigger-listen"},
		"a place in use":  {oneDataset, testSecret, listener.Addr().String(), &fakeProgram{values: map[string]string{"pipeline": "./x"}}, 69, "listening for the Run button"},
		"a file of typos": {"dataset: {}\n", testSecret, "", &fakeProgram{}, 64, `did you mean "datasets"`},
	} {
		cfg, _, _ := testConfig(t, tt.file, tt.program, nil)
		cfg.Env.Getenv = func(string) string { return tt.secret }
		if tt.listen != "" {
			cfg.Listen = tt.listen
		}
		err := Serve(t.Context(), cfg, func(context.Context, func() []html.RequestedRun, func(string)) error {
			t.Errorf("%s: it is served", name)
			return nil
		})
		for part := range strings.SplitSeq(tt.want, "|") {
			if cli.ExitCode(err) != tt.code || !strings.Contains(fmt.Sprint(err), part) || strings.Contains(fmt.Sprint(err), "hunter2") {
				t.Errorf("%s: %v, want %d %s", name, err, tt.code, part)
			}
		}
	}
}

// TestCommandLine: a run that asks a model gets a budget, other runs get none.
func TestCommandLine(t *testing.T) {
	t.Chdir(t.TempDir())
	const budget = "datasets: {d: {config: c.yaml, budget_usd: 2.50, allow: {two_stages: [true], prompt_label: [a]}}}\n"
	for name, tt := range map[string]struct {
		file   string
		values map[string]string
		want   string
	}{
		"a model":      {budget, map[string]string{"model": "openai/o3"}, "run --config=c.yaml --dataset=d --name=n --quiet --prompt-label=a --two-stages=true --budget-usd=2.50"},
		"the baseline": {budget, map[string]string{"model": "baseline"}, "run --config=c.yaml --dataset=d --name=n --quiet --prompt-label=a --two-stages=true"},
		"a prompt that may name one": {budget, map[string]string{"model": "baseline", "prompt": "p"},
			"run --config=c.yaml --dataset=d --name=n --quiet --prompt-label=a --two-stages=true --budget-usd=2.50"},
		"a pipeline":                 {budget, map[string]string{"model": "baseline", "pipeline": "./x"}, "run --config=c.yaml --dataset=d --name=n --quiet --prompt-label=a --two-stages=true"},
		"the configuration's budget": {"datasets: {d: {config: c.yaml}}\n", map[string]string{"model": "openai/o3", "budget-usd": "1"}, "run --config=c.yaml --dataset=d --name=n --quiet --prompt-label=a --two-stages=true"},
	} {
		cfg, _, _ := testConfig(t, tt.file, &fakeProgram{values: tt.values}, nil)
		s, err := open(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		line, err := s.commandLine(t.Context(), request{Dataset: "d", Run: "n", Settings: map[string]string{"two_stages": "true", "prompt_label": "a"}})
		if got := strings.Join(line, " "); err != nil || got != tt.want {
			t.Errorf("%s: %s, %v, want %s", name, got, err, tt.want)
		}
		if err := errors.Join(s.listener.Close(), s.queue.close()); err != nil {
			t.Error(err)
		}
	}
}

// TestRunRequest: a run is resumed if it started here before and the folder has it; if the model was
// unavailable, failed items are tried again.
func TestRunRequest(t *testing.T) {
	t.Chdir(t.TempDir())
	p := &fakeProgram{values: map[string]string{"model": "baseline"}}
	cfg, _, _ := testConfig(t, testTrigger, p, nil)
	s, err := open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	header := outcome.Header{Format: outcome.FormatVersion, RunUID: strings.Repeat("a", 32), Name: "there", Trials: 1,
		Harness: "extraction", Dataset: outcome.Dataset{Name: "d"}}
	run, err := runstore.Create(runstore.Path(settings.Folder, "embedded", "d", "there"), header)
	if err = errors.Join(err, run.Close()); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		run         string
		starts      int
		unavailable bool
		want        string
	}{
		{"there", 1, false, "--quiet"}, // another run with this name: the command reports that the name is taken
		{"there", 2, false, "--quiet --resume"},
		{"there", 2, true, "--quiet --retry-failed=provider"},
		{"gone", 2, true, "--quiet"},
	} {
		code, reason := s.runRequest(t.Context(), request{Run: tt.run, Dataset: "d", Starts: tt.starts}, tt.unavailable)
		if lines := p.begunLines(); code != 0 || reason != "" || !strings.HasSuffix(lines[len(lines)-1], tt.want) {
			t.Errorf("%+v: %d %s, %q", tt, code, reason, lines[len(lines)-1])
		}
	}
	if err := errors.Join(s.listener.Close(), s.queue.close()); err != nil {
		t.Error(err)
	}
}
