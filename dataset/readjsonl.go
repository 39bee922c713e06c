package dataset

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
)

// jsonl reads one object per line.
func (d *decoder) jsonl(in *bufio.Reader) {
	var buf []byte
	for line := 1; ; line++ {
		var long bool
		var err error
		buf, long, err = readLine(in, buf[:0], d.limit)
		if err != nil && err != io.EOF {
			d.fail(line, fmt.Errorf("reading %s: line %d: %w", d.name, line, err))
			return
		}
		switch {
		case long:
			if !d.fail(line, d.tooLong(line)) {
				return
			}
		case len(bytes.TrimSpace(buf)) > 0:
			if !d.object(buf, line) {
				return
			}
		}
		if err == io.EOF {
			return
		}
	}
}

func (d *decoder) tooLong(line int) error {
	return d.problem(line, "", "the item is larger than %d MiB", d.limit>>20)
}

// readLine appends the next line to buf, without its end. Of a line longer
// than limit nothing more is kept, but it is read to its end.
func readLine(in *bufio.Reader, buf []byte, limit int) (line []byte, long bool, err error) {
	for {
		part, err := in.ReadSlice('\n')
		if len(buf)+len(part) > limit+1 {
			long = true
		}
		if !long {
			buf = append(buf, part...)
		}
		if err == bufio.ErrBufferFull {
			continue
		}
		return bytes.TrimSuffix(buf, []byte("\n")), long, err
	}
}
