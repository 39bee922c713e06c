package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"extraction-experiment/cmd/internal/connect"
	"extraction-experiment/dataset"
	"extraction-experiment/harness/answers"
	"extraction-experiment/internal/build"
	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/pdf"
	"extraction-experiment/internal/pdftext"
	"extraction-experiment/outcome"
)

// The keys of a run's metadata beside the two hashes.
const (
	metaPDF        = "pdf"
	metaPages      = "pdf_pages"
	metaUnreadable = "pdf_unreadable_pages"
	metaDeclared   = "pdf_declared_pages" // where fewer were found
	metaDamaged    = "pdf_damaged"
	metaReader     = "pdf_reader"
)

// envPassword opens an encrypted PDF.
const envPassword = "EXPERIMENT_PDF_PASSWORD"

// openAnswers reads document and questions, opens the system and begins the run.
func openAnswers(ctx context.Context, lf *connect.Langfuse, cfg answersConfig, getenv func(string) string) (*job, error) {
	j := &job{cfg: cfg.runConfig, lf: lf}
	var notes []string
	doc, err := readDocument(ctx, cfg.pdf, getenv)
	if err != nil {
		return nil, err
	}
	notes = append(notes, first(mostNotes, unreadable(doc), "about pages")...)
	header := outcome.Header{}
	questions, err := j.questions(ctx, &header)
	if err != nil {
		return nil, err
	}
	notes = append(notes, first(mostNotes, questions.Warnings, "about questions")...)
	if err := describeAnswers(&header, j, doc, questions); err != nil {
		return nil, err
	}
	j.place(&header)
	if err := j.beginIfNever(ctx); err != nil {
		return nil, err
	}
	if cfg.runConfig = j.cfg; !cfg.resume {
		if err := j.replaceable(ctx, header); err != nil {
			return nil, err
		}
		if err := j.nameIsFree(ctx, header); err != nil {
			return nil, err
		}
	}
	answerer, err := j.openAnswerer(ctx, cfg, doc, getenv)
	if err != nil {
		return nil, err
	}
	j.system.notes, j.system.header.Endpoint = notes, endpointOf(j.system.header, getenv)
	header.System, j.task, j.scorer = j.system.header, answers.Task{Answerer: answerer}, answers.Scorer{Pages: len(doc.Pages)}
	if err := j.begin(ctx, header, questions, dataset.Filter{}); err != nil {
		return nil, errors.Join(err, j.system.close())
	}
	if err := j.system.asks.book(ctx, j.run, cfg.beside); err != nil {
		return nil, errors.Join(err, j.run.Close(), j.system.close())
	}
	return j, nil
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
		pdftext.Cache{Dir: filepath.Join(connect.Folder, "cache", "pdf")}, pdftext.Options{Password: getenv(envPassword)})
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
		if p.Kind == pdftext.Readable {
			readable++
		}
	}
	if readable == 0 && doc.Repaired && doc.Pages[0].Kind == pdftext.Unreadable {
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
		notes = append(notes, fileDamaged(doc.Path))
	}
	if doc.Declared > 0 {
		notes = append(notes, pagesMissing(doc.Path, doc.Declared, len(doc.Pages)))
	}
	for _, p := range doc.Problems() {
		notes = append(notes, fmt.Sprintf("%s: page %d cannot be read and is not searched: %s", doc.Path, p.Number, p.Problem))
	}
	return notes
}

// fileDamaged says what searching a file for its pages means for the answers.
func fileDamaged(path string) string {
	return path + " is damaged; its pages were found by searching the file, and some may be missing"
}

// pagesMissing says how much of a file is lost.
func pagesMissing(path string, declared, found int) string {
	return fmt.Sprintf("%s says that it has %d pages, of which %d were found: %d are not searched, and pages behind them have too low a number",
		path, declared, found, declared-found)
}

// questions reads the questions from a file, or from a dataset in Langfuse.
func (j *job) questions(ctx context.Context, h *outcome.Header) (answers.Questions, error) {
	if isItemFile(j.cfg.dataset) {
		if j.cfg.output != "" && cli.SameFile(j.cfg.dataset, j.cfg.output) {
			return answers.Questions{}, cli.Usage("--out %s would replace the questions: name another file", j.cfg.output)
		}
		return answers.ReadFile(ctx, j.cfg.dataset)
	}
	source, err := j.pinSource(ctx, h)
	if err != nil {
		return answers.Questions{}, err
	}
	return answers.Collect(ctx, source)
}

// describeAnswers fills the header in, all but the system.
func describeAnswers(h *outcome.Header, j *job, doc *answers.Document, questions answers.Questions) error {
	uid := make([]byte, 16)
	if _, err := rand.Read(uid); err != nil {
		return err
	}
	metadata := map[string]string{}
	for key, value := range j.cfg.metadata {
		metadata[key] = value
	}
	metadata[outcome.PDFSHA256], metadata[outcome.QuestionsSHA256] = doc.SHA256, questions.SHA256
	metadata[metaPDF], metadata[metaPages] = filepath.Base(doc.Path), strconv.Itoa(len(doc.Pages))
	metadata[metaReader] = "pdftext@" + doc.Version
	var pages []string
	for _, p := range doc.Problems() {
		pages = append(pages, strconv.Itoa(p.Number))
	}
	if doc.Declared > 0 {
		metadata[metaDeclared] = strconv.Itoa(doc.Declared)
	}
	if doc.Repaired {
		metadata[metaDamaged] = "true"
	}
	if pages != nil {
		metadata[metaUnreadable] = strings.Join(pages[:min(len(pages), 100)], ",")
	}
	j.cfg.metadata = metadata
	h.Format, h.RunUID, h.Name, h.Harness = outcome.FormatVersion, hex.EncodeToString(uid), j.cfg.name, answers.Name
	h.Dataset.Name = j.cfg.dataset
	h.Scorer = answersPin()
	h.Trials, h.Description, h.Environment, h.Metadata = j.cfg.trials, j.cfg.description, j.cfg.environment, metadata
	h.Publication = j.cfg.publication
	h.GitSHA, h.Runner, h.Project, h.Started = gitSHA(), build.Version(), j.lf.Server.Project.ID, time.Now().UTC()
	return nil
}

// answersPin is how answers are scored: there are no options.
func answersPin() outcome.Scorer {
	return outcome.Scorer{Version: answers.Version, Options: json.RawMessage(`{}`), Primary: answers.Primary}
}

// answersScorer scores the answers of a run again.
func answersScorer(h outcome.Header) answers.Scorer {
	pages, err := strconv.Atoi(h.Metadata[metaPages])
	if err != nil {
		pages = 0 // not known: citations are not checked
	}
	return answers.Scorer{Pages: pages}
}
