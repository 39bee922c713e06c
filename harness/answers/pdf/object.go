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

// An Object is nil, bool, int64, float64, String, Name, Array, Dict, Ref or
// *Stream; while operators of a content stream are read also Keyword.
type Object any

// Name is a name without its slash.
type Name string

// String is a string of bytes.
type String string

// Keyword is a bare word: an operator, or obj and the like.
type Keyword string

// Array is a list of objects.
type Array []Object

// Dict is a dictionary.
type Dict map[Name]Object

// Ref points to an object.
type Ref struct{ Num, Gen int }

// Stream is a dictionary with bytes, still encoded.
type Stream struct {
	Dict Dict
	raw  []byte
	ref  Ref // for decryption; zero inside object streams
}

// maxDepth bounds references to references, and nesting of arrays and
// dictionaries.
const maxDepth = 64

// Resolve follows references; what cannot be found is nil.
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

// Dict resolves to a dictionary, also that of a stream; nil if it is none.
func (f *File) Dict(o Object) Dict {
	switch o := f.Resolve(o).(type) {
	case Dict:
		return o
	case *Stream:
		return o.Dict
	}
	return nil
}

// resolved is an object of one kind; zero if it is none.
func resolved[T Array | Name | String | *Stream](f *File, o Object) T {
	v, _ := f.Resolve(o).(T)
	return v
}

// Array resolves to an array; nil if it is none.
func (f *File) Array(o Object) Array { return resolved[Array](f, o) }

// Name resolves to a name; "" if it is none.
func (f *File) Name(o Object) Name { return resolved[Name](f, o) }

// Stream resolves to a stream; nil if it is none.
func (f *File) Stream(o Object) *Stream { return resolved[*Stream](f, o) }

// Number resolves to an integer or a real.
func (f *File) Number(o Object) (float64, bool) {
	switch o := f.Resolve(o).(type) {
	case int64:
		return float64(o), true
	case float64:
		return o, true
	}
	return 0, false
}

// Int resolves to a whole number; what is none is 0.
func (f *File) Int(o Object) int {
	v, _ := f.Number(o)
	return clampInt(v)
}

// numbers resolves to a list of so many numbers; nil if it is none.
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

// clampInt keeps what is computed with a hostile number from overflowing.
func clampInt(v float64) int {
	const most = 1 << 40
	return int(max(-most, min(v, most)))
}

// Lexer reads objects out of bytes. What is malformed is passed over: a Lexer
// always comes to the end.
type Lexer struct {
	data []byte
	pos  int
	kept int // elements of lists of the object that is read
}

// operations yields the operators of a content stream or a CMap, each with what stands
// before it: of a long list the end.
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

// endOfImage ends the bytes of an inline image.
var endOfImage = textutil.Pattern(`[ \n\r\t\f\x00]EI(?:[ \n\r\t\f\x00]|$)`)

// SkipImage passes over the bytes of an inline image, up to its EI.
func (l *Lexer) SkipImage() {
	rest := l.data[l.pos:]
	end := len(rest)
	if at := endOfImage().FindIndex(rest); at != nil {
		end = at[0] + len(" EI")
	}
	l.pos += end
}

// maxKept bounds the elements of all lists of one object; the largest real ones
// have some ten thousand. What follows is passed over.
const maxKept = 1 << 20

// object reads one object, or a Keyword; ok is false at the end.
func (l *Lexer) object() (Object, bool) {
	l.kept = 0
	for {
		o, ok := l.token(0)
		if o != Keyword("]") && o != Keyword(">>") { // else it closes nothing
			return o, ok
		}
	}
}

// token reads one token, an array and a dictionary as a whole.
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

// skip passes over a byte where it comes next.
func (l *Lexer) skip(c byte) bool {
	next := l.pos < len(l.data) && l.data[l.pos] == c
	if next {
		l.pos++
	}
	return next
}

// space passes over white space and comments.
func (l *Lexer) space() {
	for comment := false; l.pos < len(l.data); l.pos++ {
		c := l.data[l.pos]
		comment = (comment || c == '%') && c != '\n' && c != '\r'
		if !comment && !isSpace(c) {
			return
		}
	}
}

// list reads up to a closing bracket; a list deeper than maxDepth is empty, and what it
// has belongs to the one around it.
func (l *Lexer) list(depth int, end Keyword) []Object {
	var list []Object
	for depth < maxDepth {
		o, ok := l.token(depth + 1)
		switch {
		case !ok, o == Object(end), o == Keyword(">>"), o == Keyword("endobj"): // ">>" ends an array that was not closed
			return list
		case o == Keyword("]"):
			continue
		}
		if n := len(list); o == Keyword("R") && n >= 2 {
			if ref, ok := reference(list[n-2:]); ok {
				list, o = list[:n-2], ref
			}
		}
		if l.kept++; l.kept <= maxKept {
			list = append(list, o)
		}
	}
	return list
}

func reference(two []Object) (Ref, bool) {
	num, ok1 := two[0].(int64)
	gen, ok2 := two[1].(int64)
	return Ref{int(num), int(gen)}, ok1 && ok2 && num > 0 && gen >= 0
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

// regular reads up to a space or a delimiter.
func (l *Lexer) regular() []byte {
	start := l.pos
	for l.pos < len(l.data) && !isSpace(l.data[l.pos]) && !isDelimiter(l.data[l.pos]) {
		l.pos++
	}
	return l.data[start:l.pos]
}

// name reads a name, in which #20 stands for a byte as %20 does in an address.
func (l *Lexer) name() Name {
	raw := string(l.regular())
	name, err := url.PathUnescape(strings.ReplaceAll(raw, "#", "%"))
	if err != nil { // a # stands for itself
		return Name(raw)
	}
	return Name(name)
}

// word reads a number or a keyword.
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

// numberAtStart is what there is of a number in "12-34", "1.2.3" and "--5".
var numberAtStart = textutil.Pattern(`^[+-]?[0-9]*\.?[0-9]*`)

// number reads a number; what is none is 0.
func number(text string) Object {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return n
	}
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
		v, err = strconv.ParseFloat(numberAtStart().FindString(text), 64)
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

// literal reads a string in parentheses, the first of which was read.
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
		raw = escapes().ReplaceAllFunc(raw, unescaped)
	}
	return String(raw)
}

// escapes are what follows a backslash, and the ends of lines.
var escapes = textutil.Pattern(`(?s)\\([0-7]{1,3}|\r\n|.)|\r\n?`)

// unescaped is what one of the escapes stands for.
func unescaped(escape []byte) []byte {
	if escape[0] == '\r' {
		return []byte("\n")
	}
	switch c := escape[1]; {
	case c == '\r' || c == '\n':
		return nil
	case c >= '0' && c <= '7':
		code, _ := strconv.ParseUint(string(escape[1:]), 8, 16) // they are digits
		return []byte{byte(code)}
	case strings.IndexByte("nrtbf", c) >= 0:
		return []byte{"\n\r\t\b\f"[strings.IndexByte("nrtbf", c)]}
	}
	return escape[1:]
}

// hex reads a string in angle brackets, the first of which was read; what is not a digit
// of it is passed over.
func (l *Lexer) hex() String {
	text, _, _ := bytes.Cut(l.data[l.pos:], []byte(">"))
	l.pos = min(len(l.data), l.pos+len(text)+1)
	digits := only(text, func(r rune) bool { return unicode.Is(unicode.ASCII_Hex_Digit, r) })
	if len(digits)%2 != 0 {
		digits = append(digits, '0')
	}
	b, _ := hex.AppendDecode(nil, digits) // they are digits
	return String(b)
}

// only leaves out all characters that are not of a kind.
func only(text []byte, is func(rune) bool) []byte {
	return bytes.Map(func(r rune) rune {
		if is(r) {
			return r
		}
		return -1
	}, text)
}
