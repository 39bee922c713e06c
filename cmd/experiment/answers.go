package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	urfave "github.com/urfave/cli/v2"

	"extraction-experiment/cmd/internal/runs"
	"extraction-experiment/cmd/internal/settings"
	"extraction-experiment/cmd/internal/system"
	"extraction-experiment/configs"
	"extraction-experiment/experiment"
	"extraction-experiment/harness/answers"
	"extraction-experiment/harness/answers/pdf"
	"extraction-experiment/internal/cli"
	"extraction-experiment/outcome"
	"extraction-experiment/tracking"
)

func answersCommand(env cli.Env) *urfave.Command {
	action := func(name, usage string, table []settings.Setting, run func(*urfave.Context, cli.Env, settings.Values) error) settings.Action {
		return settings.Action{Name: name, Usage: usage, Flags: cli.Each(table, settings.Setting.AsFlag),
			Run: func(c *urfave.Context, env cli.Env, _ []string) error {
				// Configuration files of experiment run have no settings for answers.
				return run(c, env, settings.Resolve(c, table, env.Getenv, configs.Experiment{}.Lookup, ""))
			}}
	}
	command := &urfave.Command{Name: "answers", Usage: "grade answers to questions about PDF documents"}
	return settings.SetActions(env, command, []settings.Action{
		action("run", "experiment answers run --pdf FILE --questions FILE.jsonl [--out RUN] [flags]", answersRunTable(), runAnswersAction),
		action("benchmark", "experiment answers benchmark --config FILE [flags]", answersBenchmarkTable(), benchmarkAction),
	}, "")
}

// sharedSettings lists the flags that mean the same for answers and for extraction, besides those of parameters.
var sharedSettings = []string{
	"concurrency", "timeout", "rpm", "tpm", "retries", "cache", "budget-usd", "budget-tokens",
	"trials", "gate", "inconclusive", "max-failures", "description", "metadata", "environment", "langfuse-mode", "resume", "retry-failed", "json", "quiet", "log-level", "log-format",
}

// answersSystemTable returns the settings of the answering system.
func answersSystemTable() []settings.Setting {
	all := append(outcome.ParameterFlags(), sharedSettings...)
	shared := slices.DeleteFunc(runTable(), func(s settings.Setting) bool { return !slices.Contains(all, s.Flag) })
	return append(settings.WithCategory("Model", []settings.Setting{
		{Flag: "model", Alias: "m", Env: "EXPERIMENT_MODEL", Default: "baseline", Usage: "answer with `MODEL` from the best passages; baseline needs no model and gives the best sentence"},
		{Flag: "prompt", Env: "EXPERIMENT_ANSWERS_PROMPT", Usage: "use the Langfuse prompt `NAME`, with {{question}} and {{passages}} (default: a built-in prompt)"},
		{Flag: "prompt-label", Usage: "use the version of the prompt that has `LABEL` (default: production)"},
		{Flag: "prompt-version", Usage: "use version `N` of the prompt"},
		{Flag: "prompt-file", Usage: "use the prompt in `FILE`; it is pushed as a new version if no version has this text"},
		{Flag: "passages", Default: "6", Usage: "give the model `N` passages"},
		{Flag: "command", Env: "EXPERIMENT_ANSWERS_COMMAND", Usage: "answer with your own `PROGRAM` (docs/answers.md)"},
		{Flag: "url", Env: "EXPERIMENT_ANSWERS_URL", Usage: "answer with your own service at `URL`"},
	}), shared...)
}

// answersRunTable returns the settings of "answers run".
func answersRunTable() []settings.Setting {
	return append([]settings.Setting{
		{Flag: "pdf", Usage: "the PDF `FILE` that the questions are about; EXPERIMENT_PDF_PASSWORD opens an encrypted one"},
		{Flag: "questions", Usage: "the questions: a JSONL `FILE`, or the name of a dataset in Langfuse"},
		{Flag: "out", Alias: "o", Usage: "where to write: `RUN|FILE`, the name of a run, or a file: FILE.json for the report, FILE.jsonl for the run (default: a name with the time)"},
		{Flag: "name", Alias: "n", Usage: "`NAME` of the run; --out is then a file"},
		{Flag: "overwrite", Switch: true, Usage: "replace a run of that name, unless it was published to another Langfuse than that of this folder"},
		{Flag: "verify", Switch: true, Usage: "at the end, read the run back from Langfuse and compare it with the run file"},
	}, answersSystemTable()...)
}

// answersConfig holds the parsed settings of a run of answers.
type answersConfig struct {
	runConfig
	pdf, command, url string
	passages          int
	// pinned has the version of the dataset to read the questions from; "" is that of now.
	pinned outcome.Dataset
}

// readAnswers parses the settings. The error contains every problem.
func readAnswers(s settings.Values) (answersConfig, error) {
	c, p := readAnswersSystem(s)
	c.pdf, c.Dataset = s.Text("pdf"), s.Text("questions")
	p.Add(c.pdf == "", "--pdf is missing: name the document that the questions are about")
	p.Add(c.Dataset == "", "--questions is missing: name a file of questions in JSONL, or a dataset in Langfuse")
	c.Header.Name, c.output = splitOut(s.Text("out"), s.Text("name"))
	c.report, c.Overwrite = filepath.Ext(c.output) == ".json", s.On("overwrite")
	p.Add(c.Overwrite && c.Resume, "--overwrite starts over, and --resume continues: choose one")
	c.setName(p, "answers", "which run, with --out or --name")
	return c, p.Err()
}

// setName generates a name that begins with prefix if none is given, creates the folder of the
// output, and checks both. identify describes the flags that --resume requires; read has files
// that are read besides those of c.
func (c *answersConfig) setName(p *settings.Problems, prefix, identify string, read ...string) {
	if c.Header.Name == "" {
		c.generatedName = runs.GeneratedName(prefix)
		c.Header.Name = c.generatedName
	}
	settings.CheckRunName(p, "name", c.Header.Name)
	p.Add(c.Resume && c.generatedName != "", "--resume: say %s", identify)
	if p.Err() == nil { // no folder for what is refused
		p.Join(os.MkdirAll(filepath.Dir(c.output), 0o755))
		c.checkOutput(p, "out", append(read, c.Dataset, c.pdf, c.system.PromptFile, c.system.Model)...)
	}
}

// readAnswersSystem parses the settings that all runs of answers have.
func readAnswersSystem(s settings.Values) (answersConfig, *settings.Problems) {
	p := &settings.Problems{Values: s}
	scores := append(answers.ScoreOrder(), outcome.ErrorScore)
	c := answersConfig{runConfig: readCommon(p, s, answers.Name, scores), command: s.Text("command"), url: s.Text("url")}
	c.Header.Publication.Scores = []string{outcome.AllScores} // there are only a few scores
	c.passages = p.Count("passages", s.Text("passages"), 1, 100)
	switch external := c.command != "" || c.url != ""; {
	case c.command != "" && c.url != "":
		p.Add(true, "--command and --url cannot both be measured in one run")
	case external && (c.system.HasPrompt() || c.system.Parameters != (outcome.Parameters{}) || c.system.Limits.Limited() || c.system.ModelGiven):
		p.Add(true, "--command and --url answer in their own way: leave --model, --prompt, --temperature and the like, "+
			"limits and --cache out")
	case !external:
		p.Join(c.system.CheckBaseline())
	}
	return c, p
}

// splitOut returns the name of the run and the output file that --out and --name mean. --out
// is a file if it has a folder or an extension .json or .jsonl, or if --name is given.
func splitOut(out, name string) (run, file string) {
	if out == "" {
		return name, ""
	}
	ext := filepath.Ext(out)
	if name == "" && filepath.Base(out) == out && ext != ".json" && ext != ".jsonl" {
		return out, ""
	}
	return cmp.Or(name, strings.TrimSuffix(filepath.Base(out), ext)), out
}

// envPassword is the variable with the password of an encrypted PDF.
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

// answers reads document and questions and returns the configuration of a run of answers. opened
// is set when the system is opened.
func (s session) answers(ctx context.Context, cfg answersConfig, opened *system.System) (config experiment.Config, err error) {
	if cfg.Resume || cfg.Retry {
		if began := s.header(ctx, cfg.runConfig).Dataset; began.Version != "" {
			cfg.pinned = began
		}
	}
	// Before the document, which takes long.
	questions, err := s.questions(ctx, cfg.Dataset, cfg.pinned, &cfg.Header.Dataset)
	if err != nil {
		return config, err
	}
	doc, err := readDocument(ctx, cfg.pdf, s.env.Getenv)
	if err != nil {
		return config, err
	}
	cfg.Header.Metadata, cfg.Header.Scorer = answers.Describe(cfg.Header.Metadata, doc, questions), answers.ScorerInfo()
	unreadable := cli.Each(doc.Problems(), func(p pdf.Page) string {
		return fmt.Sprintf("%s: page %d cannot be read and is not searched: %s", doc.Path, p.Number, p.Problem)
	})
	notes := answers.FileWarnings(cfg.Header)
	notes = append(notes, firstNotes(unreadable, "about pages")...)
	notes = append(notes, firstNotes(questions.Warnings, "about questions")...)
	config = s.engine(&cfg.runConfig, opened)
	config.Keep.Metadata = false // the metadata describes document and questions
	config.Source = questions
	config.Open = func(ctx context.Context, resumed bool) (experiment.System, error) {
		if resumed {
			cfg.system.Began = s.began(ctx, cfg.runConfig)
		}
		answersCfg := system.AnswersConfig{Config: cfg.system, Command: cfg.command, URL: cfg.url, Passages: cfg.passages}
		answerer, sys, err := s.opener().OpenAnswerer(ctx, answersCfg, doc)
		if err == nil {
			err = s.opener().Push(ctx, cfg.system, &sys)
		}
		if err != nil {
			return experiment.System{}, err
		}
		*opened = sys
		opened.Notes = append(sys.Notes, notes...)
		return opened.Measured(answers.Task{Answerer: answerer}, answers.Scorer{Pages: len(doc.Pages)}), nil
	}
	return config, nil
}

// firstNotes returns the first ten notes and the number of the others.
func firstNotes(notes []string, about string) []string {
	const limit = 10
	if len(notes) <= limit {
		return notes
	}
	return append(notes[:limit:limit], fmt.Sprintf("and %d more notes %s", len(notes)-limit, about))
}

// readDocument reads a PDF. It is an error if no page has readable text.
func readDocument(ctx context.Context, path string, getenv func(string) string) (*answers.Document, error) {
	doc, err := answers.OpenDocument(ctx, path, pdf.Options{Password: getenv(envPassword)})
	switch {
	case errors.Is(err, pdf.ErrPassword), errors.Is(err, pdf.ErrWrongPassword):
		return nil, cli.Usage("%w: set %s to its password", err, envPassword)
	case err != nil:
		return nil, err
	}
	first := doc.Pages[0]
	switch {
	case slices.ContainsFunc(doc.Pages, func(p pdf.Page) bool { return p.Kind == pdf.Readable }):
		return doc, nil
	case doc.Repaired && first.Kind == pdf.Unreadable:
		return nil, cli.Usage("%s is damaged or was cut off: none of the pages found in it can be read; page 1: %s", path, first.Problem)
	}
	return nil, cli.Usage("%s: no page has text that can be read: page 1: %s", path, first.Problem)
}

// questions reads the questions from a file, or from a dataset in Langfuse, whose id and version
// it stores in info: those of pinned if it has a version, else those of now.
func (s session) questions(ctx context.Context, name string, pinned outcome.Dataset, info *outcome.Dataset) (
	q answers.Questions, err error) {
	if experiment.IsFile(name) {
		return answers.ReadFile(ctx, name)
	}
	var source experiment.Source
	if pinned.Version != "" {
		source, err = tracking.ReopenDataset(s.lf.Client, pinned.ID, name, pinned.Version)
	} else {
		source, err = experiment.Open(ctx, &s.lf.Langfuse, name)
	}
	if err != nil {
		return q, err
	}
	if found, ok := source.(*tracking.Dataset); ok {
		info.ID, info.Version = found.ID(), found.Version()
	}
	return answers.Collect(ctx, source)
}
