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

// filterCost is charged for each filter of a stream, mainly for its time.
const filterCost = 1 << 10

// Decode decrypts a stream and applies its filters. If it returns an error, it also returns what
// was decoded before the error. No stream is an error. It is safe to call again; each call is charged to the budget.
func (f *File) Decode(s *Stream) ([]byte, error) {
	if s == nil {
		return nil, errors.New("it is not in the file")
	}
	if !f.Spend(int64(len(s.raw)) + 256) {
		return nil, f.budgetErr
	}
	filters := f.asList(cmp.Or(s.Dict["Filter"], s.Dict["F"]))
	params := f.asList(cmp.Or(s.Dict["DecodeParms"], s.Dict["DP"]))
	data := s.raw
	if f.crypt != nil && s.ref != (Ref{}) {
		data = f.crypt.decrypt(s.ref, data)
	}
	for i, name := range filters {
		if len(data) == 0 {
			break // filters of empty data change nothing, and their list may be long
		}
		var param Dict
		if i < len(params) {
			param = f.Dict(params[i])
		}
		var err error
		data, err = f.filter(f.Name(name), data, param)
		if !f.Spend(int64(len(data)) + filterCost) {
			return nil, f.budgetErr
		}
		if err != nil {
			return data, err
		}
	}
	return data, nil
}

// asList resolves to an array. Another object becomes its only element.
func (f *File) asList(o Object) Array {
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
		return decodeLZW(data, maxStream)
	case "ASCIIHexDecode", "AHx":
		return []byte((&Lexer{data: data}).hex()), nil
	case "ASCII85Decode", "A85":
		return decodeASCII85(data), nil
	case "RunLengthDecode", "RL":
		return decodeRunLength(data, maxStream)
	case "Crypt":
		return data, nil
	}
	return nil, fmt.Errorf("the filter %.40q is not decoded", name)
}

// readLimited reads all of r, or fails if it has more than limit bytes.
func readLimited(r io.Reader, limit int64) ([]byte, error) {
	out, err := io.ReadAll(io.LimitReader(r, limit+1))
	if int64(len(out)) > limit {
		return nil, fmt.Errorf("%w: a stream decodes to more than %d MiB", ErrBudget, limit>>20)
	}
	return out, err
}

// inflate decodes zlib. Because damaged files are common, it ignores checksums and keeps what
// comes before the damage.
func inflate(data []byte) ([]byte, error) {
	if len(data) >= 2 && data[0]&0x0f == 8 && binary.BigEndian.Uint16(data)%31 == 0 {
		data = data[2:]
	}
	out, err := readLimited(flate.NewReader(bytes.NewReader(data)), maxStream)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = nil
	}
	return out, err
}

// decodeASCII85 decodes ASCII base 85. It skips characters that are not digits.
func decodeASCII85(data []byte) []byte {
	data, _, _ = bytes.Cut(data, []byte("~"))
	digits := filterRunes(data, func(r rune) bool { return r >= '!' && r <= 'u' || r == 'z' })
	out := make([]byte, 4*len(digits))
	n, _, _ := ascii85.Decode(out, digits, true) // keeps what comes before damage
	return out[:n]
}

// decodeLZW decodes LZW with early code changes, as in TIFF. It keeps what comes before damage.
func decodeLZW(data []byte, limit int64) ([]byte, error) {
	r := lzw.NewReader(bytes.NewReader(data), lzw.MSB, 8)
	defer r.Close()
	out, err := readLimited(r, limit)
	if !errors.Is(err, ErrBudget) {
		err = nil
	}
	return out, err
}

// decodeRunLength decodes runs: n < 128 precedes n+1 bytes, n > 128 a byte that is repeated 257-n
// times, and 128 is the end. It keeps what comes before damage.
func decodeRunLength(data []byte, limit int) ([]byte, error) {
	var out []byte
	for len(data) > 1 && data[0] != 128 && len(out) <= limit {
		if n := int(data[0]); n > 128 {
			out = append(out, bytes.Repeat(data[1:2], 257-n)...)
			data = data[2:]
		} else {
			end := min(n+2, len(data))
			out = append(out, data[1:end]...)
			data = data[end:]
		}
	}
	return readLimited(bytes.NewReader(out), int64(limit))
}
