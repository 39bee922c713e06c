package answers

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"iter"
	"os"
	"slices"
	"strings"

	"extraction-experiment/dataset"
)

// Questions are the questions of a run, as a Source of its items.
type Questions struct {
	Items    []dataset.Item
	SHA256   string
	Warnings []string
}

// ReadFile reads a file of questions; its hash is that of its bytes. Errors as
// of Read, and a file that is not there has exit code 64, too.
func ReadFile(path string) (Questions, error) {
	f, err := os.Open(path)
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

// Collect reads the questions of a dataset, whose hash is its fingerprint. An
// item that is no question fails when it is run, not here.
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

// Pages yields all questions as one page.
func (q Questions) Pages(context.Context) iter.Seq2[[]dataset.Item, error] {
	return func(yield func([]dataset.Item, error) bool) {
		if len(q.Items) > 0 {
			yield(q.Items, nil)
		}
	}
}
