package pdf

import (
	"bytes"
	"encoding/ascii85"
	"errors"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestLZW_specification tests the example of ISO 32000-1, 7.4.4.2.
func TestLZW_specification(t *testing.T) {
	got, err := decodeLZW([]byte{0x80, 0x0b, 0x60, 0x50, 0x22, 0x0c, 0x0c, 0x85, 0x01}, 100)
	if want := []byte{45, 45, 45, 45, 45, 65, 45, 45, 45, 66}; err != nil || !bytes.Equal(got, want) {
		t.Errorf("%v %v, want %v", err, got, want)
	}
}

// TestRunLength decodes 0 to 127 as the next 1 to 128 bytes, 129 to 255 as 257-n = 128 to 2 copies of the next one, and
// 128 as the end.
func TestRunLength(t *testing.T) {
	for data, want := range map[string]string{
		"\x02abc\xfed\x00e\x80f": "abcddde", // 257-254 = 3
		"\x05abc":                "abc",     // it is cut off
		"\xfe":                   "",
		"\xf7a\xffb":             "aaaaaaaaaabb", // 257-247 = 10, 257-255 = 2
	} {
		if got, err := decodeRunLength([]byte(data), 12); err != nil || string(got) != want {
			t.Errorf("%q: %q %v, want %q", data, got, err, want)
		}
	}
	if _, err := decodeRunLength([]byte("\xf7a\xfeb"), 12); !errors.Is(err, ErrBudget) { // 10+3 bytes
		t.Errorf("13 bytes: %v", err)
	}
}

// TestStream_wrongLength leaves out the line end before endstream, which the text of an unfiltered stream may have,
// too.
func TestStream_wrongLength(t *testing.T) {
	for body, want := range map[string]string{
		"abc": "abc", "abc\n": "abc", "abc\r\n": "abc", "abc\r": "abc", "abc\n\n": "abc\n",
		"(a endstream) Tj\n": "(a endstream) Tj",
		"(a endstream 5 b)\nendstream\nendobj 5 0 obj<<>>stream\n": "(a endstream 5 b)",
		"abc\nendstream 5 0 obj<<>>stream\n":                       "abc", "abc\nendstream d\n": "abc\nendstream d",
		"abc\nendstream" + strings.Repeat(" d endstream", 9): "abc",
		"abc\nendstream % d\nendobj 5 0 obj<<>>stream\nd\n":  "abc", // not the end of the next object
	} {
		l := &Lexer{data: []byte("stream\n" + body + "endstream")}
		file := &File{ctx: t.Context(), opt: Options{MaxDecoded: 1 << 20}}
		if got := file.stream(l, Dict{"Length": int64(1)}); string(got.raw) != want {
			t.Errorf("%q: %q, want %q", body, got.raw, want)
		}
	}
}

// TestFilters_inverse decodes what other encoders encode.
func TestFilters_inverse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		data := rapid.SliceOfN(rapid.ByteRange(0, 5), 0, 9000).Draw(t, "data")
		text := make([]byte, ascii85.MaxEncodedLen(len(data)))
		text = append(text[:ascii85.Encode(text, data)], "~>"...)
		if got := decodeASCII85(text); !bytes.Equal(got, data) {
			t.Errorf("base 85: %v is %v", data, got)
		}
		hex := fmt.Sprintf("%x>", data)
		if got := (&Lexer{data: []byte(hex)}).hex(); string(got) != string(data) {
			t.Errorf("hex: %v is %v", data, got)
		}
	})
}

func TestLexer(t *testing.T) {
	tests := map[string]string{
		`12 -3.5 +7 .5 -.25 4.`: "[12 -3.5 7 0.5 -0.25 4]",
		`/Name /A#20B /`:        "[Name A B ]",
		`(a\(b\)\n\101\
c) (nested (x) y)`: "[a(b)\nAc nested (x) y]",
		`<48 65 6C6c6F7>`: "[Hellop]",
		`[1 [2] null true] <</K 1 0 R /L [3 0 R]>>`: "[[1 [2] <nil> true] map[K:{1 0} L:[{3 0}]]]",
		`% comment
5 Tj`: "[5 Tj]",
		`] >> 1 ) 2`:           "[1 ) 2]",
		`<</A 1 /B`:            "[map[A:1]]",
		`99999999999999999999`: "[1e+20]",
		`1.2.3 --5`:            "[1.2 0]",
	}
	for text, want := range tests {
		l := &Lexer{data: []byte(text)}
		list := []Object{}
		for {
			o, ok := l.object()
			if !ok {
				break
			}
			list = append(list, o)
		}
		if got := fmt.Sprint(list); got != want {
			t.Errorf("%q is %s, want %s", text, got, want)
		}
	}
}

func FuzzLexer(f *testing.F) {
	f.Add([]byte("[1 (a\\051) <</K /V>>] BT <41> Tj"))
	f.Fuzz(func(t *testing.T, data []byte) {
		l := &Lexer{data: data}
		for n := 0; ; n++ {
			if _, ok := l.object(); !ok {
				return
			}
			if n > len(data) {
				t.Fatal("it does not come to the end")
			}
		}
	})
}

func FuzzFilters(f *testing.F) {
	f.Add([]byte{0x80, 0x0b, 0x60, 0x50, 0x22})
	f.Fuzz(func(t *testing.T, data []byte) {
		if out, err := decodeLZW(data, 1000); err == nil && len(out) > 1000 {
			t.Error("longer than the limit")
		}
		if out, err := decodeRunLength(data, 1000); err == nil && len(out) > 1000 {
			t.Error("longer than the limit")
		}
		decodeASCII85(data)
	})
}

// TestCodeMap_likeSearch compares with a search of all ranges: the one that begins last counts, and of those the last.
func TestCodeMap_likeSearch(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		file := &File{ctx: t.Context(), opt: Options{MaxDecoded: 1 << 20}}
		var m codeMap
		var want [40]Object
		firsts := [40]int{}
		for i := range rapid.IntRange(0, 12).Draw(t, "ranges") {
			first, last := rapid.IntRange(-2, 39).Draw(t, "first"), rapid.IntRange(-2, 39).Draw(t, "last")
			m.add(file, first, last, int64(i))
			for code := first; code <= last && first >= 0; code++ {
				if want[code] == nil || first >= firsts[code] {
					want[code], firsts[code] = int64(i), first
				}
			}
		}
		m.sort()
		for code := range want {
			got, offset := m.find(file, uint32(code))
			if got != want[code] || got != nil && int(offset) != code-firsts[code] {
				t.Fatalf("code %d: %v, offset %d, want %v from %d", code, got, offset, want[code], firsts[code])
			}
		}
	})
	var m codeMap
	m.add(&File{ctx: t.Context(), opt: Options{MaxDecoded: 1 << 20}}, 5, maxCode, Array{Name("a"), Name("b")})
	if got, offset := m.find(nil, 6); got != Name("b") || offset != 0 || len(m) != 1 || m[0].end != 7 {
		t.Errorf("%v, %d in %v", got, offset, m)
	}
}
