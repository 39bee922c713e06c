package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	urfave "github.com/urfave/cli/v2"

	"extraction-experiment/cmd/internal/runs"
	"extraction-experiment/cmd/internal/settings"
	"extraction-experiment/cmd/internal/system"
	"extraction-experiment/compare"
	"extraction-experiment/experiment"
	"extraction-experiment/harness/answers"
	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/limit"
	"extraction-experiment/internal/textutil"
	"extraction-experiment/langfuse"
	"extraction-experiment/outcome"
	"extraction-experiment/pipeline"
	"extraction-experiment/pipeline/provider"
	"extraction-experiment/report"
	"extraction-experiment/runstore"
	"extraction-experiment/tracking"
)

// session is what the runs of one command share.
type session struct {
	env     cli.Env
	lf      *settings.Langfuse // nil for the bench
	signals *signals
	log     *slog.Logger
	git     func() runs.Revision // asked once
}

// withSession connects to Langfuse, has the work done, and disconnects. ask is what
// may be asked of the server meanwhile; see settings.ConnectAsking.
func withSession(ctx context.Context, env cli.Env, cfg runConfig,
	ask func(context.Context, *langfuse.Client), work func(context.Context, session) error) error {
	log, err := settings.NewLog(env.Stderr, cfg.logLevel, cfg.logForm)
	if err != nil {
		return err
	}
	ctx, signals := watchSignals(ctx, env.Stderr, leftForResume)
	defer signals.stop()
	revision := sync.OnceValue(runs.ReadRevision)
	if cfg.Header.Name != "" { // a run is to begin: git takes its time, in which Langfuse is connected to
		go revision()
		defer revision()
	}
	lf, err := settings.ConnectAsking(ctx, settings.InMode(cfg.langfuseMode, env.Getenv), ask)
	if err != nil {
		return signals.cutShort(err)
	}
	log.Info("connected", "langfuse", lf.Client.BaseURL(), "version", lf.Server.Version.String(),
		"mode", lf.Server.Mode(), "project", lf.Server.Project.ID)
	if !cfg.quiet {
		fmt.Fprintln(env.Stderr, lf.Describe())
	}
	err = work(ctx, session{env, lf, signals, log, revision})
	return cli.Distinct([]error{err, lf.Close()}...)
}

// note prints what a person should know; "" is nothing.
func (s session) note(text string) {
	if text != "" {
		fmt.Fprintln(s.env.Stderr, "note: "+textutil.Line(text))
	}
}

// engine is the experiment that the settings of a run describe, all but the system,
// which opened is once it is open.
func (s session) engine(cfg runConfig, opened *system.System) experiment.Config {
	metadata := runs.Metadata(s.env.Getenv, s.git())
	maps.Copy(metadata, cfg.Header.Metadata)
	cfg.Header.Metadata, cfg.Header.GitSHA, cfg.Header.Runner = metadata, s.git().String(), cli.Version()
	cfg.Langfuse, cfg.Order, cfg.Log, cfg.Stop = &s.lf.Langfuse, runs.ScoreOrder(), s.log, s.signals.first.Done()
	cfg.Observer = s.watched(cfg, opened)
	return cfg.Config
}

// watched has a person see how the run gets on.
func (s session) watched(cfg runConfig, opened *system.System) experiment.Observer {
	view := runs.NewProgress(s.env, cfg.quiet, cfg.Header.Scorer.Primary, s.log)
	observer := view.Observer()
	observer.Opened = func(path string, begun bool, notes []string) {
		s.log.Info("run file", "path", path, "new", begun)
		for _, text := range notes {
			s.note(text)
		}
		opened.Asks.Follow(view.Waiting)
	}
	observer.Working = func(working bool) {
		if working { // they are known from here on
			view.Workers = opened.Workers
		}
		s.signals.working.Store(working) // else a signal ends the publishing at once: nothing is lost
		if !working && s.lf != nil {
			view.WatchSending(cfg.Header.Name, s.lf.Paused)
		}
	}
	if !cfg.quiet {
		observer.Missing = runs.StillMissing(s.env)
	}
	return observer
}

// finish prints and exports what came of a run, and decides the exit code; err is why
// nothing came of it.
func (s session) finish(cfg runConfig, opened system.System, r experiment.Result, err error) error {
	switch {
	case r.Path == "":
		return s.explained(err, cfg.Header.Harness)
	case r.Removed:
		return errors.Join(r.Stopped, r.Fault)
	}
	s.note(r.Note)
	name := cfg.Header.Name
	unverified := s.verified(cfg, r)
	problems := []error{s.stopped(cfg, r.Stopped), sendLater(s.signals.cutShort(r.Unpublished), name)}
	if r.Summary.Run.Name == "" { // it could not be summed up
		return errors.Join(append(problems, r.Fault)...)
	}
	summary := r.Summary
	summary.Warnings = append(summary.Warnings, answers.DocumentWarnings(r.Header)...)
	gate, err := cfg.gate.JudgeRun(summary)
	problems = append(problems, err, s.write(cfg, r, gated{summary, gate}), verdict(cfg, r))
	if r.Stopped == nil {
		problems = append(problems, gate.Err(name))
	}
	s.note(opened.Asks.NotKept())
	return errors.Join(cli.Distinct(append(problems, r.Fault)...), unverified)
}

// stopped says how to continue with a run that was stopped.
func (s session) stopped(cfg runConfig, err error) error {
	code := cli.ExitCode(err)
	if err == nil || !errors.Is(err, experiment.ErrInterrupted) && code != cli.ExitInterrupted && code != cli.ExitIO {
		return err
	}
	return cli.Errorf(code, "%w; resume with: %s", err, goOn(named(s.env.Args, cfg.nameMade), err))
}

// verified says on standard error what --verify found.
func (s session) verified(cfg runConfig, r experiment.Result) error {
	if r.Verdict == nil {
		return s.signals.cutShort(r.Unverified)
	}
	v := runs.Verification{Langfuse: s.lf.Client.BaseURL(), Version: s.lf.Server.Version.String(), OK: r.Verdict.OK(), Verdict: *r.Verdict}
	if cfg.quiet && v.OK {
		return nil
	}
	opt := report.Options{Width: s.env.Terminal(), Whole: s.env.Terminal() == 0}
	return errors.Join(cli.Written(runs.VerificationText(s.env.Stderr, v, opt)), v.Err())
}

// gated is the summary of a run with what its gate says of it.
type gated struct {
	outcome.Summary
	Gate *compare.GateResult `json:"gate,omitempty"`
}

// write prints the summary and exports the run.
func (s session) write(cfg runConfig, r experiment.Result, g gated) error {
	var problems []error
	switch {
	case cfg.sweepRun: // the sweep reports all of its runs
	case cfg.json:
		problems = append(problems, runs.PrintJSON(s.env, g))
	case !cfg.quiet:
		problems = append(problems, cli.Written(report.Text(s.env.Stdout, g.Summary, runs.TextOptions(s.env, s.whereToLook(g.Summary)))))
		problems = append(problems, cli.Written(report.Gate(s.env.Stdout, g.Gate, runs.TextOptions(s.env, nil))))
	}
	if cfg.output != "" {
		if err := s.export(cfg, r.Path, g.Summary); err != nil {
			err = fmt.Errorf("writing %s: %w; the run is safe: experiment export %s", cfg.output, err, cli.Quote(cfg.Header.Name))
			problems = append(problems, cli.Written(err))
		}
	}
	return errors.Join(problems...)
}

// export writes the run to the file of its settings.
func (s session) export(cfg runConfig, path string, summary outcome.Summary) (err error) {
	run, err := runstore.Load(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, run.Close()) }()
	if cfg.report {
		return runs.WriteAnswers(context.Background(), run, summary, cfg.output)
	}
	return exportTo(context.Background(), s.env, run, cfg.output)
}

// whereToLook says how to see the run.
func (s session) whereToLook(summary outcome.Summary) []string {
	show := fmt.Sprintf("experiment show %s", cli.Quote(summary.Run.Name))
	if len(summary.Worst) > 0 {
		show += " " + cli.Quote(summary.Worst[0].ID)
	}
	lines := []string{show}
	switch {
	case !s.lf.Embedded:
		lines = append(lines, summary.Run.URL)
	case s.lf.Shared:
		lines = append(lines, "runs of this folder: "+s.lf.Client.BaseURL()+"/")
	default:
		lines = append(lines, "experiment serve (the runs of this folder in a browser)")
	}
	return lines
}

// verdict says whether too many items failed, or the program itself did.
func verdict(cfg runConfig, r experiment.Result) error {
	s := r.Summary
	for _, f := range s.Failures {
		if f.Class == outcome.Internal {
			return cli.Errorf(cli.ExitBug, "a bug in this program failed %d items: %s", f.Count, f.Items[0].Message)
		}
	}
	if r.Begun && s.Items.Scored == 0 && len(s.Failures) == 1 && s.Failures[0].Class == outcome.Provider && !r.Reached {
		advice := strings.Join(named([]string{"--resume --retry-failed"}, cfg.nameMade), " ")
		return cli.Errorf(cli.ExitUnavailable, "the service was never reached: %s; when it can be, resume with %s", s.Failures[0].Items[0].Message, advice)
	}
	if cfg.allowance.Exceeded(s.Items.Failed, s.Items.Planned) {
		return cli.Errorf(cli.ExitFailures, "%d of %d items failed, %s allowed (--max-failures)", s.Items.Failed, s.Items.Planned, cfg.allowance)
	}
	return nil
}

// explained says in words of the command line what a run could not begin for.
func (s session) explained(err error, harnessName string) error {
	var taken *experiment.NameTakenError
	var missing *experiment.DatasetError
	switch {
	case errors.As(err, &taken):
		hint := ""
		if taken.Where != "" {
			hint = ", or --resume to continue it"
		}
		if taken.Where != "" && harnessName == answers.Name {
			hint += ", or --overwrite to replace it"
		}
		return cli.Usage("the run name %q is taken (%s): use --name %s%s", taken.Name, taken.Place(), taken.Free, hint)
	case errors.As(err, &missing):
		return cli.Usage("%w; experiment seed --list shows those that are, experiment seed --dataset %s --file FILE creates it",
			err, cli.Quote(missing.Name))
	}
	return s.signals.cutShort(err)
}

// exists reports whether a file is there.
func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// signals turns Ctrl-C, SIGTERM and the end of the terminal (SIGHUP) into
// stopping: while items are worked on, softly at the first and at once at the
// second; before that, at once. SIGPIPE ends nothing: a run goes on when nobody
// reads its progress any more.
type signals struct {
	first   context.Context // ends at the first signal
	working atomic.Bool     // there is something in flight to finish
	stop    func()
}

// errInterrupted is why a context ended, in the words of a person.
var errInterrupted error = interruption{}

type interruption struct{}

func (interruption) Error() string { return "interrupted" }

// Unwrap makes it the end of a context to everyone else.
func (interruption) Unwrap() error { return context.Canceled }

// leftForResume is what becomes of a run that is stopped softly.
const leftForResume = "what was sent is finished and kept, what waits is left for --resume"

// watchSignals returns a context that ends when the work is to stop at once; softly says
// what the first signal does.
func watchSignals(ctx context.Context, stderr io.Writer, softly string) (context.Context, *signals) {
	ctx, stopped := context.WithCancelCause(ctx)
	cancel := func() { stopped(errInterrupted) }
	received := make(chan os.Signal, 2)
	signal.Notify(received, cli.EndSignals()...)
	// Caught, not ignored: programs that the run starts would inherit that. To
	// the end of the process: what went wrong is printed last.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	first, come := context.WithCancel(context.Background())
	s := &signals{first: first, stop: func() {
		signal.Stop(received)
		cancel()
	}}
	go func() {
		select {
		case <-received:
		case <-ctx.Done():
			return
		}
		come()
		if !s.working.Load() {
			cancel()
			return
		}
		fmt.Fprintf(stderr, "\nstopping: %s; interrupt again to stop at once\n", softly)
		select {
		case <-received:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, s
}

// cutShort gives an error that a signal caused the exit code of a stop.
func (s *signals) cutShort(err error) error {
	if s.came() {
		return cutShort(err)
	}
	return err
}

// came reports whether there was a signal.
func (s *signals) came() bool { return s.first.Err() != nil }

// interruptible gives a command that has nothing in flight to finish a context that ends
// at the first signal; the second ends the process. The error of the command has the exit
// code of a stop if a signal caused it.
func interruptible(c *urfave.Command) *urfave.Command {
	action := c.Action
	c.Action = func(c *urfave.Context) error {
		ctx, stop := signal.NotifyContext(c.Context, cli.EndSignals()...)
		defer stop()
		context.AfterFunc(ctx, stop)
		c.Context = ctx
		err := action(c)
		if ctx.Err() != nil {
			return cutShort(err)
		}
		return err
	}
	return c
}

// cutShort gives the end of a context the exit code of a stop. What is not published
// says itself that it was interrupted.
func cutShort(err error) error {
	var left *tracking.UnpublishedError
	switch {
	case !errors.Is(err, context.Canceled):
		return err
	case errors.As(err, &left):
		return cli.Errorf(cli.ExitInterrupted, "%w", err)
	}
	return cli.Errorf(cli.ExitInterrupted, "stopped before the end: %s", strings.ReplaceAll(err.Error(), context.Canceled.Error(), errInterrupted.Error()))
}

// named adds the name to a command line that the program made for want of one.
func named(args []string, made string) []string {
	if made == "" {
		return args
	}
	return append(slices.Clone(args), "--name", made)
}

// resumeCommand returns the command line that continues with this run: the same
// one, with --resume. Keys among the arguments of a program are masked.
func resumeCommand(args []string) string {
	command := "experiment"
	for i, arg := range args {
		flag, value, joined := strings.Cut(arg, "=")
		switch {
		case joined && namesProgram(flag):
			arg = flag + "=" + provider.ShownTarget(value)
		case i > 0 && namesProgram(args[i-1]):
			arg = provider.ShownTarget(arg)
		}
		if arg != "--resume" {
			command += " " + cli.Quote(arg)
		}
	}
	return command + " --resume"
}

// namesProgram reports whether a flag's value is a command line or an address.
func namesProgram(flag string) bool {
	return slices.Contains([]string{"pipeline", "command", "url"}, strings.TrimLeft(flag, "-")) && strings.HasPrefix(flag, "-")
}

// goOn is the resume command, with MORE in place of a budget that is used up; what failed
// until the run stopped because everything fails is tried again.
func goOn(args []string, ran error) string {
	var used *pipeline.BudgetError
	var tripped *limit.TrippedError
	again := func(arg string) bool { return strings.HasPrefix(arg, "--retry-failed") }
	if errors.As(ran, &tripped) && !slices.ContainsFunc(args, again) {
		args = append(slices.Clip(args), "--retry-failed")
	}
	if !errors.As(ran, &used) {
		return resumeCommand(args)
	}
	flag := "budget-usd"
	if used.Tokens {
		flag = "budget-tokens"
	}
	var kept []string
	for i := 0; i < len(args); i++ {
		name, _, joined := strings.Cut(strings.TrimLeft(args[i], "-"), "=")
		switch {
		case name != flag || !strings.HasPrefix(args[i], "-"):
			kept = append(kept, args[i])
		case !joined:
			i++ // its value
		}
	}
	return resumeCommand(append(kept, "--"+flag, "MORE")) + ", with a larger budget in place of MORE"
}

// sendLater says how to send what of a run could not be sent.
func sendLater(published error, run string) error {
	var left *tracking.UnpublishedError
	if published == nil || errors.As(published, &left) && left.Refused {
		return published
	}
	return fmt.Errorf("%w; nothing is lost, send it later with: experiment publish %s", published, cli.Quote(run))
}
