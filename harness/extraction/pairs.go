package extraction

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"extraction-experiment/dataset"
	"extraction-experiment/internal/printable"
	"extraction-experiment/outcome"
	"extraction-experiment/scoring"
)

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
// order. A line is {"id", "expected", "extracted", "error"?, "options"?};
// "extracted": null is a failure; options of a line win over those of Pairs.
// Lines are scored on all processors; some hundred are in memory at a time, and
// some 50 bytes for each id.
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
	in, out := bufio.NewReaderSize(r, 1<<20), bufio.NewWriterSize(w, 1<<20)
	var problems dataset.Problems
	seen := map[idHash]int{} // the line of each id
	number := 0
	var broken error // the input ends there; what was read before it is scored all the same
	next := func() ([]numbered, bool) {
		if broken != nil {
			return nil, false
		}
		lines, err := readLines(in, &number)
		if err != nil {
			broken = fmt.Errorf("reading %s: line %d: %w", p.Name, number, err)
		}
		return lines, len(lines) > 0
	}
	score := func(lines []numbered) []scored {
		return scoreLines(&lineRules{base: base, options: p.Options}, lines)
	}
	emit := func(batch []scored) error {
		for _, s := range batch {
			if s.err != nil {
				problems.Add(&dataset.SyntaxError{File: p.Name, Line: s.line, Msg: s.err.Error()})
				continue
			}
			if id := s.outcome.Item; id != "" {
				hash := hashOf(id)
				if before, twice := seen[hash]; twice {
					problems.Add(&dataset.SyntaxError{File: p.Name, Line: s.line, Msg: fmt.Sprintf("the id %q is that of line %d", printable.Cut(id, 100), before)})
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
	err = inOrder(ctx, next, score, emit)
	return errors.Join(err, out.Flush(), broken, problems.Err())
}

// idHash stands for an id, so that a long one takes no more memory.
type idHash [16]byte

func hashOf(id string) idHash {
	sum := sha256.Sum256([]byte(id))
	return idHash(sum[:])
}

// numbered is a line that goes in, scored what comes of it.
type numbered struct {
	text []byte
	line int
}

type scored struct {
	line    int
	text    []byte // JSON and line end
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
func readLines(in *bufio.Reader, number *int) ([]numbered, error) {
	var lines []numbered
	for size := 0; len(lines) < batchLines && size < batchBytes; {
		line, err := readLine(in)
		if errors.Is(err, io.EOF) {
			break
		}
		*number++
		if err != nil {
			return lines, err
		}
		if *number == 1 {
			line = bytes.TrimPrefix(line, []byte("\xef\xbb\xbf"))
		}
		if len(bytes.TrimSpace(line)) > 0 {
			lines = append(lines, numbered{line, *number})
			size += len(line)
		}
	}
	return lines, nil
}

func scoreLines(rules *lineRules, lines []numbered) []scored {
	batch := make([]scored, len(lines))
	for i, l := range lines {
		s := &batch[i]
		s.line = l.line
		var pair scoredPair
		if pair, s.outcome, s.err = rules.score(l.text); s.err == nil {
			s.outcome.Seq = int64(l.line)
			s.text, s.err = encodeLine(pair)
		}
	}
	return batch
}

func encodeLine(pair scoredPair) ([]byte, error) {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(pair)
	return b.Bytes(), err
}

// readLine returns the next line with its end, io.EOF after the last.
func readLine(in *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := in.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case len(line) > maxPair:
			return nil, fmt.Errorf("longer than %d bytes", maxPair)
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case errors.Is(err, io.EOF) && len(line) > 0:
			return line, nil
		}
		return line, err
	}
}
