package recorded

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
)

// maxLine bounds one exchange, in bytes.
const maxLine = 64 << 20

// entry is where an exchange lies in the file.
type entry struct {
	n      int
	line   int
	offset int64
	length int
}

// index is what a cassette holds, without its texts: some 100 bytes for every
// exchange.
type index struct {
	source  Source
	entries map[key][]entry // ordered by n
	count   int
	// end is the offset behind the last good line, and newline whether a line
	// feed stands before it.
	end     int64
	newline bool
	// cut is set if the file ends within a line that cannot be read, as a
	// recording that was killed leaves it.
	cut error
}

// scan reads and checks a cassette line by line, with one line of at most limit
// bytes in memory. Empty lines are passed over. An error is a *FileError.
func scan(r io.Reader, path string, limit int) (*index, error) {
	x := &index{entries: map[key][]entry{}}
	lines := bufio.NewReaderSize(r, 64<<10)
	var buf []byte
	for number := 1; ; number++ {
		line, err := readLine(lines, buf[:0], limit)
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, &FileError{Path: path, Line: number, Err: err}
		}
		buf = line
		whole := err == nil
		if len(line) == 0 && !whole {
			break
		}
		if problem := x.add(bytes.TrimRight(line, "\r\n"), number); problem != nil {
			problem = &FileError{Path: path, Line: number, Err: problem}
			if whole || number == 1 {
				return nil, problem
			}
			x.cut = problem
			break
		}
		x.end, x.newline = x.end+int64(len(line)), whole
	}
	if x.end == 0 {
		return nil, &FileError{Path: path, Err: errors.New("it is empty: nothing was recorded")}
	}
	for _, entries := range x.entries {
		slices.SortFunc(entries, func(a, b entry) int { return cmp.Compare(a.n, b.n) })
		for i := 1; i < len(entries); i++ {
			if entries[i].n == entries[i-1].n {
				return nil, &FileError{Path: path, Line: entries[i].line, Err: fmt.Errorf("it has the same key and the same n (%d) as line %d", entries[i].n, entries[i-1].line)}
			}
		}
	}
	return x, nil
}

// add takes in one line, which begins at x.end.
func (x *index) add(line []byte, number int) error {
	if number == 1 {
		source, err := decodeHeader(line)
		x.source = source
		return err
	}
	if len(bytes.TrimSpace(line)) == 0 {
		return nil
	}
	found, sum, err := decode(line, x.source.Model)
	if err != nil {
		return err
	}
	x.entries[sum] = append(x.entries[sum], entry{n: found.N, line: number, offset: x.end, length: len(line)})
	x.count++
	return nil
}

// readLine appends a line with its line feed to buf; io.EOF comes with a last
// line that has none.
func readLine(r *bufio.Reader, buf []byte, limit int) ([]byte, error) {
	for {
		part, err := r.ReadSlice('\n')
		buf = append(buf, part...)
		if len(buf) > limit {
			return buf, fmt.Errorf("it is longer than %d bytes, which no exchange is", limit)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return buf, err
		}
	}
}
