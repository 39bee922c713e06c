package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"os/signal"
	"slices"
	"strconv"
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

// session is what all runs of one command use.
type session struct {
	env     cli.Env
	lf      *settings.Langfuse
	signals *signals
	log     *slog.Logger
	git     func() runs.Revision // reads the revision at the first call
}

// withSession connects to Langfuse, calls work, and disconnects. It calls ask, if not nil,
// during the connection; see settings.ConnectWith.
func withSession(ctx context.Context, env cli.Env, cfg runConfig,
	ask func(context.Context, *langfuse.Client), work func(context.Context, session) error) error {
	log, err := settings.NewLog(env.Stderr, cfg.logLevel, cfg.logFormat)
	if err != nil {
		return err
	}
	ctx, signals := watchSignals(ctx, env.Stderr, leftForResume)
	defer signals.stop()
	revision := sync.OnceValue(runs.ReadRevision)
	if cfg.Header.Name != "" { // git reads the revision during the connection to Langfuse
		go revision()
		defer revision()
	}
	lf, err := settings.ConnectWith(ctx, env, cfg.langfuseMode, ask)
	if err != nil {
		return signals.markStop(err)
	}
	log.Info("connected", "langfuse", lf.Client.BaseURL(), "version", lf.Server.Version.String(),
		"mode", lf.Server.Mode(), "project", lf.Server.Project.ID)
	if !cfg.quiet {
		fmt.Fprintln(env.Stderr, lf.Describe())
	}
	err = work(ctx, session{env, lf, signals, log, revision})
	return cli.JoinDistinct(err, lf.Close())
}

// note prints a note; an empty text prints nothing.
func (s session) note(text string) {
	if text != "" {
		fmt.Fprintln(s.env.Stderr, "note: "+textutil.Line(text))
	}
}

// engine completes the configuration of a run and returns that of the engine. opened is set when the system
// is opened.
func (s session) engine(cfg *runConfig, opened *system.System) experiment.Config {
	metadata := runs.Metadata(s.env.Getenv, s.git())
	maps.Copy(metadata, cfg.Header.Metadata)
	cfg.Header.Metadata, cfg.Header.GitSHA, cfg.Header.Runner = metadata, s.git().String(), cli.Version()
	cfg.Langfuse, cfg.Order, cfg.Log, cfg.Stop = &s.lf.Langfuse, runs.ScoreOrder(), s.log, s.signals.first.Done()
	cfg.Observer = observeRun(s.env, s.signals, s.log, cfg.quiet, cfg.Header.Scorer.Primary, cfg.Header.Trials,
		&cfg.system.Limits, opened)
	cfg.Accepts = s.env.Accepts
	return cfg.Config
}

// finish prints and exports the result of a run and returns an error with its exit code. err is
// why there is no result.
func (s session) finish(cfg runConfig, opened system.System, r experiment.Result, err error) error {
	switch {
	case r.Path == "":
		return s.explain(err, cfg.Header.Harness)
	case r.Removed:
		return errors.Join(r.Stopped, r.Fault)
	}
	s.note(r.Note)
	name := cfg.Header.Name
	unverified := s.printVerdict(cfg, r)
	problems := []error{s.adviseResume(cfg, r.Stopped)}
	if !errors.Is(errors.Join(r.Stopped, r.Fault), runstore.ErrMoved) { // else there is nothing to publish
		problems = append(problems, advisePublish(s.signals.markStop(r.Unpublished), name))
	}
	if r.Summary.Run.Name == "" { // the summary failed
		return errors.Join(append(problems, r.Fault)...)
	}
	summary := r.Summary
	summary.Warnings = append(summary.Warnings, answers.DocumentWarnings(r.Header)...)
	gate, err := cfg.gate.JudgeRun(summary)
	problems = append(problems, err, s.write(cfg, r, gatedSummary{summary, gate}), failureError(cfg, r))
	if r.Stopped == nil {
		problems = append(problems, gate.Err(name))
	}
	s.note(opened.Model.CacheProblem())
	return errors.Join(cli.JoinDistinct(append(problems, r.Fault)...), unverified)
}

// adviseResume adds to the error of a stopped run how to resume it.
func (s session) adviseResume(cfg runConfig, err error) error {
	code := cli.ExitCode(err)
	if err == nil || !errors.Is(err, experiment.ErrInterrupted) && code != cli.ExitInterrupted && code != cli.ExitIO {
		return err
	}
	args := s.env.Resume // of a check, which judges its run
	if args == nil {
		args = withName(s.env.Args, cfg.generatedName)
	}
	return cli.Errorf(code, "%w; resume with: %s", err, resumeAdvice(args, err))
}

// printVerdict prints the result of --verify on standard error and returns its error.
func (s session) printVerdict(cfg runConfig, r experiment.Result) error {
	if r.Verification == nil {
		return s.signals.markStop(r.Unverified)
	}
	v := runs.Verification{
		Langfuse: s.lf.Client.BaseURL(), Version: s.lf.Server.Version.String(), OK: r.Verification.OK(),
		Verification: *r.Verification,
	}
	if cfg.quiet && v.OK {
		return nil
	}
	opt := report.Options{Width: s.env.Terminal(), Whole: s.env.Terminal() == 0}
	return errors.Join(cli.WriteError(runs.VerificationText(s.env.Stderr, v, opt)), v.Err())
}

// gatedSummary is the summary of a run with the result of its gate.
type gatedSummary struct {
	outcome.Summary
	Gate *compare.GateResult `json:"gate,omitempty"`
}

// write prints the summary and exports the run.
func (s session) write(cfg runConfig, r experiment.Result, g gatedSummary) error {
	var problems []error
	switch {
	case cfg.sweepRun: // the sweep reports all its runs
	case cfg.json:
		problems = append(problems, runs.PrintJSON(s.env, g))
	case !cfg.quiet:
		problems = append(problems, cli.WriteError(report.Text(s.env.Stdout, g.Summary, runs.TextOptions(s.env, s.nextCommands(g.Summary)))))
		problems = append(problems, cli.WriteError(report.Gate(s.env.Stdout, g.Gate, runs.TextOptions(s.env, nil))))
	}
	if cfg.output != "" {
		if err := s.export(cfg, r.Path, g.Summary); err != nil {
			err = fmt.Errorf("writing %s: %w; the run is safe: experiment export %s", cfg.output, err, cli.Arguments(cfg.Header.Name))
			problems = append(problems, cli.WriteError(err))
		}
	}
	return errors.Join(problems...)
}

// export writes the run to the file of --output.
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

// nextCommands returns the commands and addresses that show the run.
func (s session) nextCommands(summary outcome.Summary) []string {
	shown, trial := []string{summary.Run.Name}, 0
	switch {
	case len(summary.Worst) > 0:
		shown, trial = append(shown, summary.Worst[0].ID), summary.Worst[0].Trial
	case len(summary.Failures) > 0:
		first := summary.Failures[0].Items[0]
		shown, trial = append(shown, first.ID), first.Trial
	}
	command := "experiment show "
	if trial > 1 {
		command += "--trial " + strconv.Itoa(trial) + " "
	}
	lines := []string{command + cli.Arguments(shown...)}
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

// failureError returns an error if the program itself failed, the service was never reached, too
// many items failed, or an evaluator gave no score.
func failureError(cfg runConfig, r experiment.Result) error {
	s := r.Summary
	for _, f := range s.Failures {
		if f.Class == outcome.Internal {
			return cli.Errorf(cli.ExitBug, "a bug in this program failed %d items: %s", f.Count, f.Items[0].Message)
		}
	}
	if r.Begun && s.Items.Scored == 0 && len(s.Failures) == 1 && s.Failures[0].Class == outcome.Provider && !r.Reached {
		advice := strings.Join(withName([]string{"--resume --retry-failed"}, cfg.generatedName), " ")
		return cli.Errorf(cli.ExitUnavailable, "the service never answered: %s; when it does, resume with %s", s.Failures[0].Items[0].Message, advice)
	}
	if cfg.allowance.Exceeded(s.Items.Failed, s.Items.Planned) {
		noun := report.SummaryView{Summary: s}.Noun()
		retry := strings.Join(withName([]string{"--retry-failed"}, cfg.generatedName), " ")
		return cli.Errorf(cli.ExitFailures, "%s: %d of %d %ss failed, %s allowed (--max-failures); %s gives them a new attempt",
			s.Run.Name, s.Items.Failed, s.Items.Planned, noun, cfg.allowance, retry)
	}
	return runs.UnansweredError(s)
}

// explain explains in terms of the command line why a run could not begin.
func (s session) explain(err error, harnessName string) error {
	if taken, is := errors.AsType[*experiment.NameTakenError](err); is {
		hint := ", or --resume to continue it"
		switch {
		case taken.Where == "":
			hint = "; --resume needs its run file, which is not in this folder"
		case harnessName == answers.Name:
			hint += ", or --overwrite to replace it"
		}
		return cli.Usage("the run name %q is taken (%s): use --name %s%s", taken.Name, taken.Place(), taken.Free, hint)
	}
	if missing, is := errors.AsType[*experiment.DatasetError](err); is {
		return cli.Usage("%w; experiment seed --list shows those that are, experiment seed --dataset %s --file FILE creates it",
			err, cli.Quote(missing.Name))
	}
	return s.signals.markStop(err)
}

// signals stops a command at SIGINT (Ctrl-C), SIGTERM and SIGHUP (the terminal was closed).
// While items are processed, the first signal lets those that were sent finish and the second
// stops at once; otherwise the first stops at once. The next one ends the process. SIGPIPE stops
// nothing: a run goes on if the reader of its output ends.
type signals struct {
	first   context.Context // done at the first signal
	working atomic.Bool     // items are processed
	stop    func()
}

// errInterrupted is the cause of a context that a signal canceled.
var errInterrupted = &textutil.Reworded{Text: "interrupted", Err: context.Canceled}

// leftForResume describes the effect of the first signal on a run.
const leftForResume = "what was sent is finished and kept, what waits is left for --resume"

// watchSignals returns a context that is canceled when the work must stop at once. If a
// signal arrives during the work, it prints effect, which says what the first signal does.
func watchSignals(ctx context.Context, stderr io.Writer, effect string) (context.Context, *signals) {
	ctx, cancelCause := context.WithCancelCause(ctx)
	received := make(chan os.Signal, 2)
	cancel := func() {
		signal.Stop(received)
		cancelCause(errInterrupted)
	}
	signal.Notify(received, cli.EndSignals()...)
	// SIGPIPE is caught and not ignored, because child processes inherit ignored signals. It
	// stays caught until the process ends, because errors are printed last.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	first, markFirst := context.WithCancel(context.Background())
	s := &signals{first: first, stop: cancel}
	go func() {
		select {
		case <-received:
		case <-ctx.Done():
			return
		}
		markFirst()
		if !s.working.Load() {
			cancel()
			return
		}
		fmt.Fprintf(stderr, "\nstopping: %s; interrupt again to stop at once\n", effect)
		select {
		case <-received:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, s
}

// markStop gives err the exit code of an interruption if a signal caused it.
func (s *signals) markStop(err error) error {
	if s.received() {
		return stopError(err)
	}
	return err
}

// received reports whether a signal arrived.
func (s *signals) received() bool { return s.first.Err() != nil }

// interruptible gives a command a context that ends at the first signal; the second signal ends
// the process. It is for commands that need not finish anything. If a signal caused the
// command's error, the error gets the exit code of an interruption. If the reader of the output
// ends, so does the process, but not before the command has removed its temporary files, and with
// a message if there is another error, such as a gate that failed.
func interruptible(c *urfave.Command) *urfave.Command {
	action := c.Action
	c.Action = func(c *urfave.Context) error {
		ctx, signals := watchSignals(c.Context, io.Discard, "")
		defer signals.stop()
		c.Context = ctx
		err := action(c)
		if ctx.Err() != nil {
			return stopError(err)
		}
		if failed, ok := errors.AsType[*fs.PathError](err); ok && failed.Path == os.Stdout.Name() &&
			failed.Err == syscall.EPIPE && !strings.Contains(err.Error(), "\n") {
			signal.Reset(syscall.SIGPIPE)
			_, _ = os.Stdout.WriteString("\n") // ends the process, without a message
		}
		return err
	}
	return c
}

// stopError gives an error of a canceled context the exit code of an interruption. The message of
// an UnpublishedError stays as it is.
func stopError(err error) error {
	if !errors.Is(err, context.Canceled) {
		return err
	}
	if _, unpublished := errors.AsType[*tracking.UnpublishedError](err); unpublished {
		return cli.Errorf(cli.ExitInterrupted, "%w", err)
	}
	return cli.Errorf(cli.ExitInterrupted, "stopped before the end: %s", strings.ReplaceAll(err.Error(), context.Canceled.Error(), errInterrupted.Error()))
}

// withName adds the generated name of a run, if any, to a command line.
func withName(args []string, generated string) []string {
	if generated == "" {
		return args
	}
	return append(slices.Clone(args), "--name", generated)
}

// resumeCommand returns the command line that resumes this run: args with --resume, and without
// --overwrite, which would begin it again. It masks keys among the arguments of a pipeline.
func resumeCommand(args []string) string {
	command := "experiment"
	for i, arg := range args {
		flag, value, hasValue := strings.Cut(arg, "=")
		switch {
		case hasValue && namesProgram(flag):
			arg = flag + "=" + provider.MaskTarget(value)
		case i > 0 && namesProgram(args[i-1]):
			arg = provider.MaskTarget(arg)
		}
		if flag != "--resume" && flag != "--overwrite" {
			command += " " + cli.Quote(arg)
		}
	}
	return command + " --resume"
}

// namesProgram reports whether the value of a flag is a command line or an address.
func namesProgram(flag string) bool {
	return slices.Contains([]string{"pipeline", "command", "url"}, strings.TrimLeft(flag, "-")) && strings.HasPrefix(flag, "-")
}

// resumeAdvice returns the command that resumes a run after an error. If the budget is used up,
// MORE stands for a larger one; if the run stopped because every item failed, --retry-failed is
// added.
func resumeAdvice(args []string, err error) string {
	isRetry := func(arg string) bool { return strings.HasPrefix(arg, "--retry-failed") }
	if _, tripped := errors.AsType[*limit.TrippedError](err); tripped && !slices.ContainsFunc(args, isRetry) {
		args = append(slices.Clip(args), "--retry-failed")
	}
	overBudget, is := errors.AsType[*pipeline.BudgetError](err)
	if !is {
		return resumeCommand(args)
	}
	flag := "budget-usd"
	if overBudget.Tokens {
		flag = "budget-tokens"
	}
	var kept []string
	for i := 0; i < len(args); i++ {
		name, _, hasValue := strings.Cut(strings.TrimLeft(args[i], "-"), "=")
		switch {
		case name != flag || !strings.HasPrefix(args[i], "-"):
			kept = append(kept, args[i])
		case !hasValue:
			i++ // skips its value
		}
	}
	return resumeCommand(append(kept, "--"+flag, "MORE")) + ", with a larger budget in place of MORE"
}

// advisePublish adds to an error of publication how to send the rest, unless Langfuse rejected it
// for good.
func advisePublish(err error, run string) error {
	unpublished, is := errors.AsType[*tracking.UnpublishedError](err)
	if err == nil || errors.Is(err, tracking.ErrNameTaken) || is && unpublished.Refused {
		return err
	}
	return fmt.Errorf("%w; nothing is lost, send it later with: experiment publish %s", err, cli.Arguments(run))
}
