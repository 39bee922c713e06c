// Package answers is the harness of answer quality over a document: the task
// asks a system a question about a PDF, the scorer looks for the terms that
// the answer must and must not contain, and for the page that it cites.
//
// It is not a judge of style or truth: an answer is right when the terms are in
// it. The steps:
//
//  1. Read reads questions from JSONL, each line checked;
//
//  2. a Task gives the question, never its terms, to an Answerer;
//
//  3. a Scorer normalises answer and terms (Normalise) and scores (Judge):
//
//     include_rate = hit groups / groups          (1 without groups)
//     base_score = 0.7·include_rate + 0.3·safe_ok
//     question_score = max(0, base_score − citation_penalty)
//
//  4. the run's weighted_score is Σ question_score·weight / Σ weight, where a
//     question that failed scores 0.
//
// A short example:
//
//	e := answers.Expected{MustInclude: []string{"2023"}}
//	answers.Judge(e, "Выручка за 2023 год (стр. 4)").Score // 1
package answers

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"strconv"
	"strings"

	"extraction-experiment/experiment"
	"extraction-experiment/harness/answers/pdf"
	"extraction-experiment/internal/cli"
	"extraction-experiment/outcome"
)

// Name is how run files call this harness.
const Name = "answers"

// Version is that of the scoring; it changes when a score's meaning does.
const Version = "answers@1"

// Primary is the score by which questions are called best and worst, and of
// which weighted_score is the weighted mean.
const Primary = "question_score"

// Pin is how answers are scored: there are no options.
func Pin() outcome.Scorer {
	return outcome.Scorer{Version: Version, Options: json.RawMessage(`{}`), Primary: Primary}
}

// The names of the scores of a question, beside Primary.
const (
	IncludeRate     = "include_rate"
	SafeOK          = "safe_ok"
	BaseScore       = "base_score"
	CitationPenalty = "citation_penalty"
	HasCitation     = "has_citation"
)

// ScoreOrder lists the scores in the order in which they are shown.
func ScoreOrder() []string {
	return []string{Primary, IncludeRate, SafeOK, BaseScore, CitationPenalty, HasCitation}
}

// Answerer is the system under test: it answers questions about a document
// that it knows. An *outcome.Failure in the chain of an error says its class.
// It is called by many goroutines at once.
type Answerer interface {
	Answer(ctx context.Context, question string) (Answer, []outcome.Call, error)
}

// Answer is what a system says, as a run file keeps it.
type Answer struct {
	Text string `json:"answer"`
	// Pages are those that the answer was made of, where the system says so.
	Pages []int `json:"pages,omitempty"`
}

// Task asks the question of an item. It is safe for concurrent use if the
// Answerer is.
type Task struct {
	Answerer Answerer
}

// Do asks. An input that is not a question fails with class item.
func (t Task) Do(ctx context.Context, item experiment.Item) (experiment.TaskResult, error) {
	question, err := DecodeInput(item.Input)
	if err != nil {
		return experiment.TaskResult{}, &outcome.Failure{Class: outcome.Item, Message: err.Error()}
	}
	answer, calls, err := t.Answerer.Answer(ctx, question)
	result := experiment.TaskResult{Calls: calls}
	for _, call := range calls {
		result.Warnings = append(result.Warnings, call.Warnings...)
	}
	if err != nil {
		return result, err
	}
	result.Output = encode(answer)
	return result, nil
}

// The keys of a run's metadata beside the two hashes.
const (
	metaPDF        = "pdf"
	metaPages      = "pdf_pages" // how many pages the document has
	metaUnreadable = "pdf_unreadable_pages"
	metaDeclared   = "pdf_declared_pages" // where fewer were found
	metaDamaged    = "pdf_damaged"
	metaReader     = "pdf_reader"
)

// Describe returns metadata of a run with what it asks of which document.
func Describe(metadata map[string]string, doc *Document, questions Questions) map[string]string {
	about := map[string]string{}
	maps.Copy(about, metadata)
	about[outcome.PDFSHA256], about[outcome.QuestionsSHA256] = doc.SHA256, questions.SHA256
	about[metaPDF], about[metaPages] = filepath.Base(doc.Path), strconv.Itoa(len(doc.Pages))
	about[metaReader] = "pdftext@" + pdf.Version
	if doc.Declared > 0 {
		about[metaDeclared] = strconv.Itoa(doc.Declared)
	}
	if doc.Repaired {
		about[metaDamaged] = "true"
	}
	if bad := doc.Problems(); len(bad) > 0 {
		pages := cli.Each(bad[:min(len(bad), 100)], func(p pdf.Page) string { return strconv.Itoa(p.Number) })
		about[metaUnreadable] = strings.Join(pages, ",")
	}
	return about
}

// DocumentWarnings says what of the document of a run no answer could be made of;
// a run of another harness has no document.
func DocumentWarnings(h outcome.Header) []string {
	list := FileWarnings(h)
	if pages := h.Metadata[metaUnreadable]; pages != "" {
		list = append(list, fmt.Sprintf("%s has pages that cannot be read and were not searched: %s (of %s)",
			h.Metadata[metaPDF], pages, h.Metadata[metaPages]))
	}
	return list
}

// FileWarnings says what is wrong with the file of that document, its single pages left aside.
func FileWarnings(h outcome.Header) []string {
	var list []string
	about, path := h.Metadata, h.Metadata[metaPDF]
	if about[metaDamaged] != "" {
		list = append(list, path+" is damaged; its pages were found by searching the file, and some may be missing")
	}
	declared, unsaid := strconv.Atoi(about[metaDeclared])
	found, unknown := strconv.Atoi(about[metaPages])
	if unsaid == nil && unknown == nil {
		list = append(list, fmt.Sprintf("%s says that it has %d pages, of which %d were found: %d are not searched, and pages after them have too low a number",
			path, declared, found, declared-found))
	}
	return list
}
