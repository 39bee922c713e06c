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

// filterCost is taken off the budget for each filter of a stream, rather for its time.
const filterCost = 1 << 10

// Decode returns the bytes of a stream, decrypted and through its filters. With
// an error comes what was decoded before it. Safe to repeat; each time it is
// taken off the budget.
func (f *File) Decode(s *Stream) ([]byte, error) {
	if !f.Spend(int64(len(s.raw)) + 256) {
		return nil, f.spent
	}
	filters := f.oneOrMore(cmp.Or(s.Dict["Filter"], s.Dict["F"]))
	params := f.oneOrMore(cmp.Or(s.Dict["DecodeParms"], s.Dict["DP"]))
	data := s.raw
	if f.crypt != nil && s.ref != (Ref{}) {
		data = f.crypt.decrypt(s.ref, data)
	}
	for i, name := range filters {
		if len(data) == 0 {
			break // no filter makes anything of nothing, and a list of them may be long
		}
		var param Dict
		if i < len(params) {
			param = f.Dict(params[i])
		}
		var err error
		data, err = f.filter(f.Name(name), data, param)
		if !f.Spend(int64(len(data)) + filterCost) {
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
	if f.Int(param["Predictor"]) > 1 {
		return nil, errors.New("a filter with a predictor, as images have, is not decoded")
	}
	switch name {
	case "FlateDecode", "Fl":
		return inflate(data)
	case "LZWDecode", "LZW":
		return unLZW(data, maxStream)
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

// un85 decodes ASCII base 85; what is not a digit of it is passed over.
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
