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
	"os"
	"slices"

	"extraction-experiment/outcome"
)

// maxLine bounds a line of an export: an outcome with its scores.
const maxLine = maxValue + 16<<20

// Import makes a run file at path of what Export wrote, and removes it where something
// is wrong, such as the footer's counts. Memory is that of one batch or one line, which
// may have 272 MiB. Errors speak of the name.
//
// Errors: *LineError names the first line that is not what it should be, such as one
// with a negative latency, or the one behind the end if the export was cut off; ErrNewer in it when the export
// has a later format; ErrExists; ErrWrite.
func Import(ctx context.Context, r io.Reader, name, path string) error {
	im := &importer{path: path, file: name, lines: bufio.NewScanner(r)}
	im.lines.Buffer(make([]byte, 0, 64<<10), maxLine)
	err := im.all(ctx)
	if im.run != nil {
		err = errors.Join(err, im.run.Close())
		if err != nil {
			err = errors.Join(err, os.Remove(path))
		}
	}
	return err
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

// importedLine is what a line says and where it stands.
type importedLine struct {
	importable
	number int
}

// importable is what goes into a run.
type importable interface {
	insert(t *tx) error
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
	if err := im.flush(ctx); err != nil || im.orphan == nil || im.parser.lost {
		return err
	}
	return im.orphan
}

// at says which line an error is about; errors of the file are about none.
func (im *importer) at(line int, err error) error {
	if _, of := errors.AsType[*Fault](err); of || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
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
	if first, is := line.(headerLine); is {
		im.run, err = Create(im.path, first.Header)
		return err
	}
	im.batch = append(im.batch, importedLine{line, im.line})
	return nil
}

func (im *importer) flush(ctx context.Context) error {
	batch := im.batch
	im.batch, im.bytes = nil, 0
	return im.run.writer.submit(ctx, 0, func(t *tx) error {
		return t.atomically(func() error {
			for _, l := range batch {
				err := l.insert(t)
				switch {
				case sqliteCode(err) != 0:
					return err
				case errors.Is(err, ErrUnknown):
					im.orphan = cmp.Or(im.orphan, &LineError{im.file, l.number, err})
				case err != nil:
					return im.at(l.number, err)
				}
			}
			return nil
		})
	})
}

// insert does nothing: a run is created with its header.
func (l headerLine) insert(*tx) error { return nil }

func (l experimentLine) insert(t *tx) error { return t.setExperiment(l.Experiment) }

// insert writes the footer, if there was one. Of the export of a damaged run the fingerprint
// speaks of more than is there.
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

// lineParser reads the lines of an export one after the other and checks all
// that can be checked without a store: the form of each, their order and the
// footer's counts. Its zero value is at the beginning of an export.
type lineParser struct {
	kind            string // of the last line
	trials          int    // of the header
	items, outcomes int64
	lost            bool // outcomes of items that are lost may be left out
}

// mostTrials is more than any run has.
const mostTrials = 10_000

// ended reports whether the footer was read.
func (p *lineParser) ended() bool { return p.kind == kindFooter }

// parse returns what the line says: a headerLine, experimentLine, itemRow,
// *outcomeRow or footerLine.
func (p *lineParser) parse(text []byte) (importable, error) {
	var head struct {
		Kind string `json:"kind"`
	}
	if err := json.Unmarshal(text, &head); err != nil {
		return nil, fmt.Errorf("it is no JSON object: %w", err)
	}
	if err := p.inOrder(head.Kind); err != nil {
		return nil, err
	}
	switch head.Kind {
	case kindHeader:
		l, err := parseHeader(text)
		p.trials = max(1, l.Trials)
		return l, err
	case kindExperiment:
		l, err := decodeLine[experimentLine](text)
		if err == nil {
			err = l.check()
		}
		return l, err
	case kindItem:
		p.items++
		return parseItem(text)
	case kindOutcome:
		p.outcomes++
		return parseOutcome(text, p.trials)
	}
	return p.footer(text)
}

// inOrder refuses a kind that is unknown or does not belong here: one header
// first, one footer last, experiments, items and outcomes between them.
func (p *lineParser) inOrder(kind string) error {
	order := []string{"", kindHeader, kindExperiment, kindItem, kindOutcome, kindFooter}
	this, last := slices.Index(order, kind), slices.Index(order, p.kind)
	switch {
	case this < 1:
		return fmt.Errorf("its kind is %q, which is none of %q", kind, order[1:])
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
	case err != nil && l.Format <= outcome.FormatVersion: // a later format may well have other keys
		return l, err
	case l.Format > outcome.FormatVersion:
		return l, fmt.Errorf("the export %w: format %d, and this program knows %d", ErrNewer, l.Format, outcome.FormatVersion)
	case l.Format < 1 || l.RunUID == "":
		return l, errors.New("the header has no format or no run_uid")
	case l.Trials < 0 || l.Trials > mostTrials:
		return l, fmt.Errorf("the header has %d trials: a run has from 1 to %d", l.Trials, mostTrials)
	}
	return l, nil
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
	item := Item{l.Item, l.Seq, l.Hash}
	if err := matchesHash(item); err != nil {
		return itemRow{}, badItem(l.ID, err)
	}
	return newItemRow(item, nil)
}

func parseOutcome(text []byte, trials int) (*outcomeRow, error) {
	l, err := decodeLine[outcomeLine](text)
	if err != nil {
		return nil, err
	}
	if err := possible(l.Outcome, trials); err != nil {
		return nil, badOutcome(l.Outcome, err)
	}
	return newOutcomeRow(l.Outcome, nil)
}

// possible refuses values that no run can come to.
func possible(o outcome.Outcome, trials int) error {
	var problems []error
	if o.Trial > trials {
		problems = append(problems, fmt.Errorf("the run has no more than %d trials", trials))
	}
	notNegative := func(what string, numbers ...int64) {
		if slices.Min(numbers) < 0 {
			problems = append(problems, fmt.Errorf("%s is negative", what))
		}
	}
	paid := func(cost *float64, usages ...outcome.Usage) {
		for _, u := range usages {
			notNegative("a number of tokens", u.Input, u.Output, u.Cached, u.Reasoning)
		}
		if cost != nil && *cost < 0 {
			problems = append(problems, errors.New("a cost is negative"))
		}
	}
	notNegative("its latency", int64(o.Latency))
	paid(o.CostUSD, o.Usage, o.Assumed)
	if j := o.Judging; j != nil {
		paid(j.CostUSD, j.Usage, j.Assumed)
	}
	for _, call := range o.Calls {
		notNegative("the waiting of a call", int64(call.Waited))
		paid(call.CostUSD, call.Usage, call.Assumed)
	}
	for _, g := range o.Groups {
		notNegative("a count of "+g.Kind, g.Expected, g.Extracted, g.Matched)
	}
	for _, s := range o.Scores {
		switch {
		case s.Value != nil && !(*s.Value >= 0 && *s.Value <= 1):
			problems = append(problems, fmt.Errorf("score %s is %g, and scores are from 0 to 1", s.Name, *s.Value))
		case s.Ratio != nil && !s.Ratio.Usable():
			problems = append(problems, fmt.Errorf("score %s is made of %d and %d, which count nothing", s.Name, s.Ratio.Num, s.Ratio.Den))
		case s.Weight != nil && *s.Weight < 0:
			problems = append(problems, fmt.Errorf("the weight of score %s is negative", s.Name))
		}
	}
	return errors.Join(problems...)
}

func (p *lineParser) footer(text []byte) (footerLine, error) {
	l, err := decodeLine[footerLine](text)
	p.lost = l.Lost != nil
	if err == nil && (l.Items != p.items || l.Outcomes != p.outcomes) {
		err = fmt.Errorf("the footer counts %d items and %d outcomes, but %d and %d stand above: lines are missing or doubled",
			l.Items, l.Outcomes, p.items, p.outcomes)
	}
	return l, err
}

// decodeLine refuses keys that it does not know: nothing is dropped silently.
func decodeLine[T any](text []byte) (line T, err error) {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&line); err != nil {
		return line, fmt.Errorf("it is not as an export is written: %w", err)
	}
	return line, nil
}

// LineError is a line of an export that cannot be imported.
type LineError struct {
	File string // "" if not known
	Line int    // from 1
	Err  error
}

// Error reads "reading run.jsonl: line 7: …".
func (e *LineError) Error() string {
	return fmt.Sprintf("reading %s: line %d: %v", cmp.Or(e.File, "an exported run"), e.Line, e.Err)
}

// Unwrap returns Err.
func (e *LineError) Unwrap() error { return e.Err }

// ExitCode is 64: malformed input.
func (e *LineError) ExitCode() int { return 64 }
