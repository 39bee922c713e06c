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

// program stands for the program: a dry run says what the settings are, and a run waits
// until it is told how it ends.
type program struct {
	values map[string]string // of the dry run
	sweep  bool
	ends   chan int // nil ends runs at once, with 0

	mu    sync.Mutex
	lines []string // of the runs that began
	began chan string
}

func (p *program) run(ctx context.Context, env cli.Env) int {
	line := strings.Join(env.Args, " ")
	if strings.Contains(line, "--dry-run") {
		if strings.Contains(line, "--limit=13") {
			fmt.Fprintln(env.Stderr, "experiment: 13 brings\nexperiment: bad luck")
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
	if p.ends == nil {
		return 0
	}
	p.began <- line
	select {
	case code := <-p.ends:
		if code != 0 {
			fmt.Fprintf(env.Stderr, "note: x\nexperiment: it ended with %d\n", code)
		}
		return code
	case <-ctx.Done():
		return cli.ExitInterrupted
	}
}

// rig is a trigger that is served in this folder.
type rig struct {
	t      *testing.T
	url    string
	asked  func() []html.AskedRun
	log    *lockedBuffer
	cancel context.CancelFunc
	ended  chan error
}

// lockedBuffer is written by several goroutines.
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

// config is that of a trigger with this file and program.
func config(t *testing.T, text string, p *program, now func() time.Time) (Config, *lockedBuffer, *lockedBuffer) {
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

// serve serves a trigger until the test ends, or stop is called.
func serve(t *testing.T, p *program, now func() time.Time) *rig {
	t.Helper()
	cfg, stdout, stderr := config(t, testTrigger, p, now)
	r := &rig{t: t, log: stderr, ended: make(chan error, 1)}
	var ctx context.Context
	ctx, r.cancel = context.WithCancel(context.Background())
	started := make(chan struct{})
	go func() {
		r.ended <- Serve(ctx, cfg, func(ctx context.Context, asked func() []html.AskedRun, start func(string)) error {
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

// stop ends it, and returns how.
func (r *rig) stop() error {
	r.cancel()
	err := <-r.ended
	r.ended <- err
	return err
}

// press sends a body with a header of a signature.
func (r *rig) press(body, signature string) (status int, answer string, header http.Header) {
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
	return `{"projectId":"p","datasetId":"i","datasetName":"d","payload":` + quoted(payload, 1) + `}`
}

func atNoon() time.Time { return noon }

func TestServe_answers(t *testing.T) {
	t.Chdir(t.TempDir())
	p := &program{values: map[string]string{"model": "baseline"}, ends: make(chan int), began: make(chan string, 1)}
	r := serve(t, p, atNoon)
	large := body(strings.Repeat(" ", mostBody))
	for name, tt := range map[string]struct {
		body, signature string
		status          int
		want            string
	}{
		"good":             {body(`{"limit":5}`), signed(noon, body(`{"limit":5}`), testSecret), 202, "run d-20261123-120000"},
		"wrong signature":  {body(`{"limit":6}`), signed(noon, body(`{"limit":5}`), testSecret), 401, "not that of a secret of EXPERIMENT_TRIGGER_SECRET"},
		"old signature":    {body(``), signed(noon.Add(-time.Hour), body(``), testSecret), 401, "1h0m0s off"},
		"no signature":     {body(``), "", 401, "not of the form"},
		"large":            {large, signed(noon, large, testSecret), 413, "more than 1048576 bytes"},
		"no JSON":          {`{`, signed(noon, `{`, testSecret), 400, "is not a JSON object as Langfuse"},
		"not allowed":      {body(`{"pipeline":"sh"}`), signed(noon, body(`{"pipeline":"sh"}`), testSecret), 400, "may not set pipeline"},
		"refused by a try": {body(`{"limit":13}`), signed(noon, body(`{"limit":13}`), testSecret), 400, "13 brings; bad luck"},
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
	<-p.began // the one that was taken
	p.ends <- 0
	if err := r.stop(); err != nil {
		t.Error(err)
	}
	shown := r.asked() // the unsigned ones are not among them
	if len(shown) != 4 || slices.ContainsFunc(shown, func(a html.AskedRun) bool {
		return !strings.HasPrefix(a.State, "refused (400)") && a.State != "exit code 0"
	}) {
		t.Errorf("%+v", shown)
	}
	if !slices.ContainsFunc(shown, func(a html.AskedRun) bool { return a.Settings == "pipeline=sh" }) {
		t.Errorf("what was refused is not shown: %+v", shown)
	}
	if text := r.log.String(); strings.Contains(text, testSecret) {
		t.Errorf("the secret is shown:\n%s", text)
	}
}

// TestServe_thousandPresses: a thousand different runs are asked for at once, while one
// runs: as many wait as the file allows, the others are told to come back, and runs are
// carried out one at a time in the order of their names.
func TestServe_thousandPresses(t *testing.T) {
	t.Chdir(t.TempDir())
	p := &program{values: map[string]string{"model": "baseline"}, ends: make(chan int), began: make(chan string, 10)}
	r := serve(t, p, atNoon)
	first := body(`{"limit":1}`)
	if status, answer, _ := r.press(first, signed(noon, first, testSecret)); status != 202 {
		t.Fatal(status, answer)
	}
	<-p.began
	var taken, told atomic.Int64
	var wait sync.WaitGroup
	for i := range 20 {
		wait.Go(func() {
			for n := range 50 {
				b := body(fmt.Sprintf(`{"limit":%d}`, 100+50*i+n))
				switch status, answer, header := r.press(b, signed(noon, b, testSecret)); {
				case status == 202:
					taken.Add(1)
				case status == 429 && header.Get("Retry-After") == "60":
					told.Add(1)
				default:
					t.Errorf("%d %s %v", status, answer, header)
				}
			}
		})
	}
	wait.Wait()
	if taken.Load() != 3 || told.Load() != 997 {
		t.Fatalf("%d are taken, %d told to come back", taken.Load(), told.Load())
	}
	if status, _, _ := r.press(first, signed(noon, first, testSecret)); status != 202 {
		t.Errorf("the first, pressed again: %d", status)
	}
	for _, code := range []int{0, 4, 69, 69, 69, 69, 69} { // while it is away, a run is tried five times
		p.ends <- code
		<-p.began
	}
	p.ends <- 0
	for waiting := true; waiting; time.Sleep(time.Millisecond) {
		waiting = slices.ContainsFunc(r.asked(), func(a html.AskedRun) bool { return a.State == "running" })
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
	became := map[string]string{}
	for _, a := range r.asked() {
		if a.Run != "" {
			became[a.Run] = a.State + ": " + a.Reason
		}
	}
	if became[name+"-2"] != "exit code 4: it ended with 4" || became[name+"-3"] != "exit code 69: it ended with 69" || became[name] != "exit code 0: " {
		t.Errorf("%v", became)
	}
}

// TestServe_stopped: the end of the server ends the run under way and leaves it, with what
// waits, for the next.
func TestServe_stopped(t *testing.T) {
	t.Chdir(t.TempDir())
	p := &program{values: map[string]string{"model": "baseline"}, ends: make(chan int), began: make(chan string, 10)}
	r := serve(t, p, atNoon)
	for n := range 2 {
		b := body(fmt.Sprintf(`{"limit":%d}`, n+1))
		if status, answer, _ := r.press(b, signed(noon, b, testSecret)); status != 202 {
			t.Fatal(status, answer)
		}
	}
	<-p.began
	if err := r.stop(); err != nil {
		t.Error(err)
	}
	p.ends = nil
	again := serve(t, p, atNoon)
	for len(p.done()) < 3 {
		time.Sleep(time.Millisecond)
	}
	if err := again.stop(); err != nil {
		t.Error(err)
	}
	const first = "run --config=c.yaml --dataset=d --name=d-20261123-120000 --quiet --limit=1" // not begun: no --resume
	if lines := p.done(); !slices.Equal(lines, []string{first, first, strings.Replace(first, "00 --quiet --limit=1", "00-2 --quiet --limit=2", 1)}) {
		t.Errorf("%q", lines)
	}
}

func (p *program) done() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.lines)
}

// TestServe_neverEnding: a run with which the process ends again and again is given up.
func TestServe_neverEnding(t *testing.T) {
	t.Chdir(t.TempDir())
	q := newQueue(t, testFile(), &clock{noon})
	q.limit(t, "1")
	for range mostStarts {
		q.begin(t)
	}
	if err := q.close(); err != nil {
		t.Fatal(err)
	}
	p := &program{values: map[string]string{"model": "baseline"}}
	r := serve(t, p, atNoon)
	for r.asked()[0].State == "running" {
		time.Sleep(time.Millisecond)
	}
	if a := r.asked()[0]; a.State != "exit code 70" || !strings.Contains(a.Reason, "it began 10 times") || len(p.done()) != 0 {
		t.Errorf("%+v, %q", a, p.done())
	}
}

// TestServe_slow: who opens connections and says nothing holds up others for seconds, and
// not for good.
func TestServe_slow(t *testing.T) {
	t.Chdir(t.TempDir())
	r := serve(t, &program{values: map[string]string{"model": "baseline"}}, atNoon)
	address := strings.TrimSuffix(strings.TrimPrefix(r.url, "http://"), "/trigger")
	var silent []net.Conn
	for range mostConnections {
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
		status, _, _ := r.press(body, signed(noon, body, testSecret))
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
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	const one = "datasets: {d: {config: c.yaml}}\n"
	for name, tt := range map[string]struct {
		file, secret, listen string
		program              *program
		code                 int
		want                 string // parts between |
	}{
		"no secret":       {one, "", "", &program{}, 64, "EXPERIMENT_TRIGGER_SECRET is not set|budget_usd is missing"},
		"only commas":     {one, " , ", "", &program{}, 64, "is not set"},
		"a short secret":  {one, testSecret + ",hunter2", "", &program{}, 64, "less than 16 characters"},
		"no budget":       {one, testSecret, "", &program{values: map[string]string{"model": "openai/o3"}}, 64, `dataset "d": budget_usd is missing`},
		"a sweep":         {one, testSecret, "", &program{sweep: true}, 64, `dataset "d": its configuration is a sweep`},
		"a file":          {"datasets: {d.jsonl: {config: c.yaml}, e: {config: c.yaml}}\n", testSecret, "", &program{}, 64, `"d.jsonl": it would be taken for a file|"e": budget_usd`},
		"no place":        {one, testSecret, "4780", &program{values: map[string]string{"pipeline": "./x"}}, 64, "--trigger-listen"},
		"a place in use":  {one, testSecret, taken.Addr().String(), &program{values: map[string]string{"pipeline": "./x"}}, 69, "listening for the Run button"},
		"a file of typos": {"dataset: {}\n", testSecret, "", &program{}, 64, `did you mean "datasets"`},
	} {
		cfg, _, _ := config(t, tt.file, tt.program, nil)
		cfg.Env.Getenv = func(string) string { return tt.secret }
		if tt.listen != "" {
			cfg.Listen = tt.listen
		}
		err := Serve(t.Context(), cfg, func(context.Context, func() []html.AskedRun, func(string)) error {
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

// TestLine: a run that asks a model has a budget, and no other.
func TestLine(t *testing.T) {
	t.Chdir(t.TempDir())
	const budget = "datasets: {d: {config: c.yaml, budget_usd: 2.50, allow: {two_stages: [true], prompt_label: [a]}}}\n"
	for name, tt := range map[string]struct {
		file   string
		values map[string]string
		want   string
	}{
		"a model":                    {budget, map[string]string{"model": "openai/o3"}, "run --config=c.yaml --dataset=d --name=n --quiet --prompt-label=a --two-stages=true --budget-usd=2.50"},
		"the baseline":               {budget, map[string]string{"model": "baseline"}, "run --config=c.yaml --dataset=d --name=n --quiet --prompt-label=a --two-stages=true"},
		"a pipeline":                 {budget, map[string]string{"model": "baseline", "pipeline": "./x"}, "run --config=c.yaml --dataset=d --name=n --quiet --prompt-label=a --two-stages=true"},
		"the configuration's budget": {"datasets: {d: {config: c.yaml}}\n", map[string]string{"model": "openai/o3", "budget-usd": "1"}, "run --config=c.yaml --dataset=d --name=n --quiet --prompt-label=a --two-stages=true"},
	} {
		cfg, _, _ := config(t, tt.file, &program{values: tt.values}, nil)
		s, err := open(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		line, err := s.line(t.Context(), request{Dataset: "d", Run: "n", Settings: map[string]string{"two_stages": "true", "prompt_label": "a"}})
		if got := strings.Join(line, " "); err != nil || got != tt.want {
			t.Errorf("%s: %s, %v, want %s", name, got, err, tt.want)
		}
		if err := errors.Join(s.listener.Close(), s.queue.close()); err != nil {
			t.Error(err)
		}
	}
}

// TestCarryOut: a run is resumed where the folder has it and it began from here, and where
// the model was away its items are tried again.
func TestCarryOut(t *testing.T) {
	t.Chdir(t.TempDir())
	p := &program{values: map[string]string{"model": "baseline"}}
	cfg, _, _ := config(t, testTrigger, p, nil)
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
		run    string
		starts int
		away   bool
		want   string
	}{
		{"there", 1, false, "--quiet"}, // somebody else's: the run says that the name is taken
		{"there", 2, false, "--quiet --resume"},
		{"there", 2, true, "--quiet --retry-failed=provider"},
		{"gone", 2, true, "--quiet"},
	} {
		code, reason := s.carryOut(t.Context(), request{Run: tt.run, Dataset: "d", Starts: tt.starts}, tt.away)
		if lines := p.done(); code != 0 || reason != "" || !strings.HasSuffix(lines[len(lines)-1], tt.want) {
			t.Errorf("%+v: %d %s, %q", tt, code, reason, lines[len(lines)-1])
		}
	}
	if err := errors.Join(s.listener.Close(), s.queue.close()); err != nil {
		t.Error(err)
	}
}

func TestTail(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"", ""}, {"note: x\n", ""},
		{"experiment: a\n  b\nexperiment: c\n", "a b; c"},
		{strings.Repeat("x", 3*mostTail) + "\nexperiment: \x1b[2Jend\n", `\x1b[2Jend`},
	} {
		var all, parts tail
		_, _ = all.Write([]byte(tt.text))
		for i := range len(tt.text) {
			_, _ = parts.Write([]byte(tt.text[i : i+1]))
		}
		if all.errors() != tt.want || parts.errors() != tt.want || len(all.text) > mostTail {
			t.Errorf("%.50q: %q and %q, want %q", tt.text, all.errors(), parts.errors(), tt.want)
		}
	}
}
