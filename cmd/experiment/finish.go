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
	"extraction-experiment/outcome"
	"extraction-experiment/report"
	"extraction-experiment/runstore"
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
		return errors.Join(append(problems, err, j.run.Close())...)
	}
	gate, err := j.cfg.gate.JudgeRun(summary)
	problems = append(problems, err, j.write(ctx, env, gated{summary, gate}), j.verdict(summary))
	if ran == nil {
		problems = append(problems, gate.Err(j.cfg.name))
	}
	problems = append(problems, j.system.asks.kept(), j.run.Close(), j.system.close())
	if code := cli.ExitCode(ran); ran != nil && (errors.Is(ran, experiment.ErrInterrupted) || code == cli.ExitInterrupted || code == cli.ExitIO) {
		problems[0] = cli.Errorf(code, "%w; go on with: %s", ran, resumeCommand(env.Args))
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

// advise says how to send what could not be sent.
func (j *job) advise(published error) error {
	if published == nil {
		return nil
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
		problems = append(problems, written(report.JSON(env.Stdout, s, isTerminal(os.Stdout))))
	case !j.cfg.quiet:
		problems = append(problems, written(report.Text(env.Stdout, s.Summary, textOptions(env, j.whereToLook(s.Summary)))))
		problems = append(problems, written(report.Gate(env.Stdout, s.Gate, textOptions(env, nil))))
	}
	if j.cfg.output != "" {
		if err := exportTo(ctx, env, j.run.Reader, j.cfg.output); err != nil {
			problems = append(problems, cli.Errorf(cli.ExitIO, "writing %s: %w; the run is safe: experiment export %s", j.cfg.output, err, quote(j.cfg.name)))
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
		lines = append(lines, "Langfuse API of this folder: "+j.lf.Client.BaseURL())
	default:
		lines = append(lines, "experiment serve (the Langfuse API of this folder)")
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
	if j.cfg.allowance.Exceeded(s.Items.Failed, s.Items.Planned) {
		return cli.Errorf(cli.ExitFailures, "%d of %d items failed, %s allowed (--max-failures)", s.Items.Failed, s.Items.Planned, j.cfg.allowance)
	}
	return nil
}

// exportTo writes the run as JSONL; "-" is standard output.
func exportTo(ctx context.Context, env cli.Env, run *runstore.Reader, path string) error {
	if path == "-" {
		return written(run.Export(ctx, env.Stdout))
	}
	if cli.SameFile(path, run.Path()) {
		return cli.Usage("%s is the run itself: name another file", path)
	}
	return cli.WriteFile(path, func(w io.Writer) error { return run.Export(ctx, w) })
}
