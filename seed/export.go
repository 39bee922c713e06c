package seed

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"extraction-experiment/dataset"
	"extraction-experiment/langfuse"
)

// Export writes the active items of a dataset, sorted by id so that two exports
// of the same items are equal byte for byte. version pins the dataset to an
// earlier instant; the zero time is now. It returns how many items there were;
// the caller closes the writer.
//
// Items lie in a temporary file meanwhile, of which the index is in memory:
// about a hundred bytes an item.
//
// Errors: langfuse.ErrNotFound for an unknown dataset, those of Langfuse, of
// the temporary file, and of the writer.
//
// API: GET /api/public/health, GET /api/public/dataset-items
func Export(ctx context.Context, client *langfuse.Client, name string, version time.Time, w *dataset.Writer) (n int, err error) {
	pin := langfuse.DatasetVersion{Time: version}
	if version.IsZero() {
		if pin, err = client.CurrentDatasetVersion(ctx, name); err != nil {
			return 0, fmt.Errorf("exporting: %w", err)
		}
	}
	s, err := newSpool()
	if err != nil {
		return 0, fmt.Errorf("exporting: %w", err)
	}
	defer func() { err = errors.Join(err, s.remove()) }()
	for item, err := range client.ListDatasetItems(ctx, langfuse.DatasetItemsQuery{DatasetName: name, Version: pin}) {
		if err != nil {
			return 0, fmt.Errorf("exporting: %w", err)
		}
		if err := s.add(itemOf(item)); err != nil {
			return 0, fmt.Errorf("exporting: %w", err)
		}
	}
	if err := s.each(w.Write); err != nil {
		return 0, fmt.Errorf("exporting: %w", err)
	}
	return len(s.index), nil
}

// itemOf is the item as a file holds it: what is null is absent.
func itemOf(stored langfuse.DatasetItem) dataset.Item {
	absent := func(raw json.RawMessage) json.RawMessage {
		if string(raw) == "null" {
			return nil
		}
		return raw
	}
	return dataset.Item{
		ID:                  stored.ID,
		Input:               absent(stored.Input),
		Expected:            absent(stored.ExpectedOutput),
		Metadata:            absent(stored.Metadata),
		SourceTraceID:       stored.SourceTraceID,
		SourceObservationID: stored.SourceObservationID,
	}
}

// spool keeps items in a temporary file until they can be given back sorted.
type spool struct {
	file  *os.File
	out   *bufio.Writer
	size  int64
	index []place
}

// place is where an item lies in the spool.
type place struct {
	id             string
	offset, length int64
}

func newSpool() (*spool, error) {
	file, err := os.CreateTemp("", "export-*.jsonl")
	if err != nil {
		return nil, err
	}
	return &spool{file: file, out: bufio.NewWriter(file)}, nil
}

func (s *spool) add(item dataset.Item) error {
	raw, err := marshal(item)
	if err != nil {
		return fmt.Errorf("item %q: %w", item.ID, err)
	}
	if _, err := s.out.Write(raw); err != nil {
		return err
	}
	s.index = append(s.index, place{item.ID, s.size, int64(len(raw))})
	s.size += int64(len(raw))
	return nil
}

// each gives all items, sorted by id. Of an id that came twice, because
// somebody wrote while the list was read, the first is taken: the newest.
func (s *spool) each(give func(dataset.Item) error) error {
	if err := s.out.Flush(); err != nil {
		return err
	}
	slices.SortStableFunc(s.index, func(a, b place) int { return cmp.Compare(a.id, b.id) })
	s.index = slices.CompactFunc(s.index, func(a, b place) bool { return a.id == b.id })
	for i := range s.index {
		item, err := s.at(i)
		if err != nil {
			return err
		}
		if err := give(item); err != nil {
			return err
		}
	}
	return nil
}

// at reads the item at a place of the index; what was added must be flushed.
func (s *spool) at(i int) (dataset.Item, error) {
	p := s.index[i]
	raw := make([]byte, p.length)
	if _, err := s.file.ReadAt(raw, p.offset); err != nil {
		return dataset.Item{}, err
	}
	var item dataset.Item
	if err := json.Unmarshal(raw, &item); err != nil {
		return dataset.Item{}, fmt.Errorf("item %q: %w", p.id, err)
	}
	return item, nil
}

func (s *spool) remove() error {
	return errors.Join(s.file.Close(), os.Remove(s.file.Name()))
}
