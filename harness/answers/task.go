// Package answers is the harness of answer quality over a document: the task
// asks a system a question about a PDF, the scorer looks for the terms that
// the answer must and must not contain, and for the page that it cites.
//
// It is no judge of style or truth: an answer is right when the terms are in
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
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"extraction-experiment/dataset"
	"extraction-experiment/experiment"
	"extraction-experiment/harness/answers/pdf"
	"extraction-experiment/internal/files"
	"extraction-experiment/internal/textutil"
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

// MaxAnswer bounds an answer, in bytes: more is no answer to a question.
const MaxAnswer = 1 << 20

// Answerer is the system under test: it answers questions about a document
// that it knows. An *outcome.Failure in the chain of an error says its class.
// It is called by many goroutines at once.
type Answerer interface {
	Answer(ctx context.Context, question string) (Answer, []outcome.Call, error)
}

// Answer is what a system says.
type Answer struct {
	Text string
	// Pages are those that the answer was made of, where the system says so.
	Pages []int
}

// Output is an Answer as a run file keeps it.
type Output struct {
	Answer string `json:"answer"`
	Pages  []int  `json:"pages,omitempty"`
}

// Task asks the question of an item. It is safe for concurrent use if the
// Answerer is.
type Task struct {
	Answerer Answerer
}

// Do asks. An input that is no question fails with class item, an answer of
// more than MaxAnswer bytes with class invalid_output.
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
	if len(answer.Text) > MaxAnswer {
		return result, &outcome.Failure{Class: outcome.InvalidOutput, Message: "the answer is longer than 1 MiB"}
	}
	result.Output, err = json.Marshal(Output{answer.Text, answer.Pages})
	if err != nil {
		return result, &outcome.Failure{Class: outcome.InvalidOutput, Message: err.Error()}
	}
	return result, nil
}

// Questions are the questions of a run, as a Source of its items.
type Questions struct {
	Items []dataset.Item
	// SHA256 is the fingerprint of the questions in one form: a file and a
	// dataset that ask the same have the same.
	SHA256   string
	Warnings []string
}

// ReadFile reads a file of questions until ctx is done. Errors as of Read, and a
// file that is not there has exit code 64, too.
func ReadFile(ctx context.Context, path string) (Questions, error) {
	f, err := files.Open(ctx, path)
	if err != nil {
		return Questions{}, &dataset.SyntaxError{File: path, Msg: "the file of questions cannot be opened: " + err.Error()}
	}
	defer f.Close() // only read: nothing can be lost
	list, warnings, err := Read(f, path)
	if err != nil {
		return Questions{}, err
	}
	q := Questions{Warnings: warnings}
	for _, one := range list {
		item, err := one.Item()
		if err != nil {
			return Questions{}, err
		}
		q.Items = append(q.Items, item)
	}
	q.SHA256, err = fingerprint(list)
	return q, err
}

// fingerprint identifies questions, in whatever order they come.
func fingerprint(questions []Question) (string, error) {
	var sum dataset.Fingerprint
	for _, q := range slices.SortedFunc(slices.Values(questions), func(a, b Question) int { return strings.Compare(a.ID, b.ID) }) {
		item, err := q.Item()
		if err != nil {
			return "", err
		}
		hash, err := dataset.Hash(item)
		if err == nil {
			err = sum.Add(q.ID, hash)
		}
		if err != nil {
			return "", fmt.Errorf("listing the questions: item %q: %w", q.ID, err)
		}
	}
	return sum.Sum(), nil
}

// pager is what a dataset's Source does.
type pager interface {
	Pages(ctx context.Context) iter.Seq2[[]dataset.Item, error]
}

// Collect reads the questions of a dataset. Items that are no questions are
// errors as in a file, all of them at once: without them weighted_score would be
// that of other questions.
func Collect(ctx context.Context, source pager) (Questions, error) {
	var q Questions
	for page, err := range source.Pages(ctx) {
		if err != nil {
			return q, fmt.Errorf("listing the questions: %w", err)
		}
		if q.Items = append(q.Items, page...); len(q.Items) > MaxQuestions {
			return q, &dataset.SyntaxError{File: "the dataset", Msg: fmt.Sprintf("has more than %d questions: give a part of it", MaxQuestions)}
		}
	}
	slices.SortFunc(q.Items, func(a, b dataset.Item) int { return strings.Compare(a.ID, b.ID) })
	var list []Question
	var problems dataset.Problems
	for _, item := range q.Items {
		one, err := ReadItem(item)
		if err != nil {
			msg := strings.ReplaceAll(err.Error(), "\n", "; ")
			problems.Add(&dataset.SyntaxError{File: "the dataset", Path: fmt.Sprintf("item %q", item.ID), Msg: msg})
			continue
		}
		for _, text := range one.Odd() {
			q.Warnings = append(q.Warnings, fmt.Sprintf("item %q: %s", item.ID, text))
		}
		list = append(list, one)
	}
	err := problems.Err()
	if err == nil {
		q.SHA256, err = fingerprint(list)
	}
	if err != nil {
		return Questions{}, err
	}
	return q, nil
}

// ReadItem reads an item as a question; all that is wrong with it is joined.
func ReadItem(item dataset.Item) (Question, error) {
	text, err := DecodeInput(item.Input)
	expected, unexpected := DecodeExpected(item.Expected)
	q := Question{item.ID, text, expected}
	if joined, ok := unexpected.(interface{ Unwrap() []error }); ok {
		return q, errors.Join(append([]error{err}, joined.Unwrap()...)...)
	}
	return q, errors.Join(err, unexpected)
}

// Pages yields all questions as one page.
func (q Questions) Pages(context.Context) iter.Seq2[[]dataset.Item, error] {
	return func(yield func([]dataset.Item, error) bool) {
		if len(q.Items) > 0 {
			yield(q.Items, nil)
		}
	}
}

// Question is one question with what its answer is judged by.
type Question struct {
	ID       string
	Question string
	Expected
}

// Expected is what an answer is judged by: the expected output of an item.
type Expected struct {
	// MustInclude are terms, each of which must be in the answer.
	MustInclude []string `json:"must_include,omitempty"`
	// MustIncludeAny are groups of equivalent terms: one of each must be there.
	MustIncludeAny []Group `json:"must_include_any,omitempty"`
	// MustNotInclude are terms, none of which may be there.
	MustNotInclude []string `json:"must_not_include,omitempty"`
	// RequireCitation asks for the page: "стр. N".
	RequireCitation bool `json:"require_citation,omitempty"`
	// Weight is at least 0; nil is 1.
	Weight *float64 `json:"weight,omitempty"`
}

// Importance returns the weight: 1 where none is given.
func (e Expected) Importance() float64 {
	if e.Weight == nil {
		return 1
	}
	return *e.Weight
}

// Group is a list of equivalent terms. In JSON it may be a single string.
type Group []string

// UnmarshalJSON reads a string or a list of strings.
func (g *Group) UnmarshalJSON(raw []byte) error {
	var one string
	if json.Unmarshal(raw, &one) == nil && !bytes.Equal(raw, []byte("null")) {
		*g = Group{one}
		return nil
	}
	var many texts
	if json.Unmarshal(raw, &many) != nil || many == nil {
		return errors.New("is neither a text nor a list of texts")
	}
	*g = Group(many)
	return nil
}

// Item returns the question as an item of a dataset.
func (q Question) Item() (dataset.Item, error) {
	input, err := json.Marshal(map[string]string{"question": q.Question})
	if err != nil {
		return dataset.Item{}, err
	}
	expected, err := json.Marshal(q.Expected)
	return dataset.Item{ID: q.ID, Input: input, Expected: expected}, err
}

// DecodeInput reads the question of an item: an object with "question", or a
// text by itself.
func DecodeInput(raw json.RawMessage) (string, error) {
	var text string
	if json.Unmarshal(raw, &text) != nil {
		var object struct {
			Question *string `json:"question"`
		}
		if err := json.Unmarshal(raw, &object); err != nil {
			return "", errors.New(`the input is neither a question nor an object with a text "question"`)
		}
		if object.Question == nil {
			return "", errors.New(`the input has no "question"`)
		}
		text = *object.Question
	}
	if strings.TrimSpace(text) == "" {
		return "", errors.New("the question is empty")
	}
	return text, nil
}

// DecodeExpected reads the expected output of an item; absent is no demands.
func DecodeExpected(raw json.RawMessage) (Expected, error) {
	var e Expected
	if raw = bytes.TrimSpace(raw); len(raw) == 0 || bytes.Equal(raw, []byte("null")) {
		return e, nil
	}
	values, err := readObject(raw)
	if err != nil {
		return e, fmt.Errorf("the expected output is no object with must_include and the like: %w", err)
	}
	var problems []error
	for _, p := range e.read(values) {
		problems = append(problems, p)
	}
	return e, errors.Join(problems...)
}

// fieldError is a problem with one field.
type fieldError struct{ field, msg string }

func (e *fieldError) Error() string { return e.field + ": " + e.msg }

// read takes the fields out of an object; null is absent. Keys that are neither
// fields nor among the others are problems: a demand would be lost without a word.
func (e *Expected) read(values map[string]json.RawMessage, others ...string) []*fieldError {
	var problems []*fieldError
	known := append([]string{"must_include", "must_include_any", "must_not_include", "require_citation", "weight"}, others...)
	for _, key := range slices.Sorted(maps.Keys(values)) {
		if !slices.Contains(known, key) {
			problems = append(problems, &fieldError{textutil.Cut(key, 60), "is no key of a question" + textutil.Hint(key, known)})
		}
	}
	take := func(field string, to any, want string) {
		raw, ok := values[field]
		if !ok || bytes.Equal(bytes.TrimSpace(raw), []byte("null")) {
			return
		}
		if err := json.Unmarshal(raw, to); err != nil {
			problems = append(problems, &fieldError{field, fmt.Sprintf("expected %s, found %s", want, textutil.Cut(string(raw), 60))})
		}
	}
	take("must_include", (*texts)(&e.MustInclude), "a list of texts")
	take("must_include_any", &e.MustIncludeAny, "a list of texts and of lists of texts")
	take("must_not_include", (*texts)(&e.MustNotInclude), "a list of texts")
	take("require_citation", &e.RequireCitation, "true or false")
	take("weight", &e.Weight, "a number")
	if w := e.Importance(); math.IsNaN(w) || w < 0 || w > MaxWeight {
		problems = append(problems, &fieldError{"weight", fmt.Sprintf("%g is not a number from 0 to %g", w, float64(MaxWeight))})
	}
	return problems
}

// Odd says what is allowed and probably a mistake.
func (e Expected) Odd() []string {
	var list []string
	if e.Importance() == 0 {
		list = append(list, "the weight is 0: the question counts for nothing in weighted_score")
	}
	for _, term := range slices.Concat(e.MustInclude, e.MustNotInclude) {
		if Normalise(term) == "" {
			list = append(list, "an empty term is never found")
		}
	}
	for _, group := range e.MustIncludeAny {
		if !slices.ContainsFunc(group, func(term string) bool { return Normalise(term) != "" }) {
			list = append(list, "a group of must_include_any has no term: it is never hit")
		}
	}
	return list
}

// MaxWeight bounds the weight of a question, so that sums of them stay exact
// enough.
const MaxWeight = 1e6

// The limits of a file of questions.
const (
	MaxLine      = 1 << 20 // bytes
	MaxQuestions = 100_000
)

// Read reads questions from JSONL, one object per line; blank lines are
// skipped, a byte order mark and CRLF are tolerated. name stands for the file
// in messages.
//
// A row needs a text id and a text question. A duplicate id, a field of the
// wrong type, a key that is no field, a weight that is negative or no number, and
// a file without any question are errors: all of them are returned at once, each
// a *dataset.SyntaxError with its line (exit code 64). Warnings name terms that
// can never be found, and weights of 0.
func Read(r io.Reader, name string) (questions []Question, warnings []string, err error) {
	reader := &reader{name: name, lines: map[string]int{}}
	scanner := bufio.NewScanner(r)
	scanner.Buffer(make([]byte, 0, 64<<10), MaxLine)
	line := 0
	for scanner.Scan() {
		line++
		raw := scanner.Bytes()
		if line == 1 {
			raw = bytes.TrimPrefix(raw, []byte("\xef\xbb\xbf"))
		}
		if len(bytes.TrimSpace(raw)) > 0 {
			reader.row(line, raw)
		}
		if len(reader.questions) > MaxQuestions {
			reader.fail(line, "", "there are more than %d questions", MaxQuestions)
			break
		}
	}
	switch err := scanner.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		reader.fail(line+1, "", "the line is longer than %d bytes", MaxLine)
	case err != nil:
		return nil, nil, fmt.Errorf("reading %s: line %d: %w", name, line+1, err)
	case reader.problems.Len() == 0 && len(reader.questions) == 0:
		reader.fail(0, "", `there is no question in it; a line is an object such as {"id":"q001","question":"…","must_include":["2023"]}`)
	}
	if err := reader.problems.Err(); err != nil {
		return nil, nil, err
	}
	return reader.questions, reader.warnings, nil
}

type reader struct {
	name      string
	lines     map[string]int // of each id
	questions []Question
	warnings  []string
	problems  dataset.Problems
}

func (r *reader) fail(line int, path, format string, args ...any) {
	r.problems.Add(&dataset.SyntaxError{File: r.name, Line: line, Path: path, Msg: fmt.Sprintf(format, args...)})
}

// row reads one line.
func (r *reader) row(line int, raw []byte) {
	if !utf8.Valid(raw) {
		r.fail(line, "", "is not valid UTF-8")
		return
	}
	values, err := readObject(raw)
	if err != nil {
		r.fail(line, "", "is no JSON object: %v", err)
		return
	}
	q := Question{}
	before := r.problems.Len()
	q.ID = r.text(line, values, "id")
	q.Question = r.text(line, values, "question")
	for _, p := range q.Expected.read(values, "id", "question") {
		r.fail(line, p.field, "%s", p.msg)
	}
	if first, taken := r.lines[q.ID]; taken && q.ID != "" {
		r.fail(line, "id", "%q is the id of line %d already", q.ID, first)
	}
	if r.problems.Len() > before {
		return
	}
	r.lines[q.ID] = line
	for _, text := range q.Odd() {
		r.warnings = append(r.warnings, fmt.Sprintf("%s: line %d: %s", r.name, line, text))
	}
	r.questions = append(r.questions, q)
}

// text reads a text that must be there.
func (r *reader) text(line int, values map[string]json.RawMessage, field string) string {
	raw, ok := values[field]
	var text string
	switch {
	case !ok:
		r.fail(line, field, "is missing")
	case json.Unmarshal(raw, &text) != nil || bytes.Equal(raw, []byte("null")):
		r.fail(line, field, "expected a text, found %s", textutil.Cut(string(raw), 60))
	case strings.TrimSpace(text) == "":
		r.fail(line, field, "is empty")
	}
	return text
}

// The keys of a run's metadata beside the two hashes.
const (
	metaPDF        = "pdf"
	MetaPages      = "pdf_pages" // how many pages the document has
	metaUnreadable = "pdf_unreadable_pages"
	metaDeclared   = "pdf_declared_pages" // where fewer were found
	metaDamaged    = "pdf_damaged"
	metaReader     = "pdf_reader"
)

// Describe returns metadata of a run with what it asks of which document.
func Describe(metadata map[string]string, doc *Document, questions Questions) map[string]string {
	about := maps.Clone(metadata)
	if about == nil {
		about = map[string]string{}
	}
	about[outcome.PDFSHA256], about[outcome.QuestionsSHA256] = doc.SHA256, questions.SHA256
	about[metaPDF], about[MetaPages] = filepath.Base(doc.Path), strconv.Itoa(len(doc.Pages))
	about[metaReader] = "pdftext@" + pdf.Version
	if doc.Declared > 0 {
		about[metaDeclared] = strconv.Itoa(doc.Declared)
	}
	if doc.Repaired {
		about[metaDamaged] = "true"
	}
	var pages []string
	for _, p := range doc.Problems() {
		pages = append(pages, strconv.Itoa(p.Number))
	}
	if pages != nil {
		about[metaUnreadable] = strings.Join(pages[:min(len(pages), 100)], ",")
	}
	return about
}

// DocumentWarnings says what of the document of a run no answer could be made of;
// a run of another harness has no document.
func DocumentWarnings(h outcome.Header) []string {
	var list []string
	if h.Metadata[metaDamaged] != "" {
		list = append(list, FileDamaged(h.Metadata[metaPDF]))
	}
	declared, unsaid := strconv.Atoi(h.Metadata[metaDeclared])
	found, unknown := strconv.Atoi(h.Metadata[MetaPages])
	if unsaid == nil && unknown == nil {
		list = append(list, PagesMissing(h.Metadata[metaPDF], declared, found))
	}
	if pages := h.Metadata[metaUnreadable]; pages != "" {
		list = append(list, fmt.Sprintf("%s has pages that cannot be read and were not searched: %s (of %s)", h.Metadata[metaPDF], pages, h.Metadata[MetaPages]))
	}
	return list
}

// FileDamaged says what searching a file for its pages means for the answers.
func FileDamaged(path string) string {
	return path + " is damaged; its pages were found by searching the file, and some may be missing"
}

// PagesMissing says how much of a file is lost.
func PagesMissing(path string, declared, found int) string {
	return fmt.Sprintf("%s says that it has %d pages, of which %d were found: %d are not searched, and pages behind them have too low a number",
		path, declared, found, declared-found)
}
