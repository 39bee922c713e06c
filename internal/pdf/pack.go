package pdf

// pack is a decoded object stream.
type pack struct {
	data    []byte
	offsets map[int]int
}

// packed reads an object out of an object stream.
func (f *File) packed(in, num int) Object {
	p, ok := f.packs[in]
	if !ok {
		p = f.openPack(in)
		f.packs[in] = p
	}
	at, ok := p.offsets[num]
	if !ok {
		return nil
	}
	l := &Lexer{data: p.data, pos: at}
	o, _ := l.object()
	f.spendOn(l, at)
	return o
}

// openPack decodes an object stream; one that cannot be read is empty.
func (f *File) openPack(num int) *pack {
	p := &pack{offsets: map[int]int{}}
	if e, ok := f.xref[num]; !ok || e.pack != 0 {
		return p // an object stream is never in another one
	}
	s, ok := f.load(Ref{Num: num}).(*Stream)
	if !ok {
		return p
	}
	p.data, _ = f.Decode(s) // what was decoded before an error is used
	first := f.Int(s.Dict["First"])
	l := &Lexer{data: p.data}
	for range f.Int(s.Dict["N"]) {
		a, _ := l.word0()
		b, ok := l.word0()
		id, ok1 := a.(int64)
		offset, ok2 := b.(int64)
		if !ok || !ok1 || !ok2 || !f.Spend(entryCost) {
			break
		}
		if at := first + clampInt(float64(offset)); at >= 0 && at < len(p.data) {
			p.offsets[int(id)] = at
		}
	}
	return p
}
