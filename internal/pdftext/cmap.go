package pdftext

import (
	"sort"
	"unicode/utf16"
	"unicode/utf8"

	"extraction-experiment/internal/pdf"
)

// cmap maps character codes to text (ToUnicode), or to glyph numbers.
type cmap struct {
	spaces []codespace
	ranges []codeRange // by low
}

// size is how many ranges a map has; none if there is no map.
func (c *cmap) size() int {
	if c == nil {
		return 0
	}
	return len(c.ranges)
}

// codespace says how many bytes the codes of a range have.
type codespace struct {
	bytes     int
	low, high uint32
}

// codeRange maps low..high: to list, else to text whose last unit is stepped,
// else to cid+n.
type codeRange struct {
	low, high uint32
	text      []uint16
	list      [][]uint16
	cid       uint32
	toCID     bool
}

// maxRanges bounds a map; the real ones have a few thousand.
const maxRanges = 300_000

// parseCMap reads what matters of a CMap program. Whatever is not understood
// is passed over.
func parseCMap(data []byte) *cmap {
	c := &cmap{}
	l := pdf.NewLexer(data)
	var args []pdf.Object
	for len(c.ranges) < maxRanges {
		o, ok := l.Next()
		if !ok {
			break
		}
		word, isWord := o.(pdf.Keyword)
		if !isWord {
			if args = append(args, o); len(args) > 1000 {
				args = args[500:]
			}
			continue
		}
		switch word {
		case "endcodespacerange":
			c.addSpaces(args)
		case "endbfchar":
			c.addChars(args)
		case "endbfrange":
			c.addRanges(args)
		case "endcidchar":
			c.addCIDs(args, 2)
		case "endcidrange":
			c.addCIDs(args, 3)
		}
		args = args[:0]
	}
	sort.SliceStable(c.ranges, func(i, j int) bool { return c.ranges[i].low < c.ranges[j].low })
	return c
}

func (c *cmap) addSpaces(args []pdf.Object) {
	for i := 0; i+1 < len(args) && len(c.spaces) < 100; i += 2 {
		low, ok1 := args[i].(pdf.String)
		high, ok2 := args[i+1].(pdf.String)
		if ok1 && ok2 && len(low) == len(high) && len(low) >= 1 && len(low) <= 4 {
			c.spaces = append(c.spaces, codespace{len(low), codeOf(low), codeOf(high)})
		}
	}
}

func (c *cmap) addChars(args []pdf.Object) {
	for i := 0; i+1 < len(args); i += 2 {
		code, ok := args[i].(pdf.String)
		if text := unitsOf(args[i+1]); ok && text != nil {
			c.ranges = append(c.ranges, codeRange{low: codeOf(code), high: codeOf(code), text: text})
		}
	}
}

func (c *cmap) addRanges(args []pdf.Object) {
	for i := 0; i+2 < len(args); i += 3 {
		low, ok1 := args[i].(pdf.String)
		high, ok2 := args[i+1].(pdf.String)
		if !ok1 || !ok2 || codeOf(high) < codeOf(low) {
			continue
		}
		r := codeRange{low: codeOf(low), high: codeOf(high)}
		if list, ok := args[i+2].(pdf.Array); ok {
			for _, o := range list {
				r.list = append(r.list, unitsOf(o))
			}
		} else if r.text = unitsOf(args[i+2]); r.text == nil {
			continue
		}
		c.ranges = append(c.ranges, r)
	}
}

func (c *cmap) addCIDs(args []pdf.Object, each int) {
	for i := 0; i+each-1 < len(args); i += each {
		low, ok1 := args[i].(pdf.String)
		high, ok2 := args[i+each-2].(pdf.String)
		cid, ok3 := args[i+each-1].(int64)
		if ok1 && ok2 && ok3 && cid >= 0 && cid < 1<<20 && codeOf(high) >= codeOf(low) {
			c.ranges = append(c.ranges, codeRange{low: codeOf(low), high: codeOf(high), cid: uint32(cid), toCID: true})
		}
	}
}

func codeOf(s pdf.String) uint32 {
	v := uint32(0)
	for i := 0; i < len(s) && i < 4; i++ {
		v = v<<8 | uint32(s[i])
	}
	return v
}

// unitsOf reads UTF-16; nil for what is no string.
func unitsOf(o pdf.Object) []uint16 {
	s, ok := o.(pdf.String)
	if !ok || len(s) > 256 {
		return nil
	}
	if len(s) == 1 {
		return []uint16{uint16(s[0])}
	}
	units := make([]uint16, 0, len(s)/2)
	for i := 0; i+1 < len(s); i += 2 {
		units = append(units, uint16(s[i])<<8|uint16(s[i+1]))
	}
	return units
}

// find returns the last range that begins at or before a code and holds it;
// ranges rarely overlap, so only a few are looked at.
func (c *cmap) find(code uint32) (codeRange, bool) {
	at := sort.Search(len(c.ranges), func(i int) bool { return c.ranges[i].low > code })
	for i := at - 1; i >= 0 && i >= at-16; i-- {
		if r := c.ranges[i]; code <= r.high {
			return r, true
		}
	}
	return codeRange{}, false
}

// text returns what a code stands for. The last 16-bit unit of a range's text
// is stepped as a whole: stepping only its last byte is what turns Cyrillic
// into nonsense elsewhere.
func (c *cmap) text(code uint32) (string, bool) {
	r, ok := c.find(code)
	if !ok || r.toCID {
		return "", false
	}
	n := code - r.low
	units := r.text
	switch {
	case r.list != nil:
		if int(n) >= len(r.list) || r.list[n] == nil {
			return "", false
		}
		units = r.list[n]
	case n > 0 && len(units) > 0:
		units = append([]uint16(nil), units...)
		units[len(units)-1] += uint16(n)
	}
	runes := utf16.Decode(units)
	for _, r := range runes {
		if r == utf8.RuneError {
			return "", false
		}
	}
	return string(runes), true
}

// next takes one code off a string: of 1 to 4 bytes as the codespaces say.
func (c *cmap) next(s pdf.String, fallback int) (code uint32, size int) {
	for size := 1; size <= 4 && size <= len(s); size++ {
		code := codeOf(s[:size])
		for _, space := range c.spaces {
			if space.bytes == size && inSpace(code, space) {
				return code, size
			}
		}
	}
	size = min(fallback, len(s))
	return codeOf(s[:size]), size
}

// inSpace compares byte by byte, as codespaces are rectangles.
func inSpace(code uint32, s codespace) bool {
	for shift := 0; shift < 8*s.bytes; shift += 8 {
		c := code >> shift & 255
		if c < s.low>>shift&255 || c > s.high>>shift&255 {
			return false
		}
	}
	return true
}
