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
	"extraction-experiment/extraction"
	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/files"
	"extraction-experiment/internal/textutil"
	"extraction-experiment/langfuse"
	"extraction-experiment/outcome"
	"extraction-experiment/pipeline"
	"extraction-experiment/pipeline/answer"
	"extraction-experiment/pipeline/provider"
	"extraction-experiment/runstore"
	"extraction-experiment/scoring"
)

// The states of a finding.
const (
	stateOK      = "ok"
	stateNote    = "note"    // works, with a limitation
	stateProblem = "problem" // does not work
)

// finding is one entry of the doctor's report.
type finding struct {
	Check  string `json:"check"`
	State  string `json:"state"`
	Found  string `json:"found"`
	Advice string `json:"advice,omitempty"`
}

// doctor collects findings, and the errors of the problems for the exit code.
type doctor struct {
	env      cli.Env
	json     bool // if false, each finding is printed at once, as a check may wait for a server
	findings []finding
	problems []error
	err      error // an error that is not a finding, for example of writing
}

// DoctorConfig selects optional checks and the output of Doctor.
type DoctorConfig struct {
	Mode         string // forced on Langfuse; see settings.ConnectWith
	Model        string // sent one short request, which may cost a little; empty for none
	ScoreConfigs bool   // create the missing score configurations of published scores
	JSON         bool   // print all findings as JSON at the end
}

// Doctor checks keys, Langfuse, model and folder, and prints what it finds and how to fix
// problems. A failed check does not stop the others. The error has the exit code of the
// worst problem.
func Doctor(ctx context.Context, env cli.Env, cfg DoctorConfig) error {
	d := &doctor{env: env, json: cfg.JSON}
	d.keys()
	d.langfuse(ctx, cfg)
	if cfg.Model == "" {
		d.modelKeys()
	} else {
		d.model(ctx, cfg.Model)
	}
	d.folder(ctx)
	if cfg.JSON {
		d.err = errors.Join(d.err, runs.PrintJSON(env, d.findings))
	}
	if n := len(d.problems); n > 0 {
		code := cli.ExitCode(errors.Join(d.problems...))
		d.err = errors.Join(d.err, cli.Errorf(code, "%s, see above", textutil.Counted(n, "problem")))
	}
	return d.err
}

func (d *doctor) add(check, state, found, advice string) {
	f := finding{check, state, found, advice}
	d.findings = append(d.findings, f)
	if !d.json {
		d.err = cli.JoinDistinct(d.err, cli.WriteError(f.print(d.env.Stdout)))
	}
}

func (d *doctor) ok(check, format string, args ...any) {
	d.add(check, stateOK, fmt.Sprintf(format, args...), "")
}

func (d *doctor) note(check, found, advice string) { d.add(check, stateNote, found, advice) }

// problem adds an error as a finding. advice is empty if the error already says what to do.
func (d *doctor) problem(check string, err error, advice string) {
	d.add(check, stateProblem, err.Error(), advice)
	d.problems = append(d.problems, err)
}

// langfuse checks the server of the environment or of this folder, and creates score
// configurations there if cfg asks for it.
func (d *doctor) langfuse(ctx context.Context, cfg DoctorConfig) {
	lf, err := settings.ConnectWith(ctx, d.env, cfg.Mode, nil)
	if err != nil {
		d.problem("server", err, "")
		return
	}
	d.server(lf)
	if cfg.ScoreConfigs {
		if err := d.scoreConfigs(ctx, lf.Client); err != nil {
			d.problem("scores", err, "")
		}
	}
	d.err = errors.Join(d.err, lf.Close())
}

// print writes check, state and finding in columns, and the advice below them.
func (f finding) print(w io.Writer) error {
	const width = len("project") // the longest check
	indent := "\n" + strings.Repeat(" ", width+len(stateProblem)+4)
	text := textutil.Line(f.Found)
	if f.State != stateOK { // notes and problems may have several lines
		text = strings.ReplaceAll(strings.TrimRight(textutil.Block(f.Found), "\n"), "\n", indent)
	}
	if f.Advice != "" {
		text += indent + textutil.Line(f.Advice)
	}
	_, err := fmt.Fprintf(w, "%-*s  %-*s  %s\n", width, f.Check, len(stateProblem), f.State, text)
	return err
}

// maxSkew is the difference of the clocks from which the doctor gives a note. Below it,
// Langfuse still shows events in a sensible order.
const maxSkew = 30 * time.Second

// answerTimeout bounds the test request to a model.
const answerTimeout = time.Minute

// keys reports which variables of Langfuse are set. It shows no value except the beginning
// of the public key.
func (d *doctor) keys() {
	set := d.setVariables(langfuse.EnvPublicKey, langfuse.EnvSecretKey, langfuse.EnvBaseURL, langfuse.EnvHost)
	key := strings.TrimSpace(d.env.Getenv(langfuse.EnvPublicKey))
	if strings.HasPrefix(key, "pk-lf-") && len(key) >= 16 {
		set[0] += " (" + key[:10] + "…)"
	}
	switch {
	case len(set) == 0:
		d.ok("keys", "LANGFUSE_PUBLIC_KEY and LANGFUSE_SECRET_KEY are not set: the embedded Langfuse of this folder is used")
	case d.env.Getenv(langfuse.EnvPublicKey) == "" || d.env.Getenv(langfuse.EnvSecretKey) == "":
		d.note("keys", "not both keys are set; there is: "+strings.Join(set, ", "), "")
	default:
		d.ok("keys", "set: %s", strings.Join(set, ", "))
	}
}

// setVariables returns the names of the variables that are not blank. It changes names.
func (d *doctor) setVariables(names ...string) []string {
	return slices.DeleteFunc(names, func(name string) bool { return strings.TrimSpace(d.env.Getenv(name)) == "" })
}

// server reports address, version, mode, project, clock and limits of the server.
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
	switch {
	case s.Time.IsZero():
		d.note("clock", "the server does not tell its time", "")
	case s.Skew.Abs() < maxSkew:
		d.ok("clock", "in step with the server")
	default:
		d.note("clock", fmt.Sprintf("this machine and the server differ by %s", s.Skew.Abs().Round(time.Second)),
			"correct the clock: Langfuse sorts and joins traces and scores by time")
	}
}

// limits names the features that the version of the server does not have.
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

// scoreConfigs creates the score configurations of the scores that runs publish by default,
// except those whose name exists already. It is safe to repeat.
func (d *doctor) scoreConfigs(ctx context.Context, client *langfuse.Client) error {
	existing := map[string]bool{}
	for config, err := range client.ListScoreConfigs(ctx) {
		if err != nil {
			return err
		}
		existing[config.Name] = true
	}
	var created []string
	wanted := scoreConfigs()
	for _, want := range wanted {
		if existing[want.Name] {
			continue
		}
		if _, err := client.CreateScoreConfig(ctx, want); err != nil {
			return err
		}
		created = append(created, want.Name)
	}
	if len(created) == 0 {
		d.ok("scores", "all %d score configurations are there", len(wanted))
		return nil
	}
	d.ok("scores", "%s made: %s", textutil.Counted(len(created), "score configuration"), strings.Join(created, ", "))
	return nil
}

// scoreConfigs returns the configurations of the scores that runs publish by default.
func scoreConfigs() []langfuse.ScoreConfig {
	var list []langfuse.ScoreConfig
	for _, d := range scoring.Catalog() {
		if slices.Contains(scoring.Headlines(), d.Name) {
			list = append(list, langfuse.ScoreConfig{Name: d.Name, Type: langfuse.ScoreNumeric, Min: new(0.0), Max: new(1.0), Description: d.Meaning})
		}
	}
	return append(list, langfuse.ScoreConfig{Name: outcome.ErrorScore, Type: langfuse.ScoreBoolean, Description: "Whether the item failed."})
}

// modelKeys reports which variables of model providers are set.
func (d *doctor) modelKeys() {
	set := d.setVariables(provider.Variables()...)
	if len(set) == 0 {
		d.ok("model", "no key of a model provider is set; the baseline needs none")
		return
	}
	d.ok("model", "set: %s; --model MODEL asks one", strings.Join(set, ", "))
}

// model sends one short request to a model, with a JSON Schema as in a run, which some servers refuse.
func (d *doctor) model(ctx context.Context, spec string) {
	opened, _, err := Opener{Env: d.env}.openModel(Config{Model: spec})
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
		Messages: []pipeline.Message{{Role: "user", Content: `Answer with this JSON: {"entities": [], "relationships": []}`}},
		Schema:   &pipeline.Schema{Name: answer.SchemaName, JSON: answer.Schema(extraction.Document{}, answer.Both)},
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

// folder reports the folder of the runs, whether it is writable, and its broken runs.
func (d *doctor) folder(ctx context.Context) {
	path, err := filepath.Abs(settings.Folder)
	if err == nil {
		err = checkWritable(settings.Folder)
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

// checkWritable creates and removes a file in the folder, or in its parent if the folder
// does not exist.
func checkWritable(folder string) error {
	if _, err := os.Stat(folder); errors.Is(err, os.ErrNotExist) {
		folder = filepath.Dir(folder)
	}
	return files.CheckWritable(folder)
}
