package pdf

// An Object is nil, bool, int64, float64, String, Name, Array, Dict, Ref or
// *Stream; while operators of a content stream are read also Keyword.
type Object any

// Name is a name without its slash.
type Name string

// String is a string of bytes, decrypted.
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

// Array resolves to an array; nil if it is none.
func (f *File) Array(o Object) Array {
	a, _ := f.Resolve(o).(Array)
	return a
}

// Name resolves to a name; "" if it is none.
func (f *File) Name(o Object) Name {
	n, _ := f.Resolve(o).(Name)
	return n
}

// Stream resolves to a stream; nil if it is none.
func (f *File) Stream(o Object) *Stream {
	s, _ := f.Resolve(o).(*Stream)
	return s
}

// Number resolves to a number.
func (f *File) Number(o Object) (float64, bool) { return Number(f.Resolve(o)) }

// Int resolves to a whole number; what is none is 0.
func (f *File) Int(o Object) int {
	v, _ := f.Number(o)
	return clampInt(v)
}

// Number returns the value of an integer or a real.
func Number(o Object) (float64, bool) {
	switch o := o.(type) {
	case int64:
		return float64(o), true
	case float64:
		return o, true
	}
	return 0, false
}

// clampInt keeps what is computed with a hostile number from overflowing.
func clampInt(v float64) int {
	const most = 1 << 40
	return int(max(-most, min(v, most)))
}
