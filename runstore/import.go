package runstore

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"extraction-experiment/outcome"
)

// maxLine bounds a line of an export: an outcome with its scores.
const maxLine = maxValue + 16<<20

// LineError is a line of an export that cannot be imported.
type LineError struct {
	File string // "" if not known
	Line int    // from 1
	Err  error
}

// Error reads "reading run.jsonl: line 7: …".
func (e *LineError) Error() string {
	if e.File == "" {
		return fmt.Sprintf("reading an exported run: line %d: %v", e.Line, e.Err)
	}
	return fmt.Sprintf("reading %s: line %d: %v", e.File, e.Line, e.Err)
}

// Unwrap returns Err.
func (e *LineError) Unwrap() error { return e.Err }

// ExitCode is 64: malformed input.
func (e *LineError) ExitCode() int { return 64 }

// Import makes a run file at path of what Export wrote. The file appears only
// when everything is in it and the footer's counts are right. Memory is that of
// one batch or one line, which may have 272 MiB.
//
// Errors: *LineError names the first line that is not what it should be, the
// one behind the end if the export was cut off; ErrNewer in it when the export
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
	imported, err := importInto(ctx, r, folder)
	if err == nil {
		err = rename(imported, path)
	}
	return errors.Join(err, os.RemoveAll(folder))
}

// importInto imports into a file in the folder and returns its path.
func importInto(ctx context.Context, r io.Reader, folder string) (string, error) {
	path := filepath.Join(folder, "imported")
	im := &importer{path: path, lines: bufio.NewScanner(r)}
	if named, ok := r.(interface{ Name() string }); ok {
		im.file = named.Name()
	}
	im.lines.Buffer(make([]byte, 0, 64<<10), maxLine)
	err := im.all(ctx)
	if im.run != nil {
		err = errors.Join(err, im.run.Close())
	}
	return path, err
}

// importer turns lines into writes and hands them to the run in batches.
type importer struct {
	path  string
	file  string
	lines *bufio.Scanner
	line  int
	kind  string // of the last line
	run   *Run

	batch           []importedLine
	bytes           int
	items, outcomes int64
}

// importedLine is a write and where it comes from.
type importedLine struct {
	line  int
	apply func(*tx) error
}

func (im *importer) all(ctx context.Context) error {
	for im.lines.Scan() {
		im.line++
		if err := im.next(ctx, im.lines.Bytes()); err != nil {
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
	if im.kind != kindFooter {
		return im.at(im.line+1, errors.New("the export ends without its footer: it was cut off"))
	}
	return im.flush(ctx)
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
func (im *importer) next(ctx context.Context, text []byte) error {
	var head struct {
		Kind string `json:"kind"`
	}
	if err := json.Unmarshal(text, &head); err != nil {
		return fmt.Errorf("it is no JSON object: %w", err)
	}
	if err := im.inOrder(head.Kind); err != nil {
		return err
	}
	im.bytes += len(text)
	switch head.Kind {
	case kindHeader:
		return im.header(text)
	case kindExperiment:
		return im.experiment(text)
	case kindItem:
		return im.item(text)
	case kindOutcome:
		return im.outcome(text)
	}
	return im.footer(text)
}

// inOrder refuses a kind that is unknown or does not belong here: one header
// first, one footer last, experiments, items and outcomes between them.
func (im *importer) inOrder(kind string) error {
	order := []string{"", kindHeader, kindExperiment, kindItem, kindOutcome, kindFooter}
	this, last := slices.Index(order, kind), slices.Index(order, im.kind)
	switch {
	case this < 1:
		return fmt.Errorf("its kind is %q, which is none of %q", kind, order[1:])
	case last == 0 && kind != kindHeader:
		return fmt.Errorf("its kind is %q, but an export begins with its header", kind)
	case this < last, this == last && (kind == kindHeader || kind == kindFooter):
		return fmt.Errorf("its kind is %q, which cannot follow %q", kind, im.kind)
	}
	im.kind = kind
	return nil
}

func (im *importer) header(text []byte) error {
	var l headerLine
	if err := decodeLine(text, &l); err != nil {
		// A later format may well have other keys: say that rather.
		if l.Format <= outcome.FormatVersion {
			return err
		}
	}
	switch {
	case l.Format > outcome.FormatVersion:
		return fmt.Errorf("the export %w: format %d, and this program knows %d", ErrNewer, l.Format, outcome.FormatVersion)
	case l.Format < 1 || l.RunUID == "":
		return errors.New("the header has no format or no run_uid")
	}
	run, err := Create(im.path, l.Header)
	im.run = run
	return err
}

func (im *importer) experiment(text []byte) error {
	var l experimentLine
	if err := decodeLine(text, &l); err != nil {
		return err
	}
	im.add(func(t *tx) error { return t.setExperiment(l.Experiment) })
	return l.check()
}

func (im *importer) item(text []byte) error {
	var l itemLine
	if err := decodeLine(text, &l); err != nil {
		return err
	}
	if l.Seq < 1 || l.Hash == "" {
		return badItem(l.ID, errors.New("it has no seq or no hash"))
	}
	row, err := newItemRow(l.item())
	im.items++
	im.add(func(t *tx) error { return t.insertItem(row) })
	return err
}

func (im *importer) outcome(text []byte) error {
	var l outcomeLine
	if err := decodeLine(text, &l); err != nil {
		return err
	}
	row, err := newOutcomeRow(l.Outcome)
	im.outcomes++
	im.add(func(t *tx) error { return t.insertOutcome(row) })
	return err
}

func (im *importer) footer(text []byte) error {
	var l footerLine
	if err := decodeLine(text, &l); err != nil {
		return err
	}
	if l.Items != im.items || l.Outcomes != im.outcomes {
		return fmt.Errorf("the footer counts %d items and %d outcomes, but %d and %d stand above: lines are missing or doubled",
			l.Items, l.Outcomes, im.items, im.outcomes)
	}
	if l.Footer != nil {
		im.add(func(t *tx) error { return t.setMeta(keyFooter, *l.Footer) })
	}
	return nil
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
				if err != nil {
					return im.at(l.line, err)
				}
			}
			return nil
		})
	})
}

// decodeLine refuses keys that it does not know: nothing is dropped silently.
func decodeLine(text []byte, into any) error {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		return fmt.Errorf("it is not as an export is written: %w", err)
	}
	return nil
}
