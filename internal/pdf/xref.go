package pdf

import "bytes"

// readXref reads the cross-reference sections, newest first; an entry that is
// known already is not replaced.
func (f *File) readXref() bool {
	tail := f.data[max(0, len(f.data)-2048):]
	at := bytes.LastIndex(tail, []byte("startxref"))
	if at < 0 {
		return false
	}
	l := &Lexer{data: tail, pos: at + len("startxref")}
	o, _ := l.word0()
	start, ok := o.(int64)
	if !ok {
		return false
	}
	seen := map[int64]bool{}
	queue := []int64{start}
	for len(queue) > 0 && len(seen) < 10_000 {
		offset := queue[0]
		queue = queue[1:]
		if seen[offset] {
			continue
		}
		seen[offset] = true
		d, ok := f.section(offset)
		if !ok {
			return false
		}
		for key, value := range d {
			if _, known := f.trailer[key]; !known {
				f.trailer[key] = value
			}
		}
		if hybrid, ok := d["XRefStm"].(int64); ok {
			queue = append(queue, hybrid)
		}
		if prev, ok := Number(d["Prev"]); ok {
			queue = append(queue, int64(clampInt(prev)))
		}
	}
	return f.trailer["Root"] != nil
}

// section reads one table or stream and returns its trailer.
func (f *File) section(offset int64) (Dict, bool) {
	if offset < 0 || offset >= int64(len(f.data)) {
		return nil, false
	}
	l := &Lexer{data: f.data, pos: int(offset)}
	first, _ := l.word0()
	if first == Keyword("xref") {
		return f.table(l)
	}
	num, ok := first.(int64)
	if !ok {
		return nil, false
	}
	s, ok := f.indirect(int(offset), int(num)).(*Stream)
	if !ok {
		return nil, false
	}
	return s.Dict, f.table2(s)
}

func (f *File) table(l *Lexer) (Dict, bool) {
	for {
		o, ok := l.word0()
		if o == Keyword("trailer") {
			o, _ := l.object()
			d, ok := o.(Dict)
			return d, ok
		}
		n, _ := l.word0()
		start, ok1 := o.(int64)
		count, ok2 := n.(int64)
		if !ok || !ok1 || !ok2 || count < 0 {
			return nil, false
		}
		for i := range count {
			a, _ := l.word0()
			b, _ := l.word0()
			c, ok := l.word0()
			offset, ok1 := a.(int64)
			_, ok2 := b.(int64) // the generation
			if !ok || !ok1 || !ok2 || c != Keyword("n") && c != Keyword("f") || !f.Spend(entryCost) {
				return nil, false
			}
			f.enter(start+i, entry{offset: clampInt(float64(offset)), free: c == Keyword("f")})
		}
	}
}

func (f *File) enter(num int64, e entry) {
	if _, known := f.xref[int(num)]; !known && num >= 0 && num < 1<<31 {
		f.xref[int(num)] = e
	}
}

// table2 reads a cross-reference stream.
func (f *File) table2(s *Stream) bool {
	var width [3]int
	widths := f.Array(s.Dict["W"])
	for i := range min(3, len(widths)) {
		width[i] = f.Int(widths[i])
		if width[i] < 0 || width[i] > 8 {
			return false
		}
	}
	row := width[0] + width[1] + width[2]
	data, err := f.decode(s, false)
	if row == 0 || len(widths) < 3 || err != nil && len(data) == 0 {
		return false
	}
	index := f.Array(s.Dict["Index"])
	if index == nil {
		index = Array{int64(0), int64(f.Int(s.Dict["Size"]))}
	}
	for i := 0; i+1 < len(index); i += 2 {
		start, count := f.Int(index[i]), f.Int(index[i+1])
		for n := 0; n < count && len(data) >= row; n++ {
			f.enter(int64(start+n), entryOf(data, width))
			data = data[row:]
			if !f.Spend(entryCost) {
				return false
			}
		}
	}
	return true
}

func entryOf(row []byte, width [3]int) entry {
	field := func(n int, missing int) int {
		if n == 0 {
			return missing
		}
		v := 0
		for _, c := range row[:n] {
			v = v<<8 | int(c)
		}
		row = row[n:]
		return v
	}
	switch kind, a := field(width[0], 1), field(width[1], 0); kind {
	case 1:
		return entry{offset: a}
	case 2:
		return entry{pack: a}
	}
	return entry{free: true}
}
