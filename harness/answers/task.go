// Package answers is the harness for the quality of answers about a document: its task asks a
// system a question about a PDF file, and its scorer looks for the terms that the answer must and
// must not contain, and for the cited page.
//
// It does not judge style or truth: an answer is right if it contains the terms. The steps:
//
//  1. Read reads questions from JSONL, each line checked;
//  2. a Task gives the question, never its terms, to an Answerer;
//  3. a Scorer normalises answer and terms (Normalise) and scores (Judge);
//  4. the run's weighted_score is Σ question_score·weight / Σ weight, where a question that failed
//     scores 0.
//
// The score of a question:
//
//	include_rate = hit groups / groups          (1 without groups)
//	base_score = 0.7·include_rate + 0.3·safe_ok
//	question_score = max(0, base_score − citation_penalty)
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

// Name is the name of this harness in run files.
const Name = "answers"

// Version is the version of the scoring. It changes if the meaning of a score changes.
const Version = "answers@1"

// Primary is the score that orders questions from best to worst. Its weighted mean is
// weighted_score.
const Primary = "question_score"

// ScorerInfo returns the scorer of a run file. Answers have no scoring options.
func ScorerInfo() outcome.Scorer {
	return outcome.Scorer{Version: Version, Options: json.RawMessage(`{}`), Primary: Primary}
}

// The names of the scores of a question other than Primary.
const (
	IncludeRate     = "include_rate"
	SafeOK          = "safe_ok"
	BaseScore       = "base_score"
	CitationPenalty = "citation_penalty"
	HasCitation     = "has_citation"
)

// ScoreOrder lists the scores in display order.
func ScoreOrder() []string {
	return []string{Primary, IncludeRate, SafeOK, BaseScore, CitationPenalty, HasCitation}
}

// Answerer is the system under test. It answers questions about a document that it knows. An
// *outcome.Failure in the error chain sets the class of the failure. Answer is called concurrently.
type Answerer interface {
	Answer(ctx context.Context, question string) (Answer, []outcome.Call, error)
}

// Answer is the answer of a system, in the form of run files.
type Answer struct {
	Text string `json:"answer"`
	// Pages are the pages that the answer is based on, if the system names them.
	Pages []int `json:"pages,omitempty"`
}

// Task asks the question of an item. It is safe for concurrent use if the Answerer is.
type Task struct {
	Answerer Answerer
}

// Do asks the question. An input that is not a question fails with class item.
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

// The keys of a run's metadata in addition to the two hashes.
const (
	metaPDF        = "pdf"
	metaPages      = "pdf_pages" // number of pages found
	metaUnreadable = "pdf_unreadable_pages"
	metaDeclared   = "pdf_declared_pages" // number of pages that the file declares; only if fewer were found
	metaDamaged    = "pdf_damaged"
	metaReader     = "pdf_reader"
)

// Describe returns a copy of a run's metadata with the properties of document and questions added.
func Describe(metadata map[string]string, doc *Document, questions Questions) map[string]string {
	all := map[string]string{}
	maps.Copy(all, metadata)
	all[outcome.PDFSHA256], all[outcome.QuestionsSHA256] = doc.SHA256, questions.SHA256
	all[metaPDF], all[metaPages] = filepath.Base(doc.Path), strconv.Itoa(len(doc.Pages))
	all[metaReader] = "pdftext@" + pdf.Version
	if doc.DeclaredPages > 0 {
		all[metaDeclared] = strconv.Itoa(doc.DeclaredPages)
	}
	if doc.Repaired {
		all[metaDamaged] = "true"
	}
	if bad := doc.Problems(); len(bad) > 0 {
		pages := cli.Each(bad[:min(len(bad), 100)], func(p pdf.Page) string { return strconv.Itoa(p.Number) })
		all[metaUnreadable] = strings.Join(pages, ",")
		if more := len(bad) - len(pages); more > 0 {
			all[metaUnreadable] += fmt.Sprintf(" and %d more", more)
		}
	}
	return all
}

// DocumentWarnings describes the parts of a run's document that could not be searched. It is empty
// for runs of other harnesses.
func DocumentWarnings(h outcome.Header) []string {
	list := FileWarnings(h)
	if pages := h.Metadata[metaUnreadable]; pages != "" {
		list = append(list, fmt.Sprintf("%s has pages that cannot be read and were not searched: %s (of %s)",
			h.Metadata[metaPDF], pages, h.Metadata[metaPages]))
	}
	return list
}

// FileWarnings describes damage of the document's file, without single unreadable pages.
func FileWarnings(h outcome.Header) []string {
	var list []string
	metadata, path := h.Metadata, h.Metadata[metaPDF]
	if metadata[metaDamaged] != "" {
		list = append(list, path+" is damaged; its pages were found by searching the file, and some may be missing")
	}
	declared, declaredErr := strconv.Atoi(metadata[metaDeclared])
	found, foundErr := strconv.Atoi(metadata[metaPages])
	if declaredErr == nil && foundErr == nil {
		list = append(list, fmt.Sprintf("%s claims to have %d pages, of which %d were found: %d are not searched, and pages after them have too low a number",
			path, declared, found, declared-found))
	}
	return list
}
