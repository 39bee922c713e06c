package proc

import (
	"bufio"
	"bytes"
	"errors"
)

// line is what the reader of standard output reports.
type line struct {
	text    []byte // without the end of line
	surplus []byte // what stood behind the line already, if it is not blank
	flood   bool   // longer than allowed; nothing is read after it
	partial bool   // the output ended within it
}

// readLines reads standard output until it ends, floods, or nobody wants it.
// Blank lines are passed over. One line waits in the channel and one in the
// reader's hand: a program that babbles is held back by its pipe.
func (p *process) readLines(limit int) {
	defer close(p.lines)
	in := bufio.NewReaderSize(p.stdout, 64<<10)
	for {
		l, ok := readLine(in, limit)
		if !ok {
			return
		}
		select {
		case p.lines <- l:
		case <-p.quit:
			return
		}
		if l.flood || l.partial {
			return
		}
	}
}

// readLine reads the next line that is not blank; ok is false at the end. It
// keeps at most limit bytes and the reader's buffer.
func readLine(in *bufio.Reader, limit int) (l line, ok bool) {
	for {
		part, err := in.ReadSlice('\n')
		l.text = append(l.text, part...)
		if len(bytes.TrimRight(l.text, "\r\n")) > limit {
			return line{flood: true}, true
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		l.text = bytes.TrimSpace(l.text)
		if err != nil {
			l.partial = true
			return l, len(l.text) > 0
		}
		if len(l.text) == 0 {
			continue
		}
		ahead, _ := in.Peek(in.Buffered())
		if ahead = bytes.TrimSpace(ahead); len(ahead) > 0 {
			l.surplus = bytes.Clone(ahead[:min(len(ahead), 200)])
		}
		return l, true
	}
}
