package answers

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"extraction-experiment/dataset"
	"extraction-experiment/internal/wholefile"
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
	f, err := wholefile.Open(ctx, path)
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
