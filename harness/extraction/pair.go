package extraction

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"
	"unicode/utf8"

	"extraction-experiment/dataset"
	"extraction-experiment/extraction"
	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/stats"
	"extraction-experiment/internal/textutil"
	"extraction-experiment/outcome"
	"extraction-experiment/scoring"
)

// pair is an input line.
type pair struct {
	ID, Error                    string
	Expected, Extracted, Options json.RawMessage
}

// scoredPair is an output line. A pair that failed has null counts and scores, and neither
// matches nor warnings.
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

// lineScorer scores lines, each with its own options.
type lineScorer struct {
	base       *scoring.Scorer
	options    scoring.Options
	withOutput bool // output lines are needed, not only scores
}

// score scores one line and sets its outcome.
func (l *lineScorer) score(line []byte, o *outcome.Outcome) (out scoredPair, err error) {
	p, err := readPair(line)
	if err != nil {
		return out, err
	}
	scorer := l.base
	if !isAbsent(p.Options) {
		options, err := scoring.ParseOptions(p.Options, l.options)
		if err != nil {
			return out, err
		}
		if scorer, err = scoring.New(options); err != nil {
			return out, err
		}
	}
	var expected extraction.Extraction
	var warningsOfGold []string
	if !isAbsent(p.Expected) {
		if expected, warningsOfGold, err = extraction.DecodeExtraction(p.Expected); err != nil {
			return out, fmt.Errorf("expected: %w", err)
		}
	}
	out.ID, o.Item, o.NothingExpected = p.ID, p.ID, isEmpty(expected)
	if isAbsent(p.Extracted) || p.Error != "" {
		out.Error = cmp.Or(p.Error, "nothing was extracted")
		o.Class, o.Scores = failureClass(cmp.Or(p.Error, string(outcome.InvalidOutput))), scorer.Undelivered(expected)
		o.Failure = &outcome.Failure{Class: o.Class, Message: out.Error}
		return out, nil
	}
	extracted, warnings, err := extraction.DecodeExtraction(p.Extracted)
	if err != nil {
		return out, fmt.Errorf("extracted: %w", err)
	}
	score := scorer.Measure
	if l.withOutput {
		score = scorer.Score
	}
	result := score(expected, extracted)
	if o.Scores, o.Groups = result.Scores, result.Groups; l.withOutput {
		result.Warnings = slices.Concat(goldWarnings(warningsOfGold), warnings, result.Warnings)
		out.setResult(&result)
	}
	return out, nil
}

// setResult sets the fields of an output line from a result.
func (s *scoredPair) setResult(r *scoring.Result) {
	warnings := orEmpty(r.Warnings)
	s.Counts, s.Warnings, s.Matches = &r.Counts, &warnings, &matches{orEmpty(r.Entities), orEmpty(r.Relationships)}
	s.Scores = make(map[string]*float64, len(r.Scores))
	for _, score := range r.Scores {
		s.Scores[score.Name] = score.Value
	}
}

// readPair reads a line and explains what is wrong with it. It is several times as fast as
// encoding/json.
func readPair(line []byte) (p pair, err error) {
	if !utf8.Valid(line) {
		line = bytes.ToValidUTF8(line, []byte("\ufffd"))
	}
	if !textutil.ReadJSONObject(line, func(key []byte, value json.RawMessage) bool {
		switch key := textutil.UnsafeJSONText(key); key {
		case "expected":
			err = setOnce(&p.Expected, key, value)
		case "extracted":
			err = setOnce(&p.Extracted, key, value)
		case "options":
			err = setOnce(&p.Options, key, value)
		case "id":
			p.ID, err = stringMember(key, value)
		case "error":
			p.Error, err = stringMember(key, value)
		}
		return err == nil
	}) {
		if jsonErr := json.Unmarshal(line, new(any)); jsonErr != nil {
			return p, fmt.Errorf("not JSON: %w", jsonErr)
		}
	}
	if err != nil {
		return p, err
	}
	if p.Expected == nil || p.Extracted == nil {
		return p, errors.New("expected an object with id, expected and extracted; the last two are required, and null says that there is none")
	}
	return p, nil
}

// setOnce stores the value of a key, which must be its first.
func setOnce(into *json.RawMessage, key string, value json.RawMessage) error {
	if *into != nil {
		return fmt.Errorf("the key %q is given twice", key)
	}
	*into = value
	return nil
}

// stringMember reads a member that is a string or null.
func stringMember(key string, value json.RawMessage) (string, error) {
	if value[0] != '"' && !isAbsent(value) {
		return "", fmt.Errorf("%s: expected a string, got %s", key, textutil.Cut(string(value), 40))
	}
	return textutil.JSONText(value), nil
}

// failureClass returns the class with which an error text begins, or else provider, because the
// extractor failed.
func failureClass(failure string) outcome.Class {
	name, _, _ := strings.Cut(failure, ":")
	if c := outcome.Class(name); slices.Contains(outcome.Classes(), c) {
		return c
	}
	return outcome.Provider
}

// orEmpty returns a list that is marshalled as [] instead of null.
func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// maxLine is the longest line, in bytes.
const maxLine = 64 << 20

// Pairs scores pairs of expected and extracted output from any source, without a model and
// without Langfuse.
type Pairs struct {
	Options scoring.Options
	// Name is the name of the input in messages, for example its path.
	Name string
	// Scored, if not nil, is called with the outcome of each pair, in order.
	Scored func(outcome.Outcome)
}

// Score reads pairs, one JSON object a line, and writes a line for each, in order, unless w is
// nil. A line is {"id", "expected", "extracted", "error"?, "options"?}; "extracted": null or
// an error is a failure, and options of a line override those of Pairs. Lines are scored on all processors.
// A few lines for each processor are in memory at a time, and about 70 bytes for each id.
//
// Unusable lines, and lines with the id of an earlier one, have no output line; after all
// others are written, the error lists them with file and line. A read error, or a line of more
// than 64 MiB, ends the input, after everything before it is written; its exit code is 64.
// Cancelling ctx stops Score between two lines.
func (p Pairs) Score(ctx context.Context, r io.Reader, w io.Writer) error {
	base, err := scoring.New(p.Options)
	if err != nil {
		return err
	}
	out := bufio.NewWriterSize(cmp.Or(w, io.Discard), 1<<20)
	scorer := lineScorer{base: base, options: p.Options, withOutput: w != nil}
	var problems dataset.Problems
	seen := map[[sha256.Size]byte]int{} // line of each id; hashes bound the memory of long ids
	for s, readErr := range stats.Parallel(0, p.lines(r), scorer.scoreLine) {
		if err = cmp.Or(ctx.Err(), readErr); err != nil {
			break
		}
		id := s.outcome.Item
		hash := sha256.Sum256([]byte(id))
		if first := seen[hash]; first > 0 && id != "" && s.err == nil {
			s.err = fmt.Errorf("the id %q is that of line %d", textutil.Cut(id, 100), first)
		}
		if s.err != nil {
			problems.Add(&dataset.SyntaxError{File: p.Name, Line: s.line, Msg: s.err.Error()})
			continue
		}
		seen[hash] = s.line
		if p.Scored != nil {
			p.Scored(s.outcome)
		}
		if _, err = out.Write(s.text); err != nil {
			break
		}
	}
	return errors.Join(err, out.Flush(), problems.Err())
}

// lines yields the lines that are not blank, and the error that ends the input.
func (p Pairs) lines(r io.Reader) iter.Seq2[lineResult, error] {
	return func(yield func(lineResult, error) bool) {
		in, number := bufio.NewScanner(r), 1
		in.Buffer(make([]byte, 0, 1<<20), maxLine)
		for ; in.Scan() && in.Err() == nil; number++ {
			line := bytes.Clone(in.Bytes())
			if number == 1 {
				line = bytes.TrimPrefix(line, []byte("\xef\xbb\xbf"))
			}
			if len(bytes.TrimSpace(line)) > 0 && !yield(lineResult{line: number, text: line}, nil) {
				return
			}
		}
		err := in.Err()
		if errors.Is(err, bufio.ErrTooLong) {
			err = fmt.Errorf("longer than %d bytes", maxLine)
		}
		if err != nil {
			yield(lineResult{}, cli.Usage("reading %s: line %d: %w", p.Name, number, err))
		}
	}
}

// lineResult is a line and its outcome.
type lineResult struct {
	line    int
	text    []byte // the input line, then the output line
	outcome outcome.Outcome
	err     error
}

// scoreLine scores a line and replaces its text by the output line.
func (l *lineScorer) scoreLine(s lineResult) (lineResult, error) {
	s.outcome = outcome.Outcome{Seq: int64(s.line), Trial: 1, Attempt: 1}
	out, err := l.score(s.text, &s.outcome)
	s.text, s.err = nil, err
	if err == nil && l.withOutput {
		s.text, s.err = textutil.MarshalJSON(out)
		s.text = append(s.text, '\n')
	}
	return s, nil
}
