package pdf

import (
	"bytes"
	"cmp"
	"compress/flate"
	"encoding/ascii85"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"golang.org/x/image/tiff/lzw"
)

// maxFilters bounds how many filters one stream may go through.
const maxFilters = 8

// Decode returns the bytes of a stream, decrypted and through its filters. With
// an error comes what was decoded before it. Safe to repeat; each time it is
// taken off the budget.
func (f *File) Decode(s *Stream) ([]byte, error) {
	if !f.Spend(int64(len(s.raw)) + 256) {
		return nil, f.spent
	}
	filters := f.oneOrMore(cmp.Or(s.Dict["Filter"], s.Dict["F"]))
	params := f.oneOrMore(cmp.Or(s.Dict["DecodeParms"], s.Dict["DP"]))
	if len(filters) > maxFilters {
		return nil, fmt.Errorf("it goes through more than %d filters", maxFilters)
	}
	data := s.raw
	if f.crypt != nil && s.ref != (Ref{}) {
		data = f.crypt.decrypt(s.ref, data)
	}
	for i, name := range filters {
		var param Dict
		if i < len(params) {
			param = f.Dict(params[i])
		}
		var err error
		data, err = f.filter(f.Name(name), data, param)
		if !f.Spend(int64(len(data))) {
			return nil, f.spent
		}
		if err != nil {
			return data, err
		}
	}
	return data, nil
}

// oneOrMore resolves to a list; what is none is the only one.
func (f *File) oneOrMore(o Object) Array {
	if o = f.Resolve(o); o == nil {
		return nil
	}
	if list, ok := o.(Array); ok {
		return list
	}
	return Array{o}
}

func (f *File) filter(name Name, data []byte, param Dict) ([]byte, error) {
	var err error
	switch name {
	case "FlateDecode", "Fl":
		data, err = inflate(data)
		return f.unpredict(data, param, err)
	case "LZWDecode", "LZW":
		data, err = unLZW(data, maxStream)
		return f.unpredict(data, param, err)
	case "ASCIIHexDecode", "AHx":
		return []byte((&Lexer{data: data}).hex()), nil
	case "ASCII85Decode", "A85":
		return un85(data), nil
	case "Crypt":
		return data, nil
	}
	return nil, fmt.Errorf("the filter %.40q is not decoded", name)
}

// readMost reads what a filter gives, which is at most limit bytes.
func readMost(r io.Reader, limit int64) ([]byte, error) {
	out, err := io.ReadAll(io.LimitReader(r, limit+1))
	if int64(len(out)) > limit {
		return nil, fmt.Errorf("%w: a stream decodes to more than %d MiB", ErrBudget, limit>>20)
	}
	return out, err
}

// inflate decodes zlib. Checksums are not looked at, and what comes before
// damage is kept: damaged files are common.
func inflate(data []byte) ([]byte, error) {
	if len(data) >= 2 && data[0]&0x0f == 8 && binary.BigEndian.Uint16(data)%31 == 0 {
		data = data[2:]
	}
	out, err := readMost(flate.NewReader(bytes.NewReader(data)), maxStream)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = nil
	}
	return out, err
}

// unpredict undoes the predictors of PNG; that of TIFF is for pictures only.
func (f *File) unpredict(data []byte, param Dict, err error) ([]byte, error) {
	predictor := f.Int(param["Predictor"])
	if predictor <= 2 {
		return data, err
	}
	colors, bits := cmp.Or(f.Int(param["Colors"]), 1), cmp.Or(f.Int(param["BitsPerComponent"]), 8)
	columns := cmp.Or(f.Int(param["Columns"]), 1)
	if colors < 1 || colors > 32 || bits < 1 || bits > 16 || columns < 1 || columns > 1<<20 {
		return nil, errors.New("the parameters of a predictor make no sense")
	}
	// No row is longer than all of the data: it would only take memory.
	size, row := max(1, colors*bits/8), min((colors*bits*columns+7)/8, max(1, len(data)))
	return unPNG(data, size, row), err
}

func unPNG(data []byte, size, row int) []byte {
	out := make([]byte, 0, len(data))
	above := make([]byte, row)
	for len(data) > 1 {
		kind := data[0]
		line := make([]byte, row)
		n := copy(line, data[1:])
		data = data[1+n:]
		for i := range line {
			var left, up, corner int
			up = int(above[i])
			if i >= size {
				left, corner = int(line[i-size]), int(above[i-size])
			}
			switch kind {
			case 1:
				line[i] += byte(left)
			case 2:
				line[i] += byte(up)
			case 3:
				line[i] += byte((left + up) / 2)
			case 4:
				line[i] += byte(paeth(left, up, corner))
			}
		}
		out = append(out, line[:n]...)
		above = line
	}
	return out
}

func paeth(a, b, c int) int {
	distance := func(v int) int { return max(a+b-c-v, v-(a+b-c)) }
	switch {
	case distance(a) <= distance(b) && distance(a) <= distance(c):
		return a
	case distance(b) <= distance(c):
		return b
	}
	return c
}

// un85 decodes ASCII base 85; what is no digit of it is passed over.
func un85(data []byte) []byte {
	data, _, _ = bytes.Cut(data, []byte("~"))
	digits := only(data, func(r rune) bool { return r >= '!' && r <= 'u' || r == 'z' })
	out := make([]byte, 4*len(digits))
	n, _, _ := ascii85.Decode(out, digits, true) // of what is damaged, what comes before
	return out[:n]
}

// unLZW decodes LZW, whose codes widen one too soon, as TIFF does it. Of damaged data
// there is what comes before the damage.
func unLZW(data []byte, limit int64) ([]byte, error) {
	r := lzw.NewReader(bytes.NewReader(data), lzw.MSB, 8)
	defer r.Close()
	out, err := readMost(r, limit)
	if !errors.Is(err, ErrBudget) {
		err = nil
	}
	return out, err
}
