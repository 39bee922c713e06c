package pdf

import (
	"bytes"
	"strconv"
)

// repair finds objects by searching the file for "N G obj"; of several with
// the same number the last one counts. Trailers and object streams are found
// on the way.
func (f *File) repair() {
	f.Repaired = true
	var streams []int
	for at := 0; ; {
		i := bytes.Index(f.data[at:], []byte("obj"))
		if i < 0 {
			break
		}
		at += i
		if num, start, ok := f.headerBefore(at); ok {
			f.xref[num] = entry{offset: start}
			if window := f.data[at:min(len(f.data), at+300)]; bytes.Contains(window, []byte("/ObjStm")) || bytes.Contains(window, []byte("/XRef")) {
				streams = append(streams, num)
			}
		}
		at += 3
	}
	f.findTrailers()
	if f.trailer["Encrypt"] == nil {
		f.fromStreams(streams) // trailers of encrypted files may be there only
	}
	if f.trailer["Encrypt"] != nil {
		f.prepareCrypt()
	}
	f.fromStreams(streams)
	if f.pageTree() == nil {
		f.findCatalogue()
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

func (f *File) findTrailers() {
	for at := 0; ; {
		i := bytes.Index(f.data[at:], []byte("trailer"))
		if i < 0 {
			return
		}
		at += i + len("trailer")
		l := &Lexer{data: f.data, pos: at}
		o, _ := l.object()
		if d, ok := o.(Dict); ok {
			f.mergeTrailer(d)
		}
		if !f.Spend(int64(l.pos - at)) {
			return
		}
	}
}

// mergeTrailer lets a later trailer win.
func (f *File) mergeTrailer(d Dict) {
	for _, key := range []Name{"Root", "Encrypt", "ID", "Info"} {
		if value, ok := d[key]; ok && value != nil {
			f.trailer[key] = value
		}
	}
}

// fromStreams enters what object streams hold, and takes trailers from
// cross-reference streams.
func (f *File) fromStreams(streams []int) {
	for _, num := range streams {
		s, ok := f.load(Ref{Num: num}).(*Stream)
		if !ok {
			continue
		}
		switch f.Name(s.Dict["Type"]) {
		case "XRef":
			f.mergeTrailer(s.Dict)
		case "ObjStm":
			if f.trailer["Encrypt"] != nil && f.crypt == nil {
				continue
			}
			p := f.openPack(num)
			f.packs[num] = p
			for id := range p.offsets {
				if e, direct := f.xref[id]; !direct || e.pack != 0 && e.pack < num {
					f.xref[id] = entry{pack: num}
				}
			}
		}
	}
}

// findCatalogue looks at every object for one that is a catalogue.
func (f *File) findCatalogue() {
	best := -1
	for num := range f.xref {
		if !f.Spend(64) {
			return
		}
		if d, ok := f.load(Ref{Num: num}).(Dict); ok && f.Name(d["Type"]) == "Catalog" && num > best {
			best = num
		}
	}
	if best >= 0 {
		f.trailer["Root"] = Ref{Num: best}
	}
}
