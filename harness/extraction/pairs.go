package extraction

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"extraction-experiment/dataset"
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
// One line is in memory at a time.
//
// Lines that cannot be used are left out of the output; the error lists them
// with file and line, after everything else was written. Cancelling ctx stops
// between two lines.
func (p Pairs) Score(ctx context.Context, r io.Reader, w io.Writer) error {
	base, err := scoring.New(p.Options)
	if err != nil {
		return err
	}
	rules := &lineRules{base: base, options: p.Options}
	in, out := bufio.NewReaderSize(r, 1<<20), bufio.NewWriterSize(w, 1<<20)
	var problems dataset.Problems
	for number := 1; ; number++ {
		line, err := readLine(in)
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return errors.Join(fmt.Errorf("reading %s: line %d: %w", p.Name, number, err), out.Flush())
		}
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		scored, o, err := rules.score(line)
		if err != nil {
			problems.Add(&dataset.SyntaxError{File: p.Name, Line: number, Msg: err.Error()})
			continue
		}
		if p.Scored != nil {
			o.Seq = int64(number)
			p.Scored(o)
		}
		if err := writeLine(out, scored); err != nil {
			return err
		}
	}
	return errors.Join(out.Flush(), problems.Err())
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

func writeLine(out *bufio.Writer, line scoredPair) error {
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	return encoder.Encode(line)
}
