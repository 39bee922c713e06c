package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	urfave "github.com/urfave/cli/v2"

	"extraction-experiment/cmd/internal/connect"
	"extraction-experiment/cmd/internal/output"
	"extraction-experiment/cmd/internal/settings"
	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/printable"
)

func doctorCommand(env cli.Env) *urfave.Command {
	return &urfave.Command{
		Name:      "doctor",
		Usage:     "look at keys, Langfuse, model and folder, and say what to do about what is wrong",
		UsageText: "experiment doctor [--model MODEL] [--score-configs] [--json]",
		Flags: []urfave.Flag{
			&urfave.StringFlag{Name: "model", Aliases: []string{"m"}, Usage: "send one short request to `MODEL`, which may cost a little"},
			&urfave.BoolFlag{Name: "score-configs", Usage: "make the score configurations that people who annotate choose from, where Langfuse has none of that name", DisableDefaultText: true},
			settings.ModeFlag(),
			settings.JSONFlag(),
		},
		Action: func(c *urfave.Context) error {
			if err := settings.NoWords(c); err != nil {
				return err
			}
			getenv, err := settings.InMode(c, env.Getenv)
			if err != nil {
				return err
			}
			env.Getenv = getenv
			return doctorAction(c.Context, env, doctorConfig{c.String("model"), c.Bool("score-configs"), c.Bool("json")})
		},
	}
}

// The states of a finding.
const (
	foundOK      = "ok"
	foundNote    = "note"    // works, with a limit that one should know
	foundProblem = "problem" // does not work
)

// finding is one line of the doctor's report.
type finding struct {
	Check  string `json:"check"`
	State  string `json:"state"`
	Found  string `json:"found"`
	Advice string `json:"advice,omitempty"`
}

// doctor collects findings, and the errors behind the problems for the exit
// code.
type doctor struct {
	env      cli.Env
	findings []finding
	printed  int // of the findings
	problems []error
}

// doctorConfig is what the doctor is asked beside the usual.
type doctorConfig struct {
	model        string // to be asked for a word
	scoreConfigs bool   // to be made
	json         bool
}

// doctorAction makes every check it can, whatever the others found, and ends
// with the code of the worst problem.
func doctorAction(ctx context.Context, env cli.Env, cfg doctorConfig) error {
	d := &doctor{env: env}
	print := func() (err error) { // at once: a server that does not answer takes long
		if !cfg.json {
			err = cli.Written(printFindings(env.Stdout, d.findings[d.printed:]))
			d.printed = len(d.findings)
		}
		return err
	}
	d.keys()
	err := print()
	err = errors.Join(err, d.langfuse(ctx, cfg.scoreConfigs), print())
	if cfg.model == "" {
		d.modelKeys()
	} else {
		d.model(ctx, cfg.model)
	}
	d.folder(ctx)
	err = errors.Join(err, print())
	if cfg.json {
		err = errors.Join(err, output.JSON(env, d.findings))
	}
	if n := len(d.problems); n > 0 {
		code := cli.ExitCode(errors.Join(d.problems...))
		err = errors.Join(err, cli.Errorf(code, "%s, see above", printable.Counted(n, "problem")))
	}
	return err
}

func (d *doctor) ok(check, format string, args ...any) {
	d.findings = append(d.findings, finding{Check: check, State: foundOK, Found: fmt.Sprintf(format, args...)})
}

func (d *doctor) note(check, found, advice string) {
	d.findings = append(d.findings, finding{check, foundNote, found, advice})
}

// problem files an error; its text already says what to do, unless there is
// advice.
func (d *doctor) problem(check string, err error, advice string) {
	d.findings = append(d.findings, finding{check, foundProblem, err.Error(), advice})
	d.problems = append(d.problems, err)
}

// langfuse finds the server of the environment, or of this folder, and makes score
// configurations there if they are asked for.
func (d *doctor) langfuse(ctx context.Context, scoreConfigs bool) error {
	lf, err := connect.Open(ctx, d.env.Getenv)
	if err != nil {
		d.problem("server", err, "")
		return nil
	}
	d.server(lf)
	if scoreConfigs {
		if err := d.scoreConfigs(ctx, lf.Client); err != nil {
			d.problem("scores", err, "")
		}
	}
	return lf.Close()
}

// printFindings writes check, state and finding in columns, advice below.
func printFindings(w io.Writer, findings []finding) error {
	const wide = len("project") // the longest check
	indent := "\n" + strings.Repeat(" ", wide+len(foundProblem)+4)
	var out strings.Builder
	for _, f := range findings {
		text := printable.Line(f.Found)
		if f.State != foundOK { // errors and limits may have several lines
			text = strings.ReplaceAll(strings.TrimRight(printable.Block(f.Found), "\n"), "\n", indent)
		}
		fmt.Fprintf(&out, "%-*s  %-*s  %s\n", wide, f.Check, len(foundProblem), f.State, text)
		if f.Advice != "" {
			fmt.Fprintf(&out, "%s%s\n", indent[1:], printable.Line(f.Advice))
		}
	}
	_, err := io.WriteString(w, out.String())
	return err
}
