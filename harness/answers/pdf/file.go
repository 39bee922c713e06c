package pdf

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"

	"extraction-experiment/internal/textutil"
)

// MaxFile is the largest size of a file, in bytes. Larger files are refused.
const MaxFile = 512 << 20

// Limits within a file.
const (
	maxStream = 64 << 20 // bytes of one decoded stream
	maxPages  = 20_000
)

// Reasons why a file cannot be read at all.
var (
	ErrNotPDF                = errors.New("it is not a PDF file: it does not begin with %PDF-")
	ErrDamaged               = errors.New("the PDF file is damaged: no pages can be found in it")
	ErrPassword              = errors.New("the PDF file is encrypted and needs a password")
	ErrWrongPassword         = errors.New("the PDF file is encrypted, and the password is not that of its user or owner")
	ErrUnsupportedEncryption = errors.New("the PDF file is encrypted in a way that is not supported")
	ErrBudget                = errors.New("the PDF file costs too much to read")
)

// File is an open file. It is not safe for concurrent use.
type File struct {
	ctx       context.Context
	opt       Options
	data      []byte
	entries   map[int]entry
	trailer   Dict
	crypt     *crypt
	objects   map[int]Object
	depth     int // nesting of loads
	cost      int64
	budgetErr error // why the budget is exceeded, or nil
	// Repaired reports that the file is damaged: its reference to its table of objects is wrong.
	Repaired bool
}

// entry is the place of an object.
type entry struct {
	offset    int // in the file: of the object, or of its object stream
	objStream int // number of the object stream that holds the object, or 0
}

// entryCost is the approximate memory of an entry, in bytes. It prevents a few compressed bytes
// from allocating gigabytes of entries.
const entryCost = 100

// Open reads the structure of a file. It keeps data.
//
// Errors are ErrNotPDF, ErrPassword if a password is missing, ErrWrongPassword if it is wrong,
// ErrUnsupportedEncryption, ErrBudget, and those of ctx.
func Open(ctx context.Context, data []byte, opt Options) (*File, error) {
	opt.MaxDecoded = cmp.Or(opt.MaxDecoded, 512<<20)
	header := bytes.Index(data[:min(len(data), 1024)], []byte("%PDF-"))
	if header < 0 {
		return nil, ErrNotPDF
	}
	f := &File{ctx: ctx, opt: opt, data: data[header:], entries: map[int]entry{}, trailer: Dict{},
		objects: map[int]Object{}}
	objStreams := f.findObjects()
	f.Repaired = f.isDamaged()
	cryptErr := f.prepareCrypt()
	if err := cmp.Or(f.budgetErr, cryptErr); err != nil {
		return nil, err
	}
	f.findStreamObjects(objStreams)
	if f.pageTree() == nil {
		f.findCatalogue()
	}
	return f, f.budgetErr
}

// pageTree returns the root of the page tree.
func (f *File) pageTree() Dict { return f.Dict(f.Dict(f.trailer["Root"])["Pages"]) }

// Spend charges the cost of work or memory, in bytes, to the budget. If it returns false,
// reading must end, and budgetErr is the reason.
func (f *File) Spend(bytes int64) bool {
	if f.budgetErr != nil {
		return false
	}
	if f.cost += bytes; f.cost > f.opt.MaxDecoded {
		f.budgetErr = fmt.Errorf("%w: its streams, tables and fonts come to more than %d MiB", ErrBudget,
			f.opt.MaxDecoded>>20)
	} else if err := f.ctx.Err(); err != nil {
		f.budgetErr = err
	}
	return f.budgetErr == nil
}

// load reads an object and remembers it.
func (f *File) load(ref Ref) Object {
	if o, ok := f.objects[ref.Num]; ok {
		return o
	}
	e, ok := f.entries[ref.Num]
	if !ok || f.depth > maxDepth || !f.Spend(64) {
		return nil
	}
	f.objects[ref.Num] = nil // for objects that refer to themselves, and if it is not there
	f.depth++
	defer func() { f.depth-- }()
	if e.objStream == 0 {
		f.objects[ref.Num], _ = f.indirect(e.offset, ref.Num)
		return f.objects[ref.Num]
	}
	for num, l := range f.streamObjects(e.objStream) {
		if f.entries[num].objStream == e.objStream {
			at := l.pos
			f.objects[num], _ = l.object()
			f.spendObject(l, at)
		}
	}
	return f.objects[ref.Num]
}

// indirect reads "N G obj …" at offset, and returns the object and its end. The end of a stream
// with a wrong length is where its bytes begin. If there is no object with that number, it
// returns nil and 0.
func (f *File) indirect(offset, num int) (o Object, end int) {
	l := &Lexer{data: f.data, pos: max(0, offset)}
	number, ok1 := l.readInt()
	gen, ok2 := l.readInt()
	if !ok1 || !ok2 || number != num || l.optionalWord() != Keyword("obj") {
		return nil, 0
	}
	before := l.pos
	o, _ = l.object()
	l.space()
	f.spendObject(l, before)
	if d, isDict := o.(Dict); isDict {
		if s := f.stream(l, d); s != nil {
			s.ref = Ref{number, gen}
			o = s
		}
	}
	return o, l.pos
}

// spendObject charges an object that was read from position from on: its bytes, and the memory
// of long lists.
func (f *File) spendObject(l *Lexer, from int) {
	const elementCost, free = 16, 1000
	f.Spend(int64(l.pos-from) + elementCost*int64(max(0, l.elements-free)))
}

// optionalWord reads one token that does not begin with a delimiter. It returns nil if there is
// none.
func (l *Lexer) optionalWord() Object {
	l.space()
	if l.pos >= len(l.data) || isDelimiter(l.data[l.pos]) {
		return nil
	}
	return l.word()
}

// readInt reads an integer.
func (l *Lexer) readInt() (int, bool) {
	n, ok := l.optionalWord().(int64)
	return int(n), ok
}

// stream reads the bytes after a dictionary, or returns nil if there are none. It moves past
// them if the length in the dictionary is right.
func (f *File) stream(l *Lexer, d Dict) *Stream {
	l.space()
	body, ok := bytes.CutPrefix(l.data[l.pos:], []byte("stream"))
	if !ok {
		return nil
	}
	body = bytes.TrimPrefix(bytes.TrimPrefix(body, []byte("\r")), []byte("\n"))
	l.pos = len(l.data) - len(body)
	size := f.Int(d["Length"])
	if size >= 0 && size <= len(body) && endsStream(body[size:]) {
		l.pos += size
		return &Stream{Dict: d, raw: body[:size]}
	}
	raw := bytes.TrimSuffix(bytes.TrimSuffix(f.untilEnd(body), []byte("\n")), []byte("\r"))
	f.Spend(int64(len(raw)))
	return &Stream{Dict: d, raw: raw}
}

// afterStream matches what follows the end of a stream, but not what follows the word in a text.
var afterStream = textutil.Pattern(`^[\s\x00]*(?:endobj|xref|trailer|startxref|[0-9]+ [0-9]+ obj|$)`)

// untilEnd returns the bytes of a stream of unknown length, up to one of the first few "endstream"
// of its object. It charges what it looks at beyond the first.
func (f *File) untilEnd(body []byte) []byte {
	const keyword, tries, behind = "endstream", 8, 64
	first, _, _ := bytes.Cut(body, []byte(keyword))
	for end, try := len(first), 0; end < len(body) && try < tries; try++ {
		rest := body[end+len(keyword):]
		if afterStream().Match(rest[:min(len(rest), behind)]) {
			return body[:end]
		}
		text, _, _ := bytes.Cut(rest, []byte(keyword))
		if !f.Spend(int64(len(text))) || bytes.Contains(text, []byte("endobj")) {
			break
		}
		end += len(keyword) + len(text)
	}
	return first
}

// endsStream reports whether rest begins with the end of a stream.
func endsStream(rest []byte) bool {
	return bytes.HasPrefix(bytes.TrimLeft(rest[:min(len(rest), 20)], "\r\n \t"), []byte("endstream"))
}

// streamObjects yields the numbers of the objects in an object stream, each with a lexer
// positioned at the object.
func (f *File) streamObjects(container int) iter.Seq2[int, *Lexer] {
	return func(yield func(int, *Lexer) bool) {
		s := f.Stream(Ref{Num: container})
		if s == nil {
			return
		}
		data, _ := f.Decode(s) // use what was decoded before an error
		first, head := f.Int(s.Dict["First"]), &Lexer{data: data}
		for range f.Int(s.Dict["N"]) {
			num, ok1 := head.readInt()
			offset, ok2 := head.readInt()
			if !ok1 || !ok2 || !f.Spend(entryCost) {
				return
			}
			if at := first + offset; at >= 0 && at < len(data) && !yield(num, &Lexer{data: data, pos: at}) {
				return
			}
		}
	}
}
