// Package trigger is experiment serve --trigger: it receives the request that the Run
// button of a dataset in Langfuse sends, and carries the run out.
//
// A request goes through these steps: its signature and the age of that are checked, the
// body is read, the trigger file says whether the dataset and the settings are allowed,
// the command line of the run is tried without running anything, the request is written
// down, and only then answered with 202. One run is carried out at a time, in the order of
// asking, within this process and by the code of experiment run: so it ends with the
// process on every system, nothing is left that could work on it a second time, and a
// signal reaches what stops a run in order. What had begun and not ended is resumed by the
// next process.
package trigger

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"extraction-experiment/cmd/internal/runs"
	"extraction-experiment/cmd/internal/settings"
	"extraction-experiment/cmd/internal/system"
	"extraction-experiment/configs"
	"extraction-experiment/experiment"
	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/secret"
	"extraction-experiment/internal/textutil"
	"extraction-experiment/outcome"
	"extraction-experiment/report/html"
)

// EnvSecret names the variable with the secrets of signatures, with commas between.
const EnvSecret = "EXPERIMENT_TRIGGER_SECRET"

// DefaultListen is where requests are received unless told otherwise.
const DefaultListen = "127.0.0.1:4780"

// Config says what is served. All but Now, Grace and Pause is needed.
type Config struct {
	File   string // the trigger file
	Listen string // host and port
	Env    cli.Env
	// Run carries out a command line of the program.
	Run func(context.Context, cli.Env) int
	// Now is the clock; nil means time.Now.
	Now func() time.Time
	// Grace is how long a run may take to finish what it has sent when the server ends; 0
	// means 20 s. A signal tells it so, once it is over it is stopped at once.
	Grace time.Duration
	// Pause is how long is waited before a run begins again for which Langfuse or the model
	// was away; 0 means a minute.
	Pause time.Duration
}

// Pages serves the pages of this folder until ctx is done: with what was asked for, and
// calls started once they can be reached.
type Pages func(ctx context.Context, asked func() []html.AskedRun, started func(url string)) error

// Serve receives requests and carries out their runs until ctx is done, while pages
// serves the rest. It ends when the run under way has: that is resumed by the next Serve
// unless it was finished. Nothing is listened to before the file, the secret and the
// queue were found in order: a usage error names every problem of the file.
func Serve(ctx context.Context, cfg Config, pages Pages) error {
	t, err := open(ctx, cfg)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	showing, hide := context.WithCancel(context.WithoutCancel(ctx)) // the run publishes to the embedded server
	defer hide()
	var work errgroup.Group
	err = pages(showing, t.asked, func(string) {
		fmt.Fprintf(cfg.Env.Stdout, "\nThe Run button of Langfuse: POST http://%s/trigger, for the datasets %s\n",
			t.listener.Addr(), strings.Join(slices.Sorted(maps.Keys(t.file.Datasets)), ", "))
		work.Go(func() error {
			defer hide()
			return t.work(ctx)
		})
	})
	stop()
	err = errors.Join(err, work.Wait(), t.queue.close())
	_ = t.listener.Close() // it is closed already where requests were received
	return err
}

// server is a trigger on its way.
type server struct {
	cfg      Config
	file     configs.Trigger
	secrets  []secret.Secret
	queue    *queue
	listener net.Listener
	log      *slog.Logger

	mu      sync.Mutex
	refused []html.AskedRun // the last signed ones, the newest first
}

// open reads the file and tries a run of each dataset, opens the queue and listens.
func open(ctx context.Context, cfg Config) (t *server, err error) {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	cfg.Grace, cfg.Pause = cmp.Or(cfg.Grace, 20*time.Second), cmp.Or(cfg.Pause, time.Minute)
	t = &server{cfg: cfg, log: slog.New(slog.NewTextHandler(cfg.Env.Stderr, nil))}
	t.secrets, err = readSecrets(cfg.Env.Getenv(EnvSecret))
	var wrong error
	if t.file, wrong = configs.LoadTrigger(cfg.File); wrong == nil {
		wrong = t.tryAll(ctx)
	}
	if err = errors.Join(err, wrong); err != nil {
		return nil, cli.Errorf(cli.ExitUsage, "%w", err)
	}
	if _, _, err := net.SplitHostPort(cfg.Listen); err != nil {
		return nil, cli.Usage("--trigger-listen %q is not of the form HOST:PORT: %w", cfg.Listen, err)
	}
	if err := settings.MakeFolder(); err != nil {
		return nil, err
	}
	if t.queue, err = openQueue(t.file, cfg.Now); err != nil {
		return nil, err
	}
	if t.listener, err = net.Listen("tcp", cfg.Listen); err != nil {
		err = cli.Errorf(cli.ExitUnavailable, "listening for the Run button: %w", err)
		return nil, errors.Join(err, t.queue.close())
	}
	return t, nil
}

// shortestSecret keeps out what is not a secret; one of Langfuse has 73 characters.
const shortestSecret = 16

func readSecrets(text string) (secrets []secret.Secret, err error) {
	for one := range strings.SplitSeq(text, ",") {
		switch one = strings.TrimSpace(one); {
		case one == "":
		case len(one) < shortestSecret:
			return nil, cli.Usage("%s has a secret of less than %d characters", EnvSecret, shortestSecret)
		default:
			secrets = append(secrets, secret.New(one))
		}
	}
	if len(secrets) == 0 {
		return nil, cli.Usage("%s is not set: it holds the signing secret that Langfuse shows for the dataset's "+
			"remote run; without signatures anybody could start runs", EnvSecret)
	}
	return secrets, nil
}

// tryAll tries a run of each dataset without settings of a payload.
func (t *server) tryAll(ctx context.Context) error {
	var problems []error
	for _, name := range slices.Sorted(maps.Keys(t.file.Datasets)) {
		err := errors.New("it would be taken for a file, and not for a dataset in Langfuse")
		if !experiment.IsFile(name) {
			run := runName(t.file.Datasets[name].Name, name, t.cfg.Now())
			_, err = t.line(ctx, request{Dataset: name, Run: run})
		}
		if err != nil {
			problems = append(problems, fmt.Errorf("dataset %q: %w", name, err))
		}
	}
	return errors.Join(problems...)
}

// line is the command line of a run. Its settings are read as the run would read them,
// without running anything: a run that asks a model gets the budget, others take none.
func (t *server) line(ctx context.Context, r request) ([]string, error) {
	run := t.file.Datasets[r.Dataset]
	line := []string{"run", "--config=" + run.Config, "--dataset=" + r.Dataset, "--name=" + r.Run, "--quiet"}
	for _, key := range slices.Sorted(maps.Keys(r.Settings)) {
		line = append(line, "--"+strings.ReplaceAll(key, "_", "-")+"="+r.Settings[key])
	}
	var out bytes.Buffer
	if code, said := t.command(ctx, &out, append(slices.Clip(line), "--dry-run", "--json")); code != cli.ExitOK {
		return nil, errors.New(said)
	}
	var rows []struct{ Setting, Value, From string }
	if err := json.Unmarshal(out.Bytes(), &rows); err != nil {
		return nil, fmt.Errorf("reading the settings of the run: %w", err)
	}
	values := map[string]string{}
	for _, row := range rows {
		if row.From == "sweep" {
			return nil, errors.New("its configuration is a sweep; a press starts one run")
		}
		values[row.Setting] = row.Value
	}
	switch {
	case values["pipeline"] != "" || system.IsBaseline(values["model"]):
	case run.BudgetUSD != "":
		line = append(line, "--budget-usd="+run.BudgetUSD)
	case values["budget-usd"] == "":
		return nil, errors.New("budget_usd is missing: say how many dollars a run may cost")
	}
	return line, nil
}

// command carries out a command line and returns its exit code with what it said of errors.
func (t *server) command(ctx context.Context, out *bytes.Buffer, line []string) (code int, said string) {
	var stderr tail
	env := t.cfg.Env
	env.Args, env.Stdout, env.Stderr, env.Terminal = line, out, &stderr, func() int { return 0 }
	code = t.cfg.Run(ctx, env)
	return code, stderr.errors()
}

// tail keeps the end of what is written.
type tail struct{ text []byte }

const mostTail = 16 << 10

func (t *tail) Write(p []byte) (int, error) {
	t.text = append(t.text, p[max(0, len(p)-mostTail):]...)
	t.text = t.text[max(0, len(t.text)-mostTail):]
	return len(p), nil
}

// errors returns the errors that a command reported, on one line.
func (t *tail) errors() string {
	_, text, found := strings.Cut("\n"+string(t.text), "\nexperiment: ")
	if !found {
		return ""
	}
	return textutil.Cut(textutil.Line(strings.ReplaceAll(text, "\nexperiment: ", "; ")), 1000)
}

// work receives requests and carries out runs until ctx is done.
func (t *server) work(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return t.receive(ctx) })
	group.Go(func() error { return t.carryOutAll(ctx) })
	return group.Wait()
}

// carryOutAll carries out what waits, one run after the other.
func (t *server) carryOutAll(ctx context.Context) error {
	for away := false; ; {
		r, ok, err := t.queue.next(ctx)
		if !ok || err != nil {
			return err
		}
		code, reason := cli.ExitBug, fmt.Sprintf("it began %d times, and each time the process ended before the run: "+
			"continue it by hand, with --resume", mostStarts)
		if r.Starts <= mostStarts {
			if code, reason = t.carryOut(ctx, r, away); ctx.Err() != nil && !finished(code) {
				t.log.Info("left for the next start", "run", r.Run)
				return nil
			}
		}
		if away = code == cli.ExitUnavailable && r.Starts < mostTries; away {
			t.log.Warn("run begins again", "run", r.Run, "after", t.cfg.Pause, "reason", reason)
			select {
			case <-time.After(t.cfg.Pause):
			case <-ctx.Done():
			}
			continue
		}
		t.log.Info("run ended", "run", r.Run, "code", code, "reason", reason)
		if err := t.queue.end(r.Run, code, reason); err != nil {
			return err
		}
	}
}

// mostTries bounds the starts of a run for which Langfuse or the model is away.
const mostTries = 5

// finished reports whether a run came to its end, whatever it found.
func finished(code int) bool {
	return slices.Contains([]int{cli.ExitOK, cli.ExitGate, cli.ExitFailures, cli.ExitInconclusive}, code)
}

// carryOut carries out one run. Items that failed as the model was away get a new attempt.
// When ctx is done the run has some time to finish what it sent.
func (t *server) carryOut(ctx context.Context, r request, away bool) (code int, reason string) {
	line, err := t.line(ctx, r)
	if err != nil {
		return cli.ExitUsage, err.Error() // the configuration is another one by now
	}
	// A process may have been killed before the folder had the run.
	if _, err := runs.Find(ctx, r.Run, r.Dataset); r.Starts > 1 && err == nil {
		line = append(line, map[bool]string{false: "--resume", true: "--retry-failed=" + string(outcome.Provider)}[away])
	}
	t.log.Info("run begins", "run", r.Run, "dataset", r.Dataset, "start", r.Starts)
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	defer context.AfterFunc(ctx, func() {
		t.log.Info("stopping", "run", r.Run)
		time.AfterFunc(t.cfg.Grace, stop)
	})()
	return t.command(running, &bytes.Buffer{}, line)
}
