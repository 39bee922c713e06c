package pdf

import (
	"bytes"
	"maps"
	"slices"
	"strconv"
)

// findObjects searches the file for objects ("N G obj") and trailers, except inside other
// objects. The last object with a number counts, because changes are appended. It does not read
// the cross-reference tables: correct ones contain the same. It returns the numbers of the
// object streams.
func (f *File) findObjects() (objStreams []int) {
	// An unclosed object is read to the end of the file; the limit prevents many of them.
	const factor, extra = 16, 1 << 20
	maxDecoded := f.opt.MaxDecoded
	f.opt.MaxDecoded = min(maxDecoded, factor*int64(len(f.data))+extra)
	objStreams, lateLengths := f.search()
	if lateLengths {
		f.trailer = Dict{}
		objStreams, _ = f.search()
	}
	f.opt.MaxDecoded = maxDecoded
	return objStreams
}

// search makes one pass over the file. The length of a stream may be an object behind it:
// lateLengths reports whether another pass would know more lengths.
func (f *File) search() (objStreams []int, lateLengths bool) {
	for pos := 0; pos < len(f.data); {
		before, _, found := bytes.Cut(f.data[pos:], []byte("obj"))
		f.findTrailers(pos, before)
		pos += len(before) + len("obj")
		num, start, ok := f.headerBefore(pos - len("obj"))
		if !found || !ok {
			continue
		}
		if !f.Spend(entryCost) {
			break
		}
		o, end := f.indirect(start, num)
		if end == 0 {
			continue
		}
		f.entries[num] = entry{offset: start}
		s, isStream := o.(*Stream)
		if isStream || bytes.HasPrefix(f.data[end:], []byte("endobj")) {
			pos = end
		}
		if !isStream {
			continue
		}
		_, byRef := s.Dict["Length"].(Ref)
		lateLengths = lateLengths || byRef
		switch s.Dict["Type"] {
		case Name("ObjStm"):
			objStreams = append(objStreams, num)
		case Name("XRef"): // its dictionary is a trailer
			maps.Copy(f.trailer, s.Dict)
		}
	}
	clear(f.objects) // lengths may have been changed later in the file
	return objStreams, lateLengths
}

// headerBefore reads the two numbers before the "obj" at end, backwards.
func (f *File) headerBefore(end int) (num, start int, ok bool) {
	const spaces, digits, maxHeader = " \n\r\t\f\x00", "0123456789", 40
	window := f.data[max(0, end-maxHeader):end]
	generation := bytes.TrimRight(window, spaces)
	between := bytes.TrimRight(generation, digits)
	number := bytes.TrimRight(between, spaces)
	head := bytes.TrimRight(number, digits)
	num, err := strconv.Atoi(string(number[len(head):]))
	start = end - len(window) + len(head)
	return num, start, err == nil && len(between) < len(generation) && len(number) < len(between)
}

// findTrailers copies the entries of all trailers in a part of the file; later ones win.
func (f *File) findTrailers(at int, part []byte) {
	for {
		i := bytes.Index(part, []byte("trailer"))
		if i < 0 || f.budgetErr != nil {
			return
		}
		at, part = at+i+len("trailer"), part[i+len("trailer"):]
		l := &Lexer{data: f.data, pos: at}
		o, _ := l.object()
		if d, ok := o.(Dict); ok {
			maps.Copy(f.trailer, d)
		}
		f.Spend(int64(l.pos - at))
	}
}

// findStreamObjects adds entries for the objects in object streams; later ones win.
func (f *File) findStreamObjects(objStreams []int) {
	for _, objStream := range objStreams {
		offset := f.entries[objStream].offset
		for num := range f.streamObjects(objStream) {
			if e, known := f.entries[num]; !known || e.offset < offset {
				f.entries[num] = entry{offset, objStream}
			}
		}
	}
}

// findCatalogue searches all objects for a catalogue; the last one wins.
func (f *File) findCatalogue() {
	for _, num := range slices.Sorted(maps.Keys(f.entries)) {
		if d, ok := f.load(Ref{Num: num}).(Dict); ok && f.Name(d["Type"]) == "Catalog" {
			f.trailer["Root"] = Ref{Num: num}
		}
	}
}

// isDamaged reports whether the end of the file has no correct offset of a table of objects,
// because bytes are missing or added.
func (f *File) isDamaged() bool {
	tail := f.data[max(0, len(f.data)-2048):]
	keyword := bytes.LastIndex(tail, []byte("startxref"))
	offset, ok := (&Lexer{data: tail, pos: max(0, keyword) + len("startxref")}).readInt()
	if keyword < 0 || !ok {
		return true
	}
	first := (&Lexer{data: f.data, pos: max(0, offset)}).optionalWord()
	num, _ := first.(int64)
	o, _ := f.indirect(offset, int(num))
	_, isStream := o.(*Stream)
	return first != Keyword("xref") && !isStream
}
