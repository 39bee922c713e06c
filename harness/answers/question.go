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
	"slices"
	"strings"
	"unicode/utf8"

	"extraction-experiment/dataset"
	"extraction-experiment/experiment"
	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/files"
	"extraction-experiment/internal/textutil"
)

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
	q.SHA256, err = experiment.Fingerprint(ctx, q)
	return q, err
}

// Collect reads the questions of a dataset. Items that are no questions are
// errors as in a file, all of them at once: without them weighted_score would be
// that of other questions.
func Collect(ctx context.Context, source experiment.Source) (Questions, error) {
	var q, plain Questions // plain are the same in the form of a file
	for page, err := range source.Pages(ctx) {
		if err != nil {
			return q, fmt.Errorf("listing the questions: %w", err)
		}
		if q.Items = append(q.Items, page...); len(q.Items) > MaxQuestions {
			return q, &dataset.SyntaxError{File: "the dataset", Msg: fmt.Sprintf("has more than %d questions: give a part of it", MaxQuestions)}
		}
	}
	slices.SortFunc(q.Items, func(a, b dataset.Item) int { return strings.Compare(a.ID, b.ID) })
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
		item, err = one.Item()
		problems.Add(err)
		plain.Items = append(plain.Items, item)
	}
	err := problems.Err()
	if err == nil {
		q.SHA256, err = experiment.Fingerprint(ctx, plain)
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
	return Question{item.ID, text, expected}, errors.Join(append([]error{err}, cli.Separate(unexpected)...)...)
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
