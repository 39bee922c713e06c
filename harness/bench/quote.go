package bench

import (
	"slices"

	"extraction-experiment/pipeline/ground"
)

// The offset modes of records, with the other names that they have.
const (
	ModeUTF16 = "utf16_code_unit" // or utf16
	ModeRune  = "rune"            // or code_point
	ModeByte  = "byte"            // or utf8_byte
)

// Code says in which way a record does not quote the document.
type Code string

// The codes, in the order in which they are looked for.
const (
	UnsupportedMode Code = "UNSUPPORTED_OFFSET_MODE" // none of the three
	InvalidOffsets  Code = "INVALID_OFFSETS"         // missing, no whole numbers, negative, or the end not behind the start
	OutOfRange      Code = "OFFSETS_OUT_OF_RANGE"    // beyond the end of the document
	OffsetMismatch  Code = "OFFSET_MISMATCH"         // inside a character, or stated twice and differently
	QuoteMismatch   Code = "QUOTE_MISMATCH"          // the document has something else there
)

// Codes lists every code.
func Codes() []Code {
	return []Code{UnsupportedMode, InvalidOffsets, OutOfRange, OffsetMismatch, QuoteMismatch}
}

// unitOf returns what an offset mode counts.
func unitOf(mode string) (ground.Unit, bool) {
	switch mode {
	case ModeUTF16, "utf16":
		return ground.UTF16, true
	case ModeRune, "code_point":
		return ground.CodePoints, true
	case ModeByte, "utf8_byte":
		return ground.Bytes, true
	}
	return 0, false
}

// Spans are the offsets of one stretch of the document in every mode, start and
// end (exclusive).
type Spans struct {
	UTF16 [2]int `json:"utf16"`
	Rune  [2]int `json:"rune"`
	Byte  [2]int `json:"byte"`
}

// checker checks quotes of one document.
type checker struct{ offsets *ground.Offsets }

func newChecker(text string) checker { return checker{ground.NewOffsets(text)} }

// quote checks whether the document has the quote at these offsets: the slice
// from start to end, counted in mode, equals the quote. It returns the offsets
// in every mode where they name a stretch of the document at all, and the code
// of the first thing that is wrong, "" for none.
func (c checker) quote(mode string, start, end *int, quote string) (*Spans, Code) {
	unit, ok := unitOf(mode)
	switch {
	case !ok:
		return nil, UnsupportedMode
	case start == nil || end == nil || *start < 0 || *end <= *start:
		return nil, InvalidOffsets
	case *end > c.offsets.Len(unit):
		return nil, OutOfRange
	}
	var s Spans
	for i, n := range []int{*start, *end} {
		var between [3]bool
		s.UTF16[i], between[0] = c.offsets.Convert(n, unit, ground.UTF16)
		s.Rune[i], between[1] = c.offsets.Convert(n, unit, ground.CodePoints)
		s.Byte[i], between[2] = c.offsets.Convert(n, unit, ground.Bytes)
		if slices.Contains(between[:], false) {
			return nil, OffsetMismatch
		}
	}
	if there, ok := c.offsets.Slice(s.Rune[0], s.Rune[1]); !ok || there != quote {
		return &s, QuoteMismatch
	}
	return &s, ""
}
