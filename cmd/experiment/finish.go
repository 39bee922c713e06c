package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"extraction-experiment/compare"
	"extraction-experiment/experiment"
	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/printable"
	"extraction-experiment/outcome"
	"extraction-experiment/pipeline"
	"extraction-experiment/report"
	"extraction-experiment/runstore"
	"extraction-experiment/tracking"
)

// finish sums the run up from the run file alone, prints and exports it, closes
// it, and decides the exit code.
func (j *job) finish(env cli.Env, ran, published error) error {
	if ran != nil && j.unbegun(ran) {
		return errors.Join(ran, j.discard())
	}
	ctx := context.Background()
	problems := []error{ran, j.advise(published)}
	summary, err := summarise(ctx, j.run.Reader)
	if err != nil {
		return errors.Join(append(problems, err, j.run.Close(), j.system.close())...)
	}
	gate, err := j.cfg.gate.JudgeRun(summary)
	problems = append(problems, err, j.write(ctx, env, gated{summary, gate}), j.verdict(summary))
	if ran == nil {
		problems = append(problems, gate.Err(j.cfg.name))
	}
	if note := j.system.asks.notKept(); note != "" {
		fmt.Fprintln(env.Stderr, "note: "+printable.Line(note))
	}
	problems = append(problems, j.run.Close(), j.system.close())
	if code := cli.ExitCode(ran); ran != nil && (errors.Is(ran, experiment.ErrInterrupted) || code == cli.ExitInterrupted || code == cli.ExitIO) {
		problems[0] = cli.Errorf(code, "%w; go on with: %s", ran, goOn(named(env.Args, j.cfg.nameMade), ran))
	}
	return errors.Join(distinct(problems)...)
}

// distinct leaves out what an earlier error says already: a disk that fails is
// met by everybody who writes.
func distinct(problems []error) []error {
	var kept []error
	for _, err := range problems {
		said := func(earlier error) bool { return strings.Contains(earlier.Error(), err.Error()) }
		if err != nil && !slices.ContainsFunc(kept, said) {
			kept = append(kept, err)
		}
	}
	return kept
}

// named adds the name to a command line that the program made for want of one.
func named(args []string, made string) []string {
	if made == "" {
		return args
	}
	return append(slices.Clone(args), "--name", made)
}

// resumeCommand returns the command line that goes on with this run: the same
// one, with --resume.
func resumeCommand(args []string) string {
	command := "experiment"
	for _, arg := range args {
		if arg != "--resume" {
			command += " " + quote(arg)
		}
	}
	return command + " --resume"
}

// goOn is the resume command, with MORE in the place of a budget that is used up.
func goOn(args []string, ran error) string {
	var used *pipeline.BudgetError
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
	return resumeCommand(append(kept, "--"+flag, "MORE")) + ", a larger budget in the place of MORE"
}

// advise says how to send what could not be sent.
func (j *job) advise(published error) error {
	var left *tracking.UnpublishedError
	if published == nil || errors.As(published, &left) && left.Refused {
		return published
	}
	return fmt.Errorf("%w; nothing is lost, send it later with: experiment publish %s", published, quote(j.cfg.name))
}

// unbegun reports whether this process made the run and nothing came of it for
// a reason that will stay. After an interruption, or when the disk is full, the
// run is kept to be resumed.
func (j *job) unbegun(ran error) bool {
	if code := cli.ExitCode(ran); !j.fresh || code == cli.ExitInterrupted || code == cli.ExitIO {
		return false
	}
	counts, err := j.run.Counts(context.Background())
	return err == nil && counts.Done == 0
}

// discard removes a run of which nothing came, so that its name stays free.
func (j *job) discard() error {
	return errors.Join(j.run.Close(), os.Remove(j.path), j.system.close())
}

// gated is the summary of a run with what its gate says of it.
type gated struct {
	outcome.Summary
	Gate *compare.GateResult `json:"gate,omitempty"`
}

// write prints the summary and exports the run.
func (j *job) write(ctx context.Context, env cli.Env, s gated) error {
	var problems []error
	switch {
	case j.cfg.cell: // the sweep reports all of its runs
	case j.cfg.json:
		problems = append(problems, printJSON(env, s))
	case !j.cfg.quiet:
		problems = append(problems, cli.Written(report.Text(env.Stdout, s.Summary, textOptions(env, j.whereToLook(s.Summary)))))
		problems = append(problems, cli.Written(report.Gate(env.Stdout, s.Gate, textOptions(env, nil))))
	}
	if j.cfg.output != "" {
		if err := exportTo(ctx, env, j.run.Reader, j.cfg.output); err != nil {
			err = fmt.Errorf("writing %s: %w; the run is safe: experiment export %s", j.cfg.output, err, quote(j.cfg.name))
			problems = append(problems, cli.Written(err))
		}
	}
	return errors.Join(problems...)
}

// whereToLook says how to see the run.
func (j *job) whereToLook(s outcome.Summary) []string {
	show := fmt.Sprintf("experiment show %s", quote(s.Run.Name))
	if len(s.Worst) > 0 {
		show += " " + quote(s.Worst[0].ID)
	}
	lines := []string{show}
	switch {
	case !j.lf.Embedded:
		lines = append(lines, s.Run.URL)
	case j.lf.Shared:
		lines = append(lines, "runs of this folder: "+j.lf.Client.BaseURL()+"/")
	default:
		lines = append(lines, "experiment serve (the runs of this folder in a browser)")
	}
	return lines
}

// verdict says whether too many items failed, or the program itself did.
func (j *job) verdict(s outcome.Summary) error {
	for _, f := range s.Failures {
		if f.Class == outcome.Internal {
			return cli.Errorf(cli.ExitBug, "%d items met a fault of this program: %s", f.Count, f.Items[0].Message)
		}
	}
	if j.fresh && s.Items.Scored == 0 && len(s.Failures) == 1 && s.Failures[0].Class == outcome.Provider && !j.system.met() {
		advice := strings.Join(named([]string{"--resume --retry-failed"}, j.cfg.nameMade), " ")
		return cli.Errorf(cli.ExitUnavailable, "%s was never reached: %s; when it can be, go on with %s", j.system.asked(), s.Failures[0].Items[0].Message, advice)
	}
	if j.cfg.allowance.Exceeded(s.Items.Failed, s.Items.Planned) {
		return cli.Errorf(cli.ExitFailures, "%d of %d items failed, %s allowed (--max-failures)", s.Items.Failed, s.Items.Planned, j.cfg.allowance)
	}
	return nil
}

// exportTo writes the run as JSONL; "-" is standard output.
func exportTo(ctx context.Context, env cli.Env, run *runstore.Reader, path string) error {
	if path == "-" {
		return cli.Written(run.Export(ctx, env.Stdout))
	}
	if cli.SameFile(path, run.Path()) {
		return cli.Usage("%s is the run itself: name another file", path)
	}
	var loss *runstore.Loss // what can be read of a damaged run is a file too
	err := cli.WriteFile(path, func(w io.Writer) error {
		err := run.Export(ctx, w)
		if errors.As(err, &loss) {
			return nil
		}
		return err
	})
	if err == nil && loss != nil {
		return loss
	}
	return err
}
