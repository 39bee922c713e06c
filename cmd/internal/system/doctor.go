package system

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"extraction-experiment/cmd/internal/runs"
	"extraction-experiment/cmd/internal/settings"
	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/textutil"
	"extraction-experiment/langfuse"
	"extraction-experiment/outcome"
	"extraction-experiment/pipeline"
	"extraction-experiment/pipeline/provider"
	"extraction-experiment/runstore"
	"extraction-experiment/scoring"
)

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
	json     bool // else a finding is printed at once: a server that does not answer takes long
	findings []finding
	problems []error
	failed   error // what is not a finding, such as a write error
}

// DoctorConfig is what the doctor is asked beside the usual.
type DoctorConfig struct {
	Model        string // to be asked for a word, which may cost a little
	ScoreConfigs bool   // of the scores that runs publish are to be made
	JSON         bool   // is printed at the end
}

// Doctor looks at keys, Langfuse, model and folder, and prints what it finds and
// what to do about what is wrong. It makes every check it can, whatever the others
// found. The error is that of the worst problem.
func Doctor(ctx context.Context, env cli.Env, cfg DoctorConfig) error {
	d := &doctor{env: env, json: cfg.JSON}
	d.keys()
	d.langfuse(ctx, cfg.ScoreConfigs)
	if cfg.Model == "" {
		d.modelKeys()
	} else {
		d.model(ctx, cfg.Model)
	}
	d.folder(ctx)
	if cfg.JSON {
		d.failed = errors.Join(d.failed, runs.PrintJSON(env, d.findings))
	}
	if n := len(d.problems); n > 0 {
		code := cli.ExitCode(errors.Join(d.problems...))
		d.failed = errors.Join(d.failed, cli.Errorf(code, "%s, see above", textutil.Counted(n, "problem")))
	}
	return d.failed
}

func (d *doctor) add(check, state, found, advice string) {
	f := finding{check, state, found, advice}
	d.findings = append(d.findings, f)
	if !d.json {
		d.failed = errors.Join(d.failed, cli.Written(f.print(d.env.Stdout)))
	}
}

func (d *doctor) ok(check, format string, args ...any) {
	d.add(check, foundOK, fmt.Sprintf(format, args...), "")
}

func (d *doctor) note(check, found, advice string) { d.add(check, foundNote, found, advice) }

// problem files an error; its text already says what to do, unless there is
// advice.
func (d *doctor) problem(check string, err error, advice string) {
	d.add(check, foundProblem, err.Error(), advice)
	d.problems = append(d.problems, err)
}

// langfuse finds the server of the environment, or of this folder, and makes score
// configurations there if they are asked for.
func (d *doctor) langfuse(ctx context.Context, scoreConfigs bool) {
	lf, err := settings.Connect(ctx, d.env.Getenv)
	if err != nil {
		d.problem("server", err, "")
		return
	}
	d.server(lf)
	if scoreConfigs {
		if err := d.scoreConfigs(ctx, lf.Client); err != nil {
			d.problem("scores", err, "")
		}
	}
	d.failed = errors.Join(d.failed, lf.Close())
}

// print writes check, state and finding in columns, advice below.
func (f finding) print(w io.Writer) error {
	const wide = len("project") // the longest check
	indent := "\n" + strings.Repeat(" ", wide+len(foundProblem)+4)
	text := textutil.Line(f.Found)
	if f.State != foundOK { // errors and limits may have several lines
		text = strings.ReplaceAll(strings.TrimRight(textutil.Block(f.Found), "\n"), "\n", indent)
	}
	if f.Advice != "" {
		text += indent + textutil.Line(f.Advice)
	}
	_, err := fmt.Fprintf(w, "%-*s  %-*s  %s\n", wide, f.Check, len(foundProblem), f.State, text)
	return err
}

// maxSkew is how far the clocks may differ without a word: what Langfuse shows
// by time then still fits together.
const maxSkew = 30 * time.Second

// answerTimeout is how long a model may take for one word.
const answerTimeout = time.Minute

// keys says which variables of Langfuse are set, and nothing of their values
// but the beginning of the public key.
func (d *doctor) keys() {
	set := d.given(langfuse.EnvPublicKey, langfuse.EnvSecretKey, langfuse.EnvBaseURL, langfuse.EnvHost)
	key := strings.TrimSpace(d.env.Getenv(langfuse.EnvPublicKey))
	if strings.HasPrefix(key, "pk-lf-") && len(key) >= 16 {
		set[0] += " (" + key[:10] + "…)"
	}
	switch {
	case len(set) == 0:
		d.ok("keys", "no LANGFUSE_* variable is set: the embedded Langfuse of this folder is used")
	case d.env.Getenv(langfuse.EnvPublicKey) == "" || d.env.Getenv(langfuse.EnvSecretKey) == "":
		d.note("keys", "not both keys are set; there is: "+strings.Join(set, ", "), "")
	default:
		d.ok("keys", "set: %s", strings.Join(set, ", "))
	}
}

// given returns those of the variables that are set.
func (d *doctor) given(names ...string) []string {
	return slices.DeleteFunc(names, func(name string) bool { return strings.TrimSpace(d.env.Getenv(name)) == "" })
}

// server says what the keys lead to.
func (d *doctor) server(lf *settings.Langfuse) {
	s := lf.Server
	address := lf.Client.BaseURL()
	switch {
	case lf.Shared:
		address += ", the embedded Langfuse of this folder"
	case lf.Embedded:
		address = "the embedded Langfuse of this folder"
	}
	d.ok("server", "%s, version %s", address, s.Version)
	shows := map[langfuse.Mode]string{
		langfuse.ModeEventsOnly: "runs are shown as experiments",
		langfuse.ModeDual:       "runs are shown as experiments and as runs of their dataset",
		langfuse.ModeLegacy:     "runs are shown as runs of their dataset",
	}
	d.ok("mode", "%s: %s", s.Mode(), shows[s.Mode()])
	d.ok("project", "%s (%s)", s.Project.Name, s.Project.ID)
	d.clock(s)
	d.limits(s.Capabilities)
}

func (d *doctor) clock(s langfuse.Server) {
	switch skew := s.Skew; {
	case s.Time.IsZero():
		d.note("clock", "the server does not tell its time", "")
	case skew.Abs() < maxSkew:
		d.ok("clock", "in step with the server")
	default:
		where := "behind"
		if skew < 0 {
			where = "ahead of"
		}
		d.note("clock", fmt.Sprintf("this machine is %s %s the server", skew.Abs().Round(time.Second), where),
			"correct the clock: Langfuse sorts and joins traces and scores by time")
	}
}

// limits names what follows from the version.
func (d *doctor) limits(can langfuse.Capabilities) {
	var limits []string
	if !can.DatasetVersions() {
		limits = append(limits, "before 3.150.1 a dataset cannot be pinned: do not change it during a run")
	}
	if !can.DatasetSchemas() {
		limits = append(limits, "before 3.128 datasets keep no JSON Schema")
	}
	if !can.ScoresV3() {
		limits = append(limits, "before 3.179 scores are read back trace by trace, which is slow")
	}
	if len(limits) == 0 {
		d.ok("limits", "nothing is missing: datasets are pinned to a version, scores are read in bulk")
		return
	}
	d.note("limits", strings.Join(limits, "\n"), "upgrade Langfuse")
}

// scoreConfigs makes the score configurations of what runs publish by default,
// those of which there are none of that name.
func (d *doctor) scoreConfigs(ctx context.Context, client *langfuse.Client) error {
	there := map[string]bool{}
	for config, err := range client.ListScoreConfigs(ctx) {
		if err != nil {
			return err
		}
		there[config.Name] = true
	}
	var made []string
	wanted := scoreConfigs()
	for _, want := range wanted {
		if there[want.Name] {
			continue
		}
		if _, err := client.CreateScoreConfig(ctx, want); err != nil {
			return err
		}
		made = append(made, want.Name)
	}
	if len(made) == 0 {
		d.ok("scores", "all %d score configurations are there", len(wanted))
		return nil
	}
	d.ok("scores", "%s made: %s", textutil.Counted(len(made), "score configuration"), strings.Join(made, ", "))
	return nil
}

// scoreConfigs describes the scores that runs publish by default.
func scoreConfigs() []langfuse.ScoreConfig {
	var list []langfuse.ScoreConfig
	for _, d := range scoring.Catalog() {
		if slices.Contains(scoring.Headlines(), d.Name) {
			list = append(list, langfuse.ScoreConfig{Name: d.Name, Type: langfuse.ScoreNumeric, Min: new(0.0), Max: new(1.0), Description: d.Meaning})
		}
	}
	return append(list, langfuse.ScoreConfig{Name: outcome.ErrorScore, Type: langfuse.ScoreBoolean, Description: "Whether the item failed."})
}

// modelKeys says which variables of model providers are set.
func (d *doctor) modelKeys() {
	set := d.given(provider.Variables()...)
	if len(set) == 0 {
		d.ok("model", "no key of a model provider is set; the baseline needs none")
		return
	}
	d.ok("model", "set: %s; --model MODEL asks one", strings.Join(set, ", "))
}

// model sends one short request.
func (d *doctor) model(ctx context.Context, spec string) {
	opened, _, err := Opener{Getenv: d.env.Getenv}.openModel(spec)
	switch {
	case err != nil:
		d.problem("model", err, "")
		return
	case opened.Model == nil:
		d.ok("model", "%s runs in this program and needs no key", spec)
		return
	}
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	began := time.Now()
	response, err := opened.Model.Generate(ctx, pipeline.Request{
		Messages: []pipeline.Message{{Role: "user", Content: "Answer with the single word: ok"}},
	})
	if err != nil {
		d.problem("model", cli.Errorf(cli.ExitUnavailable, "%s does not answer: %w", spec, err), "")
		return
	}
	name := spec
	if response.Model != "" && !strings.HasSuffix(spec, response.Model) {
		name += " (" + response.Model + ")"
	}
	d.ok("model", "%s answers, after %s", name, time.Since(began).Round(time.Millisecond))
}

// folder says where runs are kept, and tries to write there.
func (d *doctor) folder(ctx context.Context) {
	path, err := filepath.Abs(settings.Folder)
	if err == nil {
		err = tryToWrite(settings.Folder)
	}
	if err != nil {
		d.problem("folder", cli.Errorf(cli.ExitIO, "runs cannot be kept in %s: %w", path, err), "go to a folder that can be written")
		return
	}
	entries, err := runstore.List(ctx, settings.Folder)
	if err != nil {
		d.problem("folder", cli.Errorf(cli.ExitIO, "%w", err), "")
		return
	}
	d.ok("folder", "%s can be written and has %s", path, textutil.Counted(len(entries), "run"))
	for _, e := range entries {
		if e.Err != nil {
			d.note("folder", e.Err.Error(), "")
		}
	}
}

// tryToWrite creates a file and removes it, in the folder or, where there is
// none yet, beside the place where it will be.
func tryToWrite(folder string) error {
	if _, err := os.Stat(folder); errors.Is(err, os.ErrNotExist) {
		folder = filepath.Dir(folder)
	}
	f, err := os.CreateTemp(folder, ".doctor-*")
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}
