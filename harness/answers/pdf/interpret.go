package pdf

import "math"

// The limits of one page.
const (
	maxGlyphs = 400_000
	maxForms  = 12  // forms within forms
	maxState  = 256 // of q without Q
	usualText = 8   // bytes that a glyph stands for at most, but for a few; more cost
)

// glyph is a piece of text where it is shown. Text runs to the right along x
// after the page was turned by direction quarters.
type glyph struct {
	text      string
	x, y      float64 // of its origin
	width     float64
	size      float64
	direction int // quarters of a turn counter-clockwise
}

// state is what q saves.
type state struct {
	ctm                       matrix
	font                      *font
	size, charSpace           float64
	wordSpace, scale, leading float64
	rise                      float64
}

// interpreter walks the operators of a page.
type interpreter struct {
	file   *File
	fonts  map[Ref]*font
	glyphs []glyph
	images float64 // area covered, in points²
	full   bool    // there were more than maxGlyphs
	state
	stack     []state
	tm, line  matrix
	forms     int
	resources Dict
}

// run carries out the operators of a content stream, which may have resources of its own.
func (in *interpreter) run(content []byte, resources Dict) {
	saved := in.resources
	defer func() { in.resources = saved }()
	if resources != nil {
		in.resources = resources
	}
	l := &Lexer{data: content}
	for word, args := range l.operations() {
		if in.full || in.file.spent != nil {
			return
		}
		if word == "ID" {
			l.SkipImage()
			in.images += in.ctm.area()
			continue
		}
		in.operator(string(word), args)
	}
}

// area is that of a picture.
func (m matrix) area() float64 { return math.Hypot(m[0], m[1]) * math.Hypot(m[2], m[3]) }

func (in *interpreter) operator(op string, args []Object) {
	n := func(i int) float64 { // the i-th argument from the end, from 1
		if i > len(args) {
			return 0
		}
		v, _ := in.file.Number(args[len(args)-i])
		return max(-1e8, min(v, 1e8))
	}
	switch op {
	case "q":
		if len(in.stack) < maxState {
			in.stack = append(in.stack, in.state)
		}
	case "Q":
		if top := len(in.stack) - 1; top >= 0 {
			in.state, in.stack = in.stack[top], in.stack[:top]
		}
	case "cm":
		in.transform(matrix{n(6), n(5), n(4), n(3), n(2), n(1)})
	case "BT":
		in.tm, in.line = unit, unit
	case "Tc":
		in.charSpace = n(1)
	case "Tw":
		in.wordSpace = n(1)
	case "Tz":
		in.scale = n(1) / 100
	case "TL":
		in.leading = n(1)
	case "Ts":
		in.rise = n(1)
	case "Tf":
		in.setFont(args, n(1))
	case "TD":
		in.leading = -n(1)
		fallthrough
	case "Td":
		in.startLine(moved(n(2), n(1)).times(in.line))
	case "T*":
		in.nextLine()
	case "Tm":
		in.startLine(matrix{n(6), n(5), n(4), n(3), n(2), n(1)})
	case "\"":
		in.wordSpace, in.charSpace = n(3), n(2)
		fallthrough
	case "'":
		in.nextLine()
		fallthrough
	case "Tj", "TJ":
		in.showAll(args)
	case "Do":
		in.draw(args)
	}
}

// transform puts a map before that of the page.
func (in *interpreter) transform(m matrix) {
	if m = m.times(in.ctm); m.finite() {
		in.ctm = m
	}
}

func (in *interpreter) startLine(m matrix) {
	if m.finite() {
		in.tm, in.line = m, m
	}
}

func (in *interpreter) nextLine() { in.startLine(moved(0, -in.leading).times(in.line)) }

func (in *interpreter) setFont(args []Object, size float64) {
	in.size = size
	if len(args) < 2 {
		return
	}
	name, _ := args[len(args)-2].(Name)
	entry := in.file.Dict(in.resources["Font"])[name]
	ref, shared := entry.(Ref)
	d := in.file.Dict(entry)
	if in.font = in.fonts[ref]; in.font == nil && (shared || d != nil) {
		in.font = openFont(in.file, d)
	}
	if shared {
		in.fonts[ref] = in.font
	}
}

// showAll shows a string, or a list of strings with moves between them.
func (in *interpreter) showAll(args []Object) {
	if len(args) == 0 {
		return
	}
	first := len(in.glyphs)
	defer func() { in.close(in.glyphs[first:]) }()
	switch o := args[len(args)-1].(type) {
	case String:
		in.show(o)
	case Array:
		for _, item := range o {
			if s, ok := item.(String); ok {
				in.show(s)
			} else if v, ok := in.file.Number(item); ok {
				in.advance(-v / 1000 * in.size * in.scale)
			}
		}
	}
}

func (in *interpreter) advance(x float64) {
	if m := moved(x, 0).times(in.tm); m.finite() {
		in.tm = m
	}
}

// show places the glyphs of a string, one code after the other: a string may be as long
// as its stream.
func (in *interpreter) show(s String) {
	if in.font == nil {
		in.font = &font{scale: 0.001}
	}
	for size := 1; len(s) > 0; s = s[size:] {
		if len(in.glyphs) >= maxGlyphs {
			in.full = true
			return
		}
		if in.font.composite {
			size = min(2, len(s))
		}
		code := codeOf(s[:size])
		text := in.font.text(code)
		width := in.font.width(code, text) * in.font.scale * in.size
		in.place(text, width)
		step := width + in.charSpace
		if size == 1 && code == ' ' {
			step += in.wordSpace
		}
		in.advance(step * in.scale)
	}
}

// place appends one glyph, in the frame of its direction.
func (in *interpreter) place(text string, width float64) {
	m := in.tm.times(in.ctm)
	g := glyph{
		text: text, size: math.Hypot(m[2], m[3]) * math.Abs(in.size),
		width: math.Hypot(m[0], m[1]) * math.Abs(width*in.scale),
		x:     m[2]*in.rise + m[4], y: m[3]*in.rise + m[5],
	}
	quarters := math.Atan2(m[1]*in.size, m[0]*in.size) / (math.Pi / 2)
	g.direction = int(math.RoundToEven(quarters)) & 3
	for range g.direction {
		g.x, g.y = g.y, -g.x
	}
	if n := len(g.text); n > usualText && !in.file.Spend(int64(n)) {
		return
	}
	if math.Abs(g.x) < 1e8 && math.Abs(g.y) < 1e8 && g.size > 0.1 && g.size < 1e5 {
		in.glyphs = append(in.glyphs, g)
	}
}

// draw shows an image, or carries out a form.
func (in *interpreter) draw(args []Object) {
	if len(args) == 0 {
		return
	}
	name, _ := args[len(args)-1].(Name)
	s := in.file.Stream(in.file.Dict(in.resources["XObject"])[name])
	if s == nil {
		return
	}
	kind := in.file.Name(s.Dict["Subtype"])
	if kind == "Image" {
		in.images += in.ctm.area()
	}
	if kind != "Form" || in.forms >= maxForms || !in.file.Spend(4096) {
		return
	}
	content, _ := in.file.Decode(s) // what could be decoded is shown
	saved, depth := in.state, len(in.stack)
	if list := in.file.numbers(s.Dict["Matrix"], 6); list != nil {
		in.transform(matrix(list))
	}
	in.forms++
	in.run(content, in.file.Dict(s.Dict["Resources"]))
	in.forms--
	in.state, in.stack = saved, in.stack[:min(depth, len(in.stack))]
}

// matrix is an affine map: x' = a·x + c·y + e, y' = b·x + d·y + f.
type matrix [6]float64

var unit = moved(0, 0)

func moved(x, y float64) matrix { return matrix{1, 0, 0, 1, x, y} }

// times returns the map that does m first and then n.
func (m matrix) times(n matrix) matrix {
	return matrix{
		m[0]*n[0] + m[1]*n[2], m[0]*n[1] + m[1]*n[3],
		m[2]*n[0] + m[3]*n[2], m[2]*n[1] + m[3]*n[3],
		m[4]*n[0] + m[5]*n[2] + n[4], m[4]*n[1] + m[5]*n[3] + n[5],
	}
}

// finite reports whether nothing overflowed.
func (m matrix) finite() bool {
	for _, v := range m {
		if !(math.Abs(v) < 1e9) {
			return false
		}
	}
	return true
}

// turned returns the map that shows a page as it is to be looked at: with its
// corner at the origin, turned clockwise by 0, 90, 180 or 270 degrees.
func turned(box [4]float64, degrees int) matrix {
	m := moved(-box[0], -box[1])
	width, height := box[2]-box[0], box[3]-box[1]
	for range degrees / 90 {
		m = m.times(matrix{0, -1, 1, 0, 0, width})
		width, height = height, width
	}
	return m
}
