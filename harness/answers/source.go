package answers

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"

	"extraction-experiment/dataset"
	"extraction-experiment/internal/wholefile"
)

// Questions are the questions of a run, as a Source of its items.
type Questions struct {
	Items    []dataset.Item
	SHA256   string
	Warnings []string
}

// ReadFile reads a file of questions until ctx is done; its hash is that of its
// bytes. Errors as of Read, and a file that is not there has exit code 64, too.
func ReadFile(ctx context.Context, path string) (Questions, error) {
	f, err := wholefile.Open(ctx, path)
	if err != nil {
		return Questions{}, &dataset.SyntaxError{File: path, Msg: "the file of questions cannot be opened: " + err.Error()}
	}
	defer f.Close() // only read: nothing can be lost
	hash := sha256.New()
	list, warnings, err := Read(io.TeeReader(f, hash), path)
	if err != nil {
		return Questions{}, err
	}
	q := Questions{SHA256: hex.EncodeToString(hash.Sum(nil)), Warnings: warnings}
	for _, one := range list {
		item, err := one.Item()
		if err != nil {
			return Questions{}, err
		}
		q.Items = append(q.Items, item)
	}
	return q, nil
}

// pager is what a dataset's Source does.
type pager interface {
	Pages(ctx context.Context) iter.Seq2[[]dataset.Item, error]
}

// Collect reads the questions of a dataset, whose hash is its fingerprint. Items
// that are no questions are errors as in a file, all of them at once: without
// them weighted_score would be that of other questions.
func Collect(ctx context.Context, source pager) (Questions, error) {
	var q Questions
	var fingerprint dataset.Fingerprint
	for page, err := range source.Pages(ctx) {
		if err != nil {
			return q, fmt.Errorf("listing the questions: %w", err)
		}
		if q.Items = append(q.Items, page...); len(q.Items) > MaxQuestions {
			return q, &dataset.SyntaxError{File: "the dataset", Msg: fmt.Sprintf("has more than %d questions: give a part of it", MaxQuestions)}
		}
	}
	slices.SortFunc(q.Items, func(a, b dataset.Item) int { return strings.Compare(a.ID, b.ID) })
	if err := q.check(); err != nil {
		return Questions{}, err
	}
	for _, item := range q.Items {
		hash, err := dataset.Hash(item)
		if err == nil {
			err = fingerprint.Add(item.ID, hash)
		}
		if err != nil {
			return q, fmt.Errorf("listing the questions: item %q: %w", item.ID, err)
		}
	}
	q.SHA256 = fingerprint.Sum()
	return q, nil
}

// check reads every item as a question.
func (q *Questions) check() error {
	var problems dataset.Problems
	for _, item := range q.Items {
		expected, err := ReadItem(item)
		if err != nil {
			msg := strings.ReplaceAll(err.Error(), "\n", "; ")
			problems.Add(&dataset.SyntaxError{File: "the dataset", Path: fmt.Sprintf("item %q", item.ID), Msg: msg})
			continue
		}
		for _, text := range expected.Odd() {
			q.Warnings = append(q.Warnings, fmt.Sprintf("item %q: %s", item.ID, text))
		}
	}
	return problems.Err()
}

// ReadItem reads an item as a question; all that is wrong with it is joined.
func ReadItem(item dataset.Item) (Expected, error) {
	_, err := DecodeInput(item.Input)
	expected, unexpected := DecodeExpected(item.Expected)
	if joined, ok := unexpected.(interface{ Unwrap() []error }); ok {
		return expected, errors.Join(append([]error{err}, joined.Unwrap()...)...)
	}
	return expected, errors.Join(err, unexpected)
}

// Pages yields all questions as one page.
func (q Questions) Pages(context.Context) iter.Seq2[[]dataset.Item, error] {
	return func(yield func([]dataset.Item, error) bool) {
		if len(q.Items) > 0 {
			yield(q.Items, nil)
		}
	}
}
