package pdf

import (
	"bytes"
	"iter"
	"maps"
	"slices"
	"strconv"
)

// repair finds objects by searching the file for "N G obj"; of several with
// the same number the last one counts. Trailers and object streams are found
// on the way.
func (f *File) repair() {
	f.Repaired = true
	var tables, packs []int
	for at := range f.find("obj") {
		num, start, ok := f.headerBefore(at)
		if !ok || !f.Spend(entryCost) {
			continue
		}
		f.xref[num] = entry{offset: start}
		head := f.data[at:min(len(f.data), at+300)]
		if bytes.Contains(head, []byte("/ObjStm")) {
			packs = append(packs, num)
		}
		if bytes.Contains(head, []byte("/XRef")) {
			tables = append(tables, num)
		}
	}
	f.findTrailers(tables)
	f.prepareCrypt()
	for _, num := range packs {
		for id, o := range f.unpack(num) {
			if e, direct := f.xref[id]; !direct || e.pack != 0 && e.pack < num {
				f.xref[id], f.objects[id] = entry{pack: num}, o
			}
		}
	}
	if f.pageTree() == nil {
		f.findCatalogue()
	}
}

// find yields where a word stands in the file.
func (f *File) find(word string) iter.Seq[int] {
	return func(yield func(int) bool) {
		for at := 0; ; at += len(word) {
			i := bytes.Index(f.data[at:], []byte(word))
			if i < 0 || !yield(at+i) {
				return
			}
			at += i
		}
	}
}

// headerBefore reads the two numbers in front of "obj", backwards.
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

// findTrailers takes what trailers and cross-reference streams say; a later one wins.
func (f *File) findTrailers(streams []int) {
	for at := range f.find("trailer") {
		l := &Lexer{data: f.data, pos: at + len("trailer")}
		o, _ := l.object()
		if d, ok := o.(Dict); ok {
			maps.Copy(f.trailer, d)
		}
		if !f.Spend(int64(l.pos - at)) {
			return
		}
	}
	for _, num := range streams {
		if d := f.Dict(Ref{Num: num}); f.Name(d["Type"]) == "XRef" {
			maps.Copy(f.trailer, d)
		}
	}
}

// findCatalogue looks at every object for one that is a catalogue; the last one counts.
func (f *File) findCatalogue() {
	for _, num := range slices.Sorted(maps.Keys(f.xref)) {
		if d, ok := f.load(Ref{Num: num}).(Dict); ok && f.Name(d["Type"]) == "Catalog" {
			f.trailer["Root"] = Ref{Num: num}
		}
	}
}
