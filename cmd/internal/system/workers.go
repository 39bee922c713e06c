package system

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	urfave "github.com/urfave/cli/v2"

	"extraction-experiment/cmd/internal/runs"
	"extraction-experiment/cmd/internal/settings"
	"extraction-experiment/experiment"
	harness "extraction-experiment/harness/extraction"
	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/proc"
	"extraction-experiment/internal/textutil"
	"extraction-experiment/internal/workers"
	"extraction-experiment/outcome"
	"extraction-experiment/pipeline"
	"extraction-experiment/pipeline/provider"
	"extraction-experiment/report"
)

// MostCalls bounds the concurrent calls of all workers of a run.
const MostCalls = 10_000

// WorkersServer is the address of a NATS server.
type WorkersServer struct {
	Address  string
	Insecure bool // allows a remote server without TLS
}

// connect connects to the server with the credentials of the environment.
func (s WorkersServer) connect(ctx context.Context, env cli.Env, note func(string)) (*workers.Conn, error) {
	return workers.Connect(ctx, workers.Config{
		Address: s.Address, Insecure: s.Insecure, Version: cli.Version(), Note: note,
		Token: env.Getenv(workers.EnvToken), Credentials: env.Getenv(workers.EnvCredentials),
	})
}

// Coordinate connects to a server and returns measured, the system for the engine, changed
// so that workers at the server carry out its task. It sets opened.Workers when the run
// begins. Close of the result also closes the connection.
func Coordinate(ctx context.Context, env cli.Env, s WorkersServer, cfg Config, opened *System, measured experiment.System, note func(string)) (experiment.System, error) {
	definition := opened.Definition
	cfg.Model = definition.named
	identity, err := (Opener{Env: env}).Identify(cfg)
	if err != nil {
		return measured, err
	}
	definition.Measured = identity
	raw, err := json.Marshal(definition)
	if err != nil {
		return measured, err
	}
	conn, err := s.connect(ctx, env, note)
	if err != nil {
		return measured, err
	}
	var coordinator *workers.Coordinator
	measured.Workers = func(ctx context.Context, h outcome.Header) (experiment.Workers, error) {
		run := workers.Run{ID: h.RunUID, Name: h.Name, Dataset: h.Dataset.Name, Definition: raw, Timeout: definition.Timeout}
		if coordinator, err = conn.Coordinate(ctx, run, opened.Model.Admission); err != nil {
			return nil, err
		}
		opened.Workers = coordinator.State
		return coordinator, nil
	}
	closeSystem := measured.Close
	measured.Close = func() (err error) {
		if coordinator != nil {
			err = coordinator.Close()
		}
		conn.Close()
		return errors.Join(err, closeSystem())
	}
	measured.Reached = nil // only the workers know
	measured.Notes = append(slices.Clip(measured.Notes), "unless its sync_interval is always, a NATS server acknowledges before it syncs: units that a power cut loses there are run, and paid, again")
	return measured, nil
}

// insecureFlag returns the flag --insecure of worker and workers.
func insecureFlag() urfave.Flag {
	return &urfave.BoolFlag{Name: "insecure", Usage: "allow a server on another machine without TLS: documents travel unencrypted"}
}

// parseServer reads the address of the server, which is the only argument of a command, or
// else EXPERIMENT_WORKERS.
func parseServer(c *urfave.Context, env cli.Env) (WorkersServer, error) {
	address := cmp.Or(c.Args().First(), env.Getenv("EXPERIMENT_WORKERS"))
	if c.NArg() > 1 || address == "" {
		return WorkersServer{}, cli.Usage("%s takes one address of a NATS server, such as nats://127.0.0.1:4222", c.Command.Name)
	}
	return WorkersServer{address, c.Bool("insecure")}, nil
}

// WorkerCommand returns the command experiment worker. stopContext returns a context that
// ends when the worker must stop at once, a channel that closes when it must finish its
// items and stop, and a function that releases both.
func WorkerCommand(env cli.Env, stopContext func(context.Context) (ctx context.Context, soft <-chan struct{}, end func())) *urfave.Command {
	return &urfave.Command{
		Name:      "worker",
		Usage:     "work on items that experiment run --workers hands out",
		UsageText: "experiment worker nats://HOST:4222 --model MODEL | --pipeline PROGRAM|URL [flags]",
		Description: "A worker runs only what its own command line names; a run that measures anything else is refused. Prompt and parameters\n" +
			"come with the run. Keys, addresses and programs are the worker's own, and the expected output of an item never reaches it.\n" +
			"It works until it is interrupted, and then finishes the items it has (docs/workers.md).",
		Flags: []urfave.Flag{
			&urfave.StringSliceFlag{Name: "model", Aliases: []string{"m"}, Usage: "a `MODEL` that the worker may ask; may be repeated"},
			&urfave.StringSliceFlag{Name: "pipeline", Usage: "your own pipeline that the worker may use, a `PROGRAM|URL`; may be repeated"},
			&urfave.IntFlag{Name: "concurrency", Aliases: []string{"c"}, Value: 4, Usage: "work on `N` items at once"},
			&urfave.StringFlag{Name: "run", Usage: "work only for the run `NAME`"},
			&urfave.StringFlag{Name: "as", Usage: "`NAME` of the worker in outcomes and traces (default: host and process)"},
			&urfave.StringFlag{Name: "cache", Usage: "cache answers in the folder `DIR`; a cached answer costs nothing"},
			insecureFlag(),
		},
		Action: func(c *urfave.Context) error { return workUntilStopped(c, env, stopContext) },
	}
}

// workUntilStopped serves runs until stopContext says to stop.
func workUntilStopped(c *urfave.Context, env cli.Env, stopContext func(context.Context) (context.Context, <-chan struct{}, func())) error {
	server, err := parseServer(c, env)
	if err != nil {
		return err
	}
	opener := Opener{Env: env}
	limits := Limits{Concurrency: c.Int("concurrency"), Cache: c.String("cache")}
	if limits.Concurrency < 1 || limits.Concurrency > 1000 {
		return cli.Usage("--concurrency: %d is not between 1 and 1000", limits.Concurrency)
	}
	own := append(
		cli.Each(c.StringSlice("model"), func(m string) Config { return Config{Model: m, ModelGiven: true, Limits: limits} }),
		cli.Each(c.StringSlice("pipeline"), func(p string) Config { return Config{Pipeline: p, Limits: limits} })...)
	if len(own) == 0 {
		return cli.Usage("worker needs what it may run: --model MODEL or --pipeline PROGRAM|URL")
	}
	var names []string
	for _, cfg := range own {
		identity, err := opener.Identify(cfg)
		if err != nil {
			return err
		}
		names = append(names, identity.Name)
		if cfg.Pipeline == "" {
			continue
		}
		opened, err := opener.openPipeline(cfg) // starts nothing, but a program that is missing is an error now
		if err == nil {
			err = opened.Close()
		}
		if err != nil {
			return err
		}
	}
	log, err := settings.NewLog(env.Stderr, "info", "text")
	if err != nil {
		return err
	}
	ctx, soft, end := stopContext(c.Context)
	defer end()
	conn, err := server.connect(ctx, env, nil)
	if err != nil {
		return err
	}
	defer conn.Close()
	host, _ := os.Hostname()
	name := cmp.Or(c.String("as"), fmt.Sprintf("%s-%d", host, os.Getpid()))
	log.Info("waits for runs", "worker", name, "runs", strings.Join(names, ", "), "concurrency", limits.Concurrency)
	err = conn.Work(ctx, workers.WorkerConfig{
		Name: name, Concurrency: limits.Concurrency, Run: c.String("run"), Systems: names, Stop: soft, Log: log,
		Open: func(_ context.Context, run workers.Run, admit func(group string) pipeline.Admission) (workers.Opened, error) {
			var definition Definition
			if err := json.Unmarshal(run.Definition, &definition); err != nil {
				return workers.Opened{}, fmt.Errorf("the definition of the run cannot be read: %w", err)
			}
			opened, err := opener.OpenDefinition(definition, own, admit)
			return workers.Opened{Task: &harness.Task{Extractor: opened.Extractor}, Close: opened.Close}, err
		},
	})
	if errors.Is(err, context.Canceled) {
		return cli.Errorf(cli.ExitInterrupted, "stopped at once: the items in hand are given to other workers")
	}
	return err
}

// WorkersCommand returns the command experiment workers.
func WorkersCommand(env cli.Env) *urfave.Command {
	return &urfave.Command{
		Name:      "workers",
		Usage:     "list the workers at a NATS server, what they do, and how fast",
		UsageText: "experiment workers nats://HOST:4222 [--json]",
		Flags:     []urfave.Flag{insecureFlag(), settings.JSONFlag()},
		Action: func(c *urfave.Context) error {
			server, err := parseServer(c, env)
			if err != nil {
				return err
			}
			conn, err := server.connect(c.Context, env, nil)
			if err != nil {
				return err
			}
			defer conn.Close()
			list, err := conn.List(c.Context)
			known, failed := conn.Runs(c.Context)
			if err = errors.Join(err, failed); err != nil {
				return cli.WithCode(cli.ExitUnavailable, err)
			}
			return runs.PrintText(env, c.Bool("json"), list, workersTable(list, known))
		},
	}
}

// workersTable returns a table with a line for each worker, and below it the runs that
// workers refuse.
func workersTable(list []workers.Presence, known map[string]workers.Run) string {
	if len(list) == 0 {
		return "no workers\n"
	}
	run := func(id string) string { return textutil.Line(cmp.Or(known[id].Name, id)) }
	t := report.Table{Columns: []report.Column{{Title: "worker"}, {Title: "host"}, {Title: "runs"}, {Title: "works for"},
		{Title: "in hand", Right: true}, {Title: "of", Right: true}, {Title: "done", Right: true}, {Title: "a second", Right: true, Hint: "over the last half minute"}, {Title: "clock"}}}
	var refused []string
	for _, p := range list {
		held := 0
		var working []string
		for id, n := range p.InHand {
			if _, exists := known[id]; !exists && n == 0 { // the run has ended, and the worker is about to notice
				continue
			}
			held += n
			working = append(working, run(id))
		}
		slices.Sort(working)
		for id, why := range p.Refused {
			refused = append(refused, fmt.Sprintf("%s does not work for %s: %s\n", textutil.Line(p.Name), run(id), textutil.Line(why)))
		}
		skew := time.Since(p.Clock).Round(time.Second)
		t.Rows = append(t.Rows, report.Row{Cells: []string{textutil.Line(p.Name), textutil.Line(p.Host), textutil.Line(strings.Join(p.Systems, ", ")),
			cmp.Or(strings.Join(working, ", "), "–"), fmt.Sprint(held), fmt.Sprint(p.Concurrency), fmt.Sprint(p.Done), fmt.Sprintf("%.1f", p.PerSecond),
			map[bool]string{true: "right", false: "off by " + skew.String()}[skew.Abs() <= 5*time.Second]}})
	}
	slices.Sort(refused)
	return t.Text() + strings.Join(refused, "")
}

// Definition describes the system of a run to a worker on another machine. It only names
// the system: the worker has its own command, address, path and secrets.
type Definition struct {
	Measured Identity `json:"measured"`
	// Model is the model name that a team's own pipeline receives.
	Model  string                     `json:"model,omitempty"`
	Prompt []pipeline.TemplateMessage `json:"prompt,omitempty"`
	ModelOptions
	Retries int           `json:"retries"`
	Timeout time.Duration `json:"timeout_ns"` // of an item
	named   string        // Config.Model, or the model that the prompt's config names; may hold a path
}

// Identity names a system in the same way on every machine.
type Identity struct {
	// Name is provider and model, or "pipeline" with the words of its command without
	// folders, or with the path of its address.
	Name string `json:"name"`
	// Hash is the beginning of a SHA-256 over the name and what this machine knows about
	// the system, for example the bytes of the program or of the recording.
	Hash string `json:"hash"`
}

// String returns name and hash.
func (i Identity) String() string { return i.Name + " (" + i.Hash + ")" }

// definition returns the Definition of the system, without its identity.
func (c Config) definition(template pipeline.Template) Definition {
	return Definition{
		Prompt: template.Messages, ModelOptions: c.ModelOptions,
		Retries: c.Limits.Retries, Timeout: c.Limits.Timeout, named: c.Model,
	}
}

// OpenDefinition opens the system of d if it is one of the worker's own systems, of which
// it uses Model, Pipeline and Limits. admit returns the admission of a workers.LimitGroup.
// If no system matches, the error names all of the worker's.
func (o Opener) OpenDefinition(d Definition, own []Config, admit func(group string) pipeline.Admission) (System, error) {
	var names []string
	for _, cfg := range own {
		identity, err := o.Identify(cfg)
		switch {
		case err != nil:
			return System{}, err
		case identity == d.Measured:
			cfg.Limits.Admission = admit
			return o.openDefined(d, cfg)
		}
		names = append(names, identity.String())
	}
	return System{}, fmt.Errorf("the run measures %s, and this worker runs %s: start one with the --model or --pipeline of the run, of the same version",
		d.Measured, strings.Join(names, ", "))
}

func (o Opener) openDefined(d Definition, cfg Config) (System, error) {
	cfg.ModelOptions, cfg.Limits.Retries, cfg.Limits.Timeout = d.ModelOptions, d.Retries, d.Timeout
	if cfg.Pipeline != "" {
		cfg.Model, cfg.ModelGiven = d.Model, d.Model != ""
		return o.openPipeline(cfg)
	}
	return o.openExtractor(cfg, pipeline.Template{Messages: d.Prompt}, outcome.Prompt{})
}

// Identify names the model or the pipeline of a Config. It sends and starts nothing.
func (o Opener) Identify(cfg Config) (Identity, error) {
	if cfg.Pipeline != "" {
		return pipelineIdentity(cfg.Pipeline)
	}
	opened, _, err := o.openModel(cfg)
	if err != nil {
		return Identity{}, err
	}
	name := opened.Provider + "/" + opened.Info.Model
	if IsBaseline(cfg.Model) {
		name = opened.Info.Model
	}
	if _, file, found := strings.Cut(cfg.Model, "/"); found && opened.Info.Pipeline == provider.Recorded {
		return identity("recorded "+name, "", file)
	}
	return identity(name, opened.Info.Pipeline)
}

// pipelineIdentity identifies a program by its words without folders and by the bytes of the
// files that they name. The program file itself counts only if no other word names a file,
// as a script does. It identifies an address by its path, as each worker has its own host.
func pipelineIdentity(target string) (Identity, error) {
	target = strings.TrimSpace(target)
	if u, err := url.Parse(target); err == nil && strings.Contains(target, "://") {
		return identity("pipeline "+path.Clean("/"+u.Path), "")
	}
	words, err := proc.Split(target)
	if err != nil {
		return Identity{}, cli.Usage("--pipeline: %w", err)
	}
	name := []string{"pipeline"}
	for _, word := range strings.Fields(provider.MaskTarget(target)) { // with secrets masked
		if flag, value, joined := strings.Cut(word, "="); joined {
			name = append(name, flag+"="+filepath.Base(value))
		} else {
			name = append(name, filepath.Base(word))
		}
	}
	var files []string
	for _, word := range words[1:] {
		if _, value, joined := strings.Cut(word, "="); joined && strings.HasPrefix(word, "-") {
			word = value
		}
		if info, err := os.Stat(word); err == nil && info.Mode().IsRegular() {
			files = append(files, word)
		}
	}
	if program, err := exec.LookPath(words[0]); err == nil && len(files) == 0 {
		files = []string{program}
	}
	return identity(strings.Join(name, " "), "", files...)
}

// identity returns the Identity of a name, with a hash over the name, the detail and the
// bytes of the files.
func identity(name, detail string, files ...string) (Identity, error) {
	sum := sha256.New()
	fmt.Fprintf(sum, "%s\n%s\n", name, detail)
	for _, path := range files {
		file, err := os.Open(path)
		if err != nil {
			return Identity{}, usageError(err)
		}
		_, err = io.Copy(sum, file)
		if err = errors.Join(err, file.Close()); err != nil {
			return Identity{}, err
		}
	}
	return Identity{Name: name, Hash: hex.EncodeToString(sum.Sum(nil)[:8])}, nil
}
