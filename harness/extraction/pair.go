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
	"slices"
	"strings"
	"unicode/utf8"

	"extraction-experiment/dataset"
	"extraction-experiment/extraction"
	"extraction-experiment/internal/stats"
	"extraction-experiment/internal/textutil"
	"extraction-experiment/outcome"
	"extraction-experiment/scoring"
)

// pair is a line that goes in.
type pair struct {
	ID, Error                    string
	Expected, Extracted, Options json.RawMessage
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

// lineRules makes the scorer of a line.
type lineRules struct {
	base    *scoring.Scorer
	options scoring.Options
	write   bool // of each line what comes of it, not only its scores
}

// score scores one line, and fills in its outcome.
func (l *lineRules) score(line []byte, o *outcome.Outcome) (out scoredPair, err error) {
	p, err := readPair(line)
	if err != nil {
		return out, err
	}
	scorer, err := l.of(p.Options)
	if err != nil {
		return out, err
	}
	var expected extraction.Extraction
	var gold []string
	if !isAbsent(p.Expected) {
		if expected, gold, err = extraction.DecodeExtraction(p.Expected); err != nil {
			return out, fmt.Errorf("expected: %w", err)
		}
	}
	out.ID, o.Item, o.NothingExpected = p.ID, p.ID, isEmpty(expected)
	if isAbsent(p.Extracted) {
		out.Error = cmp.Or(p.Error, "nothing was extracted")
		o.Class, o.Scores = classOf(out.Error), scorer.Undelivered(expected)
		o.Failure = &outcome.Failure{Class: o.Class, Message: out.Error}
		return out, nil
	}
	extracted, warnings, err := extraction.DecodeExtraction(p.Extracted)
	if err != nil {
		return out, fmt.Errorf("extracted: %w", err)
	}
	score := scorer.Measure
	if l.write {
		score = scorer.Score
	}
	result := score(expected, extracted)
	if o.Scores, o.Groups = result.Scores, result.Groups; l.write {
		result.Warnings = slices.Concat(ofGold(gold), warnings, result.Warnings)
		out.fill(&result)
	}
	return out, nil
}

// fill takes over what a line shows of a result.
func (s *scoredPair) fill(r *scoring.Result) {
	warnings := orEmpty(r.Warnings)
	s.Counts, s.Warnings, s.Matches = &r.Counts, &warnings, &matches{orEmpty(r.Entities), orEmpty(r.Relationships)}
	s.Scores = make(map[string]*float64, len(r.Scores))
	for _, score := range r.Scores {
		s.Scores[score.Name] = score.Value
	}
}

// readPair reads a line and says in words what is wrong with it; encoding/json takes
// several times as long.
func readPair(line []byte) (p pair, err error) {
	if !utf8.Valid(line) {
		line = bytes.ToValidUTF8(line, []byte("\ufffd"))
	}
	if !textutil.ReadJSONObject(line, func(key []byte, value json.RawMessage) bool {
		switch key := textutil.JSONTextIn(key); key {
		case "expected":
			p.Expected = value
		case "extracted":
			p.Extracted = value
		case "options":
			p.Options = value
		case "id":
			p.ID, err = text(key, value)
		case "error":
			p.Error, err = text(key, value)
		}
		return err == nil
	}) {
		if broken := json.Unmarshal(line, new(any)); broken != nil {
			return p, fmt.Errorf("not JSON: %w", broken)
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

// text reads a member that is a string, or null.
func text(key string, value json.RawMessage) (string, error) {
	if value[0] != '"' && !isAbsent(value) {
		return "", fmt.Errorf("%s: expected a string, got %s", key, textutil.Cut(string(value), 40))
	}
	return textutil.JSONText(value), nil
}

// classOf is the class of failure that an error begins with; where it names none, the
// extractor failed.
func classOf(failure string) outcome.Class {
	name, _, _ := strings.Cut(failure, ":")
	if c := outcome.Class(name); slices.Contains(outcome.Classes(), c) {
		return c
	}
	return outcome.Provider
}

// orEmpty makes a list that is written as [], not as null.
func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// of returns the scorer for the options of a line.
func (l *lineRules) of(raw json.RawMessage) (*scoring.Scorer, error) {
	if isAbsent(raw) {
		return l.base, nil
	}
	options, err := scoring.ParseOptions(raw, l.options)
	if err != nil {
		return nil, err
	}
	return scoring.New(options)
}

// maxPair bounds one line of pairs.
const maxPair = 64 << 20

// Pairs scores pairs of expected and extracted that anyone produced, without a
// model and without Langfuse.
type Pairs struct {
	Options scoring.Options
	// Name stands for the input in messages, such as its path.
	Name string
	// Scored is told the outcome of each pair, in order; nil is told nothing.
	Scored func(outcome.Outcome)
}

// Score reads pairs, one JSON object a line, and writes a line for each, in
// order; none where w is nil. A line is {"id", "expected", "extracted", "error"?, "options"?};
// "extracted": null is a failure; options of a line win over those of Pairs.
// Lines are scored on all processors; some hundred are in memory at a time, and
// some 70 bytes for each id.
//
// Lines that cannot be used are left out of the output, and so is a line with
// the id of one before; the error lists them with file and line, after
// everything else was written. An input that cannot be
// read on, or a line of more than 64 MiB, ends it, also after everything before
// was written. Cancelling ctx stops it between two lines.
func (p Pairs) Score(ctx context.Context, r io.Reader, w io.Writer) error {
	base, err := scoring.New(p.Options)
	if err != nil {
		return err
	}
	in, out := bufio.NewScanner(r), bufio.NewWriterSize(cmp.Or(w, io.Discard), 1<<20)
	in.Buffer(make([]byte, 0, 1<<20), maxPair)
	var problems dataset.Problems
	seen := map[[sha256.Size]byte]int{} // the line of each id
	number := 0
	batches := func(yield func([]scored, error) bool) {
		for {
			lines, err := readLines(in, &number)
			if len(lines) > 0 && !yield(lines, nil) {
				return
			}
			if err != nil { // the input ends there; what was read before it is scored all the same
				yield(nil, fmt.Errorf("reading %s: line %d: %w", p.Name, number, err))
			}
			if err != nil || len(lines) == 0 {
				return
			}
		}
	}
	score := func(lines []scored) ([]scored, error) {
		rules := lineRules{base: base, options: p.Options, write: w != nil}
		for i := range lines {
			rules.fill(&lines[i])
		}
		return lines, nil
	}
	emit := func(batch []scored) error {
		for _, s := range batch {
			if s.err != nil {
				problems.Add(&dataset.SyntaxError{File: p.Name, Line: s.line, Msg: s.err.Error()})
				continue
			}
			if id := s.outcome.Item; id != "" {
				hash := sha256.Sum256([]byte(id)) // so that a long one takes no more memory
				if before, twice := seen[hash]; twice {
					problems.Add(&dataset.SyntaxError{File: p.Name, Line: s.line, Msg: fmt.Sprintf("the id %q is that of line %d", textutil.Cut(id, 100), before)})
					continue
				}
				seen[hash] = s.line
			}
			if p.Scored != nil {
				p.Scored(s.outcome)
			}
			if _, err := out.Write(s.text); err != nil {
				return err
			}
		}
		return nil
	}
	for batch, broken := range stats.Parallel(0, batches, score) {
		if err = cmp.Or(ctx.Err(), broken); err == nil {
			err = emit(batch)
		}
		if err != nil {
			break
		}
	}
	return errors.Join(err, out.Flush(), problems.Err())
}

// scored is a line, and what comes of it.
type scored struct {
	line    int
	text    []byte // as it was read; then JSON and line end
	outcome outcome.Outcome
	err     error
}

// Bounds of a batch of lines.
const (
	batchLines = 64
	batchBytes = 1 << 20
)

// readLines returns the next lines that are not blank, those before an error
// beside it; none at the end.
func readLines(in *bufio.Scanner, number *int) ([]scored, error) {
	var lines []scored
	for size := 0; len(lines) < batchLines && size < batchBytes && in.Scan() && in.Err() == nil; {
		*number++
		line := bytes.Clone(in.Bytes())
		if *number == 1 {
			line = bytes.TrimPrefix(line, []byte("\xef\xbb\xbf"))
		}
		if len(bytes.TrimSpace(line)) > 0 {
			lines = append(lines, scored{line: *number, text: line})
			size += len(line)
		}
	}
	if in.Err() == nil {
		return lines, nil
	}
	*number++ // what was read of that line is not the whole
	if errors.Is(in.Err(), bufio.ErrTooLong) {
		return lines, fmt.Errorf("longer than %d bytes", maxPair)
	}
	return lines, in.Err()
}

// fill scores a line that was read.
func (l *lineRules) fill(s *scored) {
	s.outcome = outcome.Outcome{Seq: int64(s.line), Trial: 1, Attempt: 1}
	out, err := l.score(s.text, &s.outcome)
	s.text, s.err = nil, err
	if err == nil && l.write {
		s.text, s.err = textutil.MarshalJSON(out)
		s.text = append(s.text, '\n')
	}
}
