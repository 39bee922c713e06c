package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"extraction-experiment/compare"
	"extraction-experiment/experiment"
	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/printable"
	"extraction-experiment/outcome"
	"extraction-experiment/report"
)

// finish sums the run up from the run file alone, prints and exports it, closes
// it, and decides the exit code.
func (j *job) finish(env cli.Env, ran, published error) error {
	if ran != nil && j.unbegun(ran) {
		return errors.Join(ran, j.discard())
	}
	ctx := context.Background()
	problems := []error{ran, sendLater(published, j.cfg.name)}
	summary, err := j.tally()
	if err == nil {
		err = standing(ctx, j.run.Reader, &summary)
	}
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
		if err := j.export(ctx, env, s.Summary); err != nil {
			err = fmt.Errorf("writing %s: %w; the run is safe: experiment export %s", j.cfg.output, err, quote(j.cfg.name))
			problems = append(problems, cli.Written(err))
		}
	}
	return errors.Join(problems...)
}

// export writes the run to the file of its settings.
func (j *job) export(ctx context.Context, env cli.Env, s outcome.Summary) error {
	if j.cfg.report {
		return writeAnswers(ctx, j.run.Reader, s, j.cfg.output)
	}
	return exportTo(ctx, env, j.run.Reader, j.cfg.output)
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
