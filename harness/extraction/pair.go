package extraction

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"extraction-experiment/extraction"
	"extraction-experiment/outcome"
	"extraction-experiment/scoring"
)

// pair is a line that goes in.
type pair struct {
	ID        string          `json:"id"`
	Expected  json.RawMessage `json:"expected"`
	Extracted json.RawMessage `json:"extracted"`
	Error     string          `json:"error"`
	Options   json.RawMessage `json:"options"`
}

// scoredPair is the line that comes out. Counts and scores are null for a pair
// that failed, and there are neither matches nor warnings.
type scoredPair struct {
	ID       string              `json:"id"`
	Counts   *scoring.Counts     `json:"counts"`
	Scores   map[string]*float64 `json:"scores"`
	Matches  *matches            `json:"matches,omitempty"`
	Warnings *[]string           `json:"warnings,omitempty"`
	Error    string              `json:"error,omitempty"`
}

type matches struct {
	Entities      []scoring.EntityMatch       `json:"entities"`
	Relationships []scoring.RelationshipMatch `json:"relationships"`
}

// lineRules makes the scorer of a line; lines with the same options one after
// the other share it.
type lineRules struct {
	base    *scoring.Scorer
	options scoring.Options
	last    json.RawMessage
	scorer  *scoring.Scorer
}

// score scores one line.
func (l *lineRules) score(line []byte) (scoredPair, outcome.Outcome, error) {
	p, err := readPair(line)
	if err != nil {
		return scoredPair{}, outcome.Outcome{}, err
	}
	scorer, err := l.of(p.Options)
	if err != nil {
		return scoredPair{}, outcome.Outcome{}, err
	}
	var expected extraction.Extraction
	var gold []string
	if !isAbsent(p.Expected) {
		if expected, gold, err = extraction.DecodeExtraction(p.Expected); err != nil {
			return scoredPair{}, outcome.Outcome{}, fmt.Errorf("expected: %w", err)
		}
	}
	if isAbsent(p.Extracted) {
		scored, o := p.failed(scorer, expected)
		return scored, o, nil
	}
	extracted, warnings, err := extraction.DecodeExtraction(p.Extracted)
	if err != nil {
		return scoredPair{}, outcome.Outcome{}, fmt.Errorf("extracted: %w", err)
	}
	result := scorer.Score(expected, extracted)
	result.Warnings = slices.Concat(ofGold(gold), warnings, result.Warnings)
	scored, o := p.compared(result)
	o.NothingExpected = isEmpty(expected)
	return scored, o, nil
}

// readPair reads a line and says in words what is wrong with it.
func readPair(line []byte) (pair, error) {
	var p pair
	err := json.Unmarshal(line, &p)
	var kind *json.UnmarshalTypeError
	switch {
	case errors.As(err, &kind) && kind.Field != "":
		return p, fmt.Errorf("%s: expected a string, got %s", kind.Field, article(kind.Value))
	case errors.As(err, &kind):
		return p, fmt.Errorf("expected an object with id, expected and extracted, got %s", article(kind.Value))
	case err != nil:
		return p, fmt.Errorf("not JSON: %w", err)
	case p.Expected == nil || p.Extracted == nil:
		return p, errors.New("expected and extracted must both be there; null says that there is none")
	}
	return p, nil
}

// article puts "a" or "an" before the kind of a JSON value.
func article(kind string) string {
	if strings.HasPrefix(kind, "a") || strings.HasPrefix(kind, "o") {
		return "an " + kind
	}
	return "a " + kind
}

// class is the class of failure that the line's error begins with; where it
// names none, the extractor failed.
func (p pair) class() outcome.Class {
	name, _, _ := strings.Cut(p.Error, ":")
	if c := outcome.Class(name); slices.Contains(outcome.Classes(), c) {
		return c
	}
	return outcome.Provider
}

func (p pair) compared(r scoring.Result) (scoredPair, outcome.Outcome) {
	warnings := orEmpty(r.Warnings)
	scored := scoredPair{
		ID: p.ID, Counts: &r.Counts, Scores: make(map[string]*float64, len(r.Scores)),
		Matches: &matches{orEmpty(r.Entities), orEmpty(r.Relationships)}, Warnings: &warnings,
	}
	for _, s := range r.Scores {
		scored.Scores[s.Name] = s.Value
	}
	o := outcome.Outcome{Item: p.ID, Trial: 1, Attempt: 1, Scores: r.Scores}
	o.Groups = r.Groups
	return scored, o
}

// orEmpty makes a list that is written as [], not as null.
func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// failed is the outcome of a pair whose extractor failed.
func (p pair) failed(scorer *scoring.Scorer, expected extraction.Extraction) (scoredPair, outcome.Outcome) {
	if p.Error == "" {
		p.Error = "nothing was extracted"
	}
	o := outcome.Outcome{Item: p.ID, Trial: 1, Attempt: 1, Class: p.class(), Scores: scorer.Undelivered(expected)}
	o.Failure, o.NothingExpected = &outcome.Failure{Class: o.Class, Message: p.Error}, isEmpty(expected)
	return scoredPair{ID: p.ID, Error: p.Error}, o
}

// of returns the scorer for the options of a line.
func (l *lineRules) of(raw json.RawMessage) (*scoring.Scorer, error) {
	if isAbsent(raw) {
		return l.base, nil
	}
	if l.scorer != nil && bytes.Equal(raw, l.last) {
		return l.scorer, nil
	}
	options, err := scoring.ParseOptions(raw, l.options)
	if err != nil {
		return nil, err
	}
	scorer, err := scoring.New(options)
	if err != nil {
		return nil, err
	}
	l.last, l.scorer = bytes.Clone(raw), scorer
	return scorer, nil
}
