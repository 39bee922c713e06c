// Package trigger implements experiment serve --trigger: it receives the requests of the Run button
// of datasets in Langfuse and carries out the runs.
//
// For each request the server checks the signature and its age, parses the body, checks dataset and
// settings against the trigger file, tries the command line of the run without running anything,
// records the request, and then answers 202. It carries out one run at a time, in the order of the
// requests, within this process and with the code of experiment run. For that reason a run ends
// with the process on every system, nothing can work on it twice, and a signal stops it in order.
// The next process resumes a run that began and did not end.
package trigger

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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

// EnvSecret is the name of the variable with the signing secrets, separated by commas.
const EnvSecret = "EXPERIMENT_TRIGGER_SECRET"

// DefaultListen is the default address for requests.
const DefaultListen = "127.0.0.1:4780"

// Config configures Serve. All fields but Now, Grace and Pause are required.
type Config struct {
	File   string // the trigger file
	Listen string // host and port
	Env    cli.Env
	// Run runs a command line of the program and returns its exit code.
	Run func(context.Context, cli.Env) int
	// Now is the clock; nil means time.Now.
	Now func() time.Time
	// Grace is the time that a run has to finish what it has sent when the server ends; 0 means 20
	// s. A signal tells the run to stop; when Grace is over, its context is cancelled.
	Grace time.Duration
	// Pause is the time before a run starts again because Langfuse or the model was unavailable; 0
	// means a minute.
	Pause time.Duration
}

// Serve receives requests and carries out their runs until ctx is done, while pages serves the
// pages. It returns when the run under way has ended; the next Serve resumes that run unless it was
// finished. Serve listens only after it has checked the trigger file, the secret and the queue. A
// usage error names every problem of the file.
//
// pages serves the pages of this folder, including the requests that asked returns, until its ctx is
// done. It calls started when the pages can be reached.
func Serve(ctx context.Context, cfg Config,
	pages func(ctx context.Context, asked func() []html.RequestedRun, started func(url string)) error) error {
	t, err := open(ctx, cfg)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	// The run under way publishes to the embedded server.
	pagesCtx, stopPages := context.WithCancel(context.WithoutCancel(ctx))
	defer stopPages()
	var work errgroup.Group
	err = pages(pagesCtx, t.requestedRuns, func(string) {
		fmt.Fprintf(cfg.Env.Stdout, "\nThe Run button of Langfuse: POST http://%s/trigger, for the datasets %s\n",
			t.listener.Addr(), strings.Join(slices.Sorted(maps.Keys(t.file.Datasets)), ", "))
		work.Go(func() error {
			defer stopPages()
			group, ctx := errgroup.WithContext(ctx)
			group.Go(func() error { return t.receive(ctx) })
			group.Go(func() error { return t.runAll(ctx) })
			return group.Wait()
		})
	})
	stop()
	err = errors.Join(err, work.Wait(), t.queue.close())
	_ = t.listener.Close() // receive closed it already if it was called
	return err
}

// server is a running trigger.
type server struct {
	cfg      Config
	file     configs.Trigger
	secrets  []secret.Secret
	queue    *queue
	listener net.Listener
	log      *slog.Logger

	mu      sync.Mutex
	refused []html.RequestedRun // the last signed ones, newest first
}

// open reads the trigger file, tries a run of each dataset, opens the queue and listens.
func open(ctx context.Context, cfg Config) (t *server, err error) {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	cfg.Grace, cfg.Pause = cmp.Or(cfg.Grace, 20*time.Second), cmp.Or(cfg.Pause, time.Minute)
	t = &server{cfg: cfg, log: slog.New(slog.NewTextHandler(cfg.Env.Stderr, nil))}
	t.secrets, err = readSecrets(cfg.Env.Getenv(EnvSecret))
	var fileErr error
	if t.file, fileErr = configs.LoadTrigger(cfg.File); fileErr == nil {
		fileErr = t.tryAll(ctx)
	}
	if err = errors.Join(err, fileErr); err != nil {
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
		err = cli.Errorf(cli.ExitUnavailable, "listening for the Run button: %w; --trigger-listen names another address", err)
		return nil, errors.Join(err, t.queue.close())
	}
	return t, nil
}

// minSecretLength rejects texts that are not secrets. A secret of Langfuse has 73 characters.
const minSecretLength = 16

func readSecrets(text string) (secrets []secret.Secret, err error) {
	for value := range strings.SplitSeq(text, ",") {
		switch value = strings.TrimSpace(value); {
		case value == "":
		case len(value) < minSecretLength:
			return nil, cli.Usage("%s has a secret of less than %d characters", EnvSecret, minSecretLength)
		default:
			secrets = append(secrets, secret.New(value))
		}
	}
	if len(secrets) == 0 {
		return nil, cli.Usage("%s is not set: it holds the signing secret that Langfuse shows for the dataset's "+
			"remote run; without signatures anybody could start runs", EnvSecret)
	}
	return secrets, nil
}

// tryAll tries a run of each dataset, without settings from a payload.
func (t *server) tryAll(ctx context.Context) error {
	var problems textutil.Problems
	for _, name := range slices.Sorted(maps.Keys(t.file.Datasets)) {
		err := errors.New("it would be taken for a file, and not for a dataset in Langfuse")
		if !experiment.IsFile(name) {
			run := runName(t.file.Datasets[name].Name, name, t.cfg.Now())
			_, err = t.commandLine(ctx, request{Dataset: name, Run: run})
		}
		problems.Add(err != nil, "dataset %q: %w", name, err)
	}
	return errors.Join(problems...)
}

// commandLine returns the command line of a run. It checks the settings with a dry run. It adds the
// budget for a run that asks a model, or may ask that of its prompt, and fails if there is none; other runs
// need no budget.
func (t *server) commandLine(ctx context.Context, r request) ([]string, error) {
	run := t.file.Datasets[r.Dataset]
	line := []string{"run", "--config=" + run.Config, "--dataset=" + r.Dataset, "--name=" + r.Run, "--quiet"}
	for _, key := range slices.Sorted(maps.Keys(r.Settings)) {
		line = append(line, "--"+strings.ReplaceAll(key, "_", "-")+"="+r.Settings[key])
	}
	var out bytes.Buffer
	if code, message := t.runCommand(ctx, &out, append(slices.Clip(line), "--dry-run", "--json")); code != cli.ExitOK {
		return nil, errors.New(message)
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
	// The configuration of a prompt may name a model.
	hasPrompt := cmp.Or(values["prompt"], values["prompt-label"], values["prompt-version"], values["prompt-file"]) != ""
	switch {
	case values["pipeline"] != "" || system.IsBaseline(values["model"]) && !hasPrompt:
	case run.BudgetUSD != "":
		line = append(line, "--budget-usd="+run.BudgetUSD)
	case values["budget-usd"] == "":
		return nil, errors.New("budget_usd is missing: say how many dollars a run may cost")
	}
	return line, nil
}

// runCommand runs a command line and returns its exit code, and its error on one line.
func (t *server) runCommand(ctx context.Context, out *bytes.Buffer, line []string) (code int, message string) {
	env := t.cfg.Env
	env.Args, env.Stdout, env.Stderr, env.Terminal = line, out, io.Discard, func() int { return 0 }
	env.Failed = func(err error) {
		message = textutil.Cut(textutil.Line(strings.ReplaceAll(err.Error(), "\n", "; ")), 1000)
	}
	code = t.cfg.Run(ctx, env)
	return code, message
}

// runAll carries out the requested runs one after the other.
func (t *server) runAll(ctx context.Context) error {
	for unavailable := false; ; {
		r, ok, err := t.queue.next(ctx)
		if !ok || err != nil {
			return err
		}
		code, reason := cli.ExitBug, fmt.Sprintf("it began %d times, and each time the process ended before the run: "+
			"continue it by hand, with --resume", maxStarts)
		if r.Starts <= maxStarts {
			code, reason = t.runRequest(ctx, r, unavailable)
			finished := slices.Contains([]int{cli.ExitOK, cli.ExitGate, cli.ExitFailures, cli.ExitInconclusive}, code)
			if ctx.Err() != nil && !finished {
				t.log.Info("left for the next start", "run", r.Run)
				return nil
			}
		}
		if unavailable = code == cli.ExitUnavailable && r.Starts < maxUnavailableStarts; unavailable {
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

// maxUnavailableStarts is how many times a run is started while Langfuse or the model is
// unavailable.
const maxUnavailableStarts = 5

// runRequest carries out one run. If unavailable is set, it tries items again that failed because the
// model was unavailable. When ctx is done, the run has Grace to finish what it has sent.
func (t *server) runRequest(ctx context.Context, r request, unavailable bool) (code int, reason string) {
	line, err := t.commandLine(ctx, r)
	if err != nil {
		return cli.ExitUsage, err.Error() // the configuration has changed since the request
	}
	// A process may have been killed before the run's file existed.
	if _, err := runs.Find(ctx, r.Run, r.Dataset); r.Starts > 1 && err == nil {
		line = append(line, map[bool]string{false: "--resume", true: "--retry-failed=" + string(outcome.Provider)}[unavailable])
	}
	t.log.Info("run begins", "run", r.Run, "dataset", r.Dataset, "start", r.Starts)
	runCtx, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	defer context.AfterFunc(ctx, func() {
		t.log.Info("stopping", "run", r.Run)
		time.AfterFunc(t.cfg.Grace, stop)
	})()
	return t.runCommand(runCtx, &bytes.Buffer{}, line)
}
