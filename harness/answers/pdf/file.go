package pdf

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
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
	ErrNotPDF   = errors.New("it is not a PDF file: it does not begin with %PDF-")
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
	entries map[int]entry
	trailer Dict
	crypt   *crypt
	locked  error // why it cannot be decrypted
	objects map[int]Object
	depth   int // of objects that are loaded for others
	decoded int64
	spent   error // why the budget is spent; nil while it is not
	// Repaired says that the file is damaged: it says wrongly where its list of objects is.
	Repaired bool
}

// entry says where an object is.
type entry struct {
	offset int // in the file: of the object, or of the pack
	pack   int // object stream that holds it; 0 for none
}

// entryCost is about what an entry takes of memory, in bytes: a few bytes of a
// compressed list must not ask for gigabytes.
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
	f := &File{ctx: ctx, opt: opt, data: data[head:], entries: map[int]entry{}, trailer: Dict{}, objects: map[int]Object{}}
	packs := f.findObjects()
	f.Repaired = f.isDamaged()
	f.prepareCrypt()
	if err := cmp.Or(f.spent, f.locked); err != nil {
		return nil, err
	}
	f.findPacked(packs)
	if f.pageTree() == nil {
		f.findCatalogue()
	}
	switch end := f.data[max(0, len(f.data)-2048):]; {
	case f.spent != nil:
		return nil, f.spent
	case f.pageTree() != nil:
		return f, nil
	case !bytes.Contains(end, []byte("%%EOF")):
		return nil, fmt.Errorf("%w; its end is missing: it was cut off, copy it again", ErrDamaged)
	}
	return nil, ErrDamaged
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
	e, ok := f.entries[ref.Num]
	if !ok || f.depth > maxDepth || !f.Spend(64) {
		return nil
	}
	f.objects[ref.Num] = nil // for what needs itself, and if it is not there
	f.depth++
	defer func() { f.depth-- }()
	if e.pack == 0 {
		f.objects[ref.Num], _ = f.indirect(e.offset, ref.Num)
		return f.objects[ref.Num]
	}
	for num, l := range f.packed(e.pack) {
		if f.entries[num].pack == e.pack {
			at := l.pos
			f.objects[num], _ = l.object()
			f.spendOn(l, at)
		}
	}
	return f.objects[ref.Num]
}

// indirect reads "N G obj …" at an offset, and returns where it ends, but for a stream
// that is not as long as it says. A wrong number there is no object.
func (f *File) indirect(offset, num int) (o Object, end int) {
	l := &Lexer{data: f.data, pos: max(0, offset)}
	number, ok1 := l.int()
	gen, ok2 := l.int()
	if !ok1 || !ok2 || number != num || l.word0() != Keyword("obj") {
		return nil, 0
	}
	before := l.pos
	o, _ = l.object()
	l.space()
	f.spendOn(l, before)
	if d, isDict := o.(Dict); isDict {
		if s := f.stream(l, d); s != nil {
			s.ref = Ref{number, gen}
			o = s
		}
	}
	return o, l.pos
}

// spendOn takes the cost of an object off the budget that was read from a place
// on: its bytes, and the memory of long lists.
func (f *File) spendOn(l *Lexer, from int) {
	const element, usual = 16, 1000
	f.Spend(int64(l.pos-from) + element*int64(max(0, l.kept-usual)))
}

// word0 reads one token that is not a string: what comes before an object. Where there is
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

// stream reads the bytes after a dictionary, if there are any, and passes over them where
// they are as many as it says.
func (f *File) stream(l *Lexer, d Dict) *Stream {
	l.space()
	body, is := bytes.CutPrefix(l.data[l.pos:], []byte("stream"))
	if !is {
		return nil
	}
	body = bytes.TrimPrefix(bytes.TrimPrefix(body, []byte("\r")), []byte("\n"))
	l.pos = len(l.data) - len(body)
	size := f.Int(d["Length"])
	if size >= 0 && size <= len(body) && endsStream(body[size:]) {
		l.pos += size
		return &Stream{Dict: d, raw: body[:size]}
	}
	raw, _, _ := bytes.Cut(body, []byte("endstream"))
	f.Spend(int64(len(raw)))
	return &Stream{Dict: d, raw: raw}
}

// endsStream reports whether no more of a stream comes.
func endsStream(rest []byte) bool {
	return bytes.HasPrefix(bytes.TrimLeft(rest[:min(len(rest), 20)], "\r\n \t"), []byte("endstream"))
}

// packed yields the numbers of the objects in an object stream, and readers that are in
// front of them.
func (f *File) packed(pack int) iter.Seq2[int, *Lexer] {
	return func(yield func(int, *Lexer) bool) {
		s := f.Stream(Ref{Num: pack})
		if s == nil {
			return
		}
		data, _ := f.Decode(s) // what was decoded before an error is used
		first, head := f.Int(s.Dict["First"]), &Lexer{data: data}
		for range f.Int(s.Dict["N"]) {
			num, ok1 := head.int()
			offset, ok2 := head.int()
			if !ok1 || !ok2 || !f.Spend(entryCost) {
				return
			}
			if at := first + offset; at >= 0 && at < len(data) && !yield(num, &Lexer{data: data, pos: at}) {
				return
			}
		}
	}
}
