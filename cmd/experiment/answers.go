package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	urfave "github.com/urfave/cli/v2"

	"extraction-experiment/cmd/internal/runs"
	"extraction-experiment/cmd/internal/settings"
	"extraction-experiment/cmd/internal/system"
	"extraction-experiment/configs"
	"extraction-experiment/experiment"
	"extraction-experiment/harness/answers"
	"extraction-experiment/harness/answers/pdf"
	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/files"
	"extraction-experiment/internal/limit"
	"extraction-experiment/outcome"
	"extraction-experiment/report"
	"extraction-experiment/runstore"
	"extraction-experiment/tracking"
)

func answersCommand(env cli.Env) *urfave.Command {
	action := func(name, usage string, table []settings.Setting, run func(*urfave.Context, cli.Env, settings.Values) error) settings.Action {
		return settings.Action{Name: name, Usage: usage, Flags: cli.Each(table, settings.Setting.AsFlag),
			Run: func(c *urfave.Context, _ []string) error {
				// The configuration file of a run has no settings of answers.
				return run(c, env, settings.Resolve(c, table, env.Getenv, configs.Experiment{}.Lookup, ""))
			}}
	}
	return settings.SetActions(&urfave.Command{Name: "answers", Usage: "grade answers to questions about PDF documents"}, []settings.Action{
		action("run", "experiment answers run --pdf FILE --questions FILE.jsonl [--out RUN] [flags]", answersRunTable(), runAnswersAction),
		action("benchmark", "experiment answers benchmark --config FILE [flags]", answersBenchmarkTable(), benchmarkAction),
	}, "")
}

// sharedSettings are those that mean the same for answers as for extraction.
var sharedSettings = []string{
	"temperature", "top-p", "max-tokens", "seed", "concurrency", "timeout", "rpm", "tpm", "retries", "cache", "budget-usd", "budget-tokens",
	"trials", "gate", "inconclusive", "max-failures", "description", "metadata", "environment", "langfuse-mode", "resume", "retry-failed", "json", "quiet", "log-level", "log-format",
}

// answersSystemTable lists the settings that say what answers, and how.
func answersSystemTable() []settings.Setting {
	table := []settings.Setting{
		{Flag: "model", Alias: "m", Env: "EXPERIMENT_MODEL", Default: "baseline", Usage: "`MODEL` that answers from the best passages; baseline answers with the best sentence, without a model"},
		{Flag: "prompt", Env: "EXPERIMENT_ANSWERS_PROMPT", Usage: "`NAME` of a prompt in Langfuse with {{question}} and {{passages}} (default: a built-in one)"},
		{Flag: "prompt-label", Usage: "`LABEL` of the prompt (default: production)"},
		{Flag: "prompt-version", Usage: "`N` is the version of the prompt"},
		{Flag: "prompt-file", Usage: "push the prompt in `FILE` where it differs from the newest, and use that"},
		{Flag: "passages", Default: "6", Usage: "`N` passages are given to the model"},
		{Flag: "command", Env: "EXPERIMENT_ANSWERS_COMMAND", Usage: "`PROGRAM` of a team's own that answers (docs/answers.md)"},
		{Flag: "url", Env: "EXPERIMENT_ANSWERS_URL", Usage: "`URL` of a team's own service that answers"},
	}
	for _, s := range runTable() {
		if slices.Contains(sharedSettings, s.Flag) {
			table = append(table, s)
		}
	}
	return table
}

// answersRunTable lists the settings of "answers run".
func answersRunTable() []settings.Setting {
	return append([]settings.Setting{
		{Flag: "pdf", Usage: "`FILE` that the questions are about; EXPERIMENT_PDF_PASSWORD opens an encrypted one"},
		{Flag: "questions", Usage: "`FILE` of questions in JSONL, or the name of a dataset in Langfuse"},
		{Flag: "out", Alias: "o", Usage: "`RUN|FILE` is the name of the run, or a file: its report as FILE.json, the run as FILE.jsonl (default: a name with the time)"},
		{Flag: "name", Alias: "n", Usage: "`NAME` of the run, where --out is a file"},
		{Flag: "overwrite", Switch: true, Usage: "replace the run of that name, unless it is published to Langfuse"},
		{Flag: "verify", Switch: true, Usage: "read the run back from Langfuse at the end and compare it with the run file"},
	}, answersSystemTable()...)
}

// answersConfig is what the settings of a run of answers mean.
type answersConfig struct {
	runConfig
	pdf, command, url string
	passages          int
}

// readAnswers reads the settings and returns every problem of them at once.
func readAnswers(s settings.Values) (answersConfig, error) {
	c, p := readAnswersSystem(s)
	c.pdf, c.Dataset = s.Text("pdf"), s.Text("questions")
	if c.pdf == "" {
		p.Add("--pdf is missing: name the document that the questions are about")
	}
	if c.Dataset == "" {
		p.Add("--questions is missing: name a file of questions in JSONL, or a dataset in Langfuse")
	}
	c.Header.Name, c.output = runAndFile(s.Text("out"), s.Text("name"))
	c.report, c.Overwrite = filepath.Ext(c.output) == ".json", s.On("overwrite")
	if c.Overwrite && c.Resume {
		p.Add("--overwrite begins anew, and --resume goes on: choose one")
	}
	c.settle(p, "answers", "which run, with --out or --name")
	return c, p.Err()
}

// settle makes a name of that beginning where none is given, and the folder of the
// output; which is what --resume needs to be told.
func (c *answersConfig) settle(p *settings.Problems, beginning, which string) {
	if c.Header.Name == "" {
		c.nameMade = runs.MadeName(beginning)
		c.Header.Name = c.nameMade
	}
	settings.CheckRunName(p, "name", c.Header.Name)
	if c.output != "" {
		p.Join(os.MkdirAll(filepath.Dir(c.output), 0o755))
		p.Join(cli.CanWrite(c.output))
	}
	if c.Resume && c.nameMade != "" {
		p.Add("--resume: say %s", which)
	}
}

// readAnswersSystem reads what all runs of answers have.
func readAnswersSystem(s settings.Values) (answersConfig, *settings.Problems) {
	p := &settings.Problems{}
	scores := append(answers.ScoreOrder(), outcome.ErrorScore)
	c := answersConfig{runConfig: readRunOf(p, s, answers.Name, scores), command: s.Text("command"), url: s.Text("url")}
	c.Header.Publication.Scores = []string{outcome.AllScores} // there are few, and no others
	c.passages = p.Count("passages", s.Text("passages"), 1, 100)
	switch own := c.command != "" || c.url != ""; {
	case c.command != "" && c.url != "":
		p.Add("--command and --url cannot both be measured in one run")
	case own && (c.system.AsksPrompt() || c.system.Limits.Limited() || c.system.ModelGiven):
		p.Add("--command and --url answer in their own way: leave --model, --prompt, limits and --cache out")
	}
	return c, p
}

// runAndFile tells the name of a run from that of a file: a file has a folder
// or an ending.
func runAndFile(out, name string) (run, file string) {
	if out == "" {
		return name, ""
	}
	ext := filepath.Ext(out)
	if name == "" && filepath.Base(out) == out && ext != ".json" && ext != ".jsonl" {
		return out, ""
	}
	return cmp.Or(name, strings.TrimSuffix(filepath.Base(out), ext)), out
}

// envPassword opens an encrypted PDF.
const envPassword = "EXPERIMENT_PDF_PASSWORD"

func runAnswersAction(c *urfave.Context, env cli.Env, values settings.Values) error {
	cfg, err := readAnswers(values)
	if err != nil {
		return cli.Usage("%w", err)
	}
	return withSession(c.Context, env, cfg.runConfig, nil, func(ctx context.Context, s session) error {
		var opened system.System
		var r experiment.Result
		config, err := s.answers(ctx, cfg, &opened)
		if err == nil {
			r, err = experiment.Run(ctx, config)
		}
		return s.finish(cfg.runConfig, opened, r, err)
	})
}

// answers is a run of answers: it reads document and questions. opened is its system
// once that is open.
func (s session) answers(ctx context.Context, cfg answersConfig, opened *system.System) (config experiment.Config, err error) {
	doc, err := readDocument(ctx, cfg.pdf, s.env.Getenv)
	if err != nil {
		return config, err
	}
	questions, err := s.questions(ctx, cfg.Dataset, cfg.output, &cfg.Header.Dataset)
	if err != nil {
		return config, err
	}
	notes := append(first(mostNotes, unreadable(doc), "about pages"), first(mostNotes, questions.Warnings, "about questions")...)
	cfg.Header.Metadata, cfg.Header.Scorer = answers.Describe(cfg.Header.Metadata, doc, questions), answers.Pin()
	config = s.engine(cfg.runConfig, opened)
	config.Keep.Metadata = false // it says what was asked of which document
	config.Source = questions
	config.Open = func(ctx context.Context, _ bool) (experiment.System, error) {
		asked := system.AnswersConfig{Config: cfg.system, Command: cfg.command, URL: cfg.url, Passages: cfg.passages}
		answerer, made, err := opener(s.env, s.lf).OpenAnswerer(ctx, asked, doc)
		if err != nil {
			return experiment.System{}, err
		}
		*opened = made
		opened.Notes = notes
		return opened.Measured(answers.Task{Answerer: answerer}, answers.Scorer{Pages: len(doc.Pages)}), nil
	}
	return config, nil
}

// mostNotes is how many notes of one kind a person is shown.
const mostNotes = 10

// first keeps the first notes, and counts the others.
func first(most int, notes []string, about string) []string {
	if len(notes) <= most {
		return notes
	}
	return append(notes[:most:most], fmt.Sprintf("and %d more notes %s", len(notes)-most, about))
}

// readDocument reads the PDF, of which a page can be read at least.
func readDocument(ctx context.Context, path string, getenv func(string) string) (*answers.Document, error) {
	doc, err := answers.OpenDocument(ctx, path, pdf.Options{Password: getenv(envPassword)})
	switch {
	case errors.Is(err, pdf.ErrPassword):
		return nil, cli.Usage("%w: set %s", err, envPassword)
	case errors.Is(err, pdf.ErrWrong):
		return nil, cli.Usage("%w: %s does not open it", err, envPassword)
	case err != nil:
		return nil, err
	}
	first := doc.Pages[0]
	switch {
	case slices.ContainsFunc(doc.Pages, func(p pdf.Page) bool { return p.Kind == pdf.Readable }):
		return doc, nil
	case doc.Repaired && first.Kind == pdf.Unreadable:
		return nil, cli.Usage("%s is damaged or was cut off: no page that was found in it can be read; page 1: %s", path, first.Problem)
	}
	return nil, cli.Usage("%s: no page has text that can be read: page 1: %s", path, first.Problem)
}

// unreadable says which pages cannot be answered from.
func unreadable(doc *answers.Document) []string {
	var notes []string
	if doc.Repaired {
		notes = append(notes, answers.FileDamaged(doc.Path))
	}
	if doc.Declared > 0 {
		notes = append(notes, answers.PagesMissing(doc.Path, doc.Declared, len(doc.Pages)))
	}
	return append(notes, cli.Each(doc.Problems(), func(p pdf.Page) string {
		return fmt.Sprintf("%s: page %d cannot be read and is not searched: %s", doc.Path, p.Number, p.Problem)
	})...)
}

// questions reads the questions from a file, which output must not replace, or from a
// dataset in Langfuse, which it notes in of.
func (s session) questions(ctx context.Context, named, output string, of *outcome.Dataset) (answers.Questions, error) {
	if experiment.IsFile(named) {
		if output != "" && cli.SameFile(named, output) {
			return answers.Questions{}, cli.Usage("--out %s would replace the questions: name another file", output)
		}
		return answers.ReadFile(ctx, named)
	}
	source, err := experiment.Open(ctx, &s.lf.Langfuse, named)
	if err != nil {
		return answers.Questions{}, err
	}
	if pinned, ok := source.(*tracking.Dataset); ok {
		of.ID, of.Version = pinned.ID(), pinned.Version()
	}
	return answers.Collect(ctx, source)
}

// answersBenchmarkTable lists the settings of "answers benchmark".
func answersBenchmarkTable() []settings.Setting {
	return append([]settings.Setting{
		{Flag: "config", Usage: "`FILE` that lists datasets, weights, repeated runs and gates (docs/answers.md)"},
		{Flag: "out", Alias: "o", Usage: "also write the report as JSON to `FILE`; a later --baseline reads it"},
		{Flag: "name", Alias: "n", Usage: "`NAME` that the runs begin with (default: that of the configuration and the time)"},
		{Flag: "baseline", Usage: "`FILE` is the report that drop and regressions are measured against"},
	}, answersSystemTable()...)
}

// benchmarkJob is a benchmark with everything that it needs.
type benchmarkJob struct {
	env    cli.Env
	cfg    answersConfig
	file   configs.Benchmark
	base   *answers.BenchmarkReport
	failed []error // of runs, where the others went on
	sweep  *experiment.Sweep
}

func benchmarkAction(c *urfave.Context, env cli.Env, values settings.Values) error {
	b, err := newBenchmark(c.Context, env, values)
	if err != nil {
		return err
	}
	var list []answers.BenchmarkDataset
	err = withSession(c.Context, env, b.cfg.runConfig, nil, func(ctx context.Context, s session) (err error) {
		if err := b.prepare(ctx, s); err != nil {
			return s.explained(err, answers.Name)
		}
		list, err = b.runAll(ctx, s)
		return err
	})
	if list == nil || cli.ExitCode(err) == cli.ExitInterrupted {
		return errors.Join(append(b.failed, err)...)
	}
	r := answers.SumBenchmark(b.file.Name, list)
	r.Gates = r.Judge(answers.BenchmarkGates(b.file.Gates), b.base)
	r.ScorerVersion = answers.Pin().Version
	problems := append(b.failed, err, b.show(r))
	for _, gate := range r.Gates {
		if gate.Failed() && (len(b.failed) == 0 || r.Summary.WeightedScore != nil) { // else why there is no score was said
			problems = append(problems, cli.Errorf(cli.ExitGate, "gate %s failed: %s", gate.Name, gate.Reason))
		}
	}
	return errors.Join(problems...)
}

func newBenchmark(ctx context.Context, env cli.Env, values settings.Values) (*benchmarkJob, error) {
	cfg, p := readAnswersSystem(values)
	cfg.system.Limits.Limiters = map[string]*limit.Limiter{} // one provider for all runs
	b := &benchmarkJob{env: env, cfg: cfg}
	path := values.Text("config")
	if path == "" {
		p.Add("--config is missing: name the file that lists the datasets")
	}
	b.cfg.Header.Name, b.cfg.output = values.Text("name"), values.Text("out")
	if err := p.Err(); err != nil {
		return nil, cli.Errorf(cli.ExitUsage, "%w", err)
	}
	var err error
	if b.file, err = configs.LoadBenchmark(path, b.cfg.Header.Name); err != nil {
		return nil, cli.Errorf(cli.ExitUsage, "%w", err)
	}
	b.cfg.settle(p, b.file.Name, "which benchmark, with the --name that its runs begin with")
	if err := p.Err(); err != nil {
		return nil, cli.Errorf(cli.ExitUsage, "%w", err)
	}
	if from := values.Text("baseline"); from != "" {
		if b.base, err = readBaseline(ctx, from); err != nil {
			return nil, err
		}
	}
	return b, nil
}

func readBaseline(ctx context.Context, path string) (*answers.BenchmarkReport, error) {
	raw, err := files.Read(ctx, path, files.MaxText)
	if err != nil {
		return nil, cli.Usage("reading the baseline: %w", err)
	}
	var r answers.BenchmarkReport
	if json.Unmarshal(raw, &r) != nil || len(r.Datasets) == 0 {
		return nil, cli.Usage("reading the baseline: %s is no report of answers benchmark", path)
	}
	return &r, nil
}

// show prints the report and writes it to the file.
func (b *benchmarkJob) show(r answers.BenchmarkReport) error {
	var problems []error
	if b.cfg.json || !b.cfg.quiet {
		problems = append(problems, runs.Print(b.env, b.cfg.json, r, report.Benchmark))
	}
	if b.cfg.output != "" {
		problems = append(problems, cli.WriteFile(b.cfg.output, func(w io.Writer) error { return report.JSON(w, r, true) }))
	}
	return errors.Join(problems...)
}

// prepare finds out which runs have begun, and whether the baseline can be
// compared with: what would be wrong at the end is said before anything is paid.
func (b *benchmarkJob) prepare(ctx context.Context, s session) error {
	b.sweep = &experiment.Sweep{Langfuse: &s.lf.Langfuse, Resume: b.cfg.Resume, Retry: b.cfg.Retry, What: "the benchmark", Note: s.note}
	for _, d := range b.file.Datasets {
		for n := 1; n <= b.file.Runs; n++ {
			b.sweep.Runs = append(b.sweep.Runs, experiment.SweepRun{Name: b.runName(d, n), Dataset: d.Questions, Trials: b.cfg.Header.Trials})
		}
	}
	if err := b.sweep.Prepare(ctx); err != nil {
		return err
	}
	if b.base == nil {
		return nil
	}
	planned, err := b.planned(ctx, s)
	if err != nil {
		return err
	}
	return errors.Join(cli.Each(planned.Incompatible(*b.base), func(reason string) error {
		return cli.Errorf(cli.ExitIncompatible, "the baseline cannot be compared: %s", reason)
	})...)
}

// planned is a report of what will be asked of which document, without answers.
func (b *benchmarkJob) planned(ctx context.Context, s session) (answers.BenchmarkReport, error) {
	var r answers.BenchmarkReport
	var problems []error
	for _, d := range b.file.Datasets {
		var run answers.BenchmarkRun
		doc, err := readDocument(ctx, d.PDF, s.env.Getenv)
		if err == nil {
			var questions answers.Questions
			questions, err = s.questions(ctx, d.Questions, "", &outcome.Dataset{})
			run = answers.BenchmarkRun{PDFSHA256: doc.SHA256, QuestionsSHA256: questions.SHA256}
		}
		if err != nil {
			problems = append(problems, fmt.Errorf("dataset %s: %w", d.ID, err))
		}
		r.Datasets = append(r.Datasets, answers.BenchmarkDataset{ID: d.ID, Weight: d.Weighted(), Runs: []answers.BenchmarkRun{run}})
	}
	return r, errors.Join(problems...)
}

// runName is that of the n-th run of a dataset.
func (b *benchmarkJob) runName(d configs.BenchmarkDataset, n int) string {
	return fmt.Sprintf("%s-%s-%d", b.cfg.Header.Name, d.ID, n)
}

// runAll runs every dataset as often as is asked for; one that is not reached has no score. A run that fails ends the
// benchmark with fail-fast; else it is noted, and the others go on. An
// interruption always ends it.
func (b *benchmarkJob) runAll(ctx context.Context, s session) ([]answers.BenchmarkDataset, error) {
	list := cli.Each(b.file.Datasets, func(d configs.BenchmarkDataset) answers.BenchmarkDataset {
		return answers.BenchmarkDataset{ID: d.ID, Kind: d.Kind, Weight: d.Weighted(), Runs: []answers.BenchmarkRun{}}
	})
	for i, d := range b.file.Datasets {
		done := &list[i]
		for n := 1; n <= b.file.Runs; n++ {
			if s.signals.came() { // while the run before was published
				return list, cli.Errorf(cli.ExitInterrupted, "stopped before dataset %s, run %d; go on with: %s",
					d.ID, n, resumeCommand(named(b.env.Args, b.cfg.nameMade)))
			}
			run, err := b.runOne(ctx, s, i*b.file.Runs+n-1, d, n)
			done.Runs = append(done.Runs, run)
			switch {
			case err == nil:
			case cli.ExitCode(err) == cli.ExitInterrupted, b.file.OnError == "fail-fast":
				return list, fmt.Errorf("dataset %s, run %d: %w", d.ID, n, err)
			default:
				b.failed = append(b.failed, fmt.Errorf("dataset %s, run %d: %w", d.ID, n, err))
			}
		}
	}
	return list, nil
}

// runOne runs one dataset once, or goes on with that run, and reads its run file
// back; at is its place in the sweep.
func (b *benchmarkJob) runOne(ctx context.Context, s session, at int, d configs.BenchmarkDataset, n int) (answers.BenchmarkRun, error) {
	cfg := b.cfg
	cfg.pdf, cfg.Dataset, cfg.output, cfg.quiet, cfg.json = d.PDF, d.Questions, "", true, false
	cfg.Header.Name = b.runName(d, n)
	run := answers.BenchmarkRun{Name: cfg.Header.Name}
	if !b.cfg.quiet {
		fmt.Fprintf(b.env.Stderr, "dataset %s, run %d of %d: %s\n", d.ID, n, b.file.Runs, run.Name)
	}
	began := time.Now()
	var opened system.System
	var r experiment.Result
	config, failed := s.answers(ctx, cfg, &opened)
	if failed == nil {
		r, failed = b.sweep.Run(ctx, at, config)
	}
	run.Path, failed = r.Path, s.finish(cfg.runConfig, opened, r, failed)
	run.Seconds = time.Since(began).Seconds()
	if failed != nil {
		run.Error = failed.Error()
	}
	if r.Path == "" || r.Removed {
		return run, failed
	}
	run.Failed = r.Summary.Items.Failed
	if sum := r.Summary.Answers; sum != nil {
		run.PDFSHA256, run.QuestionsSHA256 = sum.PDFSHA256, sum.QuestionsSHA256
		if r.Summary.Status == outcome.Complete {
			run.WeightedScore = sum.WeightedScore
		}
	}
	var err error
	run.Questions, err = questionsOf(ctx, r.Path)
	return run, errors.Join(failed, err)
}

// questionsOf is each question of a run with its mean over the trials.
func questionsOf(ctx context.Context, path string) (questions map[string]answers.BenchmarkQuestion, err error) {
	reader, err := runstore.Load(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, reader.Close()) }()
	questions = map[string]answers.BenchmarkQuestion{}
	trials := map[string]float64{}
	for o, err := range reader.Outcomes(ctx, runstore.Query{Newest: true}) {
		if err != nil {
			return nil, err
		}
		q := questions[o.Item]
		q.Failed = q.Failed || o.Failed()
		if s, ok := outcome.Lookup(o.Scores, answers.Primary); ok {
			if s.Value != nil {
				q.Score += *s.Value
			}
			if s.Weight != nil {
				q.Weight = *s.Weight
			}
		}
		questions[o.Item] = q
		trials[o.Item]++
	}
	for id, q := range questions {
		q.Score /= trials[id]
		questions[id] = q
	}
	return questions, nil
}
