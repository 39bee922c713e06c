package pdf

import (
	"bytes"
	"maps"
	"slices"
	"strconv"
)

// findObjects searches the file for objects, "N G obj", and for trailers, but not within
// objects; of several with the same number the last one counts, as in a file to which
// changes were appended. The tables of objects, which a file has beside them, are not
// read: where they are right, they say the same. It returns the object streams.
func (f *File) findObjects() (packs []int) {
	// What is never closed is read to the end of the file: of that there may not be much.
	const times, spare = 16, 1 << 20
	most := f.opt.MaxDecoded
	f.opt.MaxDecoded = min(most, times*int64(len(f.data))+spare)
	packs, late := f.search()
	if late {
		f.trailer = Dict{}
		packs, _ = f.search()
	}
	f.opt.MaxDecoded = most
	return packs
}

// search is one pass over the file. The length of a stream may be an object after it: late
// says that another pass knows more of them.
func (f *File) search() (packs []int, late bool) {
	for rest := 0; rest < len(f.data); {
		before, _, found := bytes.Cut(f.data[rest:], []byte("obj"))
		f.findTrailers(rest, before)
		rest += len(before) + len("obj")
		num, start, ok := f.headerBefore(rest - len("obj"))
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
		s, is := o.(*Stream)
		if is || bytes.HasPrefix(f.data[end:], []byte("endobj")) {
			rest = end
		}
		if !is {
			continue
		}
		_, byRef := s.Dict["Length"].(Ref)
		late = late || byRef
		switch s.Dict["Type"] {
		case Name("ObjStm"):
			packs = append(packs, num)
		case Name("XRef"): // its dictionary is a trailer
			maps.Copy(f.trailer, s.Dict)
		}
	}
	clear(f.objects) // lengths, which may have changed later
	return packs, late
}

// headerBefore reads the two numbers before "obj", backwards.
func (f *File) headerBefore(at int) (num, start int, ok bool) {
	const spaces, digits, most = " \n\r\t\f\x00", "0123456789", 40
	window := f.data[max(0, at-most):at]
	generation := bytes.TrimRight(window, spaces)
	between := bytes.TrimRight(generation, digits)
	number := bytes.TrimRight(between, spaces)
	head := bytes.TrimRight(number, digits)
	num, err := strconv.Atoi(string(number[len(head):]))
	start = at - len(window) + len(head)
	return num, start, err == nil && len(between) < len(generation) && len(number) < len(between)
}

// findTrailers takes what trailers say in a part of the file; a later one wins.
func (f *File) findTrailers(at int, part []byte) {
	for {
		i := bytes.Index(part, []byte("trailer"))
		if i < 0 || f.spent != nil {
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

// findPacked enters the objects in object streams; here too the last one counts.
func (f *File) findPacked(packs []int) {
	for _, pack := range packs {
		offset := f.entries[pack].offset
		for num := range f.packed(pack) {
			if e, known := f.entries[num]; !known || e.offset < offset {
				f.entries[num] = entry{offset, pack}
			}
		}
	}
}

// findCatalogue looks at every object for one that is a catalogue; the last one counts.
func (f *File) findCatalogue() {
	for _, num := range slices.Sorted(maps.Keys(f.entries)) {
		if d, ok := f.load(Ref{Num: num}).(Dict); ok && f.Name(d["Type"]) == "Catalog" {
			f.trailer["Root"] = Ref{Num: num}
		}
	}
}

// isDamaged reports whether the file does not say at its end where a table of its objects
// is, or says so wrongly: bytes of it are lost, or are too many.
func (f *File) isDamaged() bool {
	tail := f.data[max(0, len(f.data)-2048):]
	said := bytes.LastIndex(tail, []byte("startxref"))
	at, ok := (&Lexer{data: tail, pos: max(0, said) + len("startxref")}).int()
	if said < 0 || !ok {
		return true
	}
	first := (&Lexer{data: f.data, pos: max(0, at)}).word0()
	num, _ := first.(int64)
	o, _ := f.indirect(at, int(num))
	_, isStream := o.(*Stream)
	return first != Keyword("xref") && !isStream
}
