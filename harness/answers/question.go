package answers

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"extraction-experiment/dataset"
	"extraction-experiment/experiment"
	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/files"
	"extraction-experiment/internal/textutil"
)

// Questions are the questions of a run. They are a Source of items.
type Questions struct {
	experiment.Items
	// SHA256 is the fingerprint of the questions in a uniform form: a file and a dataset with the
	// same questions have the same SHA256.
	SHA256   string
	Warnings []string
}

// ReadFile reads a file of questions until ctx is done. Errors are those of Read; the error for a
// file that cannot be read has exit code 64 as well.
func ReadFile(ctx context.Context, path string) (Questions, error) {
	text, err := files.Read(ctx, path, maxFile)
	if err != nil {
		err = &dataset.SyntaxError{File: path, Msg: "the file of questions cannot be opened: " + err.Error()}
		return Questions{}, cmp.Or(ctx.Err(), err)
	}
	list, warnings, err := Read(text, path)
	if err != nil {
		return Questions{}, err
	}
	q := Questions{Items: cli.Each(list, Question.Item), Warnings: warnings}
	q.SHA256, err = experiment.Fingerprint(ctx, q)
	return q, err
}

// Collect reads the questions of a dataset, sorted by id. The error names all items that are not
// questions: without them weighted_score would be that of other questions.
func Collect(ctx context.Context, source experiment.Source) (Questions, error) {
	var q, plain Questions // plain holds the same questions in the form of a file
	for page, err := range source.Pages(ctx) {
		if err != nil {
			return q, fmt.Errorf("listing the questions: %w", err)
		}
		q.Items = append(q.Items, page...)
	}
	slices.SortFunc(q.Items, func(a, b dataset.Item) int { return strings.Compare(a.ID, b.ID) })
	var problems dataset.Problems
	for _, item := range q.Items {
		question, err := ReadItem(item)
		if err != nil {
			msg := strings.ReplaceAll(err.Error(), "\n", "; ")
			problems.Add(&dataset.SyntaxError{File: "the dataset", Path: fmt.Sprintf("item %q", item.ID), Msg: msg})
			continue
		}
		for _, text := range question.Warnings() {
			q.Warnings = append(q.Warnings, fmt.Sprintf("item %q: %s", item.ID, text))
		}
		plain.Items = append(plain.Items, question.Item())
	}
	err := problems.Err()
	if err != nil {
		return Questions{}, err
	}
	q.SHA256, err = experiment.Fingerprint(ctx, plain)
	return q, err
}

// ReadItem reads an item as a question. The error joins all problems.
func ReadItem(item dataset.Item) (Question, error) {
	text, err := DecodeInput(item.Input)
	expected, expectedErr := DecodeExpected(item.Expected)
	return Question{item.ID, text, expected}, errors.Join(append([]error{err}, cli.Unjoin(expectedErr)...)...)
}

// Question is a question with its expected output.
type Question struct {
	ID       string
	Question string
	Expected
}

// Expected is the expected output of an item, by which an answer is judged.
type Expected struct {
	// MustInclude lists terms that must all be in the answer.
	MustInclude []string `json:"must_include,omitempty"`
	// MustIncludeAny lists groups of equivalent terms; one term of each group must be in the
	// answer.
	MustIncludeAny []Group `json:"must_include_any,omitempty"`
	// MustNotInclude lists terms that must not be in the answer.
	MustNotInclude []string `json:"must_not_include,omitempty"`
	// RequireCitation requires a citation of a page: "стр. N".
	RequireCitation bool `json:"require_citation,omitempty"`
	// Weight is at least 0; nil means 1.
	Weight *float64 `json:"weight,omitempty"`
}

// Importance returns the weight, 1 by default.
func (e Expected) Importance() float64 { return *cmp.Or(e.Weight, new(1.0)) }

// Group is a list of equivalent terms. In JSON it may be a single string.
type Group []string

// UnmarshalJSON reads a string or a list of strings.
func (g *Group) UnmarshalJSON(raw []byte) error {
	var one *string
	if json.Unmarshal(raw, &one) == nil && one != nil {
		*g = Group{*one}
		return nil
	}
	return (*stringList)(g).UnmarshalJSON(raw)
}

// stringList is a list of texts without null elements.
type stringList []string

// UnmarshalJSON reads a list whose elements are all texts.
func (t *stringList) UnmarshalJSON(raw []byte) error {
	var list []*string
	if json.Unmarshal(raw, &list) != nil || list == nil || slices.Contains(list, nil) {
		return errors.New("is not a list of texts")
	}
	*t = append(stringList{}, cli.Each(list, func(text *string) string { return *text })...)
	return nil
}

// Item returns the question as an item of a dataset.
func (q Question) Item() dataset.Item {
	return dataset.Item{ID: q.ID, Input: encode(map[string]string{"question": q.Question}), Expected: encode(q.Expected)}
}

// DecodeInput reads the question of an item: an object with "question", or a text.
func DecodeInput(raw json.RawMessage) (string, error) {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		raw = encode(map[string]string{"question": text})
	}
	values, err := dataset.ReadObject(raw)
	if err != nil {
		return "", fmt.Errorf(`the input is neither a question nor an object with a text "question": %w`, err)
	}
	return requiredText(values, "question")
}

// DecodeExpected reads the expected output of an item; an absent one has no requirements.
func DecodeExpected(raw json.RawMessage) (Expected, error) {
	var e Expected
	if raw = bytes.TrimSpace(raw); len(raw) == 0 || bytes.Equal(raw, []byte("null")) {
		return e, nil
	}
	values, err := dataset.ReadObject(raw)
	if err != nil {
		return e, fmt.Errorf("the expected output is not an object with must_include and the like: %w", err)
	}
	return e, e.read(values)
}

// read sets the fields from an object; null counts as absent. The error joins all problems. A key
// that is neither a field nor one of others is a problem, because a misspelt requirement would be
// ignored.
func (e *Expected) read(values map[string]json.RawMessage, others ...string) error {
	var problems textutil.Problems
	known := append([]string{"must_include", "must_include_any", "must_not_include", "require_citation", "weight"}, others...)
	for _, key := range slices.Sorted(maps.Keys(values)) {
		if !slices.Contains(known, key) {
			problems.Add(true, "%s: is not a key of a question%s", textutil.Cut(key, 60),
				cmp.Or(textutil.Hint(key, known), "; they are "+strings.Join(known, ", ")))
		}
	}
	decode := func(field string, target any, expected string) {
		raw, ok := values[field]
		problems.Add(ok && string(raw) != "null" && json.Unmarshal(raw, target) != nil,
			"%s: expected %s, found %s", field, expected, textutil.Cut(string(raw), 60))
	}
	decode("must_include", (*stringList)(&e.MustInclude), "a list of texts")
	decode("must_include_any", &e.MustIncludeAny, "a list of texts and of lists of texts")
	decode("must_not_include", (*stringList)(&e.MustNotInclude), "a list of texts")
	decode("require_citation", &e.RequireCitation, "true or false")
	decode("weight", &e.Weight, "a number")
	w := e.Importance()
	problems.Add(!(w >= 0 && w <= maxWeight), "weight: %g is not a number from 0 to %g", w, float64(maxWeight))
	return errors.Join(problems...)
}

// Warnings lists what is allowed but probably a mistake.
func (e Expected) Warnings() []string {
	var list []string
	if e.Importance() == 0 {
		list = append(list, "the weight is 0: the question counts for nothing in weighted_score")
	}
	for _, term := range e.MustNotInclude {
		if Normalise(term) == "" {
			list = append(list, "an empty term of must_not_include is never found")
		}
	}
	required := cli.Each(e.MustInclude, func(term string) Group { return Group{term} })
	for _, group := range append(required, e.MustIncludeAny...) {
		usable := slices.DeleteFunc(slices.Clone(group), func(term string) bool { return Normalise(term) == "" })
		switch {
		case len(usable) == 0:
			list = append(list, "a required term or group is empty: it is never found")
		case !slices.ContainsFunc(usable, func(term string) bool { return !e.forbids(term) }):
			list = append(list, fmt.Sprintf("an answer with any of the required %q also has a term of must_not_include", usable))
		}
	}
	return list
}

// forbids reports whether every answer with this term contains a forbidden one.
func (e Expected) forbids(term string) bool {
	text := Normalise(term)
	return slices.ContainsFunc(e.MustNotInclude, func(forbidden string) bool { return find(text, forbidden) != nil })
}

// maxWeight bounds the weight of a question, so that sums of weights stay exact enough.
const maxWeight = 1e6

// maxFile bounds the size of a file of questions in bytes.
const maxFile = 1 << 30

// Read reads questions from JSONL, one object per line. It skips blank lines and accepts a byte
// order mark and CRLF. name is the name of the file in messages.
//
// A row needs a text id and a text question. The error joins all problems: a duplicate id, a field
// of the wrong type, an unknown key, a weight that is negative or not a number, and a file without
// questions. Each is a *dataset.SyntaxError with its line (exit code 64). Warnings name terms that
// can never be found, or only together with a forbidden one, and weights of 0.
func Read(text []byte, name string) (questions []Question, warnings []string, err error) {
	var problems dataset.Problems
	lines := map[string]int{} // line by id
	for n, raw := range dataset.Lines(text) {
		q, err := readRow(raw)
		rowProblems := cli.Unjoin(err)
		if first, taken := lines[q.ID]; taken {
			rowProblems = append(rowProblems, fmt.Errorf("id: %q is the id of line %d already", q.ID, first))
		}
		for _, problem := range rowProblems {
			problems.Add(&dataset.SyntaxError{File: name, Line: n, Msg: problem.Error()})
		}
		if len(rowProblems) > 0 {
			continue
		}
		lines[q.ID] = n
		for _, text := range q.Warnings() {
			warnings = append(warnings, fmt.Sprintf("%s: line %d: %s", name, n, text))
		}
		questions = append(questions, q)
	}
	if problems.Len() == 0 && len(questions) == 0 {
		problems.Add(&dataset.SyntaxError{File: name,
			Msg: `there is no question in it; a line is an object such as {"id":"q001","question":"…","must_include":["2023"]}`})
	}
	if err := problems.Err(); err != nil {
		return nil, nil, err
	}
	return questions, warnings, nil
}

// readRow reads a line of a file. The error joins all problems.
func readRow(raw []byte) (q Question, err error) {
	values, err := dataset.ReadObject(raw)
	if err != nil {
		return q, fmt.Errorf("is not a JSON object: %w", err)
	}
	var idErr, questionErr error
	q.ID, idErr = requiredText(values, "id")
	q.Question, questionErr = requiredText(values, "question")
	expectedErr := q.Expected.read(values, "id", "question")
	return q, errors.Join(append([]error{idErr, questionErr}, cli.Unjoin(expectedErr)...)...)
}

// requiredText reads a required text.
func requiredText(values map[string]json.RawMessage, field string) (text string, err error) {
	raw, ok := values[field]
	switch {
	case !ok:
		err = fmt.Errorf("%s: is missing", field)
	case json.Unmarshal(raw, &text) != nil || string(raw) == "null":
		err = fmt.Errorf("%s: expected a text, found %s", field, textutil.Cut(string(raw), 60))
	case strings.TrimSpace(text) == "":
		err = fmt.Errorf("%s: is empty", field)
	}
	return text, err
}
