package runstore

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"extraction-experiment/outcome"
)

// maxLine bounds a line of an export: an outcome with its scores.
const maxLine = maxValue + 16<<20

// Import makes a run file at path of what Export wrote. The file appears only
// when everything is in it and the footer's counts are right. Memory is that of
// one batch or one line, which may have 272 MiB.
//
// Errors: *LineError names the first line that is not what it should be, such as one
// with a negative latency, or the one behind the end if the export was cut off; ErrNewer in it when the export
// has a later format; ErrExists; ErrWrite.
func Import(ctx context.Context, r io.Reader, path string) error {
	if _, err := os.Lstat(path); err == nil {
		return fault(path, ErrExists, nil)
	}
	if err := makeFolder(path); err != nil {
		return fault(path, ErrWrite, err)
	}
	folder, err := os.MkdirTemp(filepath.Dir(path), filepath.Base(path)+".import-*")
	if err != nil {
		return fault(path, ErrWrite, err)
	}
	name := ""
	if named, ok := r.(interface{ Name() string }); ok {
		name = named.Name()
	}
	imported, err := importInto(ctx, r, name, folder)
	if err == nil {
		err = rename(imported, path)
	}
	return errors.Join(err, os.RemoveAll(folder))
}

// importInto imports what has that name into a file in the folder and returns its path.
func importInto(ctx context.Context, r io.Reader, name, folder string) (string, error) {
	path := filepath.Join(folder, "imported")
	im := &importer{path: path, file: name, lines: bufio.NewScanner(r)}
	im.lines.Buffer(make([]byte, 0, 64<<10), maxLine)
	err := im.all(ctx)
	if im.run != nil {
		err = errors.Join(err, im.run.Close())
	}
	return path, err
}

// importer turns lines into writes and hands them to the run in batches.
type importer struct {
	path   string
	file   string
	lines  *bufio.Scanner
	line   int
	parser lineParser
	run    *Run

	batch  []importedLine
	bytes  int
	orphan *LineError // the first outcome whose item is not there
}

// importedLine is a write and where it comes from.
type importedLine struct {
	line  int
	apply func(*tx) error
}

func (im *importer) all(ctx context.Context) error {
	for im.lines.Scan() {
		im.line++
		if err := im.next(im.lines.Bytes()); err != nil {
			return im.at(im.line, err)
		}
		if len(im.batch) >= maxBatchWrites || im.bytes >= maxBatchBytes {
			if err := im.flush(ctx); err != nil {
				return err
			}
		}
	}
	if errors.Is(im.lines.Err(), bufio.ErrTooLong) {
		return im.at(im.line+1, fmt.Errorf("it is longer than %d bytes", maxLine))
	}
	if err := im.lines.Err(); err != nil {
		return fmt.Errorf("reading %s after line %d: %w", im.file, im.line, err)
	}
	if !im.parser.ended() {
		return im.at(im.line+1, errors.New("the export ends without its footer: it was cut off"))
	}
	if err := im.flush(ctx); err != nil || im.orphan == nil {
		return err
	}
	return im.orphan
}

// allowLoss takes what is the export of a damaged run: outcomes of items that
// are lost are left out, and the fingerprint speaks of more than is there.
func (im *importer) allowLoss(t *tx) error {
	im.orphan = nil
	var h outcome.Header
	if err := t.meta(keyHeader, &h); err != nil {
		return err
	}
	h.Dataset.Fingerprint = ""
	return t.setMeta(keyHeader, h)
}

// at says which line an error is about; errors of the disk are about none.
func (im *importer) at(line int, err error) error {
	var f *Fault
	if errors.As(err, &f) && f.Kind == ErrWrite || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return &LineError{im.file, line, err}
}

// next takes one line.
func (im *importer) next(text []byte) error {
	line, err := im.parser.parse(text)
	if err != nil {
		return err
	}
	im.bytes += len(text)
	switch l := line.(type) {
	case headerLine:
		im.run, err = Create(im.path, l.Header)
	case experimentLine:
		im.add(func(t *tx) error { return t.setExperiment(l.Experiment) })
	case itemRow:
		im.add(func(t *tx) error { return t.insertItem(l) })
	case *outcomeRow:
		im.add(func(t *tx) error { return t.insertOutcome(l) })
	case footerLine:
		if l.Lost != nil {
			im.add(im.allowLoss)
		}
		if l.Footer != nil {
			im.add(func(t *tx) error { return t.setMeta(keyFooter, *l.Footer) })
		}
	}
	return err
}

func (im *importer) add(apply func(*tx) error) {
	im.batch = append(im.batch, importedLine{im.line, apply})
}

func (im *importer) flush(ctx context.Context) error {
	batch := im.batch
	im.batch, im.bytes = nil, 0
	return im.run.writer.submit(ctx, 0, func(t *tx) error {
		return t.atomically(func() error {
			for _, l := range batch {
				err := l.apply(t)
				if sqliteCode(err) != 0 {
					return err
				}
				if errors.Is(err, ErrUnknown) {
					if im.orphan == nil {
						im.orphan = &LineError{im.file, l.line, err}
					}
					continue
				}
				if err != nil {
					return im.at(l.line, err)
				}
			}
			return nil
		})
	})
}
