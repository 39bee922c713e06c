package runstore

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"extraction-experiment/internal/cli"
	"extraction-experiment/outcome"
)

// maxLine bounds a line of an export in bytes. The longest is an outcome with its scores.
const maxLine = maxValue + 16<<20

// Import creates a run file at path from an export. After an error, for example wrong counts in
// the footer, it leaves no file. It needs the memory of one batch or one line, which may have
// 272 MiB. name is the name of the export in errors.
//
// An error of the content has exit code 64 and names the first bad line, for example one with a
// negative latency, or the line after the end if the export was truncated. It matches ErrNewer if
// the export has a later format. Other errors are those of r, ErrExists and ErrWrite.
func Import(ctx context.Context, r io.Reader, name, path string) error {
	im := &importer{file: name, lines: bufio.NewScanner(r)}
	im.lines.Buffer(make([]byte, 0, 64<<10), maxLine)
	first, err := im.next()
	if err != nil {
		return err
	}
	return Build(path, first.(headerLine).Header, func(run *Run) error { return im.writeLines(ctx, run) })
}

// importer writes the lines of an export into a run.
type importer struct {
	file      string
	lines     *bufio.Scanner
	line      int
	parser    lineParser
	orphanErr error // for the first outcome without an item
}

// importable is a parsed line that can be written into a run.
type importable interface {
	insert(t *tx) error
}

// next parses the next line. It returns nil after the last one.
func (im *importer) next() (importable, error) {
	im.line++
	if im.lines.Scan() && im.lines.Err() == nil { // after an error, the last line may be cut
		line, err := im.parser.parse(im.lines.Bytes())
		return line, im.atLine(err)
	}
	switch err := im.lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return nil, im.atLine(fmt.Errorf("it is longer than %d bytes", maxLine))
	case err != nil:
		return nil, fmt.Errorf("reading %s after line %d: %w", im.file, im.line-1, err)
	case im.parser.kind != kindFooter:
		return nil, im.atLine(errors.New("the export ends without its footer: it was cut off"))
	}
	return nil, nil
}

// writeLines writes the lines after the first, in several transactions.
func (im *importer) writeLines(ctx context.Context, run *Run) error {
	for more := true; more; {
		err := run.writer.submit(ctx, 0, func(t *tx) (err error) {
			more, err = im.writeBatch(t)
			return err
		})
		if err != nil {
			return err
		}
	}
	if im.parser.hasLost {
		return nil
	}
	return im.orphanErr
}

// writeBatch writes lines up to the size of a transaction, and reports whether there may be more.
func (im *importer) writeBatch(t *tx) (more bool, err error) {
	for bytes := 0; bytes < maxBatchBytes; bytes += len(im.lines.Bytes()) {
		line, err := im.next()
		if line == nil || err != nil {
			return false, err
		}
		err = line.insert(t)
		switch {
		case sqliteCode(err) != 0:
			return false, err
		case errors.Is(err, ErrUnknown):
			im.orphanErr = cmp.Or(im.orphanErr, im.atLine(err))
		case err != nil:
			return false, im.atLine(err)
		}
	}
	return true, nil
}

// atLine adds the current line to an error, except to a Fault, which is an error of the file.
func (im *importer) atLine(err error) error {
	if _, isFault := errors.AsType[*Fault](err); err == nil || isFault {
		return err
	}
	return cli.Usage("reading %s: line %d: %w", cmp.Or(im.file, "an exported run"), im.line, err)
}

// insert does nothing, because Build has written the header.
func (l headerLine) insert(*tx) error { return nil }

func (l experimentLine) insert(t *tx) error { return t.setExperiment(l.Experiment, false) }

// insert writes the footer if there is one. It removes the fingerprint of a damaged run, which
// describes more items than the export has.
func (l footerLine) insert(t *tx) error {
	if l.Lost != nil {
		if err := t.changeHeader(func(h *outcome.Header) { h.Dataset.Fingerprint = "" }); err != nil {
			return err
		}
	}
	if l.Footer == nil {
		return nil
	}
	return t.setMeta(keyFooter, *l.Footer)
}

// lineParser parses the lines of an export one by one and checks everything that does not need
// the run: their form and order, and the counts of the footer. The zero value is ready for the
// first line.
type lineParser struct {
	kind            string // kind of the last line
	trials          int    // trials in the header
	items, outcomes int64
	hasLost         bool // the run was damaged, and outcomes of lost items may be skipped
}

// parse parses a line into a headerLine, experimentLine, itemRow, *outcomeRow or footerLine.
func (p *lineParser) parse(text []byte) (importable, error) {
	var head struct {
		Kind string `json:"kind"`
	}
	if err := json.Unmarshal(text, &head); err != nil {
		return nil, fmt.Errorf("it is not a JSON object: %w", err)
	}
	if err := p.checkOrder(head.Kind); err != nil {
		return nil, err
	}
	switch head.Kind {
	case kindHeader:
		l, err := parseHeader(text)
		p.trials = max(1, l.Trials)
		return l, err
	case kindExperiment:
		return decodeLine[experimentLine](text)
	case kindItem:
		p.items++
		return parseItem(text)
	case kindOutcome:
		p.outcomes++
		return parseOutcome(text, p.trials)
	}
	return p.footer(text)
}

// checkOrder returns an error for an unknown kind or a kind at a wrong place. An export has one
// header first, then experiments, items and outcomes, and one footer last.
func (p *lineParser) checkOrder(kind string) error {
	order := []string{"", kindHeader, kindExperiment, kindItem, kindOutcome, kindFooter}
	this, last := slices.Index(order, kind), slices.Index(order, p.kind)
	switch {
	case this < 1:
		return fmt.Errorf("its kind is %q, which is not one of %q", kind, order[1:])
	case last == 0 && kind != kindHeader:
		return fmt.Errorf("its kind is %q, but an export begins with its header", kind)
	case this < last, this == last && (kind == kindHeader || kind == kindFooter):
		return fmt.Errorf("its kind is %q, which cannot follow %q", kind, p.kind)
	}
	p.kind = kind
	return nil
}

func parseHeader(text []byte) (headerLine, error) {
	l, err := decodeLine[headerLine](text)
	switch {
	case err != nil && l.Format <= outcome.FormatVersion: // a later format may have other keys
		return l, err
	case l.Format > outcome.FormatVersion:
		return l, fmt.Errorf("the export %w: format %d, and this program knows %d", ErrNewer, l.Format, outcome.FormatVersion)
	case l.Format < 1 || l.RunUID == "":
		return l, errors.New("the header has no format or no run_uid")
	}
	return l, CheckHeader(l.Header)
}

func parseItem(text []byte) (itemRow, error) {
	l, err := decodeLine[itemLine](text)
	if err != nil {
		return itemRow{}, err
	}
	if l.Seq < 1 || l.Hash == "" {
		return itemRow{}, badItem(l.ID, errors.New("it has no seq or no hash"))
	}
	l.Item.ID = l.ID
	item := Item{Item: l.Item, Seq: l.Seq, Hash: l.Hash}
	if err := checkHash(item); err != nil {
		return itemRow{}, badItem(l.ID, err)
	}
	return newItemRow(item, nil)
}

func parseOutcome(text []byte, trials int) (*outcomeRow, error) {
	l, err := decodeLine[outcomeLine](text)
	if err != nil {
		return nil, err
	}
	if l.Trial > trials {
		return nil, badOutcome(l.Outcome, fmt.Errorf("the run has no more than %d trials", trials))
	}
	return newOutcomeRow(l.Outcome, nil)
}

func (p *lineParser) footer(text []byte) (footerLine, error) {
	l, err := decodeLine[footerLine](text)
	p.hasLost = l.Lost != nil
	if err == nil && (l.Items != p.items || l.Outcomes != p.outcomes) {
		err = fmt.Errorf("the footer counts %d items and %d outcomes, but %d and %d stand above: lines are missing or duplicated",
			l.Items, l.Outcomes, p.items, p.outcomes)
	}
	return l, err
}

// decodeLine decodes a line. Unknown keys are errors, so that nothing is dropped silently.
func decodeLine[T any](text []byte) (line T, err error) {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&line); err != nil {
		return line, fmt.Errorf("it is not in the form of an export: %w", err)
	}
	return line, nil
}
