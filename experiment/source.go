package experiment

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"extraction-experiment/dataset"
	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/stats"
	"extraction-experiment/internal/textutil"
	"extraction-experiment/langfuse"
	"extraction-experiment/runstore"
	"extraction-experiment/tracking"
)

// maxPageItems and maxPageBytes limit the items in memory at once. Each page is a transaction
// of the run file, which waits for the disk.
const maxPageItems, maxPageBytes = 512, 1 << 20

// paginate gathers items into pages. An error ends them.
func paginate(items iter.Seq2[dataset.Item, error]) iter.Seq2[[]dataset.Item, error] {
	return func(yield func([]dataset.Item, error) bool) {
		var page []dataset.Item
		size := 0
		for item, err := range items {
			if err != nil {
				yield(nil, err)
				return
			}
			page = append(page, item)
			size += len(item.Input) + len(item.Expected) + len(item.Metadata)
			if len(page) < maxPageItems && size < maxPageBytes {
				continue
			}
			if !yield(page, nil) {
				return
			}
			page, size = nil, 0
		}
		if len(page) > 0 {
			yield(page, nil)
		}
	}
}

// Items is a Source of items in memory, as one page.
type Items []dataset.Item

// Pages yields all items.
func (list Items) Pages(context.Context) iter.Seq2[[]dataset.Item, error] {
	return func(yield func([]dataset.Item, error) bool) { yield(list, nil) }
}

// File is a Source that reads the file with this path, in the order of its lines.
type File string

// Pages yields the items of the file. After a malformed item it yields no more, but an error
// that joins all problems of the file with their lines.
func (path File) Pages(ctx context.Context) iter.Seq2[[]dataset.Item, error] {
	return paginate(func(yield func(dataset.Item, error) bool) {
		var problems dataset.Problems
		for located, err := range dataset.ReadFile(ctx, string(path)) {
			if ctx.Err() != nil {
				yield(dataset.Item{}, ctx.Err())
				return
			}
			if err != nil {
				problems.Add(err)
			} else if problems.Err() == nil && !yield(located.Item, nil) {
				return
			}
		}
		if err := problems.Err(); err != nil {
			yield(dataset.Item{}, err)
		}
	})
}

// Selected is a Source of the items of another Source that a filter selects.
type Selected struct {
	Source Source
	Filter dataset.Filter
}

// Pages yields the items that the filter selects. If the filter has ids that do not exist, the
// pages end with an error that names them.
func (s Selected) Pages(ctx context.Context) iter.Seq2[[]dataset.Item, error] {
	return func(yield func([]dataset.Item, error) bool) {
		selection := s.Filter.Start()
		for page, err := range s.Source.Pages(ctx) {
			if err != nil {
				yield(nil, err)
				return
			}
			selected := slices.DeleteFunc(slices.Clone(page), func(item dataset.Item) bool { return !selection.Take(item) })
			if len(selected) > 0 && !yield(selected, nil) {
				return
			}
			if selection.Full() {
				return
			}
		}
		if missing := selection.Missing(); len(missing) > 0 {
			yield(nil, cli.Usage("the dataset (as filtered) has no item with the id %s", strings.Join(missing, ", ")))
		}
	}
}

// IsFile reports whether the name of a dataset means a file: the file exists, or the name has
// an extension of item files or is an absolute path.
func IsFile(name string) bool {
	if info, err := os.Stat(name); err == nil && !info.IsDir() {
		return true
	}
	_, err := dataset.FormatOf(name)
	return err == nil || filepath.IsAbs(name)
}

// DatasetName returns the name of a dataset in runs; for a file, that is its name without
// folders.
func DatasetName(name string) string {
	if IsFile(name) {
		return filepath.Base(name)
	}
	return name
}

// Open returns the items of a dataset: of the file with that name, or of the dataset in
// Langfuse, pinned to its current version. Several runs may read them at once. If Langfuse has no such
// dataset, the error is a *DatasetError.
func Open(ctx context.Context, lf *Langfuse, name string) (Source, error) {
	if IsFile(name) {
		if info, err := os.Stat(name); err != nil || info.IsDir() {
			return nil, cli.Usage("there is no file %s to read items from", name)
		}
		return File(name), nil
	}
	if lf == nil {
		return nil, cli.Usage("the dataset %q is not a file, and there is no Langfuse to ask for it", name)
	}
	pinned, err := tracking.OpenDataset(ctx, lf.Client, name)
	if errors.Is(err, langfuse.ErrNotFound) {
		hint := datasetHint(ctx, lf.Client, name)
		if info, err := os.Stat(name); err == nil && info.IsDir() {
			hint = "; the folder of that name is not read, since a dataset is one file (docs/items.md)"
		}
		return nil, &DatasetError{Name: name, Server: lf.Client.BaseURL(), Hint: hint}
	}
	if err != nil {
		return nil, err
	}
	return pinned, nil
}

// datasetHint returns a hint to a dataset of Langfuse with a similar name. If the datasets
// cannot be listed, there is no hint.
func datasetHint(ctx context.Context, client *langfuse.Client, name string) string {
	var names []string
	for d, err := range client.ListDatasets(ctx) {
		if err != nil || len(names) == maxNamesForHint {
			break
		}
		names = append(names, d.Name)
	}
	return textutil.Hint(name, names)
}

const maxNamesForHint = 500

// DatasetError is the error for a dataset that Langfuse does not have. Hint is appended to the
// message; it may be empty.
type DatasetError struct{ Name, Server, Hint string }

// Error names the dataset and the server.
func (e *DatasetError) Error() string {
	return fmt.Sprintf("there is no dataset %q in Langfuse (%s)%s", e.Name, e.Server, e.Hint)
}

// ExitCode returns 64.
func (*DatasetError) ExitCode() int { return cli.ExitUsage }

// openSource opens the source of the items, and records the id and version of the dataset in
// the header.
func (e *execution) openSource(ctx context.Context) (err error) {
	if e.source = e.cfg.Source; e.source == nil {
		if e.source, err = Open(ctx, e.cfg.Langfuse, e.cfg.Dataset); err != nil {
			return err
		}
	}
	if pinned, ok := e.source.(*tracking.Dataset); ok {
		e.cfg.Header.Dataset.ID, e.cfg.Header.Dataset.Version = pinned.ID(), pinned.Version()
	}
	return nil
}

// sourceNote returns a note for the user if the file of a resumed run has changed since the run
// began. It is empty if the file is the same, or ctx ends.
func (e *execution) sourceNote(ctx context.Context) string {
	header := e.result.Header
	if e.result.Begun || header.Dataset.ID != "" { // the version of a dataset in Langfuse is pinned
		return ""
	}
	const continues = "the run continues with the items that it began with"
	source := e.cfg.Source
	if source == nil {
		if _, err := os.Stat(e.cfg.Dataset); err != nil {
			return fmt.Sprintf("the dataset %s is not there any more; %s", e.cfg.Dataset, continues)
		}
		source = File(e.cfg.Dataset)
	}
	sum, err := Fingerprint(ctx, Selected{Source: source, Filter: e.cfg.Filter})
	switch {
	case ctx.Err() != nil:
		return ""
	case err != nil:
		return fmt.Sprintf("the dataset changed since the run began (%v); %s", err, continues)
	case sum != header.Dataset.Fingerprint:
		return "the dataset changed since the run began; " + continues
	}
	return ""
}

// Fingerprint computes the fingerprint of the items of a source, as in the header of a run. It
// reads the whole source, and keeps only ids and hashes in memory. The error is ErrNoItems if
// there are none.
func Fingerprint(ctx context.Context, source Source) (string, error) {
	var hasher dataset.Hasher
	var hashes []runstore.ItemHash
	for page, err := range prefetch(source.Pages(ctx)) {
		if err != nil {
			return "", err
		}
		for _, item := range page {
			hash, err := hasher.Hash(item)
			if err != nil {
				return "", err
			}
			hashes = append(hashes, runstore.ItemHash{ID: item.ID, Hash: hash})
		}
	}
	slices.SortFunc(hashes, func(a, b runstore.ItemHash) int { return cmp.Compare(a.ID, b.ID) })
	return fingerprintOf(stats.Values(hashes))
}

// fingerprintOf computes the fingerprint of items, which are sorted by id. The error is
// ErrNoItems if there are none.
func fingerprintOf(items iter.Seq2[runstore.ItemHash, error]) (string, error) {
	var fingerprint dataset.Fingerprint
	for item, err := range items {
		if err == nil {
			err = fingerprint.Add(item.ID, item.Hash)
		}
		if err != nil {
			return "", err
		}
	}
	if fingerprint == (dataset.Fingerprint{}) {
		return "", ErrNoItems
	}
	return fingerprint.Sum(), nil
}

// prefetch yields the pages of a source, and reads the next page while one is processed.
func prefetch(pages iter.Seq2[[]dataset.Item, error]) iter.Seq2[[]dataset.Item, error] {
	return func(yield func([]dataset.Item, error) bool) {
		next, stop := iter.Pull2(pages)
		defer stop()
		runstore.Paged(func([]dataset.Item) ([][]dataset.Item, error) {
			return recoverPanic(func() ([][]dataset.Item, error) { // in a goroutine, where the caller could not recover
				page, err, more := next()
				if err != nil || !more {
					return nil, err
				}
				return [][]dataset.Item{page}, nil
			})
		})(yield)
	}
}
