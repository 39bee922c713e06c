package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"

	urfave "github.com/urfave/cli/v2"

	"extraction-experiment/cmd/internal/connect"
	"extraction-experiment/cmd/internal/settings"
	"extraction-experiment/cmd/internal/system"
	"extraction-experiment/experiment"
	"extraction-experiment/harness/answers"
	"extraction-experiment/harness/answers/pdf"
	"extraction-experiment/internal/cli"
	"extraction-experiment/outcome"
	"extraction-experiment/tracking"
)

// envPassword opens an encrypted PDF.
const envPassword = "EXPERIMENT_PDF_PASSWORD"

func runAnswersAction(c *urfave.Context, env cli.Env, values settings.Values) error {
	cfg, err := readAnswers(values)
	if err != nil {
		return cli.Usage("%w", err)
	}
	log, err := settings.NewLog(env.Stderr, values.Text("log-level"), values.Text("log-format"))
	if err != nil {
		return err
	}
	return withSession(c.Context, env, cfg.runConfig, log, nil, func(ctx context.Context, s session) error {
		var opened system.System
		config, err := s.answers(ctx, cfg, &opened)
		if err != nil {
			return s.explained(err, answers.Name)
		}
		r, err := experiment.Run(ctx, config)
		if r.Path == "" {
			return s.explained(err, answers.Name)
		}
		return s.finish(cfg.runConfig, opened, r)
	})
}

// answers is a run of answers: it reads document and questions. opened is its system
// once that is open.
func (s session) answers(ctx context.Context, cfg answersConfig, opened *system.System) (config experiment.Config, err error) {
	doc, err := readDocument(ctx, cfg.pdf, s.env.Getenv)
	if err != nil {
		return config, err
	}
	var of outcome.Dataset
	questions, err := s.questions(ctx, cfg.runConfig, &of)
	if err != nil {
		return config, err
	}
	notes := append(first(mostNotes, unreadable(doc), "about pages"), first(mostNotes, questions.Warnings, "about questions")...)
	cfg.metadata = answers.Describe(cfg.metadata, doc, questions)
	config = s.engine(cfg.runConfig, outcome.Header{Harness: answers.Name, Dataset: of, Scorer: answers.Pin()})
	config.Keep.Metadata = false // it says what was asked of which document
	config.Source = questions
	config.Open = func(ctx context.Context, _ bool) (experiment.System, error) {
		answerer, err := opener(s.env, s.lf).OpenAnswerer(ctx, system.AnswersConfig{Config: cfg.system, Command: cfg.command, URL: cfg.url, Passages: cfg.passages}, doc, opened)
		if err != nil {
			return experiment.System{}, err
		}
		opened.Notes, opened.Header.Endpoint = notes, system.EndpointOf(opened.Header, s.env.Getenv)
		return opened.Measured(answers.Task{Answerer: answerer}, answers.Scorer{Pages: len(doc.Pages)}), nil
	}
	return s.watched(cfg.runConfig, opened, config), nil
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

// readDocument reads the PDF through the cache of this folder.
func readDocument(ctx context.Context, path string, getenv func(string) string) (*answers.Document, error) {
	doc, err := answers.OpenDocument(ctx, path,
		pdf.Cache{Dir: filepath.Join(connect.Folder, "cache", "pdf")}, pdf.Options{Password: getenv(envPassword)})
	switch {
	case errors.Is(err, pdf.ErrPassword):
		return nil, cli.Usage("%w: set %s", err, envPassword)
	case errors.Is(err, pdf.ErrWrong):
		return nil, cli.Usage("%w: %s does not open it", err, envPassword)
	case err != nil:
		return nil, err
	}
	readable := 0
	for _, p := range doc.Pages {
		if p.Kind == pdf.Readable {
			readable++
		}
	}
	if readable == 0 && doc.Repaired && doc.Pages[0].Kind == pdf.Unreadable {
		return nil, cli.Usage("%s is damaged or was cut off: no page that was found in it can be read; page 1: %s", path, doc.Pages[0].Problem)
	}
	if readable == 0 {
		return nil, cli.Usage("%s: no page has text that can be read: page 1: %s", path, doc.Pages[0].Problem)
	}
	return doc, nil
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
	for _, p := range doc.Problems() {
		notes = append(notes, fmt.Sprintf("%s: page %d cannot be read and is not searched: %s", doc.Path, p.Number, p.Problem))
	}
	return notes
}

// questions reads the questions from a file, or from a dataset in Langfuse, which it
// notes in of.
func (s session) questions(ctx context.Context, cfg runConfig, of *outcome.Dataset) (answers.Questions, error) {
	if experiment.IsFile(cfg.dataset) {
		if cfg.output != "" && cli.SameFile(cfg.dataset, cfg.output) {
			return answers.Questions{}, cli.Usage("--out %s would replace the questions: name another file", cfg.output)
		}
		return answers.ReadFile(ctx, cfg.dataset)
	}
	source, err := experiment.Open(ctx, &s.lf.Langfuse, cfg.dataset)
	if err != nil {
		return answers.Questions{}, err
	}
	if pinned, ok := source.(*tracking.Dataset); ok {
		of.ID, of.Version = pinned.ID(), pinned.Version()
	}
	return answers.Collect(ctx, source)
}

// answersScorer scores the answers of a run again.
func answersScorer(h outcome.Header) answers.Scorer {
	pages, err := strconv.Atoi(h.Metadata[answers.MetaPages])
	if err != nil {
		pages = 0 // not known: citations are not checked
	}
	return answers.Scorer{Pages: pages}
}
