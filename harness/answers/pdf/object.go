package pdf

import (
	"bytes"
	"encoding/hex"
	"iter"
	"math"
	"net/url"
	"strconv"
	"strings"
	"unicode"

	"extraction-experiment/internal/textutil"
)

// An Object is nil, bool, int64, float64, String, Name, Array, Dict, Ref or *Stream. In content
// streams it can also be a Keyword.
type Object any

// Name is a name without its slash.
type Name string

// String is a string of bytes.
type String string

// Keyword is a bare word: an operator, or a word like obj.
type Keyword string

// Array is a list of objects.
type Array []Object

// Dict is a dictionary.
type Dict map[Name]Object

// Ref is a reference to an object.
type Ref struct{ Num, Gen int }

// Stream is a dictionary with encoded bytes.
type Stream struct {
	Dict Dict
	raw  []byte
	ref  Ref // for decryption; zero inside object streams
}

// maxDepth limits chains of references, and the nesting of arrays and dictionaries.
const maxDepth = 64

// Resolve follows references. Missing objects are nil.
func (f *File) Resolve(o Object) Object {
	for range maxDepth {
		ref, ok := o.(Ref)
		if !ok {
			return o
		}
		o = f.load(ref)
	}
	return nil
}

// Dict resolves to a dictionary or that of a stream, or to nil.
func (f *File) Dict(o Object) Dict {
	switch o := f.Resolve(o).(type) {
	case Dict:
		return o
	case *Stream:
		return o.Dict
	}
	return nil
}

// resolveAs resolves to an object of type T, or to its zero value.
func resolveAs[T Array | Name | String | *Stream](f *File, o Object) T {
	v, _ := f.Resolve(o).(T)
	return v
}

// Array resolves to an array, or to nil.
func (f *File) Array(o Object) Array { return resolveAs[Array](f, o) }

// Name resolves to a name, or to "".
func (f *File) Name(o Object) Name { return resolveAs[Name](f, o) }

// Stream resolves to a stream, or to nil.
func (f *File) Stream(o Object) *Stream { return resolveAs[*Stream](f, o) }

// Number resolves to an integer or a real; ok is false for other objects.
func (f *File) Number(o Object) (v float64, ok bool) {
	switch o := f.Resolve(o).(type) {
	case int64:
		return float64(o), true
	case float64:
		return o, true
	}
	return 0, false
}

// Int resolves to a whole number, or to 0.
func (f *File) Int(o Object) int {
	v, _ := f.Number(o)
	return clampInt(v)
}

// numbers resolves to an array of size numbers, or to nil.
func (f *File) numbers(o Object, size int) []float64 {
	list := f.Array(o)
	if len(list) != size {
		return nil
	}
	numbers := make([]float64, size)
	for i := range numbers {
		numbers[i], _ = f.Number(list[i])
	}
	return numbers
}

// clampInt limits hostile numbers so that arithmetic with them does not overflow.
func clampInt(v float64) int {
	const limit = 1 << 40
	return int(max(-limit, min(v, limit)))
}

// Lexer reads objects from bytes. It skips malformed input and always reaches the end.
type Lexer struct {
	data     []byte
	pos      int
	elements int // number of elements of lists in the current object
}

// operations yields the operators of a content stream or a CMap, each with its operands. Of a
// long list of operands it yields the last ones.
func (l *Lexer) operations() iter.Seq2[Keyword, []Object] {
	return func(yield func(Keyword, []Object) bool) {
		var args []Object
		for {
			o, ok := l.object()
			if !ok {
				return
			}
			word, isWord := o.(Keyword)
			switch {
			case isWord && !yield(word, args):
				return
			case isWord:
				args = args[:0]
			default:
				if args = append(args, o); len(args) > 1000 {
					args = args[500:]
				}
			}
		}
	}
}

// endOfImage matches the end of an inline image.
var endOfImage = textutil.Pattern(`[ \n\r\t\f\x00]EI(?:[ \n\r\t\f\x00]|$)`)

// SkipImage skips the bytes of an inline image up to and including EI.
func (l *Lexer) SkipImage() {
	rest := l.data[l.pos:]
	end := len(rest)
	if at := endOfImage().FindIndex(rest); at != nil {
		end = at[0] + len(" EI")
	}
	l.pos += end
}

// maxElements limits the elements of all lists of one object; further ones are skipped. The
// largest real objects have some ten thousand.
const maxElements = 1 << 20

// object reads one object or Keyword; ok is false at the end.
func (l *Lexer) object() (Object, bool) {
	l.elements = 0
	for {
		o, ok := l.token(0)
		if o != Keyword("]") && o != Keyword(">>") { // otherwise it closes nothing
			return o, ok
		}
	}
}

// token reads one token, or a whole array or dictionary.
func (l *Lexer) token(depth int) (Object, bool) {
	l.space()
	if l.pos >= len(l.data) {
		return nil, false
	}
	c := l.data[l.pos]
	l.pos++
	switch c {
	case '/':
		return l.name(), true
	case '(':
		return l.literal(), true
	case '<':
		if l.skip('<') {
			return l.dict(depth), true
		}
		return l.hex(), true
	case '>':
		l.skip('>')
		return Keyword(">>"), true
	case '[':
		return Array(l.list(depth, "]")), true
	case ']', '{', '}', ')':
		return Keyword(c), true
	}
	l.pos--
	return l.word(), true
}

// skip moves past the next byte if it is c, and reports whether it was.
func (l *Lexer) skip(c byte) bool {
	next := l.pos < len(l.data) && l.data[l.pos] == c
	if next {
		l.pos++
	}
	return next
}

// space skips white space and comments.
func (l *Lexer) space() {
	for comment := false; l.pos < len(l.data); l.pos++ {
		c := l.data[l.pos]
		comment = (comment || c == '%') && c != '\n' && c != '\r'
		if !comment && !isSpace(c) {
			return
		}
	}
}

// list reads up to the closing keyword end. Lists deeper than maxDepth are empty, and their
// elements belong to the list around them.
func (l *Lexer) list(depth int, end Keyword) []Object {
	var list []Object
	for depth < maxDepth {
		o, ok := l.token(depth + 1)
		switch {
		case !ok, o == Object(end), o == Keyword(">>"), o == Keyword("endobj"): // ">>" also ends an unclosed array
			return list
		case o == Keyword("]"):
			continue
		}
		if n := len(list); o == Keyword("R") && n >= 2 {
			num, ok1 := list[n-2].(int64)
			gen, ok2 := list[n-1].(int64)
			if ok1 && ok2 && num > 0 && gen >= 0 {
				list, o = list[:n-2], Ref{int(num), int(gen)}
			}
		}
		if l.elements++; l.elements <= maxElements {
			list = append(list, o)
		}
	}
	return list
}

func (l *Lexer) dict(depth int) Dict {
	list := l.list(depth, ">>")
	d := Dict{}
	for i := 0; i+1 < len(list); i++ {
		if key, ok := list[i].(Name); ok {
			i++
			d[key] = list[i]
		}
	}
	return d
}

// regular reads up to white space or a delimiter.
func (l *Lexer) regular() []byte {
	start := l.pos
	for l.pos < len(l.data) && !isSpace(l.data[l.pos]) && !isDelimiter(l.data[l.pos]) {
		l.pos++
	}
	return l.data[start:l.pos]
}

// name reads a name, in which #20 is an escape like %20 in a URL.
func (l *Lexer) name() Name {
	raw := string(l.regular())
	name, err := url.PathUnescape(strings.ReplaceAll(raw, "#", "%"))
	if err != nil { // # is a plain character
		return Name(raw)
	}
	return Name(name)
}

// word reads a number, a keyword, true, false or null.
func (l *Lexer) word() Object {
	text := string(l.regular())
	if c := text[0]; c >= '0' && c <= '9' || c == '+' || c == '-' || c == '.' {
		return number(text)
	}
	switch text {
	case "true":
		return true
	case "false":
		return false
	case "null":
		return nil
	}
	return Keyword(text)
}

// numberPrefix matches the usable part of malformed numbers: "12-34", "1.2.3", "--5".
var numberPrefix = textutil.Pattern(`^[+-]?[0-9]*\.?[0-9]*`)

// number parses a number. It returns 0 if text is not a number.
func number(text string) Object {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return n
	}
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
		v, err = strconv.ParseFloat(numberPrefix().FindString(text), 64)
	}
	if err != nil {
		return int64(0)
	}
	return v
}

func isSpace(c byte) bool {
	return c == ' ' || c == '\n' || c == '\r' || c == '\t' || c == '\f' || c == 0
}

func isDelimiter(c byte) bool { return strings.IndexByte("()<>[]{}/%", c) >= 0 }

// literal reads a string in parentheses, after the opening one.
func (l *Lexer) literal() String {
	start, depth := l.pos, 1
	for ; l.pos < len(l.data) && depth > 0; l.pos++ {
		switch l.data[l.pos] {
		case '\\':
			l.pos++
		case '(':
			depth++
		case ')':
			depth--
		}
	}
	l.pos = min(l.pos, len(l.data))
	raw := l.data[start:l.pos]
	if depth == 0 {
		raw = raw[:len(raw)-1]
	}
	if bytes.ContainsAny(raw, "\\\r") {
		raw = escapes().ReplaceAllFunc(raw, unescape)
	}
	return String(raw)
}

// escapes matches escape sequences and line ends in strings.
var escapes = textutil.Pattern(`(?s)\\([0-7]{1,3}|\r\n|.)|\r\n?`)

// unescape returns the replacement of an escape sequence.
func unescape(escape []byte) []byte {
	if escape[0] == '\r' {
		return []byte("\n")
	}
	switch c := escape[1]; {
	case c == '\r' || c == '\n':
		return nil
	case c >= '0' && c <= '7':
		code, _ := strconv.ParseUint(string(escape[1:]), 8, 16) // always digits
		return []byte{byte(code)}
	case strings.IndexByte("nrtbf", c) >= 0:
		return []byte{"\n\r\t\b\f"[strings.IndexByte("nrtbf", c)]}
	}
	return escape[1:]
}

// hex reads a string in angle brackets, after the opening one. It skips characters that are not
// digits.
func (l *Lexer) hex() String {
	text, _, _ := bytes.Cut(l.data[l.pos:], []byte(">"))
	l.pos = min(len(l.data), l.pos+len(text)+1)
	digits := filterRunes(text, func(r rune) bool { return unicode.Is(unicode.ASCII_Hex_Digit, r) })
	if len(digits)%2 != 0 {
		digits = append(digits, '0')
	}
	b, _ := hex.AppendDecode(nil, digits) // always digits
	return String(b)
}

// filterRunes returns the characters of text for which keep is true.
func filterRunes(text []byte, keep func(rune) bool) []byte {
	return bytes.Map(func(r rune) rune {
		if keep(r) {
			return r
		}
		return -1
	}, text)
}
