package runstore

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"extraction-experiment/outcome"
)

// lineParser reads the lines of an export one after the other and checks all
// that can be checked without a store: the form of each, their order and the
// footer's counts. Its zero value is at the beginning of an export.
type lineParser struct {
	kind            string // of the last line
	items, outcomes int64
}

// ended reports whether the footer was read.
func (p *lineParser) ended() bool { return p.kind == kindFooter }

// parse returns what the line says: a headerLine, experimentLine, itemRow,
// *outcomeRow or footerLine.
func (p *lineParser) parse(text []byte) (any, error) {
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
		return parseHeader(text)
	case kindExperiment:
		return parseExperiment(text)
	case kindItem:
		p.items++
		return parseItem(text)
	case kindOutcome:
		p.outcomes++
		return parseOutcome(text)
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
	var l headerLine
	if err := decodeLine(text, &l); err != nil {
		// A later format may well have other keys: say that rather.
		if l.Format <= outcome.FormatVersion {
			return l, err
		}
	}
	switch {
	case l.Format > outcome.FormatVersion:
		return l, fmt.Errorf("the export %w: format %d, and this program knows %d", ErrNewer, l.Format, outcome.FormatVersion)
	case l.Format < 1 || l.RunUID == "":
		return l, errors.New("the header has no format or no run_uid")
	}
	return l, nil
}

func parseExperiment(text []byte) (experimentLine, error) {
	var l experimentLine
	if err := decodeLine(text, &l); err != nil {
		return l, err
	}
	return l, l.check()
}

func parseItem(text []byte) (itemRow, error) {
	var l itemLine
	if err := decodeLine(text, &l); err != nil {
		return itemRow{}, err
	}
	if l.Seq < 1 || l.Hash == "" {
		return itemRow{}, badItem(l.ID, errors.New("it has no seq or no hash"))
	}
	item := l.item()
	if err := matchesHash(item); err != nil {
		return itemRow{}, badItem(l.ID, err)
	}
	return newItemRow(item)
}

func parseOutcome(text []byte) (*outcomeRow, error) {
	var l outcomeLine
	if err := decodeLine(text, &l); err != nil {
		return nil, err
	}
	return newOutcomeRow(l.Outcome)
}

func (p *lineParser) footer(text []byte) (footerLine, error) {
	var l footerLine
	if err := decodeLine(text, &l); err != nil {
		return l, err
	}
	if l.Items != p.items || l.Outcomes != p.outcomes {
		return l, fmt.Errorf("the footer counts %d items and %d outcomes, but %d and %d stand above: lines are missing or doubled",
			l.Items, l.Outcomes, p.items, p.outcomes)
	}
	return l, nil
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
