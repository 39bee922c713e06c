package pdf

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
)

// MaxFile is the size, in bytes, above which a file is refused.
const MaxFile = 512 << 20

// The limits within a file.
const (
	maxStream = 64 << 20 // bytes of one decoded stream
	maxPages  = 20_000
)

// The reasons why a file cannot be read at all.
var (
	ErrNotPDF   = errors.New("it is no PDF file: it does not begin with %PDF-")
	ErrDamaged  = errors.New("the PDF file is damaged: no pages can be found in it")
	ErrPassword = errors.New("the PDF file is encrypted and needs a password")
	ErrWrong    = errors.New("the PDF file is encrypted, and the password is not that of its user or owner")
	ErrCipher   = errors.New("the PDF file is encrypted in a way that is not supported")
	ErrBudget   = errors.New("the PDF file costs too much to read")
)

// File is an open file. It is not safe for concurrent use.
type File struct {
	ctx     context.Context
	opt     Options
	data    []byte
	xref    map[int]entry
	trailer Dict
	crypt   *crypt
	locked  error // why it cannot be decrypted
	objects map[int]Object
	depth   int // of objects that are loaded for others
	decoded int64
	spent   error // why the budget is spent; nil while it is not
	// Repaired says that the cross-reference table could not be used.
	Repaired bool
}

// entry says where an object is.
type entry struct {
	offset int // in the file; not used for an object in a pack
	pack   int // object stream that holds it; 0 for none
	free   bool
}

// entryCost is about what an entry takes of memory, in bytes: a few bytes of a
// compressed table must not ask for gigabytes.
const entryCost = 100

// Open reads the structure of a file, whose bytes are kept.
//
// Errors: ErrNotPDF, ErrPassword without one, ErrWrong, ErrCipher, ErrDamaged, ErrBudget, and those
// of ctx.
func Open(ctx context.Context, data []byte, opt Options) (*File, error) {
	opt.MaxDecoded = cmp.Or(opt.MaxDecoded, 512<<20)
	head := bytes.Index(data[:min(len(data), 1024)], []byte("%PDF-"))
	if head < 0 {
		return nil, ErrNotPDF
	}
	f := &File{ctx: ctx, opt: opt, data: data[head:]}
	f.reset()
	ok := f.readXref() && f.hasPages()
	if !ok && f.spent == nil && f.locked != ErrPassword && f.locked != ErrWrong {
		f.reset()
		f.repair()
		ok = f.hasPages()
	}
	switch end := f.data[max(0, len(f.data)-2048):]; {
	case f.locked != nil:
		return nil, f.locked
	case f.spent != nil:
		return nil, f.spent
	case ok:
		return f, nil
	case !bytes.Contains(end, []byte("%%EOF")):
		return nil, fmt.Errorf("%w; its end is missing: it was cut off, copy it again", ErrDamaged)
	}
	return nil, ErrDamaged
}

func (f *File) reset() {
	f.xref, f.trailer, f.crypt, f.locked = map[int]entry{}, Dict{}, nil, nil
	f.objects = map[int]Object{}
}

// hasPages prepares decryption and looks for the tree of pages.
func (f *File) hasPages() bool {
	f.prepareCrypt()
	return f.locked == nil && f.pageTree() != nil
}

// pageTree is the root of the pages.
func (f *File) pageTree() Dict { return f.Dict(f.Dict(f.trailer["Root"])["Pages"]) }

// Spend takes the cost of work or memory, in bytes, off the budget; false ends
// the reading, with spent as the reason.
func (f *File) Spend(bytes int64) bool {
	if f.spent != nil {
		return false
	}
	if f.decoded += bytes; f.decoded > f.opt.MaxDecoded {
		f.spent = fmt.Errorf("%w: its streams, tables and fonts come to more than %d MiB", ErrBudget, f.opt.MaxDecoded>>20)
	} else if err := f.ctx.Err(); err != nil {
		f.spent = err
	}
	return f.spent == nil
}

// load reads an object, once.
func (f *File) load(ref Ref) Object {
	if o, ok := f.objects[ref.Num]; ok {
		return o
	}
	e, ok := f.xref[ref.Num]
	if !ok || e.free || f.depth > maxDepth || !f.Spend(64) {
		return nil
	}
	f.objects[ref.Num] = nil // for what needs itself, and if it is not there
	f.depth++
	defer func() { f.depth-- }()
	if e.pack == 0 {
		f.objects[ref.Num] = f.indirect(e.offset, ref.Num)
	} else {
		for num, o := range f.unpack(e.pack) {
			if f.xref[num].pack == e.pack {
				f.objects[num] = o
			}
		}
	}
	return f.objects[ref.Num]
}

// indirect reads "N G obj …" at an offset. A wrong number there is no object.
func (f *File) indirect(offset, num int) Object {
	l := &Lexer{data: f.data, pos: max(0, offset)}
	number, ok1 := l.int()
	gen, ok2 := l.int()
	if !ok1 || !ok2 || number != num || l.word0() != Keyword("obj") {
		return nil
	}
	ref := Ref{number, gen}
	if f.crypt != nil {
		l.decrypt = func(s String) String { return String(f.crypt.decrypt(f.crypt.strings, ref, []byte(s))) }
	}
	before := l.pos
	o, _ := l.object()
	f.spendOn(l, before)
	if d, isDict := o.(Dict); isDict {
		if s := f.stream(l, d); s != nil {
			s.ref = ref
			return s
		}
	}
	return o
}

// spendOn takes the cost of an object off the budget that was read from a place
// on: its bytes, and the memory of long lists.
func (f *File) spendOn(l *Lexer, from int) {
	const element, usual = 16, 1000
	f.Spend(int64(l.pos-from) + element*int64(max(0, l.kept-usual)))
}

// word0 reads one token that is no string: what is in front of an object. Where there is
// none it is nil.
func (l *Lexer) word0() Object {
	l.space()
	if l.pos >= len(l.data) || isDelimiter(l.data[l.pos]) {
		return nil
	}
	return l.word()
}

// int reads a whole number.
func (l *Lexer) int() (int, bool) {
	n, ok := l.word0().(int64)
	return int(n), ok
}

// stream reads the bytes behind a dictionary, if there are any.
func (f *File) stream(l *Lexer, d Dict) *Stream {
	l.space()
	body, is := bytes.CutPrefix(l.data[l.pos:], []byte("stream"))
	if !is {
		return nil
	}
	body = bytes.TrimPrefix(bytes.TrimPrefix(body, []byte("\r")), []byte("\n"))
	l.pos = len(l.data) - len(body)
	if n, ok := f.Number(d["Length"]); ok && n >= 0 && n <= float64(len(body)) {
		raw, rest := body[:int(n)], body[int(n):]
		tail := bytes.TrimLeft(rest[:min(len(rest), 20)], "\r\n \t")
		if bytes.HasPrefix(tail, []byte("endstream")) {
			return &Stream{Dict: d, raw: raw}
		}
	}
	raw, _, _ := bytes.Cut(body, []byte("endstream"))
	f.Spend(int64(len(raw)))
	return &Stream{Dict: d, raw: raw}
}

// readXref reads the cross-reference sections, newest first; an entry that is
// known already is not replaced.
func (f *File) readXref() bool {
	tail := f.data[max(0, len(f.data)-2048):]
	at := bytes.LastIndex(tail, []byte("startxref"))
	if at < 0 {
		return false
	}
	l := &Lexer{data: tail, pos: at + len("startxref")}
	start, ok := l.int()
	if !ok {
		return false
	}
	seen := map[int]bool{}
	for queue := []int{start}; len(queue) > 0 && len(seen) < 10_000; queue = queue[1:] {
		if seen[queue[0]] {
			continue
		}
		seen[queue[0]] = true
		d, ok := f.section(queue[0])
		if !ok {
			return false
		}
		for _, next := range []Object{d["XRefStm"], d["Prev"]} {
			if offset, ok := f.Number(next); ok {
				queue = append(queue, clampInt(offset))
			}
		}
		maps.Copy(d, f.trailer) // what is newer counts
		f.trailer = d
	}
	return f.trailer["Root"] != nil
}

// section reads one table or stream and returns its trailer.
func (f *File) section(offset int) (Dict, bool) {
	l := &Lexer{data: f.data, pos: max(0, offset)}
	first := l.word0()
	if first == Keyword("xref") {
		return f.table(l)
	}
	num, _ := first.(int64)
	if s, ok := f.indirect(offset, int(num)).(*Stream); ok {
		return s.Dict, f.tableOf(s)
	}
	return nil, false
}

func (f *File) table(l *Lexer) (Dict, bool) {
	for {
		o := l.word0()
		if o == Keyword("trailer") {
			o, _ := l.object()
			d, ok := o.(Dict)
			return d, ok
		}
		start, ok1 := o.(int64)
		count, ok2 := l.int()
		if !ok1 || !ok2 || count < 0 {
			return nil, false
		}
		for i := range count {
			offset, ok1 := l.int()
			_, ok2 := l.int() // the generation
			c := l.word0()
			e := entry{offset: offset, free: c == Keyword("f")}
			if !ok1 || !ok2 || c != Keyword("n") && !e.free || !f.enter(int(start)+i, e) {
				return nil, false
			}
		}
	}
}

// enter enters an object that is not known yet; false where the budget is spent.
func (f *File) enter(num int, e entry) bool {
	if _, known := f.xref[num]; !known && num >= 0 && num < 1<<31 {
		f.xref[num] = e
	}
	return f.Spend(entryCost)
}

// tableOf reads a cross-reference stream.
func (f *File) tableOf(s *Stream) bool {
	var width [3]int
	for i, n := range f.numbers(s.Dict["W"], len(width)) {
		if width[i] = clampInt(n); width[i] < 0 || width[i] > 8 {
			return false
		}
	}
	row := width[0] + width[1] + width[2]
	data, _ := f.Decode(s) // what was decoded before an error is used
	if row == 0 || len(data) == 0 {
		return false
	}
	index := f.Array(s.Dict["Index"])
	if index == nil {
		index = Array{int64(0), s.Dict["Size"]}
	}
	for of := range slices.Chunk(index[:len(index)/2*2], 2) {
		start, count := f.Int(of[0]), f.Int(of[1])
		for n := 0; n < count && len(data) >= row; n++ {
			if !f.enter(start+n, entryOf(data, width)) {
				return false
			}
			data = data[row:]
		}
	}
	return true
}

func entryOf(row []byte, width [3]int) entry {
	var fields [3]int
	for i, n := range width {
		for _, c := range row[:n] {
			fields[i] = fields[i]<<8 | int(c)
		}
		row = row[n:]
	}
	if width[0] == 0 {
		fields[0] = 1
	}
	switch fields[0] {
	case 1:
		return entry{offset: fields[1]}
	case 2:
		return entry{pack: fields[1]}
	}
	return entry{free: true}
}

// unpack reads the objects in an object stream; one that cannot be read has none.
func (f *File) unpack(num int) map[int]Object {
	objects := map[int]Object{}
	if f.xref[num].pack != 0 {
		return objects // an object stream is never in another one
	}
	s := f.Stream(Ref{Num: num})
	if s == nil {
		return objects
	}
	data, _ := f.Decode(s) // what was decoded before an error is used
	first, head := f.Int(s.Dict["First"]), &Lexer{data: data}
	for range f.Int(s.Dict["N"]) {
		id, ok1 := head.int()
		offset, ok2 := head.int()
		if !ok1 || !ok2 || !f.Spend(entryCost) {
			break
		}
		if at := first + offset; at >= 0 && at < len(data) {
			l := &Lexer{data: data, pos: at}
			objects[id], _ = l.object()
			f.spendOn(l, at)
		}
	}
	return objects
}
