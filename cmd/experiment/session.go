package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"strings"

	"extraction-experiment/cmd/internal/runs"
	"extraction-experiment/cmd/internal/settings"
	"extraction-experiment/cmd/internal/system"
	"extraction-experiment/compare"
	"extraction-experiment/experiment"
	"extraction-experiment/harness/answers"
	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/textutil"
	"extraction-experiment/langfuse"
	"extraction-experiment/outcome"
	"extraction-experiment/report"
	"extraction-experiment/runstore"
)

// session is what the runs of one command share.
type session struct {
	env     cli.Env
	lf      *settings.Langfuse // nil for the bench
	signals *signals
	log     *slog.Logger
}

// withSession connects to Langfuse, has the work done, and disconnects. ask is what
// may be asked of the server meanwhile; see settings.ConnectAsking.
func withSession(ctx context.Context, env cli.Env, cfg runConfig, log *slog.Logger,
	ask func(context.Context, *langfuse.Client), work func(context.Context, session) error) error {
	ctx, signals := watchSignals(ctx, env.Stderr, leftForResume)
	defer signals.stop()
	lf, err := settings.ConnectAsking(ctx, settings.InMode(cfg.langfuseMode, env.Getenv), ask)
	if err != nil {
		return signals.interrupted(err)
	}
	log.Info("connected", "langfuse", lf.Client.BaseURL(), "version", lf.Server.Version.String(),
		"mode", lf.Server.Mode(), "project", lf.Server.Project.ID)
	if !cfg.quiet {
		fmt.Fprintln(env.Stderr, lf.Describe())
	}
	err = work(ctx, session{env, lf, signals, log})
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
	sha, branch, modified := runs.Revision()
	metadata := runs.Metadata(s.env.Getenv, sha, branch)
	maps.Copy(metadata, cfg.Header.Metadata)
	cfg.Header.Metadata, cfg.Header.GitSHA, cfg.Header.Runner = metadata, runs.GitSHA(sha, modified), cli.Version()
	cfg.Langfuse, cfg.Order, cfg.Log, cfg.Stop = &s.lf.Langfuse, runs.ScoreOrder(), s.log, s.signals.first.Done()
	cfg.Observer = s.watched(cfg, opened)
	return cfg.Config
}

// watched has a person see how the run gets on.
func (s session) watched(cfg runConfig, opened *system.System) experiment.Observer {
	view := runs.NewProgress(s.env, cfg.quiet, cfg.Header.Scorer.Primary, s.log)
	view.Workers = func() string {
		if opened.Workers == nil {
			return ""
		}
		return opened.Workers()
	}
	observer := view.Observer()
	observer.Opened = func(path string, begun bool, notes []string) {
		s.log.Info("run file", "path", path, "new", begun)
		for _, text := range notes {
			s.note(text)
		}
		opened.Asks.Follow(view.Waiting)
	}
	observer.Working = func(working bool) {
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
	name := cfg.Header.Name
	unverified := s.verified(cfg, r)
	problems := []error{s.stopped(cfg, r.Stopped), sendLater(s.signals.cutShort(r.Unpublished), name)}
	if r.Summary.Run.Name == "" { // it could not be summed up
		return errors.Join(append(problems, r.Fault)...)
	}
	summary := r.Summary
	summary.Warnings = append(summary.Warnings, answers.DocumentWarnings(r.Header)...)
	gate, err := cfg.gate.JudgeRun(summary)
	problems = append(problems, err, s.write(cfg, r, gated{summary, gate}), verdict(cfg, opened, r))
	if r.Stopped == nil {
		problems = append(problems, gate.Err(name))
	}
	s.note(opened.Asks.NotKept())
	return errors.Join(cli.Distinct(append(problems, r.Fault)...), unverified)
}

// stopped says how to go on with a run that was stopped.
func (s session) stopped(cfg runConfig, err error) error {
	code := cli.ExitCode(err)
	if err == nil || !errors.Is(err, experiment.ErrInterrupted) && code != cli.ExitInterrupted && code != cli.ExitIO {
		return err
	}
	return cli.Errorf(code, "%w; go on with: %s", err, goOn(named(s.env.Args, cfg.nameMade), err))
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
	width := s.env.Terminal()
	return errors.Join(cli.Written(runs.VerificationText(s.env.Stderr, v, report.Options{Width: width, Whole: width == 0})), v.Err())
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
func verdict(cfg runConfig, opened system.System, r experiment.Result) error {
	s := r.Summary
	for _, f := range s.Failures {
		if f.Class == outcome.Internal {
			return cli.Errorf(cli.ExitBug, "%d items met a fault of this program: %s", f.Count, f.Items[0].Message)
		}
	}
	if r.Begun && s.Items.Scored == 0 && len(s.Failures) == 1 && s.Failures[0].Class == outcome.Provider && !r.Reached {
		advice := strings.Join(named([]string{"--resume --retry-failed"}, cfg.nameMade), " ")
		return cli.Errorf(cli.ExitUnavailable, "%s was never reached: %s; when it can be, go on with %s", opened.Asked(), s.Failures[0].Items[0].Message, advice)
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
			hint = ", or --resume to go on with it"
		}
		if taken.Where != "" && harnessName == answers.Name {
			hint += ", or --overwrite to replace it"
		}
		return cli.Usage("the run name %q is taken (%s): use --name %s%s", taken.Name, taken.Place(), taken.Free, hint)
	case errors.As(err, &missing):
		return cli.Usage("%w; seed --list shows those that are, seed --dataset %s --file FILE makes it", err, cli.Quote(missing.Name))
	}
	return s.signals.interrupted(err)
}

// exists reports whether a file is there.
func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
