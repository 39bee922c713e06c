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
	trials          int    // of the header
	items, outcomes int64
}

// mostTrials is more than any run has.
const mostTrials = 10_000

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
		l, err := parseHeader(text)
		p.trials = max(1, l.Trials)
		return l, err
	case kindExperiment:
		return parseExperiment(text)
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
	case l.Trials < 0 || l.Trials > mostTrials:
		return l, fmt.Errorf("the header has %d trials: a run has from 1 to %d", l.Trials, mostTrials)
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

func parseOutcome(text []byte, trials int) (*outcomeRow, error) {
	var l outcomeLine
	if err := decodeLine(text, &l); err != nil {
		return nil, err
	}
	if err := possible(l.Outcome, trials); err != nil {
		return nil, badOutcome(l.Outcome, err)
	}
	return newOutcomeRow(l.Outcome)
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
